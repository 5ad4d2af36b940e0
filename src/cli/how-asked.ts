import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import type { HowAsked } from '../report/failures.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import type { RunSettings } from '../training/settings.js';

/** How a run asks, for what to change where nothing passes. */
export const howAsked = ({ model, task, sampling }: Pick<RunSettings, 'model' | 'task' | 'sampling'>): HowAsked => ({
  ...sampling,
  // the embedded model has been taught one prompt
  ...(sampling.examples !== undefined || model.name === EMBEDDED_MODEL ? {} : { unshown: isDataFile(task) ? 'rows' : 'problems' }),
});
