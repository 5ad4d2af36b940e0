/**
 * How a mean over tiers changed between two evaluations of the same problems: a test, and an
 * interval that excludes 0 exactly where the test speaks against chance.
 *
 * Fay and Lumbard (2021), "Confidence intervals for difference in proportions for matched pairs
 * compatible with exact McNemar's or sign tests": the change is D (2 theta - 1), with D the share
 * of problems that changed and theta the chance that one of these was gained. What is known of each
 * is a confidence distribution (Clopper and Pearson's), and the limits are quantiles of the
 * product: its sign is that of 2 theta - 1, about which the test is. Here a problem counts as its
 * tier weighs: gained weights are summed over all ways in which the changed problems may fall, and
 * D is a proportion of as many problems of equal weight as the mean is worth (Kish 1965).
 *
 * That asks whether any tier changed. Where problems of one tier count more than three times as
 * much as another's, the mean can stand still while the tiers change: the interval reaches as far
 * as that of the tiers, each by itself, and p is the greater of the two, so that both hold.
 */
import { incompleteBeta, normalQuantile, normalTail } from './student.js';
import { intervalOfSum, scoreInterval, type Estimate, type Interval } from './intervals.js';
import { SAME, signFlipTest, signSums, type SignSums } from './sign-sums.js';

export interface TierChange {
  /** Weight of the tier in the mean; all weights add up to 1. */
  readonly weight: number;
  /** Problems, at least one; of these fail before and pass after, and the other way round. */
  readonly n: number;
  readonly gained: number;
  readonly lost: number;
}

export interface ChangeOfMean extends Interval {
  readonly mean: number;
  /**
   * Two-sided: below 0.05 exactly where the interval excludes 0. Exact, and McNemar's, where all
   * problems weigh alike.
   */
  readonly p: number;
}

const TAIL = 0.025;
/**
 * Places at which the distributions are tabulated: theta evenly by arcsine, D evenly, both about
 * what was observed.
 */
const [THETAS, SHARES] = [64, 256];
/** Distinct sums for the tables, where the test itself tells more apart. */
const TABLE_SUMS = 1024;
/**
 * Largest ratio of problem weights for which the changed problems represent all. Beyond it a small
 * tier with few changes may hide what large tiers do not show, and each tier is also tested by
 * itself. At exactly three, without that, 6.9 of 100 draws missed the change where two tiers went
 * opposite ways, at most 3.5 with the groups of scheduling (dev/log.md).
 */
const MOST_UNLIKE = 3;

type Weighed = TierChange & { /** Of each problem, in the mean. */ readonly each: number };

/** The changes, seen from one side. */
interface Changed {
  readonly sums: SignSums;
  readonly squares: number;
  /** Weight gained less weight lost. */
  readonly difference: number;
  /** True if any problem was gained. */
  readonly some: boolean;
  readonly p: number;
}

/** Confidence distribution of theta, its lower one, as a function. */
function thetaDistribution({ sums, squares, difference }: Changed): (theta: number) => number {
  const all = sums.reach;
  const reach = (2.5 * Math.sqrt(squares)) / all; // five standard deviations of an arcsine
  const seen = Math.asin(Math.sqrt(Math.min(1, Math.max(0, (1 + difference / all) / 2))));
  const [from, to] = [Math.max(0, seen - reach), Math.min(Math.PI / 2, seen + reach)];
  const logits = Float64Array.from({ length: THETAS + 1 }, (_, i) => {
    const [more, less] = sums.tails(difference, Math.sin(from + ((to - from) * i) / THETAS) ** 2);
    return Math.log(Math.max(more, 1e-300) / Math.max(less, 1e-300));
  });
  return (theta) => {
    const at = ((Math.asin(Math.sqrt(theta)) - from) / (to - from)) * THETAS;
    if (at < 0 || at > THETAS) return at < 0 ? 0 : 1;
    const below = Math.min(THETAS - 1, Math.floor(at));
    return (
      1 / (1 + Math.exp(-logits[below]! - (at - below) * (logits[below + 1]! - logits[below]!)))
    );
  };
}

/** Places of a beta distribution, and what each weighs. */
function shares(a: number, b: number): { readonly share: number; readonly weight: number }[] {
  if (b <= 0) return [{ share: 1, weight: 1 }];
  const mean = a / (a + b);
  const reach = 8 * Math.sqrt((mean * (1 - mean)) / (a + b + 1));
  const [from, to] = [Math.max(0, mean - reach), Math.min(1, mean + reach)];
  const places = Array.from(
    { length: SHARES },
    (_, i) => from + ((to - from) * (i + 0.5)) / SHARES,
  );
  const logs = places.map((share) => (a - 1) * Math.log(share) + (b - 1) * Math.log1p(-share));
  const highest = Math.max(...logs);
  const total = logs.reduce((sum, log) => sum + Math.exp(log - highest), 0);
  return places.map((share, i) => ({ share, weight: Math.exp(logs[i]! - highest) / total }));
}

/** Argument in [low, high] at which a rising function has the given value. */
function bisect(rises: (at: number) => number, value: number, low: number, high: number): number {
  for (let i = 0; i < 50; i++) {
    const middle = (low + high) / 2;
    if (rises(middle) < value) low = middle;
    else high = middle;
  }
  return high;
}

/** @param changes of `problems` problems of equal weight; whole where all weigh alike */
function lowerLimit(changed: Changed, changes: number, problems: number): number {
  // nothing was gained: theta is not known to be above 0, and D is as large as it may be
  if (!changed.some && changes >= problems) return -1;
  if (!changed.some)
    return -bisect(
      (share) => incompleteBeta(share, 1 - share, changes + 1, problems - changes),
      1 - TAIL,
      0,
      1,
    );
  const cumulative = thetaDistribution(changed);
  const below = (of: ReturnType<typeof shares>, change: number): number =>
    of.reduce(
      (sum, { share, weight }) =>
        sum +
        (change < -share
          ? 0
          : weight * (change > share ? 1 : cumulative((1 + change / share) / 2))),
      0,
    );
  // the test and the limit ask the same at 0
  if (changed.difference <= 0 || changed.p / 2 > TAIL) {
    const many = shares(changes + 1, problems - changes);
    return Math.min(
      0,
      bisect((change) => below(many, change), TAIL, -1, 0),
    );
  }
  const few = shares(changes, problems - changes + 1);
  return bisect((change) => below(few, change), TAIL, 0, 1);
}

/**
 * From a score interval of what each tier gained and of what it lost, whose distances add up in
 * squares: it asks nothing of how tiers compare. Its p is the level at which it reaches 0, and
 * never below that of the exact test.
 */
function byTier(
  tiers: readonly Weighed[],
  mean: number,
  exact: number,
): Omit<ChangeOfMean, 'mean'> {
  const at = (z: number): Interval =>
    intervalOfSum(
      tiers.flatMap(({ weight, n, gained, lost }): Estimate[] => {
        const [gain, loss] = [scoreInterval(gained / n, n, z), scoreInterval(lost / n, n, z)];
        return [
          { weight, value: gained / n, ...gain },
          { weight, value: -lost / n, low: -loss.high, high: -loss.low },
        ];
      }),
    );
  const reaches0 = (z: number): boolean =>
    mean > 0 ? at(z).low <= 0 : mean === 0 || at(z).high >= 0;
  const far = normalQuantile(Math.max(exact, 1e-300) / 2);
  const p = reaches0(far) ? 2 * normalTail(bisect((z) => (reaches0(z) ? 1 : 0), 1, 0, far)) : exact;
  const { low, high } = at(normalQuantile(TAIL));
  return { low: Math.max(-1, low), high: Math.min(1, high), p: Math.max(exact, p) };
}

/** @throws RangeError where a tier has no problem */
export function changeOfMean(tiers: readonly TierChange[]): ChangeOfMean {
  if (tiers.length === 0 || tiers.some(({ n }) => n === 0))
    throw new RangeError('every tier needs at least one problem');
  const weighed: readonly Weighed[] = tiers.map((tier) => ({
    ...tier,
    each: tier.weight / tier.n,
  }));
  const sum = (of: (tier: (typeof weighed)[number]) => number): number =>
    weighed.reduce((total, tier) => total + of(tier), 0);
  const mean = sum(({ each, gained, lost }) => each * (gained - lost));
  const problems = 1 / sum((tier) => tier.n * tier.each ** 2);
  const changes = Math.min(
    problems,
    problems * sum((tier) => tier.each * (tier.gained + tier.lost)),
  );
  const pairs = weighed.map((tier) => ({ weight: tier.each, pairs: tier.gained + tier.lost }));
  const p = signFlipTest(pairs, mean);
  const side = (difference: number, of: (tier: TierChange) => number): Changed => ({
    sums,
    squares: sum((tier) => (tier.gained + tier.lost) * tier.each ** 2),
    difference,
    some: sum(of) > 0,
    p,
  });
  const sums = signSums(pairs, TABLE_SUMS);
  const own = {
    low: lowerLimit(
      side(mean, ({ gained }) => gained),
      changes,
      problems,
    ),
    high: -lowerLimit(
      side(-mean, ({ lost }) => lost),
      changes,
      problems,
    ),
  };
  const each = weighed.map((tier) => tier.each);
  if (Math.max(...each) <= MOST_UNLIKE * (1 + SAME) * Math.min(...each)) return { mean, ...own, p };
  const apart = byTier(weighed, mean, p);
  return {
    mean,
    low: Math.min(own.low, apart.low),
    high: Math.max(own.high, apart.high),
    p: apart.p,
  };
}
