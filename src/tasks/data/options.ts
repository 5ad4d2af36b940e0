import { given } from '../../given.js';

export interface DataTaskOptions {
  /** Check of the replies, as for `--check`. Default: `exact`. */
  readonly check?: string;
  /**
   * Check only what is between `<tag>` and `</tag>`, which must appear once; prompts say so.
   * Default: the whole reply.
   */
  readonly answerTag?: string;
  /** Time limit for judging a reply, in seconds. */
  readonly verifySeconds?: number;
}

/** Picks these options from settings, flags or a log record. */
export const dataOptionsOf = (
  options: {
    readonly [name in keyof DataTaskOptions]: DataTaskOptions[name] | undefined;
  },
): DataTaskOptions => given(options, 'check', 'answerTag', 'verifySeconds');
