import { given } from '../given.js';

/** How any task is asked, and whether a reply that was cut off is judged. */
export interface AskingOptions {
  /** Before every prompt, as the system's message; what a prompt has of its own follows it. */
  readonly system?: string;
  /** Solved examples before every prompt. */
  readonly examples?: number;
  /** A reply ends before the first of these texts; no part of it. Of tasks of one turn. */
  readonly stop?: readonly string[];
  /** A reply that was cut off is judged as it stands; else it fails as `truncated`. */
  readonly judgeTruncated?: boolean;
}

/** Those of them that are given, of settings, flags or a log that hold others too. */
export const askingOf = (
  options: {
    readonly [name in keyof AskingOptions]: AskingOptions[name] | undefined;
  },
): AskingOptions => given(options, 'system', 'examples', 'stop', 'judgeTruncated');
