import type { Backend, Reply } from '../backends/backend.js';
import { summarise, SUMMARY_SEED, type Outcome, type Summary } from '../statistics/index.js';
import type { FinishReason, OpenTask, Problem } from '../tasks/task.js';
import type { Failures } from '../tasks/failures.js';
import { sampleAndJudge, type EvaluationOptions } from './answers.js';

/** Verdict on the greedy answer to one problem. */
export interface GreedyOutcome extends Outcome {
  readonly problemId: string;
  readonly why: readonly string[];
  readonly formed: boolean;
  readonly finish: FinishReason;
  /** Sampled; null where the back end does not count. */
  readonly tokens: number | null;
}

export interface GreedyEvaluation {
  /** In the order of the problems. */
  readonly outcomes: readonly GreedyOutcome[];
  readonly summary: Summary;
  readonly failures: Failures;
  /** Null where the back end does not count. */
  readonly promptTokens: number | null;
  readonly sampledTokens: number | null;
}

/**
 * Greedy answers to every problem, each judged by the task; an answer that is cut off fails, a
 * verdict that could not be found is `none` and in no denominator. A local model's verdicts depend
 * on model, adapter, problems, options and the machine's arithmetic, on no seed.
 * @throws IsoproError BACKEND_INCAPABLE, BACKEND_REPLY_INVALID, ABORTED; what the back end throws
 */
export async function evaluateGreedy<R extends Reply>(
  backend: Backend<R>,
  task: OpenTask,
  problems: readonly Problem[],
  options: EvaluationOptions<R>,
): Promise<GreedyEvaluation> {
  const { judged, ...counted } = await sampleAndJudge(backend, task, problems, options, {
    samples: 1,
    temperature: 0,
    seed: 0n,
  });
  const outcomes = problems.map(
    ({ id, tier }, i): GreedyOutcome => ({ problemId: id, tier, ...judged[i]![0]! }),
  );
  return { outcomes, summary: summarise(outcomes, task.tiers, { seed: SUMMARY_SEED }), ...counted };
}
