/**
 * Sums of weights that are gained or lost by chance: the distribution behind the exact test of a
 * paired change.
 */

/** Sums of weights that differ by less are the same: no problem weighs so little. */
export const SAME = 1e-7;

/** Maximum number of distinct sums. Tiers of different sizes could have millions. */
export const MOST_SUMS = 8192;

export interface Pairs {
  readonly weight: number;
  readonly pairs: number;
}

export interface SignSums {
  /**
   * Chance that the sum is `least` or more, and less, where each pair is gained with chance theta
   * and lost otherwise.
   */
  tails(least: number, theta: number): readonly [more: number, less: number];
  /** The sum of all weights. */
  readonly reach: number;
}

/**
 * Pairs of one weight are a binomial; their sums are convolved over the weights. Where there are
 * more than `most` sums these are rounded to as many, never the weights, which moves a probability
 * by a thousandth or so.
 */
export function signSums(discordant: readonly Pairs[], most = MOST_SUMS): SignSums {
  const classes = new Map<number, { weight: number; pairs: number }>();
  for (const { weight, pairs } of discordant) {
    if (pairs === 0) continue;
    const key = Math.round(weight / SAME);
    const same = classes.get(key);
    if (same === undefined) classes.set(key, { weight, pairs });
    else same.pairs += pairs;
  }
  const all = [...classes.values()];
  const exact =
    all.length <= 1 || all.reduce((product, { pairs }) => product * (pairs + 1), 1) <= most;
  const reach = all.reduce((sum, { weight, pairs }) => sum + weight * pairs, 0);
  const grid = exact ? SAME : (2 * reach) / most;
  let values = [0];
  // by weight: which sum each one before becomes with k of the pairs gained, and how many there are
  // then
  const steps = all.map(({ weight, pairs }) => {
    const places = new Map<number, number>();
    const next: number[] = [];
    const to = new Int32Array(values.length * (pairs + 1));
    for (const [i, value] of values.entries()) {
      for (let k = 0; k <= pairs; k++) {
        const sum = value + weight * (2 * k - pairs);
        const key = Math.round(sum / grid);
        let place = places.get(key);
        if (place === undefined) {
          place = next.length;
          places.set(key, place);
          next.push(exact ? sum : key * grid);
        }
        to[i * (pairs + 1) + k] = place;
      }
    }
    values = next;
    return { pairs, to, sums: next.length };
  });
  const chances = (theta: number): Float64Array => {
    let sums = Float64Array.of(1);
    for (const { pairs, to, sums: count } of steps) {
      const binomial = binomialChances(pairs, theta);
      const next = new Float64Array(count);
      for (const [i, chance] of sums.entries()) {
        if (chance === 0) continue;
        for (let k = 0; k <= pairs; k++) next[to[i * (pairs + 1) + k]!]! += chance * binomial[k]!;
      }
      sums = next;
    }
    return sums;
  };
  return {
    reach,
    tails(least, theta) {
      let [more, less] = [0, 0];
      for (const [i, chance] of chances(theta).entries()) {
        if (values[i]! >= least - grid / 2) more += chance;
        else less += chance;
      }
      return [more, less];
    },
  };
}

function binomialChances(n: number, theta: number): Float64Array {
  const [gained, lost] = [Math.log(theta), Math.log1p(-theta)];
  let ways = 0;
  return Float64Array.from({ length: n + 1 }, (_, k) => {
    if (k > 0) ways += Math.log((n - k + 1) / k);
    return Math.exp(ways + (k && k * gained) + (n - k && (n - k) * lost));
  });
}

/**
 * Chance that pairs which go either way alike differ by |difference| or more: the exact McNemar
 * test where all weigh alike.
 */
export function signFlipTest(discordant: readonly Pairs[], difference: number): number {
  return Math.min(1, 2 * signSums(discordant).tails(Math.abs(difference), 0.5)[0]);
}
