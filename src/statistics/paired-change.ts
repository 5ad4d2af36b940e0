/** Two evaluations of the same problems, compared in the figure that is reported of each: the mean over tiers. */

/** Verdicts on one tier's problems, in the order of the set: `p` pass, `f` fail, `n` none. */
export interface TierVerdicts {
  /** Of the tier in the mean; over all tiers they add up to 1. */
  readonly weight: number;
  readonly verdicts: string;
}

/** Over the problems with a verdict on both sides; a tier without any is left out, and the others weigh more. */
export interface PairedChange {
  /** Problems that fail before and pass after, and the other way round. */
  readonly gained: number;
  readonly lost: number;
  /** Means over tiers; 0 where nothing was decided twice. */
  readonly before: number;
  readonly after: number;
  /** after - before; exactly 0 where what was gained weighs as much as what was lost. */
  readonly difference: number;
  /** Exact two-sided test of the difference. */
  readonly p: number;
  /** Parts of the mean that were gained and lost, and of how many problems of equal weight it would be the mean (Kish 1965). */
  readonly gain: number;
  readonly loss: number;
  readonly effective: number;
}

/** True where the mean over tiers fell, and that is no accident at the level given. */
export const isSignificantDrop = ({ difference, p }: Pick<PairedChange, 'difference' | 'p'>, level: number): boolean =>
  difference < 0 && p < level;

/** @throws RangeError where the two are not over the same problems */
export function pairedChange(before: readonly TierVerdicts[], after: readonly TierVerdicts[]): PairedChange {
  if (before.length !== after.length) throw new RangeError(`${before.length} tiers are not compared with ${after.length}`);
  const tiers = before.flatMap(({ weight, verdicts }, tier) => {
    const now = after[tier]!.verdicts;
    if (verdicts.length !== now.length) throw new RangeError(`${verdicts.length} problems are not compared with ${now.length}`);
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
  const total = (of: (tier: (typeof weighted)[number]) => number): number => weighted.reduce((sum, tier) => sum + of(tier), 0);
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

/** Sums of weights that differ by less are the same: no problem weighs so little. */
const SAME = 1e-7;

/** Distinct sums that are told apart. Tiers of different sizes could have millions, which nobody wants to wait for. */
const MOST_SUMS = 8192;

/**
 * Probability that pairs which go either way with equal chance differ by |difference| or more: the exact McNemar test where all weigh
 * alike.
 * Pairs of one weight are a binomial; their sums are convolved over the weights. Where there are more than MOST_SUMS sums they are rounded
 * to as many, which moves the probability by a thousandth or so.
 */
function signFlipTest(discordant: readonly { readonly weight: number; readonly pairs: number }[], difference: number): number {
  const classes = new Map<number, { weight: number; pairs: number }>();
  for (const { weight, pairs } of discordant) {
    if (pairs === 0) continue;
    const key = Math.round(weight / SAME);
    const same = classes.get(key);
    if (same === undefined) classes.set(key, { weight, pairs });
    else same.pairs += pairs;
  }
  const all = [...classes.values()];
  const exact = all.length === 1 || all.reduce((product, { pairs }) => product * (pairs + 1), 1) <= MOST_SUMS;
  const reach = all.reduce((sum, { weight, pairs }) => sum + weight * pairs, 0);
  const grid = exact ? SAME : (2 * reach) / MOST_SUMS;
  let sums = new Map([[0, { value: 0, probability: 1 }]]);
  for (const { weight, pairs } of all) {
    const next = new Map<number, { value: number; probability: number }>();
    for (const { value, probability } of sums.values()) {
      let log = Math.log(probability) - pairs * Math.LN2;
      for (let k = 0; k <= pairs; k++) {
        const sum = value + weight * (2 * k - pairs);
        const key = Math.round(sum / grid);
        const same = next.get(key);
        if (same === undefined) next.set(key, { value: exact ? sum : key * grid, probability: Math.exp(log) });
        else same.probability += Math.exp(log);
        log += Math.log((pairs - k) / (k + 1));
      }
    }
    sums = next;
  }
  const least = Math.abs(difference) - grid / 2;
  return Math.min(
    1,
    [...sums.values()].reduce((total, { value, probability }) => (Math.abs(value) >= least ? total + probability : total), 0),
  );
}

/**
 * Score statistic for a gain of `least` in a paired difference (Tango 1998): standard normal where that is the gain, far below zero where
 * the pairs speak against so much. It holds for few discordant pairs and for none.
 */
export function gainScore({ gain, loss, effective: n }: Pick<PairedChange, 'gain' | 'loss' | 'effective'>, least: number): number {
  if (n === 0) return 0;
  const [gained, lost] = [gain * n, loss * n];
  const b = -gained - lost + (2 * n - gained + lost) * least;
  const c = -lost * least * (1 - least);
  const q = (Math.sqrt(b * b - 8 * n * c) - b) / (4 * n);
  return (gained - lost - n * least) / Math.sqrt(n * (2 * q + least * (1 - least)));
}
