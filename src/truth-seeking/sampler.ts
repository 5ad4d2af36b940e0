/** Split of a domain into train and test, and the order in which problems are drawn. */
import { hash } from 'node:crypto';
import { Random } from '../random.js';
import type { Problem } from './problem.js';

export type Split = 'train' | 'test';

/**
 * Parts of a domain by the order of hashes of question and id, which is the same on every machine
 * and moves no problem when another joins but at the border.
 * @param trainShare part of the problems, rounded down
 */
export function split<P extends Problem>(
  problems: readonly P[],
  trainShare: number,
): Readonly<Record<Split, readonly P[]>> {
  const key = ({ question, id }: Problem): string =>
    `${hash('sha256', question)} ${hash('sha256', id)}`;
  const sorted = problems
    .map((problem) => ({ problem, key: key(problem) }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const border = Math.floor(sorted.length * trainShare);
  const ordered = sorted.map(({ problem }) => problem);
  return { train: ordered.slice(0, border), test: ordered.slice(border) };
}

/**
 * Draws without replacement, across calls too: every problem once, in random order, before any
 * comes again.
 */
export class Sampler<P> {
  readonly #problems: readonly P[];
  readonly #random: Random;
  #queue: P[] = [];

  /** @param problems at least one */
  constructor(problems: readonly P[], seed: bigint) {
    if (problems.length === 0) throw new RangeError('there are no problems to draw from');
    this.#problems = problems;
    this.#random = new Random(seed);
  }

  next(count = 1): P[] {
    while (this.#queue.length < count) this.#queue.push(...this.#random.shuffle(this.#problems));
    return this.#queue.splice(0, count);
  }
}
