/**
 * Exact tests of counts whose sums are given: Fisher's (1935), and one over several tables that add
 * up.
 */
import { logFactorials } from './paired.js';

export interface Drawn {
  /** Fewest marked ones that a draw can hold. */
  readonly least: number;
  /** Chances of `least` marked ones, of one more, and so on. */
  readonly chances: readonly number[];
}

/** Chances of each number of marked ones among `drawn` of `all`, of which `marked` are marked. */
export function hypergeometric(drawn: number, marked: number, all: number): Drawn {
  const logs = logFactorials(all);
  const ways = (of: number, some: number): number => logs[of]! - logs[some]! - logs[of - some]!;
  const least = Math.max(0, drawn + marked - all);
  const most = Math.min(drawn, marked);
  const chances = Array.from({ length: most - least + 1 }, (_, i) =>
    Math.exp(ways(marked, least + i) + ways(all - marked, drawn - least - i) - ways(all, drawn)),
  );
  return { least, chances };
}

/**
 * Fisher's exact test, two-sided: the chance of as many marked ones in a draw as were seen, or of a
 * number as far from the one that is expected.
 */
export function fisherExact(seen: number, drawn: number, marked: number, all: number): number {
  const { least, chances } = hypergeometric(drawn, marked, all);
  const distance = (found: number): number => Math.abs(found * all - drawn * marked);
  return Math.min(
    1,
    chances.reduce(
      (sum, chance, i) => (distance(least + i) >= distance(seen) ? sum + chance : sum),
      0,
    ),
  );
}

export interface Counts {
  readonly passed: number;
  readonly n: number;
}

/** A tier in two samples of problems, and what it weighs in the mean. */
export interface TwoSamples {
  readonly weight: number;
  readonly first: Counts;
  readonly second: Counts;
}

/**
 * Parts of 1 to which a tier's difference is rounded, in what was seen as in every draw, so that
 * the test is exact of what is rounded.
 */
const PARTS = 8192;

/**
 * One-sided p that the first sample's mean over tiers is this far above the second's, if the
 * problems of each tier are of one kind: the passed ones of the first sample are then a random
 * draw. A tier without a problem on one side is ignored.
 */
export function exactGreater(tiers: readonly TwoSamples[]): number {
  const both = tiers.filter(({ first, second }) => first.n > 0 && second.n > 0);
  const middle = PARTS + both.length;
  let sums = new Float64Array(2 * middle + 1);
  sums[middle] = 1;
  let seen = middle;
  for (const { weight, first, second } of both) {
    const passed = first.passed + second.passed;
    const partsOf = (found: number): number =>
      Math.round(PARTS * weight * (found / first.n - (passed - found) / second.n));
    const { least, chances } = hypergeometric(first.n, passed, first.n + second.n);
    const next = new Float64Array(sums.length);
    const steps = chances.map((_, i) => partsOf(least + i));
    for (let at = 0; at < sums.length; at++) {
      const before = sums[at]!;
      if (before === 0) continue;
      for (let i = 0; i < steps.length; i++) next[at + steps[i]!]! += before * chances[i]!;
    }
    sums = next;
    seen += steps[first.passed - least]!;
  }
  return Math.min(
    1,
    sums.subarray(seen).reduce((sum, chance) => sum + chance, 0),
  );
}
