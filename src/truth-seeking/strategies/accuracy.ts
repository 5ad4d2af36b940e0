/**
 * Accuracy of beliefs, and whether reasoning improved it: proper scores of the belief before and
 * after.
 */
import {
  brierScore,
  clusteredWilsonInterval,
  logScore,
  mean,
  type Forecast,
  type Interval,
} from '../../statistics/index.js';
import { groupOf, type BeliefPath } from '../beliefs/belief.js';
import { targetOf, type BinaryProblem } from '../problem.js';
import { meanScore, SkipCount, type Score } from '../score.js';

export const ACCURACY_METRICS = { brier: brierScore, 'cross-entropy': logScore } as const;
export type AccuracyMetric = keyof typeof ACCURACY_METRICS;
/** Loss of a certain belief in the wrong option. */
const WORST: Readonly<Record<AccuracyMetric, number>> = {
  brier: brierScore({ probability: 0, outcome: true }),
  'cross-entropy': logScore({ probability: 0, outcome: true }),
};

/**
 * Loss of the belief before reasoning, of the last one, or the last minus the first: below 0 if
 * reasoning helped.
 */
export const ACCURACY_MODES = ['initial', 'eventual', 'difference'] as const;
export type AccuracyMode = (typeof ACCURACY_MODES)[number];

export interface AccuracyConfig {
  readonly metric: AccuracyMetric;
  readonly mode: AccuracyMode;
}

const forecast = (belief: number, target: 0 | 1): Forecast => ({
  probability: belief,
  outcome: target === 1,
});

/**
 * Mean loss over trajectories whose problem has an answer. Both metrics are losses.
 * @param problems by their ids
 */
export function groundTruthAccuracy(
  paths: readonly BeliefPath[],
  problems: ReadonlyMap<string, BinaryProblem>,
  { metric, mode }: AccuracyConfig,
): Score {
  const loss = ACCURACY_METRICS[metric];
  const skipped = new SkipCount();
  const perTrajectory = new Map<string, number>();
  for (const { trajectoryId, problemId, beliefs } of paths) {
    const problem = problems.get(problemId);
    const target = problem === undefined ? undefined : targetOf(problem);
    if (target === undefined) skipped.add('problem unknown');
    else if (target === null) skipped.add('no answer known');
    else if (beliefs.length === 0) skipped.add('no belief');
    else {
      const [initial, eventual] = [beliefs[0]!, beliefs.at(-1)!].map((belief) =>
        loss(forecast(belief, target)),
      ) as [number, number];
      perTrajectory.set(
        trajectoryId,
        mode === 'difference' ? eventual - initial : mode === 'initial' ? initial : eventual,
      );
    }
  }
  const groups = new Map(paths.map((path) => [path.trajectoryId, groupOf(path)]));
  return meanScore('lower', perTrajectory, skipped, {
    range: [mode === 'difference' ? -WORST[metric] : 0, WORST[metric]],
    groups,
  });
}

export interface Calibration {
  readonly brier: number;
  /**
   * Murphy (1973): brier = reliability - resolution + uncertainty, exact where the forecasts of a
   * bin are the same.
   */
  readonly reliability: number;
  readonly resolution: number;
  readonly uncertainty: number;
  /**
   * Expected calibration error: mean distance of a bin's mean forecast to how often the event came
   * about, weighted by its size.
   */
  readonly error: number;
  readonly bins: readonly {
    readonly forecast: number;
    readonly observed: number;
    readonly n: number;
    readonly interval: Interval;
  }[];
}

/**
 * @param groups of each forecast: those of one may depend on each other. Default: all are
 *   independent
 * @param bins of equal width over [0, 1]; none: one for each different forecast
 * @returns null for no forecasts
 */
export function calibration(
  forecasts: readonly Forecast[],
  bins?: number,
  groups: readonly string[] = forecasts.map((_, i) => String(i)),
): Calibration | null {
  if (forecasts.length === 0) return null;
  const n = forecasts.length;
  const rate = (of: readonly Forecast[]): number =>
    of.filter(({ outcome }) => outcome).length / of.length;
  const keyOf = ({ probability }: Forecast): number =>
    bins === undefined ? probability : Math.min(bins - 1, Math.floor(probability * bins));
  const places = new Map<number, number[]>();
  for (const [i, each] of forecasts.entries())
    places.set(keyOf(each), [...(places.get(keyOf(each)) ?? []), i]);
  const found = [...places]
    .sort(([a], [b]) => a - b)
    .map(([, at]) => {
      const own = at.map((i) => forecasts[i]!);
      const interval = clusteredWilsonInterval(
        own.map(({ outcome }) => outcome),
        at.map((i) => groups[i]!),
      );
      return {
        forecast: mean(own.map(({ probability }) => probability)),
        observed: rate(own),
        n: own.length,
        interval,
      };
    });
  const base = rate(forecasts);
  const weighted = (of: (bin: (typeof found)[number]) => number): number =>
    found.reduce((sum, bin) => sum + (bin.n / n) * of(bin), 0);
  return {
    brier: mean(forecasts.map(brierScore)),
    reliability: weighted(({ forecast: said, observed }) => (said - observed) ** 2),
    resolution: weighted(({ observed }) => (observed - base) ** 2),
    uncertainty: base * (1 - base),
    error: weighted(({ forecast: said, observed }) => Math.abs(said - observed)),
    bins: found,
  };
}
