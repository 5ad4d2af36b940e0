import { dictionary, type Dictionary } from '../dictionary.js';
import { given } from '../given.js';
import { type Interval, wilsonInterval } from './intervals.js';
import type { TierVerdicts } from './paired-change.js';
import { estimate, isEmpty } from './estimate.js';
import { measure, type Measures } from './measures.js';
import { READINGS, underReading, type FigureName, type Outcome } from './outcome.js';
import { groupBy, weightedMean, type BootstrapOptions, type Stratum } from './paired.js';

export interface TierSummary extends Interval {
  readonly passed: number;
  /** Problems with a verdict. */
  readonly n: number;
  /** Problems without one; not part of n. */
  readonly none: number;
  /** Fraction in [0,1]; null where n is 0. For a group: the mean of its tiers. */
  readonly mean: number | null;
}

/** A rate over tiers. */
export interface Rates extends Interval {
  /** Unweighted mean over tiers, a group counting as one; null if a tier has no verdict. */
  readonly mean: number | null;
  readonly n: number;
  readonly none: number;
  /** By tier, and by group after its tiers, in the order of the tiers. */
  readonly byTier: Dictionary<TierSummary>;
}

export interface Summary extends Rates {
  /** False above 1 % `none`: the figures must then not be reported as a result. */
  readonly valid: boolean;
  /**
   * The share of the replies whose strict reading succeeded, right or wrong; absent where the
   * outcomes do not say.
   */
  readonly format?: Rates;
  /**
   * Accuracy under the most lenient reading of the same replies; absent where the task has none.
   */
  readonly lenient?: Rates;
  /** Measures of a task whose verdicts have figures. */
  readonly measures?: Measures;
}

export interface SummaryOptions extends Omit<BootstrapOptions, 'of'> {
  /** Figures to measure; default: those that any of the verdicts has. */
  readonly figures?: readonly FigureName[];
}

export const MAX_NONE_FRACTION = 0.01;

/**
 * Seed of the bootstrap behind every summary of a run, so that all summaries have the same
 * intervals.
 */
export const SUMMARY_SEED = 1n;

interface TierOfSummary {
  readonly id: string;
  readonly group?: string;
}

/**
 * Accuracy over tiers. Tiers have Wilson intervals; groups and the mean have a stratified bootstrap
 * over problems (which see for tiers that are all 0 or all 1). Tiers without any outcome are left
 * out of `byTier` and of the mean (an evaluation of some tiers).
 */
export function summarise(
  outcomes: readonly Outcome[],
  tiers: readonly TierOfSummary[],
  { figures, ...options }: SummaryOptions,
): Summary {
  const rates = ratesOf(outcomes, tiers, options);
  const measures = measure(
    outcomes.map((outcome) => [outcome]),
    tiers,
    { ...options, ...given({ figures }) },
  );
  const readings = READINGS.flatMap((reading) => {
    const read = underReading(outcomes, reading);
    return read === null ? [] : [[reading, ratesOf(read, tiers, options)] as const];
  });
  return {
    ...rates,
    valid: outcomes.length > 0 && rates.none <= MAX_NONE_FRACTION * outcomes.length,
    ...Object.fromEntries(readings),
    ...(measures === null ? {} : { measures }),
  };
}

const kindsByTier = (outcomes: readonly Pick<Outcome, 'tier' | 'kind'>[]) =>
  groupBy(
    outcomes,
    ({ tier }) => tier,
    ({ kind }) => kind,
  );

function ratesOf(
  outcomes: readonly Pick<Outcome, 'tier' | 'kind'>[],
  tiers: readonly TierOfSummary[],
  options: Omit<BootstrapOptions, 'of'>,
): Rates {
  const kinds = kindsByTier(outcomes);
  for (const tier of kinds.keys())
    if (!tiers.some(({ id }) => id === tier))
      throw new RangeError(`an outcome names the unknown tier ${tier}`);
  const present = tiers.filter(({ id }) => kinds.has(id));
  const slots = [...new Set(present.map(({ id, group }) => group ?? id))];
  const byTier = dictionary<TierSummary>();
  const strata: Stratum[] = [];

  for (const slot of slots) {
    const members = present.filter(({ id, group }) => (group ?? id) === slot);
    const own: Stratum[] = [];
    for (const { id } of members) {
      const of = kinds.get(id)!;
      const decided = of.filter((kind) => kind !== 'none');
      const passed = decided.filter((kind) => kind === 'pass').length;
      const n = decided.length;
      byTier[id] = {
        passed,
        n,
        none: of.length - n,
        mean: n === 0 ? null : passed / n,
        ...wilsonInterval(passed, n),
      };
      own.push({
        weight: 1 / members.length,
        values: decided.map((kind) => (kind === 'pass' ? 1 : 0)),
      });
    }
    if (members[0]!.group !== undefined) {
      const parts = members.map(({ id }) => byTier[id]!);
      const sum = (pick: (part: TierSummary) => number): number =>
        parts.reduce((total, part) => total + pick(part), 0);
      byTier[slot] = {
        passed: sum((part) => part.passed),
        n: sum((part) => part.n),
        none: sum((part) => part.none),
        ...estimate(own, options),
      };
    }
    strata.push(...own.map(({ weight, values }) => ({ weight: weight / slots.length, values })));
  }
  const none = outcomes.filter((outcome) => outcome.kind === 'none').length;
  // the mean of one tier is its own rate: one figure has one interval
  const [only] = present.length === 1 ? present : [];
  const { mean, low, high } = only === undefined ? estimate(strata, options) : byTier[only.id]!;
  return { mean, low, high, n: outcomes.length - none, none, byTier };
}

/** Returns the verdicts that `summarise` averages, with the weight of each tier. */
export function verdictsByTier(
  outcomes: readonly Outcome[],
  tiers: readonly TierOfSummary[],
): TierVerdicts[] {
  const kinds = kindsByTier(outcomes);
  const present = tiers.filter(({ id }) => kinds.has(id));
  const weights = weightsOf(present);
  return present.map(({ id }, i) => ({
    weight: weights[i]!,
    verdicts: kinds
      .get(id)!
      .map((kind) => kind[0])
      .join(''),
  }));
}

/** Weights of the given tiers in the mean; a group counts as one. */
export function weightsOf(tiers: readonly TierOfSummary[]): number[] {
  const members = groupBy(tiers, ({ id, group }) => group ?? id);
  return tiers.map(({ id, group }) => 1 / (members.size * members.get(group ?? id)!.length));
}

/** Returns the mean of `summarise`, without the work for its interval. */
export function meanOverTiers(
  outcomes: readonly Outcome[],
  tiers: readonly TierOfSummary[],
): number | null {
  const kinds = kindsByTier(outcomes);
  const present = tiers.filter(({ id }) => kinds.has(id));
  const slots = [...groupBy(present, ({ id, group }) => group ?? id).values()];
  const strata = slots.flatMap((members) =>
    members.map(
      ({ id }): Stratum => ({
        weight: 1 / members.length / slots.length,
        values: kinds
          .get(id)!
          .flatMap((kind) => (kind === 'none' ? [] : [kind === 'pass' ? 1 : 0])),
      }),
    ),
  );
  return isEmpty(strata) ? null : weightedMean(strata);
}
