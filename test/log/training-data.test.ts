/**
 * Which rollouts of a log become rows to train on, and what each row says; on records written by
 * hand.
 */
import { expect, test } from '@jest/globals';
import {
  rolledBackIterations,
  trainingRows,
  type LeftOut,
  type RowFilter,
  type TrainingRow,
} from '../../src/operations/training-data.js';
import type { LogRecord } from '../../src/log/read.js';
import type { RolloutRecord } from '../../src/run-folder/rollout-records.js';
import type { Problem } from '../../src/tasks/task.js';

const HASH = 'ab'.repeat(32);
const record = (gseq: number, payload: object): LogRecord => ({
  gseq,
  stream: 'rollouts',
  sseq: gseq,
  timeUs: 0,
  payload: payload as never,
});
const problem = (problemId: string, tier = 'T', iteration = 1): object => ({
  ...{
    kind: 'problem',
    iteration,
    problemId,
    tier,
    problem: { id: problemId, tier },
    promptIds: [1],
  },
});
const rollout = (problemId: string, sample: number, more: Partial<RolloutRecord> = {}): object => ({
  ...{
    kind: 'rollout',
    iteration: 1,
    problemId,
    tier: 'T',
    sample,
    seed: '1',
    tokenIds: [2],
    text: `${problemId}${sample}`,
  },
  ...{
    finish: 'stop',
    adapterId: null,
    meanLogprob: -1,
    form: 'x',
    admission: 'admitted',
    weight: 1,
  },
  verdict: { kind: 'pass', violations: [] },
  ...more,
});
const PASS: RolloutRecord['verdict'] = { kind: 'pass', violations: [] };
const FAIL: RolloutRecord['verdict'] = { kind: 'fail', violations: ['wrong'] };
const RECORDS = [
  problem('a'),
  rollout('a', 0),
  rollout('a', 1, { verdict: { ...FAIL, score: 0.4 }, admission: 'failed' }),
  rollout('a', 2, { verdict: { ...PASS, score: 0.7 }, admission: 'duplicate' }),
  rollout('a', 3, {
    verdict: { kind: 'none', violations: [], reason: 'late' },
    admission: 'undecided',
  }),
  rollout('a', 4, { finish: 'length', verdict: FAIL, admission: 'incomplete' }),
  { kind: 'reference', iteration: 1, problemId: 'a', tier: 'T', tokenIds: [3], text: 'right' },
  problem('b', 'U', 2),
  rollout('b', 0, {
    iteration: 2,
    tier: 'U',
    adapterId: HASH,
    turns: [{ tokens: 1, text: 'one', said: 'and?', saidIds: [9] }],
  }),
  rollout('b', 1, {
    iteration: 2,
    tier: 'U',
    adapterId: HASH,
    verdict: FAIL,
    admission: 'contrasted',
    advantage: -1,
  }),
].map((payload, i) => record(10 + i, payload));

const ALL: RowFilter = {
  verdict: 'all',
  minScore: 0,
  trained: false,
  base: false,
  rolledBack: false,
};
async function rows(
  filter: Partial<RowFilter> = {},
  rolledBack: readonly number[] = [],
): Promise<{ rows: TrainingRow[]; left: LeftOut[] }> {
  const left: LeftOut[] = [];
  const found: TrainingRow[] = [];
  const task = {
    readProblem: (value: unknown) => value as Problem,
    prompt: async ({ id }: Problem, style: string) => [
      { role: 'user', content: `${id}, ${style}?` } as const,
    ],
  };
  const options = {
    runId: 'r',
    task,
    style: 'plain',
    filter: { ...ALL, ...filter },
    rolledBack: new Set(rolledBack),
  } as const;
  for await (const row of trainingRows(RECORDS, { ...options, onLeftOut: (why) => left.push(why) }))
    found.push(row);
  return { rows: found, left };
}
const texts = async (...given: Parameters<typeof rows>): Promise<string[]> =>
  (await rows(...given)).rows.map(({ completion }) => completion);

test('a row has what was asked, what was said, its score and its record', async () => {
  const { rows: all, left } = await rows();
  expect(left).toEqual(['undecided', 'cutOff']);
  expect(all[1]).toEqual({
    prompt: [{ role: 'user', content: 'a, plain?' }],
    completion: 'a1',
    score: 0.4,
    tier: 'T',
    verdict: 'fail',
    source: { run: 'r', record: 12, iteration: 1, problem: 'a', sample: 1, adapter: null },
  });
  expect(all.map(({ score }) => score)).toEqual([1, 0.4, 0.7, 1, 0]);
});

test('of an episode the last reply is learned, after all that was said before', async () => {
  const { rows: all } = await rows({ tiers: ['U'], verdict: 'pass' });
  expect(all).toMatchObject([{ completion: 'b0', source: { record: 18, adapter: HASH } }]);
  expect(all[0]!.prompt.map(({ role, content }) => `${role}: ${content}`)).toEqual([
    'user: b, plain?',
    'assistant: one',
    'user: and?',
  ]);
});

test('each filter leaves out what it says, and counts it', async () => {
  expect(await texts({ verdict: 'pass' })).toEqual(['a0', 'a2', 'b0']);
  expect(await texts({ verdict: 'fail' })).toEqual(['a1', 'b1']);
  expect(await texts({ minScore: 0.5 })).toEqual(['a0', 'a2', 'b0']);
  expect(await texts({ tiers: ['T'] })).toEqual(['a0', 'a1', 'a2']);
  expect(await texts({ trained: true })).toEqual(['a0', 'b0', 'b1']);
  expect(await texts({ base: true })).toEqual(['a0', 'a1', 'a2']);
  expect(await texts({}, [2])).toEqual(['a0', 'a1', 'a2']);
  expect(await texts({ rolledBack: true }, [2])).toHaveLength(5);
  expect((await rows({ verdict: 'pass', base: true }, [2])).left).toEqual([
    'verdict',
    'undecided',
    'cutOff',
    'rolledBack',
    'rolledBack',
  ]);
});

test('an iteration was taken back where the gate came before its end; what is put back to be submitted takes back none', () => {
  const report = (iteration: number): object => ({
    ...{
      kind: 'iteration_report',
      iteration,
      data: HASH,
      adapterId: HASH,
      samplerGap: null,
      learningRate: 1e-3,
    },
    seconds: { rollouts: 1, training: 1, evaluation: 1 },
    tokens: { sampled: 1, trained: 1 },
  });
  const gate = (iteration: number): object => ({
    kind: 'gate',
    iteration,
    cause: 'fell',
    restored: HASH,
  });
  const records = [report(1), gate(2), report(2), report(3), gate(1)].map((payload, i) =>
    record(i, payload),
  );
  expect([...rolledBackIterations(records)]).toEqual([2]);
});
