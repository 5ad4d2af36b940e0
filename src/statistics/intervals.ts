import { mean, sampleStandardDeviation } from './descriptive.js';
import { studentQuantile } from './student.js';

/**
 * Every interval here is a 95 % one, with the customary rounding of the normal quantile (1.95996…).
 */
export const Z95 = 1.96;

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Wilson score interval of a proportion (Wilson 1927); [0, 1] for n = 0. */
export function wilsonInterval(passed: number, n: number): Interval {
  requireCounts(passed, n);
  return n === 0 ? { low: 0, high: 1 } : scoreInterval(passed / n, n);
}

/**
 * Wilson's interval about a mean p of n > 0 values in [0, 1]. Their variance is at most p(1 - p),
 * so that it is too wide rather than too narrow for values between.
 */
export function scoreInterval(p: number, n: number, z = Z95): Interval {
  const z2 = z * z;
  const centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const half = (z / (1 + z2 / n)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n));
  return { low: p === 0 ? 0 : centre - half, high: p === 1 ? 1 : centre + half };
}

/**
 * Interval of the mean of n fractions, or of n differences between fractions, that are all the
 * same: a bootstrap of them would have no width.
 */
export function intervalOfAlike(
  value: number,
  n: number,
  kind: 'fractions' | 'differences',
): Interval {
  if (kind === 'fractions') return scoreInterval(value, n);
  // gains less losses; at 0 this is the score interval of a paired difference without a discordant
  // pair (Tango 1998)
  const [gained, lost] = [Math.max(0, value), Math.max(0, -value)];
  const [gain, loss] = [scoreInterval(gained, n), scoreInterval(lost, n)];
  const { low, high } = intervalOfSum([
    { weight: 1, value: gained, ...gain },
    { weight: 1, value: -lost, low: -loss.high, high: -loss.low },
  ]);
  return { low: Math.max(-1, low), high: Math.min(1, high) };
}

export interface Estimate extends Interval {
  readonly weight: number;
  readonly value: number;
}

/**
 * Interval of a weighted sum of independent estimates from an interval of each: their distances to
 * the limits add up in squares (Zou, Huang and Zhang 2009, MOVER).
 */
export function intervalOfSum(estimates: readonly Estimate[]): Interval {
  const distance = (of: (estimate: Estimate) => number): number =>
    Math.sqrt(estimates.reduce((sum, estimate) => sum + (estimate.weight * of(estimate)) ** 2, 0));
  const sum = estimates.reduce((total, { weight, value }) => total + weight * value, 0);
  return {
    low: sum - distance(({ value, low }) => value - low),
    high: sum + distance(({ value, high }) => high - value),
  };
}

/**
 * Student's interval of a mean of independent values; null for fewer than two, or all alike, which
 * says nothing of their spread.
 */
export function studentInterval(values: readonly number[]): Interval | null {
  const n = values.length;
  if (values.every((value) => value === values[0])) return null;
  const [centre, half] = [
    mean(values),
    (studentQuantile(0.025, n - 1) * sampleStandardDeviation(values)) / Math.sqrt(n),
  ];
  return { low: centre - half, high: centre + half };
}

/**
 * Wilson's interval of a proportion over observations of which those of one cluster depend on each
 * other: with as many observations as would tell as much if they were independent (Korn and
 * Graubard 1998), never more than there are. Where all are alike, with as many as there are
 * clusters.
 */
export function clusteredWilsonInterval(
  passed: readonly boolean[],
  clusters: readonly string[],
): Interval {
  const n = passed.length;
  if (n !== clusters.length)
    throw new RangeError(`needs a cluster for each of ${n}, got ${clusters.length}`);
  const p = passed.filter(Boolean).length / n;
  const sums = new Map<string, number>();
  for (const [i, cluster] of clusters.entries())
    sums.set(cluster, (sums.get(cluster) ?? 0) + (passed[i] ? 1 : 0) - p);
  const groups = sums.size;
  if (groups === n) return wilsonInterval(passed.filter(Boolean).length, n);
  if (groups < 2) return { low: 0, high: 1 };
  if (p === 0 || p === 1) return scoreInterval(p, groups);
  const squares = [...sums.values()].reduce((sum, each) => sum + each ** 2, 0);
  const effect = ((groups / (groups - 1)) * squares) / ((n / (n - 1)) * n * p * (1 - p));
  const quantiles = studentQuantile(0.025, n - 1) / studentQuantile(0.025, groups - 1);
  return scoreInterval(p, Math.min(n, effect > 0 ? n / effect : n) * quantiles ** 2);
}

/**
 * Normal (Wald) interval of a proportion, for comparison with tables that use it; degenerate at 0
 * and n.
 */
export function normalInterval(passed: number, n: number): Interval {
  requireCounts(passed, n);
  if (n === 0) return { low: 0, high: 1 };
  const p = passed / n;
  const half = Z95 * Math.sqrt((p * (1 - p)) / n);
  return { low: p - half, high: p + half };
}

/** Fisher's z interval of a Pearson correlation; [-1, 1] for n <= 3. */
export function fisherInterval(r: number, n: number): Interval {
  if (!(r >= -1 && r <= 1)) throw new RangeError(`a correlation must be in [-1, 1], got ${r}`);
  if (n <= 3) return { low: -1, high: 1 };
  const half = Z95 / Math.sqrt(n - 3);
  return { low: Math.tanh(Math.atanh(r) - half), high: Math.tanh(Math.atanh(r) + half) };
}

/** Quantile of sorted values by linear interpolation (type 7 of Hyndman and Fan 1996). */
export function quantile(sorted: readonly number[], q: number): number {
  if (sorted.length === 0) throw new RangeError('a quantile needs at least one value');
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const low = sorted[below]!;
  return low + (position - below) * ((sorted[below + 1] ?? low) - low);
}

export function requireCounts(passed: number, n: number): void {
  if (!Number.isInteger(passed) || !Number.isInteger(n) || passed < 0 || passed > n)
    throw new RangeError(`needs whole 0 <= passed <= n, got ${passed} of ${n}`);
}
