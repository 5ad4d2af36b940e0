import { mean, pearson } from './descriptive.js';
import { fisherExact } from './hypergeometric.js';

/** Pairs of which every order is tried: at most 40,320. */
const MOST_PERMUTED = 8;
/** Part of a sum that rounding may change. */
const ROUNDING = 1e-9;

/** True if there are exactly two different values, such as right and wrong. */
export const isTwoValued = (values: readonly number[]): boolean => new Set(values).size === 2;

/**
 * Exact two-sided p of a correlation: the part of all orders of y whose correlation with x is at
 * least as far from 0. It assumes no distribution of the values. If each side has two values, the
 * orders are counted (Fisher's test); otherwise they are enumerated, and orders that differ only by
 * equal values are tried once.
 * @param y as many as x
 * @returns null where a side is constant, or the orders are neither few enough to be tried nor
 *   counted
 */
export function permutationP(x: readonly number[], y: readonly number[]): number | null {
  if (Number.isNaN(pearson(x, y))) return null;
  if (isTwoValued(x) && isTwoValued(y)) {
    const [marks, draws] = [x, y].map((side) => side.map((value) => value === side[0])) as [
      boolean[],
      boolean[],
    ];
    const count = (of: (i: number) => boolean): number => marks.filter((_, i) => of(i)).length;
    return fisherExact(
      count((i) => marks[i]! && draws[i]!),
      count((i) => draws[i]!),
      count((i) => marks[i]!),
      x.length,
    );
  }
  return x.length > MOST_PERMUTED ? null : triedP(x, y);
}

function triedP(x: readonly number[], y: readonly number[]): number {
  const [mx, my] = [mean(x), mean(y)];
  const [dx, dy] = [x.map((value) => value - mx), y.map((value) => value - my)];
  const seen = Math.abs(dx.reduce((sum, value, i) => sum + value * dy[i]!, 0));
  const scale = Math.sqrt(
    dx.reduce((sum, value) => sum + value ** 2, 0) * dy.reduce((sum, value) => sum + value ** 2, 0),
  );
  const values = [...new Set(dy)];
  const left = values.map((value) => dy.filter((other) => other === value).length);
  let [asFar, all] = [0, 0];
  const place = (at: number, sum: number): void => {
    if (at === dx.length) {
      all++;
      if (Math.abs(sum) >= seen - ROUNDING * scale) asFar++;
      return;
    }
    for (let i = 0; i < values.length; i++) {
      if (left[i] === 0) continue;
      left[i]!--;
      place(at + 1, sum + dx[at]! * values[i]!);
      left[i]!++;
    }
  };
  place(0, 0);
  return asFar / all;
}
