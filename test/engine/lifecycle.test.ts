/**
 * Cancelling, disposing, memory, the event loop, adapters: how a model behaves inside a
 * longer-lived process.
 */
import { execFile } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { meanSize, residentSizes } from '../models/resident-sizes.js';
import { ARCHITECTURES, writeSyntheticModel } from '../models/synthetic.js';
import { collect, collectSorted, folder, full, syntheticModel } from './fixtures.js';

const file = syntheticModel({ architecture: 'llama', type: 'Q8_0', seed: 21n });
const long = (model: Model) => ({
  prompts: [{ tokenIds: model.tokenize('a long story') }],
  samples: 8,
  maxTokens: 400,
  ignoreEndOfSequence: true,
  sampling: { seed: 1n },
});

describe('cancelling', () => {
  test('delivers the unfinished rollouts as aborted, then throws ABORTED, and the model goes on working', async () => {
    await using model = await loadModel(file, { threads: 1 });
    const controller = new AbortController();
    const seen: string[] = [];
    const run = async (): Promise<void> => {
      for await (const rollout of model.generate({
        ...long(model),
        signal: controller.signal,
        onProgress: () => controller.abort(),
      })) {
        seen.push(rollout.finish);
        expect(rollout.tokenIds.length).toBe(rollout.logprobs.length);
      }
    };
    await expect(run()).rejects.toMatchObject({ code: 'ABORTED' });
    expect(seen).toEqual(new Array(8).fill('aborted'));
    expect(await collect(model, { ...long(model), maxTokens: 5 })).toHaveLength(8);
  });

  test('a signal that is already aborted ends everything at once', async () => {
    await using model = await loadModel(file, { threads: 1 });
    const signal = AbortSignal.abort();
    await expect(loadModel(file, { signal })).rejects.toMatchObject({ code: 'ABORTED' });
    await expect(collect(model, { ...long(model), signal })).rejects.toMatchObject({
      code: 'ABORTED',
    });
    await expect(model.score([1], [[2]], { signal })).rejects.toMatchObject({ code: 'ABORTED' });
    await expect(
      model.hidden({ tokens: [1], layers: [0], reduce: 'rows', signal }),
    ).rejects.toMatchObject({ code: 'ABORTED' });
  });

  test('leaving the iteration early stops the rest', async () => {
    await using model = await loadModel(file, { threads: 1 });
    // The first prompt's one answer ends at once; the second's forty would take 400 tokens each.
    const prompts = [
      { tokenIds: [1], seeds: [1n] },
      { tokenIds: [2], seeds: Array.from({ length: 40 }, (_, i) => BigInt(i)) },
    ];
    let sampled = 0;
    for await (const _ of model.generate({
      ...long(model),
      prompts,
      stop: ['e'],
      onProgress: ({ sampledTokens }) => (sampled = sampledTokens),
    }))
      break;
    expect(sampled).toBeLessThan(41 * 400);
    expect(await collect(model, { ...long(model), maxTokens: 2 })).toHaveLength(8);
  });

  test('an exception in onProgress ends the loading or the generation and arrives at the caller', async () => {
    await using model = await loadModel(file, { threads: 1 });
    const onProgress = (): void => {
      throw new RangeError('mine');
    };
    await expect(loadModel(file, { onProgress })).rejects.toThrow('mine');
    await expect(collect(model, { ...long(model), onProgress })).rejects.toThrow('mine');
  });
});

describe('disposing', () => {
  test('twice is harmless; everything afterwards is OBJECT_DISPOSED', async () => {
    const model = await loadModel(file, { threads: 1 });
    const request = long(model);
    await model.dispose();
    await model.dispose();
    const disposed = { code: 'OBJECT_DISPOSED' };
    await expect(collect(model, request)).rejects.toMatchObject(disposed);
    await expect(model.score([1], [[2]])).rejects.toMatchObject(disposed);
    await expect(model.hidden({ tokens: [1], layers: [0], reduce: 'norms' })).rejects.toMatchObject(
      disposed,
    );
    await expect(model.loadAdapter(file)).rejects.toMatchObject(disposed);
    await expect(model.setAdapter(null)).rejects.toMatchObject(disposed);
    expect(() => model.tokenize('x')).toThrow(expect.objectContaining(disposed));
    expect(() => model.renderChat([{ role: 'user', content: 'x' }])).toThrow(
      expect.objectContaining(disposed),
    );
  });

  test('while generating cancels the generation', async () => {
    const model = await loadModel(file, { threads: 1 });
    const running = collect(model, { ...long(model), onProgress: () => void model.dispose() });
    await expect(running).rejects.toMatchObject({ code: 'ABORTED' });
  });

  const cycles = full ? 200 : 80;
  test(`${cycles} cycles of load, generate, dispose leave resident memory flat after the tenth`, async () => {
    const sizes = await residentSizes(
      '',
      `const model = await isopro.loadModel(${JSON.stringify(file)}, { threads: 2 });
      for await (const _ of model.generate({ prompts: [{ tokenIds: [1, 2, 3] }], samples: 4, maxTokens: 4 })) {}
      await model.dispose();`,
      cycles,
    );
    // The file alone has 0.3 MB, its KV cache 1 MB: a leak of either would add 15 MB or more over
    // 50 cycles, 50 MB over 170.
    expect(meanSize(sizes, cycles - 20, cycles) - meanSize(sizes, 10, 30)).toBeLessThan(3e6);
  });

  const index = JSON.stringify(new URL('../../dist/src/index.js', import.meta.url).href);
  test.each([
    [
      'a generation',
      `const model = await loadModel(${JSON.stringify(file)}, { threads: 1 });
       const request = { prompts: [{ tokenIds: [1] }], samples: 50, maxTokens: 400, ignoreEndOfSequence: true };
       for await (const _ of model.generate({ ...request, onProgress: () => process.exit(7) })) {}`,
    ],
    [
      'a training step',
      `const trainer = await createTrainer({ path: ${JSON.stringify(file)} }, { threads: 2 });
       const sequence = { tokenIds: new Int32Array(400).fill(3), labelMask: new Uint8Array(400).fill(1, 1), weight: 1 };
       setTimeout(() => process.exit(7), 50);
       for (;;) await trainer.step([sequence]);`,
    ],
  ])('a process that exits in the middle of %s ends cleanly', async (_what, body) => {
    const script = `const { createTrainer, loadModel } = await import(${index}); ${body}`;
    const exit = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
      timeout: 30_000,
    });
    await expect(exit).rejects.toMatchObject({ code: 7, signal: null });
  });
});

test('the event loop stays free while generating: p99 lag at most 10 ms', async () => {
  await using model = await loadModel(file, { threads: 2 });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const generation = collect(model, { ...long(model), samples: full ? 60 : 20 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  delay.reset();
  await generation;
  delay.disable();
  // The histogram counts the timer's own interval of 1 ms as delay.
  expect(delay.percentile(99) / 1e6).toBeLessThan(11);
});

describe('adapters', () => {
  const base = path.join(folder, 'adapter-base.gguf');
  const shape = writeSyntheticModel(base, { architecture: 'llama', type: 'Q8_0', seed: 31n });
  const one = path.join(folder, 'one.gguf');
  const two = path.join(folder, 'two.gguf');
  writeSyntheticAdapter(one, shape, { seed: 1n });
  writeSyntheticAdapter(two, shape, { seed: 2n });

  const answer = async (model: Model, extra: object = {}): Promise<string> => {
    const [rollout] = await collectSorted(model, {
      prompts: [{ tokenIds: [5, 6, 7] }],
      maxTokens: 24,
      sampling: { temperature: 0 },
      ignoreEndOfSequence: true,
      ...extra,
    });
    return `${rollout!.adapterId?.slice(0, 8)} ${rollout!.tokenIds.join()}`;
  };

  test('change the answers, swap without a reload, and leave the base as it was', async () => {
    await using model = await loadModel(base, { threads: 1 });
    const bare = await answer(model);
    const first = await model.loadAdapter(one);
    const second = await model.loadAdapter(two);
    await model.setAdapter(first);
    const withFirst = await answer(model);
    await model.setAdapter(second);
    const withSecond = await answer(model);
    expect(new Set([bare, withFirst, withSecond].map((text) => text.split(' ')[1])).size).toBe(3);
    expect(await answer(model, { adapter: first })).toBe(withFirst);
    expect(await answer(model, { adapter: null })).toBe(bare);
    expect(await answer(model)).toBe(withSecond);
    second.dispose();
    expect(await answer(model)).toBe(withSecond);
    await model.setAdapter(null);
    expect(await answer(model)).toBe(bare);
    await expect(model.setAdapter(second)).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
    await expect(answer(model, { adapter: second })).rejects.toMatchObject({
      name: 'IsoproError',
      code: 'OBJECT_DISPOSED',
    });
    second.dispose();
  });

  test('scale 0 is the base; score sees the adapter', async () => {
    await using model = await loadModel(base, { threads: 1 });
    const adapter = await model.loadAdapter(one);
    const bare = await model.score([5, 6, 7], [[8, 9]]);
    await model.setAdapter(adapter, 0);
    expect(await model.score([5, 6, 7], [[8, 9]])).toEqual(bare);
    await model.setAdapter(adapter, 1);
    expect(await model.score([5, 6, 7], [[8, 9]])).not.toEqual(bare);
  });

  test('of another model, missing, or no adapter at all: typed errors', async () => {
    const other = path.join(folder, 'other-base.gguf');
    writeSyntheticModel(other, {
      architecture: 'llama',
      type: 'Q8_0',
      seed: 31n,
      embedding: shape.embedding * 2,
      heads: shape.heads * 2,
    });
    await using model = await loadModel(base, { threads: 1 });
    await using stranger = await loadModel(other, { threads: 1 });
    await expect(stranger.loadAdapter(one)).rejects.toMatchObject({ code: 'ADAPTER_MISMATCH' });
    await expect(model.loadAdapter(path.join(folder, 'absent.gguf'))).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
    });
    await expect(model.loadAdapter(base)).rejects.toMatchObject({ code: 'ADAPTER_MISMATCH' });
    const adapter = await model.loadAdapter(one);
    const twin = path.join(folder, 'twin-base.gguf');
    copyFileSync(base, twin);
    await using sibling = await loadModel(twin, { threads: 1 });
    await expect(sibling.setAdapter(adapter)).rejects.toMatchObject({ code: 'ADAPTER_MISMATCH' });
  });
});

describe('hidden states', () => {
  const fromHalf = (half: number): number => {
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const magnitude =
      exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
    return half & 0x8000 ? -magnitude : magnitude;
  };

  test.each(ARCHITECTURES)(
    '%s: rows and norms agree, and generate captures the same rows',
    async (architecture) => {
      await using model = await loadModel(syntheticModel({ architecture, type: 'F32', seed: 8n }), {
        threads: 1,
      });
      const layers = Array.from({ length: model.info.layers + 1 }, (_, i) => i);
      const [rollout] = await collectSorted(model, {
        prompts: [{ tokenIds: model.tokenize('some tokens to look at') }],
        maxTokens: 90,
        sampling: { seed: 4n },
        ignoreEndOfSequence: true,
        captureBoundary: 1,
      });
      const tokens = Int32Array.from([...rollout!.promptIds, ...rollout!.tokenIds.slice(0, -1)]);
      const rows = await model.hidden({ tokens, layers, reduce: 'rows' });
      const norms = await model.hidden({ tokens, layers: layers.slice(0, -1), reduce: 'norms' });
      const width = model.info.embeddingSize;
      for (const { layer, rows: values } of rows)
        expect([layer, values.length]).toEqual([layer, tokens.length * width]);

      const real = rows.map(({ rows: values }) => Float64Array.from(values, fromHalf));
      norms.forEach((norm, layer) => {
        const means = [0, 0, 0];
        for (let token = 0; token < tokens.length; token++) {
          const sums = [0, 0, 0];
          for (let i = token * width; i < (token + 1) * width; i++) {
            const before = real[layer]![i]!;
            const after = real[layer + 1]![i]!;
            sums[0]! += after ** 2;
            sums[1]! += before ** 2;
            sums[2]! += (after - before) ** 2;
          }
          sums.forEach((sum, i) => {
            means[i]! += Math.sqrt(sum) / tokens.length;
          });
        }
        expect(norm.out / means[0]!).toBeCloseTo(1, 2);
        expect(norm.in / means[1]!).toBeCloseTo(1, 2);
        expect(norm.update / means[2]!).toBeCloseTo(1, 2);
      });

      const { boundary } = rollout!;
      expect(boundary!.layer).toBe(1);
      expect(boundary!.modelHash).toBe(await model.hash());
      const captured = Float64Array.from(boundary!.rows, fromHalf);
      expect(captured.length).toBe(real[1]!.length);
      const difference = Math.sqrt(
        captured.reduce((sum, value, i) => sum + (value - real[1]![i]!) ** 2, 0) /
          real[1]!.reduce((sum, value) => sum + value ** 2, 0),
      );
      expect(difference).toBeLessThan(5e-3);
    },
  );
});
