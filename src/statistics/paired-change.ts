/**
 * Two evaluations of the same problems, compared in the figure that is reported of each: the mean
 * over tiers.
 */
import { SAME, signFlipTest } from './sign-sums.js';

/** Verdicts on one tier's problems, in the order of the set: `p` pass, `f` fail, `n` none. */
export interface TierVerdicts {
  /** Weight of the tier in the mean; all weights add up to 1. */
  readonly weight: number;
  readonly verdicts: string;
}

/**
 * Over the problems with a verdict on both sides; a tier without any is left out, and the others
 * weigh more.
 */
export interface PairedChange {
  /** Problems that fail before and pass after, and the other way round. */
  readonly gained: number;
  readonly lost: number;
  /** Means over tiers; 0 where nothing was decided twice. */
  readonly before: number;
  readonly after: number;
  /** after - before; exactly 0 where what was gained weighs as much as what was lost. */
  readonly difference: number;
  /** Exact, two-sided, of that no tier changed, by the difference. */
  readonly p: number;
  /**
   * Parts of the mean that were gained and lost, and of how many problems of equal weight it would
   * be the mean (Kish 1965).
   */
  readonly gain: number;
  readonly loss: number;
  readonly effective: number;
}

/** True if the mean over tiers fell significantly at the given level. */
export const isSignificantDrop = (
  { difference, p }: Pick<PairedChange, 'difference' | 'p'>,
  level: number,
): boolean => difference < 0 && p < level;

/** @throws RangeError where the two are not over the same problems */
export function pairedChange(
  before: readonly TierVerdicts[],
  after: readonly TierVerdicts[],
): PairedChange {
  if (before.length !== after.length)
    throw new RangeError(`cannot compare ${before.length} tiers with ${after.length}`);
  const tiers = before.flatMap(({ weight, verdicts }, tier) => {
    const now = after[tier]!.verdicts;
    if (verdicts.length !== now.length)
      throw new RangeError(`cannot compare ${verdicts.length} problems with ${now.length}`);
    let [pairs, passed, gained, lost] = [0, 0, 0, 0];
    for (let i = 0; i < verdicts.length; i++) {
      if (verdicts[i] === 'n' || now[i] === 'n') continue;
      pairs++;
      if (verdicts[i] === 'p') passed++;
      if (verdicts[i] === 'p' && now[i] === 'f') lost++;
      if (verdicts[i] === 'f' && now[i] === 'p') gained++;
    }
    return pairs === 0 ? [] : [{ weight, pairs, passed, gained, lost }];
  });
  const covered = tiers.reduce((sum, { weight }) => sum + weight, 0);
  const weighted = tiers.map((tier) => ({ ...tier, each: tier.weight / covered / tier.pairs }));
  const total = (of: (tier: (typeof weighted)[number]) => number): number =>
    weighted.reduce((sum, tier) => sum + of(tier), 0);
  const [gain, loss, passed] = [
    total(({ gained, each }) => gained * each),
    total(({ lost, each }) => lost * each),
    total((tier) => tier.passed * tier.each),
  ];
  const difference = Math.abs(gain - loss) < SAME ? 0 : gain - loss;
  return {
    gained: total(({ gained }) => gained),
    lost: total(({ lost }) => lost),
    before: passed,
    after: passed + difference,
    difference,
    p: signFlipTest(
      weighted.map(({ each, gained, lost }) => ({ weight: each, pairs: gained + lost })),
      difference,
    ),
    gain,
    loss,
    effective: tiers.length === 0 ? 0 : 1 / total(({ pairs, each }) => pairs * each ** 2),
  };
}

/**
 * Score statistic for a gain of `least` in a paired difference (Tango 1998): standard normal where
 * that is the gain, far below zero where the pairs speak against so much. It holds for few
 * discordant pairs and for none.
 */
export function gainScore(
  { gain, loss, effective: n }: Pick<PairedChange, 'gain' | 'loss' | 'effective'>,
  least: number,
): number {
  if (n === 0) return 0;
  const [gained, lost] = [gain * n, loss * n];
  const b = -gained - lost + (2 * n - gained + lost) * least;
  const c = -lost * least * (1 - least);
  const q = (Math.sqrt(b * b - 8 * n * c) - b) / (4 * n);
  return (gained - lost - n * least) / Math.sqrt(n * (2 * q + least * (1 - least)));
}
