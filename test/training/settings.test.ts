/**
 * The settings of a run are a contract: what a caller may write, what stands where nothing is
 * written, and how a refusal is worded. Bounds and defaults stand in settings.txt, one line a
 * setting, in the order of the help.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { Flags, type Field, type Flag } from '../../src/operations/flags.js';
import { RUN_FLAGS } from '../../src/operations/run-settings.js';
import {
  askingOptions,
  inUse,
  isResolved,
  layersAreNamed,
  mergeSettings,
  readSettingsFile,
  replaysRollouts,
  resolveSettings,
  runSettings,
  statedPaths,
  taskOptions,
  type RunSettingsInput,
} from '../../src/training/settings.js';
import { unshownExamples } from '../../src/training/example-hint.js';
import type { Parsed } from '../models/parsed.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-settings-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const FLAGS = new Flags(runSettings, RUN_FLAGS);
const statedFlags = (given: object): string[] => FLAGS.words(given);
const valueAt = (settings: object, flag: Flag): unknown => FLAGS.valueOf(settings, flag);

type Schema = Field & { readonly [keyword: string]: Parsed };
const limits = ({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): string =>
  [
    exclusiveMinimum === undefined ? `${minimum}` : `above ${exclusiveMinimum}`,
    exclusiveMaximum === undefined ? `${maximum}` : `below ${exclusiveMaximum}`,
  ].join(' to ');
const length = ({ minLength, maxLength }: Schema): string =>
  `${minLength} to ${maxLength ?? 'any'} characters`;
const words = (schema: Schema): string =>
  schema.enum?.join('|') ?? schema.pattern ?? length(schema);

/** What a setting takes. */
function taken(schema: Schema): string {
  switch (schema.type) {
    case 'boolean':
      return 'true or false';
    case 'array':
      return `${schema.minItems} to ${schema.maxItems ?? 'any'} of ${words(schema.items as Schema)}`;
    case 'string':
      return words(schema);
    default:
      return `${schema.type} ${limits(schema)}`;
  }
}

test('each setting takes what settings.txt says, and has its defaults, by profile where these differ', () => {
  const profiles = ['downloaded', 'small', 'embedded'] as const;
  const of = profiles.map((profile) => resolveSettings({ profile }));
  const lines = FLAGS.all.map((setting) => {
    const { name: flag, path: place, field } = setting;
    const values = of.map((settings) => JSON.stringify(valueAt(settings, setting)) ?? 'none');
    const same = values.every((value) => value === values[0]) || place === 'profile';
    const defaults = same
      ? [JSON.stringify(field.default) ?? 'none']
      : profiles.map((profile, i) => `${profile} ${values[i]}`);
    return `--${flag} ${place}: ${taken(field as Schema)}; ${defaults.join(', ')}`;
  });
  expect(`${lines.join('\n')}\n`.split('\n')).toEqual(
    readFileSync('test/training/settings.txt', 'utf8').split('\n'),
  );
});

const message = (given: unknown): string => {
  try {
    resolveSettings(given as RunSettingsInput);
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
  return 'taken';
};

test.each<[unknown, string]>([
  [null, 'settings: must be an object, not null'],
  [[], 'settings: must be an object'],
  [{ seed: String(2n ** 64n - 1n) }, ''],
  [{ seed: String(2n ** 64n) }, 'seed: expected a number below 2^64'],
  [{ seed: '1'.repeat(21) }, 'seed: expected a whole number of 0 or more'],
  [{ seed: 1.5 }, 'seed: must be a string, not 1.5'],
  [{ iteration: 3 }, 'iteration: there is no such setting; did you mean iterations?'],
  [
    { sampling: { rolouts: 3 } },
    'sampling.rolouts: there is no such setting; did you mean rollouts?',
  ],
  [{ seed: '1', sampling: { seed: '1' } }, 'sampling.seed: there is no such setting'],
  [{ optimiser: { rank: 3 } }, 'optimiser.rank: there is no such setting, it is layers.rank'],
  [{ wholly: 3 }, 'wholly: there is no such setting'],
  [
    { algorithm: { id: 'grp' } },
    'algorithm.id: must be "rft", "grpo" or "distill", not "grp"; did you mean grpo?',
  ],
  [
    { layers: { choice: 'activaton' } },
    'layers.choice: expected activation, gradient, last, random, all or layer numbers like 20,21,22; did you mean activation?',
  ],
  [
    { layers: { choice: '1,' } },
    'layers.choice: expected activation, gradient, last, random, all or layer numbers like 20,21,22',
  ],
  [{ answerTag: 'all ' }, 'answerTag: expected a name such as answer'],
  [{ answerTag: 'a'.repeat(31) }, ''],
  [{ answerTag: 'a'.repeat(32) }, 'answerTag: expected a name such as answer'],
  [{ sampling: { rollouts: 4, samples: 4 } }, ''],
  [
    { sampling: { rollouts: 3, samples: 4 } },
    'sampling.rollouts: 3 are fewer than the 4 samples of one problem',
  ],
  [
    { algorithm: { id: 'grpo', headroom: 0.1, fromBase: true } },
    'algorithm.fromBase: a setting of rft, but the algorithm is grpo; algorithm.headroom: a setting of distill, but the algorithm is grpo',
  ],
  [{ buffer: { kind: 'classic' } }, ''],
  [
    { buffer: { kind: 'classic', accumulate: false }, optimiser: { stepsPerIteration: 3 } },
    'optimiser.stepsPerIteration: it has no effect with the classic buffer, which uses everything once; ' +
      'buffer.accumulate: it cannot be false with the classic buffer, which keeps everything',
  ],
  [{ buffer: { accumulate: false }, optimiser: { stepsPerIteration: 3 } }, ''],
  [{ layers: { choice: 'all' } }, ''],
  [{ layers: { choice: 'all', topLayers: 2 } }, 'layers.topLayers: all layers are trained already'],
  [
    { layers: { choice: '1,2', topLayers: 2 } },
    'layers.topLayers: the layers are named and trained already',
  ],
  [{ layers: { choice: 'random', topLayers: 2 } }, ''],
  [{ profile: 'small', evaluation: { forgetting: 0 } }, ''],
  [{ evaluation: { forgetting: 1, maxForgetting: 1 } }, ''],
  [
    { evaluation: { forgetting: 0, maxForgetting: 1 } },
    'evaluation.maxForgetting: with evaluation.forgetting 0, forgetting is not measured',
  ],
])('%j: %s', (given, refusal) => {
  expect(message(given)).toBe(refusal === '' ? 'taken' : `INVALID_ARGUMENT: ${refusal}`);
});

test('settings are put one over the other by member; what is undefined is not stated, and a list is one value', () => {
  const merged = mergeSettings(
    { seed: 7, iterations: 2, layers: { rank: 3, targets: ['q', 'v'] } },
    { seed: 9n, layers: { rank: undefined, targets: ['k'], scale: 1 } } as never,
    { iterations: undefined, sampling: {} } as never,
  );
  expect(merged).toEqual({
    seed: '9',
    iterations: 2,
    layers: { rank: 3, targets: ['k'], scale: 1 },
    sampling: {},
  });
  expect(mergeSettings({ seed: 2 ** 60, iterations: 7n } as never)).toEqual({
    seed: 2 ** 60,
    iterations: 7n,
  });
  expect(mergeSettings({ model: 'tiny' } as never, { model: { threads: 1 } })).toEqual({
    model: { threads: 1 },
  });
  expect(mergeSettings({ model: { threads: 1 } }, { model: null } as never)).toEqual({
    model: null,
  });
  expect(
    statedPaths({
      seed: 7,
      check: undefined,
      layers: { rank: 3, scale: undefined },
      sampling: {},
    } as never),
  ).toEqual(['seed', 'layers.rank']);
});

describe('of resolved settings', () => {
  const whole = resolveSettings({ profile: 'small' });

  test('those that are whole are told from those that leave something to a default or a profile', () => {
    expect(isResolved(whole)).toBe(true);
    expect(isResolved({ ...whole, profile: 'auto' })).toBe(false);
    expect(isResolved({ ...whole, sampling: {} })).toBe(false);
    expect(isResolved({ ...whole, seed: 42 })).toBe(false);
    expect(isResolved({ ...whole, other: 1 } as never)).toBe(false);
  });

  test('a number of layers asks for the last ones, unless a choice is stated', () => {
    const layers = (given: RunSettingsInput['layers']): object =>
      resolveSettings({ profile: 'small', layers: given }).layers;
    expect(layers({ topLayers: 3 })).toMatchObject({ choice: 'last', topLayers: 3 });
    expect(layers({ topLayers: 3, choice: 'gradient' })).toMatchObject({
      choice: 'gradient',
      topLayers: 3,
    });
    expect(layers({ rank: 3 })).toMatchObject({ choice: 'all', rank: 3 });
    const named = ['all', '3', '3,14', 'last', 'random', 'activation', 'gradient'];
    expect(
      named.filter((choice) => layersAreNamed(resolveSettings({ layers: { choice } }))),
    ).toEqual(['all', '3', '3,14']);
  });

  test('the profile follows from the model where none is named', () => {
    const profile = (given: RunSettingsInput): string => resolveSettings(given).profile;
    expect([
      profile({}),
      profile({ model: { name: 'x.gguf' } }),
      profile({ profile: 'small' }),
    ]).toEqual(['embedded', 'downloaded', 'small']);
  });

  test('rft alone replays what it accepted', () => {
    const replays = (id: 'rft' | 'grpo' | 'distill'): boolean =>
      replaysRollouts(
        resolveSettings({ algorithm: { id, ...(id === 'distill' ? { teacher: 'x' } : {}) } }),
      );
    expect([replays('rft'), replays('grpo'), replays('distill')]).toEqual([true, false, false]);
  });

  test('a task gets what says how it is judged and asked, and its turns where they are not its own', () => {
    const asked = { system: 'Be brief.', examples: 2, stop: ['\n'], judgeTruncated: true };
    const data = { check: 'number', answerTag: 'answer', verifySeconds: 2 };
    const given = resolveSettings({ ...data, sampling: { ...asked, turns: 3 } });
    expect(askingOptions(given)).toEqual({ ...asked, ...data });
    expect(taskOptions(given)).toEqual({ ...asked, ...data, turns: 3 });
    expect(taskOptions(resolveSettings({}))).toEqual({});
  });

  test('what model and task have is in use; of a model that knows language, forgetting is measured by the tokens of the rollouts', () => {
    const info = { threads: 3, matmul: 'own' as const };
    const used = (vocabularySize: number, given: RunSettingsInput) =>
      inUse(resolveSettings(given), {
        model: { info: { ...info, vocabularySize } },
        task: { turns: 5 },
      });
    const large = used(4096, {
      iterations: 2,
      sampling: { rollouts: 100, maxTokens: 300 },
      evaluation: { gateLevel: 0.1 },
    });
    expect(large).toMatchObject({
      model: { ...info, maxSequences: 8 },
      sampling: { turns: 5, samples: 8 },
      evaluation: { gateLevel: 0.1 },
    });
    const measured = (tokens: number, vocabularySize = 4096): number | undefined =>
      used(vocabularySize, { iterations: 1, sampling: { rollouts: 8, maxTokens: tokens / 8 } })
        .evaluation.forgetting;
    // one of a thousand, from 25 to 200
    expect(large.evaluation.forgetting).toBe(60);
    expect([25_000, 25_008, 199_992, 200_008].map((tokens) => measured(tokens))).toEqual([
      25, 26, 200, 200,
    ]);
    expect([measured(8), measured(100_000, 4095)]).toEqual([25, 0]);
    expect(used(4095, { evaluation: { forgetting: 9 } }).evaluation.forgetting).toBe(9);
    expect(used(4096, { evaluation: { forgetting: 0 } }).evaluation.forgetting).toBe(0);
  });

  test('examples that were not shown are told of a language model, by the kind of the task', () => {
    const unshown = (given: RunSettingsInput): unknown =>
      unshownExamples(resolveSettings({ model: { name: 'x.gguf' }, ...given }));
    expect([unshown({}), unshown({ task: 'rows.csv' })]).toEqual(['problems', 'rows']);
    expect([unshown({ sampling: { examples: 1 } }), unshown({ model: { name: 'tiny' } })]).toEqual([
      null,
      null,
    ]);
  });
});

test('a command line says again what was stated, in the order of the help', () => {
  expect(
    statedFlags({
      evaluation: { gate: false, constrained: true },
      layers: { targets: ['q', 'v'], choice: '1' },
      seed: 7,
      model: { name: 'x.gguf' },
    }),
  ).toEqual([
    '--model=x.gguf',
    '--seed=7',
    '--targets=q',
    '--targets=v',
    '--layers=1',
    '--no-gate',
    '--constrained',
  ]);
  expect(statedFlags({})).toEqual([]);
});

test('a file of settings holds one object', () => {
  const file = path.join(folder, 'settings.json');
  const read = (text: string): object => {
    writeFileSync(file, text);
    return readSettingsFile(file);
  };
  expect(read('{"seed": "7"}')).toEqual({ seed: '7' });
  for (const text of ['[]', 'null', '"seed"', '7'])
    expect(() => read(text)).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        message: `${file} must hold one JSON object of settings`,
      }) as never,
    );
});
