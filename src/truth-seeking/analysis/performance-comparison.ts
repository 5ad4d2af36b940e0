/**
 * Policies of one setup from the best to the worst, in pairs, and against a figure of theirs from
 * outside.
 */
import { z } from 'zod';
import { mean, studentInterval } from '../../statistics/index.js';
import { groupBy } from '../../statistics/paired.js';
import { clusteredMean } from '../../statistics/regression.js';
import { DIRECTIONS } from '../score.js';
import { ranked } from '../training/selection.js';
import { adjusted, claimSchema, estimateOf, estimateSchema, multiplicitySchema } from './claim.js';
import { correlate, correlationSchema, isSkewed, outliersOf } from './correlation.js';
import {
  areAlike,
  byProblem,
  bySetup,
  groupOfProblem,
  intervalSchema,
  joined,
  policyNames,
  setupSchema,
  towardsZero,
  type ScoredRun,
} from './scored-run.js';

const place = z.strictObject({
  policy: z.string(),
  runs: z.int(),
  n: z.int(),
  value: z.number(),
  /** Over runs where there are several, with Student's t; else the run's own. */
  interval: intervalSchema.nullable(),
});
type Place = z.output<typeof place>;

const pair = z.strictObject({
  policies: z.tuple([z.string(), z.string()]),
  /** Problems that both were asked, and those that one was asked. */
  shared: z.int(),
  unmatched: z.int(),
  /** Mean over shared problems of the first's score less the second's. */
  difference: estimateSchema,
  claim: claimSchema,
});

const outside = z.strictObject({
  /** Policies that have a figure from outside. */
  points: z.array(
    z.strictObject({ policy: z.string(), x: z.number(), y: z.number(), group: z.string() }),
  ),
  correlation: correlationSchema,
  /**
   * Names of policies that move the line too much, and the correlation without them; null where
   * there are none.
   */
  outliers: z.array(z.string()),
  withoutOutliers: correlationSchema.nullable(),
  /** Within each group of more than one. */
  byGroup: z.record(z.string(), correlationSchema),
  logarithmic: z.strictObject({ x: z.boolean(), y: z.boolean() }),
  claim: z.literal('association'),
});

export const performanceSchema = z.strictObject({
  analyzer: z.literal('performance-comparison'),
  setups: z.array(
    z.strictObject({
      setup: setupSchema,
      direction: z.enum(DIRECTIONS),
      /** Best first. */
      ranking: z.array(place),
      /** Runs of which nothing could be measured. */
      unmeasured: z.int(),
      pairs: z.array(pair),
      outside: outside.nullable(),
    }),
  ),
  multiplicity: multiplicitySchema,
});
export type PerformanceComparison = z.output<typeof performanceSchema>;

export interface PerformanceOptions {
  /** Figures of policies from outside, by name: Elo, size. */
  readonly outside?: ReadonlyMap<string, number>;
  /** Groups of policies by what their names hold; who is in none is in `others`. */
  readonly groups?: ReadonlyMap<string, string>;
}

function placeOf(policy: string, runs: readonly ScoredRun[]): Place {
  const values = runs.map(({ value }) => value!);
  const n = runs.reduce((sum, run) => sum + run.n, 0);
  const interval = runs.length === 1 ? runs[0]!.interval : studentInterval(values);
  return { policy, runs: runs.length, n, value: mean(values), interval };
}

type Pair = z.output<typeof pair>;

/**
 * Pairs of policies, only for values that are means over trajectories: parts of a slope are not
 * scores of problems.
 */
function pairsOf(
  policies: ReadonlyMap<string, readonly ScoredRun[]>,
  order: readonly string[],
): Pair[] {
  return order.flatMap((first, i) =>
    order.slice(i + 1).flatMap((second): Pair[] => {
      const [a, b] = [policies.get(first)!, policies.get(second)!];
      if ([...a, ...b].some(({ aggregate }) => aggregate !== 'mean')) return [];
      const { ids, x, y, unmatched } = joined(byProblem(a), byProblem(b));
      if (ids.length === 0) return [];
      const differences = x.map((value, k) => value - y[k]!);
      return [
        {
          policies: [first, second],
          shared: ids.length,
          unmatched,
          difference: estimateOf(
            mean(differences),
            clusteredMean(differences, ids.map(groupOfProblem([...a, ...b]))),
          ),
          // questions and conditions are the same: what differs is the policy that was asked
          claim: unmatched === 0 && areAlike([...a, ...b]) ? 'effect' : 'association',
        },
      ];
    }),
  );
}

const groupOf = (policy: string, groups: ReadonlyMap<string, string>): string =>
  [...groups].find(([, part]) => policy.includes(part))?.[0] ?? 'others';

function outsideOf(
  ranking: readonly Place[],
  { outside: given, groups = new Map() }: PerformanceOptions,
): z.output<typeof outside> | null {
  const points = ranking.flatMap(({ policy, value }) => {
    const x = given?.get(policy);
    return x === undefined ? [] : [{ policy, x, y: value, group: groupOf(policy, groups) }];
  });
  if (points.length < 2) return null;
  const of = (some: typeof points): z.output<typeof correlationSchema> =>
    correlate(
      some.map(({ x }) => x),
      some.map(({ y }) => y),
    );
  const byGroup = groupBy(points, ({ group }) => group);
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const far = outliersOf(xs, ys, byGroup.size);
  return {
    points,
    correlation: of(points),
    outliers: far.map((i) => points[i]!.policy),
    withoutOutliers: far.length === 0 ? null : of(points.filter((_, i) => !far.includes(i))),
    byGroup: Object.fromEntries(
      [...byGroup]
        .filter(([, members]) => members.length > 1)
        .map(([name, members]) => [name, of(members)]),
    ),
    logarithmic: { x: isSkewed(xs), y: isSkewed(ys) },
    claim: 'association',
  };
}

/** Signed scores that are best at 0 are compared by their distances from it. */
export function comparePerformance(
  all: readonly ScoredRun[],
  options: PerformanceOptions = {},
): PerformanceComparison {
  const runs = towardsZero(all);
  const names = policyNames(runs);
  const found = bySetup(runs).map(({ setup, runs: members }) => {
    const measured = members.filter(({ value }) => value !== null);
    const policies = groupBy(measured, ({ policyId }) => names.get(policyId)!);
    const places = [...policies]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([policy, own]) => placeOf(policy, own));
    const { direction } = members[0]!;
    const ranking = ranked(places, direction, ({ value }) => value);
    const pairs = pairsOf(
      policies,
      ranking.map(({ policy }) => policy),
    );
    return {
      setup,
      direction,
      ranking,
      unmeasured: members.length - measured.length,
      pairs,
      outside: outsideOf(ranking, options),
    };
  });
  const tests = adjusted(found.flatMap(({ pairs }) => pairs.map(({ difference }) => difference.p)));
  let next = 0;
  return {
    analyzer: 'performance-comparison',
    setups: found.map((each) => ({
      ...each,
      pairs: each.pairs.map((one) => ({
        ...one,
        difference: { ...one.difference, adjusted: tests.adjusted[next++]! },
      })),
    })),
    multiplicity: tests.multiplicity,
  };
}
