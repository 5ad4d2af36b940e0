/**
 * How a mean over tiers changed between two evaluations of the same problems: an exact test, and an interval that excludes 0 exactly where
 * the test speaks against chance.
 *
 * Fay and Lumbard (2021), "Confidence intervals for difference in proportions for matched pairs compatible with exact McNemar's or sign
 * tests": the change is D (2 theta - 1), with D the share of problems that changed and theta the chance that one of these was gained. What
 * is known of each is a confidence distribution (Clopper and Pearson's), and the limits are quantiles of the product: its sign is that of
 * 2 theta - 1, about which the test is. Here a problem counts as its tier weighs: gained weights are summed over all ways in which the
 * changed problems may fall, and D is a proportion of as many problems of equal weight as the mean is worth (Kish 1965).
 */
import { incompleteBeta } from './student.js';
import type { Interval } from './intervals.js';

export interface TierChange {
  /** Of the tier in the mean; over all tiers they add up to 1. */
  readonly weight: number;
  /** Problems, at least one; of these fail before and pass after, and the other way round. */
  readonly n: number;
  readonly gained: number;
  readonly lost: number;
}

export interface ChangeOfMean extends Interval {
  readonly mean: number;
  /** Exact, two-sided: McNemar's where all problems weigh alike. */
  readonly p: number;
}

const TAIL = 0.025;
/** Places at which the distributions are tabulated: theta evenly by arcsine, D evenly, both about what was observed. */
const [THETAS, SHARES] = [64, 256];
/** Multiples of the least unit that a sum of weights may come to; finer weights are rounded to it. */
const MOST_UNITS = 1024;

/** Weights of the changed problems in whole units, and how many there are of each. */
interface Changed {
  readonly units: number;
  readonly problems: number;
  /** Logarithm of the ways to choose so many of them, by how many. */
  readonly ways: readonly number[];
}

function waysOf(problems: number): number[] {
  const ways = [0];
  for (let k = 1; k <= problems; k++) ways.push(ways[k - 1]! + Math.log((problems - k + 1) / k));
  return ways;
}

type Weighed = TierChange & { /** Of each problem, in the mean. */ readonly each: number };

function changedInUnits(all: readonly Weighed[]): { readonly changed: readonly Changed[]; readonly gained: number; readonly lost: number } {
  const tiers = all.flatMap(({ each, gained, lost }) => (gained + lost === 0 ? [] : [{ each, gained, lost, problems: gained + lost }]));
  const most = Math.max(...tiers.map(({ each }) => each));
  const count = (unit: number): number => tiers.reduce((sum, { each, problems }) => sum + (each / unit) * problems, 0);
  let unit = count(1) / MOST_UNITS;
  for (let parts = 1; count(most / parts) <= MOST_UNITS; parts++) {
    const isWhole = tiers.every(({ each }) => Math.abs((each / most) * parts - Math.round((each / most) * parts)) < 1e-9);
    if (!isWhole) continue;
    unit = most / parts;
    break;
  }
  const byUnits = new Map<number, number>();
  let [gained, lost] = [0, 0];
  for (const tier of tiers) {
    const units = Math.max(1, Math.round(tier.each / unit));
    byUnits.set(units, (byUnits.get(units) ?? 0) + tier.problems);
    gained += units * tier.gained;
    lost += units * tier.lost;
  }
  return { changed: [...byUnits].map(([units, problems]) => ({ units, problems, ways: waysOf(problems) })), gained, lost };
}

/** Probabilities of each gained weight, in units, where every changed problem is gained with chance theta. */
function gainedWeights(changed: readonly Changed[], theta: number): Float64Array {
  let sums = Float64Array.of(1);
  for (const { units, problems, ways } of changed) {
    const next = new Float64Array(sums.length + units * problems);
    for (let k = 0; k <= problems; k++) {
      const chance = Math.exp(ways[k]! + (k && k * Math.log(theta)) + (problems - k && (problems - k) * Math.log1p(-theta)));
      for (let i = 0; chance > 0 && i < sums.length; i++) next[i + units * k]! += chance * sums[i]!;
    }
    sums = next;
  }
  return sums;
}

/** Of so much gained weight or more, and of less. */
function tails(changed: readonly Changed[], gained: number, theta: number): readonly [more: number, less: number] {
  let [more, less] = [0, 0];
  for (const [i, chance] of gainedWeights(changed, theta).entries()) {
    if (i >= gained) more += chance;
    else less += chance;
  }
  return [more, less];
}

/** Confidence distribution of theta, its lower one, as a function. */
function thetaDistribution(changed: readonly Changed[], gained: number): (theta: number) => number {
  const sum = (of: (each: Changed) => number): number => changed.reduce((total, each) => total + of(each), 0);
  const all = sum(({ units, problems }) => units * problems);
  const reach = (2.5 * Math.sqrt(sum(({ units, problems }) => units ** 2 * problems))) / all; // five standard deviations of an arcsine
  const seen = Math.asin(Math.sqrt(gained / all));
  const [from, to] = [Math.max(0, seen - reach), Math.min(Math.PI / 2, seen + reach)];
  const logits = Float64Array.from({ length: THETAS + 1 }, (_, i) => {
    const [more, less] = tails(changed, gained, Math.sin(from + ((to - from) * i) / THETAS) ** 2);
    return Math.log(Math.max(more, 1e-300) / Math.max(less, 1e-300));
  });
  return (theta) => {
    const at = ((Math.asin(Math.sqrt(theta)) - from) / (to - from)) * THETAS;
    if (at < 0 || at > THETAS) return at < 0 ? 0 : 1;
    const below = Math.min(THETAS - 1, Math.floor(at));
    return 1 / (1 + Math.exp(-logits[below]! - (at - below) * (logits[below + 1]! - logits[below]!)));
  };
}

/** Places of a beta distribution, and what each weighs. */
function shares(a: number, b: number): { readonly share: number; readonly weight: number }[] {
  if (b <= 0) return [{ share: 1, weight: 1 }];
  const mean = a / (a + b);
  const reach = 8 * Math.sqrt((mean * (1 - mean)) / (a + b + 1));
  const [from, to] = [Math.max(0, mean - reach), Math.min(1, mean + reach)];
  const places = Array.from({ length: SHARES }, (_, i) => from + ((to - from) * (i + 0.5)) / SHARES);
  const logs = places.map((share) => (a - 1) * Math.log(share) + (b - 1) * Math.log1p(-share));
  const highest = Math.max(...logs);
  const total = logs.reduce((sum, log) => sum + Math.exp(log - highest), 0);
  return places.map((share, i) => ({ share, weight: Math.exp(logs[i]! - highest) / total }));
}

/** Where a function that rises over [low, high] has the value given. */
function bisect(rises: (at: number) => number, value: number, low: number, high: number): number {
  for (let i = 0; i < 50; i++) {
    const middle = (low + high) / 2;
    if (rises(middle) < value) low = middle;
    else high = middle;
  }
  return high;
}

/** @param changes of `problems` problems of equal weight; whole where all weigh alike */
function lowerLimit(changed: readonly Changed[], gained: number, changes: number, problems: number): number {
  // nothing was gained: theta is not known to be above 0, and D is as large as it may be
  if (gained === 0 && changes >= problems) return -1;
  if (gained === 0) return -bisect((share) => incompleteBeta(share, 1 - share, changes + 1, problems - changes), 1 - TAIL, 0, 1);
  const cumulative = thetaDistribution(changed, gained);
  const below = (of: ReturnType<typeof shares>, change: number): number =>
    of.reduce(
      (sum, { share, weight }) => sum + (change < -share ? 0 : weight * (change > share ? 1 : cumulative((1 + change / share) / 2))),
      0,
    );
  // the test and the limit ask the same at 0
  if (tails(changed, gained, 0.5)[0] > TAIL) {
    const many = shares(changes + 1, problems - changes);
    return Math.min(
      0,
      bisect((change) => below(many, change), TAIL, -1, 0),
    );
  }
  const few = shares(changes, problems - changes + 1);
  return bisect((change) => below(few, change), TAIL, 0, 1);
}

/** @throws RangeError where a tier has no problem */
export function changeOfMean(tiers: readonly TierChange[]): ChangeOfMean {
  if (tiers.length === 0 || tiers.some(({ n }) => n === 0)) throw new RangeError('a tier without a problem has not changed');
  const weighed: readonly Weighed[] = tiers.map((tier) => ({ ...tier, each: tier.weight / tier.n }));
  const sum = (of: (tier: (typeof weighed)[number]) => number): number => weighed.reduce((total, tier) => total + of(tier), 0);
  const mean = sum(({ each, gained, lost }) => each * (gained - lost));
  const problems = 1 / sum(({ each, n }) => n * each ** 2);
  const changes = Math.min(problems, problems * sum(({ each, gained, lost }) => each * (gained + lost)));
  const { changed, gained, lost } = changedInUnits(weighed);
  const low = lowerLimit(changed, gained, changes, problems);
  const high = -lowerLimit(changed, lost, changes, problems);
  const [[more], [fewer]] = [tails(changed, gained, 0.5), tails(changed, lost, 0.5)];
  return { mean, low, high, p: Math.min(1, 2 * Math.min(more, fewer)) };
}
