import type { HowAsked } from '../report/failures.js';
import type { RunSettings } from '../training/settings.js';
import { unshownExamples } from '../training/unshown-examples.js';

/** How a run asks, for what to change where nothing passes. */
export function howAsked(settings: Pick<RunSettings, 'model' | 'task' | 'sampling'>): HowAsked {
  const unshown = unshownExamples(settings);
  return { ...settings.sampling, ...(unshown !== null && { unshown }) };
}
