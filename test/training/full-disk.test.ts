/**
 * A disk that is full while something is written: a typed error, the older file, and nothing left
 * behind.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTrainer, mergeAdapter, type Trainer } from '../../src/index.js';
import { MAIN } from '../cli/run-cli.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-full-disk-'));
const disk = path.join(folder, 'disk');
mkdirSync(disk);
const mounted =
  process.platform === 'linux' &&
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]).status === 0;
if (!mounted)
  console.warn('skipped: a file system of 2 MB cannot be mounted here (that needs root on Linux)');
const model = path.join(folder, 'model.gguf');
const adapter = path.join(folder, 'adapter.gguf');

let trainer: Trainer;
beforeAll(async () => {
  const shape = writeSyntheticModel(model, { architecture: 'llama' });
  writeSyntheticAdapter(adapter, shape);
  trainer = await createTrainer({ path: model }, { lora: { rank: 4 }, threads: 1 });
});
afterAll(async () => {
  await trainer.dispose();
  if (mounted) spawnSync('umount', [disk]);
  rmSync(folder, { recursive: true, force: true });
});

(mounted ? describe : describe.skip)('on a file system that is full', () => {
  const tokenIds = Int32Array.of(1, 5, 9, 3);
  test.each<[string, (out: string) => Promise<unknown>, string]>([
    ['the state', (out) => trainer.save(out), ''],
    ['the adapter as GGUF', (out) => trainer.exportAdapter(out), ''],
    [
      'the adapter as PEFT',
      (out) => trainer.exportPeft(path.dirname(out)),
      'adapter_model.safetensors',
    ],
    ['the model', (out) => trainer.exportModel(out, { type: 'f32' }), ''],
    ['a merged model', (out) => mergeAdapter({ model, adapter, out, type: 'f16' }), ''],
  ])('%s', async (_, write, name) => {
    const place = path.join(disk, 'place');
    mkdirSync(place);
    const out = path.join(place, name === '' ? 'file' : name);
    writeFileSync(out, 'older');
    // Everything but a few kilobytes: the first bytes still fit, the rest does not.
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(path.join(disk, 'filler'), Buffer.alloc(bavail * bsize - 12_288));
    const before = await trainer.snapshot();
    await expect(write(out)).rejects.toMatchObject({
      code: 'WRITE_FAILED',
      cause: { code: 'ENOSPC' },
    });
    expect(readFileSync(out, 'utf8')).toBe('older');
    expect(readdirSync(place)).toEqual([path.basename(out)]);
    expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);
    expect(await trainer.step([{ tokenIds, labelMask: Uint8Array.of(0, 1, 1, 1) }])).toMatchObject({
      applied: true,
    });
    rmSync(path.join(disk, 'filler'));
    await write(out);
    expect(readFileSync(out, 'utf8')).not.toBe('older');
    expect(readdirSync(place).filter((entry) => entry.endsWith('.partial'))).toEqual([]);
    rmSync(place, { recursive: true });
  });
});

(process.platform === 'win32' ? test.skip : test)(
  'the command line under a limit on the size of files',
  () => {
    const out = path.join(folder, 'limited.gguf');
    writeFileSync(out, 'older');
    const { status, stderr } = spawnSync(
      'bash',
      [
        '-c',
        'ulimit -f 64; exec "$@"',
        'bash',
        process.execPath,
        MAIN,
        'adapters',
        'merge',
        '--model',
        model,
        '--adapter',
        adapter,
        '--out',
        out,
      ],
      { encoding: 'utf8' },
    );
    expect(stderr).toContain('WRITE_FAILED');
    expect(status).toBe(1);
    expect(readFileSync(out, 'utf8')).toBe('older');
    expect(readdirSync(folder).filter((entry) => entry.endsWith('.partial'))).toEqual([]);
  },
);
