import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTrainer, type AdapterInspection } from '../../src/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { runCli } from './run-cli.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
const hash = (name: string): string =>
  createHash('sha256')
    .update(readFileSync(file(name)))
    .digest('hex');

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-adapters-cli-'));
  const shape = writeSyntheticModel(file('model.gguf'), { architecture: 'llama' });
  writeSyntheticModel(file('wide.gguf'), { architecture: 'llama', embedding: 128 });
  writeSyntheticAdapter(file('adapter.gguf'), shape, { rank: 4, targets: ['attn_q', 'ffn_up'] });
  await using trainer = await createTrainer({ path: file('model.gguf') }, { lora: { rank: 2, layers: { top: 1 } }, threads: 1 });
  await trainer.exportAdapter(file('fresh.gguf'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('inspect: a table, every module, JSON', async () => {
  const table = await runCli(['adapters', 'inspect', file('adapter.gguf')]);
  expect([table.code, table.stderr]).toEqual([0, '']);
  expect(table.stdout).toMatch(/^model +llama$/m);
  expect(table.stdout).toMatch(/^base +not said$/m);
  expect(table.stdout).toMatch(/^attn_q +0-1 +4 +8 +64 x 64 +[\d.]+$/m);
  expect((await runCli(['adapters', 'inspect', file('adapter.gguf'), '--modules'])).stdout).toMatch(
    /^blk\.1\.ffn_up +4 +8 +128 x 64( +[\d.]+){3}$/m,
  );
  const { stdout } = await runCli(['adapters', 'inspect', file('adapter.gguf'), '--json']);
  const inspection = JSON.parse(stdout) as AdapterInspection;
  expect(inspection).toMatchObject({ format: 'gguf', sha256: hash('adapter.gguf'), layers: [0, 1], parameters: 2 * 4 * (128 + 192) });
});

test('inspect: an untrained adapter changes nothing and names its base', async () => {
  const { stdout } = await runCli(['adapters', 'inspect', file('fresh.gguf')]);
  expect(stdout).toContain('changes nothing');
  expect(stdout).toContain(`sha256 ${hash('model.gguf')}`);
});

test('export to PEFT and back, and merge', async () => {
  const peft = await runCli([
    'adapters',
    'export',
    file('adapter.gguf'),
    '--model',
    file('model.gguf'),
    '--out',
    file('peft'),
    '--base-model',
    'some/model',
    '--json',
  ]);
  expect(JSON.parse(peft.stdout)).toMatchObject({ format: 'peft', sha256: hash('peft/adapter_model.safetensors') });
  const back = await runCli([
    'adapters',
    'export',
    file('peft'),
    '--model',
    file('model.gguf'),
    '--format',
    'gguf',
    '--out',
    file('back.gguf'),
  ]);
  expect(back.stdout).toContain(hash('back.gguf'));
  const sums: string[] = [];
  for (const adapter of ['adapter.gguf', 'peft', 'back.gguf']) {
    const merged = await runCli([
      'adapters',
      'merge',
      '--model',
      file('model.gguf'),
      '--adapter',
      file(adapter),
      '--out',
      file('merged.gguf'),
      '--type',
      'q8_0',
      '--json',
    ]);
    expect(merged.code).toBe(0);
    sums.push((JSON.parse(merged.stdout) as { sha256: string }).sha256);
    expect(sums.at(-1)).toBe(hash('merged.gguf'));
  }
  expect(new Set(sums).size).toBe(1);
});

test('errors say what to do', async () => {
  const wrong = await runCli([
    'adapters',
    'merge',
    '--model',
    file('wide.gguf'),
    '--adapter',
    file('adapter.gguf'),
    '--out',
    file('none.gguf'),
  ]);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/ADAPTER_MISMATCH.*64 x 64.*128 x 128.*\n.*adapters inspect/);
  expect(existsSync(file('none.gguf'))).toBe(false);
  expect(
    (
      await runCli([
        'adapters',
        'merge',
        '--model',
        file('model.gguf'),
        '--adapter',
        file('adapter.gguf'),
        '--out',
        file('x.gguf'),
        '--type',
        'int8',
      ])
    ).code,
  ).toBe(2);
  expect((await runCli(['adapters', 'export', file('adapter.gguf'), '--out', file('x')])).code).toBe(2);
  expect(JSON.parse((await runCli(['adapters', 'inspect', file('model.gguf'), '--json'])).stderr)).toMatchObject({
    error: { code: 'ADAPTER_CORRUPT' },
  });
});
