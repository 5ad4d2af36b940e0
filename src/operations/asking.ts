import type { HowAsked } from '../text/failures.js';
import type { RunSettings } from '../training/settings.js';
import { unshownExamples } from '../training/example-hint.js';

/** Prompt settings of a run, for advice when nothing passes. */
export function howAsked(settings: Pick<RunSettings, 'model' | 'task' | 'sampling'>): HowAsked {
  const unshown = unshownExamples(settings);
  return { ...settings.sampling, ...(unshown !== null && { unshown }) };
}
