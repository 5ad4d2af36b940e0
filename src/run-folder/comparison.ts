/** Two evaluations of the same problems, compared problem by problem. */
import { dictionary, type Dictionary } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import { ofSameProblems, outcomesUnder } from './derived-figures.js';
import {
  changeOfMean,
  mcnemarExact,
  READINGS,
  type Interval,
  type Rates,
  type Reading,
  type TierChange,
} from '../statistics/index.js';
import {
  testEvaluation,
  type LoggedEvaluation,
  type RunRecord,
  type TierInfo,
} from './read-run.js';

export interface PairedCounts {
  /** Problems with a verdict on both sides. */
  readonly n: number;
  /** Problems that fail before and pass after, and the other way round. */
  readonly gained: number;
  readonly lost: number;
  /**
   * Two-sided: of a tier McNemar's, exact; of the mean that of its change, which is McNemar's where
   * all problems weigh alike.
   */
  readonly p: number;
}

export interface Comparison extends PairedCounts {
  /**
   * Mean over tiers (a group counts as one) of the difference in accuracy, with the 95 % interval
   * that excludes 0 exactly if p is below 0.05; null if a tier has no pair, and p is then McNemar's
   * over all problems.
   */
  readonly difference: (Interval & { readonly mean: number }) | null;
  /** Counts by tier and by group, not adjusted for their number. */
  readonly byTier: Dictionary<PairedCounts>;
  /** Comparison by further reading of the replies, if both have it. */
  readonly readings: { readonly [reading in Reading]?: Omit<Comparison, 'readings'> };
}

/** A difference with a larger p, or this one, may be chance. */
export const LEVEL = 0.05;
/** Result of a comparison of means. */
export type Finding = 'better' | 'worse' | 'chance';

/**
 * Returns the finding by the sign of the difference of means and its p; the numbers of gained and
 * lost problems do not decide.
 */
export function findingOf({ difference, p }: Pick<Comparison, 'difference' | 'p'>): Finding {
  if (difference === null || difference.mean === 0 || p >= LEVEL) return 'chance';
  return difference.mean > 0 ? 'better' : 'worse';
}

type Kind = 'pass' | 'fail' | 'none';
/** 1 gained, -1 lost, 0 the same. */
type Change = -1 | 0 | 1;

function counts(changes: readonly Change[]): PairedCounts {
  const gained = changes.filter((change) => change === 1).length;
  const lost = changes.filter((change) => change === -1).length;
  return { n: changes.length, gained, lost, p: mcnemarExact(gained, lost) };
}

type Compared = Pick<LoggedEvaluation, 'outcomes' | 'setSha256' | 'formed' | 'lenient'>;

/** @throws IsoproError RUNS_NOT_COMPARABLE if they are not of the same problems */
export function compareEvaluations(
  before: Compared,
  after: Compared,
  tiers: readonly TierInfo[],
): Comparison {
  const readings = READINGS.flatMap((reading) => {
    const [was, is] = [outcomesUnder(before, reading), outcomesUnder(after, reading)];
    if (was === null || is === null) return [];
    return [
      [
        reading,
        compareOutcomes({ ...before, outcomes: was }, { ...after, outcomes: is }, tiers),
      ] as const,
    ];
  });
  return { ...compareOutcomes(before, after, tiers), readings: Object.fromEntries(readings) };
}

function compareOutcomes(
  before: Pick<Compared, 'outcomes' | 'setSha256'>,
  after: Pick<Compared, 'outcomes' | 'setSha256'>,
  tiers: readonly TierInfo[],
): Omit<Comparison, 'readings'> {
  const now = new Map(after.outcomes.map(([problemId, , kind]) => [problemId, kind]));
  const missing = before.outcomes.filter(([problemId]) => !now.has(problemId)).length;
  if (
    before.setSha256 !== after.setSha256 ||
    missing > 0 ||
    before.outcomes.length !== after.outcomes.length
  ) {
    throw new IsoproError(
      'RUNS_NOT_COMPARABLE',
      `the evaluations cover different problems: ${before.outcomes.length} in set ${before.setSha256.slice(0, 12)}, ` +
        `${after.outcomes.length} in set ${after.setSha256.slice(0, 12)}`,
    );
  }
  const changes = new Map<string, Change[]>();
  for (const [problemId, tier, was] of before.outcomes) {
    const is = now.get(problemId) as Kind;
    const ofTier = changes.get(tier) ?? [];
    changes.set(tier, ofTier);
    if (was !== 'none' && is !== 'none') ofTier.push(was === is ? 0 : is === 'pass' ? 1 : -1);
  }
  const groupOf = (tier: string): string => tiers.find(({ id }) => id === tier)?.group ?? tier;
  const slots = new Map<string, string[]>();
  for (const tier of changes.keys())
    slots.set(groupOf(tier), [...(slots.get(groupOf(tier)) ?? []), tier]);
  const byTier = dictionary<PairedCounts>();
  const tierChanges: TierChange[] = [];
  for (const [slot, members] of slots) {
    for (const member of members) {
      byTier[member] = counts(changes.get(member)!);
      tierChanges.push({ ...byTier[member], weight: 1 / (slots.size * members.length) });
    }
    byTier[slot] = counts(members.flatMap((member) => changes.get(member)!));
  }
  const over = counts([...changes.values()].flat());
  if (tierChanges.length === 0 || tierChanges.some(({ n }) => n === 0))
    return { ...over, difference: null, byTier };
  const { p, ...difference } = changeOfMean(tierChanges);
  return { ...over, p, difference, byTier };
}

/**
 * Compares before and after on the test problems; null until both exist, or if they cover different
 * problems.
 */
export function testComparison(run: RunRecord): Comparison | null {
  const [before, after] = [testEvaluation(run, 'before'), testEvaluation(run, 'after')];
  if (
    before === null ||
    after === null ||
    before.setSha256 !== after.setSha256 ||
    !ofSameProblems(before, after)
  )
    return null;
  return compareEvaluations(before, after, run.tiers);
}

/**
 * Returns the finding next to two printed means. These are over all decided replies and may differ
 * from the means over the problems decided twice, which are tested: if their changes have different
 * signs, neither is a claim.
 */
export function findingBeside(
  [before, after]: readonly [number, number],
  comparison: Pick<Comparison, 'difference' | 'p'>,
): Finding {
  const printed = Math.sign(after - before);
  return printed === Math.sign(comparison.difference?.mean ?? 0) ? findingOf(comparison) : 'chance';
}

/** Returns the finding of a run on the test problems; null until there is a comparison. */
export function testFinding(run: RunRecord, comparison = testComparison(run)): Finding | null {
  const [before, after] = [
    testEvaluation(run, 'before')?.summary.mean,
    testEvaluation(run, 'after')?.summary.mean,
  ];
  return comparison === null || before == null || after == null
    ? null
    : findingBeside([before, after], comparison);
}

/** `constrained`: accuracy under the answer grammar, from separate replies. */
export const RATES = [...READINGS, 'constrained'] as const;

/** A rate in addition to accuracy on the test problems, of the same replies or of further ones. */
export interface TestRate {
  readonly name: (typeof RATES)[number];
  readonly before: Rates | null;
  readonly after: Rates | null;
  /** Change; null until both exist. */
  readonly change: Omit<Comparison, 'readings'> | null;
}

/** Returns the rates that a run has. */
export function testRates(run: RunRecord): TestRate[] {
  const [before, after] = [
    testEvaluation(run, 'before')?.summary,
    testEvaluation(run, 'after')?.summary,
  ];
  const comparison = testComparison(run);
  const [was, is] = (['before', 'after'] as const).map((when) =>
    run.constrained.find((each) => each.when === when),
  );
  const rates = READINGS.map(
    (name): TestRate => ({
      name,
      before: before?.[name] ?? null,
      after: after?.[name] ?? null,
      change: comparison?.readings[name] ?? null,
    }),
  );
  const paired =
    was !== undefined &&
    is !== undefined &&
    was.setSha256 === is.setSha256 &&
    ofSameProblems(was, is);
  const change = paired ? compareEvaluations(was, is, run.tiers) : null;
  rates.push({
    name: 'constrained',
    before: was?.summary ?? null,
    after: is?.summary ?? null,
    change,
  });
  return rates.filter((rate) => rate.before !== null || rate.after !== null);
}
