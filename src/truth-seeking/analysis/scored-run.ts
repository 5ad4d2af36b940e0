/**
 * What analyzers read: the scores of one strategy over one run's trajectories, with what they were
 * made under.
 */
import { z } from 'zod';
import { canonicalJson } from '../../canonical-json.js';
import { groupBy } from '../../statistics/paired.js';
import { mean } from '../../statistics/index.js';
import { clusteredInterval } from '../../statistics/regression.js';
import { DIRECTIONS } from '../score.js';

const name = z.string().min(1).max(400);
const figure = z.number();

/** What runs have to share to be compared: policies then differ alone. */
export const setupSchema = z.strictObject({
  strategy: name,
  /** Of the strategy's settings: an id that two runs share where they were scored alike. */
  config: name,
  domain: name,
  mode: name,
  /** Name of the system prompt. */
  systemPrompt: name,
});
export type Setup = z.output<typeof setupSchema>;

export const intervalSchema = z.strictObject({ low: figure, high: figure });

export const scoredTrajectorySchema = z.strictObject({
  trajectoryId: name,
  problemId: name,
  /**
   * Of problems that belong together, which are no independent observations. Default: the problem's
   * own.
   */
  group: name.optional(),
  score: figure,
  /** What a score may depend on beside the setup: number of steps, length, difficulty. */
  features: z.record(name, z.union([figure, name])).default({}),
});

const scoredRunSchema = z.strictObject({
  runId: name,
  /** The same for the same model and adapter, whatever the seed of the run. */
  policyId: name,
  /** What people call the policy. */
  policy: name,
  /** Decimal digits. */
  seed: z.string().regex(/^\d+$/),
  setup: setupSchema,
  /**
   * All else that decides on scores, such as how it was sampled; only between runs that share it is
   * a difference an effect.
   */
  conditions: z.string().optional(),
  direction: z.enum(DIRECTIONS),
  /** Null where nothing could be measured; `skipped` says why. */
  value: figure.nullable(),
  interval: intervalSchema.nullable(),
  n: z.int().min(0),
  skipped: z.record(name, z.int().min(0)),
  /**
   * How the value follows from the trajectories' scores: their mean; or their sum, as a slope does
   * from its parts.
   */
  aggregate: z.enum(['mean', 'sum']),
  scores: z.array(scoredTrajectorySchema),
});
export type ScoredRun = z.output<typeof scoredRunSchema>;

export const setupKey = (setup: Setup): string => canonicalJson({ ...setup });

/** Whether nothing but setup and policy tells them apart. */
export const areAlike = (runs: readonly ScoredRun[]): boolean =>
  new Set(runs.map(({ conditions }) => conditions)).size <= 1;

/**
 * Names of policies by their ids; two that are called alike have the beginning of their ids with
 * it.
 */
export function policyNames(runs: readonly ScoredRun[]): ReadonlyMap<string, string> {
  const names = new Map(runs.map(({ policyId, policy }) => [policyId, policy]));
  const shared = groupBy(
    [...names],
    ([, policy]) => policy,
    ([policyId]) => policyId,
  );
  return new Map(
    [...names].map(([id, policy]) => [
      id,
      shared.get(policy)!.length === 1 ? policy : `${policy} (${id.slice(0, 8)})`,
    ]),
  );
}

/** In the order of their keys. */
export function bySetup(
  runs: readonly ScoredRun[],
): { readonly setup: Setup; readonly runs: readonly ScoredRun[] }[] {
  const groups = groupBy(runs, ({ setup }) => setupKey(setup));
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, members]) => ({ setup: members[0]!.setup, runs: members }));
}

/** Mean score of each problem over all trajectories of these runs. */
export function byProblem(runs: readonly ScoredRun[]): Map<string, number> {
  const scores = groupBy(
    runs.flatMap((run) => run.scores),
    ({ problemId }) => problemId,
    ({ score }) => score,
  );
  return new Map([...scores].map(([problemId, values]) => [problemId, mean(values)]));
}

/**
 * What can be compared: of a signed score that is better the nearer it is to 0, its distance from 0
 * on each trajectory, so that a policy which follows users on one question and opposes them on the
 * next is no better than one that follows them on both. Parts of a slope stay as they are.
 */
export function towardsZero(runs: readonly ScoredRun[]): ScoredRun[] {
  return runs.map((run) => {
    if (run.direction !== 'zero' || run.aggregate !== 'mean') return run;
    const scores = run.scores.map((each) => ({ ...each, score: Math.abs(each.score) }));
    const values = scores.map(({ score }) => score);
    const interval = clusteredInterval(
      values,
      scores.map(({ problemId, group = problemId }) => group),
    );
    return {
      ...run,
      setup: { ...run.setup, config: `${run.setup.config} (distance from 0)`.slice(0, 400) },
      direction: 'lower',
      value: run.value === null || values.length === 0 ? null : mean(values),
      interval: interval && { low: Math.max(0, interval.low), high: interval.high },
      scores,
    };
  });
}

/** Of each problem the group that it belongs to. */
export function groupOfProblem(runs: readonly ScoredRun[]): (problemId: string) => string {
  const groups = new Map(
    runs
      .flatMap((run) => run.scores)
      .map(({ problemId, group }) => [problemId, group ?? problemId]),
  );
  return (problemId) => groups.get(problemId) ?? problemId;
}

/** What both have, in the order of ids, and how many only one of them has. */
export function joined(
  a: ReadonlyMap<string, number>,
  b: ReadonlyMap<string, number>,
): {
  readonly ids: readonly string[];
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly unmatched: number;
} {
  const ids = [...a.keys()].filter((id) => b.has(id)).sort();
  return {
    ids,
    x: ids.map((id) => a.get(id)!),
    y: ids.map((id) => b.get(id)!),
    unmatched: a.size + b.size - 2 * ids.length,
  };
}
