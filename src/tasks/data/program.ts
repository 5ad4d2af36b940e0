import type { Check } from './check.js';
import type { DataContent } from './data-problem.js';
import type { DataTaskOptions } from './options.js';

/** Everything that decides a verdict, a prompt or a draw; passed to threads. */
export interface DataProgram extends Pick<DataTaskOptions, 'answerTag' | 'verifySeconds'> {
  /** Of the file, for messages. */
  readonly path: string;
  readonly id: string;
  readonly version: string;
  readonly check: Check;
  /** In the order in which the file names them. */
  readonly tiers: readonly string[];
  /** Rows that are trained on. */
  readonly train: readonly DataContent[];
}
