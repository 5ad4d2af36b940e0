/**
 * The trainer as a user drives it. Gradients and kernels are tested in test/native against
 * references in double.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { covered } from '../models/covered.js';
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import {
  createTrainer,
  loadModel,
  Random,
  type LoraSettings,
  type Model,
  type Trainer,
  type TrainSequence,
} from '../../src/index.js';
import {
  ARCHITECTURES,
  type Architecture,
  encodeModel,
  synthesizeModel,
  writeSyntheticModel,
} from '../models/synthetic.js';

const STORIES = path.resolve('../shared/models/stories260K/stories260K-f32-ctx512.gguf');
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-trainer-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = (name: string): string => path.join(folder, name);

/** Random tokens, all labelled but the first `prompt`. */
function sequences(
  count: number,
  length: number,
  vocabulary: number,
  seed: bigint,
  prompt = 1,
): TrainSequence[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => ({
    tokenIds: Int32Array.from({ length }, () => random.nextInteger(0, vocabulary - 1)),
    labelMask: Uint8Array.from({ length }, (_, t) => (t >= prompt ? 1 : 0)),
  }));
}

/** llama.cpp's log-probability of each token after the first. */
async function llamaLogprobs(model: Model, { tokenIds }: TrainSequence): Promise<number[]> {
  const [scores] = await model.score(tokenIds.slice(0, 1), [tokenIds.slice(1)]);
  return [0, ...scores!];
}

/** Of the given share of the values, those that agree best. */
function largestGap(a: ArrayLike<number>, b: ArrayLike<number>, share = 1): number {
  expect(a.length).toBe(b.length);
  const gaps = Array.from(a, (value, i) => Math.abs(value - b[i]!)).sort((x, y) => x - y);
  return gaps[Math.ceil(share * gaps.length) - 1]!;
}

async function code(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'nothing',
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );
}

describe('against llama.cpp', () => {
  // the bounds are the table of docs/training.md with a margin of a half for other processors
  test.each([
    ['F32', 0.003, 0.017],
    ['F16', 0.003, 0.017],
    ['Q8_0', 0.06, 0.25],
    ['Q4_0', 0.08, 0.41],
    ['Q4_K', 0.1, 0.36],
    ['Q6_K', 0.1, 0.36],
  ] as const)(
    '%s: log-probabilities as users get them, with f16 keys and values and flash attention',
    async (type, mean, largest) => {
      const sequence = {
        tokenIds: Int32Array.from({ length: 64 }, (_, i) => 3 + ((i * 37) % 200)),
        labelMask: Uint8Array.from({ length: 64 }, (_, i) => (i > 0 ? 1 : 0)),
      };
      for (const architecture of process.env.ISOPRO_FULL === '1'
        ? ARCHITECTURES
        : ARCHITECTURES.slice(0, 1)) {
        const at = file(`${architecture}-${type}.gguf`);
        writeSyntheticModel(at, { architecture, type });
        await using model = await loadModel(at);
        await using trainer = await createTrainer(model, { lora: { rank: 2 } });
        const [ours, theirs] = [
          (await trainer.evaluate([sequence])).sequences[0]!.logprobs,
          await llamaLogprobs(model, sequence),
        ];
        const gaps = Array.from(ours, (value, i) => Math.abs(value - theirs[i]!)).slice(1);
        expect(Math.max(...gaps)).toBeLessThan(1.5 * largest);
        expect(gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length).toBeLessThan(1.5 * mean);
      }
    },
  );

  test('targets that are one matrix, or experts, are refused by name', async () => {
    const targets = (architecture: Architecture, lora: LoraSettings): Promise<string[]> => {
      const at = file(`${architecture}.gguf`);
      writeSyntheticModel(at, { architecture });
      return createTrainer({ path: at }, { lora, threads: 1 }).then(async (trainer) => {
        await using used = trainer;
        return used.info.targets
          .filter(({ module }) => module.startsWith('blk.0.'))
          .map(({ module }) => module.slice('blk.0.'.length));
      });
    };
    const refused = (message: string) => ({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    });
    expect(await targets('phi3', {})).toEqual(['attn_output', 'ffn_up', 'ffn_down', 'attn_qkv']);
    expect(await targets('phi3', { targets: ['k', 'q', 'v'] })).toEqual(['attn_qkv']);
    await expect(targets('phi3', { targets: ['q', 'o'] })).rejects.toMatchObject(
      refused('q, k, v in one matrix: name k and v too'),
    );
    await expect(targets('phi3', { targets: ['up'] })).rejects.toMatchObject(
      refused('gate, up in one matrix: name gate too'),
    );
    await expect(targets('phi3', { rank: { q: 2 } })).rejects.toMatchObject(
      refused('give them one rank'),
    );
    expect(await targets('gpt-oss', {})).toEqual(['attn_q', 'attn_k', 'attn_v', 'attn_output']);
    await expect(targets('qwen3moe', { targets: ['q', 'down'] })).rejects.toMatchObject(
      refused('experts, which are not adapted'),
    );
  });

  test.each(ARCHITECTURES)(
    '%s: log-probabilities with and without adapter, right after a step',
    async (architecture) => {
      const at = file(`${architecture}.gguf`);
      const shape = writeSyntheticModel(at, { architecture });
      await using model = await loadModel(at);
      await using trainer = await createTrainer(model, {
        lora: { rank: { q: 4, k: 4, v: 4, down: 3 } },
        optimiser: { learningRate: 0.02 },
      });
      const batch = sequences(3, 40, shape.vocabularySize, 1n);
      const before = await trainer.evaluate(batch);
      // llama.cpp keeps keys and values in f16 here; the exact comparison is
      // test/native/parity_test.cpp. With experts a twentieth of the tokens may be further off:
      // where two experts are nearly equal, what is rounded chooses between them.
      const share = architecture === 'gpt-oss' || architecture === 'qwen3moe' ? 0.95 : 1;
      for (const [i, sequence] of batch.entries())
        expect(
          largestGap(before.sequences[i]!.logprobs, await llamaLogprobs(model, sequence), share),
        ).toBeLessThan(0.03);
      for (let i = 0; i < 3; i++) await trainer.step(batch);
      // The best of five, and the required 50 ms in the full form only: other jobs on the machine
      // may hold any one up.
      const swaps: number[] = [];
      for (let i = 0; i < 5; i++) {
        const started = performance.now();
        await trainer.applyTo(model);
        swaps.push(performance.now() - started);
      }
      expect(Math.min(...swaps)).toBeLessThan(process.env.ISOPRO_FULL === '1' ? 50 : 1000);
      const after = await trainer.evaluate(batch);
      for (const [i, sequence] of batch.entries())
        expect(
          largestGap(after.sequences[i]!.logprobs, await llamaLogprobs(model, sequence), share),
        ).toBeLessThan(0.03);
      expect(after.loss).toBeLessThan(before.loss - 0.1);
      expect((await trainer.evaluate(batch, { adapter: false })).loss).toBe(before.loss);
      covered(architecture, 'train');
    },
  );

  test('boundaries captured while generating train like those computed by the trainer', async () => {
    const at = file('boundary.gguf');
    writeSyntheticModel(at, { architecture: 'qwen2', layers: 4 });
    await using model = await loadModel(at);
    const lora = { layers: { top: 2 }, rank: 4 } as const;
    await using trainer = await createTrainer(model, { lora });
    const traces: TrainSequence[] = [];
    const prompt = Int32Array.from([5, 9, 2, 31, 7]);
    for await (const rollout of model.generate({
      prompts: [{ tokenIds: prompt }],
      samples: 3,
      maxTokens: 24,
      ignoreEndOfSequence: true,
      captureBoundary: 2,
    })) {
      const tokenIds = Int32Array.from([...prompt, ...rollout.tokenIds]);
      traces.push({
        tokenIds,
        labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= prompt.length ? 1 : 0)),
        boundary: rollout.boundary!,
      });
    }
    expect(traces).toHaveLength(3);
    const plain = traces.map(({ boundary, ...rest }) => rest);
    const own = await trainer.captureBoundary(plain);
    const cached = plain.map((sequence, i) => ({ ...sequence, boundary: own[i]! }));
    const [exact, ours, theirs] = [
      await trainer.differentiate(plain),
      await trainer.differentiate(cached),
      await trainer.differentiate(traces),
    ];
    expect(Math.abs(ours.gradNorm / exact.gradNorm - 1)).toBeLessThan(1e-3);
    expect(Math.abs(theirs.gradNorm / exact.gradNorm - 1)).toBeLessThan(2e-2);
    expect(
      await code(trainer.step([{ ...cached[0]!, boundary: { ...own[0]!, modelHash: 'other' } }])),
    ).toBe('ADAPTER_MISMATCH');
    await trainer.addTarget(1, 'q', { rank: 2, scale: 1 });
    expect(await code(trainer.step(cached))).toBe('ADAPTER_MISMATCH');
  });

  test('an activation that f16 does not hold is refused where a boundary is made, and harms nothing where none is', async () => {
    const at = file('large.gguf');
    const synthetic = synthesizeModel({ architecture: 'qwen2', layers: 4 });
    const { data } = synthetic.tensors.find(({ info }) => info.name === 'token_embd.weight')!;
    const embedding = new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
    for (let i = 0; i < embedding.length; i += synthetic.shape.embedding) embedding[i] = 7e4;
    writeFileSync(at, Buffer.concat([...encodeModel(synthetic)]));
    await using model = await loadModel(at, { threads: 1 });
    const tokens = Int32Array.from([5, 9, 2, 31, 7]);
    const refused = expect.objectContaining({
      code: 'NUMERIC_FAILURE',
      message: expect.stringMatching(
        /at layer boundary \d is \d(\.\d+)?e\+04, more than f16 holds \(65504\)/,
      ) as never,
    }) as never;
    const generate = async (captureBoundary?: number): Promise<number> => {
      let rollouts = 0;
      for await (const { boundary } of model.generate({
        prompts: [{ tokenIds: tokens }],
        maxTokens: 3,
        ignoreEndOfSequence: true,
        ...(captureBoundary === undefined ? {} : { captureBoundary }),
      }))
        rollouts += boundary === undefined ? 0 : 1;
      return rollouts;
    };
    await expect(generate(2)).rejects.toThrow(refused);
    await expect(generate()).resolves.toBe(1);
    await expect(model.hidden({ tokens, layers: [1], reduce: 'rows' })).rejects.toThrow(refused);
    await expect(model.hidden({ tokens, layers: [1], reduce: 'norms' })).resolves.toHaveLength(1);
    await using trainer = await createTrainer(model, { lora: { layers: { top: 2 } }, threads: 1 });
    const sequence = { tokenIds: tokens, labelMask: Uint8Array.of(0, 0, 1, 1, 1) };
    await expect(trainer.captureBoundary([sequence])).rejects.toThrow(refused);
    await expect(trainer.step([sequence])).resolves.toMatchObject({ applied: true });
  });
});

describe('learning', () => {
  const overfit = async (modelPath: string, batch: readonly TrainSequence[]): Promise<number> => {
    await using trainer = await createTrainer(
      { path: modelPath },
      { lora: { rank: 16, alpha: 32 }, optimiser: { learningRate: 0.005 } },
    );
    let loss = Infinity;
    for (let i = 0; i < 300 && loss >= 0.05; i++) loss = (await trainer.step(batch)).loss;
    return loss;
  };

  (existsSync(STORIES) ? test : test.skip)('stories260K overfits 8 sentences', async () => {
    await using model = await loadModel(STORIES);
    // Different from their second token on; what follows BOS cannot be known and is not labelled.
    const sentences = [
      'Once upon a time there was a blue whale who collected broken clocks.',
      'Tom sold seven purple hats to a very tired dragon on Monday.',
      'The moon asked the baker for a loaf of rye and two candles.',
      'Nobody knew why the small robot was afraid of the piano.',
      'Lily put the letter under a stone and ran to the old bridge.',
      'A fox, a bear and a judge met at the station before noon.',
      'Rain fell upward in the village where Sam was born.',
      'Keys were cold, the door was warm, and the cat was gone.',
    ];
    const batch = sentences.map((sentence) => {
      const tokenIds = Int32Array.from([model.info.bos, ...model.tokenize(sentence)]);
      return { tokenIds, labelMask: Uint8Array.from(tokenIds, (_, t) => (t > 1 ? 1 : 0)) };
    });
    expect(await overfit(STORIES, batch)).toBeLessThan(0.05);
  });
  if (!existsSync(STORIES)) console.warn('skipped: ../shared/models/stories260K is not there');

  test('a Q4_K model overfits 8 sequences', async () => {
    const shape = writeSyntheticModel(file('q4k.gguf'), { architecture: 'llama', type: 'Q4_K' });
    // The last ids are control tokens, whose rows of the head are nearly zero: no hidden state
    // makes them likely.
    expect(
      await overfit(file('q4k.gguf'), sequences(8, 24, shape.vocabularySize - 10, 3n, 4)),
    ).toBeLessThan(0.05);
  });

  test('held-out loss after 20 steps is the same with and without the boundary cache', async () => {
    const at = file('cache.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'qwen3', layers: 4 });
    const batch = sequences(8, 24, shape.vocabularySize, 4n);
    const heldOut = sequences(8, 24, shape.vocabularySize, 5n);
    const losses: number[] = [];
    for (const cache of [false, true]) {
      await using trainer = await createTrainer(
        { path: at },
        { lora: { layers: { top: 2 } }, optimiser: { learningRate: 0.003 } },
      );
      const boundaries = cache ? await trainer.captureBoundary(batch) : [];
      const data = batch.map((sequence, i) =>
        cache ? { ...sequence, boundary: boundaries[i]! } : sequence,
      );
      for (let i = 0; i < 20; i++) await trainer.step(data);
      losses.push((await trainer.evaluate(heldOut)).loss);
    }
    expect(Math.abs(losses[0]! - losses[1]!)).toBeLessThan(1e-3);
    expect(losses[0]).not.toBe(losses[1]);
  });

  test('policy gradient raises the probability of what has an advantage', async () => {
    const at = file('policy.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama' });
    await using trainer = await createTrainer({ path: at }, { optimiser: { learningRate: 0.002 } });
    const objective = { kind: 'policy', temperature: 0.8, klCoefficient: 0.05 } as const;
    const batch = sequences(4, 16, shape.vocabularySize, 6n);
    await expect(trainer.step(batch, { objective })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('advantages'),
    });
    // a measurement needs none
    const reference = await trainer.evaluate(batch, {
      objective: { kind: 'policy', temperature: 0.8 },
      adapter: false,
    });
    expect(reference.loss).toBeCloseTo(0, 12);
    const withAdvantages = batch.map((sequence, i) => ({
      ...sequence,
      advantages: new Float32Array(16).fill(i < 2 ? 1 : -1),
    }));
    const base = await trainer.evaluate(withAdvantages, {
      objective: { kind: 'policy', temperature: 0.8 },
    });
    expect(base.sequences.map(({ logprobs }) => logprobs)).toEqual(
      reference.sequences.map(({ logprobs }) => logprobs),
    );
    const data = withAdvantages.map((sequence, i) => ({
      ...sequence,
      oldLogprobs: base.sequences[i]!.logprobs,
      referenceLogprobs: base.sequences[i]!.logprobs,
    }));
    const first = await trainer.step(data, { objective });
    expect(first.oldPolicyGap).toBe(0);
    expect(first.klToReference).toBe(0);
    for (let i = 0; i < 3; i++) await trainer.step(data, { objective });
    const after = await trainer.evaluate(data, { objective });
    const sum = (values: Float32Array): number => values.reduce((a, b) => a + b, 0);
    for (const i of [0, 1])
      expect(sum(after.sequences[i]!.logprobs)).toBeGreaterThan(sum(base.sequences[i]!.logprobs));
    for (const i of [2, 3])
      expect(sum(after.sequences[i]!.logprobs)).toBeLessThan(sum(base.sequences[i]!.logprobs));
    expect((await trainer.step(data, { objective })).clipFraction).toBeGreaterThan(0);
  });

  test('all weights of an F32 model can be trained', async () => {
    const at = file('all.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama' });
    await using trainer = await createTrainer(
      { path: at },
      { allWeights: true, optimiser: { learningRate: 0.003 } },
    );
    const batch = sequences(4, 16, shape.vocabularySize, 7n);
    const before = (await trainer.evaluate(batch)).loss;
    for (let i = 0; i < 20; i++) await trainer.step(batch);
    expect((await trainer.evaluate(batch)).loss).toBeLessThan(before / 2);
    expect(await code(trainer.exportAdapter(file('none.gguf')))).toBe('INVALID_ARGUMENT');
  });
});

describe('state', () => {
  let shape: ReturnType<typeof writeSyntheticModel>;
  let at: string;
  beforeAll(() => {
    at = file('state.gguf');
    shape = writeSyntheticModel(at, { architecture: 'gemma2' });
  });
  const create = (threads?: number): Promise<Trainer> =>
    createTrainer(
      { path: at },
      {
        lora: { rank: 4, dropout: 0.1 },
        optimiser: { learningRate: 0.01 },
        seed: 11n,
        ...(threads === undefined ? {} : { threads }),
      },
    );
  const run = async (trainer: Trainer, from: number, to: number): Promise<void> => {
    for (let i = from; i < to; i++)
      await trainer.step(sequences(3, 12, shape.vocabularySize, BigInt(i)));
  };

  test('saved, loaded into another trainer and continued: the same adapter, with 1, 2 or 4 threads', async () => {
    await using whole = await create(1);
    await run(whole, 0, 4);
    const expected = await whole.exportAdapter(file('whole.gguf'));
    for (const threads of [2, 4]) {
      await using first = await create(threads);
      await run(first, 0, 2);
      const digest = await first.save(file('state.bin'));
      expect(digest).toMatch(/^[0-9a-f]{64}$/);
      await using second = await create(threads);
      await second.load(file('state.bin'));
      expect(second.info.steps).toBe(2);
      await run(second, 2, 4);
      expect(await second.exportAdapter(file('second.gguf'))).toBe(expected);
    }
    expect(readFileSync(file('second.gguf'))).toEqual(readFileSync(file('whole.gguf')));
  });

  test('a changed or cut file is refused and the state stays', async () => {
    await using trainer = await create();
    await run(trainer, 0, 1);
    await trainer.save(file('good.bin'));
    const before = await trainer.snapshot();
    const good = readFileSync(file('good.bin'));
    const bad = Buffer.from(good);
    bad[bad.length - 5]! ^= 1;
    writeFileSync(file('bad.bin'), bad);
    expect(await code(trainer.load(file('bad.bin')))).toBe('ADAPTER_CORRUPT');
    writeFileSync(file('cut.bin'), good);
    truncateSync(file('cut.bin'), 1000);
    expect(await code(trainer.load(file('cut.bin')))).toBe('ADAPTER_CORRUPT');
    expect(await code(trainer.load(at))).toBe('ADAPTER_CORRUPT');
    expect(await code(trainer.load(file('absent.bin')))).toBe('MODEL_NOT_FOUND');
    expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);

    writeSyntheticModel(file('other.gguf'), { architecture: 'gemma2', seed: 2n });
    await using other = await createTrainer({ path: file('other.gguf') });
    expect(await code(other.load(file('good.bin')))).toBe('ADAPTER_MISMATCH');
    expect(await code(trainer.save(path.join(folder, 'no folder', 'x.bin')))).toBe('WRITE_FAILED');
  });

  test('rollback, rank growth and the adapter file', async () => {
    await using trainer = await create();
    await run(trainer, 0, 2);
    const snapshot = await trainer.snapshot();
    const batch = sequences(2, 12, shape.vocabularySize, 50n);
    const loss = (await trainer.evaluate(batch)).loss;
    await trainer.raiseRank('blk.0.attn_q', 6);
    await trainer.rebalance('blk.1.attn_v', 2);
    await trainer.rescale('blk.1.ffn_up', 0.5);
    expect((await trainer.evaluate(batch)).loss).toBeCloseTo(loss, 6);
    expect(trainer.info.targets.find(({ module }) => module === 'blk.0.attn_q')?.rank).toBe(6);
    await trainer.exportAdapter(file('mixed.gguf'));
    await using importer = await create();
    await importer.importAdapter(file('mixed.gguf'));
    expect((await importer.evaluate(batch)).loss).toBeCloseTo(loss, 6);
    await run(trainer, 2, 3);
    await trainer.recycleDirections('blk.0.attn_q', [0, 1]);
    expect(trainer.stats).toBeDefined();
    await trainer.rollbackTo(snapshot);
    expect(trainer.stats).toBeUndefined(); // they are of the state that was left
    expect((await trainer.evaluate(batch)).loss).toBe(loss);
    expect(Buffer.from(await trainer.snapshot()).equals(snapshot)).toBe(true);

    writeSyntheticModel(file('wide.gguf'), { architecture: 'gemma2', embedding: 128 });
    await using wide = await createTrainer({ path: file('wide.gguf') });
    expect(await code(wide.importAdapter(file('mixed.gguf')))).toBe('ADAPTER_MISMATCH');
    expect(await code(wide.importAdapter(at))).toBe('ADAPTER_MISMATCH');
  });
});

describe('behaviour', () => {
  let trainer: Trainer;
  let batch: TrainSequence[];
  beforeAll(async () => {
    const shape = writeSyntheticModel(file('busy.gguf'), {
      architecture: 'llama',
      embedding: 256,
      feedForward: 1024,
      layers: 4,
    });
    trainer = await createTrainer({ path: file('busy.gguf') });
    batch = sequences(4, 120, shape.vocabularySize, 9n);
  });
  afterAll(() => trainer.dispose());

  test('the event loop stays free during a step', async () => {
    await trainer.step(batch);
    // The best of three: on a machine that others use, the system itself holds the timer back.
    const percentiles: number[] = [];
    for (let attempt = 0; attempt < 3; attempt++) {
      const delay = monitorEventLoopDelay({ resolution: 1 });
      delay.enable();
      for (let i = 0; i < 5; i++) await trainer.step(batch);
      delay.disable();
      percentiles.push(delay.percentile(99) / 1e6);
    }
    // The histogram counts the timer's own millisecond.
    expect(Math.min(...percentiles)).toBeLessThan(11);
  });

  test('a step can be cancelled and leaves the state', async () => {
    const before = await trainer.snapshot();
    const controller = new AbortController();
    const step = trainer.step(batch, { signal: controller.signal });
    setImmediate(() => controller.abort());
    expect(await code(step)).toBe('ABORTED');
    expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);
  });

  test('statistics are complete and cannot be changed', async () => {
    const stats = await trainer.step(batch);
    expect(stats).toMatchObject({ applied: true, nonFinite: [], tokens: 4 * 119 });
    expect(trainer.stats).toBe(stats);
    const names = Object.keys(stats.modules);
    expect(names).toHaveLength(28);
    expect(names).toContain('blk.3.ffn_down');
    for (const module of Object.values(stats.modules)) {
      expect(module.pairGradNorm).toBeGreaterThan(0);
      expect(module.updateRatio).toBeGreaterThan(0);
      expect(module.rankUse).toBeGreaterThan(0);
      expect(module.rankUse).toBeLessThanOrEqual(1);
    }
    const whole = Math.sqrt(
      Object.values(stats.modules).reduce(
        (total, { pairGradNorm }) => total + pairGradNorm ** 2,
        0,
      ),
    );
    expect(stats.gradNorm).toBeCloseTo(whole, 9);
    expect(() => ((stats as { loss: number }).loss = 0)).toThrow();
    expect(stats.microBatchTokens).toEqual([476]);
  });

  test.each([
    ['an empty batch', (): TrainSequence[] => [], 'INVALID_ARGUMENT'],
    [
      'a token outside the vocabulary',
      (): TrainSequence[] => [{ ...batch[0]!, tokenIds: batch[0]!.tokenIds.map(() => 1_000_000) }],
      'INVALID_ARGUMENT',
    ],
    [
      'a label mask of another length',
      (): TrainSequence[] => [{ ...batch[0]!, labelMask: new Uint8Array(3) }],
      'INVALID_ARGUMENT',
    ],
    [
      'no label at all',
      (): TrainSequence[] => [{ ...batch[0]!, labelMask: new Uint8Array(120) }],
      'INVALID_ARGUMENT',
    ],
    [
      'a sequence beyond the context',
      (): TrainSequence[] => sequences(1, 600, 10, 1n),
      'CONTEXT_OVERFLOW',
    ],
    [
      'an array of another type',
      (): TrainSequence[] => [{ ...batch[0]!, tokenIds: [1, 2] as unknown as Int32Array }],
      'INVALID_ARGUMENT',
    ],
  ])('refuses %s', async (_, make, expected) => {
    expect(await code(trainer.step(make()))).toBe(expected);
  });

  test('refuses models and options that it cannot train', async () => {
    expect(await code(createTrainer({ path: file('nothing.gguf') }))).toBe('MODEL_NOT_FOUND');
    writeFileSync(file('text.gguf'), 'not a model');
    expect(await code(createTrainer({ path: file('text.gguf') }))).toBe('MODEL_CORRUPT');
    expect(await code(createTrainer({ path: file('busy.gguf') }, { lora: { rank: 0 } }))).toBe(
      'INVALID_ARGUMENT',
    );
    expect(await code(createTrainer({ path: file('busy.gguf') }, { lora: { layers: [4] } }))).toBe(
      'INVALID_ARGUMENT',
    );
    expect(await code(createTrainer({ path: file('busy.gguf') }, { lora: { rank: 1000 } }))).toBe(
      'INVALID_ARGUMENT',
    );
    writeSyntheticModel(file('q8.gguf'), { architecture: 'llama', type: 'Q8_0' });
    expect(await code(createTrainer({ path: file('q8.gguf') }, { allWeights: true }))).toBe(
      'MODEL_UNSUPPORTED',
    );
  });

  test('a disposed trainer says so', async () => {
    const gone = await createTrainer({ path: file('busy.gguf') });
    await gone.dispose();
    await gone.dispose();
    expect(await code(gone.step(batch))).toBe('OBJECT_DISPOSED');
  });
});
