/** Notes on stderr about a model or an adapter before it is used. */
import { otherBase, warningsOf } from '../operations/notes.js';
import { requireServable, type NamedAdapter } from '../lookup/adapter-reference.js';
import type { FoundAdapter } from '../lookup/adapters.js';
import { label } from '../text/hostile-text.js';
import { visible } from '../visible-text.js';
import { trainedBehind } from '../run-folder/training-prompt.js';
import { printNote } from './output.js';
import { generateCommand, taskHere } from './tasks/task-flags.js';

/**
 * Warning that the adapter was trained with a system message or examples; null if it was not, or no
 * run is known.
 */
export function askedBehind(
  { run }: Pick<FoundAdapter, 'run'>,
  remedy = 'Give --task with the task of its run to add them.',
): string | null {
  const behind = run === null ? null : trainedBehind(run.manifest.start);
  if (behind === null) return null;
  return `The adapter was trained with ${behind} before every question; without them its answers differ. ${remedy}`;
}

/** Advice for clients of a server, which send their own prompts. */
export function sentByClients({ run }: Pick<FoundAdapter, 'run'>): string {
  if (run === null) return '';
  const { start } = run.manifest;
  const task = taskHere(start) === null ? ` (TASK: the file of ${label(start.task.id)})` : '';
  return `Clients must send them; \`${visible(generateCommand(start))}\` prints them${task}.`;
}

export const note = (text: string | null): void => {
  if (text !== null) printNote(`${text}\n`);
};

export const noteOtherBase = async (...of: Parameters<typeof otherBase>): Promise<void> =>
  note(await otherBase(...of));

/**
 * Loads an adapter on a model, and says what a person has to know of both; null: there is none.
 * @throws as requireServable and loadAdapter
 */
export async function adapterOn<Loaded>(
  model: Parameters<typeof requireServable>[1] &
    Parameters<typeof warningsOf>[0] &
    Parameters<typeof otherBase>[1] & { loadAdapter(file: string): Promise<Loaded> },
  found: NamedAdapter | null,
): Promise<Loaded | null> {
  noteWarnings(model);
  if (found === null) return null;
  await requireServable(found, model);
  const adapter = await model.loadAdapter(found.file);
  await noteOtherBase(found, model);
  return adapter;
}

export const noteWarnings = (model: Parameters<typeof warningsOf>[0]): void =>
  warningsOf(model).forEach(note);
