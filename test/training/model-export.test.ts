/**
 * Models written by the trainer, held against llama.cpp and against the encoder of test/models,
 * which shares no code.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  createTrainer,
  inspectModel,
  loadModel,
  Random,
  type ModelType,
  type Trainer,
  type TrainSequence,
} from '../../src/index.js';
import { uint32 } from '../../src/embedded/gguf.js';
import { fromHalf } from '../models/quantise.js';
import {
  ARCHITECTURES,
  encodeModel,
  synthesizeModel,
  writeSyntheticModel,
  type SyntheticModelOptions,
  type TensorType,
} from '../models/synthetic.js';
import { TRAITS } from '../../src/embedded/architecture.js';

const STORIES = path.resolve('../shared/models/stories260K/stories260K-f32-ctx512.gguf');
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-model-export-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// Looked up once: each access to a global is slow in jest's context.
const { abs, max } = Math;

const file = (name: string): string => path.join(folder, name);
const sha256 = (at: string): string => createHash('sha256').update(readFileSync(at)).digest('hex');

function sequences(
  count: number,
  length: number,
  vocabulary: number,
  seed: bigint,
): TrainSequence[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => ({
    tokenIds: Int32Array.from({ length }, () => random.nextInteger(0, vocabulary - 1)),
    labelMask: Uint8Array.from({ length }, (_, t) => (t === 0 ? 0 : 1)),
  }));
}

/** Of those with experts, an adapter alone is trained. */
const WHOLE = ARCHITECTURES.filter((architecture) => !TRAITS[architecture].experts);

const allWeights = (at: string): Promise<Trainer> =>
  createTrainer({ path: at }, { allWeights: true, threads: 1, optimiser: { learningRate: 0.003 } });

async function code(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'nothing',
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );
}

/**
 * What test/models writes for the same weights in another type, with the metadata of the F32 file:
 * header, then tensors.
 */
function expectedParts(
  options: SyntheticModelOptions,
  type: TensorType,
  fileType: number,
): Uint8Array[] {
  const { tensors } = synthesizeModel({ ...options, type });
  const metadata = synthesizeModel(options).metadata.map((entry) =>
    entry.key === 'general.file_type' ? { ...entry, value: uint32(fileType) } : entry,
  );
  if (type === 'Q8_0') metadata.push({ key: 'general.quantization_version', value: uint32(2) });
  return [...encodeModel({ metadata, tensors })];
}

/**
 * Blocks of a tensor in Q8_0 that do not hold, for each value, the nearest multiple of a scale that
 * is the largest magnitude / 127 rounded to a half.
 */
function wrongBlocks(encoded: Buffer, weights: Float32Array): number {
  let wrong = 0;
  for (let block = 0; block * 32 < weights.length; block++) {
    const scale = fromHalf(encoded.readUInt16LE(block * 34));
    const values = weights.subarray(block * 32, block * 32 + 32);
    let largest = 0,
      error = 0;
    for (let i = 0; i < 32; i++) {
      largest = max(largest, abs(values[i]!));
      error = max(error, abs(encoded.readInt8(block * 34 + 2 + i) * scale - values[i]!));
    }
    // The integers are of the exact scale, which is then rounded.
    const rounding = largest * 2 ** -11;
    if (abs(scale * 127 - largest) > rounding || error > scale / 2 + rounding) wrong += 1;
  }
  return wrong;
}

describe('what was not trained', () => {
  test.each(WHOLE)(
    '%s: the same file in F32, the rounded one in F16 and Q8_0',
    async (architecture) => {
      const options = { architecture } as const;
      const at = file(`${architecture}.gguf`);
      writeSyntheticModel(at, options);
      await using trainer = await allWeights(at);
      const out = file('out.gguf');
      for (const [type, stored, fileType] of [
        ['f32', 'F32', 0],
        ['f16', 'F16', 1],
      ] as const) {
        const written = await trainer.exportModel(out, { type });
        const bytes = readFileSync(out);
        expect(bytes.equals(Buffer.concat(expectedParts(options, stored, fileType)))).toBe(true);
        expect(written).toMatchObject({ bytes: bytes.length, sha256: sha256(out) });
        if (type === 'f32') expect(bytes.equals(readFileSync(at))).toBe(true);
      }

      await trainer.exportModel(out, { type: 'q8_0' });
      const bytes = readFileSync(out);
      const [header] = expectedParts(options, 'Q8_0', 7);
      expect(bytes.subarray(0, header!.length).equals(header!)).toBe(true);
      const { tensors } = synthesizeModel(options);
      const encoded = synthesizeModel({ ...options, type: 'Q8_0' }).tensors;
      for (const [i, { info, data }] of encoded.entries()) {
        const from = bytes.subarray(
          header!.length + info.offset,
          header!.length + info.offset + data.length,
        );
        if (info.dimensions.length === 1) expect(from.equals(data)).toBe(true);
        else expect(wrongBlocks(from, new Float32Array(tensors[i]!.data.slice().buffer))).toBe(0);
      }
    },
  );

  (existsSync(STORIES) ? test : test.skip)(
    'stories260K keeps metadata, vocabulary and every value',
    async () => {
      await using trainer = await allWeights(STORIES);
      await trainer.exportModel(file('stories.gguf'), { type: 'f32' });
      const [before, after] = [
        await inspectModel(STORIES),
        await inspectModel(file('stories.gguf')),
      ];
      expect({ ...after.metadata, 'general.file_type': '' }).toEqual({
        ...before.metadata,
        'general.file_type': '',
      });
      expect(after.tensors).toEqual(before.tensors);
      const [a, b] = [readFileSync(STORIES), readFileSync(file('stories.gguf'))];
      const data = before.tensors.reduce(
        (total, { bytes }) => total + Math.ceil(bytes / 32) * 32,
        0,
      );
      expect(a.subarray(a.length - data).equals(b.subarray(b.length - data))).toBe(true);
    },
  );
  if (!existsSync(STORIES)) console.warn('skipped: ../shared/models/stories260K is not there');
});

describe('what was trained', () => {
  test.each(WHOLE)(
    '%s: llama.cpp and another trainer compute what this trainer computes',
    async (architecture) => {
      const at = file('base.gguf');
      const shape = writeSyntheticModel(at, { architecture });
      await using trainer = await allWeights(at);
      const batch = sequences(3, 32, shape.vocabularySize, 1n);
      const untrained = (await trainer.evaluate(batch)).loss;
      for (let i = 0; i < 5; i++) await trainer.step(batch);
      const ours = await trainer.evaluate(batch);
      expect(ours.loss).toBeLessThan(untrained - 0.5);

      // Loss after rounding the weights: F16 keeps 11 bits, Q8_0 about 7.
      for (const [type, bound] of [
        ['f32', 0],
        ['bf16', 0.1],
        ['f16', 0.01],
        ['q8_0', 0.1],
      ] as const) {
        const out = file(`trained-${type}.gguf`);
        await trainer.exportModel(out, { type });
        await using again = await createTrainer({ path: out }, { lora: { rank: 1 }, threads: 1 });
        const theirs = await again.evaluate(batch);
        if (type === 'f32') expect(theirs).toEqual(ours);
        else expect(Math.abs(theirs.loss - ours.loss)).toBeLessThan(bound);
      }
      await using model = await loadModel(file('trained-f32.gguf'), { threads: 1 });
      for (const [i, { tokenIds }] of batch.entries()) {
        const [scores] = await model.score(tokenIds.slice(0, 1), [tokenIds.slice(1)]);
        // llama.cpp keeps keys and values in f16 here; test/native/parity_test.cpp compares
        // exactly.
        for (const [t, score] of [...scores!].entries())
          expect(Math.abs(score - ours.sequences[i]!.logprobs[t + 1]!)).toBeLessThan(0.03);
      }
    },
  );

  test('an adapter is merged', async () => {
    const at = file('adapted.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'qwen2', type: 'Q8_0' });
    await using trainer = await createTrainer(
      { path: at },
      { lora: { rank: 4 }, threads: 1, optimiser: { learningRate: 0.01 } },
    );
    const batch = sequences(3, 32, shape.vocabularySize, 2n);
    for (let i = 0; i < 5; i++) await trainer.step(batch);
    const ours = await trainer.evaluate(batch);
    await trainer.exportModel(file('merged.gguf'), { type: 'f32' });
    await using merged = await createTrainer(
      { path: file('merged.gguf') },
      { lora: { rank: 1 }, threads: 1 },
    );
    const theirs = await merged.evaluate(batch);
    for (const [i, { logprobs }] of theirs.sequences.entries()) {
      for (const [t, value] of logprobs.entries())
        expect(Math.abs(value - ours.sequences[i]!.logprobs[t]!)).toBeLessThan(2e-4);
    }
  });

  test('the file holds the moment of the call, whatever is trained meanwhile', async () => {
    const at = file('moment.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama' });
    await using trainer = await allWeights(at);
    const batch = sequences(2, 16, shape.vocabularySize, 3n);
    await trainer.step(batch);
    const { sha256: expected } = await trainer.exportModel(file('a.gguf'), { type: 'f32' });
    const [written] = await Promise.all([
      trainer.exportModel(file('b.gguf'), { type: 'f32' }),
      trainer.step(batch),
      trainer.step(batch),
    ]);
    expect(written.sha256).toBe(expected);
    expect((await trainer.exportModel(file('b.gguf'), { type: 'f32' })).sha256).not.toBe(expected);
  });
});

describe('types', () => {
  test.each<[ModelType, string]>([
    ['q4_0', 'q4_0'],
    ['q5_0', 'q5_0'],
    ['q4_k', 'q4_K'],
    ['q5_k', 'q5_K'],
    ['q6_k', 'q6_K'],
  ])('%s is readable by llama.cpp and near the original', async (type, name) => {
    const at = file('wide.gguf');
    const shape = writeSyntheticModel(at, {
      architecture: 'llama',
      embedding: 256,
      feedForward: 256,
    });
    await using trainer = await allWeights(at);
    const { types } = await trainer.exportModel(file('small.gguf'), { type });
    expect(types).toEqual({ f32: 5, [name]: 16 });
    expect(await inspectModel(file('small.gguf'))).toMatchObject({ problem: null });
    await using model = await loadModel(file('small.gguf'), { threads: 1 });
    await using base = await loadModel(at, { threads: 1 });
    const tokens = sequences(1, 24, shape.vocabularySize, 4n)[0]!.tokenIds;
    const [[ours], [theirs]] = [
      await model.score(tokens.slice(0, 1), [tokens.slice(1)]),
      await base.score(tokens.slice(0, 1), [tokens.slice(1)]),
    ];
    const mean =
      ours!.reduce((total, value, i) => total + Math.abs(value - theirs![i]!), 0) / ours!.length;
    expect(mean).toBeGreaterThan(0);
    // Random weights with peaked attention amplify rounding; without a shared scale or with swapped
    // blocks it is above 3.
    expect(mean).toBeLessThan(1);
  });

  test('rows that are not whole blocks become F16', async () => {
    writeSyntheticModel(file('odd.gguf'), {
      architecture: 'qwen2',
      embedding: 48,
      feedForward: 96,
    });
    await using trainer = await allWeights(file('odd.gguf'));
    await trainer.exportModel(file('odd-q8.gguf'), { type: 'q8_0' });
    const { tensors, problem } = await inspectModel(file('odd-q8.gguf'));
    expect(problem).toBeNull();
    for (const { name, type, dimensions } of tensors)
      expect([name, type]).toEqual([
        name,
        dimensions.length === 1 ? 'f32' : dimensions[0] === 96 ? 'q8_0' : 'f16',
      ]);
    await using model = await loadModel(file('odd-q8.gguf'), { threads: 1 });
    expect((await model.score(Int32Array.of(1), [Int32Array.of(2, 3)]))[0]).toHaveLength(2);
  });
});

describe('refusals leave the older file', () => {
  test('a cancelled or impossible export', async () => {
    const at = file('refused.gguf');
    const { metadata, tensors } = synthesizeModel({ architecture: 'llama' });
    // 1e6 fits F32 and not F16; in the last tensor, so that most of the file has been written by
    // then.
    const last = tensors.at(-1)!;
    new DataView(last.data.buffer, last.data.byteOffset).setFloat32(0, 1e6, true);
    writeFileSync(at, Buffer.concat([...encodeModel({ metadata, tensors })]));
    await using trainer = await allWeights(at);
    const place = path.join(folder, 'place');
    const out = path.join(place, 'out.gguf');
    expect(await code(trainer.exportModel(out))).toBe('WRITE_FAILED');
    mkdirSync(place);
    writeFileSync(out, 'older');
    expect(await code(trainer.exportModel(out, { type: 'f16' }))).toBe('NUMERIC_FAILURE');
    expect(await code(trainer.exportModel(out, { type: 'q8_0' }))).toBe('NUMERIC_FAILURE');
    expect(await code(trainer.exportModel(out, { type: 'int8' as ModelType }))).toBe(
      'INVALID_ARGUMENT',
    );
    const controller = new AbortController();
    expect(
      await code(
        trainer.exportModel(out, {
          type: 'f32',
          signal: controller.signal,
          onProgress: () => controller.abort(),
        }),
      ),
    ).toBe('ABORTED');
    expect(readFileSync(out, 'utf8')).toBe('older');
    expect(readdirSync(place)).toEqual(['out.gguf']);
    const seen: [number, number][] = [];
    const { bytes } = await trainer.exportModel(out, {
      type: 'f32',
      onProgress: (written, total) => seen.push([written, total]),
    });
    expect(seen.at(-1)).toEqual([bytes, bytes]);
    expect(readdirSync(place)).toEqual(['out.gguf']);
  });
});
