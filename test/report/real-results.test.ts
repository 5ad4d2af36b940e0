/**
 * `npm run measure:real`: what it measures, what summary.json takes from it, and the tables of
 * docs/results.md.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
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
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { CONDITIONS } from '../../src/operations/ablation.js';
import * as figures from '../../src/text/figures.js';
import { readRun, testEvaluation } from '../../src/run-folder/read-run.js';
import { resolveSettings, type RunSettingsInput } from '../../src/training/settings.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const project = fileURLToPath(new URL('../..', import.meta.url));
const script = (name: string): string => path.join(project, 'scripts', name);
interface Step {
  readonly name: string;
  readonly task: string;
  readonly settings?: RunSettingsInput;
  readonly evaluate?: Readonly<Record<string, unknown>>;
  readonly adapter?: string;
}
const { realSteps, summaryOf } = (await import(script('real-experiments.mjs'))) as {
  realSteps: (options?: { small: boolean }) => Step[];
  summaryOf: (files: Record<string, unknown>) => { tasks: Record<string, Record<string, unknown>> };
};
const { readResults, resultsText } = (await import(script('document-results.mjs'))) as {
  readResults: (parent: string) => Record<string, unknown> | null;
  resultsText: (
    folders: Record<string, unknown>,
    of: object,
    options?: { brief: boolean },
  ) => string;
};

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-real-'));
const at = (...names: string[]): string => path.join(folder, ...names);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the steps', () => {
  const steps = realSteps();
  const named = (name: string): Step => steps.find((step) => step.name === name)!;

  test('are told apart by their names, are settings that a run takes, and follow what they need', () => {
    const names = steps.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { settings } of steps)
      if (settings !== undefined) resolveSettings({ profile: 'small', ...settings });
    for (const [i, { adapter }] of steps.entries())
      if (adapter !== undefined)
        expect(steps.slice(0, i).find(({ name }) => name === adapter)?.settings).toBeDefined();
  });

  test('are both practical tasks with three seeds, every control of ablate with one, and three further tasks', () => {
    for (const task of ['sql', 'extract']) {
      for (const seed of ['42', '123', '456'])
        expect(named(`${task}-full-${seed}`).settings).toMatchObject({
          task,
          seed,
          evaluation: { testSize: 100, constrained: true, forgetting: 200 },
        });
      for (const condition of [
        'shuffled-verdicts',
        'random-verdicts',
        'failures',
        'references',
      ] as const)
        expect(named(`${task}-${condition}-42`).settings).toEqual({
          ...named(`${task}-full-42`).settings,
          evaluation: { devSize: 10, testSize: 100, forgetting: 200 },
          ...CONDITIONS[condition],
        });
      expect(named(`${task}-few-shot`).evaluate).toMatchObject({ fewShot: 3 });
      expect(named(`${task}-samples`).evaluate).toMatchObject({ samples: 8 });
      expect(named(`${task}-full-456-on-ladder`)).toMatchObject({
        adapter: `${task}-full-456`,
        evaluate: { perTier: 100 },
      });
    }
    for (const task of ['ladder', 'scheduling', 'number-sorting'])
      expect(named(`${task}-full-42`).settings).toMatchObject({ seed: '42' });
  });

  test('search at most twelve runs of twenty minutes, by the dev problems alone', () => {
    const search = steps.filter(({ name }) => name.startsWith('search-'));
    expect(search.length).toBeLessThanOrEqual(12);
    for (const { settings } of search)
      expect(settings).toMatchObject({
        task: 'extract',
        maxMinutes: 20,
        evaluation: { devSize: 20, testSize: 1 },
      });
  });
});

const accuracy = (mean: number, more: object = {}) => ({
  mean,
  low: mean,
  high: mean,
  n: 400,
  byTier: { T0: { mean, low: mean, high: mean, n: 400 } },
  ...more,
});
const made = (more: object) => ({
  model: { sha256: 'b1'.repeat(32), quantisation: 'Q4_1' },
  machine: { processor: 'a processor', cores: 2 },
  ...more,
});
const run = (before: number, after: number, more: object = {}, tests: object = {}) =>
  made({
    settings: resolveSettings({ profile: 'small', iterations: 8, sampling: { maxTokens: 128 } }),
    run: {
      test: {
        before: accuracy(before, { format: { mean: 0.5 }, lenient: { mean: before + 0.01 } }),
        after: accuracy(after, { format: { mean: 0.9 }, lenient: { mean: after + 0.02 } }),
        pairedP: 0.001,
        ...tests,
      },
      iterations: [
        {
          seconds: { rollouts: 60, training: 120, evaluation: 30 },
          dev: accuracy(0.2),
          tokens: { sampled: 1000, trained: 90 },
        },
        {
          seconds: { rollouts: 60, training: 120, evaluation: 90 },
          dev: accuracy(0.1),
          tokens: { sampled: 1000, trained: 30 },
        },
      ],
      peakRssBytes: 7e8,
      seconds: 9999,
      ...more,
    },
  });

describe('summary.json', () => {
  const files = {
    'sql-full-42': run(
      0.1,
      0.4,
      { forgetting: { lost: { mean: 0.02 } } },
      { constrained: { before: accuracy(0.15), after: accuracy(0.42) } },
    ),
    'sql-few-shot': made({ evaluation: { accuracy: accuracy(0.2) } }),
    'sql-samples': made({
      evaluation: {
        bestOfK: accuracy(0.22),
        majority: accuracy(0.21),
        passAtK: { 1: accuracy(0.1), 8: accuracy(0.3) },
      },
    }),
    'sql-failures-42': run(0.1, 0.05),
    'sql-references-42': run(0.1, 0.6),
    'extract-full-123': run(0.3, 0.31),
  };

  test('has the members that were measured, as fractions, and no other', () => {
    expect(summaryOf(files)).toEqual({
      tasks: {
        sql: {
          seeds: [
            {
              seed: '42',
              n: 400,
              before: 0.1,
              after: 0.4,
              pairedP: 0.001,
              lenient: { before: expect.closeTo(0.11, 12), after: expect.closeTo(0.42, 12) },
              constrained: { before: 0.15, after: 0.42 },
              format: { before: 0.5, after: 0.9 },
              forgettingNats: 0.02,
              minutes: 8, // of the iterations, the test evaluations left out
            },
          ],
          fewShot: 0.2,
          bestOfK: 0.22,
          controls: { failures: 0.05, references: 0.6 },
        },
        extract: {
          seeds: [
            {
              seed: '123',
              n: 400,
              before: 0.3,
              after: 0.31,
              pairedP: 0.001,
              lenient: { before: expect.closeTo(0.31, 12), after: expect.closeTo(0.33, 12) },
              format: { before: 0.5, after: 0.9 },
              minutes: 8,
            },
          ],
        },
      },
    });
    expect(summaryOf({})).toEqual({ tasks: {} });
    expect(summaryOf({ 'search-profile': run(0, 0) })).toEqual({ tasks: {} });
  });

  test('gives the tables, of what is there', () => {
    mkdirSync(at('published', 'smollm2-135m'), { recursive: true });
    const all = {
      ...files,
      'extract-full-456': run(0.1, 0.4, {
        forgetting: { lost: { mean: 0.04 } },
        restraint: { limit: 0.05, strength: 0.875, tried: [{ strength: 1, lost: 0.051 }] },
      }),
      'search-rank-16': run(0, 0, { forgetting: { lost: { mean: 0.02 } } }),
      'sql-full-456-on-ladder': made({ task: 'ladder', evaluation: { accuracy: accuracy(0.07) } }),
    };
    for (const [name, value] of Object.entries({ ...all, summary: summaryOf(all) }))
      writeFileSync(at('published', 'smollm2-135m', `${name}.json`), JSON.stringify(value));
    const text = resultsText(readResults(at('published'))!, figures);
    expect(text).toContain(
      '| seed 42 | 10.0 (10.0–10.0) | 40.0 (40.0–40.0) | 0.0010 | 11.0 → 42.0 | 15.0 → 42.0 | 50.0 → 90.0 | 0.0200 | 8 | 700 |',
    );
    expect(text).toContain(
      '| seed 123 | 30.0 (30.0–30.0) | 31.0 (31.0–31.0) | 0.0010 | 31.0 → 33.0 | – | 50.0 → 90.0 | – | 8 | 700 |',
    );
    expect(text).toContain('| control `references`, seed 42 | 60.0 (60.0–60.0) |');
    expect(text).toContain(' | 0.0400 with 0.875 (0.0510) | 8 | 700 |');
    // minutes of two iterations and of what is left of 9,999 seconds; rates over their stages
    expect(text).toContain(
      '| `sql`, seed 42 | a processor | 2.0 | 4.0 | 2.0 | 158.7 | 2,000 | 120 | 17 | 0.5 | 700 |',
    );
    expect(text).toContain(
      'Runs of the profile `small` with `--iterations 8 --max-tokens 128`, weights in Q4_1.',
    );
    expect(text).toContain('| rank-16 | 2 | 20.0 (20.0–20.0) | 0.0200 | 2,000 | 8 | 700 |');
    expect(text).toContain('| `sql` | `ladder` | – | 7.0 (7.0–7.0) |');
    expect(resultsText(readResults(at('published'))!, figures, { brief: true })).toContain(
      '| `sql` | 1 | 10.0 → **40.0** | 0.0010 |',
    );
  });

  test('of several seeds the brief table has the range, and the greatest p', () => {
    const files = {
      'sql-full-42': run(0.1, 0.4),
      'sql-full-123': run(0.1, 0.3, {}, { pairedP: 0.02 }),
    };
    const summary = summaryOf(files);
    const line = '| `sql` | 2 | 10.0 → **30.0–40.0** | 0.0200 | 11.0 → 32.0–42.0 | – | – | – |';
    expect(resultsText({ made: { summary, files } }, figures, { brief: true })).toContain(line);
  });
});

test('a step is measured by the commands, its figures are those of the log, and it is not measured twice', async () => {
  writeSyntheticModel(at('model.gguf'), { architecture: 'llama', contextLength: 8192 });
  const command = (...args: string[]) => [
    script('measure-real.mjs'),
    '--try',
    '--threads',
    '1',
    '--runs',
    at('runs'),
    ...args,
  ];
  const env = { ...process.env, ISOPRO_HOME: at('home') };
  const measure = (...args: string[]) =>
    spawnSync(process.execPath, command(...args), { encoding: 'utf8', env });
  /** Told to end as soon as its run has begun. */
  async function interrupted(step: string): Promise<[code: number | null, stderr: string]> {
    const child = spawn(process.execPath, command('--model', at('model.gguf'), '--only', step), {
      stdio: ['ignore', 'ignore', 'pipe'],
      env,
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const closed = once(child, 'close');
    while (child.exitCode === null && !existsSync(at('runs', step, 'manifest.json')))
      await setTimeout(10);
    child.kill('SIGTERM');
    const [code] = (await closed) as [number | null];
    return [code, stderr];
  }
  const steps = ['extract-full-456', 'extract-full-456-on-ladder', 'extract-samples'];
  const asked = ['--model', at('model.gguf'), ...steps.flatMap((step) => ['--only', step])];
  const late = measure(...asked, '--hours', '0');
  expect([late.status, late.stderr]).toEqual([
    0,
    expect.stringMatching(/not begun, the time is over; the same command goes on/),
  ]);
  expect(await interrupted('extract-full-456')).toEqual([
    130,
    expect.stringMatching(/interrupted; the same command/),
  ]);
  expect(readdirSync(at('runs', 'results'))).toEqual([]);
  const first = measure(...asked);
  expect([first.status, first.status === 0 ? '' : first.stderr]).toEqual([0, '']);
  const results = at('runs', 'results');
  expect(readdirSync(results).sort()).toEqual([
    'extract-full-456-on-ladder.json',
    'extract-full-456.json',
    'extract-samples.json',
    'summary.json',
  ]);
  const read = (name: string): unknown =>
    JSON.parse(readFileSync(path.join(results, `${name}.json`), 'utf8'));
  const measured = read('extract-full-456') as { run: { test: { after: { mean: number } } } };
  const summary = read('summary') as { tasks: { extract: { seeds: object[] } } };
  const { mean, outcomes } = testEvaluation(readRun(at('runs', 'extract-full-456')), 'after')!;
  expect(summary.tasks.extract.seeds).toMatchObject([
    { seed: '456', after: mean, n: outcomes.length },
  ]);
  expect(measured.run.test.after.mean).toBe(mean);
  for (const file of readdirSync(results))
    expect(readFileSync(path.join(results, file), 'utf8')).not.toContain(folder);

  const again = measure(...asked);
  expect([again.status, again.stderr]).toEqual([0, '']);
  expect(measure('--list').stdout).toMatch(/^done {2}extract-samples$/m);
  const orphan = measure('--model', at('model.gguf'), '--only', 'sql-full-456-on-ladder');
  expect([orphan.status, orphan.stderr]).toEqual([
    1,
    expect.stringMatching(/takes the adapter of sql-full-456/),
  ]);
  expect(existsSync(path.join(results, 'sql-full-456-on-ladder.json'))).toBe(false);
  expect(measure('--only', 'nothing').stderr).toMatch(/there is no step nothing/);
}, 600_000);
