/** A run with its report. */
import { existsSync } from 'node:fs';
import { durable } from '../durable.js';
import { runPaths } from '../run-folder/paths.js';
import type { RunOptions } from '../training/hooks.js';
import type { RunResult } from '../training/result.js';
import { run as train } from '../training/run.js';
import type { RunSettingsInput } from '../training/settings.js';

/**
 * Trains an adapter by the model's own verified answers and measures it on problems that it never saw. The same settings on the same
 * folder go on where an interrupted run stopped, and end with the same adapter; a folder whose run has ended gives its result again.
 * @throws IsoproError as `run` of src/training/run.ts, WRITE_FAILED; after any of them the same call goes on
 */
export async function run(input: RunSettingsInput = {}, options: RunOptions = {}): Promise<RunResult> {
  const result = await train(input, options);
  await reportOnce(result.folder);
  return result;
}

/** One that is there stays: it may have been written by a later version, or on purpose. */
async function reportOnce(folder: string): Promise<void> {
  if (existsSync(runPaths(folder).report)) return;
  const { writeReport } = await import('../report/write-report.js'); // the chart library is not needed before
  await writeReport(folder);
  durable('run.report');
}
