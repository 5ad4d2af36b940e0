/**
 * `npm run measure:truth`: a step through the commands, and the pages that `npm run docs:truth`
 * writes.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';
import { writeSyntheticModel } from '../models/synthetic.js';

const project = fileURLToPath(new URL('../..', import.meta.url));
const script = (name: string): string => path.join(project, 'scripts', name);
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-truth-'));
const at = (...names: string[]): string => path.join(folder, ...names);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Measured {
  readonly model: string;
  readonly run: { readonly trajectories: number; readonly failures: number };
  readonly results: readonly {
    readonly strategy: string;
    readonly value: number | null;
    readonly skipped: Record<string, number>;
  }[];
}
const { PAGES, readTruthResults, truthText, withTruth } = (await import(
  script('document-truth.mjs')
)) as {
  PAGES: Record<string, boolean>;
  readTruthResults: () => Record<string, unknown>;
  truthText: (files: Record<string, unknown>, options?: { brief: boolean }) => string;
  withTruth: (page: string, content: string) => string;
};

test.each(Object.entries(PAGES))(
  '%s is what the files in results/truth say (npm run docs:truth)',
  (name, brief) => {
    const page = readFileSync(path.join(project, name), 'utf8');
    expect(page).toBe(withTruth(page, truthText(readTruthResults(), { brief })));
  },
);

test('a step is measured by the command, once; what has no value says why', () => {
  // in place of a model to be downloaded
  writeSyntheticModel(at('other.gguf'), { architecture: 'qwen2', seed: 5n, layers: 1 });
  const measure = (): ReturnType<typeof spawnSync> =>
    spawnSync(
      process.execPath,
      [
        script('measure-truth.mjs'),
        '--try',
        '--only',
        'tiny-value-statements',
        '--runs',
        at('runs'),
        '--model',
        at('other.gguf'),
      ],
      {
        encoding: 'utf8',
        env: { ...process.env, ISOPRO_HOME: at('home') },
      },
    );
  const first = measure();
  expect([first.status, first.stderr]).toEqual([
    0,
    expect.stringContaining('tiny-value-statements: done'),
  ]);
  expect(readdirSync(at('runs', 'results'))).toEqual(['tiny-value-statements.json']);
  const text = readFileSync(at('runs', 'results', 'tiny-value-statements.json'), 'utf8');
  expect(text).not.toContain(at('runs'));
  const file = JSON.parse(text) as Measured;
  // 2 statements under 2 prompts in 4 modes, each asked by nobody's opinion and by two users
  expect(file.run).toMatchObject({ trajectories: 48, failures: 0 });
  for (const { value, skipped } of file.results)
    expect(value !== null || Object.keys(skipped).length > 0).toBe(true);
  // nobody knows the answer
  const accuracy = file.results.filter(({ strategy }) => strategy.startsWith('accuracy'));
  expect(new Set(accuracy.map(({ value }) => value))).toEqual(new Set([null]));
  expect(
    file.results.find(({ strategy }) => strategy === 'sycophancy:measure=shift')!.value,
  ).not.toBeNull();

  const page = truthText({ 'tiny-value-statements': file });
  expect(page).toContain(
    '`accuracy:metric=brier,mode=eventual` (lower is better): nothing to say: no answer known.',
  );
  expect(page).toMatch(/\| value-statements \|( −?\d\.\d{3}.*, 2 \|)+/);

  const again = measure();
  expect([again.status, again.stderr]).toEqual([0, '']);
}, 300_000);
