/** What a person should know before a model is asked. */
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { isDataFile } from '../tasks/data/read-rows.js';

/**
 * The model that comes with the project cannot answer rows of data, and it is what a command
 * without --model takes. Null where the model can be asked.
 */
export const unreadableTask = (model: string, task: string): string | null =>
  model === EMBEDDED_MODEL && (isDataFile(task) || /\.[cm]?[jt]s$|^python:/.test(task))
    ? `${EMBEDDED_MODEL} knows the prompt of scheduling and no language, and cannot answer ` +
      `${isDataFile(task) ? 'rows of data' : 'other tasks'}: name a model with --model, such as smollm2-135m or the path of a GGUF file.`
    : null;
