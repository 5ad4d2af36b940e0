/**
 * Options of a training in one call, and guards of a gate: what is taken and what is refused before
 * anything is loaded or spent.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import type { Model } from '../../src/engine/model.js';
import { ablate } from '../../src/operations/ablation.js';
import { requireMeasurable } from '../../src/operations/gates/measure-gate.js';
import { promote } from '../../src/operations/gates/promote.js';
import { trainAdapter, type TrainAdapterOptions } from '../../src/operations/train-adapter.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-options-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('each option of a training has its bounds, and a file that is there is not replaced unasked', async () => {
  const out = path.join(folder, 'there.gguf');
  writeFileSync(out, '');
  const given = { examples: [{}], out };
  /** No model is looked at before: the file that is there comes after the options. */
  const said = (more: object): Promise<{ code: string; message: string; remedy?: string }> =>
    trainAdapter({} as Model, { ...given, ...more } as TrainAdapterOptions).then(
      () => ({ code: 'none', message: 'trained' }),
      (error: { code: string; message: string }) => error,
    );
  expect(await said({})).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: `options.out: ${out} already exists`,
    remedy: 'Give another path, or set `overwrite: true` to replace the file.',
  });
  const table: [name: string, taken: readonly unknown[], refused: readonly unknown[]][] = [
    ['examples', [[{ a: 1 }]], [[], [1]]],
    ['validation', [[{}], 0, 0.5], [[], 1, -0.1]],
    ['validateEvery', [1], [0]],
    ['answers', ['last', 'all'], ['first']],
    ['schedule', ['constant', 'linear', 'cosine'], ['step']],
    ['dedupe', [0.5, 1], [0, 1.1]],
    ['elite', [0.5, 1], [0, 1.1]],
    ['weightByScore', ['uniform', 'linear', 'softmax'], ['score']],
    ['scoreConditioned', [true], [1]],
    ['saveEvery', [1], [0]],
    ['logTo', [['jsonl']], [['none']]],
    ['objective', ['sft', 'dpo'], ['ppo']],
    ['beta', [1e-9, 1000], [0, 1000.1]],
    ['patience', [0, 1], [-1, 0.5]],
    ['out', [], ['']],
    ['rank', [1, 4096], [0, 1.5, 4097]],
    ['alpha', [1e-9], [0, -1]],
    ['topLayers', [1], [0, 0.5]],
    ['learningRate', [1e-9, 10], [0, 10.1]],
    ['epochs', [1], [0]],
    ['batchSize', [1], [0]],
    ['maxTokens', [2], [1]],
    ['threads', [0, 1], [-1]],
  ];
  for (const [name, taken, refused] of table) {
    for (const value of taken)
      expect([name, value, (await said({ [name]: value })).message]).toEqual([
        name,
        value,
        `options.out: ${out} already exists`,
      ]);
    for (const value of refused)
      expect([name, value, await said({ [name]: value })]).toEqual([
        name,
        value,
        expect.objectContaining({
          code: 'INVALID_ARGUMENT',
          message: expect.stringContaining(`options.${name}`),
        }),
      ]);
  }
});

test('names that the command has are read, one at a time, and options do not contradict each other', async () => {
  const out = path.join(folder, 'there.gguf');
  const said = (more: object): Promise<string> =>
    trainAdapter({} as Model, { examples: [{}], out, ...more } as TrainAdapterOptions).then(
      () => 'trained',
      ({ message }: Error) => message,
    );
  expect(await said({ lr: 0.1, batch: 2, top: 1 })).toBe(`options.out: ${out} already exists`);
  expect(await said({ lr: 0 })).toContain('options.learningRate: ');
  expect(await said({ lr: 0.1, learningRate: 0.1 })).toBe('learningRate: it is also given as lr');
  expect(await said({ objective: 'dpo', dedupe: 1 })).toContain('options.objective: dpo learns');
  expect(await said({ resume: true, overwrite: true })).toContain('options.force: ');
  expect(await said({ resume: true })).toBe(
    `options.resume: nothing was saved yet, there is no ${out}.state; start without options.resume`,
  );
});

test('a guard that is not measured with the gate is refused before an attempt is spent', () => {
  const guard = (name: string): object => ({
    kind: 'non-inferiority',
    name,
    margin: 1,
    ceiling: 4,
  });
  const policy = (...names: string[]): never =>
    ({ kind: 'e-process', guards: names.map(guard) }) as never;
  for (const [asked, measured] of [
    [undefined, []],
    [policy(), []],
    [policy('length'), []],
    [policy('length', 'slope'), ['slope']],
    [{ kind: 'none of ours' } as never, []], // beginning the gate says what is wrong with it
  ] as const)
    expect(() => requireMeasurable(asked, measured)).not.toThrow();
  expect(() => requireMeasurable(policy('length', 'slope', 'x', 'y'), ['x'])).toThrow(
    expect.objectContaining({
      code: 'INVALID_ARGUMENT',
      message: 'the trials of guard slope, y cannot be measured here',
    }) as never,
  );
});

test('a promotion goes one way, and its settings are of that way', () => {
  const said = (more: object): string => {
    try {
      promote.read({ adapter: 'x', as: 'sql', ...more });
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const taken of [
    { problems: 100_000, policy: 'p.json', lineage: 'foreign' },
    { open: true, policy: 'p.json', resume: true },
    { gate: 1, evidence: 'e.json' },
    { gate: 1, problems: 1, guards: 'g.json' },
    { gate: 1, canary: 1, probation: 1_000_000, wait: 0 },
    { force: true, wait: 86_400, transaction: 't', reason: 'r', threads: 1 },
    { as: 'sql@challenger' },
    { as: 'sql/solver/staging@shadow', resume: true, acceptClock: true },
  ])
    expect([taken, said(taken)]).toEqual([taken, '']);
  for (const [refused, ...words] of [
    [{}, 'as: sql@champion requires evidence'],
    [{ open: true, problems: 1 }, 'problems: cannot be combined with open'],
    [{ evidence: 'e.json' }, 'evidence: requires gate'],
    [{ open: true, gate: 1 }, 'gate: names an open gate, and cannot be combined with open'],
    [{ force: true, gate: 1 }, 'gate: names an open gate, and cannot be combined with force'],
    [{ gate: 1, problems: 1, policy: 'p.json' }, 'policy: only a new gate takes it'],
    [{ force: true, policy: 'p.json' }, 'policy: only a new gate takes it'],
    [{ gate: 1, guards: 'g.json' }, 'guards: requires gate and problems'],
    [{ problems: 1, guards: 'g.json' }, 'guards: requires gate and problems'],
    [{ as: 'sql@challenger', gate: 1 }, 'as: sql@challenger takes neither a gate nor force'],
    [{ as: 'sql@challenger', force: true }, 'as: sql@challenger takes neither a gate nor force'],
    [{ as: 'a b', force: true }, 'settings.as: "a b" is not an alias: give SCENARIO'],
    [{ force: true, policy: 'p.json', gate: 1 }, 'gate: ', '; policy: '],
  ] as const)
    for (const each of words)
      expect([refused, said(refused)]).toEqual([refused, expect.stringContaining(each)]);
  for (const [name, value] of [
    ...[['problems', 0] as const, ['problems', 100_001] as const, ['problems', 1.5] as const],
    ...[['canary', 0] as const, ['canary', 1.1] as const, ['probation', 0] as const],
    ...[['wait', -1] as const, ['wait', 86_401] as const, ['threads', 0] as const],
    ...[['gate', 0] as const, ['reason', 'r'.repeat(2001)] as const, ['transaction', ''] as const],
  ])
    expect([name, value, said({ [name]: value })]).toEqual([
      name,
      value,
      expect.stringContaining(`settings.${name}: `),
    ]);
});

test('conditions that are one under the settings are refused before any run, and what a condition changes is not set for all', async () => {
  const model = { name: 'tiny' };
  const refused = (settings: object, options: object): Promise<unknown> =>
    ablate({ model, ...settings }, { out: path.join(folder, 'ablation'), ...options }).then(
      () => null,
      (error: unknown) => error,
    );
  expect(
    await refused({ buffer: { accumulate: true } }, { conditions: ['no-accumulation'] }),
  ).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message:
      'buffer.accumulate: the condition no-accumulation changes this setting, so you cannot set it for every condition',
  });
  expect(await refused({ iterations: 1 }, { conditions: ['no-accumulation'] })).toMatchObject({
    code: 'CONDITIONS_EQUAL',
    message:
      'with these settings, the condition no-accumulation is the same as full: what it changes has no effect on the run',
    remedy:
      'Leave it out with --conditions, or use more than one iteration: the first has no earlier rollouts to train on.',
  });
  expect(
    await refused({}, { conditions: ['no-accumulation', 'random-layers'], seeds: [] }),
  ).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'an ablation needs a seed',
  });
});
