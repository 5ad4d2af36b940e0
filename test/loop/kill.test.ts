/** SIGKILL at any moment, the same command again: the same adapter and the same figures. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { verifyRun } from '../../src/log/local-trust.js';
import { Random } from '../../src/random.js';
import { asFlags, MAIN, runCli } from '../cli/run-cli.js';
import { runFigures } from '../models/run-figures.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const FULL = process.env.ISOPRO_FULL === '1';
const KILLS = FULL ? 25 : 3;
/** Kills of one run before it may end. */
const EACH = 3;

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
    iterations: 4,
    rollouts: 48,
    samples: 4,
    maxTokens: 4,
    stepsPerIteration: 6,
    batchSize: 8,
    learningRate: 0.005,
    profile: 'downloaded',
    rank: 4,
    layers: 'gradient',
    topLayers: 1,
    devSize: 5,
    testSize: 10,
    threads: 1,
    patience: 9,
  }),
  '--json',
];
const environment = (): NodeJS.ProcessEnv => ({ ISOPRO_HOME: file('home') });

/** @returns whether the kill came before the run had ended by itself */
function runUntilKilled(args: readonly string[], ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { ...process.env, ...environment() },
      stdio: 'ignore',
    });
    const timer = setTimeout(() => child.kill('SIGKILL'), ms);
    child.on('close', (_, signal) => {
      clearTimeout(timer);
      resolve(signal === 'SIGKILL');
    });
  });
}

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-kill-'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { members: ONE_TIER });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test(`${KILLS} kills at random moments change nothing`, async () => {
  const begin = performance.now();
  const whole = await runCli(command('whole'), environment());
  expect(whole.code === 0 ? '' : whole.stderr).toBe('');
  const milliseconds = performance.now() - begin;
  const expected = runFigures(whole.stdout);
  const random = new Random(BigInt(process.env.ISOPRO_KILL_SEED ?? '11'));
  let kills = 0;
  let resumes = 0;
  for (let run = 0; (kills < KILLS || resumes === 0) && run < 2 * KILLS; run++) {
    const out = `killed-${run}`;
    // the first kill of a run may come before there is anything to go on with
    for (let each = 0; each < EACH && (kills < KILLS || resumes === 0); each++) {
      const earliest = each === 0 ? 100 : 0.5 * milliseconds;
      if (
        await runUntilKilled(
          command(out),
          random.nextInteger(Math.ceil(earliest), Math.ceil(0.9 * milliseconds)),
        )
      )
        kills++;
    }
    const { code, stdout, stderr } = await runCli(command(out), environment());
    if (process.env.ISOPRO_KILL_SEED !== undefined)
      process.stderr.write(`run ${run}: ${kills} kills, exit ${code}\n`);
    expect(code === 0 ? '' : stderr).toBe('');
    expect(runFigures(stdout)).toEqual(expected);
    const verification = await verifyRun(file(out), { streams: RUN_STREAMS, home: file('home') });
    expect(verification.outcome).toBe('ok');
    resumes += verification.resumes;
    rmSync(file(out), { recursive: true });
  }
  expect(kills).toBeGreaterThanOrEqual(KILLS);
  expect(resumes).toBeGreaterThan(0);
}, 1_800_000);

// Those of Q8_0 here; where the processor has none for ours the run goes by ggml's.
test('one that multiplies by kernels of our own ends as it would have, and its judge passes', async () => {
  const settings = {
    model: 'tiny',
    matmul: 'auto',
    seed: 3,
    iterations: 2,
    rollouts: FULL ? 32 : 16,
    stepsPerIteration: FULL ? 4 : 2,
    devSize: 1,
    testSize: FULL ? 2 : 1,
  };
  const own = (out: string): string[] => [
    'run',
    ...asFlags(settings),
    '--threads',
    '1',
    '--out',
    file(out),
    '--json',
  ];
  const begin = performance.now();
  const whole = await runCli(own('own'), environment());
  expect(whole.code === 0 ? '' : whole.stderr).toBe('');
  const milliseconds = performance.now() - begin;
  let killed = false;
  if (FULL)
    for (const part of [0.6, 0.8, 0.4])
      killed = (await runUntilKilled(own('own-killed'), part * milliseconds)) || killed;
  // once; on a machine that was busier before, the run may have ended by then
  for (const part of FULL ? [] : [0.7, 0.45, 0.3]) {
    rmSync(file('own-killed'), { recursive: true, force: true });
    killed = await runUntilKilled(own('own-killed'), part * milliseconds);
    if (killed) break;
  }
  expect(killed).toBe(true);
  const resumed = await runCli(own('own-killed'), environment());
  expect(runFigures(resumed.stdout)).toEqual(runFigures(whole.stdout));
  const judged = await runCli(
    ['judge', file('own-killed'), '--fresh', FULL ? '25' : '2', '--json'],
    environment(),
  );
  expect(judged.code === 0 ? '' : `${judged.stdout}\n${judged.stderr}`).toBe('');
}, 600_000);
