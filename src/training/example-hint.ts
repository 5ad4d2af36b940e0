import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import type { Unshown } from '../example-hint.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import type { RunSettings } from './settings.js';

interface Asked {
  readonly model: Pick<RunSettings['model'], 'name'>;
  readonly task: string;
  readonly sampling: Pick<RunSettings['sampling'], 'examples'>;
}

/** Kind of examples that could be shown; null if some are, or for the embedded model. */
export const unshownExamples = ({ model, task, sampling }: Asked): Unshown | null =>
  sampling.examples !== undefined || model.name === EMBEDDED_MODEL
    ? null
    : isDataFile(task)
      ? 'rows'
      : 'problems';
