/** Kernels of our own in the place of ggml's (LoadModelOptions.matmul): all that one loaded model computes goes the same way. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { IsoproError, loadModel, ModelHost, type HostRequest, type Model } from '../../src/index.js';
import { openModel } from '../../src/training/open-run.js';
import { inUse, resolveSettings } from '../../src/training/settings.js';
import { file, fileQ41, ONE_THREAD } from './fixtures.js';

const host = new ModelHost();
let ggml: Model;
let own: Model;
beforeAll(async () => {
  [ggml, own] = [await loadModel(fileQ41, ONE_THREAD), await loadModel(fileQ41, { ...ONE_THREAD, matmul: 'auto' })];
});
afterAll(() => Promise.all([host.dispose(), ggml.dispose(), own.dispose()]));

/** Whether there are any here: the processor has to have AVX2 and no AMX. */
const isThere = (): boolean => own.info.matmul === 'own';

const prompt = (seed: number, length: number): number[] => Array.from({ length }, (_, i) => 5 + ((seed * 31 + i * (7 + seed)) % 200));
const sampled = (seed: number, length: number, more: Partial<HostRequest> = {}): HostRequest => ({
  tokenIds: prompt(seed, length),
  id: String(seed),
  sampling: { temperature: 1 },
  maxTokens: 40,
  ignoreEndOfSequence: true,
  ...more,
});
const largest = (a: readonly number[], b: readonly number[]): number => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));

describe('whose kernels', () => {
  test('are ggml’s by default, and ours by auto where the file has matrices for them', async () => {
    expect(ggml.info.matmul).toBe('ggml');
    await using other = await loadModel(file, { ...ONE_THREAD, matmul: 'auto' });
    expect(other.info.matmul).toBe('ggml');
    if (process.arch !== 'x64') expect(own.info.matmul).toBe('ggml');
  });

  test('own is refused where nothing would be multiplied by them', async () => {
    const failure: unknown = await loadModel(file, { matmul: 'own' }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(IsoproError);
    expect(failure).toMatchObject({ code: 'MODEL_UNSUPPORTED', message: expect.stringContaining('matmul') });
    await expect(host.load(file, { matmul: 'own' })).rejects.toMatchObject({ code: 'MODEL_UNSUPPORTED' });
    await expect(loadModel(fileQ41, { matmul: 'blas' as 'own' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    if (!isThere()) return;
    await using refusedNothing = await loadModel(fileQ41, { ...ONE_THREAD, matmul: 'own' });
    expect(refusedNothing.info.matmul).toBe('own');
  });

  test('a run loads its model by them, and the settings in use name those that were found', async () => {
    const settings = resolveSettings({ model: { name: fileQ41, threads: 1, matmul: 'auto' } });
    await using model = await openModel(settings, undefined);
    expect(model.info.matmul).toBe(own.info.matmul);
    expect(inUse(settings, { model, task: { turns: 1 } }).model.matmul).toBe(own.info.matmul);
    expect(resolveSettings({}).model.matmul).toBe('ggml');
  });

  test('models of one file by different kernels are two', async () => {
    const [first, second, third] = [
      await host.load(fileQ41, { ...ONE_THREAD, matmul: 'ggml' }),
      await host.load(fileQ41, { ...ONE_THREAD, matmul: 'auto' }),
      await host.load(fileQ41, { ...ONE_THREAD }),
    ];
    expect(host.usage().models.map(({ references }) => references)).toEqual([2, 1]);
    expect([first, second, third].map(({ info }) => info.matmul)).toEqual(['ggml', own.info.matmul, 'ggml']);
    await Promise.all([first, second, third].map((model) => model.dispose()));
  });
});

describe('ours', () => {
  test('sum in another order than ggml’s and mean the same', async () => {
    const [tokens, continuation] = [prompt(1, 30), prompt(2, 60)];
    const [theirs, ours] = await Promise.all([ggml, own].map(async (model) => [...(await model.score(tokens, [continuation]))[0]!]));
    // Activations of eight bits make hundredths of a nat of a last bit.
    expect(largest(theirs!, ours!)).toBeLessThan(0.1);
    if (isThere()) expect(ours).not.toEqual(theirs);
  });

  test.each([1, 2])('replies, alone and together, are what score says of them, bit for bit: %d threads', async (threads) => {
    const settings = { threads, fixedThreads: true, matmul: 'auto' } as const;
    await using alone = await loadModel(fileQ41, settings);
    const together = await host.load(fileQ41, { ...settings, contextTokens: 4096, maxSequences: 8 });
    // Short enough for attention to have one kernel for all: it changes at 64 rows a call.
    const requests = [1, 3, 9, 14, 2, 5, 7, 4].map((length, seed) => sampled(seed, length));
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
  });
});
