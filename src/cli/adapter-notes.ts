/** What a person has to know of a model or an adapter before it is asked, said on stderr. */
import { otherBase, warningsOf } from '../operations/notes.js';
import type { FoundAdapter } from '../lookup/adapters.js';
import { label } from '../text/hostile-text.js';
import { visible } from '../visible-text.js';
import { trainedBehind } from '../run-folder/training-prompt.js';
import { printNote } from './output.js';
import { generateCommand, taskHere } from './tasks/task-flags.js';

/**
 * What a run set around every question that its adapter was trained on; null where that was
 * nothing, or no run is known.
 */
export function askedBehind(
  { run }: Pick<FoundAdapter, 'run'>,
  remedy = '--task with the task of its run sets them there.',
): string | null {
  const behind = run === null ? null : trainedBehind(run.manifest.start);
  if (behind === null) return null;
  return `The adapter was trained behind ${behind}: without the same before a question it answers otherwise. ${remedy}`;
}

/** Of a program that is asked from elsewhere. */
export function sentByClients({ run }: Pick<FoundAdapter, 'run'>): string {
  if (run === null) return '';
  const { start } = run.manifest;
  const task = taskHere(start) === null ? ` (TASK: the file of ${label(start.task.id)})` : '';
  return `Whoever asks has to send them; \`${visible(generateCommand(start))}\` prints them${task}.`;
}

export const note = (text: string | null): void => {
  if (text !== null) printNote(`${text}\n`);
};

export const noteOtherBase = async (...of: Parameters<typeof otherBase>): Promise<void> =>
  note(await otherBase(...of));

export const noteWarnings = (model: Parameters<typeof warningsOf>[0]): void =>
  warningsOf(model).forEach(note);
