/**
 * Samples problems that a run would train on, to measure whether they can be learned from. Nothing
 * is trained.
 */
import { localBackend } from '../backends/local.js';
import type { Adapter } from '../engine/adapter.js';
import { contextOf } from '../engine/context-overflow.js';
import type { Model } from '../engine/model.js';
import { given } from '../given.js';
import { answer, samplingOf } from '../rollouts/answer.js';
import { planRollouts } from '../rollouts/plan.js';
import type { Unshown } from '../example-hint.js';
import { FailureTally, reasonOf, type Failures, type JudgedReplyText } from '../tasks/failures.js';
import type { OpenTask, Problem, PromptStyle, Tier } from '../tasks/task.js';
import { findTier } from '../tasks/tier.js';
import {
  calibrateTier,
  calibrationSample,
  recommend,
  type CalibrationGroup,
  type CalibrationSample,
  type Recommendation,
  type TierCalibration,
} from './calibration.js';
import { withQuestions } from './failure-examples.js';
import { wholeSets } from './evaluation-set.js';
import { longestReference } from './longest-reference.js';
import { Undrawn } from './exclusions.js';

export interface CalibrationOptions {
  /** Tiers to calibrate; default: the training tiers. */
  readonly tiers?: readonly string[];
  /** Problems per tier. */
  readonly problems: number;
  /** Samples per problem. */
  readonly samples: number;
  readonly seed: bigint;
  readonly style: PromptStyle;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly adapter?: Adapter | null;
  /** Kind of solved examples that could be shown but are not. */
  readonly unshown?: Unshown | null;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface Calibration {
  readonly tiers: readonly TierCalibration[];
  readonly recommended: Recommendation;
  /** Reasons why replies do not pass. */
  readonly failures: Failures;
  readonly replies: number;
  readonly seconds: number;
}

/**
 * Draws problems as the first iteration of a run with this seed does, without the evaluation sets,
 * and samples each several times.
 * @throws IsoproError TIER_UNKNOWN, ABORTED, and as OpenTask and Model
 */
export async function calibrate(
  model: Model,
  task: OpenTask,
  options: CalibrationOptions,
): Promise<Calibration> {
  const { problems, samples, seed, style, maxTokens, maxSequences, adapter, signal, onProgress } =
    options;
  const chosen =
    options.tiers?.map((id) => findTier(task.id, task.tiers, id)) ??
    task.tiers.filter(({ trains }) => trains);
  const held = await wholeSets(task);
  const excluded = new Undrawn(held, { model, task, style, maxTokens });
  const backend = localBackend(model);
  const asked: Problem[] = [];
  const groups: CalibrationGroup[] = [];
  const tiers: TierCalibration[] = [];
  const tally = new FailureTally();
  let seconds = 0;
  let done = 0;
  let mostTokens = contextOf(model.limits);
  for (const tier of chosen) {
    const counts = new Map([[tier.id, problems]]);
    const plan = await planRollouts({
      task,
      runSeed: seed,
      iteration: 1,
      counts,
      samples,
      excluded,
    });
    asked.push(...plan.map(({ problem }) => problem));
    for (const each of plan)
      mostTokens = Math.min(mostTokens, await excluded.roomFor(each.problem));
    const judged: CalibrationSample[][] = plan.map(() => []);
    /** [problems][samples] of replies: they finish in another order. */
    const reasons: JudgedReplyText[][] = plan.map(() => []);
    const started = performance.now();
    await answer(
      {
        backend,
        plan,
        ...samplingOf(task, options, maxSequences),
        ...given({ adapter, signal }),
      },
      (reply) => {
        const { promptIndex, sampleIndex, finish, text } = reply.rollout;
        judged[promptIndex]!.push(calibrationSample(reply));
        reasons[promptIndex]![sampleIndex] = {
          ...reasonOf(reply.judgement, finish),
          problemId: reply.problem.id,
          tier: tier.id,
          text,
        };
        done++;
        onProgress?.(done, chosen.length * problems * samples);
      },
    );
    for (const of of reasons) for (const each of of) tally.take(each);
    const took = (performance.now() - started) / 1000;
    const own = judged.map((each) => ({ tier: tier.id, samples: each }));
    groups.push(...own);
    tiers.push(calibrateTier(tier, own, samples, took));
    seconds += took;
  }
  const failures = await withQuestions(tally.failures, task, asked, style);
  const { reasons, ...recommendation } = recommend(tiers, groups, {
    samples,
    maxTokens,
    mostTokens,
    references: await longestReference(model, task, [...asked, ...held], style, signal),
    unshown: options.unshown ?? null,
  });
  const recommended = {
    ...recommendation,
    reasons: [...reasons, ...excluded.tooLong.values(), ...leftOut(task.tiers, chosen)],
  };
  return { tiers, recommended, failures, replies: done, seconds };
}

/** Names the training tiers that were not calibrated but that a run trains on. */
function leftOut(all: readonly Tier[], chosen: readonly Tier[]): string[] {
  const others = all.filter((tier) => tier.trains && !chosen.includes(tier)).map(({ id }) => id);
  return others.length === 0
    ? []
    : [`a run also trains on tiers that were not calibrated: ${others.join(', ')}`];
}
