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
import { deciderRun, drawing, writeDeciderInputs } from '../models/decider-runs.js';
import { judgeLog } from '../models/judge-log.js';

const PROGRAM = fileURLToPath(new URL('../../dist/test/models/decider-runs.js', import.meta.url));
const FULL = process.env.ISOPRO_FULL === '1';
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

/** Decisions by the iteration and rule that they are about. */
const decisionsOf = (records: readonly LogRecord[]) =>
  records.filter(({ stream, payload }) => stream === 'decisions' && payload.kind === 'decision');

describe('each policy that chooses from a menu', () => {
  test.each([
    ['random', 3],
    ['table', 2],
    ['human', 2],
    // a readout of some 3,000 tokens takes seconds
    ['model:local', 1],
    ['model:adapted', 1],
    ...(FULL ? ([['model:other.gguf', 2]] as const) : []),
  ] as const)(
    '%s: each question stands before its decision, and the judge reads it again',
    async (policy, iterations) => {
      const out = policy.replace(/\W/g, '-');
      const asked: string[] = [];
      const feedback = 'The last attempt changed the rate too often.';
      await deciderRun(
        folder,
        out,
        policy,
        {
          ...(policy === 'table' && { table: { 'R1 high': 'set_lr x1/5' } }),
          ask: async (text) => {
            asked.push(text);
            return ' b. ';
          },
          ...(policy !== 'random' && policy !== 'table' && { feedback }),
        },
        { iterations },
      );
      const records = recordsOf(out);
      const questions = questionsOf(records);
      expect(questions.map(({ iteration }) => iteration)).toEqual(
        Array.from({ length: iterations }, (_, i) => i + 1),
      );
      const source = policy.startsWith('model') ? 'model' : policy;
      for (const question of questions) {
        expect(question).toMatchObject({ rule: 'R1', source, cached: false, failure: null });
        expect(question.menu).toContain(question.choice);
        const at = records.findIndex(({ payload }) => (payload as object) === question);
        const after = records.slice(at + 1).find(({ stream }) => stream === 'decisions');
        expect(after?.payload).toMatchObject({
          kind: 'decision',
          iteration: question.iteration,
          cites: ['R1'],
        });
      }
      const choices = questions.map(({ choice }) => choice);
      if (policy === 'table') expect(new Set(choices)).toEqual(new Set(['set_lr x1/5']));
      if (policy === 'human') {
        expect(new Set(choices)).toEqual(new Set(['set_lr x1/5']));
        expect(asked[0]).toMatch(
          /# Playbook[^]*\n> The last attempt changed the rate too often\.\n/,
        );
        expect(asked[1]).toMatch(/iteration 1, R1: set_lr, executed; R1 fired again/);
      }
      if (source === 'model')
        for (const { margin, agreement, tokens } of questions) {
          expect(margin).toBeGreaterThanOrEqual(0);
          expect([1, 2, 3, 4, 5, 6].map((k) => k / 6)).toContain(agreement);
          expect(tokens.prompt).toBeGreaterThan(1000);
        }
      const { deciders } = await judgeLog(path.join(folder, out), {});
      expect(deciders).toMatchObject({
        invalidRate: 0,
        sources: [{ source, decisions: iterations, cached: 0 }],
      });
      const manifest = readManifest(path.join(folder, out));
      expect(manifest.start).toMatchObject({
        policy: policy.replace('.gguf', '.gguf'),
        decider: { fallback: 'scripted' },
        settings: { monitor: { policy } },
      });
      expect(JSON.stringify(manifest)).not.toContain(folder);
    },
  );

  test('a model that cannot read so long a prompt: the script answers all along, the run ends and says so', async () => {
    await deciderRun(folder, 'short', 'model:short.gguf', {}, { iterations: 2 });
    const questions = questionsOf(recordsOf('short'));
    expect(questions).toHaveLength(2);
    for (const question of questions)
      expect(question).toMatchObject({
        source: 'fallback',
        choice: 'set_lr x1/3',
        reply: null,
        failure: { code: 'POLICY_FAILED', reason: expect.stringMatching(/context/) },
      });
    const { deciders } = await judgeLog(path.join(folder, 'short'), {});
    expect(deciders).toMatchObject({
      invalidRate: null,
      sources: [{ source: 'fallback', decisions: 2 }],
    });
  });

  test('a policy without a decider has the genesis that it always had', async () => {
    await deciderRun(folder, 'scripted', 'scripted', {}, { iterations: 1 });
    const { start } = readManifest(path.join(folder, 'scripted'));
    expect('decider' in start).toBe(false);
    expect(start.settings.monitor).toEqual({ patience: 2, policy: 'scripted' });
    expect(questionsOf(recordsOf('scripted'))).toEqual([]);
    expect(decisionsOf(recordsOf('scripted'))).toHaveLength(1);
  });
});

describe('a run that is killed', () => {
  const asks = (): number => readFileSync(path.join(folder, 'asked.txt'), 'utf8').length;
  /** The durable states after the first question was asked, in their order. */
  test.each([
    ['the question, unsigned', 'log.records', 1, 1],
    ['the reply under a signed head', 'log.head', 1, 0],
    ['the decision', 'log.records', 2, 0],
    ['the effect', 'log.records', 3, 0],
  ] as const)(
    'after %s: nothing that a head covers is asked again, and the adapter is that of its answers',
    async (what, state, nth, again) => {
      const out = `killed-${nth}-${state}`;
      writeFileSync(path.join(folder, 'asked.txt'), '');
      const { signal } = spawnSync(
        process.execPath,
        [PROGRAM, folder, out, 'human', state, `${nth}`],
        {
          env: process.env,
        },
      );
      expect([what, signal]).toEqual([what, 'SIGKILL']);
      expect(asks()).toBe(1);
      const resumed = await deciderRun(folder, out, 'human', { ask: drawing(folder) });
      const questions = questionsOf(recordsOf(out));
      expect(asks()).toBe(questions.length + again);
      expect(questions.map(({ cached }) => cached)).toEqual(
        questions.map((_, i) => i === 0 && again === 0),
      );
      const abandoned = questionsOf(recordsOf(out, true))[0]!;
      if (again === 0) expect(questions[0]).toMatchObject({ reply: abandoned.reply });
      await judgeLog(path.join(folder, out), {});
      // the same answers without an interruption
      const replies = questions.map(({ reply }) => reply as string);
      const whole = await deciderRun(folder, `${out}-whole`, 'human', {
        ask: async () => replies.shift()!,
      });
      expect(whole.adapter?.sha256).toBe(resumed.adapter?.sha256);
    },
  );
});
