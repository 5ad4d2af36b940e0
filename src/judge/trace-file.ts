import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { runPaths } from '../run-folder/paths.js';
import type { JudgeReport } from './judge.js';

/**
 * Keeps a report as JSON: in the run folder, or in a file of the judge's own choice.
 * @returns the file; null where the folder cannot be written
 * @throws IsoproError WRITE_FAILED for a file that was asked for
 */
export async function writeJudgeTrace(report: JudgeReport, file?: string): Promise<string | null> {
  const path = file ?? runPaths(report.folder).judgeTrace;
  try {
    await writeFileAtomically(
      path,
      [Buffer.from(`${JSON.stringify(report, null, 2)}\n`)],
      file === undefined ? 'replace' : 'follow',
    );
    return path;
  } catch (error) {
    if (file === undefined && error instanceof IsoproError && error.code === 'WRITE_FAILED')
      return null;
    throw error;
  }
}
