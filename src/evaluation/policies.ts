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

/** What is kept of a verdict on a policy's answer. */
export type PolicyVerdict = { readonly kind: VerdictKind } & Figures;

/**
 * Verdicts on the task's trivial policies, by policy in the order of the problems.
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

/** @param figures those that are measured; default: those that any policy's verdict has */
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
 * Accuracy of the task's trivial policies on given problems: what a model must exceed there to have
 * learned anything.
 */
export const evaluatePolicies = async (
  task: OpenTask,
  problems: readonly Problem[],
): Promise<Dictionary<Summary>> =>
  summarisePolicies(await judgePolicies(task, problems), problems, task.tiers);
