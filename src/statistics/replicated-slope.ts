/**
 * The slope between two quantities that are measured with error, each several times: noise in x
 * lowers an ordinary slope, and noise that x and y share shifts it. Only products of different
 * measurements are taken, so that the noise of one meets that of none (an instrument for each:
 * Fuller 1987, section 2.4): what is independent between measurements falls out, whether it is new
 * at each observation or lasts, and so does an offset that a measurement has everywhere.
 */
import { mean } from './descriptive.js';
import type { Interval } from './intervals.js';
import { tested } from './regression.js';
import { studentQuantile } from './student.js';

export interface ReplicatedSlope {
  readonly slope: number;
  /**
   * Fieller's (1954), 95 %, with clusters: not symmetric. Null where x without its noise may not
   * vary at all, or for one cluster.
   */
  readonly interval: Interval | null;
  /** Two-sided, of a slope of 0; null for one cluster. */
  readonly p: number | null;
  readonly clusters: number;
  /** Variance of x without its noise. */
  readonly variance: number;
  /** Variance of the noise in the mean of all measurements of x. */
  readonly noise: number;
}

/**
 * Mean over all pairs of different measurements of the product of one of a and another of b: none
 * of its own noise is in it.
 */
export function crossProduct(a: readonly number[], b: readonly number[]): number {
  let [sumA, sumB, own] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    sumA += a[i]!;
    sumB += b[i]!;
    own += a[i]! * b[i]!;
  }
  return (sumA * sumB - own) / (a.length * (a.length - 1));
}

/** Each measurement minus its mean over the observations that have it. */
function centred(rows: readonly (readonly number[])[]): number[][] {
  const most = Math.max(...rows.map(({ length }) => length));
  const means = Array.from({ length: most }, (_, k) =>
    mean(rows.flatMap((row) => (k < row.length ? [row[k]!] : []))),
  );
  return rows.map((row) => row.map((value, k) => value - means[k]!));
}

/**
 * @param x measurements `[observations, measurements]`, those of a column by the same instrument,
 *   whose noise is independent of the others'; two or more of each observation, of which some may
 *   have more than others where the instruments are alike
 * @param y as many, by the same instruments
 * @param clusters of each observation, by name: those of one may depend on each other
 * @returns null for fewer than two observations, one that was measured once, or where no variance
 *   of x is left without the noise
 */
export function replicatedSlope(
  x: readonly (readonly number[])[],
  y: readonly (readonly number[])[],
  clusters: readonly string[],
): ReplicatedSlope | null {
  const n = x.length;
  if (y.length !== n || clusters.length !== n || x.some(({ length }, i) => length !== y[i]!.length))
    throw new RangeError(
      'each observation needs a cluster and equally many measurements of x and y',
    );
  if (n < 2 || x.some(({ length }) => length < 2)) return null;
  const [cx, cy] = [centred(x), centred(y)];
  const parts = new Map<string, { xy: number; xx: number }>();
  for (const [i, cluster] of clusters.entries()) {
    const part = parts.get(cluster) ?? { xy: 0, xx: 0 };
    part.xy += crossProduct(cx[i]!, cy[i]!);
    part.xx += crossProduct(cx[i]!, cx[i]!);
    parts.set(cluster, part);
  }
  const of = [...parts.values()];
  const total = (member: 'xy' | 'xx'): number => of.reduce((sum, part) => sum + part[member], 0);
  const [xy, xx] = [total('xy'), total('xx')];
  const whole = mean(cx.map((row) => mean(row) ** 2));
  const variance = xx / n;
  // neither what is left of noise nor of rounding is a variance
  const scale = mean(x.map((row) => mean(row) ** 2));
  if (!(variance > 1e-12 * whole && variance > 1e-24 * scale)) return null;
  const groups = of.length;
  const spread = (a: 'xy' | 'xx', b: 'xy' | 'xx'): number => {
    const [ma, mb] = [total(a) / groups, total(b) / groups];
    return (
      (groups / (groups - 1)) * of.reduce((sum, part) => sum + (part[a] - ma) * (part[b] - mb), 0)
    );
  };
  const base = { slope: xy / xx, clusters: groups, variance, noise: Math.max(0, whole - variance) };
  if (groups < 2) return { ...base, interval: null, p: null };
  const [vyy, vxx, vxy] = [spread('xy', 'xy'), spread('xx', 'xx'), spread('xy', 'xx')];
  const t2 = studentQuantile(0.025, groups - 1) ** 2;
  return {
    ...base,
    interval: fieller({ a: xx ** 2 - t2 * vxx, b: xy * xx - t2 * vxy, c: xy ** 2 - t2 * vyy }),
    p: tested(xy, Math.sqrt(vyy), groups - 1).p,
  };
}

/** Interval on which a s² - 2 b s + c is at most 0; null if it is unbounded. */
function fieller({
  a,
  b,
  c,
}: {
  readonly a: number;
  readonly b: number;
  readonly c: number;
}): Interval | null {
  if (!(a > 0)) return null;
  const root = Math.sqrt(Math.max(0, b ** 2 - a * c));
  return { low: (b - root) / a, high: (b + root) / a };
}
