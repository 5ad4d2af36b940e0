/** What a person has to know of a model or an adapter before it is asked, said on stderr. */
import path from 'node:path';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import type { FoundAdapter } from '../report/find-adapter.js';
import { label } from '../report/hostile-text.js';
import { visible } from '../visible.js';
import { namedBaseSha256, type NamedAdapter } from '../report/named-adapter.js';
import { trainedBehind } from '../report/trained-behind.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import { printNote } from './output.js';
import { generateCommand, taskHere } from './task-flags.js';

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

/**
 * The model that comes with the project cannot answer rows of data, and it is what a forgotten
 * --model gives.
 */
export const cannotRead = (model: string, task: string): string | null =>
  model === EMBEDDED_MODEL && (isDataFile(task) || /\.[cm]?[jt]s$|^python:/.test(task))
    ? `${EMBEDDED_MODEL} knows the prompt of scheduling and no language, and cannot answer ` +
      `${isDataFile(task) ? 'rows of data' : 'other tasks'}: name a model with --model, such as smollm2-135m or the path of a GGUF file.`
    : null;

export const note = (text: string | null): void => {
  if (text !== null) printNote(`${text}\n`);
};

/**
 * Not refused: one adapter is used with several quantisations of its model. The model's file is
 * read only where a base is named.
 */
export async function noteOtherBase(
  found: NamedAdapter,
  model: { readonly path: string; hash(): Promise<string> },
): Promise<void> {
  const base = await namedBaseSha256(found);
  if (base === undefined || base === (await model.hash())) return;
  const [adapter, other] = [found.file, model.path].map((file) => path.basename(file));
  note(
    `${adapter} was trained on another file than ${other} (SHA-256 ${base.slice(0, 12)}…): its answers may be worse.`,
  );
}

/** Of a file that the engine reads by a guess, or reads otherwise than it was meant. */
export function noteWarnings({
  path: file,
  info,
}: {
  readonly path: string;
  readonly info: { readonly warnings: readonly string[] };
}): void {
  for (const warning of info.warnings)
    note(`${path.basename(file)}: llama.cpp warns: ${label(warning, 300)}`);
}
