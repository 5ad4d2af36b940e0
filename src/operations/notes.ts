/** Notes for the user before a model is used. */
import path from 'node:path';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { label } from '../text/hostile-text.js';
import { namedBaseSha256, type NamedAdapter } from '../lookup/adapter-reference.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import type { Context } from './operation.js';

/**
 * The model that comes with the project cannot answer rows of data, and it is what a command
 * without --model takes. Null where the model can be asked.
 */
export const unreadableTask = (model: string, task: string): string | null =>
  model === EMBEDDED_MODEL && (isDataFile(task) || /\.[cm]?[jt]s$|^python:/.test(task))
    ? `${EMBEDDED_MODEL} only knows the task scheduling and no language, so it cannot answer ` +
      `${isDataFile(task) ? 'rows of data' : 'other tasks'}: name another model with --model, such as smollm2-135m or ` +
      `the path of a GGUF file.`
    : null;

/**
 * Warning that an adapter was trained on another file. It is not an error, since an adapter may be
 * used with several quantisations of its model. The model's file is read only if the base is known.
 */
export async function otherBase(
  found: NamedAdapter,
  model: { readonly path: string; hash(): Promise<string> },
): Promise<string | null> {
  const base = await namedBaseSha256(found);
  if (base === undefined || base === (await model.hash())) return null;
  const [adapter, other] = [found.file, model.path].map((file) => path.basename(file));
  return `${adapter} was trained on a different model file than ${other} (SHA-256 ${base.slice(0, 12)}…): its answers may be worse.`;
}

/** Warnings of llama.cpp about a model file. */
export const warningsOf = ({
  path: file,
  info,
}: {
  readonly path: string;
  readonly info: { readonly warnings: readonly string[] };
}): string[] =>
  info.warnings.map((warning) => `${path.basename(file)}: llama.cpp warns: ${label(warning, 300)}`);

/** Tells what there is to know; null: nothing. */
export const noticeTo =
  (tell: Context['tell']) =>
  (text: string | null): void => {
    if (text !== null) tell({ type: 'notice', data: { text } });
  };
