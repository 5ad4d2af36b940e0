/**
 * A handle on a hosted model: what it says of the model, what ends with it and what does not; and
 * the memory that a host counts before it loads.
 */
import { totalmem } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { encodeModel, synthesizeModel } from '../models/synthetic.js';
import { text, uint32, type MetadataEntry } from '../../src/embedded/gguf.js';
import { writeAtomically } from '../models/write-atomically.js';
import {
  loadModel,
  ModelHost,
  type HostedModel,
  type HostLoadOptions,
  type Model,
} from '../../src/index.js';
import { adapterFile, file, folder, greedy, shape, UNDISTURBED } from './fixtures.js';

describe('the memory of a model is known before it is loaded', () => {
  /** Bytes that a host is asked for. */
  async function needed(of: string, options: HostLoadOptions = {}): Promise<number> {
    await using host = new ModelHost({ memoryBytes: 1 });
    const refusal = (await host.load(of, options).catch((error: unknown) => error)) as Error;
    const [, bytes] = /^\S+ needs (\d+) bytes, but only 1 of the host's 1 bytes are free$/.exec(
      refusal.message,
    )!;
    return Number(bytes);
  }
  /** Of keys and values in f16. */
  const perToken = 2 * shape.layers * shape.keyValueHeads * 2 * shape.headDimension;
  const model = synthesizeModel({ architecture: 'llama', type: 'Q8_0', seed: 31n });
  const weights = model.tensors.reduce((sum, { data }) => sum + data.length, 0);
  const factors = { f32: 2, f16: 1, bf16: 1, q8_0: 34 / 64 } as const;

  test('weights, and keys and values in their type for each token of the context', async () => {
    expect(await needed(file, { contextTokens: 1000 })).toBe(weights + 1000 * perToken);
    for (const [kvType, factor] of Object.entries(factors) as [keyof typeof factors, number][])
      for (const contextTokens of [1, 999])
        expect(await needed(file, { kvType, contextTokens })).toBe(
          Math.ceil(weights + perToken * factor * contextTokens),
        );
  });

  /** The same file that says something else of itself. */
  function written(name: string, ...said: MetadataEntry[]): string {
    const to = path.join(folder, `${name}.gguf`);
    const keys = new Set(said.map(({ key }) => key));
    const metadata = [...model.metadata.filter(({ key }) => !keys.has(key)), ...said];
    writeAtomically(to, encodeModel({ ...model, metadata }));
    return to;
  }

  test('the type that the file names counts where none is asked for', async () => {
    const q8 = written('q8', { key: 'isopro.kv_cache_type', value: text('q8_0') });
    const contextTokens = 640;
    const of = (factor: number): number => weights + perToken * factor * contextTokens;
    expect(await needed(q8, { contextTokens })).toBe(of(34 / 64));
    expect(await needed(q8, { contextTokens, kvType: 'f32' })).toBe(of(2));
  });

  test('where no context is asked for it is what fits into 1 GiB, from 4,096 to 16,384 tokens', async () => {
    const tokens = async (bytesOfToken: number): Promise<number> => {
      const length = bytesOfToken / (2 * shape.layers * shape.keyValueHeads * 2);
      const entries = ['key', 'value'].map((of) => ({
        key: `llama.attention.${of}_length`,
        value: uint32(length),
      }));
      return ((await needed(written('long', ...entries))) - weights) / bytesOfToken;
    };
    const unit = 4 * shape.layers * shape.keyValueHeads;
    const near = (bytes: number): number => Math.ceil(bytes / unit) * unit;
    expect(await tokens(perToken)).toBe(16_384);
    expect(await tokens(near(2 ** 15))).toBe(16_384);
    const middle = near(100_000);
    expect(await tokens(middle)).toBe(Math.floor(2 ** 30 / middle));
    expect(await tokens(near(2 ** 19))).toBe(4096);
  });

  test('limits are taken, and what is beyond them is refused', async () => {
    const bad = { code: 'INVALID_ARGUMENT' };
    expect(await needed(file, { maxSequences: 1, prefixTokens: 0 })).toBeGreaterThan(weights);
    expect(await needed(file, { maxSequences: 253, prefixTokens: 2 ** 26 })).toBeGreaterThan(
      weights,
    );
    await using host = new ModelHost({ memoryBytes: 1 });
    await expect(host.load(file, { maxSequences: 254 })).rejects.toMatchObject(bad);
    await expect(host.load(file, { prefixTokens: 2 ** 26 + 1 })).rejects.toMatchObject(bad);
    await expect(host.load(file, { prefixTokens: -1 })).rejects.toMatchObject(bad);
    await expect(host.load('')).rejects.toMatchObject(bad);
    expect(() => new ModelHost({ memoryBytes: 0 })).toThrow(expect.objectContaining(bad));
  });

  test('a host has three quarters of the memory that there is', async () => {
    await using host = new ModelHost();
    const confined = process.constrainedMemory();
    const there = confined > 0 && confined < totalmem() ? confined : totalmem();
    const { memoryBytes } = host.usage();
    expect(Number.isInteger(memoryBytes)).toBe(true);
    expect(Math.abs(memoryBytes - (there * 3) / 4)).toBeLessThan(1);
  });
});

describe('handles', () => {
  let host: ModelHost;
  let alone: Model;
  const load = (): Promise<HostedModel> => host.load(file, { ...UNDISTURBED, contextTokens: 4096 });
  beforeAll(async () => {
    host = new ModelHost();
    alone = await loadModel(file, UNDISTURBED);
  });
  afterAll(async () => {
    await host.dispose();
    await alone.dispose();
  });
  const requests = (): number => host.usage().models[0]!.requests;
  const long = Array.from({ length: 400 }, (_, i) => 5 + (i % 90));

  test('say of the model what the model says', async () => {
    await using model = await load();
    const said = 'a <|im_end|> b';
    for (const parseControl of [true, false])
      expect([...model.tokenize(said, { parseControl })]).toEqual([
        ...alone.tokenize(said, { parseControl }),
      ]);
    const ids = alone.tokenize(said, { parseControl: true });
    for (const withControl of [true, false])
      expect(model.detokenize(ids, { withControl })).toBe(alone.detokenize(ids, { withControl }));
    expect(model.bytesOf(ids[0]!)).toEqual(alone.bytesOf(ids[0]!));
    const messages = [{ role: 'user' as const, content: 'x' }];
    for (const addGenerationPrompt of [true, false]) {
      const options = { addGenerationPrompt };
      expect(model.renderChat(messages, options)).toEqual(alone.renderChat(messages, options));
      const aside = await model.promptIdsAside({ messages }, options);
      expect([...aside]).toEqual([...alone.renderChat(messages, options).tokenIds]);
    }
    expect(await model.hash()).toBe(await alone.hash());
    expect([model.rendererId, model.formerRendererId]).toEqual([
      alone.rendererId,
      alone.formerRendererId,
    ]);
    expect([model.takesSystem, model.infillTokens, model.path]).toEqual([
      alone.takesSystem,
      alone.infillTokens,
      alone.path,
    ]);
    expect(await model.alternatives(long.slice(0, 9), { count: 3 })).toEqual(
      await alone.alternatives(long.slice(0, 9), { count: 3 }),
    );
    await model.dispose();
    for (const use of [
      () => model.hash(),
      () => model.tokenize('x'),
      () => model.contextTokens,
      () => model.rendererId,
    ])
      expect(use).toThrow(expect.objectContaining({ code: 'OBJECT_DISPOSED' }));
  });

  test('embed with an adapter or without, as the model does', async () => {
    await using model = await load();
    const weights = adapterFile('embedding', 12n);
    const adapter = await model.loadAdapter(weights);
    await using own = await loadModel(file, UNDISTURBED);
    const applied = await own.loadAdapter(weights);
    const rows = async (
      embedded: Promise<{ rows: readonly Float32Array[] }>,
    ): Promise<number[][]> => (await embedded).rows.map((row) => [...row]);
    const [plain, adapted] = [
      await rows(model.embed(['a b'])),
      await rows(model.embed(['a b'], { adapter })),
    ];
    expect(plain).toEqual(await rows(own.embed(['a b'])));
    expect(adapted).toEqual(await rows(own.embed(['a b'], { adapter: applied })));
    expect(adapted).not.toEqual(plain);
    await adapter.dispose();
    const gone = { code: 'OBJECT_DISPOSED' };
    await expect(model.embed(['a'], { adapter })).rejects.toMatchObject(gone);
  });

  const calls: [string, (model: HostedModel, signal?: AbortSignal) => Promise<unknown>][] = [
    [
      'scores',
      (model, signal) =>
        model.score(long.slice(0, 9), Array(300).fill(long), { ...(signal && { signal }) }),
    ],
    [
      'embeddings',
      (model, signal) => model.embed(Array(300).fill(long), { ...(signal && { signal }) }),
    ],
  ];
  test.each(calls)(
    '%s count as a request while they run, and end with their signal or their handle',
    async (_, call) => {
      const [mine, yours] = [await load(), await load()];
      const reason = new Error('left');
      const controller = new AbortController();
      const aborted = call(yours, controller.signal);
      const ended = call(mine);
      const other = yours.generate(greedy([5, 6], 3));
      expect(requests()).toBe(3);
      const outcomes = Promise.allSettled([aborted, ended]);
      controller.abort(reason);
      await mine.dispose();
      expect(await outcomes).toMatchObject([
        { reason: { code: 'ABORTED', cause: reason } },
        {
          reason: {
            code: 'OBJECT_DISPOSED',
            message: 'the model was disposed while the request was running',
          },
        },
      ]);
      expect((await other).tokenIds).toHaveLength(3);
      await new Promise(setImmediate);
      expect(requests()).toBe(0);
      await expect(call(yours, AbortSignal.abort(reason))).rejects.toMatchObject({ cause: reason });
      await yours.dispose();
      expect(host.usage().models).toEqual([]);
    },
  );

  test('an adapter that is loaded when its handle goes is let go', async () => {
    const [mine, yours] = [await load(), await load()];
    const { usedBytes } = host.usage();
    const pending = mine.loadAdapter(adapterFile('late', 13n));
    const gone = expect(pending).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
    await mine.dispose();
    await gone;
    expect(host.usage()).toMatchObject({ usedBytes, models: [{ references: 1, adapters: [] }] });
    const broken = expect(yours.loadAdapter(file)).rejects.toMatchObject({
      code: 'ADAPTER_MISMATCH',
    });
    await broken;
    expect(host.usage().usedBytes).toBe(usedBytes);
    await yours.dispose();
  });

  test('a host that goes ends what is being loaded, and keeps nothing', async () => {
    const other = new ModelHost();
    const loads = [
      other.load(file, UNDISTURBED),
      other.load(file, { ...UNDISTURBED, contextTokens: 99 }),
    ];
    const ended = Promise.allSettled(loads);
    await other.dispose();
    for (const outcome of await ended)
      expect(outcome).toMatchObject({ reason: { code: 'OBJECT_DISPOSED' } });
    expect(other.usage()).toMatchObject({ usedBytes: 0, waiting: 0, models: [] });
  });
});

test('an adapter without room is refused, or waits until another one goes; a caller may give up waiting', async () => {
  const files = [20n, 21n].map((seed) => adapterFile(`room-${seed}`, seed));
  await using measured = new ModelHost();
  const options = { ...UNDISTURBED, contextTokens: 64 };
  const bare = await measured.load(file, options);
  const before = measured.usage().usedBytes;
  await bare.loadAdapter(files[0]!);
  const both = measured.usage().usedBytes;
  expect(both).toBeGreaterThan(before);
  await using host = new ModelHost({ memoryBytes: both });
  const model = await host.load(file, options);
  const first = await model.loadAdapter(files[0]!);
  await expect(model.loadAdapter(files[1]!)).rejects.toMatchObject({
    code: 'OUT_OF_MEMORY',
    message: `the adapter room-21.gguf needs ${both - before} bytes, but only 0 of the host's ${both} bytes are free`,
  });
  const controller = new AbortController();
  const waits = { whenFull: 'wait', signal: controller.signal } as const;
  const given = model.loadAdapter(files[1]!, waits);
  while (host.usage().waiting === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  controller.abort();
  await expect(given).rejects.toMatchObject({ code: 'ABORTED' });
  const second = model.loadAdapter(files[1]!, { whenFull: 'wait' });
  while (host.usage().waiting === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  await first.dispose();
  expect((await second).path).toBe(files[1]);
  expect(host.usage()).toMatchObject({ usedBytes: both, waiting: 0 });
});
