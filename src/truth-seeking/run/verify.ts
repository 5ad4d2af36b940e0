/**
 * Whether the log of a run is whole. It has no end, since it can be measured again: complete and
 * signed is as good as it gets.
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

/** Its last record says that nothing is left to be done. */
function isComplete(folder: string): boolean {
  const reader = new LogReader(truthPaths(folder).log, TRUTH_STREAMS);
  try {
    const [last] = reader.records({ from: reader.size - 1 });
    return last?.payload.kind === 'complete';
  } finally {
    reader.close();
  }
}
