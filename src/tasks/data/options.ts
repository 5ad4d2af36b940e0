import { given } from '../../given.js';

export interface DataTaskOptions {
  /** How replies are checked, as `--check` names it. Default: `exact`. */
  readonly check?: string;
  /**
   * What is checked is what stands between `<tag>` and `</tag>`, once; prompts say so. Default: the
   * whole reply.
   */
  readonly answerTag?: string;
  /** Seconds that judging a reply may take. */
  readonly verifySeconds?: number;
}

/** Those of them that are given, of settings, flags or a log that hold others too. */
export const dataOptionsOf = (
  options: {
    readonly [name in keyof DataTaskOptions]: DataTaskOptions[name] | undefined;
  },
): DataTaskOptions => given(options, 'check', 'answerTag', 'verifySeconds');
