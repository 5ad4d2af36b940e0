/** What a person has to know of a model or an adapter before it is asked, said on stderr. */
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import type { FoundAdapter } from '../report/find-adapter.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import { printNote } from './output.js';

/** What a run set around every question that its adapter was trained on; null where that was nothing, or no run is known. */
export function askedBehind(
  { run }: Pick<FoundAdapter, 'run'>,
  remedy = '--task with the task of its run sets them there.',
): string | null {
  const settings = run?.manifest.start.settings as
    | { readonly answerTag?: unknown; readonly sampling?: { readonly system?: unknown; readonly examples?: unknown } }
    | undefined;
  const { system, examples } = settings?.sampling ?? {};
  const parts = [
    ...(system === undefined ? [] : ['a system message']),
    ...(examples === undefined ? [] : [`${String(examples)} solved examples`]),
  ];
  if (parts.length === 0) return null;
  return `The adapter was trained behind ${parts.join(' and ')}: without the same before a question it answers otherwise. ${remedy}`;
}

/** Of a program that is asked from elsewhere. */
export const SENT_BY_CLIENTS = 'Whoever asks has to send them; `tasks generate --json` of its task prints them.';

/** The model that comes with the project cannot answer rows of data, and it is what a forgotten --model gives. */
export const cannotRead = (model: string, task: string): string | null =>
  model === EMBEDDED_MODEL && (isDataFile(task) || /\.[cm]?[jt]s$|^python:/.test(task))
    ? `${EMBEDDED_MODEL} knows the prompt of scheduling and no language, and cannot answer ` +
      `${isDataFile(task) ? 'rows of data' : 'other tasks'}: name a model with --model, such as smollm2-135m or the path of a GGUF file.`
    : null;

export const note = (text: string | null): void => {
  if (text !== null) printNote(`${text}\n`);
};
