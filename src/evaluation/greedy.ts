import type { Backend, Reply } from '../backends/backend.js';
import { summarise, SUMMARY_SEED, type Outcome, type Summary } from '../statistics/index.js';
import type { OpenTask, Problem } from '../tasks/task.js';
import {
  sampleAndJudge,
  type EvaluationOptions,
  type JudgedAnswer,
  type JudgedAnswers,
} from './answers.js';

/** Verdict on the greedy answer to one problem. */
export interface GreedyOutcome extends Outcome, Pick<JudgedAnswer, 'why' | 'finish' | 'tokens'> {
  readonly formed: boolean;
  readonly problemId: string;
}

export interface GreedyEvaluation extends Omit<JudgedAnswers, 'judged'> {
  /** In the order of the problems. */
  readonly outcomes: readonly GreedyOutcome[];
  readonly summary: Summary;
}

/**
 * Evaluates greedy answers to every problem. An answer that is cut off fails; a verdict `none` is
 * in no denominator. With a local model, verdicts depend on the model, adapter, problems, options
 * and the arithmetic of the machine, not on a seed.
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
