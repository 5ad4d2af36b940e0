/**
 * Settings as flags: each has one, and a refusal that names its path names the flag on the command
 * line.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { settingsOf } from '../../src/cli/operation-command.js';
import { Flags } from '../../src/operations/flags.js';
import { flagsInUse, RUN_FLAGS } from '../../src/operations/run-settings.js';
import { run } from '../../src/operations/run.js';
import { readSettingsFile, resolveSettings, runSettings } from '../../src/training/settings.js';

const FLAGS = new Flags(runSettings, RUN_FLAGS);
const flagValues = (settings: object): [string, unknown][] =>
  FLAGS.values(settings).map(([{ name }, value]) => [name, value]);

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-settings-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
function config(settings: unknown): string {
  const file = path.join(folder, 'config.json');
  writeFileSync(file, JSON.stringify(settings));
  return file;
}

/** Settings that are no part's, and those of each part, with the values that a run would have. */
function leaves(): [string, unknown][] {
  return Object.entries(resolveSettings({})).flatMap(([name, value]): [string, unknown][] =>
    typeof value === 'object' && !Array.isArray(value)
      ? Object.entries(value as object)
      : [[name, value]],
  );
}

test('every setting has one flag, with its own value', () => {
  const values = flagValues(resolveSettings({}));
  expect(values).toHaveLength(leaves().length);
  // what has no default: how the task is asked beside its own way, a teacher, no limit, and what
  // follows from the model's vocabulary
  const valued = new Set(values.map(([flag]) => flag));
  expect(FLAGS.all.map(({ name }) => name).filter((flag) => !valued.has(flag))).toEqual([
    'check',
    'system',
    'examples',
    'stop',
    'judge-truncated',
    'adapter-from',
    'precision',
    'teacher',
    'teacher-examples',
    'forgetting',
    'max-forgetting',
    'margin',
    'max-minutes',
    'answer-tag',
    'verify-seconds',
  ]);
  const sorted = (list: unknown[]): string[] => list.map((each) => JSON.stringify(each)).sort();
  expect(sorted(values.map(([, value]) => value))).toEqual(
    sorted(leaves().map(([, value]) => value)),
  );
  expect(Object.fromEntries(values)).toMatchObject({
    model: 'tiny',
    algorithm: 'rft',
    buffer: 'balanced',
    layers: 'last',
    'top-p': 1,
  });
  expect(Object.keys(FLAGS.options(['seed']))).not.toContain('seed');
});

test('flags come before the file, and leave what it says of the rest of a part', () => {
  const file = config({ seed: '7', sampling: { rollouts: 32, samples: 2 }, layers: { rank: 3 } });
  expect(
    FLAGS.read(
      { rollouts: 64, layers: '1,2', model: 'x.gguf', topP: undefined },
      readSettingsFile(file) as Record<string, unknown>,
    ),
  ).toEqual({
    seed: '7',
    model: { name: 'x.gguf' },
    sampling: { rollouts: 64, samples: 2 },
    layers: { rank: 3, choice: '1,2' },
  });
});

test.each<[Record<string, unknown>, unknown, string]>([
  [{ temperature: -1 }, {}, '--temperature: '],
  [{ layers: 'first' }, {}, '--layers: '],
  [{ rollouts: 2, samples: 4 }, {}, '--rollouts: 2 are fewer'],
  [{}, { algorithm: { clipLow: 0.1 } }, '--clip-low: a setting of grpo'],
  [{}, { sampling: { heat: 1 } }, 'sampling.heat: there is no such setting'],
  [{}, { temperature: 1 }, 'temperature: there is no such setting, it is sampling.temperature'],
  [{}, { model: 'tiny' }, 'model: '],
  [{ threads: 1 }, { model: 'tiny' }, 'model: '],
  [{ threads: 1 }, { model: null }, 'model: '],
])('%j beside a file with %j is a usage error', (argv, file, message) => {
  const given = (): unknown => settingsOf(run, argv, readSettingsFile(config(file)));
  expect(given).toThrow(
    expect.objectContaining({
      name: 'UsageError',
      message: expect.stringContaining(message) as never,
    }) as never,
  );
  expect(given).toThrow(new RegExp(`^${message}`, 'm'));
});

test('a run on rows of data asks all of those that are held out, unless it says how many', () => {
  const sizes = (task: string, given: object = {}): object =>
    resolveSettings({ task, ...given }).evaluation;
  expect(sizes('scheduling')).toMatchObject({ testSize: 100, devSize: 10 });
  for (const model of ['tiny', 'm.gguf'])
    for (const task of ['rows.csv', 'data/rows.JSONL'])
      expect(sizes(task, { model: { name: model } })).toMatchObject({ testSize: 100, devSize: 20 });
  expect(sizes('rows.csv', { evaluation: { testSize: 7 } })).toMatchObject({
    testSize: 7,
    devSize: 20,
  });
  expect(sizes('extract', { model: { name: 'm.gguf' } })).toMatchObject({
    testSize: 25,
    devSize: 5,
  });
});

test('what a run does not use is not among the settings that a plan shows', () => {
  const shown = (given: object): string[] =>
    flagsInUse(resolveSettings(given)).map(([flag]) => flag);
  const rft = shown({ model: { name: 'm.gguf' }, profile: 'small' });
  for (const flag of ['variant', 'clip-low', 'headroom', 'top-layers'])
    expect(rft).not.toContain(flag);
  for (const flag of ['algorithm', 'from-base', 'layers', 'rank', 'seed'])
    expect(rft).toContain(flag);
  const grpo = shown({ algorithm: { id: 'grpo' } });
  for (const flag of ['clip-low', 'top-layers']) expect(grpo).toContain(flag);
  for (const flag of ['from-base', 'headroom']) expect(grpo).not.toContain(flag);
});
