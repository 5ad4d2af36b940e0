/**
 * Least squares with one regressor, and standard errors that allow for observations which belong
 * together.
 */
import { mean } from './descriptive.js';
import type { Interval } from './intervals.js';
import { studentQuantile, studentTail } from './student.js';

/** An estimate with its standard error and the two-sided p of its being 0. */
export interface Tested {
  readonly value: number;
  readonly error: number;
  readonly t: number;
  readonly freedom: number;
  readonly p: number;
}

export interface Regression {
  readonly n: number;
  readonly slope: number;
  readonly intercept: number;
  /** Sum of squared residuals. */
  readonly sse: number;
  /** Sum of squares of x about its mean. */
  readonly sxx: number;
  /** Under independent errors of one variance; null for fewer than three observations. */
  readonly tested: { readonly slope: Tested; readonly intercept: Tested } | null;
}

/** Part of the sum of squares that rounding leaves of none. */
const ROUNDING = 1e-24;

/** An estimate without error is either exactly 0 or certainly not. */
export function tested(value: number, error: number, freedom: number): Tested {
  const t = error > 0 ? value / error : value === 0 ? 0 : Math.sign(value) * Infinity;
  const p = Number.isFinite(t) ? 2 * studentTail(Math.abs(t), freedom) : 0;
  return { value, error, t, freedom, p: Math.min(1, p) };
}

/**
 * y = intercept + slope x + error.
 * @param y as many as x
 * @returns null where x does not vary, so that no slope is defined
 */
export function linearRegression(x: readonly number[], y: readonly number[]): Regression | null {
  if (x.length !== y.length)
    throw new RangeError(`needs as many x as y, got ${x.length} and ${y.length}`);
  const n = x.length;
  const [mx, my] = [mean(x), mean(y)];
  const sum = (of: (i: number) => number): number => x.reduce((total, _, i) => total + of(i), 0);
  const sxx = sum((i) => (x[i]! - mx) ** 2);
  if (!(sxx > ROUNDING * sum((i) => x[i]! ** 2))) return null;
  const slope = sum((i) => (x[i]! - mx) * (y[i]! - my)) / sxx;
  const intercept = my - slope * mx;
  const residual = sum((i) => (y[i]! - intercept - slope * x[i]!) ** 2);
  const sse = residual > ROUNDING * sum((i) => y[i]! ** 2) ? residual : 0;
  const line = { n, slope, intercept, sse, sxx };
  if (n < 3) return { ...line, tested: null };
  const variance = sse / (n - 2);
  return {
    ...line,
    tested: {
      slope: tested(slope, Math.sqrt(variance / sxx), n - 2),
      intercept: tested(intercept, Math.sqrt(variance * (1 / n + mx ** 2 / sxx)), n - 2),
    },
  };
}

/**
 * The slope with a standard error that holds where the errors of one cluster depend on each other
 * (Liang and Zeger 1986, with the small sample factor G/(G - 1) x (n - 1)/(n - 2) and G - 1 degrees
 * of freedom).
 * @param clusters of each observation, by name
 * @returns null for fewer than two clusters
 */
export function clusteredSlope(
  x: readonly number[],
  y: readonly number[],
  clusters: readonly string[],
  { slope, intercept, sxx, n }: Pick<Regression, 'slope' | 'intercept' | 'sxx' | 'n'>,
): Tested | null {
  const mx = mean(x);
  const scores = new Map<string, number>();
  for (const [i, cluster] of clusters.entries()) {
    const score = (x[i]! - mx) * (y[i]! - intercept - slope * x[i]!);
    scores.set(cluster, (scores.get(cluster) ?? 0) + score);
  }
  const groups = scores.size;
  if (groups < 2 || n < 3) return null;
  const meat = [...scores.values()].reduce((sum, score) => sum + score ** 2, 0);
  const factor = (groups / (groups - 1)) * ((n - 1) / (n - 2));
  return tested(slope, Math.sqrt(factor * meat) / sxx, groups - 1);
}

/** The mean of observations in clusters, against 0; null for fewer than two clusters. */
export function clusteredMean(
  values: readonly number[],
  clusters: readonly string[],
): Tested | null {
  const centre = mean(values);
  const sums = new Map<string, number>();
  for (const [i, cluster] of clusters.entries())
    sums.set(cluster, (sums.get(cluster) ?? 0) + values[i]! - centre);
  const groups = sums.size;
  if (groups < 2) return null;
  const meat = [...sums.values()].reduce((sum, each) => sum + each ** 2, 0);
  const error = Math.sqrt((groups / (groups - 1)) * meat) / values.length;
  return tested(centre, error > Math.sqrt(ROUNDING) * Math.abs(centre) ? error : 0, groups - 1);
}

/**
 * Observations of one row: one cluster name a value, and the same names in every row where the same
 * was observed.
 */
export interface CrossedRow {
  readonly values: readonly number[];
  readonly clusters: readonly string[];
}

/**
 * The mean over rows of their means, against 0, where both rows and clusters are drawn from more of
 * their kind: what all rows share in one cluster does not average out over rows. Three tests, which
 * have to hold together: of rows alone (right where clusters share nothing), of clusters alone
 * (right where rows do not differ), and of both, whose variance is that of rows and that of
 * clusters less that of single cells, which is in each (Cameron, Gelbach and Miller 2011), with
 * Satterthwaite's degrees of freedom. Of few rows the third alone says too much where rows differ
 * much, and the greater of the first two where rows and clusters vary alike.
 * @returns null for fewer than two rows or clusters
 */
export function crossedMean(rows: readonly CrossedRow[]): readonly Tested[] | null {
  const k = rows.length;
  const means = rows.map(({ values }) => mean(values));
  const value = mean(means);
  const parts = new Map<string, number[]>();
  for (const [row, { values, clusters }] of rows.entries())
    for (const [i, cluster] of clusters.entries()) {
      const of = parts.get(cluster) ?? new Array<number>(k).fill(0);
      parts.set(cluster, of);
      of[row]! += (values[i]! - means[row]!) / values.length;
    }
  const groups = parts.size;
  if (k < 2 || groups < 2) return null;
  const squares = (of: readonly number[]): number => of.reduce((sum, each) => sum + each ** 2, 0);
  const factor = groups / (groups - 1);
  const byRow = squares(means.map((each) => each - value)) / ((k - 1) * k);
  const byCluster = factor * squares([...parts.values()].map(mean));
  const byCell =
    (factor / (k * (k - 1))) *
    [...parts.values()].reduce((sum, of) => sum + squares(of.map((each) => each - mean(of))), 0);
  const both = Math.max(byRow + byCluster - byCell, byRow, byCluster);
  const spent =
    byRow ** 2 / (k - 1) + byCluster ** 2 / (groups - 1) + byCell ** 2 / ((k - 1) * (groups - 1));
  return [
    [byRow, k - 1],
    [byCluster, groups - 1],
    [both, spent > 0 ? Math.max(1, both ** 2 / spent) : 1],
  ].map(([variance, freedom]) => {
    const error = Math.sqrt(variance!);
    return tested(value, error > Math.sqrt(ROUNDING) * Math.abs(value) ? error : 0, freedom!);
  });
}

/**
 * Student's 95 % interval of a mean of observations in clusters; null for fewer than two clusters,
 * or where all is alike.
 */
export function clusteredInterval(
  values: readonly number[],
  clusters: readonly string[],
): Interval | null {
  const found = values.length === 0 ? null : clusteredMean(values, clusters);
  if (found === null || found.error === 0) return null;
  const half = studentQuantile(0.025, found.freedom) * found.error;
  return { low: found.value - half, high: found.value + half };
}

export interface BandPoint extends Interval {
  readonly x: number;
  readonly fitted: number;
}

/**
 * Errors of the line at each x that hold where observations of one cluster depend on each other;
 * none for fewer than two clusters.
 */
export function clusteredBand(
  line: Regression,
  x: readonly number[],
  y: readonly number[],
  clusters: readonly string[],
  at: readonly number[],
): BandPoint[] {
  const { n, slope, intercept, sxx } = line;
  const centre = mean(x);
  const scores = new Map<string, [number, number]>();
  for (const [i, cluster] of clusters.entries()) {
    const residual = y[i]! - intercept - slope * x[i]!;
    const [level, tilt] = scores.get(cluster) ?? [0, 0];
    scores.set(cluster, [level + residual / n, tilt + (residual * (x[i]! - centre)) / sxx]);
  }
  const groups = scores.size;
  if (groups < 2 || n < 3) return [];
  const factor = (groups / (groups - 1)) * ((n - 1) / (n - 2));
  const quantile = studentQuantile(0.025, groups - 1);
  return at.map((where) => {
    const fitted = intercept + slope * where;
    const squares = [...scores.values()].reduce(
      (sum, [level, tilt]) => sum + (level + tilt * (where - centre)) ** 2,
      0,
    );
    const half = quantile * Math.sqrt(factor * squares);
    return { x: where, fitted, low: fitted - half, high: fitted + half };
  });
}

/**
 * The line with the 95 % band of its mean at each x, under independent errors of one variance; none
 * for fewer than three observations.
 */
export function regressionBand(
  line: Regression,
  centre: number,
  at: readonly number[],
): BandPoint[] {
  const { n, slope, intercept, sse, sxx } = line;
  if (n < 3) return [];
  const quantile = studentQuantile(0.025, n - 2);
  return at.map((x) => {
    const fitted = intercept + slope * x;
    const half = quantile * Math.sqrt((sse / (n - 2)) * (1 / n + (x - centre) ** 2 / sxx));
    return { x, fitted, low: fitted - half, high: fitted + half };
  });
}

/**
 * Cook's distances, how far each observation moves the line (Cook 1977): e² h / (2 s² (1 - h)²),
 * with h its leverage. All are 0 if the line fits exactly; Infinity for an observation that alone
 * determines the slope.
 */
export function cooksDistances(
  x: readonly number[],
  y: readonly number[],
  { n, slope, intercept, sse, sxx }: Regression,
): number[] {
  const centre = mean(x);
  const variance = sse / (n - 2);
  return x.map((at, i) => {
    if (sse === 0 || n < 3) return 0;
    const leverage = 1 / n + (at - centre) ** 2 / sxx;
    const free = 1 - leverage;
    if (free <= 1e-12) return Infinity;
    return ((y[i]! - intercept - slope * at) ** 2 * leverage) / (2 * variance * free ** 2);
  });
}
