/** What a tracker is told of a training, and what it writes it for. */

/**
 * Finite numbers by name, `/` between the parts of a name as TRL has it: train/loss, eval/loss,
 * train/rewards/chosen.
 */
export type Metrics = Readonly<Record<string, number>>;

export interface TrackedRun {
  /** Where the trackers' files lie, a folder each. */
  readonly folder: string;
  readonly project: string;
  readonly name: string;
  /**
   * Of the run in the trackers' own books: 32 lower-case hexadecimal digits, the same when a run
   * goes on.
   */
  readonly id: string;
  /** What the training was begun with; JSON. */
  readonly config: Readonly<Record<string, unknown>>;
  /**
   * Goes on after an interruption. Otherwise what an earlier run of the same id has left is
   * dropped.
   */
  readonly resumed: boolean;
  /** Milliseconds since 1970, for what trackers show beside a step. */
  readonly now: () => number;
}

/**
 * One tracker's files. Every call writes through: a training that is killed leaves what it has
 * logged.
 */
export interface Tracker {
  log(step: number, metrics: Metrics): void;
  end(status: 'finished' | 'failed'): void;
}
