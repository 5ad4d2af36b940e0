import { Random } from '../random.js';
import {
  intervalOfAlike,
  intervalOfSum,
  quantile,
  requireCounts,
  type Interval,
} from './intervals.js';

/** ln(n!) for whole n, as a running sum. */
export function logFactorials(n: number): Float64Array {
  const table = new Float64Array(n + 1);
  for (let i = 2; i <= n; i++) table[i] = table[i - 1]! + Math.log(i);
  return table;
}

/**
 * Exact two-sided McNemar test (binomial with p = 1/2 over the discordant pairs).
 * @param gained pairs that failed before and pass after
 * @param lost pairs that passed before and fail after
 * @returns the p value; 1 where no pair is discordant
 */
export function mcnemarExact(gained: number, lost: number): number {
  requireCounts(gained, gained + lost);
  const n = gained + lost;
  if (n === 0) return 1;
  const logFactorial = logFactorials(n);
  let tail = 0;
  for (let k = 0; k <= Math.min(gained, lost); k++)
    tail += Math.exp(logFactorial[n]! - logFactorial[k]! - logFactorial[n - k]! - n * Math.LN2);
  return Math.min(1, 2 * tail);
}

/**
 * Outcomes of one problem under two conditions: one value per sample, e.g. 0 or 1, or a mean of
 * them.
 */
export interface PairedOutcome {
  /** Problems of one stratum are resampled among themselves. */
  readonly stratum: string;
  readonly before: readonly number[];
  readonly after: readonly number[];
}

export interface PairedDifference extends Interval {
  /**
   * Mean over strata, a group of them counting as one, of the mean over problems of (mean after -
   * mean before).
   */
  readonly difference: number;
  readonly problems: number;
}

/**
 * Paired bootstrap over problems: each resample draws problems with replacement within their
 * stratum and takes all samples of a problem with it (clusters), so that repeated samples of one
 * problem do not count as independent. Percentile interval, 95 %.
 * @param options.groupOf strata with one group weigh as much together as a stratum of its own;
 *   default: each is its own
 */
export function pairedBootstrap(
  outcomes: readonly PairedOutcome[],
  options: {
    readonly seed: bigint;
    readonly resamples?: number;
    readonly groupOf?: (stratum: string) => string;
  },
): PairedDifference {
  if (outcomes.length === 0) throw new RangeError('no pairs to compare');
  const average = (values: readonly number[]): number => {
    if (values.length === 0) throw new RangeError('a problem without samples cannot be compared');
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  };
  const strata = groupBy(
    outcomes,
    (outcome) => outcome.stratum,
    (outcome) => average(outcome.after) - average(outcome.before),
  );
  const groups = groupBy([...strata.keys()], options.groupOf ?? ((stratum) => stratum));
  const weighted = [...groups.values()].flatMap((members) =>
    members.map((member) => ({
      weight: 1 / (groups.size * members.length),
      values: strata.get(member)!,
    })),
  );
  const { mean, low, high } = stratifiedBootstrap(weighted, { ...options, of: 'differences' });
  return { difference: mean, low, high, problems: outcomes.length };
}

/**
 * Values by key, keys in the order of their first appearance.
 * @param value default: the item
 */
export function groupBy<T, V = T>(
  items: readonly T[],
  key: (item: T) => string,
  value: (item: T) => V = (item) => item as unknown as V,
): Map<string, V[]> {
  const groups = new Map<string, V[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group === undefined) groups.set(key(item), [value(item)]);
    else group.push(value(item));
  }
  return groups;
}

export interface Stratum {
  readonly weight: number;
  readonly values: readonly number[];
}

export interface BootstrapOptions {
  readonly seed: bigint;
  readonly resamples?: number;
  /** Kind of the values: fractions in [0, 1], or differences between fractions. */
  readonly of: 'fractions' | 'differences';
}

export const weightedMean = (strata: readonly Stratum[]): number =>
  strata.reduce(
    (sum, { weight, values }) =>
      sum + (weight * values.reduce((total, value) => total + value, 0)) / values.length,
    0,
  );

/** 95 % of sorted draws. */
const percentiles = (draws: readonly number[]): Interval => ({
  low: quantile(draws, 0.025),
  high: quantile(draws, 0.975),
});

/**
 * Weighted sum of stratum means with a percentile bootstrap interval (95 %), resampling within each
 * stratum. A stratum whose values are all alike has nothing to resample and would count as known
 * exactly; it widens the interval by the score interval of its mean instead (see `intervalOfAlike`,
 * `intervalOfSum`).
 */
export function stratifiedBootstrap(
  strata: readonly Stratum[],
  { seed, resamples = 2_000, of }: BootstrapOptions,
): Interval & { readonly mean: number } {
  const random = new Random(seed);
  const point = weightedMean(strata);
  const draws: number[] = [];
  for (let resample = 0; resample < resamples; resample++) {
    let sum = 0;
    for (const { weight, values } of strata) {
      let total = 0;
      for (let i = 0; i < values.length; i++)
        total += values[random.nextInteger(0, values.length - 1)]!;
      sum += (weight * total) / values.length;
    }
    draws.push(sum);
  }
  draws.sort((a, b) => a - b);
  const resampled = { weight: 1, value: point, ...percentiles(draws) };
  const alike = strata.filter(({ values }) => values.every((value) => value === values[0]));
  if (alike.length === 0) return { mean: point, low: resampled.low, high: resampled.high };
  // the strata that are alike move no resample: each adds its distances to the limits, and nothing
  // to the point
  const widened = intervalOfSum([
    resampled,
    ...alike.map(({ weight, values }) => {
      const { low, high } = intervalOfAlike(values[0]!, values.length, of);
      return { weight, value: 0, low: low - values[0]!, high: high - values[0]! };
    }),
  ]);
  const least = of === 'fractions' ? 0 : -1;
  return { mean: point, low: Math.max(least, widened.low), high: Math.min(1, widened.high) };
}

/** Mean with a percentile interval (95 %) over resampled clusters, each with all its values. */
export function clusterBootstrap(
  values: readonly number[],
  clusters: readonly string[],
  { seed, resamples = 2_000 }: Pick<BootstrapOptions, 'seed' | 'resamples'>,
): Interval & { readonly mean: number } {
  const sum = (of: readonly number[]): number => of.reduce((total, value) => total + value, 0);
  const groups = groupBy(
    values.map((value, i) => ({ value, cluster: clusters[i]! })),
    ({ cluster }) => cluster,
    ({ value }) => value,
  );
  const parts = [...groups.values()].map((own) => ({ total: sum(own), n: own.length }));
  const random = new Random(seed);
  const draws = Array.from({ length: resamples }, () => {
    let [total, n] = [0, 0];
    for (let i = 0; i < parts.length; i++) {
      const part = parts[random.nextInteger(0, parts.length - 1)]!;
      total += part.total;
      n += part.n;
    }
    return total / n;
  }).sort((a, b) => a - b);
  return { mean: sum(values) / values.length, ...percentiles(draws) };
}

/** Holm's step-down correction (Holm 1979): adjusted p values in the order given. */
export function holm(pValues: readonly number[]): number[] {
  const order = pValues.map((_, index) => index).sort((a, b) => pValues[a]! - pValues[b]!);
  const adjusted = new Array<number>(pValues.length);
  let running = 0;
  order.forEach((index, rank) => {
    running = Math.max(running, Math.min(1, (pValues.length - rank) * pValues[index]!));
    adjusted[index] = running;
  });
  return adjusted;
}
