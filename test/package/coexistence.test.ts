import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { encodeModel, synthesizeModel } from '../models/synthetic.js';

let folder: string;
let model: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-coexistence-'));
  model = path.join(folder, 'model.gguf');
  writeFileSync(
    model,
    Buffer.concat([...encodeModel(synthesizeModel({ architecture: 'qwen2', seed: 5n }))]),
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const program = fileURLToPath(new URL('./coexistence.mjs', import.meta.url));

test.each(['isopro', 'nodeLlamaCpp'])(
  'both libraries generate in one process, %s loaded first',
  (first) => {
    const child = spawnSync(process.execPath, [program, first, model], {
      encoding: 'utf8',
      timeout: 100_000,
    });
    expect(`${child.signal ?? ''}${child.status === 0 ? '' : child.stderr}`).toBe('');
    interface Report {
      readonly before: Record<string, number[]>;
      readonly after: number[];
      readonly second: string;
      readonly cancelled: string;
      readonly heardOfOurs: string[];
      readonly heardOfItsOwn: number;
    }
    const { before, after, second, cancelled, heardOfOurs, heardOfItsOwn } = JSON.parse(
      child.stdout,
    ) as Report;
    expect(before.isopro).toHaveLength(16);
    expect(before.nodeLlamaCpp).toEqual(before.isopro);
    expect(after).toEqual(before[second]);
    expect(cancelled).toBe('ABORTED');
    expect(heardOfOurs).toEqual([]);
    expect(heardOfItsOwn).toBeGreaterThan(0);
  },
);
