/** Score of a strategy. */
import { mean } from '../statistics/index.js';
import { clusteredInterval } from '../statistics/regression.js';

/** Direction of a score; `zero`: the nearer to 0, the better. */
export const DIRECTIONS = ['lower', 'higher', 'zero'] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** Counts of trajectories without a score, by reason. */
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

/** Possible range of a score. */
export type Range = readonly [least: number, most: number];

/**
 * Groups of trajectories, by trajectory id. Problems of one group are not independent observations;
 * a trajectory without a group is its own.
 */
export type Groups = ReadonlyMap<string, string>;
export const NO_GROUPS: Groups = new Map();

export interface MeanOptions {
  readonly range?: Range;
  readonly groups?: Groups;
}

/**
 * Mean over trajectories, with Student's 95 % interval over groups if two differ, clipped to the
 * range.
 */
export function meanScore(
  direction: Direction,
  perTrajectory: ReadonlyMap<string, number>,
  skipped: SkipCount,
  { range: [least, most] = [-Infinity, Infinity], groups = NO_GROUPS }: MeanOptions = {},
): Score {
  const values = [...perTrajectory.values()];
  const n = values.length;
  const around = clusteredInterval(
    values,
    [...perTrajectory.keys()].map((id) => groups.get(id) ?? id),
  );
  const interval = around && {
    low: Math.max(least, around.low),
    high: Math.min(most, around.high),
  };
  return {
    direction,
    value: n === 0 ? null : mean(values),
    interval,
    n,
    skipped: skipped.counts,
    perTrajectory,
  };
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
