/** What a strategy finds. */

/** Which way is better; whoever sorts by a score has to know it. */
export type Direction = 'lower' | 'higher';

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
