/** One host, several users: what is loaded once, who holds it, when it goes, and who is let in. */
import { copyFileSync, linkSync, utimesSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { loadModel, ModelHost } from '../../src/index.js';
import { meanSize, residentSizes } from '../models/resident-sizes.js';
import { adapterFile, file, folder, greedy, ONE_THREAD, shape } from './fixtures.js';

const handles = (host: ModelHost): number[] =>
  host.usage().models.map(({ references }) => references);

describe('a model', () => {
  test('is loaded once for all who ask, by whatever name, and freed after the last of them', async () => {
    await using host = new ModelHost();
    const hard = path.join(folder, 'hard.gguf');
    linkSync(file, hard);
    let loads = 0;
    const onProgress = (fraction: number): void => void (loads += fraction === 1 ? 1 : 0);
    const models = await Promise.all(
      [file, path.relative('.', file), hard, file].map((name) =>
        host.load(name, { ...ONE_THREAD, onProgress }),
      ),
    );
    expect(handles(host)).toEqual([4]);
    expect(loads).toBe(1);
    const { usedBytes } = host.usage();
    expect(usedBytes).toBeGreaterThan(models[0]!.info.bytes);

    for (const model of models.slice(1)) await model.dispose();
    await models[1]!.dispose();
    expect(handles(host)).toEqual([1]);
    expect((await models[0]!.generate(greedy([5, 6]))).tokenIds).toHaveLength(24);
    await models[0]!.dispose();
    expect(host.usage()).toMatchObject({ usedBytes: 0, waiting: 0, models: [] });
    await expect(models[0]!.generate(greedy([5]))).rejects.toMatchObject({
      code: 'OBJECT_DISPOSED',
    });
  });

  test('with other settings, or written again, is another one', async () => {
    await using host = new ModelHost();
    const own = path.join(folder, 'own.gguf');
    copyFileSync(file, own);
    await host.load(own, ONE_THREAD);
    await host.load(own, { ...ONE_THREAD, contextTokens: 512 });
    utimesSync(own, 1, 1);
    await host.load(own, ONE_THREAD);
    expect(handles(host)).toEqual([1, 1, 1]);
  });

  test('that cannot be loaded fails for all who wait for it, takes no memory, and can be asked for again', async () => {
    await using host = new ModelHost();
    const broken = adapterFile('no-model', 3n);
    const loads = await Promise.allSettled([host.load(broken), host.load(broken)]);
    expect(loads.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    for (const load of loads)
      expect((load as PromiseRejectedResult).reason).toMatchObject({ name: 'IsoproError' });
    await expect(host.load(path.join(folder, 'absent.gguf'))).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
    });
    expect(host.usage()).toMatchObject({ usedBytes: 0, models: [] });
  });

  test('one who gives up loading does not take it from the others; when all give up it is let go', async () => {
    await using host = new ModelHost();
    const controller = new AbortController();
    const [left, kept] = [
      host.load(file, { ...ONE_THREAD, signal: controller.signal }),
      host.load(file, ONE_THREAD),
    ];
    controller.abort();
    await expect(left).rejects.toMatchObject({ code: 'ABORTED' });
    expect((await (await kept).generate(greedy([5]))).finish).toBe('length');
    await (await kept).dispose();

    const other = new AbortController();
    const alone = host.load(file, { ...ONE_THREAD, signal: other.signal });
    other.abort();
    await expect(alone).rejects.toMatchObject({ code: 'ABORTED' });
    await expect(host.load(file, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'ABORTED',
    });
    const again = await host.load(file, ONE_THREAD);
    await again.dispose();
    expect(host.usage()).toMatchObject({ usedBytes: 0, models: [] });
  });
});

describe('admission by memory', () => {
  const contextTokens = 512;
  const other = path.join(folder, 'other.gguf');
  copyFileSync(file, other);
  async function bytesOf(): Promise<number> {
    await using host = new ModelHost();
    await host.load(file, { ...ONE_THREAD, contextTokens });
    return host.usage().usedBytes;
  }

  test('counts weights and cache, refuses what has no room with the figures, and takes it when there is', async () => {
    const bytes = await bytesOf();
    await using model = await loadModel(file, ONE_THREAD);
    expect(bytes).toBeGreaterThanOrEqual(
      model.info.bytes + contextTokens * model.info.kvBytesPerToken,
    );
    expect(bytes).toBeLessThan(
      1.1 * (model.info.bytes + contextTokens * model.info.kvBytesPerToken),
    );

    await using host = new ModelHost({ memoryBytes: Math.floor(1.5 * bytes) });
    const first = await host.load(file, { ...ONE_THREAD, contextTokens });
    const refusal = { code: 'OUT_OF_MEMORY', remedy: expect.stringContaining('memoryBytes') };
    await expect(host.load(other, { ...ONE_THREAD, contextTokens })).rejects.toMatchObject(refusal);
    await first.dispose();
    await host.load(other, { ...ONE_THREAD, contextTokens });
    await using small = new ModelHost({ memoryBytes: bytes - 1 });
    await expect(
      small.load(file, { ...ONE_THREAD, contextTokens, whenFull: 'wait' }),
    ).rejects.toMatchObject(refusal);
  });

  test('lets who waits in when memory comes back', async () => {
    const bytes = await bytesOf();
    await using host = new ModelHost({ memoryBytes: Math.floor(1.5 * bytes) });
    const first = await host.load(file, { ...ONE_THREAD, contextTokens });
    let entered = false;
    const second = host
      .load(other, { ...ONE_THREAD, contextTokens, whenFull: 'wait' })
      .then((model) => {
        entered = true;
        return model;
      });
    while (host.usage().waiting === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await first.generate(greedy([5]))).finish).toBe('length');
    expect(entered).toBe(false);
    await first.dispose();
    expect((await (await second).generate(greedy([5]))).finish).toBe('length');
    expect(host.usage().usedBytes).toBe(bytes);
  });

  test('a host that is disposed of sends those who wait away', async () => {
    const bytes = await bytesOf();
    const host = new ModelHost({ memoryBytes: bytes });
    const model = await host.load(file, { ...ONE_THREAD, contextTokens });
    const waiting = host.load(other, { ...ONE_THREAD, contextTokens, whenFull: 'wait' });
    const ended = [waiting, model.generate(greedy([5], 400))].map((promise) =>
      promise.catch((error: unknown) => error),
    );
    while (host.usage().waiting === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await host.dispose();
    expect(await Promise.all(ended)).toMatchObject([
      { code: 'OBJECT_DISPOSED' },
      { code: 'OBJECT_DISPOSED' },
    ]);
    await host.dispose();
    expect(host.usage()).toMatchObject({ usedBytes: 0, waiting: 0, models: [] });
    await expect(host.load(file)).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
  });
});

describe('adapters', () => {
  test('are shared and counted like models, and go back one by one', async () => {
    await using host = new ModelHost();
    const one = adapterFile('one', 1n);
    const [mine, yours] = [await host.load(file, ONE_THREAD), await host.load(file, ONE_THREAD)];
    const before = host.usage().usedBytes;
    const [a, b] = [await mine.loadAdapter(one), await yours.loadAdapter(one)];
    expect(host.usage().models[0]!.adapters).toEqual([
      { path: one, id: a.id, bytes: expect.any(Number), references: 2 },
    ]);
    expect(b.id).toBe(a.id);
    expect((await mine.generate({ ...greedy([5, 6]), adapter: b })).adapterId).toBe(a.id);

    await a.dispose();
    await expect(mine.generate({ ...greedy([5, 6]), adapter: a })).rejects.toMatchObject({
      code: 'OBJECT_DISPOSED',
    });
    expect((await mine.generate({ ...greedy([5, 6]), adapter: b })).adapterId).toBe(b.id);
    await yours.dispose();
    expect(host.usage().models[0]!.adapters).toEqual([]);
    expect(host.usage().usedBytes).toBe(before);
  });

  test('under which logits are not finite are refused where they are probed, and leave nothing behind', async () => {
    const overflowing = adapterFile('overflowing', 4n, { magnitude: 1e30 });
    await using host = new ModelHost();
    const model = await host.load(file, ONE_THREAD);
    await expect(model.loadAdapter(overflowing, { probe: true })).rejects.toMatchObject({
      code: 'NUMERIC_FAILURE',
    });
    expect(host.usage().models[0]!.adapters).toEqual([]);
    await expect(
      model.loadAdapter(adapterFile('sound', 4n), { probe: true }),
    ).resolves.toMatchObject({ id: expect.any(String) });
  });

  test('of another model, missing, none at all, or from elsewhere: typed errors', async () => {
    await using host = new ModelHost();
    const [model, other] = [
      await host.load(file, ONE_THREAD),
      await host.load(file, { ...ONE_THREAD, contextTokens: 600 }),
    ];
    const adapter = await model.loadAdapter(adapterFile('two', 2n));
    await expect(other.generate({ ...greedy([5]), adapter })).rejects.toMatchObject({
      code: 'ADAPTER_MISMATCH',
    });
    await expect(model.loadAdapter(path.join(folder, 'absent'))).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
      message: `the adapter: there is no file ${path.join(folder, 'absent')}`,
      remedy: expect.stringContaining('in its folder adapters/'),
    });
    await expect(model.loadAdapter(file)).rejects.toMatchObject({
      code: 'ADAPTER_MISMATCH',
      message: expect.stringContaining('a whole model'),
    });
    await expect(
      model.generate({ ...greedy([5]), adapter: { id: 'x' } as never }),
    ).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(host.usage().models.map(({ adapters }) => adapters.length)).toEqual([1, 0]);
  });

  test('are counted with their numbers as f32, which rows of several adapters are computed with', async () => {
    await using host = new ModelHost();
    const model = await host.load(file, ONE_THREAD);
    for (const [type, bytesOfNumber] of Object.entries({ F32: 4, F16: 2, Q8_0: 34 / 32 })) {
      const options = { type: type as 'F32', rank: 32, targets: ['attn_q', 'ffn_down'] };
      const adapter = await model.loadAdapter(adapterFile(type, 9n, options));
      const { layers, embedding, feedForward, heads, headDimension } = shape;
      const numbers = 32 * layers * (embedding + heads * headDimension + feedForward + embedding);
      const bytes = numbers * (bytesOfNumber + 4);
      expect(host.usage().models[0]!.adapters).toEqual([
        { path: adapter.path, id: adapter.id, bytes, references: 1 },
      ]);
      await adapter.dispose();
    }
  });

  test('a host too small for one refuses it', async () => {
    const adapter = adapterFile('three', 3n);
    await using probe = new ModelHost();
    await probe.load(file, ONE_THREAD);
    await using host = new ModelHost({ memoryBytes: probe.usage().usedBytes + 10 });
    const model = await host.load(file, ONE_THREAD);
    await expect(model.loadAdapter(adapter)).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' });
    expect(host.usage().usedBytes).toBe(probe.usage().usedBytes);
  });
});

test('bad options are INVALID_ARGUMENT by name', async () => {
  expect(() => new ModelHost({ memoryBytes: -1 })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  );
  await using host = new ModelHost();
  const bad = (field: string) => ({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(field),
  });
  await expect(host.load(file, { maxSequences: 0 })).rejects.toMatchObject(bad('maxSequences'));
  await expect(host.load(file, { prefixTokens: 1.5 })).rejects.toMatchObject(bad('prefixTokens'));
  await expect(host.load(file, { whenFull: 'later' as never })).rejects.toMatchObject(
    bad('whenFull'),
  );
  await expect(host.load(file, { other: 1 } as never)).rejects.toMatchObject(bad('other'));
  await expect(host.load(7 as never)).rejects.toMatchObject(bad('pathOrAlias'));
});

test('200 rounds of load, ask, dispose leave resident memory flat after the fortieth', async () => {
  const sizes = await residentSizes(
    'const host = new isopro.ModelHost();',
    `const model = await host.load(${JSON.stringify(file)}, { threads: 1, prefixTokens: 200 });
      const adapter = await model.loadAdapter(${JSON.stringify(adapterFile('four', 4n))});
      const ask = (j) => model.generate({ tokenIds: [1, 2, 3 + j], maxTokens: 6, adapter: j % 2 ? adapter : null });
      await Promise.all(Array.from({ length: 8 }, (_, j) => ask(j)));
      await model.dispose();`,
    200,
  );
  // The cache alone has 4 MB and more: a leak would add 480 MB. Until the fortieth the allocator's
  // arena grows to its size.
  expect(meanSize(sizes, 160, 200) - meanSize(sizes, 40, 80)).toBeLessThan(3e6);
});
