import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { runPaths } from '../run-folder/paths.js';
import type { JudgeReport } from './judge.js';

/**
 * Writes a report as JSON to the run folder or to a given file.
 * @returns the file; null if the folder cannot be written
 * @throws IsoproError WRITE_FAILED for a given file
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
