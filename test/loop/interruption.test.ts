/**
 * Ctrl-C and a full disk: a clear line, the right exit code, and the same command goes on to the
 * same adapter.
 */
import { spawn, spawnSync } from 'node:child_process';
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
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunResult } from '../../src/training/result.js';
import { asFlags, MAIN, runCli } from '../cli/run-cli.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from '../models/letters.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
const command = (out: string): string[] => [
  'run',
  '--model',
  file('letters.gguf'),
  '--task',
  file('letters.mjs'),
  '--out',
  file(out),
  ...asFlags({
    seed: 5,
    iterations: 3,
    rollouts: 48,
    maxTokens: 4,
    stepsPerIteration: 4,
    learningRate: 0.005,
    rank: 4,
    topLayers: 1,
    devSize: 4,
    testSize: 8,
    threads: 1,
    patience: 9,
    signer: 'single-process',
    profile: 'downloaded',
  }),
  '--json',
];
const environment = (): NodeJS.ProcessEnv => ({ ISOPRO_HOME: file('home') });
const adapterOf = (stdout: string): string => (JSON.parse(stdout) as RunResult).adapter.sha256;
let expected: string;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-interrupted-'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { members: ONE_TIER });
  const { code, stdout, stderr } = await runCli(command('whole'), environment());
  expect(code === 0 ? '' : stderr).toBe('');
  expected = adapterOf(stdout);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('Ctrl-C ends the run with 130 and says that nothing is lost; the same command goes on', async () => {
  const child = spawn(process.execPath, [MAIN, ...command('cancelled')], {
    env: { ...process.env, ...environment() },
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    const before = stderr;
    stderr += text;
    // once: a second one ends the process at once
    if (stderr.includes('iteration 2 of 3') && !before.includes('iteration 2 of 3'))
      child.kill('SIGINT');
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  expect(code).toBe(130);
  expect(stderr).toMatch(/ABORTED.*interrupted.*same command/s);
  expect((await runCli(['report', file('cancelled')], environment())).code).toBe(0);
  expect(readFileSync(file('cancelled/report.html'), 'utf8')).toContain('The run has not ended.');
  const again = await runCli(command('cancelled'), environment());
  expect(again.code === 0 ? '' : again.stderr).toBe('');
  expect(again.stderr).not.toContain('iteration 1 of 3: rollouts');
  expect(adapterOf(again.stdout)).toBe(expected);
  // written anew at the end, and left alone by a command that only reads the result
  expect(readFileSync(file('cancelled/report.html'), 'utf8')).not.toContain(
    'The run has not ended.',
  );
  writeFileSync(file('cancelled/report.html'), 'mine');
  expect((await runCli(command('cancelled'), environment())).code).toBe(0);
  expect(readFileSync(file('cancelled/report.html'), 'utf8')).toBe('mine');
}, 300_000);

test('a full disk ends the run with a typed error; with room again the same command goes on', async () => {
  const disk = file('disk');
  mkdirSync(disk);
  const mounted =
    process.platform === 'linux' &&
    spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]).status === 0;
  if (!mounted)
    return console.warn(
      'a full disk is not tried: mounting a small file system needs root on Linux',
    );
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

describe('the log of an interrupted run', () => {
  const stopped = async (out: string): Promise<string> => {
    const child = spawn(process.execPath, [MAIN, ...command(out)], {
      env: { ...process.env, ...environment() },
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('iteration 2 of 3')) child.kill('SIGKILL');
    });
    await new Promise((resolve) => child.on('close', resolve));
    for (const suffix of ['-wal', '-shm'])
      rmSync(file(`${out}/log.sqlite${suffix}`), { force: true });
    return file(`${out}/log.sqlite`);
  };

  test.each([
    [
      'overwritten with something else',
      Buffer.from('no database, but long enough to be looked at as one'.repeat(100)),
    ],
    ['emptied', Buffer.alloc(0)],
  ])(
    '%s: the run says so and leaves every file as it is',
    async (_, content) => {
      const log = await stopped(`damaged-${content.length}`);
      writeFileSync(log, content);
      const again = await runCli(command(`damaged-${content.length}`), environment());
      expect(again.code).toBe(1);
      expect(again.stderr).toContain('LOG_UNREADABLE');
      expect(readFileSync(log).equals(content)).toBe(true);
      expect(readdirSync(file(`damaged-${content.length}/checkpoints`)).length).toBeGreaterThan(0);
    },
    120_000,
  );

  test('is begun again where the program was killed before its tables were made', async () => {
    const plan = command('unbegun');
    const child = spawn(process.execPath, [MAIN, ...plan], {
      env: { ...process.env, ...environment() },
    });
    await new Promise<void>((resolve) => {
      const poll = setInterval(() => {
        if (!existsSync(file('unbegun/log.sqlite'))) return;
        clearInterval(poll);
        child.kill('SIGKILL');
        child.on('close', () => resolve());
      }, 1);
    });
    rmSync(file('unbegun/checkpoints'), { recursive: true, force: true });
    for (const suffix of ['-wal', '-shm', '-journal'])
      rmSync(file(`unbegun/log.sqlite${suffix}`), { force: true });
    writeFileSync(file('unbegun/log.sqlite'), '');
    const again = await runCli(plan, environment());
    expect(again.code === 0 ? '' : again.stderr).toBe('');
    expect(adapterOf(again.stdout)).toBe(expected);
  }, 120_000);
});
