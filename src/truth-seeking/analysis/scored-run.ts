/**
 * Input of analyzers: the scores of one strategy over the trajectories of one run, with their
 * setup.
 */
import { z } from 'zod';
import { canonicalJson } from '../../canonical-json.js';
import { groupBy } from '../../statistics/paired.js';
import { mean } from '../../statistics/index.js';
import { clusteredInterval } from '../../statistics/regression.js';
import { DIRECTIONS } from '../score.js';

const name = z.string().min(1).max(400);
const figure = z.number();

/** Setup that runs must share to be compared, so that only policies differ. */
export const setupSchema = z.strictObject({
  strategy: name,
  /** Id of the strategy's settings, equal for runs that were scored alike. */
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
   * Group of related problems, which are not independent observations. Default: the problem itself.
   */
  group: name.optional(),
  score: figure,
  /**
   * Features that a score may depend on in addition to the setup: number of steps, length,
   * difficulty.
   */
  features: z.record(name, z.union([figure, name])).default({}),
});

const scoredRunSchema = z.strictObject({
  runId: name,
  /** The same for the same model and adapter, whatever the seed of the run. */
  policyId: name,
  /** Display name of the policy. */
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
   * How the value follows from the trajectories' scores: as their mean, or as their sum, like a
   * slope from its parts.
   */
  aggregate: z.enum(['mean', 'sum']),
  scores: z.array(scoredTrajectorySchema),
});
export type ScoredRun = z.output<typeof scoredRunSchema>;

export const setupKey = (setup: Setup): string => canonicalJson({ ...setup });

/** True if the runs differ only in setup and policy. */
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
 * Makes scores comparable: replaces a signed score that is best at 0 by its distance from 0 on each
 * trajectory, so that following users on one question and opposing them on the next is no better
 * than following them on both. Parts of a slope stay unchanged.
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

/** Returns a function from a problem id to its group. */
export function groupOfProblem(runs: readonly ScoredRun[]): (problemId: string) => string {
  const groups = new Map(
    runs
      .flatMap((run) => run.scores)
      .map(({ problemId, group }) => [problemId, group ?? problemId]),
  );
  return (problemId) => groups.get(problemId) ?? problemId;
}

/** Joins two maps: the shared ids in order, their values, and the number of unshared ids. */
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
