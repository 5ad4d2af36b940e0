/**
 * llama.cpp and the trainer map the same file: what of it counts as resident, and that giving pages
 * back changes no bit.
 */
import { expect, test } from '@jest/globals';
import { readFileSync, statSync } from 'node:fs';
import { createTrainer, loadModel, Random, type TrainSequence } from '../../src/index.js';
import { collectSorted, syntheticModel } from './fixtures.js';

const linux = process.platform === 'linux';
if (!linux) console.warn('skipping the test of resident memory, which reads /proc/self/smaps');

/** Pages that the mappings hold in part, of up to 16 KB. */
const A_FEW_PAGES = 65_536;

/** Resident bytes of a file's mappings in this process. */
function mapped(file: string): number {
  let [inside, bytes] = [false, 0];
  for (const line of readFileSync('/proc/self/smaps', 'utf8').split('\n')) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) inside = line.endsWith(file);
    const resident = /^Rss:\s+(\d+) kB/.exec(line);
    if (inside && resident !== null) bytes += Number(resident[1]) * 1024;
  }
  return bytes;
}

const anonymous = (): number =>
  Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1024;

(linux ? test : test.skip)(
  'pages of the model file are held while they are used, by one of the two, and come back the same',
  async () => {
    // Q4_0 is repacked on every processor that CI has; the embedding, which is not, is small beside
    // the matrices.
    const file = syntheticModel({
      architecture: 'qwen2',
      type: 'Q4_0',
      embedding: 256,
      feedForward: 2048,
      heads: 4,
      keyValueHeads: 2,
      layers: 2,
    });
    const { size } = statSync(file);
    await using model = await loadModel(file, { threads: 1, fixedThreads: true });
    const random = new Random(5n);
    const tokens = (length: number): Int32Array =>
      Int32Array.from({ length }, () => random.nextInteger(0, 255));
    const prompts = [{ tokenIds: tokens(20) }];
    const request = {
      prompts,
      samples: 3,
      sampling: { temperature: 0.8, seed: 3n },
      maxTokens: 8,
      ignoreEndOfSequence: true,
    };

    const sampled = await collectSorted(model, request);
    expect(mapped(file)).toBeLessThan(0.3 * size); // of the repacked matrices nothing
    await model.releaseContext();
    expect(mapped(file)).toBeLessThan(A_FEW_PAGES);

    const trainer = (): ReturnType<typeof createTrainer> =>
      createTrainer(model, { lora: { rank: 4, layers: [1] }, threads: 1, seed: 7n });
    await using one = await trainer();
    expect(mapped(file)).toBeLessThan(A_FEW_PAGES);
    const batch: TrainSequence[] = [
      {
        tokenIds: tokens(24),
        labelMask: Uint8Array.from({ length: 24 }, (_, t) => (t > 8 ? 1 : 0)),
      },
    ];
    const first = await one.step(batch);
    const second = await one.step(batch);
    expect(mapped(file)).toBeLessThan(A_FEW_PAGES);

    const again = await collectSorted(model, request);
    expect(again).toEqual(sampled);
    await using two = await trainer();
    expect([await two.step(batch), await two.step(batch)]).toEqual([first, second]);
  },
);

(linux ? test : test.skip)(
  'a trainer gives its buffers back, and the next step is the one that it would have made',
  async () => {
    const file = syntheticModel({
      architecture: 'llama',
      type: 'F32',
      embedding: 256,
      feedForward: 2048,
      heads: 4,
      keyValueHeads: 4,
      layers: 2,
    });
    await using model = await loadModel(file, { threads: 1 });
    const random = new Random(9n);
    const tokenIds = Int32Array.from({ length: 500 }, () => random.nextInteger(0, 255));
    const batch: TrainSequence[] = [
      { tokenIds, labelMask: Uint8Array.from(tokenIds, (_, t) => (t > 400 ? 1 : 0)) },
    ];
    const trainer = (): ReturnType<typeof createTrainer> =>
      createTrainer(model, { lora: { rank: 4 }, threads: 1, seed: 7n });
    await using keeping = await trainer();
    const expected = [await keeping.step(batch), await keeping.step(batch)];
    await keeping.dispose();

    await using releasing = await trainer();
    const first = await releasing.step(batch);
    const before = anonymous();
    await releasing.releaseBuffers();
    // gate and up of both layers alone
    expect(before - anonymous()).toBeGreaterThan(500 * 2048 * 4 * 4);
    expect([first, await releasing.step(batch)]).toEqual(expected);
  },
);

(linux ? test : test.skip)(
  'the cache of a request is as large as what lives at once, however many prompts it has',
  async () => {
    const shape = { embedding: 256, feedForward: 64, heads: 4, keyValueHeads: 4, layers: 8 };
    await using model = await loadModel(
      syntheticModel({ architecture: 'llama', type: 'F32', ...shape }),
      { threads: 1 },
    );
    const prompts = Array.from({ length: 200 }, (_, i) => ({
      tokenIds: Int32Array.from({ length: 100 }, (_, t) => (7 * i + t) % 256),
    }));
    await collectSorted(model, { prompts: prompts.slice(0, 2), maxTokens: 1, maxSequences: 4 });
    const before = anonymous();
    const rollouts = await collectSorted(model, { prompts, maxTokens: 1, maxSequences: 4 });
    expect(rollouts.length).toBe(200);
    // All prompts and replies would take 165 MB, 8,192 tokens take 67 MB.
    expect(200 * 101 * model.info.kvBytesPerToken).toBeGreaterThan(160e6);
    expect(anonymous() - before).toBeLessThan(110e6);
  },
);
