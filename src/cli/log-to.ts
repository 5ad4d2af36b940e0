import { TRACKER_NAMES, type TrackerName } from '../trackers/trackers.js';

export const logToOption = {
  choices: TRACKER_NAMES,
  array: true,
  default: [] as TrackerName[],
  defaultDescription: 'none',
  describe: 'write the figures for these trackers too, as files; the commands that show them are printed',
} as const;
