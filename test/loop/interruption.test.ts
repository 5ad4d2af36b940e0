/** Ctrl-C and a full disk: a clear line, the right exit code, and the same command goes on to the same adapter. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunResult } from '../../src/training/result.js';
import { MAIN, runCli } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
const command = (out: string): string[] => [
  'run', '--model', file('letters.gguf'), '--task', file('letters.mjs'), '--out', file(out), '--seed', '5', '--iterations', '3', '--rollouts', '48', '--max-tokens', '4', '--steps-per-iteration', '4', '--learning-rate', '0.005',
  '--rank', '4', '--top-layers', '1', '--dev-size', '4', '--test-size', '8', '--threads', '1', '--patience', '9', '--signer', 'single-process', '--json',
];
const environment = (): NodeJS.ProcessEnv => ({ ISOPRO_HOME: file('home') });
const adapterOf = (stdout: string): string => (JSON.parse(stdout) as RunResult).adapter.sha256;
let expected: string;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-interrupted-'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  const { code, stdout, stderr } = await runCli(command('whole'), environment());
  expect(code === 0 ? '' : stderr).toBe('');
  expected = adapterOf(stdout);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('Ctrl-C ends the run with 130 and says that nothing is lost; the same command goes on', async () => {
  const child = spawn(process.execPath, [MAIN, ...command('cancelled')], { env: { ...process.env, ...environment() } });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    if (stderr.includes('iteration 2 of 3')) child.kill('SIGINT');
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  expect(code).toBe(130);
  expect(stderr).toMatch(/ABORTED.*interrupted.*same command/s);
  const again = await runCli(command('cancelled'), environment());
  expect(again.code === 0 ? '' : again.stderr).toBe('');
  expect(again.stderr).not.toContain('iteration 1 of 3');
  expect(adapterOf(again.stdout)).toBe(expected);
}, 300_000);

test('a full disk ends the run with a typed error; with room again the same command goes on', async () => {
  const disk = file('disk');
  mkdirSync(disk);
  const mounted = process.platform === 'linux' && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]).status === 0;
  if (!mounted) return console.warn('a full disk is not tried: mounting a small file system needs root on Linux');
  try {
    writeFileSync(path.join(disk, 'ballast'), Buffer.alloc(3.7 * 2 ** 20));
    const full = await runCli(command('disk/run'), environment());
    expect(full.code).toBe(1);
    expect(full.stderr).toMatch(/LOG_WRITE_FAILED|WRITE_FAILED/);
    rmSync(path.join(disk, 'ballast'));
    const again = await runCli(command('disk/run'), environment());
    expect(again.code === 0 ? '' : again.stderr).toBe('');
    expect(adapterOf(again.stdout)).toBe(expected);
  } finally {
    spawnSync('umount', ['-l', disk]);
  }
}, 180_000);
