/** One line of JSON a call: {"step": 1, "train/loss": 2.5, …}. */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { TrackedRun, Tracker } from './tracker.js';

export function jsonlTracker({ folder, resumed }: TrackedRun): Tracker {
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, 'metrics.jsonl');
  if (!resumed) writeFileSync(file, '');
  return {
    log: (step, metrics) => appendFileSync(file, `${JSON.stringify({ step, ...metrics })}\n`),
    end: () => undefined,
  };
}
