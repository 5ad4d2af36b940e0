/**
 * Work on much, some milliseconds at a time: between two slices of it the event loop turns, for
 * tokens, timers and signals of others.
 */
import type { Turnstile } from './event-loop-gate.js';

const SLICE_MS = 4;

export class Slices {
  readonly #turns: Turnstile;
  #begun = performance.now();

  constructor(turns: Turnstile) {
    this.#turns = turns;
  }

  /** Members of a long list, in its order. */
  async map<T, U>(items: ArrayLike<T>, make: (item: T, index: number) => U): Promise<U[]> {
    const made: U[] = [];
    await this.#each(items.length, (from, to) => {
      for (let i = from; i < to; i++) made.push(make(items[i]!, i));
    });
    return made;
  }

  /**
   * Writes an answer as JSON.stringify does, in parts: its own lists, and those in the members of
   * one of them, such as choices.
   */
  async json(answer: unknown): Promise<string> {
    const written: string[] = [];
    for (const part of partsOf(answer)) {
      if (typeof part === 'string') {
        written.push(part);
        continue;
      }
      written.push('[');
      await this.#each(part.length, (from, to) => {
        written.push(from === 0 ? '' : ',', JSON.stringify(part.slice(from, to)).slice(1, -1));
      });
      written.push(']');
    }
    return written.join('');
  }

  /** Ranges one after the other, each of as many members as little time is enough for. */
  async #each(length: number, work: (from: number, to: number) => void): Promise<void> {
    for (let from = 0, size = 1; from < length; ) {
      const before = performance.now();
      const to = Math.min(length, from + size);
      work(from, to);
      from = to;
      const now = performance.now();
      if (now - before < SLICE_MS / 4) size *= 2;
      else if (now - before > SLICE_MS / 2) size = Math.max(1, size >> 1);
      if (now - this.#begun < SLICE_MS) continue;
      await this.#turns.pass();
      this.#begun = performance.now();
    }
  }
}

/** Members of an answer that are looked into, one by one. */
const FEW = 128;

/** Splits an answer into texts of JSON and the lists between them that may be long. */
function partsOf(value: unknown, isInList = false): (string | readonly unknown[])[] {
  if (typeof value !== 'object' || value === null) return [JSON.stringify(value) ?? 'null'];
  if (Array.isArray(value)) {
    if (isInList || value.length > FEW || typeof value[0] !== 'object') return [value];
    return [
      '[',
      ...value.flatMap((member, i) => [...(i === 0 ? [] : [',']), ...partsOf(member, true)]),
      ']',
    ];
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return [
    '{',
    ...members.flatMap(([name, member], i) => [
      `${i === 0 ? '' : ','}${JSON.stringify(name)}:`,
      ...partsOf(member, isInList),
    ]),
    '}',
  ];
}
