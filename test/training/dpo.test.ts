/**
 * Direct preference optimisation: TRL's formula and rows, the gradient against differences of the
 * loss, references, the command.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { NO_CURATION } from '../../src/operations/train/curation.js';
import { readTrainData } from '../../src/operations/train/data.js';
import { dpo, pairLogprobs, pairLoss } from '../../src/fine-tuning/dpo.js';
import type { FineTuningEvent } from '../../src/fine-tuning/fine-tuning.js';
import { tokenisedPairs, type PreferencePair } from '../../src/fine-tuning/preference-pairs.js';
import { rowsOf } from '../../src/fine-tuning/training-examples.js';
import { createTrainer, loadModel, type Model, type Trainer } from '../../src/index.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-dpo-'));
const file = (name: string): string => path.join(folder, name);
let model: Model;
beforeAll(async () => {
  writeSyntheticModel(file('model.gguf'), { architecture: 'qwen2' });
  model = await loadModel(file('model.gguf'), { threads: 1 });
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const rows = Array.from({ length: 6 }, (_, i) => ({
  prompt: `say ${i}`,
  chosen: `it is ${i * 7}`,
  rejected: `no, ${i} and ${i}`,
}));
async function* textsOf(values: readonly unknown[]): AsyncGenerator<string> {
  for (const value of values) yield typeof value === 'string' ? value : JSON.stringify(value);
}
const linesOf = (...values: unknown[]) => rowsOf(textsOf(values));
const read = async (...values: unknown[]): Promise<readonly PreferencePair[]> =>
  (await tokenisedPairs(linesOf(...values), model, 200)).pairs;

/**
 * log p of both, of the reference, beta; loss and slopes by torch 2.15 in f64: -F.logsigmoid(beta *
 * ((c - rc) - (r - rr))), loss_type "sigmoid" of TRL's DPOTrainer 1.16, and its autograd.
 */
const TORCH: readonly (readonly number[])[] = [
  [-12.5, -14.25, -12.5, -14.25, 0.1, Math.LN2, -0.05, 0.05],
  [
    -10.0, -20.0, -12.5, -14.25, 0.1, 0.36341666212657087, -0.030470333065243462,
    0.030470333065243462,
  ],
  [-30.0, -5.0, -12.0, -14.0, 0.5, 13.500001370958147, -0.49999931452139657, 0.49999931452139657],
  [-3.0, -900.0, -4.0, -10.0, 1.0, 0, 0, 0],
  [-900.0, -3.0, -10.0, -4.0, 1.0, 891.0, -1.0, 1.0],
  [-41.7, -38.2, -43.1, -37.9, 0.25, 0.5030574001728001, -0.09883022882149761, 0.09883022882149761],
];
test.each(TORCH)(
  'the loss and slopes of %p, %p against %p, %p at beta %p',
  (chosen, rejected, refChosen, refRejected, beta, ...expected) => {
    const reference = { chosen: refChosen!, rejected: refRejected! };
    const { loss, slope, figures } = pairLoss(
      { chosen: chosen!, rejected: rejected! },
      reference,
      beta!,
    );
    expect(loss).toBeCloseTo(expected[0]!, 12);
    expect(slope).toBeCloseTo(expected[1]!, 12);
    expect(-slope).toBeCloseTo(expected[2]!, 12);
    const [good, bad] = [beta! * (chosen! - refChosen!), beta! * (rejected! - refRejected!)];
    expect(figures).toEqual({
      'rewards/chosen': good,
      'rewards/rejected': bad,
      'rewards/margins': good - bad,
      'rewards/accuracies': good > bad ? 1 : 0,
      'logps/chosen': chosen,
      'logps/rejected': rejected,
    });
  },
);

describe('a row', () => {
  const user = { role: 'user', content: 'hi' } as const;
  const yes = { role: 'assistant', content: 'yes' } as const;
  const no = { role: 'assistant', content: 'no way' } as const;
  test.each<[string, object]>([
    ['texts', { prompt: 'hi', chosen: 'yes', rejected: 'no way', score: 1 }],
    ['messages', { prompt: [user], chosen: [yes], rejected: [no] }],
    [
      'OpenAI',
      {
        input: { messages: [user], tools: [] },
        preferred_output: [yes],
        non_preferred_output: [no],
      },
    ],
    ['two conversations', { chosen: [user, yes], rejected: [user, no] }],
  ])('of %s', async (_, row) => {
    const [pair] = await read(row);
    const prompt = [...model.renderChat([user]).tokenIds];
    const end = model.info.eot >= 0 ? model.info.eot : model.info.eos;
    expect([...pair!.prompt]).toEqual(prompt);
    for (const [sequence, text] of [
      [pair!.chosen, 'yes'],
      [pair!.rejected, 'no way'],
    ] as const) {
      const reply = [...model.tokenize(text), end];
      expect([...sequence.tokenIds]).toEqual([...prompt, ...reply]);
      expect([...sequence.labelMask]).toEqual([...prompt.map(() => 0), ...reply.map(() => 1)]);
    }
  });

  test.each<[string, unknown, string]>([
    ['no object', 7, 'line 1: expected {"prompt", "chosen", "rejected"}'],
    ['one side', { prompt: 'hi', chosen: 'yes' }, 'line 1: expected'],
    [
      'an example',
      { prompt: 'hi', completion: 'yes' },
      'line 1: this is an example, not a preference pair; omit --objective dpo',
    ],
    ['two texts without a prompt', { chosen: 'a', rejected: 'b' }, 'line 1: chosen'],
    [
      'an empty reply',
      { prompt: 'hi', chosen: 'yes', rejected: '' },
      'line 1: the answer is empty',
    ],
    [
      'conversations that part early',
      { chosen: [user, yes], rejected: [{ ...user, content: 'you' }, no] },
      'line 1: the two conversations',
    ],
    [
      'a conversation without a reply',
      { chosen: [user], rejected: [user] },
      "line 1: the last message of both must be the assistant's",
    ],
    [
      'two replies',
      { prompt: 'hi', chosen: [yes, yes], rejected: [no] },
      'line 1: chosen: must be a string or a list of one message',
    ],
  ])('that is wrong is named: %s', async (_, row, message) => {
    await expect(read(row)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    });
  });

  test('that is too long on one side is left out and counted', async () => {
    const long = { prompt: 'hi', chosen: 'yes', rejected: 'x'.repeat(600) };
    expect(await tokenisedPairs(linesOf(long, rows[0]), model, 200)).toMatchObject({
      tooLong: 1,
      pairs: { length: 1 },
    });
    await expect(tokenisedPairs(linesOf(long), model, 200)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});

/**
 * Adam of so large an epsilon, without moments or clipping, is a step of learningRate / epsilon
 * along the gradient.
 */
const EPSILON = 1e4;
const descending = (learningRate: number): Promise<Trainer> =>
  createTrainer(model, {
    lora: { rank: 3 },
    optimiser: { learningRate, beta1: 0, beta2: 0, epsilon: EPSILON, maxNorm: 0 },
    threads: 1,
    seed: 3n,
  });

test('a step follows the gradient of the loss: its slope along the step is the squared norm of the gradient', async () => {
  const pairs = (await read(...rows)).slice(0, 4);
  await using trainer = await descending(10);
  const references = await pairLogprobs(trainer, pairs, { adapter: false });
  const learning = dpo(trainer, new Map(pairs.map((pair, i) => [pair, references[i]!])), 0.3);
  const lossNow = async (): Promise<number> =>
    (await learning.measure(pairs, {})).loss / pairs.length;
  expect(await lossNow()).toBeCloseTo(Math.LN2, 6); // B is zero: the policy is the reference
  // away from where the gradient of A is zero
  for (let i = 0; i < 6; i++) await learning.step(pairs, {});
  const before = await lossNow();
  const start = await trainer.snapshot();
  const slopes: number[] = [];
  let squared = 0;
  for (const learningRate of [4, 2]) {
    await trainer.rollbackTo(start);
    await trainer.setOptimiser({ learningRate, maxNorm: 0 });
    const { stats } = await learning.step(pairs, {});
    expect(stats.loss).toBeCloseTo(before, 6);
    squared = stats.gradNorm ** 2;
    slopes.push(((await lossNow()) - before) / (learningRate / EPSILON));
  }
  expect(squared).toBeGreaterThan(0.1);
  // the second order of the step taken out
  expect((2 * slopes[1]! - slopes[0]!) / -squared).toBeCloseTo(1, 2);
});

test('the figures of a validation are means over its pairs, whatever the size of the batches', async () => {
  const pairs = await read(...rows);
  await using trainer = await descending(10);
  const references = await pairLogprobs(trainer, pairs, { adapter: false });
  const reference = new Map(pairs.map((pair, i) => [pair, references[i]!]));
  const learning = dpo(trainer, reference, 0.3);
  await learning.step(pairs, {});
  const whole = await learning.measure(pairs, {});
  const parts = [
    await learning.measure(pairs.slice(0, 5), {}),
    await learning.measure(pairs.slice(5), {}),
  ];
  expect([whole.count, parts.map(({ count }) => count)]).toEqual([6, [5, 1]]);
  expect(parts[0]!.loss + parts[1]!.loss).toBeCloseTo(whole.loss, 10);
  const policies = await pairLogprobs(trainer, pairs, {});
  const margins = policies.map(
    (policy, i) => pairLoss(policy, references[i]!, 0.3).figures['rewards/margins']!,
  );
  expect(whole.figures['rewards/margins']).toBeCloseTo(
    margins.reduce((sum, margin) => sum + margin, 0),
    10,
  );
});

test('the reference is computed once: a training that goes on reads it from its file, unless that is of other pairs', async () => {
  const references = file('cache.reference.json');
  const events = async (values: readonly unknown[]): Promise<FineTuningEvent[]> => {
    const options = {
      objective: 'dpo',
      beta: 0.1,
      validation: undefined,
      maxTokens: 200,
      references,
    } as const;
    const curation = NO_CURATION;
    const data = await readTrainData(model, { ...options, curation, rows: linesOf(...values) });
    await using trainer = await createTrainer(model, { lora: { rank: 2 }, threads: 1 });
    const plan = { batchSize: 3, steps: 1, seed: 1n, validation: { every: 1, patience: 0 } };
    const seen: FineTuningEvent[] = [];
    for await (const event of data.train(trainer, plan, new AbortController().signal))
      seen.push(event);
    return seen;
  };
  const margin = ([event]: FineTuningEvent[]): number => event!.figures['rewards/margins']!;
  expect(margin(await events(rows))).toBeCloseTo(0, 9);
  const cached = JSON.parse(readFileSync(references, 'utf8')) as {
    of: string;
    chosen: number[];
    rejected: number[];
  };
  expect([cached.chosen.length, cached.rejected.length]).toEqual([6, 6]);
  writeFileSync(
    references,
    JSON.stringify({ ...cached, chosen: cached.chosen.map((value) => value - 5) }),
  );
  expect(margin(await events(rows))).toBeCloseTo(0.5, 9);
  expect(margin(await events(rows.slice(1)))).toBeCloseTo(0, 9);
  writeFileSync(references, '{');
  expect(margin(await events(rows))).toBeCloseTo(0, 9);
});

test('the command learns to prefer, and prints and logs the figures under TRL’s names', () => {
  writeFileSync(file('pairs.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
  const out = file('dpo.gguf');
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [
      ...[
        path.resolve('dist/program/main.js'),
        'train',
        '--objective',
        'dpo',
        '--model',
        file('model.gguf'),
        '--out',
        out,
      ],
      ...[
        '--data',
        file('pairs.jsonl'),
        '--batch',
        '3',
        '--epochs',
        '4',
        '--lr',
        '0.005',
        '--validation',
        '0.2',
        '--json',
      ],
      ...['--log-to', 'jsonl', '--threads', '1'],
    ],
    { encoding: 'utf8' },
  );
  expect([status, status === 0 ? '' : stderr]).toEqual([0, '']);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, number>);
  expect(lines.at(-1)).toMatchObject({ examples: 5, validationExamples: 1, steps: 8 });
  const steps = lines.filter((line) => line.gradNorm !== undefined);
  expect(steps).toHaveLength(8);
  expect(steps[0]).toMatchObject({
    'rewards/chosen': 0,
    'rewards/rejected': 0,
    'rewards/accuracies': 0,
  });
  expect(steps[0]!.loss).toBeCloseTo(Math.LN2, 6);
  expect(steps.at(-1)).toMatchObject({ 'rewards/accuracies': 1 });
  expect(steps.at(-1)!['rewards/margins']).toBeGreaterThan(0.5);
  const tracked = readFileSync(`${out}.trackers/jsonl/metrics.jsonl`, 'utf8').trim().split('\n');
  expect(JSON.parse(tracked[1]!)).toMatchObject({
    step: 1,
    'train/rewards/chosen': 0,
    'train/rewards/accuracies': 0,
  });
  expect(JSON.parse(tracked[0]!)).toMatchObject({ step: 0, 'eval/rewards/margins': 0 });
});
