/**
 * What `train` reads and how it goes: every form of row, the share kept apart, validation, early
 * stop, the curve.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { NO_CURATION } from '../../src/operations/train/curation.js';
import { exampleLines, readTrainData } from '../../src/operations/train/data.js';
import { Random } from '../../src/random.js';
import {
  fineTune,
  type FineTuningEvent,
  likelihood,
  optimiserOf,
  type FineTuningPlan,
} from '../../src/fine-tuning/fine-tuning.js';
import {
  eachAnswer,
  parseExamples,
  rowsOf,
  tokenisedExamples,
  type TrainingExamples,
} from '../../src/fine-tuning/training-examples.js';
import { splitExamples } from '../../src/fine-tuning/validation-split.js';
import {
  createTrainer,
  loadModel,
  type ChatMessage,
  type Model,
  type Trainer,
  type TrainSequence,
} from '../../src/index.js';
import { lossCurve } from '../../src/report/loss-curve.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-examples-'));
const file = path.join(folder, 'model.gguf');
let model: Model;
beforeAll(async () => {
  writeSyntheticModel(file, { architecture: 'qwen2' });
  model = await loadModel(file, { threads: 1 });
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

async function* textsOf(rows: readonly unknown[]): AsyncGenerator<string> {
  for (const row of rows) yield typeof row === 'string' ? row : JSON.stringify(row);
}
const linesOf = (...rows: unknown[]) => rowsOf(textsOf(rows));
const read = async (...rows: unknown[]): Promise<TrainingExamples> =>
  tokenisedExamples(await parseExamples(linesOf(...rows)), model, 200);

/** What a reply to these messages is, by the renderer and the tokenizer themselves. */
function expected(messages: ChatMessage[], answer: string): { tokens: number[]; labelled: number } {
  const prompt = [...model.renderChat(messages).tokenIds];
  return {
    tokens: [
      ...prompt,
      ...model.tokenize(answer),
      model.info.eot >= 0 ? model.info.eot : model.info.eos,
    ],
    labelled: prompt.length,
  };
}

describe('a row', () => {
  const user = { role: 'user', content: 'hi' } as const;
  const system = { role: 'system', content: 'be brief' } as const;
  const said = { role: 'assistant', content: 'yes' } as const;
  test.each<[string, unknown, ChatMessage[], string]>([
    ['messages, of TRL and mlx-lm', { messages: [system, user, said] }, [system, user], 'yes'],
    [
      'of several turns: the last answer',
      { messages: [user, said, user, { ...said, content: 'no' }] },
      [user, said, user],
      'no',
    ],
    [
      'prompt and completion as texts',
      { prompt: 'hi', completion: 'yes', extra: 1 },
      [user],
      'yes',
    ],
    [
      'prompt and completion as messages',
      { prompt: [system, user], completion: [said] },
      [system, user],
      'yes',
    ],
    [
      'prompt and completion of KTO',
      { prompt: 'hi', completion: 'yes', label: true },
      [user],
      'yes',
    ],
    [
      'messages with weights, of OpenAI',
      { messages: [user, { ...said, weight: 1 }] },
      [user],
      'yes',
    ],
    [
      'messages of parts',
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'h' },
              { type: 'text', text: 'i' },
            ],
          },
          said,
        ],
      },
      [user],
      'yes',
    ],
    [
      'messages beside pairs, of UltraFeedback',
      { prompt: 'a', chosen: [], rejected: [], messages: [user, said] },
      [user],
      'yes',
    ],
    ['prompt and answer, of run', { prompt: 'hi', answer: 'yes', tier: 'x' }, [user], 'yes'],
    [
      'prompt and an answer that is no text',
      { prompt: 'hi', answer: { a: [1] } },
      [user],
      '{"a":[1]}',
    ],
    [
      'messages and their answer, of run',
      { messages: [system, user], answer: 'yes' },
      [system, user],
      'yes',
    ],
    [
      'messages with an answer in them, and another member',
      { messages: [user, said], answer: 'no' },
      [user],
      'yes',
    ],
    ['Alpaca', { instruction: 'hi', input: '', output: 'yes' }, [user], 'yes'],
    [
      'Alpaca with an input',
      { instruction: 'hi', input: 'you', output: 'yes' },
      [{ role: 'user', content: 'hi\n\nyou' }],
      'yes',
    ],
    [
      'ShareGPT',
      {
        id: 'a',
        conversations: [
          { from: 'system', value: 'be brief' },
          { from: 'human', value: 'hi' },
          { from: 'gpt', value: 'yes' },
        ],
      },
      [system, user],
      'yes',
    ],
  ])('%s', async (_name, row, messages, answer) => {
    const { sequences } = await read(row);
    const { tokens, labelled } = expected(messages, answer);
    expect([...sequences[0]!.tokenIds]).toEqual(tokens);
    expect([...sequences[0]!.labelMask]).toEqual(tokens.map((_, t) => (t >= labelled ? 1 : 0)));
  });

  test('of text is learned whole, from its second token to its end', async () => {
    const { sequences } = await read({ text: 'hello there' });
    const ids = [...sequences[0]!.tokenIds];
    expect(ids.slice(ids.length - 1 - model.tokenize('hello there').length)).toEqual([
      ...model.tokenize('hello there'),
      model.info.eos,
    ]);
    expect([...sequences[0]!.labelMask]).toEqual(ids.map((_, t) => (t === 0 ? 0 : 1)));
  });

  test.each([
    ['prompt,completion\n"hi",yes\n', 'hi'],
    ['instruction,input,output\nhi,,yes\n', 'hi'],
    ['instruction;input;output\nhi;you;yes\n', 'hi\n\nyou'],
  ])('of CSV, %j, is one of the same members', async (text, content) => {
    const table = path.join(folder, 'rows.csv');
    writeFileSync(table, text);
    const { sequences } = tokenisedExamples(
      await parseExamples(rowsOf(exampleLines(table))),
      model,
      200,
    );
    expect([...sequences[0]!.tokenIds]).toEqual(
      expected([{ role: 'user', content }], 'yes').tokens,
    );
    writeFileSync(table, 'question,output\nhi,yes\n');
    await expect(parseExamples(rowsOf(exampleLines(table)))).rejects.toMatchObject({
      message: expect.stringContaining(
        'no column "prompt" or "instruction" or "text"; the columns, separated by commas, are "question", "output"',
      ),
    });
  });

  test('of one array, as Alpaca is published, counts as its own line does; what is no row is refused by its number', async () => {
    const rows = [{ instruction: 'hi', input: '', output: 'yes' }, { text: 'hello there' }];
    const lined = await read(...rows);
    const { sequences } = await read(...JSON.stringify(rows, null, 2).split('\n'));
    expect(sequences).toEqual(lined.sequences);
    const message = expect.stringMatching(/^row 2: expected/);
    await expect(read(JSON.stringify([rows[0], 3]))).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message,
    });
    await expect(read('[', '3')).rejects.toMatchObject({
      message: expect.stringContaining('starts like an array'),
    });
  });

  test.each([[], [''], ['[]'], ['[', ']']])('none is said to be none: %j', async (...given) => {
    await expect(read(...given)).rejects.toMatchObject({
      message: 'the file is empty: it has no rows',
      remedy: expect.stringContaining('docs/'),
    });
  });

  test.each<[string, unknown, string]>([
    ['of another form', { question: 'a', answer: 'b' }, 'prompt: is missing: a string$'],
    ['that is no object', '3', 'expected'],
    ['that is no JSON', '{', 'not JSON'],
    ['without an answer', { messages: [user] }, "assistant's"],
    [
      'whose last message is not an answer',
      {
        conversations: [
          { from: 'gpt', value: 'a' },
          { from: 'human', value: 'b' },
        ],
      },
      "assistant's",
    ],
    ['with an empty answer', { instruction: 'a', output: '' }, 'empty'],
    ['with an unknown role', { conversations: [{ from: 'martian', value: 'a' }] }, 'from'],
    ['with null for a text', { text: null }, 'text'],
    [
      'of KTO that is not to be learned',
      { prompt: 'a', completion: 'b', label: false },
      'label is false',
    ],
    [
      'of OpenAI that is not to be learned',
      { messages: [user, { ...said, weight: 0 }] },
      'weight 0',
    ],
    [
      'of a tool call',
      { messages: [user, { role: 'assistant', content: null, tool_calls: [{}] }] },
      'messages: 1: has tool calls, which are not',
    ],
    [
      'of an image',
      { messages: [{ role: 'user', content: [{ type: 'image_url' }] }, said] },
      'messages: 0: content: 0: image_url is not supported',
    ],
    [
      'without a completion',
      { messages: [{ role: 'user' }, said] },
      'messages: 0: content: is missing: a string or a list$',
    ],
    ['with a number for a prompt', { prompt: 3, answer: 'a' }, 'prompt: must be a string, not 3$'],
    ['without an output', { instruction: 'a' }, 'output: is missing: a string$'],
    ['of a preference pair', { prompt: 'a', chosen: 'b', rejected: 'c' }, '--objective dpo'],
  ])('%s is refused by its line', async (_name, row, reason) => {
    await expect(read({ text: 'fine' }, '', row)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(new RegExp(`^line 3[^]*${reason}`)),
      remedy: expect.stringMatching(/ row/),
    });
  });
});

const examples = (count: number): TrainSequence[] =>
  Array.from({ length: count }, (_, i) => {
    const tokenIds = Int32Array.from([5, 6 + (i % 40), 7, 50 + (i % 40), 8]);
    return { tokenIds, labelMask: Uint8Array.from([0, 0, 1, 1, 1]) };
  });
const textOf = ({ tokenIds }: TrainSequence): Int32Array => tokenIds;
const key = ({ tokenIds }: TrainSequence): string => [...tokenIds].join();

test('the share kept apart depends on the examples alone, equal ones stay together, and neither part is empty', () => {
  const all = examples(40);
  const { training, validation } = splitExamples(all, 0.25, textOf);
  expect([training.length, validation.length]).toEqual([30, 10]);
  const held = new Set(validation.map(key));
  const doubled = splitExamples(
    [...all].reverse().flatMap((each) => [each, each]),
    0.25,
    textOf,
  );
  expect(new Set(doubled.validation.map(key))).toEqual(held);
  expect(doubled.training.some((each) => held.has(key(each)))).toBe(false);
  expect(splitExamples(all, 0.001, textOf).validation).toHaveLength(1);
  expect(splitExamples(all, 0.999, textOf).training).toHaveLength(1);
  expect(() => splitExamples([all[0]!, all[0]!], 0.5, textOf)).toThrow(
    'all examples are identical',
  );
});

describe('answers of one conversation', () => {
  /** So many, each of up to five turns that are its own, but for a first one that some share. */
  const conversations = (random: Random, count: number, greetings: number): unknown[] =>
    Array.from({ length: count }, (_, i) => {
      const turns = Array.from({ length: random.nextInteger(1, 5) }, (_, turn) => [
        { role: 'user', content: `question ${i} of turn ${turn}` },
        { role: 'assistant', content: `answer ${random.nextInteger(0, 9)} to ${i}` },
      ]);
      const greeting = [
        { role: 'user', content: `hello ${i % Math.max(1, greetings)}` },
        { role: 'assistant', content: 'good day' },
      ];
      return { messages: [...(greetings > 0 && i % 2 === 0 ? greeting : []), ...turns.flat()] };
    });

  test.each([
    ['of their own', 12, 0, 0.25],
    ['of which some begin alike', 30, 3, 0.1],
    ['which mostly begin alike', 20, 1, 0.4],
    ['beside rows of one question', 9, 2, 0.5],
  ])('go to one side, %s', async (_, count, greetings, share) => {
    for (let seed = 1n; seed <= 8n; seed++) {
      const rows = [...conversations(new Random(seed), count, greetings), ...examplesOfOne(count)];
      const named = (await parseExamples(linesOf(...rows))).flatMap(eachAnswer);
      const { sequences, conversations: rowOf } = tokenisedExamples(named, model, 1000);
      const { training, validation } = splitExamples(sequences, share, textOf, (each) =>
        rowOf.get(each),
      );
      const sides = [training, validation].map(
        (side) => new Set(side.flatMap((each) => rowOf.get(each) ?? [])),
      );
      expect([...sides[0]!].filter((row) => sides[1]!.has(row))).toEqual([]);
      const trained = new Set(training.map(key));
      expect(validation.filter((each) => trained.has(key(each)))).toEqual([]);
      expect([training.length > 0, validation.length > 0]).toEqual([true, true]);
      if (greetings === 0) expect(training.length + validation.length).toBe(sequences.length);
      const turned = splitExamples([...sequences].reverse(), share, textOf, (each) =>
        rowOf.get(each),
      );
      expect(new Set(turned.validation.map(key))).toEqual(new Set(validation.map(key)));
    }
  });
  const examplesOfOne = (count: number): unknown[] =>
    Array.from({ length: count }, (_, i) => ({ prompt: `alone ${i}`, completion: `reply ${i}` }));

  test('rows of one answer lie where they would without conversations', async () => {
    const named = await parseExamples(linesOf(...examplesOfOne(40)));
    const [plain, each] = [named, named.flatMap(eachAnswer)].map((of) =>
      tokenisedExamples(of, model, 1000),
    );
    const [one, other] = [plain!, each!].map(({ sequences, conversations: of }) =>
      splitExamples(sequences, 0.2, textOf, (example) => of.get(example)).validation.map(key),
    );
    expect(other).toEqual(one);
  });
});

test('curated examples weigh by their scores where they are trained on, and not where they are measured', async () => {
  const rows = Array.from({ length: 12 }, (_, i) => ({
    prompt: `say ${i}`,
    completion: `it is ${i}`,
    score: i / 11,
  }));
  const measured = async (
    weightByScore: 'uniform' | 'linear',
    repeated: number,
  ): Promise<{ weights: number[]; before: number }> => {
    const options = {
      objective: 'sft',
      beta: 1,
      validation: 0.25,
      maxTokens: 200,
      references: '',
    } as const;
    const curation = { ...NO_CURATION, dedupe: 1, weightByScore };
    const data = await readTrainData(model, {
      ...options,
      curation,
      rows: linesOf(...rows, ...rows.slice(0, repeated)),
    });
    expect(data).toMatchObject({
      examples: 9,
      validationExamples: 3,
      curation: { rows: 12 + repeated, repeated },
    });
    await using trainer = await createTrainer(model, { lora: { rank: 2 }, threads: 1 });
    const plan = { batchSize: 12, steps: 1, seed: 1n, validation: { every: 1, patience: 0 } };
    for await (const event of data.train(trainer, plan, new AbortController().signal))
      if (event.kind === 'validation')
        return { weights: data.sequences(9).map(({ weight = 1 }) => weight), before: event.loss };
    throw new Error('nothing was measured');
  };
  const [uniform, linear] = [await measured('uniform', 0), await measured('linear', 2)];
  expect(uniform.weights).toEqual(Array(9).fill(1));
  expect(new Set(linear.weights).size).toBe(9);
  expect(linear.before).toBeCloseTo(uniform.before, 12);
});

describe('training with validation', () => {
  const sequences = examples(8);
  /** What is learned makes the loss on these worse: they answer the same with other words. */
  const contrary = examples(8).map(({ tokenIds: [a, b], labelMask }) => ({
    tokenIds: Int32Array.of(a!, b!, 200, 201, 202),
    labelMask,
  }));
  const trainer = (): Promise<Trainer> =>
    createTrainer(model, {
      lora: { rank: 2 },
      optimiser: { learningRate: 0.01 },
      threads: 1,
      seed: 3,
    });
  const plan = (held: TrainSequence[], more: object): FineTuningPlan<TrainSequence> => ({
    examples: sequences,
    batchSize: 4,
    steps: 12,
    seed: 1n,
    validation: { examples: held, every: 2, patience: 0, ...more },
  });
  async function events(
    by: Trainer,
    of: FineTuningPlan<TrainSequence>,
  ): Promise<FineTuningEvent[]> {
    const seen: FineTuningEvent[] = [];
    for await (const event of fineTune(likelihood(by), of)) seen.push(event);
    return seen;
  }
  const measured = (seen: FineTuningEvent[]) =>
    seen.flatMap((event) => (event.kind === 'validation' ? [event] : []));

  test('measures before, at every interval and at the end, the loss per token of what is kept apart', async () => {
    await using by = await trainer();
    const seen = measured(await events(by, plan(sequences, { every: 5 })));
    expect(seen.map(({ step }) => step)).toEqual([0, 5, 10, 12]);
    expect(seen.at(-1)!.loss).toBeCloseTo((await by.evaluate(sequences)).loss, 5);
    expect(seen[0]!.loss).toBeCloseTo((await by.evaluate(sequences, { adapter: false })).loss, 5);
    expect(seen.at(-1)!.best).toBe(true);
    expect(seen.at(-1)!.loss).toBeLessThan(seen[0]!.loss);
  });

  test('stops where nothing is gained any more, and goes on after an interruption to the same step and state', async () => {
    await using whole = await trainer();
    const seen = await events(whole, plan(contrary, { patience: 2 }));
    const losses = measured(seen).map(({ step, loss }) => ({ step, loss }));
    const best = losses.indexOf(losses.reduce((a, b) => (b.loss < a.loss ? b : a)));
    expect(losses.length - 1 - best).toBe(2);
    expect(measured(seen).map(({ stop }) => stop)).toEqual(
      losses.map((_, i) => i === losses.length - 1),
    );
    expect(whole.info.steps).toBeLessThan(12);

    await using interrupted = await trainer();
    for await (const event of fineTune(likelihood(interrupted), plan(contrary, { patience: 2 }))) {
      if (event.kind === 'step' && event.stats.step === 1) break;
    }
    const state = path.join(folder, 'state');
    await interrupted.save(state);
    await using resumed = await trainer();
    await resumed.load(state);
    const rest = await events(
      resumed,
      plan(contrary, { patience: 2, before: losses.filter(({ step }) => step <= 1) }),
    );
    expect(measured(rest).map(({ step, loss }) => ({ step, loss }))).toEqual(losses.slice(1));
    const [a, b] = [path.join(folder, 'a.gguf'), path.join(folder, 'b.gguf')];
    expect(await resumed.exportAdapter(a)).toBe(await whole.exportAdapter(b));
  });
});

test('every epoch of every seed has an order of its own', async () => {
  const sequences = examples(8);
  const orders: string[] = [];
  for (const seed of [1n, 2n, 3n]) {
    await using by = await createTrainer(model, { lora: { rank: 2 }, threads: 1 });
    const seen: number[] = [];
    const learning = likelihood(by);
    const step: typeof learning.step = (batch, options) => {
      seen.push(...batch.map((sequence) => sequences.indexOf(sequence)));
      return learning.step(batch, options);
    };
    for await (const event of fineTune(
      { ...learning, step },
      { examples: sequences, batchSize: 4, steps: 6, seed },
    ))
      void event;
    for (let epoch = 0; epoch < 3; epoch++)
      orders.push(seen.slice(8 * epoch, 8 * epoch + 8).join());
  }
  for (const order of orders)
    expect(order.split(',').map(Number).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(new Set(orders).size).toBe(9);
});

test.each<['linear' | 'cosine', number, number[]]>([
  ['cosine', 1, [1]],
  ['linear', 4, [1, 0.75, 0.5, 0.25]],
  ['cosine', 4, [0, 1, 2, 3].map((i) => (1 + Math.cos((Math.PI * i) / 4)) / 2)],
])(
  'the learning rate of a %s schedule of %d steps falls as that of transformers does, and is never zero',
  async (schedule, steps, factors) => {
    await using by = await createTrainer(model, {
      lora: { rank: 2 },
      optimiser: optimiserOf(0.01, schedule, steps),
      threads: 1,
    });
    const rates: number[] = [];
    for await (const event of fineTune(likelihood(by), {
      examples: examples(steps),
      batchSize: 1,
      steps,
      seed: 1n,
    }))
      if (event.kind === 'step') rates.push(event.stats.learningRate);
    expect(rates.map((rate) => rate / 0.01)).toEqual(
      factors.map((factor): unknown => expect.closeTo(factor, 5)),
    );
  },
);

describe('the curve of the loss', () => {
  test('falls from the upper left to the lower right, with the extremes at the axis', () => {
    const points = Array.from({ length: 50 }, (_, i) => ({ step: i + 1, loss: 3 - i * 0.05 }));
    const lines = lossCurve(
      [
        { mark: '.', name: 'training loss', points },
        { mark: 'o', name: 'validation loss', points: [{ step: 50, loss: 2 }] },
      ],
      60,
      8,
    );
    expect(lines[0]).toMatch(/^ +3\.000 \|\.?/);
    expect(lines[7]).toMatch(/^ +0\.550 \| {40,}\.+$/);
    expect(lines.findIndex((line) => line.includes('o'))).toBe(3);
    expect(lines.at(-2)).toMatch(/^ +0 +step 50$/);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(60);
  });

  test('one point, or a loss that is no number, is no curve', () => {
    expect(lossCurve([{ mark: '.', name: 'a', points: [{ step: 1, loss: 1 }] }])).toEqual([]);
    expect(
      lossCurve([
        {
          mark: '.',
          name: 'a',
          points: [
            { step: 1, loss: NaN },
            { step: 2, loss: 1 },
          ],
        },
      ]),
    ).toEqual([]);
    expect(
      lossCurve([
        {
          mark: '.',
          name: 'a',
          points: [
            { step: 1, loss: 1 },
            { step: 2, loss: 1 },
          ],
        },
      ]),
    ).toHaveLength(13);
  });
});
