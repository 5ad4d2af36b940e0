import { label } from '../report/hostile-text.js';
import { didYouMean } from '../nearest.js';
import { TRACKER_NAMES, type TrackerName } from '../trackers/trackers.js';
import { UsageError } from './output.js';

export const logToOption = {
  type: 'string',
  array: true,
  requiresArg: true,
  default: [] as string[],
  defaultDescription: 'none',
  describe: `write the figures for these trackers too, as files; the commands that show them are printed: ${TRACKER_NAMES.join(', ')}`,
} as const;

/** Of words and of lists with commas. @throws UsageError */
export function trackersOf(given: readonly string[]): TrackerName[] {
  const names = given.flatMap((list) => list.split(',')).map((name) => name.trim());
  const unknown = names.find((name) => !(TRACKER_NAMES as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new UsageError(
      `--log-to: there is no tracker ${label(unknown)}; there are ${TRACKER_NAMES.join(', ')}${didYouMean(unknown, TRACKER_NAMES)}`,
    );
  return names as TrackerName[];
}
