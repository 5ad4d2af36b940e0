/**
 * What a file or a caller can hand the trainer: each ends in a typed error or an update that is not
 * applied, and the state stays.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTrainer, type Trainer, type TrainSequence } from '../../src/index.js';
import { text } from '../../src/embedded/gguf.js';
import {
  encodeModel,
  synthesizeModel,
  writeSyntheticModel,
  type SyntheticModel,
} from '../models/synthetic.js';

let folder: string;
let trainer: Trainer;
const file = (name: string): string => path.join(folder, name);
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-bad-input-'));
  writeSyntheticModel(file('good.gguf'), { architecture: 'qwen3', contextLength: 32 });
  trainer = await createTrainer({ path: file('good.gguf') }, { threads: 1 });
});
afterAll(async () => {
  await trainer.dispose();
  rmSync(folder, { recursive: true, force: true });
});

async function code(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'nothing',
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );
}

const good: TrainSequence = {
  tokenIds: Int32Array.of(3, 1, 4, 1),
  labelMask: Uint8Array.of(0, 1, 1, 1),
};
const policy = { kind: 'policy', temperature: 1 } as const;

describe('batches', () => {
  test.each<[string, TrainSequence[], string]>([
    ['no sequence', [], 'INVALID_ARGUMENT'],
    ['a label mask of 2', [{ ...good, labelMask: Uint8Array.of(0, 1, 2, 1) }], 'INVALID_ARGUMENT'],
    [
      'a label on the first token',
      [{ ...good, labelMask: Uint8Array.of(1, 1, 1, 1) }],
      'INVALID_ARGUMENT',
    ],
    ['nothing labelled', [{ ...good, labelMask: new Uint8Array(4) }], 'INVALID_ARGUMENT'],
    ['a negative token', [{ ...good, tokenIds: Int32Array.of(3, -1, 4, 1) }], 'INVALID_ARGUMENT'],
    [
      'a token beyond the vocabulary',
      [good, { ...good, tokenIds: Int32Array.of(3, 1, 4, 2 ** 30) }],
      'INVALID_ARGUMENT',
    ],
    [
      'more tokens than the context',
      [good, { tokenIds: new Int32Array(33), labelMask: new Uint8Array(33).fill(1, 1) }],
      'CONTEXT_OVERFLOW',
    ],
    ['a weight of NaN', [{ ...good, weight: NaN }], 'INVALID_ARGUMENT'],
    [
      'advantages of another length',
      [{ ...good, advantages: new Float32Array(3) }],
      'INVALID_ARGUMENT',
    ],
    [
      'an advantage of NaN',
      [{ ...good, advantages: new Float32Array(4).fill(NaN) }],
      'INVALID_ARGUMENT',
    ],
    [
      'old log-probabilities of infinity',
      [
        {
          ...good,
          advantages: new Float32Array(4),
          oldLogprobs: new Float32Array(4).fill(-Infinity),
        },
      ],
      'INVALID_ARGUMENT',
    ],
  ])('%s', async (_, batch, expected) => {
    const before = await trainer.snapshot();
    const objective = batch.some(({ advantages }) => advantages !== undefined)
      ? policy
      : { kind: 'likelihood' as const };
    expect(await code(trainer.step(batch, { objective }))).toBe(expected);
    expect(await code(trainer.evaluate(batch, { objective }))).toBe(expected);
    expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);
    expect(trainer.info.steps).toBe(0);
  });
});

describe('model files', () => {
  const changed = (
    name: string,
    change: (model: SyntheticModel) => Pick<SyntheticModel, 'metadata' | 'tensors'>,
  ): string => {
    writeFileSync(
      file(name),
      Buffer.concat([...encodeModel(change(synthesizeModel({ architecture: 'qwen3' })))]),
    );
    return file(name);
  };
  /** One value of a tensor, NaN. */
  const poisoned = (tensor: string): string =>
    changed('poisoned.gguf', ({ metadata, tensors }) => {
      const { data } = tensors.find(({ info }) => info.name === tensor)!;
      new DataView(data.buffer, data.byteOffset).setFloat32(data.length - 4, NaN, true);
      return { metadata, tensors };
    });

  test.each([
    'blk.0.attn_norm.weight',
    'blk.1.attn_k_norm.weight',
    'output_norm.weight',
    'blk.1.attn_k.weight',
    'blk.0.ffn_down.weight',
  ])('NaN in %s', async (tensor) => {
    expect(await code(createTrainer({ path: poisoned(tensor) }, { threads: 1 }))).toBe(
      'NUMERIC_FAILURE',
    );
  });

  test.each(['token_embd.weight', 'output.weight'])(
    'NaN in %s: refused where it is trained, never applied where it is frozen',
    async (tensor) => {
      const at = poisoned(tensor);
      expect(await code(createTrainer({ path: at }, { allWeights: true, threads: 1 }))).toBe(
        'NUMERIC_FAILURE',
      );
      const last = synthesizeModel({ architecture: 'qwen3' }).shape.vocabularySize - 1;
      await using frozen = await createTrainer({ path: at }, { threads: 1 });
      const before = await frozen.snapshot();
      const stats = await frozen.step([
        { tokenIds: Int32Array.of(3, last, 4, last), labelMask: Uint8Array.of(0, 1, 1, 1) },
      ]);
      expect(stats.applied).toBe(false);
      expect(stats.nonFinite).toContain('loss');
      expect(Buffer.from(await frozen.snapshot()).equals(before)).toBe(true);
    },
  );

  test('another architecture, a tensor of integers, a missing tensor', async () => {
    const mamba = changed('mamba.gguf', ({ metadata, tensors }) => ({
      metadata: metadata.map((entry) =>
        entry.key === 'general.architecture' ? { ...entry, value: text('mamba') } : entry,
      ),
      tensors,
    }));
    expect(await code(createTrainer({ path: mamba }))).toBe('ARCH_UNSUPPORTED');
    // 26: ggml's I32, as wide as F32.
    const integers = changed('integers.gguf', ({ metadata, tensors }) => ({
      metadata,
      tensors: tensors.map(({ info, data }) => ({
        info: info.name === 'blk.0.ffn_up.weight' ? { ...info, typeId: 26 } : info,
        data,
      })),
    }));
    expect(await code(createTrainer({ path: integers }))).toBe('MODEL_UNSUPPORTED');
    const missing = changed('missing.gguf', ({ metadata, tensors }) => ({
      metadata,
      tensors: tensors.slice(0, -1),
    }));
    expect(await code(createTrainer({ path: missing }))).toBe('MODEL_CORRUPT');
  });
});
