import type { HowAsked } from '../text/failures.js';
import type { RunSettings } from '../training/settings.js';
import { unshownExamples } from '../training/example-hint.js';

/** How a run asks, for what to change where nothing passes. */
export function howAsked(settings: Pick<RunSettings, 'model' | 'task' | 'sampling'>): HowAsked {
  const unshown = unshownExamples(settings);
  return { ...settings.sampling, ...(unshown !== null && { unshown }) };
}
