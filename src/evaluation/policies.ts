import { dictionary, type Dictionary } from '../dictionary.js';
import { summarise, type Outcome, type Summary } from '../statistics/index.js';
import type { OpenTask } from '../tasks/open-task.js';
import type { Problem } from '../tasks/task.js';
import { SUMMARY_SEED } from './answers.js';

/** Accuracy of the task's trivial policies on given problems: what a model must exceed there to have learned anything. */
export async function evaluatePolicies(task: OpenTask, problems: readonly Problem[]): Promise<Dictionary<Summary>> {
  const summaries = dictionary<Summary>();
  for (const policy of task.policies) {
    const outcomes: Outcome[] = [];
    for (const problem of problems) outcomes.push({ tier: problem.tier, kind: (await task.applyPolicy(policy, problem)).kind });
    summaries[policy] = summarise(outcomes, task.tiers, { seed: SUMMARY_SEED });
  }
  return summaries;
}
