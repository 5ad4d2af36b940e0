/**
 * ReST-EM: every iteration trains anew from the base model, the best one is submitted, a judge
 * follows; interruptions change nothing.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadModel, resolveSettings, run } from '../../src/index.js';
import { judgeRun } from '../../src/judge/judge.js';
import { LogReader } from '../../src/log/read.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { readRun } from '../../src/run-folder/read-run.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { Learner } from '../../src/training/learner.js';
import type { RunResult } from '../../src/training/result.js';
import { runCli } from '../cli/run-cli.js';
import { shortestRun, writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-self-improve-'));
const file = (name: string): string => path.join(folder, name);
const settings = () =>
  ({
    ...shortestRun(file('letters.mjs'), file('letters.gguf')),
    iterations: 3,
    sampling: { rollouts: 48, samples: 4, maxTokens: 4 },
    optimiser: { stepsPerIteration: 4, batchSize: 8, learningRate: 0.005, warmupSteps: 2 },
    evaluation: { devSize: 10, testSize: 2 },
    algorithm: { fromBase: true },
    monitor: { policy: 'observe' },
  }) as const;
let result: RunResult;

beforeAll(async () => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  result = await run(settings(), { out: file('whole') });
}, 120_000);
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

test('each iteration begins with the first step of a trainer, and samples with what the one before came to', () => {
  const reader = new LogReader(runPaths(result.folder).log, RUN_STREAMS);
  const steps = [...reader.records({ stream: 'metrics' })].flatMap(({ payload }) =>
    payload.kind === 'step' ? [payload] : [],
  );
  reader.close();
  for (const at of [1, 2, 3]) {
    const own = steps.filter(({ iteration }) => iteration === at).map(({ step }) => step);
    expect(own.length).toBeGreaterThan(1);
    expect(own).toEqual(own.map((_, i) => i + 1));
  }
  expect(new Set(result.iterations.map(({ adapterId }) => adapterId)).size).toBe(3);
  const rates = result.iterations.map(({ hitRate }) => hitRate!);
  expect(rates[2]!).toBeGreaterThan(rates[0]!);
});

test('what a learner begins an iteration from is the adapter as it was before its first step, to the last bit', async () => {
  await using model = await loadModel(file('letters.gguf'), { threads: 1 });
  const options = { model, settings: resolveSettings(settings()), layers: [2] };
  const [learner, fresh] = [await Learner.create(options), await Learner.create(options)];
  try {
    const untrained = await fresh.trainer.snapshot();
    const tokenIds = Int32Array.of(5, 6, 7);
    await learner.trainer.step([{ tokenIds, labelMask: Uint8Array.of(0, 1, 1) }]);
    expect(Buffer.compare(await learner.trainer.snapshot(), untrained)).not.toBe(0);
    await learner.beginIteration({ learningRate: 0.005, maxNorm: 1, epsilon: 1e-8 });
    expect(Buffer.compare(await learner.trainer.snapshot(), untrained)).toBe(0);
  } finally {
    await learner.dispose();
    await fresh.dispose();
  }
});

test('the round with the highest dev accuracy is submitted, and the judge derives all of it again', async () => {
  const best = result.iterations.reduce((a, b) => (b.dev.mean! >= a.dev.mean! ? b : a));
  expect(readRun(result.folder).end!.adapterIteration).toBe(best.iteration);
  const { verdict, failure } = await judgeRun({
    folder: result.folder,
    model: file('letters.gguf'),
    task: file('letters.mjs'),
  });
  expect([verdict, failure]).toEqual(['pass', null]);
}, 60_000);

test('an interrupted run goes on and ends with the same adapter', async () => {
  const controller = new AbortController();
  const begun = run(settings(), {
    out: file('parts'),
    signal: controller.signal,
    onIteration: ({ iteration }) => (iteration === 2 ? controller.abort() : undefined),
  });
  await expect(begun).rejects.toMatchObject({ code: 'ABORTED' });
  expect((await run(settings(), { out: file('parts') })).adapter).toEqual(
    expect.objectContaining({ sha256: result.adapter!.sha256 }),
  );
}, 60_000);

test('remedies would be undone: a run that carries them out is refused, and so is a policy of the caller', async () => {
  expect(() => resolveSettings({ ...settings(), monitor: { policy: 'scripted' } })).toThrow(
    'algorithm.fromBase: each iteration restarts',
  );
  const policy = { name: 'mine', decide: () => null } as never;
  await expect(run(settings(), { out: file('refused'), policy })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});

test('self-improve is run with these settings, and has no flags for them', async () => {
  const { code, stdout } = await runCli(
    ['self-improve', '--model', file('letters.gguf'), '--task', file('letters.mjs'), '--help'],
    {},
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/--iterations/);
  expect(stdout).not.toMatch(/--from-base|--policy|--algorithm/);
});
