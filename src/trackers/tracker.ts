/** Input of a tracker: the run that it records. */

/**
 * Finite numbers by name, `/` between the parts of a name as TRL has it: train/loss, eval/loss,
 * train/rewards/chosen.
 */
export type Metrics = Readonly<Record<string, number>>;

export interface TrackedRun {
  /** Folder of the trackers' files, with one folder per tracker. */
  readonly folder: string;
  readonly project: string;
  readonly name: string;
  /**
   * Id of the run in the trackers: 32 lower-case hexadecimal digits, the same when a run is
   * resumed.
   */
  readonly id: string;
  /** Settings of the training; JSON. */
  readonly config: Readonly<Record<string, unknown>>;
  /**
   * True if the run resumes after an interruption. Otherwise, data of an earlier run with the same
   * id is deleted.
   */
  readonly resumed: boolean;
  /** Returns milliseconds since 1970, for the time of a step. */
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
