import type { HowAsked } from '../report/failures.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import type { RunSettings } from '../training/settings.js';

/** How a run asks, for what to change where nothing passes. */
export const howAsked = ({ task, sampling }: Pick<RunSettings, 'task' | 'sampling'>): HowAsked => ({
  ...sampling,
  unshown: isDataFile(task) && sampling.examples === undefined,
});
