import { dictionary, type Dictionary } from '../dictionary.js';
import {
  figuresGiven,
  figuresOf,
  summarise,
  SUMMARY_SEED,
  type FigureName,
  type Figures,
  type Outcome,
  type Summary,
} from '../statistics/index.js';
import type { JudgeOptions, OpenTask, Problem, VerdictKind } from '../tasks/task.js';

/** Part of a verdict on the answer of a policy that is kept. */
export type PolicyVerdict = { readonly kind: VerdictKind } & Figures;

/**
 * Judges the trivial policies of the task; verdicts by policy, in the order of the problems.
 * @throws IsoproError TASK_INVALID, ABORTED
 */
export async function judgePolicies(
  task: OpenTask,
  problems: readonly Problem[],
  options: Pick<JudgeOptions, 'signal'> = {},
): Promise<Record<string, PolicyVerdict[]>> {
  const verdicts = dictionary<PolicyVerdict[]>();
  for (const policy of task.policies) {
    const judged = await Promise.all(
      problems.map((problem) => task.applyPolicy(policy, problem, options)),
    );
    verdicts[policy] = judged.map((verdict) => ({ kind: verdict.kind, ...figuresOf(verdict) }));
  }
  return verdicts;
}

/** @param figures figures to measure; default: those that any verdict of a policy has */
export function summarisePolicies(
  verdicts: Dictionary<readonly PolicyVerdict[]>,
  problems: readonly Problem[],
  tiers: OpenTask['tiers'],
  figures: readonly FigureName[] = figuresGiven(Object.values(verdicts).flat()),
): Dictionary<Summary> {
  const outcomes = (judged: readonly PolicyVerdict[]): Outcome[] =>
    judged.map((verdict, i) => ({ tier: problems[i]!.tier, ...verdict }));
  return dictionary(
    Object.entries(verdicts).map(
      ([policy, judged]) =>
        [policy, summarise(outcomes(judged), tiers, { seed: SUMMARY_SEED, figures })] as const,
    ),
  );
}

/**
 * Measures the accuracy of the trivial policies of the task on given problems. A model must exceed
 * it to have learned anything.
 */
export const evaluatePolicies = async (
  task: OpenTask,
  problems: readonly Problem[],
): Promise<Dictionary<Summary>> =>
  summarisePolicies(await judgePolicies(task, problems), problems, task.tiers);
