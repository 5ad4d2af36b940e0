import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import { summarise, SUMMARY_SEED, type Outcome, type Summary } from '../statistics/index.js';
import type { OpenTask, Problem } from '../tasks/task.js';
import { sampleAndJudge, type EvaluationOptions } from './answers.js';

/** Verdict on the greedy answer to one problem. */
export interface GreedyOutcome extends Outcome {
  readonly problemId: string;
  readonly finish: Rollout['finish'];
  /** Sampled. */
  readonly tokens: number;
}

export interface GreedyEvaluation {
  /** In the order of the problems. */
  readonly outcomes: readonly GreedyOutcome[];
  readonly summary: Summary;
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

/**
 * Greedy answers to every problem, each judged by the task; an answer that is cut off fails, a verdict that could not be found is `none`
 * and in no denominator. Verdicts depend on model, adapter, problems, options and the machine's arithmetic, on no seed.
 * @throws IsoproError CONTEXT_OVERFLOW, TEMPLATE_INVALID, NUMERIC_FAILURE, ADAPTER_MISMATCH, OUT_OF_MEMORY, ABORTED
 */
export async function evaluateGreedy(
  model: Model,
  task: OpenTask,
  problems: readonly Problem[],
  options: EvaluationOptions,
): Promise<GreedyEvaluation> {
  const { judged, ...tokens } = await sampleAndJudge(model, task, problems, options, { samples: 1, temperature: 0, seed: 0n });
  const outcomes = problems.map(({ id, tier }, i): GreedyOutcome => ({ problemId: id, tier, ...judged[i]![0]! }));
  return { outcomes, summary: summarise(outcomes, task.tiers, { seed: SUMMARY_SEED }), ...tokens };
}
