/** What a strategy finds. */
import { mean, studentInterval } from '../statistics/index.js';

/** Which way is better, `zero`: the nearer to 0; whoever sorts by a score has to know it. */
export const DIRECTIONS = ['lower', 'higher', 'zero'] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** Why a trajectory has no score; each is counted. */
export type Skipped = Readonly<Record<string, number>>;

export interface Score {
  readonly direction: Direction;
  /** Null where nothing could be measured; `skipped` says why. */
  readonly value: number | null;
  /** 95 %; null where too little was measured. */
  readonly interval: { readonly low: number; readonly high: number } | null;
  /** Trajectories that count. */
  readonly n: number;
  readonly skipped: Skipped;
  /** By the id of the trajectory. */
  readonly perTrajectory: ReadonlyMap<string, number>;
}

/** What scores can be at all. */
export type Range = readonly [least: number, most: number];

/** A mean over trajectories, with Student's 95 % interval where two differ, as far as it lies within the range. */
export function meanScore(
  direction: Direction,
  perTrajectory: ReadonlyMap<string, number>,
  skipped: SkipCount,
  [least, most]: Range = [-Infinity, Infinity],
): Score {
  const values = [...perTrajectory.values()];
  const n = values.length;
  const around = studentInterval(values);
  const interval = around && { low: Math.max(least, around.low), high: Math.min(most, around.high) };
  return { direction, value: n === 0 ? null : mean(values), interval, n, skipped: skipped.counts, perTrajectory };
}

/** Counts reasons. */
export class SkipCount {
  readonly #counts = new Map<string, number>();

  add(reason: string, count = 1): void {
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + count);
  }

  get counts(): Skipped {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}
