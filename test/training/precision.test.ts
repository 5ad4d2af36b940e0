/**
 * `precision` as a setting: what is recorded, what is refused before anything is loaded, and what a
 * training in bf16 shares with one in f32. Its gradients are tested in test/native.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { precisionProblems, requirePrecision } from '../../src/engine/precision.js';
import { loadAddon } from '../../src/engine/addon.js';
import {
  createTrainer,
  loadModel,
  Random,
  resolveSettings,
  run,
  trainAdapter,
  type TrainSequence,
} from '../../src/index.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { shortestRun, writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-precision-'));
const file = (name: string): string => path.join(folder, name);
const HAS_BF16 = loadAddon().addon.multipliesBf16;
const LACKING = 'bf16 needs AVX512-BF16, which this processor does not have';

beforeAll(() => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

const inputIn = (precision?: 'f32' | 'bf16') => {
  const { optimiser, ...rest } = shortestRun(file('letters.mjs'), file('letters.gguf'));
  return { ...rest, optimiser: { ...optimiser, ...(precision !== undefined && { precision }) } };
};

test('f32 is what is not recorded', () => {
  const plain = resolveSettings(inputIn());
  expect(plain.optimiser).not.toHaveProperty('precision');
  expect(resolveSettings(inputIn('f32'))).toStrictEqual(plain);
  expect(resolveSettings(inputIn('bf16')).optimiser.precision).toBe('bf16');
  expect(() => resolveSettings({ optimiser: { precision: 'fp8' as 'f32' } })).toThrow(
    'optimiser.precision: must be "f32" or "bf16", not "fp8"',
  );
});

test('a processor that does not multiply so is named, with what to do', () => {
  const refused = {
    code: 'INVALID_ARGUMENT',
    remedy: 'Use --precision f32, or leave the setting out.',
  };
  expect(() => requirePrecision('bf16', 'optimiser.precision', false)).toThrow(
    expect.objectContaining({ ...refused, message: `optimiser.precision: ${LACKING}` }),
  );
  requirePrecision('bf16', 'optimiser.precision', true);
  for (const asked of [undefined, 'f32'] as const) requirePrecision(asked, 'precision', false);
  expect(precisionProblems('bf16', false)).toEqual([`precision: ${LACKING}; use f32`]);
  expect(precisionProblems('bf16', true)).toEqual([]);
});

(HAS_BF16 ? describe.skip : describe)('on a processor without bf16', () => {
  const refused = { code: 'INVALID_ARGUMENT', message: expect.stringContaining(LACKING) };
  test('everything that trains is refused before a model is looked for', async () => {
    const path = file('missing.gguf');
    await expect(createTrainer({ path }, { precision: 'bf16' })).rejects.toMatchObject(refused);
    const input = { ...inputIn('bf16'), model: { name: path } };
    await expect(run(input, { out: file('refused') })).rejects.toMatchObject(refused);
    expect(existsSync(file('refused'))).toBe(false);
  });
});

(HAS_BF16 ? describe : describe.skip)('on a processor with bf16', () => {
  const random = new Random(3n);
  const batch: TrainSequence[] = Array.from({ length: 3 }, () => ({
    tokenIds: Int32Array.from({ length: 40 }, () => random.nextInteger(0, 200)),
    labelMask: Uint8Array.from({ length: 40 }, (_, t) => (t > 20 ? 1 : 0)),
  }));
  const trained = async (options: Parameters<typeof createTrainer>[1]) => {
    await using trainer = await createTrainer(
      { path: file('letters.gguf') },
      { threads: 1, seed: 4n, ...options },
    );
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) losses.push((await trainer.step(batch)).loss);
    return { losses, snapshot: Buffer.from(await trainer.snapshot()) };
  };

  test('steps are close to those of f32, and the same with any number of threads', async () => {
    const [plain, f32, bf16, two] = [
      await trained({}),
      await trained({ precision: 'f32' }),
      await trained({ precision: 'bf16' }),
      await trained({ precision: 'bf16', threads: 2 }),
    ];
    expect(f32.snapshot.equals(plain.snapshot)).toBe(true);
    expect(bf16.snapshot.equals(plain.snapshot)).toBe(false);
    expect(two.snapshot.equals(bf16.snapshot)).toBe(true);
    for (const [step, loss] of bf16.losses.entries())
      expect(Math.abs(loss / plain.losses[step]! - 1)).toBeLessThan(0.01);
  });

  test('a run records it, and cannot continue with another one', async () => {
    const out = file('run');
    const { adapter } = await run(inputIn('bf16'), { out });
    expect(readManifest(out).start.settings).toMatchObject({ optimiser: { precision: 'bf16' } });
    for (const other of [undefined, 'f32'] as const)
      await expect(run(inputIn(other), { out })).rejects.toMatchObject({
        code: 'RUN_DIFFERS',
        message: expect.stringContaining('optimiser.precision'),
      });
    expect((await run(inputIn('bf16'), { out })).adapter.sha256).toBe(adapter.sha256);
    expect((await run(inputIn(), { out: file('exact') })).adapter.sha256).not.toBe(adapter.sha256);
  });

  test('a training on examples cannot be resumed with another one', async () => {
    await using model = await loadModel(file('letters.gguf'), { threads: 1 });
    const options = {
      examples: Array.from({ length: 8 }, () => ({ prompt: 'Which letter?', completion: 'b' })),
      out: file('adapter.gguf'),
      ...{ saveEvery: 1, rank: 2, batchSize: 4, threads: 1 },
    };
    await trainAdapter(model, { ...options, precision: 'bf16' });
    await expect(trainAdapter(model, { ...options, resume: true })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('options.precision'),
    });
  });
});
