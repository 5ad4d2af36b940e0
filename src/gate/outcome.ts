/** The outcome of one test on one list of trials. */
import type { Interval } from '../statistics/index.js';

/**
 * `shown`: better, or not worse; `refuted`: the opposite is shown; `inconclusive`: this test is
 * over without either.
 */
export type State = 'shown' | 'refuted' | 'open' | 'inconclusive' | 'invalid';

export type Statistic =
  /** `logE` and `logThreshold` are natural logarithms; `logE` is null where the e-value is 0. */
  | {
      readonly kind: 'e-process';
      readonly logE: number | null;
      readonly logThreshold: number;
      readonly mean: number | null;
    }
  | {
      readonly kind: 'sign';
      readonly logE: number | null;
      readonly logThreshold: number;
      readonly blocks: number;
      readonly wins: number;
    }
  | {
      readonly kind: 'paired-t';
      readonly screen: number;
      readonly confirmation: number;
      readonly heldOut: number;
      /** Mean of the confirmation lane; null if it is empty. */
      readonly mean: number | null;
      readonly interval: Interval | null;
    }
  /**
   * `regressed` problems of `blocks`; `rateBelow`: the upper 95 % limit of the rate of regressions
   * where none was seen.
   */
  | {
      readonly kind: 'safety';
      readonly blocks: number;
      readonly regressed: number;
      readonly rateBelow: number | null;
    };

/** An e-value for a reader, from its logarithm: as a number as long as that is one to read. */
export const shownE = (logE: number): string =>
  logE < 100 ? Math.exp(logE).toPrecision(4) : `e^${logE.toFixed(0)}`;

export interface Outcome {
  readonly state: State;
  readonly reason: string;
  readonly statistic: Statistic;
}
