/**
 * What a caller hands to the engine ends in an answer or a typed error: long runs of a text, lists
 * of any length, numbers of any size.
 */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  createTrainer,
  inspectModel,
  loadModel,
  ModelHost,
  type Adapter,
  type HostedModel,
  type Model,
  type Trainer,
} from '../../src/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { collect, folder } from './fixtures.js';

const TINY = new URL('../../assets/models/tiny.gguf', import.meta.url).pathname;
const code = async (call: () => unknown): Promise<string> => {
  try {
    await call();
    return 'none';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
};

let model: Model;
let trainer: Trainer;
let host: ModelHost;
let hosted: HostedModel;
const base = path.join(folder, 'hostile.gguf');
beforeAll(async () => {
  model = await loadModel(TINY, { threads: 1 });
  trainer = await createTrainer(model, { threads: 1 });
  host = new ModelHost();
  hosted = await host.load(TINY, { threads: 1 });
});
afterAll(() => Promise.all([host.dispose(), trainer.dispose(), model.dispose()]));

describe('a long run of a text', () => {
  test('of digits has the tokens of its parts, which end where words of three do', () => {
    for (const length of [7000, 30_001, 100_000]) {
      const digits = Array.from({ length }, (_, i) => (i * i + 3 * i) % 10).join('');
      const whole = model.tokenize(digits);
      const first = length % 150;
      const parts = [digits.slice(0, first), ...digits.slice(first).match(/.{150}/g)!];
      expect([...whole]).toEqual(parts.flatMap((part) => [...model.tokenize(part)]));
      expect(model.detokenize(whole)).toBe(digits);
    }
  });

  test.each(['x', ' ', '\n', '\u4e2d', '\u0663', '\u0301', '\u{1f600}', 'a1', '.\n'])(
    'of %j is tokens that say it, or too long',
    async (unit) => {
      const text = unit.repeat(60_000 / unit.length);
      expect(model.detokenize(model.tokenize(text))).toBe(text);
      const longer = (): unknown => model.tokenize(unit.repeat(2_000_000));
      expect(['none', 'INVALID_ARGUMENT']).toContain(await code(longer));
    },
  );

  test('is no square of its control tokens', () => {
    expect(model.tokenize('<|im_end|>'.repeat(200_000), { parseControl: true })).toHaveLength(
      200_000,
    );
  });

  test('goes every way to the model', async () => {
    const digits = '7'.repeat(40_000);
    expect(
      await code(() => collect(model, { prompts: [digits, { text: digits }], maxTokens: 1 })),
    ).toBe('CONTEXT_OVERFLOW');
    expect(await code(() => hosted.generate({ prompt: digits, maxTokens: 1 }))).toBe(
      'CONTEXT_OVERFLOW',
    );
    expect(await code(() => hosted.embed([digits]))).toBe('CONTEXT_OVERFLOW');
    expect(model.renderChat([{ role: 'user', content: digits }]).tokenIds.length).toBeGreaterThan(
      20_000,
    );
  });
});

describe('a list', () => {
  const lists: never[][] = [
    new Array<never>(2 ** 32 - 1),
    new Array<never>(2 ** 31),
    Object.assign(['x'], { length: 3 }) as never[],
    new Array<never>(2 ** 24 + 1),
  ];
  test.each(lists.map((list) => [list.length, list] as const))(
    'of length %d without all of its elements is refused at once',
    async (_, list) => {
      const calls: (() => unknown)[] = [
        () => collect(model, { prompts: list }),
        () => collect(model, { prompts: [{ tokenIds: list }] }),
        () => collect(model, { prompts: [{ messages: list }] }),
        () => collect(model, { prompts: [{ text: 'x', seeds: list }] }),
        () => collect(model, { prompts: ['x'], stop: list, stopTokens: list }),
        () => hosted.generate({ prompt: 'x', stop: list }),
        () => model.score([1], list),
        () => model.score(list, [[1]]),
        () => model.scoreBranches(list, []),
        () => model.scoreBranches([1], list),
        () => model.embed(list),
        () => model.hidden({ tokens: [1], layers: list, reduce: 'rows' }),
        () => model.detokenize(list),
        () => model.renderChats(list),
        () => hosted.embed(list),
        () => trainer.step(list),
        () => trainer.step([], { microBatches: list }),
        () => createTrainer(model, { lora: { layers: list } }),
        () => createTrainer(model, { lora: { targets: list } }),
        () => trainer.recycleDirections('blk.0.attn_q', list),
      ];
      for (const call of calls) expect(await code(call)).toBe('INVALID_ARGUMENT');
    },
  );
});

describe('a number that single precision does not hold', () => {
  const numbers = [1e-39, 1e-300, 5e-324, 3.5e38, 1e300, Infinity, NaN];
  /** With which nearly 0 means the same as 0. */
  const scales = ['temperature', 'topP', 'minP', 'presencePenalty', 'frequencyPenalty'];
  test.each(numbers)('%d is refused by its name', async (number) => {
    for (const name of Math.abs(number) < 1 ? ['repeatPenalty'] : [...scales, 'repeatPenalty']) {
      await expect(
        hosted.generate({ prompt: 'x', maxTokens: 1, sampling: { [name]: number } }),
      ).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining(name),
      });
    }
    const sequence = { tokenIds: Int32Array.of(300, 301), labelMask: Uint8Array.of(0, 1) };
    const calls: (() => unknown)[] = [
      ...(Math.abs(number) < 1
        ? []
        : [() => hosted.generate({ prompt: 'x', sampling: { logitBias: { 3: number } } })]),
      () => collect(model, { prompts: ['x'], adapterScale: number }),
      () => model.setAdapter(null, number),
      () => trainer.step([{ ...sequence, weight: number }]),
      () => trainer.step([sequence], { objective: { kind: 'policy', temperature: number } }),
      () => createTrainer(model, { optimiser: { epsilon: number } }),
      () => createTrainer(model, { lora: { alpha: number } }),
      () => trainer.setOptimiser({ learningRate: number, maxNorm: 1 }),
    ];
    for (const call of calls) expect(await code(call)).toBe('INVALID_ARGUMENT');
  });

  test.each([1e-39, 1e-300, 5e-324])('%d is 0 to what draws a reply', async (number) => {
    const said = async (sampling: object): Promise<number[]> => [
      ...(await hosted.generate({ prompt: 'x', maxTokens: 8, sampling: { seed: 7n, ...sampling } }))
        .tokenIds,
    ];
    for (const name of scales)
      expect(await said({ [name]: number })).toEqual(await said({ [name]: 0 }));
    expect(await said({ logitBias: { 300: number } })).toEqual(await said({}));
  });

  test('the least and the greatest of those that it holds answer', async () => {
    for (const repeatPenalty of [1.2e-38, 1e-30, 1000])
      for (const temperature of [0, 1.2e-38, 1, 1000]) {
        const sampling = { repeatPenalty, temperature, logitBias: { 300: 100, 301: -100 } };
        expect(
          (await hosted.generate({ prompt: 'x', maxTokens: 3, sampling })).tokenIds.length,
        ).toBeGreaterThan(0);
      }
  });
});

describe('a file that is whole, but not of this build', () => {
  const changed = (name: string, change: (bytes: Buffer) => void): string => {
    const file = path.join(folder, name);
    const bytes = readFileSync(TINY);
    change(bytes);
    writeFileSync(file, bytes);
    return file;
  };
  const pre = (bytes: Buffer): number =>
    bytes.indexOf('tokenizer.ggml.pre') + 'tokenizer.ggml.pre'.length + 12;

  test.each([
    [
      'another pre-tokenizer',
      (bytes: Buffer) => bytes.write('neverpre', pre(bytes), 'latin1'),
      /unknown pre-tokenizer/,
    ],
    [
      'a pre-tokenizer that differs in a letter',
      (bytes: Buffer) => bytes.write('Superbpe', pre(bytes), 'latin1'),
      /unknown pre-tokenizer/,
    ],
    ['a version of GGUF to come', (bytes: Buffer) => bytes.writeUInt32LE(5, 4), /GGUF version 5/],
    [
      'an integer of another type',
      (bytes: Buffer) =>
        bytes.writeUInt32LE(5, bytes.indexOf('qwen2.block_count') + 'qwen2.block_count'.length),
      /block_count/,
    ],
  ])('%s is MODEL_UNSUPPORTED, by loading and by models inspect', async (name, change, says) => {
    const file = changed(`${name.replaceAll(' ', '-')}.gguf`, change);
    await expect(loadModel(file, { threads: 1 })).rejects.toMatchObject({
      code: 'MODEL_UNSUPPORTED',
      message: expect.stringMatching(says),
    });
    const inspected = await inspectModel(file).catch((error: unknown) => ({ problem: error }));
    expect(inspected.problem).toMatchObject({
      code: 'MODEL_UNSUPPORTED',
      message: expect.stringMatching(says),
    });
  });

  test('warnings of llama.cpp come through, in models inspect and of the loaded model', async () => {
    // another key of the same length: the file names no pre-tokenizer then
    const file = changed('no-pre.gguf', (bytes) =>
      bytes.write('prx', bytes.indexOf('tokenizer.ggml.pre') + 15, 'latin1'),
    );
    const { warnings, problem } = await inspectModel(file);
    expect(problem).toBeNull();
    expect(warnings.join('\n')).toMatch(/missing pre-tokenizer type[^]*QUALITY/);
    await using loaded = await loadModel(file, { threads: 1 });
    expect(loaded.info.warnings).toEqual(warnings);
    expect((await inspectModel(TINY)).warnings).toEqual([]);
  });
});

describe('work under way keeps its adapter', () => {
  test('when the handle is disposed of: score, alternatives, embed, as replies do', async () => {
    const shape = writeSyntheticModel(base, { architecture: 'llama', type: 'Q8_0', seed: 31n });
    const file = path.join(folder, 'held.gguf');
    writeSyntheticAdapter(file, shape, { seed: 5n });
    await using own = new ModelHost();
    const of = await own.load(base, { threads: 1, fixedThreads: true });
    const texts = Array.from({ length: 6 }, (_, i) =>
      Int32Array.from({ length: 40 }, (_, t) => 5 + ((i + t) % 200)),
    );
    const work = async (dispose: boolean): Promise<unknown> => {
      copyFileSync(file, `${file}-${String(dispose)}.gguf`);
      const adapter = await of.loadAdapter(`${file}-${String(dispose)}.gguf`);
      const under = Promise.all([
        of.embed(texts, { adapter }),
        of.score(texts[0]!, texts.slice(1), { adapter }),
        of.alternatives(texts[1]!, { adapter, count: 2 }),
        of.score(texts[2]!, texts.slice(3), { adapter }),
        of
          .generate({
            tokenIds: texts[0]!,
            maxTokens: 5,
            adapter,
            sampling: { temperature: 0 },
            deterministic: true,
          })
          .then(({ tokenIds }) => tokenIds),
      ]);
      if (dispose) await adapter.dispose();
      const done = await under;
      if (dispose) expect(await code(() => of.embed(texts, { adapter }))).toBe('OBJECT_DISPOSED');
      if (dispose)
        expect(await code(() => of.score(texts[0]!, texts, { adapter }))).toBe('OBJECT_DISPOSED');
      return done;
    };
    expect(await work(true)).toEqual(await work(false));
  });

  test('of a model without a host, too; a handle that is gone begins nothing', async () => {
    await using plain = await loadModel(base, { threads: 1, fixedThreads: true });
    const load = (): Promise<Adapter> => plain.loadAdapter(path.join(folder, 'held.gguf'));
    const texts = Array.from({ length: 5 }, (_, i) => [5 + i, 6, 7, 8]);
    const [adapter, other] = [await load(), await load()];
    const under = plain.embed(texts, { adapter });
    adapter.dispose();
    adapter.dispose();
    expect((await under).rows).toEqual((await plain.embed(texts, { adapter: other })).rows);
    expect(await code(() => plain.embed(texts, { adapter }))).toBe('OBJECT_DISPOSED');
    expect(await code(() => plain.setAdapter(adapter))).toBe('OBJECT_DISPOSED');
    expect(
      await code(() => collect(plain, { prompts: [{ tokenIds: [5] }], adapter, maxTokens: 1 })),
    ).toBe('OBJECT_DISPOSED');
    other.dispose();
  });
});
