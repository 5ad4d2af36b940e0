/**
 * Verifies that the log of a run is complete. It has no final end, because a run can be measured
 * again: a complete, signed log is the best state.
 */
import { verifyRun, type RunVerification, type RunVerifyOptions } from '../../log/local-trust.js';
import { LogReader } from '../../log/read.js';
import { readTruthManifest, truthPaths } from './folder.js';
import { TRUTH_STREAMS } from './records.js';

export interface TruthVerification extends Omit<RunVerification, 'outcome'> {
  /** `open`: the run is complete, and a head covers all of its log. */
  readonly outcome: RunVerification['outcome'] | 'open';
}

/** @throws IsoproError as verifyRun, RUN_NOT_FOUND, RUN_MANIFEST_INVALID */
export async function verifyTruthRun(
  folder: string,
  options: Omit<RunVerifyOptions, 'streams' | 'runId'> = {},
): Promise<TruthVerification> {
  const verification = await verifyRun(folder, {
    ...options,
    streams: TRUTH_STREAMS,
    runId: readTruthManifest(folder).runId,
  });
  const { outcome, records, signedRecords } = verification;
  const isOpen = outcome === 'unterminated' && signedRecords === records && isComplete(folder);
  return isOpen ? { ...verification, outcome: 'open' } : verification;
}

/** True if the last record states that everything is done. */
function isComplete(folder: string): boolean {
  const reader = new LogReader(truthPaths(folder).log, TRUTH_STREAMS);
  try {
    const [last] = reader.records({ from: reader.size - 1 });
    return last?.payload.kind === 'complete';
  } finally {
    reader.close();
  }
}
