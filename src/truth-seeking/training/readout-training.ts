/**
 * Reinforcement through the exact readout: a model reasons, its belief is read from its own
 * log-probabilities after the last word, and the reward is 1 minus the Brier score of that belief,
 * or how little the earlier belief predicted the change. Nothing has to be stated, so a skilful
 * statement gains nothing.
 *
 * Replies to one question form a group, with advantages as in Dr. GRPO (Liu et al. 2025, arXiv
 * 2503.20783: centred, not standardised). Each set of samples gets one step, so no ratio needs
 * clipping.
 */
import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { IsoproError } from '../../errors.js';
import type { TokenIds } from '../../engine/generate-request.js';
import { advantages } from '../../engine/group-advantages.js';
import type { Model } from '../../engine/model.js';
import { given } from '../../given.js';
import type { Trainer, TrainSequence } from '../../engine/trainer.js';
import { deriveSeed } from '../../random.js';
import { brierScore, mean } from '../../statistics/index.js';
import type { BeliefPath } from '../beliefs/belief.js';
import { readBeliefAfter } from '../beliefs/read-after.js';
import { beliefPath, readBeliefs, type ReadBelief } from '../beliefs/readout.js';
import { localReasoner } from '../local-reasoner.js';
import { opening } from '../modes/asking.js';
import type { ReasoningMode } from '../modes/mode.js';
import type { Reasoner, Reply } from '../reasoner.js';
import { targetOf, type BinaryProblem } from '../problem.js';
import { Sampler } from '../sampler.js';
import { SkipCount, type Skipped } from '../score.js';
import { martingaleRewards } from '../strategies/martingale-reward.js';
import { trajectory, type Trajectory } from '../trajectory.js';

/**
 * `accuracy`: 1 less the Brier score of the last belief. `martingale`: by how much a reply lowers
 * the squared slope of the change on the belief before, about the slope of the step's other
 * replies, both without what differs between wordings of the probe; it knows no answer, and pays a
 * little for any change, since never to change would be best without. A step of few replies has an
 * uncertain slope: its rewards are right on average, not one by one, and more questions a step make
 * them better.
 */
export const READOUT_REWARDS = ['accuracy', 'martingale'] as const;
export type ReadoutReward = (typeof READOUT_REWARDS)[number];
const MARTINGALE = { regularisation: 'squared', informative: 0.1 } as const;

export const readoutTraining = z.strictObject({
  reward: z.enum(READOUT_REWARDS).default('accuracy'),
  steps: z.int().min(1).max(100_000),
  /** Different questions a step. */
  questions: z.int().min(1).max(1024).default(4),
  /** Replies to each, which are compared with each other. */
  group: z.int().min(2).max(64).default(8),
  maxTokens: z.int().min(1).max(4096).default(128),
  temperature: z.number().gt(0).max(10).default(1),
  seed: z.bigint().min(0n),
  /**
   * Whether to train on replies that were cut off, too: their belief can be read, but they teach
   * the model not to end.
   */
  trainCutOff: z.boolean().default(false),
  /**
   * Part of a step's replies that may lack a reward; above it the training fails. Replies without a
   * slope do not count: such a step is skipped.
   */
  mostFailures: z.number().min(0).lt(1).default(0.5),
});
export type ReadoutTraining = z.input<typeof readoutTraining>;

export type Reward =
  | { readonly ok: true; readonly value: number }
  | { readonly ok: false; readonly reason: string };

/** 1 less the Brier score of a belief that was read, in [0, 1]; an error is never a number. */
export function readoutReward(
  read: ReadBelief,
  problem: Pick<BinaryProblem, 'correctOption'>,
): Reward {
  const target = targetOf(problem);
  if (target === null) return { ok: false, reason: 'no answer known' };
  if (read.belief === null) return { ok: false, reason: read.reason };
  return {
    ok: true,
    value: 1 - brierScore({ probability: read.belief.p0, outcome: target === 1 }),
  };
}

export interface ReadoutStep {
  readonly step: number;
  /** Mean reward of the replies that have one; null where none has. */
  readonly reward: number | null;
  readonly replies: number;
  /** Replies without a reward, by reason. */
  readonly failed: Skipped;
  /** Replies that were trained on: whole ones, of groups that differ. */
  readonly trained: number;
  /** Null where no group differed, and nothing was changed. */
  readonly gradNorm: number | null;
}

/** A prompt and a reply, of which the reply is trained on. */
function sequenceOf(prompt: TokenIds, said: TokenIds, advantage: number): TrainSequence {
  const tokenIds = Int32Array.from([...prompt, ...said]);
  return {
    tokenIds,
    labelMask: new Uint8Array(tokenIds.length).fill(1, prompt.length),
    advantages: new Float32Array(tokenIds.length).fill(advantage),
  };
}

interface Sampled {
  readonly problem: BinaryProblem;
  readonly reply: Reply;
  /** The reply as one step; of the whole step's replies none has this id twice. */
  readonly trajectory: Trajectory;
}

/** Samples `group` replies to each problem together; replies to one problem are adjacent. */
async function sampleReplies(
  reasoner: Reasoner & Required<Pick<Reasoner, 'inferMany'>>,
  problems: readonly BinaryProblem[],
  mode: ReasoningMode,
  step: number,
  { seed: runSeed, group, maxTokens, temperature }: z.output<typeof readoutTraining>,
  signal?: AbortSignal,
): Promise<Sampled[]> {
  const asked = problems.flatMap((problem) =>
    Array.from({ length: group }, (_, sample) => ({
      problem,
      messages: opening(problem, mode, null),
      seed: deriveSeed({
        runSeed,
        purpose: 'readout training',
        iteration: step,
        problemId: problem.id,
        sample,
      }),
    })),
  );
  const how = { maxTokens, temperature, ...given({ signal }) };
  const replies = await reasoner.inferMany(asked, how);
  return asked.map(({ problem, messages: prompt, seed }, i) => {
    const reply = replies[i]!;
    const made = trajectory({
      problemId: problem.id,
      policyId: reasoner.id,
      modeId: mode.name,
      seed: String(seed),
      prompt,
      steps: [{ content: reply.text, trainable: true }],
    });
    return { problem, reply, trajectory: made };
  });
}

/** A reward for each, in order. */
async function rewardsOf(
  reasoner: Reasoner,
  sampled: readonly Sampled[],
  reward: ReadoutReward,
  signal?: AbortSignal,
): Promise<readonly Reward[]> {
  const options = given({ signal });
  if (reward === 'accuracy') {
    const rewards: Reward[] = [];
    for (const { problem, reply, trajectory: of } of sampled) {
      const read = await readBeliefAfter(reasoner, problem, of, `${reply.text}\n\n`, options);
      rewards.push(readoutReward(read, problem));
    }
    return rewards;
  }
  const paths: (BeliefPath | string)[] = [];
  for (const [i, { problem, trajectory: of }] of sampled.entries()) {
    const path = beliefPath(await readBeliefs(reasoner, problem, of, options));
    paths.push(typeof path === 'string' ? path : { ...path, trajectoryId: String(i) });
  }
  const read = paths.filter((path) => typeof path !== 'string');
  const rewards = martingaleRewards(
    read,
    { change: 'difference', granularity: 'ends' },
    MARTINGALE,
  );
  return paths.map((path): Reward => {
    if (typeof path === 'string') return { ok: false, reason: path };
    const value = rewards.get(path.trajectoryId);
    return value === undefined ? { ok: false, reason: NO_SLOPE } : { ok: true, value };
  });
}

/**
 * Reason of a reply whose other replies have beliefs that vary only by noise: such a step teaches
 * nothing and does no harm.
 */
export const NO_SLOPE = 'the others have no slope';

export interface ReadoutControl {
  /** Steps that the trainer has taken already; the same ones are left out. Default 0. */
  readonly done?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * @param trainer of this model; it is stepped, and its adapter reasons
 * @param problems whose answer is known, where accuracy is rewarded
 * @throws IsoproError INVALID_ARGUMENT for a wrong setting; PROBLEM_INVALID for a problem without
 *   an answer; NUMERIC_FAILURE where a step is not finite, or too many replies come to no reward;
 *   of model and trainer
 */
export async function* trainOnReadout(
  model: Model,
  trainer: Trainer,
  problems: readonly BinaryProblem[],
  mode: ReasoningMode,
  options: ReadoutTraining,
  { done = 0, signal }: ReadoutControl = {},
): AsyncGenerator<ReadoutStep> {
  const how = checked(readoutTraining, options, 'options');
  const open =
    how.reward === 'accuracy' && problems.find(({ correctOption }) => correctOption === null);
  if (open)
    throw new IsoproError(
      'PROBLEM_INVALID',
      `problem ${open.id.slice(0, 12)} has no known answer, so it cannot be rewarded`,
    );
  const sampler = new Sampler(problems, how.seed);
  for (let step = 1; step <= how.steps; step++) {
    const questions = sampler.next(how.questions);
    if (step <= done) continue;
    signal?.throwIfAborted();
    const reasoner = await localReasoner(model, { adapter: await trainer.applyTo(model) });
    const sampled = await sampleReplies(reasoner, questions, mode, step, how, signal);
    const rewards = await rewardsOf(reasoner, sampled, how.reward, signal);
    const failed = new SkipCount();
    for (const reward of rewards) if (!reward.ok) failed.add(reward.reason);
    const values = rewards.map((reward) => (reward.ok ? reward.value : null));
    const known = values.filter((value) => value !== null);
    const replies = sampled.length;
    if (known.length + (failed.counts[NO_SLOPE] ?? 0) < replies * (1 - how.mostFailures))
      throw new IsoproError(
        'NUMERIC_FAILURE',
        `step ${step}: ${replies - known.length} of ${replies} replies have no reward`,
        {
          remedy: `Reasons: ${Object.entries(failed.counts)
            .map(([reason, count]) => `${reason} (${count})`)
            .join(', ')}.`,
        },
      );
    const ofReplies = questions.flatMap((_, i) =>
      advantages(values.slice(i * how.group, (i + 1) * how.group), false),
    );
    const batch = sampled.flatMap(
      ({ reply: { tokenIds, finish }, trajectory: { prompt } }, i): TrainSequence[] => {
        const advantage = ofReplies[i]!;
        // what was cut off counts in its group's mean, whether it is trained on or not
        if (advantage === null || advantage === 0 || !(finish === 'stop' || how.trainCutOff))
          return [];
        return [sequenceOf(reasoner.promptIds(prompt), tokenIds, advantage)];
      },
    );
    const objective = { kind: 'policy', temperature: how.temperature } as const;
    const stats =
      batch.length === 0 ? null : await trainer.step(batch, { objective, ...given({ signal }) });
    if (stats !== null && !stats.applied)
      throw new IsoproError(
        'NUMERIC_FAILURE',
        `step ${step}: these values are not finite: ${stats.nonFinite.join(', ')}`,
      );
    await trainer.releaseBuffers(); // replies are sampled next, which takes the memory
    yield {
      step,
      reward: known.length === 0 ? null : mean(known),
      replies,
      failed: failed.counts,
      trained: batch.length,
      gradNorm: stats?.gradNorm ?? null,
    };
  }
}
