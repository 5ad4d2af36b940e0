import { dictionary, type Dictionary } from '../dictionary.js';
import { summarise, SUMMARY_SEED, type Summary } from '../statistics/index.js';
import type { OpenTask, Problem, VerdictKind } from '../tasks/task.js';

/** Verdicts on the task's trivial policies, by policy in the order of the problems. */
export async function judgePolicies(task: OpenTask, problems: readonly Problem[]): Promise<Record<string, VerdictKind[]>> {
  const verdicts = dictionary<VerdictKind[]>();
  for (const policy of task.policies) {
    const kinds: VerdictKind[] = [];
    for (const problem of problems) kinds.push((await task.applyPolicy(policy, problem)).kind);
    verdicts[policy] = kinds;
  }
  return verdicts;
}

/** Accuracy of the task's trivial policies on given problems: what a model must exceed there to have learned anything. */
export async function evaluatePolicies(task: OpenTask, problems: readonly Problem[]): Promise<Dictionary<Summary>> {
  const verdicts = Object.entries(await judgePolicies(task, problems));
  return dictionary(
    verdicts.map(
      ([policy, kinds]) =>
        [
          policy,
          summarise(
            kinds.map((kind, i) => ({ tier: problems[i]!.tier, kind })),
            task.tiers,
            { seed: SUMMARY_SEED },
          ),
        ] as const,
    ),
  );
}
