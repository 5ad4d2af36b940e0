/** What a run has logged, in order. */
import { LogReader, type LogRecord } from '../../src/log/read.js';
import { runPaths } from '../../src/run-folder/paths.js';
import type { RolloutRecord } from '../../src/run-folder/rollout-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

export function logRecords(folder: string): LogRecord[] {
  const reader = new LogReader(runPaths(folder).log, RUN_STREAMS);
  try {
    return [...reader.records()];
  } finally {
    reader.close();
  }
}

export const payloadsOf = <T>(records: readonly LogRecord[], kind: string): T[] =>
  records
    .filter(({ payload }) => payload.kind === kind)
    .map(({ payload }) => payload as unknown as T);

export const rolloutsOf = (records: readonly LogRecord[]): RolloutRecord[] =>
  payloadsOf(records, 'rollout');
