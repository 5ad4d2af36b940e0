/** Flags that name a task and state how it is judged and prompted. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { isOfRows, type RunStart } from '../../run-folder/manifest.js';
import { readWrittenSettings } from '../../run-folder/written-settings.js';
import { shellWord } from '../../shell-word.js';
import type { AskingOptions } from '../../tasks/asking-options.js';
import type { DataTaskOptions } from '../../tasks/data/options.js';
import { isBuiltIn } from '../../tasks/registry.js';
import { DATA_ENDINGS } from '../../tasks/data/read-rows.js';

export const flagText = (
  flags: readonly (readonly [flag: string, value: string | number | undefined])[],
): string =>
  flags
    .map(([flag, value]) =>
      value === undefined
        ? ''
        : ` --${flag}${String(value).startsWith('-') ? '=' : ' '}${shellWord(String(value))}`,
    )
    .join('');

/** A task, and how it is judged and asked. */
type Asked = { readonly [name in keyof DataTaskOptions]: DataTaskOptions[name] | undefined } & {
  readonly task: string;
  readonly sampling: { readonly [name in keyof AskingOptions]: AskingOptions[name] | undefined };
};

/** Flags that make a command judge and prompt as the run did. */
export function taskFlags({
  task,
  check,
  answerTag,
  verifySeconds,
  sampling: { system, examples, stop = [], judgeTruncated },
}: Asked): string {
  const flags = flagText([
    ['task', task === 'scheduling' ? undefined : task],
    ['check', check],
    ['answer-tag', answerTag],
    ['verify-seconds', verifySeconds],
    ['system', system],
    ['examples', examples],
    ...stop.map((text) => ['stop', text] as const),
  ]);
  return judgeTruncated === true ? `${flags} --judge-truncated` : flags;
}

/**
 * The task of a run by the name that a command takes: a manifest holds its id, which of rows is the
 * name of their file without its end. null where no such file is in this folder.
 */
export function taskHere({ task }: Pick<RunStart, 'task'>): string | null {
  const { id, file } = task;
  if (file === null) return isBuiltIn(id) ? id : null;
  if (!isOfRows(task) || path.basename(id) !== id) return null;
  return DATA_ENDINGS.map((end) => `${id}${end}`).find((name) => existsSync(name)) ?? null;
}

/**
 * Command that prints the problems of a run with its prompts; TASK replaces a file that is not
 * here.
 */
export function generateCommand(start: RunStart): string {
  const { check, answerTag, sampling } = readWrittenSettings(start.settings);
  const { system, examples } = sampling;
  const task = taskFlags({
    task: taskHere(start) ?? 'TASK',
    check,
    answerTag,
    verifySeconds: undefined,
    sampling: { system, examples },
  });
  return `npx isopro-native tasks generate${task}${start.evaluation.style === 'cot' ? '' : ` --style ${start.evaluation.style}`} --json`;
}
