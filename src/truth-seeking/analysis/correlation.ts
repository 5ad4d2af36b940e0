/**
 * Relates two lists of figures: correlations with intervals, the regression line with its band, and
 * influential points.
 */
import { z } from 'zod';
import { fisherInterval, kendall, mean, pearson, spearman } from '../../statistics/index.js';
import { isTwoValued, permutationP } from '../../statistics/permutation.js';
import {
  clusteredBand,
  clusteredSlope,
  cooksDistances,
  linearRegression,
  regressionBand,
  tested,
  type Regression,
  type Tested,
} from '../../statistics/regression.js';
import { estimateOf, estimateSchema } from './claim.js';
import { intervalSchema } from './scored-run.js';

/**
 * Minimum number of groups for Student's t test of a correlation: with few two-valued scores, one
 * in three can be 1 by chance.
 */
const LEAST_GROUPS = 6;
/** Rounding error of the correlation of an exact line. */
const ROUNDING = 1e-12;
/** Points of the band that is drawn about a line. */
const BAND = 21;

const inRange = z.number().min(-1).max(1);
export const correlationSchema = z.strictObject({
  n: z.int().min(0),
  /** Null where one side does not vary, or there are fewer than two pairs. */
  pearson: z
    .strictObject({
      value: inRange,
      /**
       * Fisher's, 95 %, of scores; none for three pairs or fewer, of 1 or -1 (it would have no
       * width), and of two values on each side.
       */
      interval: intervalSchema.nullable(),
      /**
       * Exact p over all orders for independent pairs: up to eight pairs, or two values on each
       * side. Otherwise Student's p with six groups or more; null for 1 and -1.
       */
      p: z.number().min(0).max(1).nullable(),
    })
    .nullable(),
  spearman: inRange.nullable(),
  kendall: inRange.nullable(),
  slope: estimateSchema.nullable(),
  intercept: z.number().nullable(),
  band: z.array(
    z.strictObject({ x: z.number(), fitted: z.number(), low: z.number(), high: z.number() }),
  ),
});
export type Correlation = z.output<typeof correlationSchema>;

const within = (value: number): number | null =>
  Number.isNaN(value) ? null : Math.min(1, Math.max(-1, value));

/** The test of a slope whose pairs are in groups; none of so few that it finds too much. */
export const slopeOfGroups = (
  x: readonly number[],
  y: readonly number[],
  clusters: readonly string[],
  line: Regression,
): Tested | null =>
  new Set(clusters).size < LEAST_GROUPS ? null : clusteredSlope(x, y, clusters, line);

/**
 * @param y as many as x
 * @param clusters of each pair: those of one may depend on each other, and a correlation then is as
 *   certain as one of so many pairs
 */
export function correlate(
  x: readonly number[],
  y: readonly number[],
  clusters: readonly string[] = x.map((_, i) => String(i)),
): Correlation {
  const n = x.length;
  const groups = new Set(clusters).size;
  const isClustered = groups < n;
  const [line, r] = [linearRegression(x, y), within(pearson(x, y))];
  const [low, high] = [Math.min(...x), Math.max(...x)];
  const at = Array.from({ length: BAND }, (_, i) => low + ((high - low) * i) / (BAND - 1));
  const isLine = r !== null && 1 - Math.abs(r) < ROUNDING;
  // of right and wrong ones that are mostly alike Student's p is a fraction of the chance that
  // there is, of the slope as of the correlation
  const isCounted = !isClustered && isTwoValued(x) && isTwoValued(y);
  const student =
    r === null || isLine || groups < LEAST_GROUPS
      ? null
      : tested(r, Math.sqrt((1 - r ** 2) / (groups - 2)), groups - 2);
  const exact = r === null || isClustered || n < 3 ? null : permutationP(x, y);
  const p = exact ?? student?.p ?? null;
  const own = groups < LEAST_GROUPS || isCounted ? null : (line?.tested?.slope ?? null);
  const slopeTest = line !== null && isClustered ? slopeOfGroups(x, y, clusters, line) : own;
  return {
    n,
    pearson:
      r === null
        ? null
        : {
            value: r,
            interval: groups > 3 && !isLine && !isCounted ? fisherInterval(r, groups) : null,
            p,
          },
    spearman: r === null ? null : within(spearman(x, y)),
    kendall: r === null ? null : within(kendall(x, y)),
    slope: line === null ? null : estimateOf(line.slope, slopeTest),
    intercept: line?.intercept ?? null,
    band:
      line === null
        ? []
        : isClustered
          ? clusteredBand(line, x, y, clusters, at)
          : regressionBand(line, mean(x), at),
  };
}

/**
 * Places of pairs that move the line too much (Cook's distance above 4/n); none where there are not
 * ten pairs a group, and one more.
 */
export function outliersOf(x: readonly number[], y: readonly number[], groups = 1): number[] {
  const [n, line] = [x.length, linearRegression(x, y)];
  if (line === null || n <= 10 * groups) return [];
  return cooksDistances(x, y, line).flatMap((distance, i) => (distance > 4 / n ? [i] : []));
}

/**
 * True if an axis should be logarithmic: all values above 0, and the mean above twice the median or
 * the largest above six times it.
 */
export function isSkewed(values: readonly number[]): boolean {
  if (values.length === 0 || values.some((value) => !(value > 0))) return false;
  const sorted = [...values].sort((a, b) => a - b);
  const middle =
    (sorted[Math.floor((sorted.length - 1) / 2)]! + sorted[Math.ceil((sorted.length - 1) / 2)]!) /
    2;
  return mean(values) > 2 * middle || sorted.at(-1)! > 6 * middle;
}
