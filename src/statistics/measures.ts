/** Means of the figures of verdicts other than pass and fail. */
import { dictionary, type Dictionary } from '../dictionary.js';
import { estimate, isEmpty } from './estimate.js';
import { wilsonInterval, type Interval } from './intervals.js';
import { figuresGiven, type FigureName, type Forecast, type Outcome } from './outcome.js';
import { groupBy, weightedMean, type BootstrapOptions, type Stratum } from './paired.js';

/**
 * Quadratic loss of a forecast (Brier 1950, in the form (p - o)² for one event): 0 is best, 1
 * worst, 0.25 what one half always gets.
 */
export const brierScore = ({ probability, outcome }: Forecast): number =>
  (probability - (outcome ? 1 : 0)) ** 2;

/**
 * Below it a probability counts as this one, since a single certain error would make every mean
 * infinite.
 */
const LEAST_PROBABILITY = 1e-18;

/**
 * Logarithmic loss of a forecast (Good 1952), nats: 0 is best; 41.4 at most, where the event was
 * given less than 1e-18.
 */
export const logScore = ({ probability, outcome }: Forecast): number =>
  0 - Math.log(Math.max(LEAST_PROBABILITY, outcome ? probability : 1 - probability));

const WORST_LOG_SCORE = -Math.log(LEAST_PROBABILITY);

/**
 * `score`: mean score of the decided verdicts, where a pass without one counts 1 and a fail without
 * one 0. `brier`, `logarithmic`: proper scores, losses, over the verdicts that have a forecast: an
 * answer that is none has no probability to be counted, and is in `valid` only.
 */
export const MEASURE_NAMES = ['score', 'brier', 'logarithmic'] as const;
export type MeasureName = (typeof MEASURE_NAMES)[number];

interface Measure {
  readonly figure: FigureName;
  /** Null for a verdict that does not count. */
  readonly measure: (outcome: Outcome) => number | null;
  readonly isValid: (outcome: Outcome) => boolean;
  /** The values lie in [0, most]. */
  readonly most: number;
}

const ofForecast = (loss: (forecast: Forecast) => number, most: number): Measure => ({
  figure: 'forecast',
  measure: ({ forecast }) => (forecast === undefined ? null : loss(forecast)),
  isValid: ({ forecast }) => forecast !== undefined,
  most,
});
const MEASURES: Readonly<Record<MeasureName, Measure>> = {
  score: {
    figure: 'score',
    measure: ({ kind, score }) => (kind === 'none' ? null : (score ?? (kind === 'pass' ? 1 : 0))),
    isValid: ({ kind, score }) => score !== undefined || kind === 'pass',
    most: 1,
  },
  brier: ofForecast(brierScore, 1),
  logarithmic: ofForecast(logScore, WORST_LOG_SCORE),
};

export interface MeasureEstimate extends Interval {
  /** Null where nothing counts. */
  readonly mean: number | null;
  /** Verdicts that count. */
  readonly n: number;
  /** Part of the decided verdicts that have the figure, or pass; null where none is decided. */
  readonly valid: number | null;
  /** Wilson's, of `valid`, over the decided verdicts; [0, 1] where none is decided. */
  readonly validInterval: Interval;
}

/** The mean is unweighted over tiers, a group counting as one. */
export interface MeasureSummary extends MeasureEstimate {
  readonly byTier: Dictionary<MeasureEstimate>;
}

export type Measures = { readonly [name in MeasureName]?: MeasureSummary };

interface TierOfMeasure {
  readonly id: string;
  readonly group?: string;
}

/**
 * Means over tiers, weighted as `summarise` weighs them, with percentile bootstrap intervals (95 %;
 * Efron and Tibshirani 1993, §13.3) that resample problems within their tier, all samples of a
 * problem together; `stratifiedBootstrap` says what becomes of values that are all alike. Null
 * where there is nothing to measure.
 * @param problems the verdicts on the samples of each problem; a verdict `none` is in no
 *   denominator
 * @param options.figures those that are measured; default: those that any of these verdicts has
 */
export function measure(
  problems: readonly (readonly Outcome[])[],
  tiers: readonly TierOfMeasure[],
  {
    figures = figuresGiven(problems.flat()),
    ...options
  }: Omit<BootstrapOptions, 'of'> & { readonly figures?: readonly FigureName[] },
): Measures | null {
  if (figures.length === 0) return null;
  const byTier = groupBy(
    problems.filter(({ length }) => length > 0),
    (samples) => samples[0]!.tier,
  );
  const present = tiers.filter(({ id }) => byTier.has(id));
  const slots = groupBy(present, ({ id, group }) => group ?? id);
  const measured = MEASURE_NAMES.filter((name) => figures.includes(MEASURES[name].figure)).map(
    (name): [MeasureName, MeasureSummary] => {
      const { measure, isValid, most } = MEASURES[name];
      /** Estimate over weighted tiers. */
      const summary = (
        parts: readonly { readonly id: string; readonly weight: number }[],
      ): MeasureEstimate => {
        const strata: Stratum[] = parts.map(({ id, weight }) => ({
          weight,
          values: byTier.get(id)!.flatMap(meanOf),
        }));
        const outcomes = parts.flatMap(({ id }) => byTier.get(id)!.flat());
        const decided = outcomes.filter(({ kind }) => kind !== 'none');
        const valid = decided.filter(isValid).length;
        // in parts of the worst, which is what an interval of values that are all alike needs
        const { low, high } = estimate(
          strata.map(({ weight, values }) => ({
            weight,
            values: values.map((value) => value / most),
          })),
          options,
        );
        return {
          mean: isEmpty(strata) ? null : weightedMean(strata),
          low: low * most,
          high: high * most,
          n: outcomes.filter((outcome) => measure(outcome) !== null).length,
          valid: decided.length === 0 ? null : valid / decided.length,
          validInterval: wilsonInterval(valid, decided.length),
        };
      };
      const meanOf = (samples: readonly Outcome[]): number[] => {
        const values = samples.map(measure).filter((value) => value !== null);
        return values.length === 0
          ? []
          : [values.reduce((sum, value) => sum + value, 0) / values.length];
      };
      const estimates = dictionary<MeasureEstimate>();
      for (const [slot, members] of slots) {
        for (const { id } of members) estimates[id] = summary([{ id, weight: 1 }]);
        if (members[0]!.group !== undefined)
          estimates[slot] = summary(members.map(({ id }) => ({ id, weight: 1 / members.length })));
      }
      const all = [...slots.values()].flatMap((members) =>
        members.map(({ id }) => ({ id, weight: 1 / members.length / slots.size })),
      );
      return [name, { ...summary(all), byTier: estimates }];
    },
  );
  return Object.fromEntries(measured);
}
