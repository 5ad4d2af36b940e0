import { dictionary, type Dictionary } from '../dictionary.js';
import { abortError } from '../errors.js';
import { given } from '../given.js';
import { figuresOf, summarise, type Outcome, type Summary } from '../statistics/index.js';
import type { SetName } from './frozen-sets.js';
import { setProblems } from './set-problems.js';
import type { OpenTask, Problem } from './task.js';
import { seedOf } from './seed.js';

export interface BaselineOptions {
  /** Problems per tier; of a frozen set, the first ones. */
  readonly count: number;
  readonly seed: bigint;
  /** Absent: problems are generated. */
  readonly set?: SetName;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface Baselines {
  readonly task: string;
  readonly version: string;
  /** The frozen set's name, or `generated`. */
  readonly set: SetName | 'generated';
  /** Number of problems in total. */
  readonly problems: number;
  readonly policies: Dictionary<Summary>;
  /** Notes that explain the figures of a policy, e.g. that it is an exact solver. */
  readonly notes: Dictionary<string>;
}

/**
 * Measures the accuracy of every trivial policy of a task, by tier with intervals. A model must
 * exceed it to have learned anything.
 * @throws IsoproError ABORTED
 */
export async function measureBaselines(
  task: OpenTask,
  { count, seed, set, signal, onProgress }: BaselineOptions,
): Promise<Baselines> {
  const problems: Problem[] = [];
  const total = task.tiers.length * count * (1 + task.policies.length);
  let done = 0;
  const advance = async (): Promise<void> => {
    if (signal?.aborted === true) throw abortError('measuring the baselines was cancelled', signal);
    done++;
    if (done % 64 !== 0) return;
    onProgress?.(done, total);
    await new Promise((resume) => setImmediate(resume)); // leaves the event loop free
  };
  for (const tier of task.tiers) {
    if (set === undefined) {
      for (let sample = 0; sample < count; sample++) {
        problems.push(await task.generate(tier.id, seedOf(seed, 'baselines', tier.id, sample)));
        await advance();
      }
    } else
      problems.push(
        ...setProblems(task, set)
          .filter((problem) => problem.tier === tier.id)
          .slice(0, count),
      );
  }
  const policies = dictionary<Summary>();
  const cancelling = given({ signal });
  for (const policy of task.policies) {
    const outcomes: Outcome[] = [];
    for (const problem of problems) {
      const verdict = await task.applyPolicy(policy, problem, cancelling);
      outcomes.push({ tier: problem.tier, kind: verdict.kind, ...figuresOf(verdict) });
      await advance();
    }
    policies[policy] = summarise(outcomes, task.tiers, { seed });
  }
  onProgress?.(total, total);
  return {
    task: task.id,
    version: task.version,
    set: set ?? 'generated',
    problems: problems.length,
    policies,
    notes: task.policyNotes,
  };
}
