import { readProcess, readProcessRecords, requireIntact } from '../../src/judge/log-steps.js';
import {
  auditProcess,
  type ProcessAudit,
  type ProcessRecord,
} from '../../src/judge/obligations.js';
import {
  verifyRun,
  type RunVerification,
  type RunVerifyOptions,
} from '../../src/log/local-trust.js';
import { LogReader } from '../../src/log/read.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

/**
 * The judge's steps 5, 8a, 8 and 9 on a log that has no run beside it, in the judge's order.
 * @throws HardFail
 */
export async function judgeLog(
  target: string,
  options: Omit<RunVerifyOptions, 'streams'>,
): Promise<{ verification: RunVerification; record: ProcessRecord; audit: ProcessAudit }> {
  const verification = await verifyRun(target, { streams: RUN_STREAMS, ...options });
  requireIntact(verification);
  const reader = new LogReader(verification.path, RUN_STREAMS);
  try {
    const record = readProcess(await readProcessRecords(reader), LORA);
    return { verification, record, audit: auditProcess(record, LORA) };
  } finally {
    reader.close();
  }
}
