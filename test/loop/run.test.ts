/**
 * One small run through every stage, from the command line, and what the log and its verifiers make
 * of it.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { loadModel } from '../../src/index.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { openTask } from '../../src/tasks/open-task.js';
import { verifyRun } from '../../src/log/local-trust.js';
import type { LogRecord } from '../../src/log/read.js';
import { hashFile } from '../../src/engine/adapter.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import type { RunResult } from '../../src/training/result.js';
import { asFlags, LIBRARY, MAIN, runCli, runLines, type CliResult } from '../cli/run-cli.js';
import { logRecords } from '../models/log-records.js';
import { judgeLog } from '../models/judge-log.js';
import { LEARNS, ONE_TIER, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { writeDecoder } from '../models/decoders.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

let folder: string;
let home: string;
const file = (name: string): string => path.join(folder, name);
const SMALL = asFlags({ seed: 1, iterations: 3, ...LEARNS });
const command = (out: string, ...more: string[]): string[] => [
  'run',
  '--model',
  file('letters.gguf'),
  '--task',
  file('letters.mjs'),
  '--out',
  file(out),
  ...SMALL,
  ...more,
];
const run = (...args: string[]): ReturnType<typeof runCli> =>
  runCli(args, { ISOPRO_HOME: home, NO_COLOR: '1' });
/** One after the other in one process. */
const lines = (...all: string[][]): CliResult[] =>
  runLines(all, undefined, { ISOPRO_HOME: home, NO_COLOR: '1' });
const recordsOf = (name: string): LogRecord[] => logRecords(file(name));

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-run-'));
  home = file('home');
  process.env.ISOPRO_HOME = home;
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

describe('a run', () => {
  let result: RunResult;

  test('learns by selection, and prints the result that its log holds', async () => {
    const { code, stdout, stderr } = await run(
      ...command('whole', '--json', '--log-to', 'jsonl', 'tensorboard'),
    );
    expect(stderr).not.toMatch(/error/);
    expect(code).toBe(0);
    result = JSON.parse(stdout) as RunResult;
    expect(result.test.before.n).toBe(60);
    expect(result.test.after.byTier.L0!.mean).toBe(1);
    expect(result.test.after.byTier.L1!.mean).toBe(1);
    expect(result.test.pairedP).toBeLessThan(0.001);
    expect(result.trivialPolicies.always_c!.byTier.L1!.mean).toBe(1);
    expect(result.peakRssBytes).toBeGreaterThan(2 ** 20);
    expect(result.iterations.map(({ iteration }) => iteration)).toEqual([1, 2, 3]);
    expect(stderr).toMatch(/iteration 3: hit rate/);
    expect(stderr).toContain(
      `tensorboard --logdir ${path.join(file('whole'), 'trackers', 'tensorboard')}`,
    );
    const rows = readFileSync(
      path.join(file('whole'), 'trackers', 'jsonl', 'metrics.jsonl'),
      'utf8',
    )
      .trim()
      .split('\n');
    expect(rows.map((row) => JSON.parse(row) as Record<string, unknown>)).toMatchObject(
      result.iterations.map(({ iteration, loss, dev }) => ({
        step: iteration,
        'train/loss': loss,
        'eval/reward': dev.mean,
      })),
    );
  }, 300_000);

  test('leaves a folder whose log is complete, whose rules recompute, whose adapter is the one named', async () => {
    expect((await verifyRun(file('whole'), { streams: RUN_STREAMS, home })).outcome).toBe('ok');
    const { record } = await judgeLog(file('whole'), { home });
    expect(record.evaluations).toHaveLength(3);
    expect(await hashFile(result.adapter.file)).toBe(result.adapter.sha256);
    expect(readManifest(file('whole')).result).toEqual({ adapter: result.adapter.sha256 });
    expect(readdirSync(file('whole')).sort()).toEqual([
      'adapters',
      'checkpoints',
      'lock.sqlite',
      'log.sqlite',
      'manifest.json',
      'report.html',
      'trackers',
    ]);
    expect(readdirSync(path.join(file('whole'), 'checkpoints'))).toEqual([
      '0003-iteration',
      '0003-submitted',
    ]);
    expect(readFileSync(path.join(file('whole'), 'manifest.json'), 'utf8')).not.toContain(folder);
  });

  /** The judge, the command of the run again, and that with another setting. */
  let afterwards: CliResult[];
  let logBefore: Buffer;

  test('passes its judge, who evaluates the submitted adapter anew', () => {
    logBefore = readFileSync(path.join(file('whole'), 'log.sqlite'));
    afterwards = lines(
      [
        'judge',
        file('whole'),
        '--model',
        file('letters.gguf'),
        '--task',
        file('letters.mjs'),
        '--fresh',
        '5',
        '--json',
      ],
      command('whole', '--json'),
      command('whole', '--gate-level', '0.01'),
    );
    const { code, stdout, stderr } = afterwards[0]!;
    expect(code === 0 ? '' : stdout + stderr).toBe('');
    const report = JSON.parse(stdout) as { scores: { hard_fail: boolean; accuracy_score: number } };
    expect(report.scores.hard_fail).toBe(false);
    expect(report.scores.accuracy_score).toBeGreaterThan(0.5);
    rmSync(path.join(file('whole'), 'judge-trace.json'));
  }, 180_000);

  test('trains on passing, complete rollouts only, and never on a problem of an evaluation set', () => {
    const records = recordsOf('whole');
    const rollouts = records
      .filter(({ payload }) => payload.kind === 'rollout')
      .map(
        ({ payload }) =>
          payload as unknown as {
            verdict: { kind: string };
            finish: string;
            admission: string;
            tier: string;
            problemId: string;
          },
      );
    expect(rollouts).toHaveLength(192);
    const admitted = rollouts.filter(({ admission }) => admission === 'admitted');
    expect(admitted).toHaveLength(result.accepted);
    expect(
      admitted.every(({ verdict, finish }) => verdict.kind === 'pass' && finish === 'stop'),
    ).toBe(true);
    expect(
      rollouts.some(
        ({ admission, verdict }) => admission === 'duplicate' && verdict.kind === 'pass',
      ),
    ).toBe(true);
    expect(new Set(rollouts.map(({ tier }) => tier))).toEqual(new Set(['L0', 'L1']));
    const evaluated = new Set(
      records
        .filter(({ payload }) => payload.kind === 'held_out')
        .flatMap(({ payload }) => (payload.outcomes as unknown as [string][]).map(([id]) => id)),
    );
    expect(rollouts.some(({ problemId }) => evaluated.has(problemId))).toBe(false);
  });

  test('tells the format rate apart, from the single readings of its log', () => {
    const tests = recordsOf('whole').filter(
      ({ payload }) => payload.kind === 'held_out' && payload.set === 'test',
    );
    for (const [i, when] of (['before', 'after'] as const).entries()) {
      const { formed, outcomes } = tests[i]!.payload as unknown as {
        formed: boolean[];
        outcomes: [string, string, string][];
      };
      // three tiers of 20
      expect(result.test[when].format!.mean).toBeCloseTo(formed.filter(Boolean).length / 60, 12);
      expect(outcomes.every(([, , kind], at) => kind !== 'pass' || formed[at])).toBe(true);
      expect(result.test[when].lenient).toBeUndefined(); // the task has no such reading
    }
    expect(Object.keys(result.test.readings)).toEqual(['format']);
  });

  test('reads the test set once before and once after', () => {
    const tests = recordsOf('whole').filter(
      ({ payload }) => payload.kind === 'held_out' && payload.set === 'test',
    );
    expect(tests.map(({ payload }) => payload.when)).toEqual(['before', 'after']);
  });

  test('logs what it does in that order', () => {
    const kinds = recordsOf('whole').map(({ payload }) => payload.kind as string);
    const iteration = (first: string): string =>
      `(problem rollout )+${first}adapter_state dev_reply held_out step iteration rule_eval ` +
      '(decision effect adapter_state )?iteration_report checkpoint ';
    expect(kinds.filter((kind, i) => kind !== kinds[i - 1]).join(' ')).toMatch(
      new RegExp(
        `^session_start held_out dev_reply held_out policies checkpoint ${iteration('layers ')}(${iteration('')}){2}` +
          'submission held_out checkpoint nonce probe session_end$',
      ),
    );
  });

  test('tells what it cost, and each of its iterations, by what is logged', async () => {
    const records = recordsOf('whole').map(({ payload }) => payload as Record<string, unknown>);
    const of = <T>(kind: string): (T & { readonly iteration: number })[] =>
      records.filter((each) => each.kind === kind) as never;
    const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
    const rollouts = of<{ tokenIds: number[] }>('rollout');
    const steps = of<{ tokens: number }>('step');
    const evaluated = of<{ tokens: number[] }>('held_out');
    const states = of<{ digest: string }>('adapter_state');
    // a prompt counts once, however many samples it has: those of dev four times, of test twice
    await using task = await openTask(file('letters.mjs'));
    await using model = await loadModel(file('letters.gguf'), { threads: 1 });
    let prompts = sum(of<{ promptIds: number[] }>('problem').map((each) => each.promptIds.length));
    for (const [set, size, times] of [
      ['dev', 10, 4],
      ['test', 20, 2],
    ] as const)
      for (const problem of (await evaluationSet(task, set, size)).problems)
        prompts += times * model.renderChat(await task.prompt(problem, 'cot')).tokenIds.length;
    expect(result.tokens).toEqual({
      prompt: prompts,
      sampled:
        sum(rollouts.map(({ tokenIds }) => tokenIds.length)) +
        sum(evaluated.flatMap(({ tokens }) => tokens)),
      trained: sum(steps.map(({ tokens }) => tokens)),
    });
    expect(states[0]!.iteration).toBe(1); // the untrained adapter
    for (const { iteration, tokens, adapterId, steps: count, data } of result.iterations) {
      const own = <T extends { readonly iteration: number }>(all: readonly T[]): T[] =>
        all.filter((each) => each.iteration === iteration);
      expect(tokens).toEqual({
        sampled: sum(own(rollouts).map(({ tokenIds }) => tokenIds.length)),
        trained: sum(own(steps).map((step) => step.tokens)),
      });
      expect([own(steps).length, own(states).at(-1)!.digest]).toEqual([count, adapterId]);
      expect(own(states).length).toBeGreaterThanOrEqual(iteration === 1 ? 2 : 1);
      expect(data).toMatch(/^[0-9a-f]{64}$/);
    }
    expect(new Set(result.iterations.map(({ data }) => data)).size).toBe(3);
    const seconds = result.iterations.flatMap((each) => Object.values(each.seconds));
    expect(Math.min(...seconds)).toBeGreaterThan(0);
    expect(sum(seconds)).toBeLessThan(result.seconds);
  });

  test('given again on a finished folder gives the same result and changes nothing', () => {
    const before = logBefore;
    const { code, stdout } = afterwards[1]!;
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ ...result, nothingRun: true });
    expect(readFileSync(path.join(file('whole'), 'log.sqlite')).equals(before)).toBe(true);
  });

  (process.platform === 'win32' ? test.skip : test)(
    'names commands to go on with that work as they are printed, from a folder with a blank and a quote in its name',
    async () => {
      cpSync(file('whole'), file("it's my/whole"), { recursive: true });
      const { stdout } = await run(...command("it's my/whole"));
      const next = stdout
        .split('next:\n')[1]!
        .trim()
        .split('\n')
        .map((line) => line.trim());
      expect(next.map((line) => /npx isopro-native (\w+)/.exec(line)![1])).toEqual([
        'judge',
        'eval',
        'tasks',
      ]);
      for (const line of next) {
        // by a shell that has not been told where keys are kept
        const {
          status,
          stdout: said,
          stderr,
        } = spawnSync(
          'sh',
          ['-c', line.replaceAll('npx isopro-native', `"${process.execPath}" "${MAIN}"`)],
          {
            encoding: 'utf8',
            env: { ...process.env, ISOPRO_HOME: undefined, NO_COLOR: '1' },
          },
        );
        expect([line, status === 0 ? '' : stderr]).toEqual([line, '']);
        expect(said).toMatch(/PASS|greedy|"text":"[a-h]"/);
      }
      const evaluation = spawnSync(
        'sh',
        [
          '-c',
          `${next[1]!.replace('npx isopro-native', `"${process.execPath}" "${MAIN}"`)} --json`,
        ],
        {
          encoding: 'utf8',
        },
      );
      // on the run's own test problems, so with the run's own figures
      const { byTier, n, mean } = (
        JSON.parse(evaluation.stdout) as { accuracy: RunResult['test']['after'] }
      ).accuracy;
      expect({ byTier, n, mean }).toEqual({
        byTier: result.test.after.byTier,
        n: result.test.after.n,
        mean: result.test.after.mean,
      });
    },
    400_000,
  );

  (process.platform === 'win32' ? test.skip : test)(
    'has a report whose commands for this package and for Node give replies as they stand there',
    () => {
      cpSync(file('whole'), file('used'), { recursive: true });
      cpSync(file('letters.gguf'), file('used/MODEL.gguf'));
      const page = readFileSync(file('used/report.html'), 'utf8');
      const use = (id: string): string =>
        new RegExp(`data-use="${id}">([^<]*)<`)
          .exec(page)![1]!
          .replaceAll('&quot;', '"')
          .replaceAll('&#39;', "'")
          .replaceAll('&gt;', '>');
      const options = {
        cwd: file('used'),
        encoding: 'utf8',
        env: { ...process.env, NO_COLOR: '1' },
      } as const;
      const cli = spawnSync(
        'sh',
        ['-c', use('cli').replace('npx isopro-native', `"${process.execPath}" "${MAIN}"`)],
        options,
      );
      const library = pathToFileURL(LIBRARY).href;
      const node = spawnSync(
        process.execPath,
        ['--input-type=module', '-e', use('node').replace('isopro-native', library)],
        options,
      );
      expect([cli.stderr, node.stderr]).toEqual(['', '']);
      expect(cli.stdout).toMatch(/[a-h]/);
      expect(node.stdout).toMatch(/[a-h]/);
    },
  );

  test('with other settings on the same folder is refused by name', () => {
    const { code, stderr } = afterwards[2]!;
    expect(code).toBe(1);
    expect(stderr).toMatch(/RUN_DIFFERS.*settings\.evaluation\.gateLevel/s);
  });
});

test('what makes the model worse is rolled back on the dev problems, and the judge finds nothing wrong with that', () => {
  // the untrained model's greedy answer passes, and the control trains on everything else
  writeLetterTask(file('spoiled.mjs'), {
    verifier: "{ kind: answer === 'f' ? 'pass' : 'fail', violations: [], metrics: {} }",
    members: ONE_TIER,
  });
  const given = ['--model', file('letters.gguf'), '--task', file('spoiled.mjs')];
  const [spoiled, judged] = lines(
    [
      'run',
      ...given,
      '--out',
      file('spoiled'),
      ...SMALL,
      '--accept',
      'failing',
      '--patience',
      '9',
      '--json',
    ],
    ['judge', file('spoiled'), ...given, '--fresh', '5', '--json'],
  ) as [CliResult, CliResult];
  const { code, stdout, stderr } = spoiled;
  expect(code === 0 ? '' : stderr).toBe('');
  const { test: accuracy, iterations, adapter } = JSON.parse(stdout) as RunResult;
  expect(accuracy.before.mean).toBe(1);
  expect(iterations.some(({ gate, dev }) => gate?.rolledBack === true && dev.mean! < 0.7)).toBe(
    true,
  );
  expect(accuracy.after.mean).toBe(1);
  expect(adapter.iteration).toBeLessThan(3);
  const of = (kind: string): Record<string, unknown>[] =>
    recordsOf('spoiled').flatMap(({ payload }) => (payload.kind === kind ? [payload] : []));
  // all dev problems passed at first, and nothing was better since
  const [untrained] = of('adapter_state');
  expect(of('gate')).toEqual(
    iterations.flatMap(({ iteration, gate, dev }) =>
      gate?.rolledBack === true
        ? [
            {
              kind: 'gate',
              iteration,
              cause:
                `dev accuracy fell from 100.0 % to ${(100 * dev.mean!).toFixed(1)} %: ${gate.lost} problems lost, ` +
                `${gate.gained} gained, p = ${gate.p.toPrecision(2)}`,
              restored: untrained!.digest,
            },
          ]
        : [],
    ),
  );
  expect(judged.code === 0 ? '' : judged.stdout + judged.stderr).toBe('');
}, 300_000);

describe('what is wrong is said before anything is written', () => {
  const WRONG: readonly [string[], RegExp][] = [
    [['--no-such-flag'], /no-such-flag|Unknown argument/i],
    [['--layers', 'best'], /--layers/],
    [['--iterations', '0'], /--iterations/],
    [
      ['--seed', 'abc'],
      /^--seed: expected a whole number of 0 or more\nSee isopro-native run --help\.\n$/,
    ],
    [
      ['--seed', '-1'],
      /^--seed: expected a whole number of 0 or more\nSee isopro-native run --help\.\n$/,
    ],
    [['--rollouts', '2', '--samples', '4'], /--rollouts/],
    [['--algorithm', 'grpo', '--samples', '1'], /--samples/],
    [['--buffer', 'classic', '--steps-per-iteration', '3'], /--steps-per-iteration/],
    [['--layers', '0,1', '--top-layers', '2'], /--top-layers/],
  ];
  /** None of these runs comes to its second iteration. */
  const SHORT = asFlags({
    seed: 1,
    ...LEARNS,
    iterations: 1,
    rollouts: 16,
    devSize: 4,
    testSize: 2,
  });
  const of = (task: string, out: string, model = 'letters.gguf'): string[] => [
    'run',
    '--model',
    file(model),
    '--task',
    file(`${task}.mjs`),
    '--out',
    file(out),
  ];
  const UNTRAINABLE = [[[]], [['--dry-run']]] as const;
  const UNSTEADY = [
    ['dice', "{ kind: Math.random() < 0.5 ? 'pass' : 'fail' }"],
    ['moody', "{ kind: answer !== 'c' && globalThis.mood++ % 2 === 0 ? 'pass' : 'fail' }"],
  ] as const;
  const RUNS: readonly string[] = ['undecided', 'dice', 'moody', 'hopeless'];
  const said: CliResult[] = [];
  const untrainable: CliResult[] = [];
  const ended = new Map<string, CliResult>();
  beforeAll(() => {
    writeDecoder(file('decoder.gguf'), 'gpt2');
    writeLetterTask(file('undecided.mjs'), {
      verifier: "{ kind: 'none', violations: [], metrics: {}, reason: 'the oracle sleeps' }",
      members: ONE_TIER,
    });
    for (const [name, verifier] of UNSTEADY)
      writeLetterTask(file(`${name}.mjs`), {
        verifier,
        members: `${ONE_TIER}  start: (globalThis.mood = 0),\n`,
      });
    writeLetterTask(file('hopeless.mjs'), {
      verifier: "{ kind: 'fail', violations: [{ category: 'no', detail: 'no' }], metrics: {} }",
      members: ONE_TIER,
    });
    const results = lines(
      ...WRONG.map(([flags]) => [...of('letters', 'never'), ...flags]),
      ...UNTRAINABLE.map(([flags]) => [
        ...of('letters', 'never', 'decoder.gguf'),
        ...SHORT,
        ...flags,
      ]),
      ...RUNS.map((name) => [...of(name, name), ...SHORT, '--patience', '9']),
    );
    said.push(...results.splice(0, WRONG.length));
    untrainable.push(...results.splice(0, UNTRAINABLE.length));
    for (const [i, name] of RUNS.entries()) ended.set(name, results[i]!);
  }, 180_000);
  test.each(WRONG)('%j', (flags, message) => {
    const { code, stderr } = said[WRONG.findIndex(([each]) => each === flags)]!;
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(existsSync(file('never'))).toBe(false);
  });

  test.each(UNTRAINABLE)('a model that answers but cannot be trained: %j', (flags) => {
    const { code, stderr } = untrainable[UNTRAINABLE.findIndex(([each]) => each === flags)]!;
    expect(code).toBe(1);
    expect(stderr).toMatch(/error ARCH_UNSUPPORTED: .*"gpt2" can be run, but not trained/);
    expect(existsSync(file('never'))).toBe(false);
  });

  test('a verifier that never decides ends the run, and says why', () => {
    const { code, stderr } = ended.get('undecided')!;
    expect(code).toBe(1);
    expect(stderr).toMatch(/VERIFIER_UNDECIDED.*the oracle sleeps/s);
  });

  test('a task whose problems or verdicts come out otherwise the second time is refused before anything is trained', () => {
    for (const [name] of UNSTEADY) {
      const { code, stderr } = ended.get(name)!;
      expect(code).toBe(1);
      expect(stderr).toMatch(/TASK_INVALID.*"verify" is not deterministic/s);
      expect(stderr).not.toContain('iteration 1');
    }
    expect(existsSync(file('dice'))).toBe(false); // its policy's answers showed it
  });

  test('a run in which nothing is accepted ends with exit code 3 and a line', async () => {
    const { code, stdout } = ended.get('hopeless')!;
    expect(code).toBe(3);
    expect(stdout).toMatch(/nothing was trained/);
    expect((await verifyRun(file('hopeless'), { streams: RUN_STREAMS, home })).outcome).toBe('ok');
  });
});
