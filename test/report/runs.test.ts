/**
 * `runs`, `report` and the curriculum example, from the command line, and the tables that they
 * print.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { testComparison, testRates } from '../../src/run-folder/comparison.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { readRun, testEvaluation } from '../../src/run-folder/read-run.js';
import { compareRuns } from '../../src/lookup/run-list.js';
import { findAdapter } from '../../src/lookup/adapters.js';
import { findRun, findRunOrPath } from '../../src/lookup/runs.js';
import { comparisonTable, resultTable } from '../../src/text/terminal.js';
import { terminalStyle } from '../../src/text/terminal-style.js';
import { strayEvaluation } from '../../src/run-folder/derived-figures.js';
import { mcnemarExact, summarise, type Summary } from '../../src/statistics/index.js';
import { shellWord } from '../../src/shell-word.js';
import { readResult } from '../../src/training/result.js';
import { CommandLines, MAIN, runCli, type CliResult } from '../cli/run-cli.js';
import { HOSTILE } from '../models/hostile.js';
import { writeRunFolder } from '../models/run-folder.js';

let root: string;
const at = (name: string): string => path.join(root, name);
let lines: CommandLines;
const cli = (...args: string[]): Promise<CliResult> => lines.run(args);
afterAll(() => lines.end());

beforeAll(async () => {
  root = mkdtempSync(path.join(tmpdir(), 'isopro-runs-'));
  lines = new CommandLines({ ISOPRO_HOME: at('home'), NO_COLOR: '1' }, root);
  mkdirSync(at('runs'));
  const write = (name: string, runId: string, options: object): Promise<unknown> =>
    writeRunFolder({
      folder: at(`runs/${name}`),
      home: at('home'),
      runId: runId.repeat(16),
      rollouts: 4,
      ...options,
    });
  await write('weak', 'a1', { skill: 0.2 });
  await write('strong', 'b2', { skill: 0.9, seed: 43n });
  await write('other', 'c3', { setName: 'another set' });
  await write('killed', 'd4', { until: 'iterations', iterations: 2 });
  mkdirSync(at('runs/broken'));
  writeFileSync(at('runs/broken/manifest.json'), '{"format": "something else"}');
  await write('forged', 'e5', {});
  writeFileSync(
    at('runs/forged/manifest.json'),
    readFileSync(at('runs/forged/manifest.json'), 'utf8').replace(
      '"version": "0.1.0"',
      '"version": "0.0.9"',
    ),
  );
  mkdirSync(at('runs/half'));
  writeFileSync(
    at('runs/half/manifest.json'),
    readFileSync(at('runs/weak/manifest.json'), 'utf8').replace(
      '"settings": {',
      String.raw`"settings": { "note": "\ud800",`,
    ),
  );
  mkdirSync(at('runs/circle'));
  symlinkSync('manifest.json', at('runs/circle/manifest.json'));
  await write('cut', 'f6', {});
  truncateSync(at('runs/cut/log.sqlite'), 100_000);
  rmSync(at('runs/cut/log.sqlite-wal'), { force: true });
}, 240_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('runs list', () => {
  test('names each run once, also one that is not finished and one that cannot be read', async () => {
    const { code, stdout } = await cli('runs', 'list', at('runs'), '--json');
    expect(code).toBe(0);
    const runs = stdout
      .trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as {
            folder: string;
            state: string;
            runId: string;
            after: number | null;
          },
      );
    expect(new Map(runs.map(({ folder, state }) => [path.basename(folder), state]))).toEqual(
      new Map([
        ['weak', 'ended'],
        ['strong', 'ended'],
        ['other', 'ended'],
        ['killed', 'unfinished'],
        ['broken', 'unreadable'],
        ['half', 'unreadable'],
        ['forged', 'damaged'],
        ['cut', 'damaged'],
      ]),
    );
    expect(runs.find(({ folder }) => folder.endsWith('strong'))!.after).toBeGreaterThan(0.5);
    expect(runs.find(({ folder }) => folder.endsWith('killed'))!.after).toBeNull();
  });

  test('in a terminal tells every folder apart, and what is wrong with some', async () => {
    const { code, stdout } = await cli('runs', 'list', at('runs'));
    expect(code).toBe(0);
    for (const name of ['weak', 'strong', 'other', 'killed', 'broken', 'forged', 'cut'])
      expect(stdout).toMatch(new RegExp(`^\\S+ +${name} `, 'm'));
    expect(stdout).toMatch(
      /forged: manifest\.json does not match the configuration at the start of the log/,
    );
    expect(stdout).toMatch(/cut: the log could not be read completely/);
    expect(stdout).toMatch(/broken: .*isopro\.run\.v1/);
    expect(stdout).toMatch(/half: .*manifest\.json is not readable JSON: .*lone surrogate/);
  });

  test('without a folder finds what --out put beside the runs, under a name that can be given', async () => {
    const listed = spawnSync(process.execPath, [MAIN, 'runs', 'list'], {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1' },
    });
    expect(listed.stdout).toMatch(/^a1a1a1a1 +weak +ended/m);
    expect(listed.stdout).not.toContain('mine');
    await writeRunFolder({
      folder: at('mine'),
      home: at('home'),
      runId: '9d'.repeat(16),
      until: 'start',
    });
    const again = spawnSync(process.execPath, [MAIN, 'runs', 'list'], {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1' },
    });
    expect(again.stdout).toMatch(/^9d9d9d9d +mine +unfinished/m);
    // stopped while it waited for its witness: it goes on with the same command, where a log that
    // is gone is a loss
    for (const file of ['log.sqlite', 'log.sqlite-wal', 'log.sqlite-shm'])
      rmSync(at(`mine/${file}`), { force: true });
    const stateOf = async () =>
      (
        JSON.parse(
          (await cli('runs', 'list', root, '--json')).stdout
            .split('\n')
            .find((line) => line.includes('mine'))!,
        ) as {
          state: string;
        }
      ).state;
    expect(await stateOf()).toBe('unfinished');
    mkdirSync(at('mine/checkpoints'), { recursive: true });
    writeFileSync(at('mine/checkpoints/1'), '');
    expect(await stateOf()).toBe('damaged');
    expect(again.stdout.match(/a1a1a1a1/g)).toHaveLength(1);
    rmSync(at('mine'), { recursive: true });
    const none = spawnSync(process.execPath, [MAIN, 'runs', 'list'], {
      cwd: at('home'),
      encoding: 'utf8',
    });
    expect(none.stdout).toMatch(/^No runs in runs or in a subfolder of this one/);
  });

  test('of a folder without runs is empty', async () => {
    expect(await cli('runs', 'list', at('home'), '--json')).toMatchObject({ code: 0, stdout: '' });
  });
});

test('an adapter is named by its path, or by the run that submitted it', () => {
  const { file, run } = findAdapter('b2b2', at('runs'));
  expect(path.dirname(file)).toBe(at('runs/strong/adapters'));
  expect(run!.manifest.result!.adapter).toBe(path.basename(file, '.gguf'));
  expect(findAdapter(at('runs/strong')).file).toBe(file);
  for (const target of [at('home'), 'absent.gguf', './absent', at('absent')])
    expect(findAdapter(target)).toEqual({ file: target, run: null });
  expect(() => findAdapter('ffff', at('runs'))).toThrow(
    expect.objectContaining({ code: 'RUN_NOT_FOUND' }),
  );
  // the command that goes on is the run's, and not the one that asks for the adapter
  expect(() => findAdapter(at('runs/killed'))).toThrow(
    expect.objectContaining({
      code: 'INVALID_ARGUMENT',
      remedy: expect.stringContaining(
        `\`isopro-native run … --out ${shellWord(at('runs/killed'))}\``,
      ),
    }),
  );
});

describe('runs show', () => {
  test('by the beginning of its id or by its folder', async () => {
    expect(findRun('b2b2', at('runs'))).toBe(at('runs/strong'));
    expect(findRun(at('runs/weak'), at('runs'))).toBe(at('runs/weak'));
    // the beginning of a name or an id, behind the folder that it is in
    expect(findRun(at('runs/b2b2'), at('elsewhere'))).toBe(at('runs/strong'));
    expect(findRunOrPath(at('runs/stro'), at('elsewhere'))).toBe(at('runs/strong'));
    expect(findAdapter(at('runs/b2b2'), at('elsewhere')).run?.folder).toBe(at('runs/strong'));
    for (const none of [at('runs'), at('runs/ffff')])
      expect(() => findRun(none, at('elsewhere'))).toThrow(
        expect.objectContaining({ code: 'RUN_NOT_FOUND' }),
      );
    expect(() => findRun('', at('runs'))).toThrow(
      expect.objectContaining({ code: 'RUN_NOT_FOUND' }),
    );
    expect(() => findRun('ffff', at('runs'))).toThrow(
      expect.objectContaining({ code: 'RUN_NOT_FOUND' }),
    );
    const { code, stdout } = await cli('runs', 'show', at('runs/strong'));
    expect(code).toBe(0);
    expect(stdout).toMatch(/tier +n +before +95 % +after +95 % +change +p/);
    expect(stdout).toMatch(/trivial policies.*earliest_start/s);
    expect(stdout).toMatch(/iteration 6: hit rate/);
    expect(stdout).not.toContain('\u001b');
  });

  test('as JSON holds the test by tier and the integrity', async () => {
    const shown = JSON.parse((await cli('runs', 'show', at('runs/strong'), '--json')).stdout) as {
      test: { comparison: { p: number; byTier: Record<string, unknown> } };
      integrity: { outcome: string };
    };
    expect(shown.integrity.outcome).toBe('ok');
    expect(Object.keys(shown.test.comparison.byTier)).toContain('T4');
    expect(shown.test.comparison.p).toBeLessThan(0.01);
  });
});

test('runs show where the key is not at hand says that, and not that anything was tampered with', async () => {
  const { code, stdout } = await runCli(['runs', 'show', at('runs/strong')], {
    ISOPRO_HOME: at('another home'),
    NO_COLOR: '1',
  });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^ended: .*; log not checked\nnot checked: .*key/m);
});

describe('what a user names', () => {
  const runs = (): string => at('runs');
  test('a run whose whole name is given is not taken for the beginning of another', async () => {
    await writeRunFolder({
      folder: at('more/weak'),
      home: at('home'),
      runId: '0a'.repeat(16),
      until: 'start',
    });
    await writeRunFolder({
      folder: at('more/weaker'),
      home: at('home'),
      runId: '0b'.repeat(16),
      until: 'start',
    });
    expect(findRun('weak', at('more'))).toBe(at('more/weak'));
    expect(findRunOrPath('0b', at('more'))).toBe(at('more/weaker'));
    expect(() => findRun('0', at('more'))).toThrow(
      expect.objectContaining({
        code: 'RUN_NOT_FOUND',
        message: expect.stringMatching(/2 runs in .*weak, .*weaker/),
      }),
    );
    for (const nowhere of ['nowhere', at('nowhere')])
      expect(findRunOrPath(nowhere, at('more'))).toBe(nowhere);
  });

  test('a run of an ablation: by the names of both folders, or a beginning of them that is one run’s', async () => {
    const nested = (name: string): string => at(path.join('nested', name));
    await writeRunFolder({
      folder: nested('abl/full-42'),
      home: at('home'),
      runId: '1a'.repeat(16),
    });
    await writeRunFolder({
      folder: nested('abl/frozen-42'),
      home: at('home'),
      runId: '1b'.repeat(16),
      until: 'start',
    });
    await writeRunFolder({
      folder: nested('able'),
      home: at('home'),
      runId: '1c'.repeat(16),
      until: 'start',
    });
    await writeRunFolder({
      folder: nested('a/b/c'),
      home: at('home'),
      runId: '1d'.repeat(16),
      until: 'start',
    }); // no run of the list
    symlinkSync(nested('abl'), nested('linked'), 'dir');
    symlinkSync(nested('able'), nested('abl/linked'), 'dir');
    const found = (target: string): string => findRun(target, at('nested'));
    for (const target of ['abl/full-42', 'abl/fu', '1a1a'])
      expect(found(target)).toBe(nested('abl/full-42'));
    expect(found('able')).toBe(nested('able'));
    expect(() => found('abl/')).toThrow(
      expect.objectContaining({ message: expect.stringContaining('matches 2 runs') }),
    );
    for (const none of [
      'full-42',
      'linked/full-42',
      'abl/linked',
      '../runs/strong',
      'abl/../able',
      'a/b/c',
      '1d1d',
    ])
      expect(() => found(none)).toThrow(expect.objectContaining({ code: 'RUN_NOT_FOUND' }));
    const { adapter } = readManifest(nested('abl/full-42')).result!;
    expect(findAdapter('abl/full', at('nested')).file).toBe(
      nested(`abl/full-42/adapters/${adapter}.gguf`),
    );
    expect(findAdapter('abl/none.gguf', at('nested'))).toEqual({
      file: 'abl/none.gguf',
      run: null,
    });
    const { stdout } = await cli('runs', 'list', at('nested'));
    for (const name of ['abl/full-42', 'abl/frozen-42', 'able'])
      expect(stdout).toMatch(new RegExp(`^\\S+ +${name} `, 'm'));
    expect(stdout).not.toMatch(/linked|a\/b/);
  });

  test('an adapter: by its file, its run, the id of that, or the folder that holds it', () => {
    const { adapter } = readManifest(at('runs/strong')).result!;
    const file = path.join('adapters', `${adapter}.gguf`);
    for (const target of [at('runs/strong'), at('runs/strong/adapters'), 'b2b2', 'strong'])
      expect(path.resolve(findAdapter(target, runs()).file)).toBe(
        at(path.join('runs/strong', file)),
      );
    mkdirSync(at('peft'));
    writeFileSync(at('peft/adapter_config.json'), '{}');
    for (const left of [at('runs/strong/manifest.json'), at('peft'), at('runs')])
      expect(findAdapter(left, runs())).toEqual({ file: left, run: null });
    mkdirSync(at('one'));
    writeFileSync(at('one/mine.gguf'), '');
    expect(findAdapter(at('one'))).toEqual({ file: at('one/mine.gguf'), run: null });
    writeFileSync(at('one/other.gguf'), '');
    expect(() => findAdapter(at('one'))).toThrow(
      expect.objectContaining({ message: expect.stringContaining('contains 2 GGUF files') }),
    );
  });

  test('a folder in which there is none is no run to any command', async () => {
    mkdirSync(at('empty'));
    for (const args of [
      ['generate', '--model', 'tiny', '--prompt', 'x', '--adapter', at('empty')],
      ['judge', at('empty')],
      ['report', at('empty')],
    ])
      expect([args[0], await cli(...args)]).toEqual([
        args[0],
        expect.objectContaining({ code: 1, stderr: expect.stringContaining('RUN_NOT_FOUND') }),
      ]);
  });

  test('is taken in every command that reads a run', async () => {
    const cwd = process.cwd();
    try {
      process.chdir(root);
      const { code, stdout } = await cli('log', 'show', 'b2b2', '--limit', '1');
      expect([code, stdout]).toEqual([0, expect.stringContaining('session_start')]);
      const commands = [
        'runs show',
        'runs compare b2b2',
        'report --out short.html',
        'log verify',
        'log export',
      ];
      for (const command of commands) {
        const { code: known } = await cli(...command.split(' '), 'b2b2');
        const { code: unknown, stderr } = await cli(...command.split(' '), 'e0e0e0');
        expect([command, known, unknown, stderr]).toEqual([
          command,
          0,
          1,
          expect.stringMatching(/NOT_FOUND|FILE_UNREADABLE/),
        ]);
      }
    } finally {
      process.chdir(cwd);
    }
  });
});

describe('runs compare', () => {
  test('pairs the final test outcomes problem by problem', async () => {
    const { comparison, differences } = compareRuns(at('runs/weak'), at('runs/strong'));
    const [a, b] = ['weak', 'strong'].map(
      (name) =>
        new Map(
          testEvaluation(readRun(at(`runs/${name}`)), 'after')!.outcomes.map(([id, tier, kind]) => [
            id,
            { tier, passed: kind === 'pass' },
          ]),
        ),
    );
    const gained = [...a!].filter(([id, { passed }]) => !passed && b!.get(id)!.passed).length;
    const lost = [...a!].filter(([id, { passed }]) => passed && !b!.get(id)!.passed).length;
    expect([comparison.n, comparison.gained, comparison.lost]).toEqual([160, gained, lost]);
    expect(comparison.p).toBeLessThan(1e-6);
    // the mean counts T4's three tiers as one
    const rate = (of: typeof a, tier: string): number =>
      [...of!.values()].filter((each) => each.tier === tier && each.passed).length / 20;
    const slots = [['T0'], ['T1'], ['T2'], ['T3'], ['T4sr', 'T4rd', 'T4sd'], ['T5']];
    const expected = slots.reduce(
      (sum, members) =>
        sum +
        members.reduce((of, tier) => of + (rate(b, tier) - rate(a, tier)) / members.length, 0) /
          slots.length,
      0,
    );
    expect(comparison.difference!.mean).toBeCloseTo(expected, 12);
    expect(comparison.difference!.low).toBeLessThan(expected);
    expect(comparison.difference!.high).toBeGreaterThan(expected);
    expect(differences).toContain('settings.seed');
    const back = compareRuns(at('runs/strong'), at('runs/weak')).comparison;
    expect([back.gained, back.lost, back.p]).toEqual([lost, gained, comparison.p]);
  });

  test('takes rows of one version for one task whatever their file is called, and no other task', () => {
    const renamed = (name: string, id: string, file: string | null): string => {
      cpSync(at(`runs/${name}`), at(`${id}/${name}`), { recursive: true });
      const manifest = readManifest(at(`runs/${name}`));
      const task = { id, version: '0269182574b0', file };
      writeFileSync(
        at(`${id}/${name}/manifest.json`),
        JSON.stringify({ ...manifest, start: { ...manifest.start, task } }),
      );
      return at(`${id}/${name}`);
    };
    const [rows, program] = ['0269182574b0'.padEnd(64, '0'), 'f'.repeat(64)];
    expect(
      compareRuns(renamed('weak', 'dup', rows), renamed('strong', 'clean', rows)),
    ).toMatchObject({ n: 160 });
    expect(() =>
      compareRuns(renamed('weak', 'one', program), renamed('strong', 'two', program)),
    ).toThrow(expect.objectContaining({ code: 'RUNS_NOT_COMPARABLE' }));
  });

  test('prints what differs, or JSON', async () => {
    const { stdout } = await cli('runs', 'compare', at('runs/weak'), at('runs/strong'));
    expect(stdout).toMatch(/they differ in: .*settings\.seed/);
    expect(stdout).toMatch(
      /b - a: \+\d+\.\d points, 95 % interval \+\d+\.\d to \+\d+\.\d; b solves/,
    );
    const json = JSON.parse(
      (await cli('runs', 'compare', at('runs/weak'), at('runs/strong'), '--json')).stdout,
    ) as {
      comparison: { n: number };
    };
    expect(json.comparison.n).toBe(160);
  });

  test('refuses runs on different problems, and one without an end', async () => {
    const { code, stderr } = await cli('runs', 'compare', at('runs/weak'), at('runs/other'));
    expect(code).toBe(1);
    expect(stderr).toMatch(/RUNS_NOT_COMPARABLE.*different problems/s);
    expect(() => compareRuns(at('runs/weak'), at('runs/killed'))).toThrow(
      expect.objectContaining({ code: 'RUNS_NOT_COMPARABLE' }),
    );
  });
});

test('evaluations are compared where the same problems of the same tiers stand in the same order', () => {
  type Problem = [string, string, 'pass' | 'fail'];
  const evaluation = (iteration: number, ...outcomes: Problem[]) => ({
    set: 'dev' as const,
    when: 'iteration' as const,
    iteration,
    outcomes,
  });
  const first = evaluation(1, ['a', 'T0', 'pass'], ['b', 'T1', 'fail']);
  const stray =
    'the dev evaluation of iteration 2 does not cover the same problems as the first one';
  expect(
    strayEvaluation([first, evaluation(2, ['a', 'T0', 'fail'], ['b', 'T1', 'pass'])]),
  ).toBeNull();
  expect(strayEvaluation([first, evaluation(2, ['b', 'T1', 'fail'], ['a', 'T0', 'pass'])])).toBe(
    stray,
  );
  expect(strayEvaluation([first, evaluation(2, ['a', 'T0', 'pass'], ['c', 'T1', 'fail'])])).toBe(
    stray,
  );
  expect(strayEvaluation([first, evaluation(2, ['a', 'T1', 'pass'], ['b', 'T1', 'fail'])])).toBe(
    stray,
  );
});

describe.each(['dev', 'test'] as const)(
  'an evaluation of fewer %s problems than the one before it',
  (set) => {
    const what = set === 'dev' ? 'of iteration 1' : 'after training';
    const defect = `the ${set} evaluation ${what} does not cover the same problems as the first one`;
    const folder = (): string => at(`stray/${set}`);
    beforeAll(() =>
      writeRunFolder({
        folder: folder(),
        home: at('home'),
        runId: (set === 'dev' ? 'd0' : 'e0').repeat(16),
        rollouts: 4,
        cutShort: { set, when: set === 'dev' ? 'iteration' : 'after' },
      }),
    );

    test('makes a log that gives no result', () => {
      expect(() => readResult(folder())).toThrow(
        expect.objectContaining({
          code: 'LOG_UNREADABLE',
          message: expect.stringContaining(defect),
        }),
      );
    });

    test('is named by every command that shows the run, beside the other runs', async () => {
      const listed = await cli('runs', 'list', at('stray'), '--json');
      expect(listed.code).toBe(0);
      const runs = listed.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { folder: string; state: string; reason: string });
      expect(runs.find((run) => run.folder === folder())).toMatchObject({
        state: 'damaged',
        reason: defect,
      });
      const shown = await cli('runs', 'show', folder());
      expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining(defect)]);
      expect((await cli('report', folder(), '--out', at(`${set}.html`))).code).toBe(0);
      expect(readFileSync(at(`${set}.html`), 'utf8')).toContain(defect);
    });
  },
);

test('report writes the page, also of a run that was killed, where it is told to', async () => {
  const { code, stdout } = await cli(
    'report',
    at('runs/killed'),
    '--json',
    '--out',
    at('killed.html'),
  );
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    file: at('killed.html'),
    runId: 'd4'.repeat(16),
    integrity: { outcome: 'unterminated' },
  });
  expect(existsSync(at('killed.html'))).toBe(true);
  expect((await cli('report', at('nothing'))).code).toBe(1);
});

test('the chart library is not loaded for --help', () => {
  const { stderr } = spawnSync(process.execPath, [MAIN, '--help'], {
    env: { ...process.env, NODE_DEBUG: 'esm' },
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  expect(stderr.length).toBeGreaterThan(1000); // it does list what it loads
  expect(stderr).not.toMatch(/echarts/);
});

test('watch-curriculum draws each iteration, as long as its buffer', () => {
  const example = fileURLToPath(
    new URL('../../dist/examples/watch-curriculum.js', import.meta.url),
  );
  const { status, stdout } = spawnSync(process.execPath, [example, at('runs/strong')], {
    encoding: 'utf8',
  });
  expect(status).toBe(0);
  const rows = [...stdout.matchAll(/^iteration +(\d+) +(\d+) (.*)$/gm)].map(
    ([, iteration, total, bar]) => ({
      iteration: Number(iteration),
      total: Number(total),
      length: [...bar!].length,
    }),
  );
  expect(rows.map(({ iteration }) => iteration)).toEqual([1, 2, 3, 4, 5, 6]);
  const longest = rows.at(-1)!;
  for (const { total, length } of rows)
    expect(Math.abs(length - (total / longest.total) * longest.length)).toBeLessThanOrEqual(1);
  expect(spawnSync(process.execPath, [example], { encoding: 'utf8' }).status).toBe(2);
});

describe('tables in a terminal', () => {
  test.each([40, 60, 80, 100, 200])('fit %d columns', (width) => {
    const run = readRun(at('runs/strong'));
    const [before, after, comparison] = [
      testEvaluation(run, 'before')!.summary,
      testEvaluation(run, 'after')!.summary,
      testComparison(run)!,
    ];
    const text = resultTable(
      {
        before,
        after,
        comparison,
        rates: testRates(run),
        policies: run.policies,
        forgetting: run.forgetting,
      },
      { width, color: false },
    );
    const table = text.split('\n').slice(1);
    for (const line of table.filter((each) => !each.startsWith('trivial')))
      expect([...line].length).toBeLessThanOrEqual(width);
    expect(text).toMatch(/^tier +n +before/m);
    // the task's order, not the alphabet's
    expect(text.indexOf('T3')).toBeLessThan(text.indexOf('T4sr'));
  });

  test('has one row and one interval where there is one tier, which is the mean', () => {
    const verdicts = (passed: number) =>
      Array.from(
        { length: 15 },
        (_, i) => ({ tier: 'all', kind: i < passed ? 'pass' : 'fail' }) as const,
      );
    const [before, after] = [verdicts(3), verdicts(6)].map((all) =>
      summarise(all, [{ id: 'all' }], { seed: 1n }),
    ) as [Summary, Summary];
    const { low, high } = before.byTier.all!;
    expect([before.low, before.high]).toEqual([low, high]);
    const pair = { n: 15, gained: 3, lost: 0, p: 0.25 };
    const text = comparisonTable(
      before,
      after,
      { ...pair, difference: null, readings: {}, byTier: { all: pair } },
      ['before', 'after'],
      {
        width: 100,
        color: false,
      },
    );
    expect(text.split('\n').map((line) => line.trim().split(/ {2,}/)[0])).toEqual(['tier', 'all']);
    expect(text).toMatch(/^all +15 +20\.0 +7\.0[–-]45\.2 +40\.0/m);
  });

  test('colour only on a terminal, and not where NO_COLOR is set', () => {
    expect(terminalStyle({ isTTY: true, columns: 120 }, {})).toEqual({
      width: 120,
      color: true,
      prose: 120,
    });
    expect(terminalStyle({ isTTY: true, columns: 120 }, { NO_COLOR: '1' }).color).toBe(false);
    expect(terminalStyle({}, {})).toEqual({ width: 100, color: false });
  });

  test('and a result have one p, also where a group of tiers counts as one', () => {
    const [run, { test: result }] = [readRun(at('runs/weak')), readResult(at('runs/weak'))];
    const comparison = testComparison(run)!;
    expect(result).toMatchObject({
      pairedP: comparison.p,
      gained: comparison.gained,
      lost: comparison.lost,
    });
    expect(comparison.p).not.toBe(mcnemarExact(comparison.gained, comparison.lost));
    for (const { name, change } of testRates(run)) {
      const own = name === 'constrained' ? result.constrained : result.readings[name];
      expect(own?.pairedP).toBe(change?.p);
    }
  });

  test('names cannot steer it', () => {
    const summary = { mean: 0.5, low: 0.4, high: 0.6, n: 2, none: 0, passed: 1 };
    const byTier = Object.fromEntries(
      HOSTILE.filter((name) => name !== '__proto__').map((name) => [name, summary]),
    );
    const pair = { n: 2, gained: 1, lost: 0, p: 1 };
    const text = comparisonTable(
      { ...summary, valid: true, byTier },
      { ...summary, valid: true, byTier },
      {
        ...pair,
        difference: null,
        readings: {},
        byTier: Object.fromEntries(Object.keys(byTier).map((name) => [name, pair])),
      },
      [HOSTILE[9], 'b'],
      { width: 200, color: false },
    );
    expect(text).not.toMatch(/(?!\n)[\p{Cc}\u202a-\u202e]/u);
  });
});
