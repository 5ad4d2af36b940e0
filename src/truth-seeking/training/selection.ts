/**
 * Selection of scored trajectories: the best of each file, because scores of different files cannot
 * be compared.
 */
import { IsoproError } from '../../errors.js';
import { isRight } from '../beliefs/belief.js';
import { targetOf, type Option } from '../problem.js';
import { DIRECTIONS, type Direction } from '../score.js';

/** Number of items to hold out for validation, of `n`. */
export function validationSize(n: number): number {
  if (n <= 10) return 0;
  if (n <= 50) return Math.min(5, Math.floor(n / 3));
  if (n <= 200) return Math.min(20, Math.floor(n / 4));
  if (n <= 1000) return Math.min(100, Math.floor(n / 5));
  return Math.min(200, Math.floor(n / 10));
}

/**
 * Sorts items best first; equal ones keep their order.
 * @throws IsoproError INVALID_ARGUMENT without a direction
 */
export function ranked<T>(
  items: readonly T[],
  direction: Direction | undefined,
  scoreOf: (item: T) => number,
): T[] {
  if (direction === undefined || !DIRECTIONS.includes(direction))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `direction: state which scores are better: ${DIRECTIONS.join(', ')}`,
    );
  const badness = (score: number): number =>
    direction === 'lower' ? score : direction === 'higher' ? -score : Math.abs(score);
  return items.toSorted((a, b) => badness(scoreOf(a)) - badness(scoreOf(b)));
}

/** The best part of a file, rounded down. */
export const selectTop = <T extends { readonly score: number }>(
  scored: readonly T[],
  part: number,
  direction: Direction | undefined,
): T[] =>
  ranked(scored, direction, ({ score }) => score).slice(0, Math.floor(scored.length * part));

/** Number of examples from each file: its share of the count by size, at most its best part. */
export function fewShotCounts(sizes: readonly number[], count: number, part: number): number[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  return sizes.map((size) =>
    Math.min(Math.floor(size * part), Math.floor((count * size) / total + 0.99)),
  );
}

/** True if a trajectory ends on the right side of one half; false if the answer is unknown. */
export function endsRight(eventual: number, correctOption: Option | null): boolean {
  const target = targetOf({ correctOption });
  return target !== null && isRight(eventual, target);
}
