/**
 * A run whose adapter acts from the reply on: it learns, is found again by the judge, and continues
 * after an interruption; what cannot be trained so is refused by its path.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspectAdapter, loadModel, resolveSettings, run } from '../../src/index.js';
import { judgeRun } from '../../src/judge/judge.js';
import type { RunResult } from '../../src/training/result.js';
import type { RunSettingsInput } from '../../src/training/settings.js';
import { writeReport } from '../../src/report/write-report.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
const settings = (more: RunSettingsInput = {}): RunSettingsInput => ({
  task: file('letters.mjs'),
  seed: '1',
  iterations: 2,
  signer: 'single-process',
  profile: 'downloaded',
  model: { name: file('letters.gguf'), threads: 1 },
  sampling: { rollouts: 64, samples: 4, maxTokens: 4 },
  optimiser: { stepsPerIteration: 12, batchSize: 8, learningRate: 0.005, warmupSteps: 2 },
  evaluation: { devSize: 5, testSize: 20 },
  ...more,
  layers: { rank: 4, topLayers: 2, adapterFrom: 'reply', ...more.layers },
});

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-from-reply-'));
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { numbers: 400 });
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

describe('a run', () => {
  let result: RunResult;
  beforeAll(async () => {
    result = await run(settings(), { out: file('run') });
  }, 300_000);

  test('learns', () => {
    expect(result.test.after.byTier.L0!.mean).toBeGreaterThan(
      result.test.before.byTier.L0!.mean! + 0.3,
    );
  });

  test('submits an adapter that names its tokens', async () => {
    const { adapter } = JSON.parse(readFileSync(runPaths(file('run')).manifest, 'utf8')).result as {
      adapter: string;
    };
    await using model = await loadModel(file('letters.gguf'), { threads: 1 });
    const { invocationTokens } = await inspectAdapter(
      path.join(file('run'), 'adapters', `${adapter}.gguf`),
    );
    expect(invocationTokens).toEqual([...model.generationPrompt()]);
  });

  test('is found again by the judge', async () => {
    const { verdict } = await judgeRun({
      folder: file('run'),
      model: file('letters.gguf'),
      task: file('letters.mjs'),
    });
    expect(verdict).toBe('pass');
  }, 300_000);

  test('says in its report from where the adapter acts', async () => {
    const { file: page } = await writeReport(file('run'));
    expect(readFileSync(page, 'utf8')).toMatch(
      /from the reply on; the prompt before it is the base/,
    );
  });

  test('is not continued with another value', async () => {
    const { adapterFrom: _, ...layers } = settings().layers!;
    await expect(run({ ...settings(), layers }, { out: file('run') })).rejects.toMatchObject({
      code: 'RUN_DIFFERS',
    });
  });
});

test('a setting that is not given is in no manifest', () => {
  const { adapterFrom: _, ...layers } = settings().layers!;
  expect(JSON.stringify(resolveSettings({ ...settings(), layers }))).not.toContain('adapterFrom');
});

test('episodes of several turns are refused before a model is loaded', async () => {
  const absent = { name: file('absent.gguf'), threads: 1 };
  for (const turns of [2, 64])
    await expect(
      run(settings({ model: absent, sampling: { turns } }), { out: file('refused') }),
    ).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/^layers\.adapterFrom: .*turns/) as unknown,
    });
  expect(() => resolveSettings(settings({ layers: { adapterFrom: 'prompt' as never } }))).toThrow(
    /layers\.adapterFrom/,
  );
});

test('the flag is the setting', async () => {
  const { code, stdout, stderr } = await runCli([
    ...['run', '--task', file('letters.mjs'), '--model', file('letters.gguf')],
    ...['--adapter-from', 'reply', '--turns', '3'],
  ]);
  expect([code === 0, `${stdout}${stderr}`]).toEqual([
    false,
    expect.stringContaining('--adapter-from: reply is not supported'),
  ]);
});
