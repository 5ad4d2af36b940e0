/** How two lists of figures go together: correlations with intervals, the line with its band, who decides on it. */
import { z } from 'zod';
import { fisherInterval, kendall, mean, pearson, spearman } from '../../statistics/index.js';
import { clusteredBand, clusteredSlope, cooksDistances, linearRegression, regressionBand, tested } from '../../statistics/regression.js';
import { estimateOf, estimateSchema } from './claim.js';
import { intervalSchema } from './scored-run.js';

/** Points of the band that is drawn about a line. */
const BAND = 21;

const inRange = z.number().min(-1).max(1);
export const correlationSchema = z.strictObject({
  n: z.int().min(0),
  /** Null where one side does not vary, or there are fewer than two pairs. */
  pearson: z
    .strictObject({
      value: inRange,
      /** Fisher's, 95 %; none for three pairs or fewer. */
      interval: intervalSchema.nullable(),
      p: z.number().min(0).max(1).nullable(),
    })
    .nullable(),
  spearman: inRange.nullable(),
  kendall: inRange.nullable(),
  slope: estimateSchema.nullable(),
  intercept: z.number().nullable(),
  band: z.array(z.strictObject({ x: z.number(), fitted: z.number(), low: z.number(), high: z.number() })),
});
export type Correlation = z.output<typeof correlationSchema>;

const within = (value: number): number | null => (Number.isNaN(value) ? null : Math.min(1, Math.max(-1, value)));

/**
 * @param y as many as x
 * @param clusters of each pair: those of one may depend on each other, and a correlation then is as certain as one of so many pairs
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
  const test = r === null || groups < 3 ? null : tested(r, Math.sqrt((1 - r ** 2) / (groups - 2)), groups - 2);
  const slopeTest = line === null ? null : isClustered ? clusteredSlope(x, y, clusters, line) : (line.tested?.slope ?? null);
  return {
    n,
    pearson: r === null ? null : { value: r, interval: groups > 3 ? fisherInterval(r, groups) : null, p: test?.p ?? null },
    spearman: r === null ? null : within(spearman(x, y)),
    kendall: r === null ? null : within(kendall(x, y)),
    slope: line === null ? null : estimateOf(line.slope, slopeTest),
    intercept: line?.intercept ?? null,
    band: line === null ? [] : isClustered ? clusteredBand(line, x, y, clusters, at) : regressionBand(line, mean(x), at),
  };
}

/** Places of pairs that move the line too much (Cook's distance above 4/n); none where there are not ten pairs a group, and one more. */
export function outliersOf(x: readonly number[], y: readonly number[], groups = 1): number[] {
  const [n, line] = [x.length, linearRegression(x, y)];
  if (line === null || n <= 10 * groups) return [];
  return cooksDistances(x, y, line).flatMap((distance, i) => (distance > 4 / n ? [i] : []));
}

/** Whether an axis is to be logarithmic: all above 0, and the mean above twice or the largest above six times the median. */
export function isSkewed(values: readonly number[]): boolean {
  if (values.length === 0 || values.some((value) => !(value > 0))) return false;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted[Math.floor((sorted.length - 1) / 2)]! + sorted[Math.ceil((sorted.length - 1) / 2)]!) / 2;
  return mean(values) > 2 * middle || sorted.at(-1)! > 6 * middle;
}
