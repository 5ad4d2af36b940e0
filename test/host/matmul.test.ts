/**
 * Kernels of our own in the place of ggml's (LoadModelOptions.matmul): all that one loaded model
 * computes goes the same way.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  createTrainer,
  IsoproError,
  loadModel,
  ModelHost,
  type HostRequest,
  type Model,
} from '../../src/index.js';
import { openModel } from '../../src/training/open-run.js';
import { inUse, resolveSettings } from '../../src/training/settings.js';
import { adapterFile, fileOf, fileQ41, ONE_THREAD, unquantised } from './fixtures.js';

const host = new ModelHost();
let ggml: Model;
let own: Model;
beforeAll(async () => {
  [ggml, own] = [
    await loadModel(fileQ41, ONE_THREAD),
    await loadModel(fileQ41, { ...ONE_THREAD, matmul: 'auto' }),
  ];
});
afterAll(() => Promise.all([host.dispose(), ggml.dispose(), own.dispose()]));

/** Whether there are any here: an x86 processor with AVX2. */
const isThere = (): boolean => own.info.matmul === 'own';

const prompt = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, i) => 5 + ((seed * 31 + i * (7 + seed)) % 200));
const sampled = (seed: number, length: number, more: Partial<HostRequest> = {}): HostRequest => ({
  tokenIds: prompt(seed, length),
  id: String(seed),
  sampling: { temperature: 1 },
  maxTokens: 40,
  ignoreEndOfSequence: true,
  ...more,
});

describe('whose kernels', () => {
  test('are ggml’s by default, and ours by auto where the file has matrices for them', async () => {
    expect(ggml.info.matmul).toBe('ggml');
    await using other = await loadModel(unquantised, { ...ONE_THREAD, matmul: 'auto' });
    expect(other.info.matmul).toBe('ggml');
    if (process.arch !== 'x64') expect(own.info.matmul).toBe('ggml');
  });

  test('own is refused where nothing would be multiplied by them', async () => {
    const failure: unknown = await loadModel(unquantised, { matmul: 'own' }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(IsoproError);
    expect(failure).toMatchObject({
      code: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining('matmul'),
    });
    await expect(host.load(unquantised, { matmul: 'own' })).rejects.toMatchObject({
      code: 'MODEL_UNSUPPORTED',
    });
    await expect(loadModel(fileQ41, { matmul: 'blas' as 'own' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    if (!isThere()) return;
    await using refusedNothing = await loadModel(fileQ41, { ...ONE_THREAD, matmul: 'own' });
    expect(refusedNothing.info.matmul).toBe('own');
  });

  test('a run loads its model by them, and the settings in use name those that were found', async () => {
    const settings = resolveSettings({ model: { name: fileQ41, threads: 1, matmul: 'auto' } });
    await using model = await openModel(settings, undefined);
    expect(model.info.matmul).toBe(own.info.matmul);
    expect(inUse(settings, { model, task: { turns: 1 } }).model.matmul).toBe(own.info.matmul);
    expect(resolveSettings({}).model.matmul).toBe('auto');
  });

  test('models of one file by different kernels are two', async () => {
    const [first, second, third] = [
      await host.load(fileQ41, { ...ONE_THREAD, matmul: 'ggml' }),
      await host.load(fileQ41, { ...ONE_THREAD, matmul: 'auto' }),
      await host.load(fileQ41, { ...ONE_THREAD }),
    ];
    expect(host.usage().models.map(({ references }) => references)).toEqual([2, 1]);
    expect([first, second, third].map(({ info }) => info.matmul)).toEqual([
      'ggml',
      own.info.matmul,
      'ggml',
    ]);
    await Promise.all([first, second, third].map((model) => model.dispose()));
  });
});

const FORMATS = [
  'Q4_0',
  'Q4_1',
  'Q5_0',
  'Q8_0',
  'Q4_K',
  'Q5_K',
  'Q6_K',
  'IQ4_XS',
  'MXFP4',
] as const;
describe.each(FORMATS)('ours of %s', (type) => {
  test('sum in another order than ggml’s and are as near to the exact values', async () => {
    const [tokens, continuation] = [prompt(1, 30), prompt(2, 60)];
    const scored = async (matmul: 'ggml' | 'auto'): Promise<readonly number[]> => {
      await using model = await loadModel(fileOf(type), { ...ONE_THREAD, matmul });
      return [...(await model.score(tokens, [continuation]))[0]!];
    };
    const [theirs, ours] = [await scored('ggml'), await scored('auto')];
    await using trainer = await createTrainer(
      { path: fileOf(type) },
      { threads: 1, lora: { rank: 1 } },
    );
    const tokenIds = Int32Array.from([...tokens, ...continuation]);
    const exact = (
      await trainer.evaluate([
        { tokenIds, labelMask: Uint8Array.from(tokenIds, (_, i) => (i < tokens.length ? 0 : 1)) },
      ])
    ).sequences[0]!;
    const [theirError, ourError] = [theirs, ours].map((values) =>
      Math.hypot(...values.map((value, i) => value - exact.logprobs[tokens.length + i]!)),
    );
    // Activations of eight bits are what is left; of the formats with blocks of 256 ggml rounds as
    // many of them by one scale, we 32.
    expect(ourError).toBeLessThan(1.2 * theirError!);
    if (isThere()) expect(ours).not.toEqual(theirs);
  });

  test.each([1, 2])(
    'replies, alone and together, are what score says of them, bit for bit: %d threads',
    async (threads) => {
      if (!isThere()) return; // ggml's are the processor's affair
      const settings = { threads, fixedThreads: true, matmul: 'auto' } as const;
      await using alone = await loadModel(fileOf(type), settings);
      const together = await host.load(fileOf(type), {
        ...settings,
        contextTokens: 4096,
        maxSequences: 8,
      });
      // Of more than 64 rows a call ggml's attention would have another kernel.
      const requests = [1, 3, 9, 140, 2, 5, 7, 71].map((length, seed) => sampled(seed, length));
      const replies = await Promise.all(requests.map((request) => together.generate(request)));
      for (const [i, { tokenIds, logprobs }] of replies.entries()) {
        const [scored] = await alone.score(requests[i]!.tokenIds!, [tokenIds]);
        expect([...logprobs]).toEqual([...scored!]);
        const [again] = await together.score(requests[i]!.tokenIds!, [tokenIds]);
        expect(again).toEqual(scored);
      }
      const one = await together.generate(sampled(0, 1, { deterministic: true }));
      expect([one.tokenIds, one.logprobs]).toEqual([replies[0]!.tokenIds, replies[0]!.logprobs]);
      await together.dispose();
    },
  );
});

describe('an adapter', () => {
  test.each(['Q4_0', 'Q4_1', 'Q5_0', 'Q8_0'] as const)(
    'of %s is what it is beside ggml’s products, and the same in replies and in score',
    async (type) => {
      if (!isThere()) return;
      const settings = { ...ONE_THREAD, contextTokens: 2048, maxSequences: 8 };
      const [ours, theirs] = [
        await host.load(fileOf(type), { ...settings, matmul: 'auto' }),
        await host.load(fileOf(type), settings),
      ];
      const adapted = adapterFile(`beside-${type}`, 5n, { rank: 8, base: type });
      const [adapter, same] = [await ours.loadAdapter(adapted), await theirs.loadAdapter(adapted)];
      const request = sampled(3, 20);
      const alone = await ours.generate({ ...request, adapter, deterministic: true });
      const [scored] = await ours.score(request.tokenIds!, [alone.tokenIds], { adapter });
      expect([...alone.logprobs]).toEqual([...scored!]);
      // In one batch with the base's a row's pairs are added beside the graph, in the same order.
      const [reply] = await Promise.all([
        ours.generate({ ...request, adapter }),
        ours.generate(sampled(4, 20)),
      ]);
      const [again] = await ours.score(request.tokenIds!, [reply.tokenIds], { adapter });
      const [base] = await ours.score(request.tokenIds!, [reply.tokenIds]);
      const [ggmls] = await theirs.score(request.tokenIds!, [reply.tokenIds], { adapter: same });
      const apart = (values: ArrayLike<number>): number =>
        Math.max(...[...again!].map((value, i) => Math.abs(value - values[i]!)));
      const changed = apart(base!);
      expect([...reply.logprobs]).toEqual([...again!]);
      expect(apart(ggmls!)).toBeLessThan(0.2 * changed);
      await Promise.all([ours.dispose(), theirs.dispose()]);
    },
  );
});
