/**
 * What a caller does with its arrays after a call has begun is its own business: nothing that was
 * freed or changed is read.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from '@jest/globals';
import { createTrainer } from '../../src/index.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-disturbed-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = path.join(folder, 'model.gguf');
writeSyntheticModel(file, { architecture: 'llama', type: 'Q8_0', seed: 21n });
const rounds = process.env.ISOPRO_FULL === '1' ? 1000 : 10;

test(`arrays transferred, shrunk, shared, refilled during the calls, ${rounds} times: answers are those of a quiet caller`, async () => {
  const script = path.resolve('test/training/disturbed-arrays.mjs');
  expect(
    await promisify(execFile)(process.execPath, ['--expose-gc', script, String(rounds), file]),
  ).toEqual({ stdout: '0\n', stderr: '' });
}, 900_000);

test('arrays that were taken away before the call are refused by name', async () => {
  await using trainer = await createTrainer(
    { path: file },
    { threads: 1, lora: { layers: { top: 1 } } },
  );
  const sequence = { tokenIds: Int32Array.of(3, 1, 4, 1), labelMask: Uint8Array.of(0, 1, 1, 1) };
  const boundary = (await trainer.captureBoundary([sequence]))[0]!;
  const labelMask = Uint8Array.from(sequence.labelMask);
  for (const { buffer } of [boundary.rows, labelMask])
    structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
  const batches = [
    { batch: [{ ...sequence, boundary }], name: 'batch.0.boundary.rows' },
    { batch: [sequence, { ...sequence, labelMask }], name: 'batch.1.labelMask' },
  ];
  for (const { batch, name } of batches) {
    const message = expect.stringContaining(`${name}: its buffer was transferred`);
    for (const call of [
      () => trainer.step(batch),
      () => trainer.evaluate(batch),
      () => trainer.captureBoundary(batch),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message });
    }
  }
  await expect(trainer.rollbackTo('a snapshot' as never)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});
