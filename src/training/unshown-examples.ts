import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import type { RunSettings } from './settings.js';

/** What could be shown solved before a question, and is not: rows of data, or problems of a task that has solved ones. */
export type Unshown = 'rows' | 'problems';

/** Null where examples are asked for; the embedded model has been taught one prompt. */
export const unshownExamples = ({
  model,
  task,
  sampling,
}: {
  readonly model: Pick<RunSettings['model'], 'name'>;
  readonly task: string;
  readonly sampling: Pick<RunSettings['sampling'], 'examples'>;
}): Unshown | null => (sampling.examples !== undefined || model.name === EMBEDDED_MODEL ? null : isDataFile(task) ? 'rows' : 'problems');
