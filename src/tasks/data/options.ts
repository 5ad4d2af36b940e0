export interface DataTaskOptions {
  /** How replies are checked, as `--check` names it. Default: `exact`. */
  readonly check?: string;
  /** Seconds that judging a reply may take. */
  readonly verifySeconds?: number;
}
