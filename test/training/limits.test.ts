/**
 * What a trainer and an export promise at their edges: memory that is too little, evaluation
 * without advantages, the cache's type, the file's.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';
import { createTrainer, inspectModel, loadModel, type TrainSequence } from '../../src/index.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-limits-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = path.join(folder, 'limits.gguf');
writeSyntheticModel(file, { architecture: 'llama', type: 'F32', seed: 3n });
/** Those of different numbers begin differently. */
const sequence = (length: number, number = 0): TrainSequence => ({
  tokenIds: Int32Array.from({ length }, (_, i) => 3 + (i === 0 ? number : i % 50)),
  labelMask: new Uint8Array(length).fill(1, 1),
});

test('memoryBytes that a micro-batch cannot meet: the error says what would, and that does', async () => {
  const batch = Array.from({ length: 200 }, (_, i) => sequence(500, i));
  const request = { microBatches: [200] };
  await using small = await createTrainer({ path: file }, { memoryBytes: 0 });
  const failure = (await small.step(batch, request).catch((error: unknown) => error)) as {
    code: string;
    message: string;
  };
  expect(failure.code).toBe('INVALID_ARGUMENT');
  const [, bytes, tokens] = /it takes (\d+), or a micro-batch of at most (\d+) tokens/.exec(
    failure.message,
  )!;
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 10);
  await using enough = await createTrainer({ path: file }, { memoryBytes: Number(bytes) });
  await expect(enough.step(batch, { ...request, signal: controller.signal })).rejects.toMatchObject(
    { code: 'ABORTED' },
  );
  await using less = await createTrainer({ path: file }, { memoryBytes: Number(bytes) - 1 });
  await expect(less.step(batch, request)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  expect(Number(tokens)).toBeGreaterThan(50_000);
  expect(Number(tokens)).toBeLessThan(100_000);
});

(process.platform === 'linux' ? test : test.skip)(
  'a disposed trainer gives its memory back',
  () => {
    const child = spawnSync(
      process.execPath,
      [fileURLToPath(new URL('disposed-trainers.mjs', import.meta.url)), file],
      { encoding: 'utf8' },
    );
    expect(child.stderr).toBe('');
    const { held, left } = JSON.parse(child.stdout) as { held: number; left: number };
    expect(held).toBeGreaterThan(100e6);
    expect(left).toBeLessThan(held / 3);
  },
);

test('evaluate takes a policy objective without advantages; a step needs them', async () => {
  await using trainer = await createTrainer({ path: file });
  const objective = { kind: 'policy', temperature: 2 } as const;
  const { sequences } = await trainer.evaluate([sequence(20)], { objective });
  const zero = await trainer.evaluate([{ ...sequence(20), advantages: new Float32Array(20) }], {
    objective,
  });
  expect(sequences[0]!.logprobs).toEqual(zero.sequences[0]!.logprobs);
  await expect(trainer.step([sequence(20)], { objective })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});

test('a KV cache of f32 is accepted, and takes twice the memory of f16', async () => {
  await using model = await loadModel(file, { kvType: 'f32' });
  await using half = await loadModel(file, { kvType: 'f16' });
  expect([model.info.kvType, model.info.kvBytesPerToken]).toEqual([
    'f32',
    2 * half.info.kvBytesPerToken,
  ]);
  const [scores] = await model.score([1], [[2, 3, 4]]);
  expect(Array.from(scores!, Number.isFinite)).toEqual([true, true, true]);
});

test('general.file_type of an export is the type that it mostly has', async () => {
  await using trainer = await createTrainer({ path: file });
  const id = async (type: 'f16' | 'q8_0' | 'q4_k'): Promise<string | undefined> => {
    const written = path.join(folder, `${type}.gguf`);
    await trainer.exportModel(written, { type });
    return (await inspectModel(written)).metadata['general.file_type'];
  };
  // Rows of 64 and 128 values are no whole blocks of q4_K (256): those matrices are f16.
  expect([await id('f16'), await id('q8_0'), await id('q4_k')]).toEqual(['1', '7', '1']);
});
