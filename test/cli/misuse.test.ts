/** Wrong usage: the nearest thing there is, in few lines. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { withContextRemedy } from '../../src/engine/context-overflow.js';
import { missingAddonRemedy } from '../../src/engine/addon.js';
import { wrongNumber } from '../../src/cli/misuse.js';
import { checkBatchRequest, checkRequest } from '../../src/engine/generate-request.js';
import { IsoproError } from '../../src/errors.js';
import { nearest } from '../../src/nearest.js';
import { readCheck } from '../../src/tasks/data/named-check.js';
import { openTask } from '../../src/tasks/open-task.js';
import { findTier } from '../../src/tasks/tier.js';
import { resolveSettings } from '../../src/training/settings.js';
import { MAIN, runLines } from './run-cli.js';

test('the nearest word is found through one slip in three letters, and a beginning is enough', () => {
  const names = [
    'run',
    'runs',
    'report',
    'eval',
    'judge',
    'mode',
    'model',
    'max-tokens',
    'toString',
  ];
  for (const [word, found] of [
    ['evl', 'eval'],
    ['modle', 'model'],
    ['jugde', 'judge'],
    ['rep', 'report'],
    ['max-token', 'max-tokens'],
    ['Run', 'run'],
    ['maxtokens', 'max-tokens'],
  ] as const)
    expect([word, nearest(word, names)]).toEqual([word, found]);
  for (const word of ['', 'xyz', 'constructor', 'e'.repeat(5000), '\u001b[2J'])
    expect(nearest(word, names)).toBeNull();
});

test('misspelt commands, actions, options and choices name the nearest; no error prints the help', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-misuse-'));
  // an app of its own version around the program
  writeFileSync(
    path.join(folder, 'package.json'),
    JSON.stringify({ name: 'app', version: '9.9.9' }),
  );
  const CASES: readonly (readonly [readonly string[], RegExp])[] = [
    [['jugde', 'x'], /^There is no command jugde; did you mean judge\?$/m],
    [['jugde', '--moddel', 'x'], /^There is no command jugde; did you mean judge\?$/m],
    [['models', 'inspct'], /^There is no command inspct; did you mean inspect\?$/m],
    [
      ['eval', '--max-tokenz', '5', '--perTeir=3'],
      /--max-tokenz; did you mean --max-tokens\?\n.*--per-teir; did you mean --per-tier\?$/m,
    ],
    [['run', '--iterations', 'abc'], /^--iterations takes a number, not abc$/m],
    [['run', '--rollouts', '0'], /^--rollouts: must be at least 1, not 0$/m],
    [
      ['run', '--top-p', '1.5', '--rank', '2.5'],
      /^--top-p: must be at most 1, not 1\.5\n--rank: must be a whole number, not 2\.5$/m,
    ],
    [['eval', '--set', 'tets'], /did you mean test\?$/m],
    [
      ['judge', 'x', '--held-out', 'afer'],
      /Argument: held-out, Given: "afer".*did you mean after\?$/m,
    ],
    [
      ['run', '--log-to', 'jsonl,tensorbord'],
      /Argument: log-to, Given: "tensorbord", .*"jsonl"; did you mean tensorboard\?$/m,
    ],
    [
      ['train', '--model', 'none', '--data', 'x', '--log-to', 'foo'],
      /Argument: log-to, Given: "foo", Choices: "trackio", "wandb", .*"jsonl"$/m,
    ],
    [['eval', '--no-such-flag'], /^There is no option --no-such-flag$/m],
    [
      ['generate', 'One, two or "three, four"?'],
      /^There is no argument One, two.*; give a prompt as --prompt TEXT$/m,
    ],
    [['task', 'check', 'x.csv'], /^There is no command task; did you mean tasks\?$/m],
    [['runn'], /^There is no command runn; did you mean run\?$/m],
    [['run', 'mails.csv'], /^There is no argument mails\.csv; did you mean --task mails\.csv\?$/m],
    [['chat', 'Hello there'], /^There is no argument Hello there; .*`generate --prompt TEXT`/m],
    [['judge'], /^An argument is missing: isopro-native judge <run>$/m],
  ];
  const said = runLines(
    CASES.map(([args]) => args),
    folder,
  );
  for (const [i, [args, message]] of CASES.entries()) {
    const { code, stdout, stderr } = said[i]!;
    expect([args, code, stdout]).toEqual([args, 2, '']);
    expect(stderr).toMatch(message);
    expect(stderr.trim().split('\n').length).toBeLessThanOrEqual(4);
  }
  const { version } = JSON.parse(readFileSync(path.resolve('package.json'), 'utf8')) as {
    version: string;
  };
  const started = spawnSync(process.execPath, [MAIN, '--version'], {
    cwd: folder,
    encoding: 'utf8',
  });
  expect(started.stdout.trim()).toBe(version);
  rmSync(folder, { recursive: true });
});

test('the remedy for a context that is too small is a larger one only where the model takes it', () => {
  const remedy = (message: string, limits: { contextTokens: number; trainedContext: number }) =>
    (withContextRemedy(new IsoproError('CONTEXT_OVERFLOW', message), limits) as IsoproError).remedy;
  const long =
    'prompt 0 has 900 tokens; with maxTokens 200 it needs 1100, more than the context of 1024';
  expect(remedy(long, { contextTokens: 1024, trainedContext: 4096 })).toMatch(
    /--context\) of at least 1100\. It was trained for 4096/,
  );
  expect(remedy(long, { contextTokens: 4096, trainedContext: 1024 })).toMatch(
    /trained for 1024 tokens, so a larger context does not help/,
  );
  expect(
    remedy(long.replace('1100', '9000'), { contextTokens: 1024, trainedContext: 4096 }),
  ).toMatch(/does not help/);
  expect(remedy('too long', { contextTokens: 1024, trainedContext: 4096 })).toMatch(
    /a larger contextTokens \(--context\)\. It was/,
  );
  const other = new IsoproError('ABORTED', 'x');
  expect(withContextRemedy(other, { contextTokens: 1, trainedContext: 1 })).toBe(other);
});

test('the remedy for a missing addon is a command that can be typed where the package is', () => {
  const app = path.join('/app', 'node_modules', 'isopro-native');
  expect(missingAddonRemedy(app, false)).toMatch(
    /--ignore-scripts.*npm rebuild isopro-native --foreground-scripts` in \/app;/,
  );
  expect(missingAddonRemedy(app, true)).toMatch(/built for another processor.*npm rebuild/);
  expect(missingAddonRemedy('/src/isopro-native', false)).toMatch(
    /It has not been built: run `npm run build:native` in \/src\/isopro-native/,
  );
  const published = mkdtempSync(path.join(tmpdir(), 'isopro-published-'));
  mkdirSync(path.join(published, 'prebuilds', 'plan9-mips'), { recursive: true });
  expect(missingAddonRemedy(published, false)).toMatch(
    /has an addon for plan9-mips, but this machine is .*Install from a clone/,
  );
  rmSync(published, { recursive: true });
});

test('a value that is none of those there are names the nearest, wherever it is read', async () => {
  const said = async (call: () => unknown): Promise<string> => {
    try {
      await call();
    } catch (error) {
      return (error as Error).message;
    }
    throw new Error('nothing was refused');
  };
  const settings = (given: object) => said(() => resolveSettings(given));
  for (const [message, meant] of [
    [await said(() => readCheck('choise')), 'choice'],
    [await said(() => readCheck('numbre:0.1')), 'number'],
    [await said(() => openTask('schedulling')), 'scheduling'],
    [await said(() => findTier('sql', [{ id: 'easy' }, { id: 'hard' }] as never, 'esay')), 'easy'],
    [await settings({ buffer: { kind: 'balancd' } }), 'balanced'],
    [await settings({ algorithm: { id: 'rtf' } }), 'rft'],
    [await settings({ layers: { choice: 'gradent' } }), 'gradient'],
    [await settings({ layers: { targets: ['q', 'gat'] } }), 'gate'],
  ] as const)
    expect(message).toMatch(new RegExp(`; did you mean ${meant}\\?$`));
  for (const message of [
    await said(() => readCheck('zzzzzz')),
    await settings({ iterations: 'three' }),
  ])
    expect(message).not.toMatch(/mean/);
});

test('a key of a request that is none says where it belongs, or names the nearest', () => {
  const said = (check: () => unknown): string => {
    try {
      check();
    } catch (error) {
      expect((error as IsoproError).code).toBe('INVALID_ARGUMENT');
      return (error as Error).message;
    }
    throw new Error('nothing was refused');
  };
  const batch = (given: object): string => said(() => checkBatchRequest({ prompt: 'x', ...given }));
  for (const key of ['temperature', 'topP', 'seed'])
    expect(batch({ [key]: 0 })).toBe(
      `request: there is no "${key}"; it belongs in sampling: { sampling: { ${key} } }`,
    );
  expect(batch({ maxToken: 5 })).toBe('request: there is no "maxToken"; did you mean maxTokens?');
  expect(batch({ sampling: { temprature: 0 } })).toBe(
    'request.sampling: there is no "temprature"; did you mean temperature?',
  );
  expect(batch({ zzzz: 0 })).toBe('request: there is no "zzzz"');
  expect(batch({ maxTokens: 0 })).toBe('request.maxTokens: must be at least 1, not 0');
  expect(said(() => checkRequest({ prompts: ['x'], temperature: 0 } as never))).toMatch(
    /; it belongs in sampling/,
  );
  expect(said(() => resolveSettings({ sampling: { rolouts: 8 } } as never))).toMatch(
    /there is no such setting; did you mean rollouts\?$/,
  );
});

test('a folder of runs, a run without its log and a page of the documentation are named as what helps', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-named-'));
  mkdirSync(path.join(folder, 'runs', 'first'), { recursive: true });
  writeFileSync(path.join(folder, 'runs', 'first', 'manifest.json'), '{}');
  writeFileSync(path.join(folder, 'rows.csv'), 'prompt,answer\na,1\nb\n');
  const [adapter, rows] = runLines(
    [
      ['eval', '--adapter', 'runs'],
      ['tasks', 'check', 'rows.csv'],
    ],
    folder,
  );
  expect(adapter!.stderr.replace(/\s+/g, ' ')).toMatch(
    /runs holds a run but no adapter .*Name a run: runs\/first/,
  );
  const page = /`([^`]+own-data\.md)`/.exec(rows!.stderr.replace(/\n {2,}/g, ''))![1]!;
  expect(readFileSync(path.resolve(folder, page), 'utf8')).toMatch(/^# /);
  rmSync(folder, { recursive: true });
});

test('what is no number is refused by what was typed', () => {
  const words = ['run', '--iterations', 'abc', '--rank=8', '--k=two'];
  expect(wrongNumber({ iterations: Number.NaN, rank: 8 }, words)).toBe(
    '--iterations takes a number, not abc',
  );
  expect(wrongNumber({ k: Number.NaN }, words)).toBe('--k takes a number, not two');
  expect(
    wrongNumber({ maxTokens: [1, Number.NaN] }, ['--max-tokens', '1', '--max-tokens', '2o']),
  ).toBe('--max-tokens takes a number, not 2o');
  expect(wrongNumber({ rank: 8, task: 'x', json: false, seed: undefined }, words)).toBeNull();
});

test('that the model which comes with the project cannot read rows of data is said by a run and by its plan', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-unread-'));
  const task = ['--task', 'absent.csv'];
  for (const { code, stderr } of runLines(
    [
      ['run', ...task],
      ['run', '--dry-run', ...task],
    ],
    folder,
  )) {
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /tiny only knows the task scheduling and no language, so it cannot answer rows of data: name another model with --model/,
    );
  }
  rmSync(folder, { recursive: true });
});
