/**
 * Texts as vectors: against node-llama-cpp's hidden states of the same files, and what a caller may
 * hand in.
 */
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { getLlama, LlamaLogLevel, type Llama, type Token } from 'node-llama-cpp';
import { loadModel, ModelHost, type Model } from '../../src/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { ARCHITECTURES, writeSyntheticModel } from '../models/synthetic.js';
import { describeStories, folder, STORIES, syntheticModel } from './fixtures.js';

const TEXTS = [
  'a cat',
  'A river runs through the city and out of it again. '.repeat(4),
  'x',
  'a cat',
];
const ONE_THREAD = { threads: 1, fixedThreads: true };

let llama: Llama;
beforeAll(async () => {
  llama = await getLlama({
    gpu: false,
    build: 'never',
    logLevel: LlamaLogLevel.disabled,
    maxThreads: 1,
  });
});
afterAll(() => llama.dispose());

const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((sum, value, i) => sum + value * b[i]!, 0);
const unit = (of: readonly number[]): number[] => of.map((value) => value / Math.sqrt(dot(of, of)));

/**
 * The peer gives the state of a text's last token; a token does not see those after it, so those of
 * all beginnings are the states.
 */
async function peerStates(file: string, ids: readonly number[]): Promise<number[][]> {
  await using model = await llama.loadModel({ modelPath: file });
  await using context = await model.createEmbeddingContext({ contextSize: 256, threads: 1 });
  const states: number[][] = [];
  for (let end = 1; end <= ids.length; end++)
    states.push([...(await context.getEmbeddingFor(ids.slice(0, end) as Token[])).vector]);
  return states;
}

async function expectMean(file: string): Promise<void> {
  await using model = await loadModel(file, ONE_THREAD);
  const { rows, tokens } = await model.embed(TEXTS);
  expect(rows.map(({ length }) => length)).toEqual(TEXTS.map(() => model.info.embeddingSize));
  expect([...rows[3]!]).toEqual([...rows[0]!]);
  expect(Math.abs(dot(rows[0]!, rows[1]!))).toBeLessThan(0.999);
  for (const [i, text] of TEXTS.entries()) {
    const ids = [...model.promptIds({ text })];
    expect(tokens[i]).toBe(ids.length);
    const states = await peerStates(file, ids);
    const mean = unit(states[0]!.map((_, k) => states.reduce((sum, state) => sum + state[k]!, 0)));
    expect(dot(rows[i]!, rows[i]!)).toBeCloseTo(1, 6);
    expect(dot(rows[i]!, mean)).toBeGreaterThan(1 - 1e-5);
  }
}

describeStories('stories260K', () => {
  test('a row is the mean of the hidden states of node-llama-cpp', () => expectMean(STORIES));
});

test.each(ARCHITECTURES)(
  '%s: a row is the mean of the hidden states of node-llama-cpp',
  (architecture) => expectMean(syntheticModel({ architecture, type: 'F32', seed: 7n })),
);

describe('a caller', () => {
  let model: Model;
  const file = path.join(folder, 'base.gguf');
  const shape = writeSyntheticModel(file, { architecture: 'llama', type: 'Q8_0', seed: 3n });
  const adapter = path.join(folder, 'adapter.gguf');
  writeSyntheticAdapter(adapter, shape, { seed: 4n });
  beforeAll(async () => {
    model = await loadModel(file, { ...ONE_THREAD, contextTokens: 64 });
  });
  afterAll(() => model.dispose());

  test.each([
    ['no list', 'a cat', 'INVALID_ARGUMENT', 'texts: '],
    ['an empty text', ['a', ''], 'INVALID_ARGUMENT', 'texts.1: an empty text has no embedding'],
    ['a text that is none', ['a', 7], 'INVALID_ARGUMENT', 'texts.1: expected a text or token ids'],
    [
      'a token that is none',
      ['a', [99_999]],
      'INVALID_ARGUMENT',
      'texts.1: token 99999 is outside the vocabulary',
    ],
    ['no tokens', [[]], 'INVALID_ARGUMENT', 'texts.0: '],
    ['a text that is too long', ['a', 'long '.repeat(100)], 'CONTEXT_OVERFLOW', 'texts.1: '],
  ])('is told what is wrong with %s', async (_, texts, code, message) => {
    await expect(model.embed(texts as string[])).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });

  test('gets none for no texts, a result that JSON takes, and a vector that depends on its text alone', async () => {
    expect((await model.embed([])).rows).toEqual([]);
    const [together, alone] = [await model.embed(TEXTS.slice(2)), await model.embed([TEXTS[3]!])];
    expect([...together.rows[1]!]).toEqual([...alone.rows[0]!]);
    expect(JSON.parse(JSON.stringify(alone))).toEqual({
      rows: [[...alone.rows[0]!]],
      tokens: [...alone.tokens],
    });
  });

  test('may name an adapter, for one call', async () => {
    const loaded = await model.loadAdapter(adapter);
    const bare = await model.embed(['a cat']);
    const adapted = await model.embed(['a cat'], { adapter: loaded });
    expect(dot(bare.rows[0]!, adapted.rows[0]!)).toBeLessThan(0.9999);
    expect([...(await model.embed(['a cat'])).rows[0]!]).toEqual([...bare.rows[0]!]);
    await model.setAdapter(loaded);
    expect([...(await model.embed(['a cat'])).rows[0]!]).toEqual([...adapted.rows[0]!]);
    expect([...(await model.embed(['a cat'], { adapter: null })).rows[0]!]).toEqual([
      ...bare.rows[0]!,
    ]);
    await model.setAdapter(null);
    loaded.dispose();
  });

  test('goes on generating and scoring as before: nothing of an embedding stays', async () => {
    const prefix = model.promptIds({ text: 'a cat' });
    const before = await model.score(prefix, [[5, 6, 7]]);
    await model.embed(TEXTS.slice(2));
    expect([...(await model.score(prefix, [[5, 6, 7]]))[0]!]).toEqual([...before[0]!]);
  });

  test('may cancel, with a reason', async () => {
    const reason = new Error('enough');
    await expect(model.embed(['a'], { signal: AbortSignal.abort(reason) })).rejects.toMatchObject({
      name: 'AbortError',
      cause: reason,
    });
    const controller = new AbortController();
    const running = model.embed(
      Array.from({ length: 1000 }, () => 'a cat'),
      { signal: controller.signal },
    );
    controller.abort(reason);
    await expect(running).rejects.toMatchObject({ code: 'ABORTED', cause: reason });
  });

  test('of a host gets the same beside replies that run, and OBJECT_DISPOSED when the model is disposed of', async () => {
    const host = new ModelHost();
    try {
      const hosted = await host.load(file, { ...ONE_THREAD, contextTokens: 1024 });
      const bare = await model.embed(['a cat']);
      const reply = hosted.generate({
        tokenIds: [5, 6, 7],
        maxTokens: 100,
        ignoreEndOfSequence: true,
      });
      const embedded = await hosted.embed(['a cat', 'a']);
      expect([...embedded.rows[0]!]).toEqual([...bare.rows[0]!]);
      expect((await reply).tokenIds).toHaveLength(100);
      const lora = await hosted.loadAdapter(adapter);
      expect(
        dot((await hosted.embed(['a cat'], { adapter: lora })).rows[0]!, bare.rows[0]!),
      ).toBeLessThan(0.9999);
      await expect(hosted.embed(['a'], { adapter: {} as never })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
      await expect(hosted.embed(['a'], { signal: AbortSignal.abort() })).rejects.toMatchObject({
        code: 'ABORTED',
      });
      const running = hosted.embed(Array.from({ length: 1000 }, () => 'a cat'));
      const ended = expect(running).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
      expect(host.usage().models[0]!.requests).toBe(1);
      await hosted.dispose();
      await ended;
      await expect(hosted.embed(['a'])).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
    } finally {
      await host.dispose();
    }
  });
});
