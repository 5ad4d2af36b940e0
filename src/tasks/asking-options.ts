import { given } from '../given.js';

/** Options of any task: its prompts, and how cut-off replies are judged. */
export interface AskingOptions {
  /** System message of every prompt; the prompt's own system message follows it. */
  readonly system?: string;
  /** Number of solved examples before every prompt. */
  readonly examples?: number;
  /** Texts before which a reply ends; for tasks of one turn. */
  readonly stop?: readonly string[];
  /** Judge a reply that was cut off as it is; otherwise it fails as `truncated`. */
  readonly judgeTruncated?: boolean;
}

/** Picks these options from settings, flags or a log record. */
export const askingOf = (
  options: {
    readonly [name in keyof AskingOptions]: AskingOptions[name] | undefined;
  },
): AskingOptions => given(options, 'system', 'examples', 'stop', 'judgeTruncated');
