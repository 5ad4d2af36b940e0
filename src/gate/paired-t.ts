/**
 * The paired t of a trainer's gate: screen, confirmation, held-out, by an interval that pays for
 * every look. It promises nothing.
 */
import {
  mean,
  normalTail,
  sampleStandardDeviation,
  studentQuantile,
  type Interval,
} from '../statistics/index.js';
import type { PairedTTerms } from './terms.js';
import { twoSidedThreshold } from './spending.js';
import type { Outcome } from './outcome.js';
import { differenceOf, type Block, type Lane } from './trials.js';

/** Smallest level: below it the square of the t quantile overflows a double. */
const SMALLEST_LEVEL = 1e-100;

/** Quantiles by key: a gate asks for the same few at every look. */
const quantiles = new Map<string, number>();
const KEPT = 1024;

function kept(key: string, compute: () => number): number {
  const value = quantiles.get(key) ?? compute();
  if (quantiles.size >= KEPT) quantiles.clear();
  quantiles.set(key, value);
  return value;
}

/**
 * The level of the rounded threshold, before the looks share it; where it was rounded down, alpha.
 */
const familyLevel = (alpha: number): number =>
  kept(`${alpha}`, () => Math.min(alpha, 2 * normalTail(twoSidedThreshold(alpha))));

/**
 * Student's t interval of a mean difference at the level family / looks, two-sided; null for fewer
 * than two differences, a point where they are all alike.
 */
export function pairedTInterval(
  differences: readonly number[],
  family: number,
  looks: number,
): Interval | null {
  if (differences.length < 2) return null;
  const centre = mean(differences);
  if (differences.every((difference) => difference === differences[0]))
    return { low: differences[0]!, high: differences[0]! };
  const error = sampleStandardDeviation(differences) / Math.sqrt(differences.length);
  const half =
    kept(`${family} ${looks} ${differences.length}`, () =>
      studentQuantile(family / looks / 2, differences.length - 1),
    ) * error;
  return { low: centre - half, high: centre + half };
}

export function pairedT(blocks: readonly Block[], terms: PairedTTerms, alpha: number): Outcome {
  const of = (lane: Lane): number[] =>
    blocks.filter((block) => block.lane === lane).map(differenceOf);
  const [screen, confirmation, heldOut] = [of('screen'), of('confirmation'), of('held-out')];
  const result = (
    state: Outcome['state'],
    reason: string,
    interval: Interval | null = null,
  ): Outcome => ({
    state,
    reason,
    statistic: {
      kind: 'paired-t',
      screen: screen.length,
      confirmation: confirmation.length,
      heldOut: heldOut.length,
      mean: confirmation.length === 0 ? null : mean(confirmation),
      interval,
    },
  });
  const beyond = [
    ['screen', screen.length, terms.screen],
    ['confirmation', confirmation.length, terms.most],
    ['held-out', heldOut.length, terms.heldOut],
  ] as const;
  for (const [lane, there, most] of beyond)
    if (there > most)
      return result(
        'invalid',
        `${there} problems in the lane ${lane}, but the policy allows ${most}: more evidence than planned`,
      );
  if (!(alpha > SMALLEST_LEVEL)) return result('inconclusive', 'no alpha is left for this attempt');

  const family = familyLevel(alpha);
  const looks = terms.most - terms.least + 1;
  const { minimumEffect } = terms;
  const missing = (lane: Lane, there: number, needed: number): string =>
    `${there} of ${needed} problems in the lane ${lane}`;
  if (screen.length < terms.screen)
    return result('open', missing('screen', screen.length, terms.screen));
  const screened = pairedTInterval(screen, family, looks)!;
  if (screened.high < minimumEffect)
    return result('refuted', `the screen's upper limit ${screened.high} is below ${minimumEffect}`);
  if (confirmation.length < terms.least)
    return result('open', missing('confirmation', confirmation.length, terms.least));
  const interval = pairedTInterval(confirmation, family, looks)!;
  if (interval.low < minimumEffect) {
    const so = `the lower limit ${interval.low} is below ${minimumEffect}`;
    return result(confirmation.length < terms.most ? 'open' : 'inconclusive', so, interval);
  }
  if (heldOut.length < terms.heldOut)
    return result('open', missing('held-out', heldOut.length, terms.heldOut), interval);
  const held = mean(heldOut);
  if (held < minimumEffect)
    return result('refuted', `the held-out mean ${held} is below ${minimumEffect}`, interval);
  const so = `the lower limit ${interval.low} and the held-out mean ${held} reach ${minimumEffect}`;
  return result('shown', so, interval);
}
