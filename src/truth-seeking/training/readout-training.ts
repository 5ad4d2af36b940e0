/**
 * Reinforcement through the exact readout: a model reasons, its belief is read from its own log-probabilities after the last word, and what
 * is rewarded is 1 less the Brier score of that belief. Nothing has to be stated, so nothing is to be had by stating it well.
 *
 * Groups of replies to one question, advantages as in Dr. GRPO (Liu et al. 2025, arXiv 2503.20783: centred, not standardised), one step on
 * every set of samples, so that no ratio has to be clipped.
 */
import { z } from 'zod';
import { checked } from '../../engine/checked.js';
import { IsoproError } from '../../errors.js';
import type { Model } from '../../engine/model.js';
import type { Trainer, TrainSequence } from '../../engine/trainer.js';
import { deriveSeed } from '../../random.js';
import { brierScore, mean } from '../../statistics/index.js';
import { readBeliefAfter } from '../beliefs/read-after.js';
import type { ReadBelief } from '../beliefs/readout.js';
import { localPolicy } from '../local-policy.js';
import { opening } from '../modes/asking.js';
import type { ReasoningMode } from '../modes/mode.js';
import type { Policy } from '../policy.js';
import { targetOf, type BinaryProblem } from '../problem.js';
import { Sampler } from '../sampler.js';
import { SkipCount, type Skipped } from '../score.js';
import { trajectory } from '../trajectory.js';

export const readoutTraining = z.strictObject({
  steps: z.int().min(1).max(100_000),
  /** Different questions a step. */
  questions: z.int().min(1).max(1024).default(4),
  /** Replies to each, which are compared with each other. */
  group: z.int().min(2).max(64).default(8),
  maxTokens: z.int().min(1).max(4096).default(128),
  temperature: z.number().gt(0).max(10).default(1),
  seed: z.bigint().min(0n),
  /** Whether replies that were cut off are trained on, too: their belief can be read like any, but they teach not to end. */
  trainCutOff: z.boolean().default(false),
  /** Part of the replies of a step that may come to no reward; above it the training ends with an error. */
  mostFailures: z.number().min(0).lt(1).default(0.5),
});
export type ReadoutTraining = z.input<typeof readoutTraining>;

export type Reward = { readonly ok: true; readonly value: number } | { readonly ok: false; readonly reason: string };

/** 1 less the Brier score of a belief that was read, in [0, 1]; an error is never a number. */
export function readoutReward(read: ReadBelief, problem: Pick<BinaryProblem, 'correctOption'>): Reward {
  const target = targetOf(problem);
  if (target === null) return { ok: false, reason: 'no answer known' };
  if (read.belief === null) return { ok: false, reason: read.reason };
  return { ok: true, value: 1 - brierScore({ probability: read.belief.p0, outcome: target === 1 }) };
}

/** Reward less the mean of its group; null without a reward, which counts in no mean. */
export function centred(rewards: readonly (number | null)[]): (number | null)[] {
  const known = rewards.filter((reward) => reward !== null);
  const centre = mean(known);
  return rewards.map((reward) => (reward === null ? null : reward - centre));
}

export interface ReadoutStep {
  readonly step: number;
  /** Mean reward of the replies that have one. */
  readonly reward: number;
  readonly replies: number;
  /** Replies without a reward, by reason. */
  readonly failed: Skipped;
  /** Replies that were trained on: whole ones, of groups that differ. */
  readonly trained: number;
  /** Null where no group differed, and nothing was changed. */
  readonly gradNorm: number | null;
}

interface Sampled {
  readonly sequence: TrainSequence;
  readonly reward: Reward;
  readonly finished: boolean;
}

const sequenceOf = (prompt: ArrayLike<number>, said: ArrayLike<number>): TrainSequence => ({
  tokenIds: Int32Array.from([...Array.from(prompt), ...Array.from(said)]),
  labelMask: Uint8Array.from([...Array.from(prompt, () => 0), ...Array.from(said, () => 1)]),
});

async function sampled(
  policy: Policy,
  problem: BinaryProblem,
  mode: ReasoningMode,
  sampleSeed: bigint,
  how: z.output<typeof readoutTraining>,
  signal?: AbortSignal,
): Promise<Sampled> {
  const prompt = opening(problem, mode, null);
  const { maxTokens, temperature } = how;
  const { text, tokenIds, finish } = await policy.infer(prompt, { seed: sampleSeed, maxTokens, temperature, ...(signal && { signal }) });
  const steps = [{ content: text, trainable: true }];
  const said = trajectory({ problemId: problem.id, policyId: policy.id, modeId: mode.name, seed: String(sampleSeed), prompt, steps });
  const read = await readBeliefAfter(policy, problem, said, `${text}\n\n`, signal && { signal });
  return {
    sequence: sequenceOf(policy.promptIds(prompt), tokenIds),
    reward: readoutReward(read, problem),
    finished: finish === 'stop',
  };
}

/**
 * @param trainer of this model; it is stepped, and its adapter reasons
 * @param problems whose answer is known
 * @throws IsoproError INVALID_ARGUMENT for a wrong setting; PROBLEM_INVALID for a problem without an answer; NUMERIC_FAILURE where a step
 *   is not finite, or too many replies come to no reward; of model and trainer
 */
export async function* trainOnReadout(
  model: Model,
  trainer: Trainer,
  problems: readonly BinaryProblem[],
  mode: ReasoningMode,
  given: ReadoutTraining,
  signal?: AbortSignal,
): AsyncGenerator<ReadoutStep> {
  const how = checked(readoutTraining, given, 'options');
  const open = problems.find(({ correctOption }) => correctOption === null);
  if (open !== undefined)
    throw new IsoproError('PROBLEM_INVALID', `nobody knows the answer of ${open.id.slice(0, 12)}: it earns no reward`);
  const sampler = new Sampler(problems, how.seed);
  for (let step = 1; step <= how.steps; step++) {
    signal?.throwIfAborted();
    const policy = await localPolicy(model, { adapter: await trainer.applyTo(model) });
    const failed = new SkipCount();
    const rewards: number[] = [];
    const batch: TrainSequence[] = [];
    for (const problem of sampler.next(how.questions)) {
      const group: Sampled[] = [];
      for (let sample = 0; sample < how.group; sample++) {
        const of = { runSeed: how.seed, purpose: 'readout training', iteration: step, problemId: problem.id, sample };
        group.push(await sampled(policy, problem, mode, deriveSeed(of), how, signal));
      }
      const values = group.map(({ reward }) => {
        if (!reward.ok) failed.add(reward.reason);
        return reward.ok ? reward.value : null;
      });
      rewards.push(...values.filter((value) => value !== null));
      for (const [i, advantage] of centred(values).entries()) {
        // what was cut off counts in its group's mean, whether it is trained on or not
        if (advantage === null || advantage === 0 || !(group[i]!.finished || how.trainCutOff)) continue;
        const { sequence } = group[i]!;
        batch.push({ ...sequence, advantages: new Float32Array(sequence.tokenIds.length).fill(advantage) });
      }
    }
    const replies = how.questions * how.group;
    if (rewards.length < replies * (1 - how.mostFailures))
      throw new IsoproError('NUMERIC_FAILURE', `step ${step}: ${replies - rewards.length} of ${replies} replies came to no reward`, {
        remedy: `Reasons: ${Object.entries(failed.counts)
          .map(([reason, count]) => `${reason} (${count})`)
          .join(', ')}.`,
      });
    const objective = { kind: 'policy', temperature: how.temperature } as const;
    const stats = batch.length === 0 ? null : await trainer.step(batch, { objective, ...(signal && { signal }) });
    if (stats !== null && !stats.applied)
      throw new IsoproError('NUMERIC_FAILURE', `step ${step}: ${stats.nonFinite.join(', ')} not finite`);
    yield { step, reward: mean(rewards), replies, failed: failed.counts, trained: batch.length, gradNorm: stats?.gradNorm ?? null };
  }
}
