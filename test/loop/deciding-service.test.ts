/** A service decides on the rules of a run, by the setting `--policy model:URL#MODEL`. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { LogReader } from '../../src/log/read.js';
import type { AskedQuestion } from '../../src/monitor/question.js';
import { run } from '../../src/operations/run.js';
import { isQuestion } from '../../src/run-folder/monitor-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { completion, error, FaultServer, send, type Answerer } from '../models/fault-server.js';
import { judgeLog } from '../models/judge-log.js';

let folder: string;
const home = process.env.ISOPRO_HOME;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-deciding-'));
  process.env.ISOPRO_HOME = path.join(folder, 'home');
});
afterAll(() => {
  if (home === undefined) delete process.env.ISOPRO_HOME;
  else process.env.ISOPRO_HOME = home;
  rmSync(folder, { recursive: true, force: true });
});

const settings = (policy: string) => ({
  iterations: 3,
  // so high that R1 fires
  optimiser: { learningRate: 0.05 },
  sampling: { rollouts: 64 },
  evaluation: { testSize: 1, devSize: 1 },
  monitor: { policy },
});

async function runWith(out: string, answer: Answerer) {
  await using server = await FaultServer.start(answer);
  const notices: string[] = [];
  await run.run({ ...settings(`model:${server.origin}/v1#adviser`), out } as object, {
    signal: new AbortController().signal,
    tell: (event) => {
      if (event.type === 'notice') notices.push((event.data as { text: string }).text);
    },
  });
  const reader = new LogReader(path.join(out, 'log.sqlite'), RUN_STREAMS);
  try {
    const records = [...reader.records()];
    const questions = records
      .filter(isQuestion)
      .map(({ payload }) => payload as unknown as AskedQuestion);
    return { questions, notices, requests: server.total, origin: server.origin };
  } finally {
    reader.close();
  }
}

test('its choice is carried out, and its replies are recorded', async () => {
  const out = path.join(folder, 'chosen');
  const { questions, notices, requests } = await runWith(out, ({ body, response }) => {
    const { schema } = (body.response_format as { json_schema: { schema: object } }).json_schema;
    const { enum: menu } = (schema as { properties: { choice: { enum: string[] } } }).properties
      .choice;
    send(response, 200, completion(JSON.stringify({ choice: menu[1], why: 'the second' })));
  });
  expect(questions.length).toBeGreaterThan(0);
  for (const { source, choice, menu } of questions)
    expect([source, choice]).toEqual(['model', menu[1]]);
  expect(requests).toBe(questions.length);
  const [, record] = /^Replies are recorded in (.+)\.$/.exec(notices.join('\n')) ?? [];
  expect(readFileSync(record!, 'utf8').trim().split('\n').length).toBeGreaterThan(0);
  const { deciders } = await judgeLog(out, {});
  expect(deciders).toMatchObject({ invalidRate: 0, sources: [{ source: 'model' }] });
});

test('one that refuses every request is answered for by the script, and the run ends', async () => {
  const out = path.join(folder, 'refused');
  const { questions } = await runWith(out, ({ response }) =>
    send(response, 401, error('no such key')),
  );
  expect(questions.length).toBeGreaterThan(0);
  for (const { source, failure } of questions) {
    expect(source).toBe('fallback');
    expect(failure).not.toBeNull();
  }
});

test('what only a service has is refused of others before anything is loaded', () => {
  expect(() => run.read({ ...settings('random'), votes: 3 })).toThrow(
    'votes: it has no effect with the policy random, which is not a service',
  );
  expect(() => run.read({ ...settings('model:local'), maxRequests: 3 })).toThrow(
    'maxRequests: it has no effect with the back end local',
  );
});
