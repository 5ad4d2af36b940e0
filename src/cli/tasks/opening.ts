/** Options of the commands that open a task. */
import { given } from '../../given.js';
import { askingOf } from '../../tasks/asking-options.js';
import { CHECK_HELP } from '../../tasks/data/check.js';
import { dataOptionsOf } from '../../tasks/data/options.js';
import { SET_NAMES } from '../../tasks/frozen-sets.js';
import type { OpenTaskOptions } from '../../tasks/open-task.js';
import {
  EXAMPLES_HELP,
  STOP_HELP,
  SYSTEM_HELP,
  TASK_HELP,
  TRUNCATED_HELP,
  VERIFY_SECONDS_HELP,
} from '../../training/settings.js';
import { number, readCount, text } from '../option.js';

export const taskOption = text(TASK_HELP, 'scheduling');
export const checkOption = text(CHECK_HELP);

/** Options for judging and prompting, of every command that opens a task. */
export const askingFlags = {
  check: checkOption,
  'answer-tag': text('for data: the answer is the text between <tag> and </tag>'),
  'verify-seconds': number(VERIFY_SECONDS_HELP),
  system: text(SYSTEM_HELP),
  examples: number(EXAMPLES_HELP),
  stop: { type: 'string', array: true, nargs: 1, describe: STOP_HELP },
  'judge-truncated': { type: 'boolean', describe: TRUNCATED_HELP },
} as const;

/** Options of `openTask` from the flags. */
export const openedWith = (
  flags: Parameters<typeof dataOptionsOf>[0] &
    Parameters<typeof askingOf>[0] & { readonly verifierThreads?: number | undefined },
): OpenTaskOptions => ({
  ...dataOptionsOf(flags),
  ...askingOf({
    ...flags,
    examples: flags.examples === undefined ? undefined : readCount('examples', flags.examples, 1),
  }),
  ...given({ verifierThreads: flags.verifierThreads }),
});

export const verifierThreadsOption = {
  ...number(
    'threads that judge replies in parallel, for a slow verifier; results do not depend on it',
  ),
  defaultDescription: '1',
};
export const setOption = {
  choices: SET_NAMES,
  describe: 'use a frozen set, or held-out rows of data, instead of generated problems',
};
export const seedOption = text('seed that determines the problems', '1');
