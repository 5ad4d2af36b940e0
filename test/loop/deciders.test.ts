/**
 * Deciders in real runs: each question is in the log before its decision, the judge reads it again,
 * and nothing that was answered once is asked twice.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LogReader, type LogRecord } from '../../src/log/read.js';
import type { AskedQuestion } from '../../src/monitor/question.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { isQuestion } from '../../src/run-folder/monitor-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import type { RunResult } from '../../src/training/result.js';
import { deciderRun, drawing, writeDeciderInputs } from '../models/decider-runs.js';
import { judgeLog } from '../models/judge-log.js';

const PROGRAM = fileURLToPath(new URL('../../dist/test/models/decider-runs.js', import.meta.url));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-deciders-'));
  process.env.ISOPRO_HOME = path.join(folder, 'home');
  writeDeciderInputs(folder);
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

function recordsOf(out: string, abandoned = false): LogRecord[] {
  const reader = new LogReader(path.join(folder, out, 'log.sqlite'), RUN_STREAMS);
  try {
    return [...reader.records({ abandoned })];
  } finally {
    reader.close();
  }
}
const questionsOf = (records: readonly LogRecord[]): AskedQuestion[] =>
  records.filter(isQuestion).map(({ payload }) => payload as unknown as AskedQuestion);

describe('each policy that chooses from a menu', () => {
  const results = new Map<string, RunResult>();
  test.each(['random', 'table', 'model:local', 'model:adapted', 'model:other.gguf', 'human'])(
    '%s: question before decision, read again by the judge',
    async (policy) => {
      const out = policy.replace(/\W/g, '-');
      const result = await deciderRun(folder, out, policy, {
        table: { 'R1 high': 'set_lr x1/5', 'R2 high': 'set_batch x2' },
        ask: async () => 'c',
        feedback: 'The last attempt changed the rate too often.',
      });
      results.set(policy, result);
      const records = recordsOf(out);
      const questions = questionsOf(records);
      expect(questions.length).toBeGreaterThanOrEqual(4);
      console.log(policy, questions.map((q) => `${q.rule} ${q.choice} ${q.source} ${q.margin} ${q.agreement} ${JSON.stringify(q.failure)} ${q.tokens.prompt} ${q.seconds.toFixed(2)}`));
      const { deciders } = await judgeLog(path.join(folder, out), {});
      console.log(JSON.stringify(deciders));
      const manifest = readManifest(path.join(folder, out));
      expect(JSON.stringify(manifest)).not.toContain(folder);
    },
  );
});
