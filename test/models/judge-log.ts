import { readProcess, readProcessRecords, requireIntact } from '../../src/judge/log-steps.js';
import {
  auditProcess,
  type ProcessAudit,
  type ProcessRecord,
} from '../../src/judge/obligations.js';
import { checkQuestions, deciderFigures, type DeciderFigures } from '../../src/judge/questions.js';
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
): Promise<{
  verification: RunVerification;
  record: ProcessRecord;
  audit: ProcessAudit;
  deciders: DeciderFigures | null;
}> {
  const verification = await verifyRun(target, { streams: RUN_STREAMS, ...options });
  requireIntact(verification);
  const reader = new LogReader(verification.path, RUN_STREAMS);
  try {
    const records = await readProcessRecords(reader);
    const record = readProcess(records, LORA);
    const audit = auditProcess(record, LORA);
    const start = (records[0]?.payload.runConfig ?? {}) as object;
    const questions = checkQuestions(records, record, start);
    const deciders = questions === null ? null : deciderFigures(questions, audit);
    return { verification, record, audit, deciders };
  } finally {
    reader.close();
  }
}
