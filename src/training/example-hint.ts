import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import type { Unshown } from '../example-hint.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import type { RunSettings } from './settings.js';

interface Asked {
  readonly model: Pick<RunSettings['model'], 'name'>;
  readonly task: string;
  readonly sampling: Pick<RunSettings['sampling'], 'examples'>;
}

/** Null where examples are asked for; the embedded model has been taught one prompt. */
export const unshownExamples = ({ model, task, sampling }: Asked): Unshown | null =>
  sampling.examples !== undefined || model.name === EMBEDDED_MODEL
    ? null
    : isDataFile(task)
      ? 'rows'
      : 'problems';
