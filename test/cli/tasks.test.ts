import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import type { GroundTruth } from '../../src/tasks/scheduling/grade.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { runLines, type CliResult } from './run-cli.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'isopro-cli-tasks-'));
afterAll(() => rmSync(folder, { recursive: true }));

const cli = (args: string[], input = ''): { code: number | null; out: string; err: string } => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, 'dist/program/main.js'), ...args],
    {
      input,
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1' },
    },
  );
  return { code: status, out: stdout, err: stderr };
};
const lines = <T>(text: string): T[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
const set = frozenSet<SchedulingProblem, GroundTruth>('scheduling', 'test').problems;
const answer = (schedule: Record<string, number>): string =>
  `<answer>${Object.entries(schedule)
    .map(([label, start]) => `${label}: ${start}`)
    .join(', ')}</answer>`;

const T4RD = ['tasks', 'generate', '--tier', 'T4rd', '--count', '3', '--seed', '9', '--json'];
const COINS = join(root, 'examples/custom-verifier.ts');
/** What needs no standard input, without a start for each. */
const LINES = {
  list: ['tasks', 'list'],
  listJson: ['tasks', 'list', '--json'],
  generated: T4RD,
  easy: ['tasks', 'generate', '--tier', 'T0'],
  frozen: ['tasks', 'generate', '--set', 'test', '--tier', 'T1', '--count', '100', '--json'],
  extract: ['tasks', 'generate', '--task', 'extract', '--count', '2', '--json'],
  ladder: ['tasks', 'generate', '--task', 'ladder', '--count', '2', '--json'],
  two: ['tasks', 'generate', '--count', '2', '--json'],
  baselines: ['tasks', 'baselines', '--count', '20', '--json'],
  baselinesText: ['tasks', 'baselines', '--count', '5'],
  convoy: ['tasks', 'baselines', '--task', 'convoy', '--set', 'dev', '--count', '20'],
  gate: ['bench', 'gate', '--campaigns', '4', '--json'],
  gateOfNone: ['bench', 'gate', '--campaigns', '0'],
  coins: ['tasks', 'baselines', '--task', COINS, '--count', '10', '--json'],
  coin: ['tasks', 'generate', '--task', COINS, '--tier', 'E1', '--json'],
} as const;
const WRONG: readonly [string[], number, string][] = [
  [['tasks'], 2, 'Name an action'],
  [['tasks', 'generate', '--tier', 'T9'], 1, 'TIER_UNKNOWN'],
  [['tasks', 'generate', '--task', 'nothing'], 1, 'TASK_UNKNOWN'],
  [['tasks', 'generate', '--task', './absent.ts'], 1, 'TASK_UNKNOWN'],
  [['tasks', 'generate', '--count', '0'], 2, '--count'],
  [['tasks', 'generate', '--seed', 'x'], 2, '--seed'],
  [['tasks', 'generate', '--seed', '18446744073709551616'], 2, '--seed'],
  [['tasks', 'generate', '--set', 'train'], 2, 'set'],
  [['tasks', 'verify', 'absent.jsonl'], 1, 'absent.jsonl'],
  [['tasks', 'verify', '--nonsense'], 2, 'nonsense'],
];
const said: CliResult[] = [];
beforeAll(() => {
  const all = [...Object.values(LINES), ...WRONG.map(([args]) => args)];
  said.push(...runLines(all, undefined, { NO_COLOR: '1' }));
}, 120_000);
const of = (name: keyof typeof LINES): { code: number | null; out: string } => {
  const { code, stdout } = said[Object.keys(LINES).indexOf(name)]!;
  return { code, out: stdout };
};

describe('isopro-native tasks', () => {
  test('list names tasks, tiers and the frozen sets', () => {
    const { tasks } = JSON.parse(of('listJson').out) as {
      tasks: {
        id: string;
        tiers: { id: string; trains: boolean }[];
        sets: { problems: number }[];
      }[];
    };
    const scenarios = [
      'grid_ctf',
      'othello',
      'irrigation',
      'convoy',
      'resource_trader',
      'othello-board',
    ];
    expect(tasks.map(({ id }) => id)).toEqual([
      'scheduling',
      'scheduling-classic',
      'extract',
      'ladder',
      'sql',
      ...scenarios,
    ]);
    expect(tasks[0]!.tiers.map(({ id }) => id)).toEqual([
      'T0',
      'T1',
      'T2',
      'T3',
      'T4sr',
      'T4rd',
      'T4sd',
      'T5',
    ]);
    expect(tasks[0]!.sets.map(({ problems }) => problems)).toEqual([800, 160]);
    expect(of('list').out).toContain('held out of training');
  });

  test('generate prints the same problems for the same seed, as JSON lines', () => {
    const first = cli(T4RD);
    expect(first.code).toBe(0);
    const rows = lines<{
      problem: SchedulingProblem;
      messages: { role: string; content: string }[];
    }>(first.out);
    expect(rows).toHaveLength(3);
    expect(new Set(rows.map(({ problem }) => problem.id)).size).toBe(3);
    for (const { problem, messages } of rows)
      expect([problem.tier, messages.length, messages[0]!.role]).toEqual(['T4rd', 1, 'user']);
    expect(of('generated').out).toBe(first.out);
    expect(of('easy').out).toContain('<answer>A: ?, B: ?, C: ?, D: ?</answer>');
  });

  test('generate --set prints the frozen problems', () => {
    const rows = lines<{ problem: SchedulingProblem }>(of('frozen').out);
    expect(rows.map(({ problem }) => problem)).toEqual(
      set.filter(({ problem }) => problem.tier === 'T1').map(({ problem }) => problem),
    );
  });

  test.each([
    ['extract', 5, 'json', (reference: object) => JSON.stringify(reference)],
    ['ladder', 12, 'line', (reference: string) => reference],
  ] as ['extract' | 'ladder', number, string, (reference: unknown) => string][])(
    '%s: problems of every tier, generated and frozen, go straight into verify',
    (task, tiers, form, reply) => {
      const made = lines<{ problem: { id: string; tier: string } }>(of(task).out);
      expect(new Set(made.map(({ problem }) => problem.tier)).size).toBe(tiers);
      const frozen = frozenSet(task, 'test').problems.filter((_, index) => index % 25 === 0);
      const input = [
        ...made.map(({ problem }) => ({ problem, text: 'I do not know.' })),
        ...frozen.map(({ problem, reference }) => ({
          problemId: problem.id,
          text: reply(reference),
        })),
      ];
      const { code, out } = cli(
        ['tasks', 'verify', '--task', task, '--feedback', '--json'],
        input.map((row) => JSON.stringify(row)).join('\n'),
      );
      expect(code).toBe(0);
      const verdicts = lines<{ kind: string; form: string | null }>(out);
      expect(verdicts.slice(0, made.length).map(({ kind }) => kind)).toEqual(
        made.map(() => 'fail'),
      );
      expect(verdicts.slice(made.length).map((verdict) => [verdict.kind, verdict.form])).toEqual(
        frozen.map(() => ['pass', form]),
      );
    },
  );

  test('generated problems go straight into verify; verdicts come out in order', () => {
    const rows = lines<{ problem: SchedulingProblem }>(of('two').out);
    const input = rows
      .map(({ problem }) =>
        JSON.stringify({
          problem,
          text: answer(Object.fromEntries(problem.jobs.map((job) => [job.label, 0]))),
        }),
      )
      .join('\n');
    const { code, out } = cli(['tasks', 'verify', '--json'], input);
    expect(code).toBe(0);
    const verdicts = lines<{
      problemId: string;
      kind: string;
      form: string;
      violations: { category: string }[];
    }>(out);
    expect(verdicts.map(({ problemId }) => problemId)).toEqual(
      rows.map(({ problem }) => problem.id),
    );
    for (const verdict of verdicts)
      expect([verdict.kind, verdict.form, verdict.violations.length > 0]).toEqual([
        'fail',
        'list',
        true,
      ]);
  });

  test('verify by id, with grades, trace and feedback', () => {
    const { problem, reference } = set.find(({ problem: { tier } }) => tier === 'T2')!;
    const file = join(folder, 'replies.jsonl');
    writeFileSync(
      file,
      [
        { problemId: problem.id, text: `Job A takes 99 steps.\n${answer(reference.schedule!)}` },
        { problemId: problem.id, text: answer(reference.schedule!), finish: 'length' },
        { problemId: problem.id, text: 'nothing' },
      ]
        .map((row) => JSON.stringify(row))
        .join('\n'),
    );
    const [json, text] = runLines([
      ['tasks', 'verify', file, '--grade', '--trace', '--feedback', '--json'],
      ['tasks', 'verify', file],
    ]);
    const [good, cut, none] = lines<{
      kind: string;
      grades: Record<string, string>;
      trace: unknown[];
      violations: { category: string }[];
      feedback: string;
    }>(json!.stdout);
    expect(good).toMatchObject({
      kind: 'pass',
      grades: { feasible: 'pass', epsilon0: 'pass', 'epsilon0.1': 'pass' },
      trace: [{ category: 'duration', claimed: '99' }],
    });
    expect(cut).toMatchObject({ kind: 'fail', violations: [{ category: 'truncated' }] });
    expect(none).toMatchObject({
      kind: 'fail',
      violations: [{ category: 'format' }],
      feedback: expect.stringContaining('<answer>'),
    });
    expect(text!.stdout).toContain('1 verdicts'.replace('1', '3'));
  });

  test('lines that cannot be judged are errors in their place, the others are judged, exit code 1', () => {
    const { problem, reference } = set[0]!;
    const good = { problemId: problem.id, text: answer(reference.schedule!) };
    const bad: [string, string][] = [
      ['{', 'INVALID_ARGUMENT'],
      ['[]', 'INVALID_ARGUMENT'],
      ['{"problemId":"x"}', 'INVALID_ARGUMENT'],
      ['{"text":"x"}', 'INVALID_ARGUMENT'],
      ['{"problemId":"x","text":"x"}', 'PROBLEM_INVALID'],
      ['{"problem":{},"text":"x"}', 'PROBLEM_INVALID'],
      [JSON.stringify({ problem: { ...problem, horizon: 99 }, text: '' }), 'PROBLEM_INVALID'],
      [
        JSON.stringify({
          problem: { ...problem, id: undefined, task: 'scheduling-classic' },
          text: '',
        }),
        'PROBLEM_INVALID',
      ],
      [
        JSON.stringify({
          problem: {
            ...problem,
            id: undefined,
            jobs: problem.jobs.map((job) => ({ ...job, after: ['A', 'B'] })),
          },
          text: '',
        }),
        'PROBLEM_INVALID',
      ],
    ];
    const { code, out } = cli(
      ['tasks', 'verify', '--json'],
      [JSON.stringify(good), ...bad.map(([text]) => text), JSON.stringify(good)].join('\n'),
    );
    expect(code).toBe(1);
    const rows = lines<{ line: number; kind?: string; error?: { code: string } }>(out);
    expect(rows.map((row) => row.kind ?? row.error!.code)).toEqual([
      'pass',
      ...bad.map(([, expected]) => expected),
      'pass',
    ]);
    expect(rows.map(({ line }) => line)).toEqual(rows.map((_, index) => index + 1));
  });

  test('baselines: every policy by tier with n and an interval, and the notes', () => {
    const { out, code } = of('baselines');
    expect(code).toBe(0);
    const { policies, notes } = JSON.parse(out) as {
      policies: Record<
        string,
        {
          mean: number;
          byTier: Record<
            string,
            { passed: number; n: number; none: number; mean: number; low: number; high: number }
          >;
        }
      >;
      notes: Record<string, string>;
    };
    expect(Object.keys(policies)).toEqual(
      expect.arrayContaining([
        'all-zeros',
        'random-start',
        'serial-alphabetical',
        'serial-dependency',
        'earliest-start',
        'list-alphabetical',
        'list-earliest-deadline',
      ]),
    );
    for (const { byTier } of Object.values(policies)) {
      expect(Object.keys(byTier)).toEqual([
        'T0',
        'T1',
        'T2',
        'T3',
        'T4sr',
        'T4rd',
        'T4sd',
        'T4',
        'T5',
      ]);
      for (const [tier, { passed, n, none, mean, low, high }] of Object.entries(byTier)) {
        expect([n, none]).toEqual([tier === 'T4' ? 60 : 20, 0]);
        expect(mean).toBeCloseTo(passed / n, 12);
        expect(low <= mean && mean <= high).toBe(true);
      }
    }
    expect(notes['earliest-start']).toContain('exact solver');
    expect(of('baselinesText').out).toContain('earliest-start: exact solver');
    const scored = of('convoy').out;
    expect(scored).toMatch(/mean score.*\n\n +match\nn +20\nrandom-valid +0\.\d{3}/);
    expect(scored).toContain(
      'valid: random-valid 100.0 % (84-100), best-constant 100.0 % (84-100), grid-search 100.0 % (84-100)',
    );
  });

  test("a user's task on the command line; what it prints does not reach stdout", () => {
    const file = join(folder, 'task.ts');
    writeFileSync(
      file,
      `console.log('noise');
export default {
  id: 'one', version: '1', tiers: [{ id: 'only' }],
  generate: () => ({ a: 1 }),
  prompt: () => [{ role: 'user', content: 'Say 1.' }],
  parse: (text: string) => ({ ok: true, answer: text, form: 'text' }),
  verify: (_: unknown, answer: string) => {
    if (answer === 'boom') throw new Error('boom');
    return { kind: answer === '1' ? 'pass' : 'fail' };
  },
};`,
    );
    const [row] = lines<{ problem: object }>(
      cli(['tasks', 'generate', '--task', file, '--json']).out,
    );
    const { out, code } = cli(
      ['tasks', 'verify', '--task', file, '--json'],
      ['1', '2', 'boom'].map((text) => JSON.stringify({ ...row, text })).join('\n'),
    );
    expect(code).toBe(0);
    expect(lines<{ kind: string }>(out).map(({ kind }) => kind)).toEqual(['pass', 'fail', 'none']);
  });

  test.each(WRONG)('%j exits with %i and says %s', (args, code, text) => {
    const { stdout, stderr, ...result } =
      said[Object.keys(LINES).length + WRONG.findIndex(([each]) => each === args)]!;
    expect([result.code, stdout]).toEqual([code, '']);
    expect(stderr).toContain(text);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

describe('isopro-native bench verify', () => {
  test('prints both rates as JSON', () => {
    const result = JSON.parse(cli(['bench', 'verify', '--json']).out) as Record<string, number>;
    expect(result.verdictsPerSecond).toBeGreaterThan(0);
    expect(result.generatedPerSecond).toBeGreaterThan(200);
  });
});

describe('isopro-native bench gate', () => {
  test('prints rates of false promotions and of power as JSON', () => {
    const result = JSON.parse(of('gate').out) as Record<string, unknown>;
    const rate = expect.any(Number);
    const rates = { null: rate, nearTie: rate, heavyTail: rate, drift: rate, clustered: rate };
    expect(result).toMatchObject({
      alpha: 0.05,
      campaigns: 4,
      falsePromotions: rates,
      naive: rates,
      peeking: rates,
    });
    expect(result.policies).toEqual({ 'e-process': rates, sign: rates, 'paired-t': rates });
    expect(result.power).toContainEqual(
      expect.objectContaining({ effect: 0.1, problems: 200, power: rate }),
    );
    expect(of('gateOfNone')).toEqual({ code: 2, out: '' });
  });
});

describe('examples', () => {
  test('quickstart-gce judges four answers in under five seconds', () => {
    const started = performance.now();
    const { status, stdout } = spawnSync(
      process.execPath,
      [join(root, 'dist/examples/quickstart-gce.js')],
      { encoding: 'utf8' },
    );
    expect(status).toBe(0);
    expect(performance.now() - started).toBeLessThan(5_000);
    expect(stdout).toMatch(
      /the oracle: pass[\s\S]*everything at once: fail[\s\S]*a hallucinated job: fail[\s\S]*an answer that only talks: fail/,
    );
  });

  test('custom-verifier is a task of under 100 lines that greedy solves in one tier and not in the other', () => {
    const { policies } = JSON.parse(of('coins').out) as {
      policies: Record<string, { byTier: Record<string, { mean: number }> }>;
    };
    expect([policies.greedy!.byTier.E0!.mean, policies.greedy!.byTier.E1!.mean]).toEqual([1, 0]);
    const [row] = lines<{ problem: { coins: number[]; amount: number } }>(of('coin').out);
    const { coins, amount } = row!.problem;
    const ways: number[][] = [[]];
    let fewest: number[] | undefined;
    while (fewest === undefined) {
      const way = ways.shift()!;
      const paid = way.reduce((total, coin) => total + coin, 0);
      if (paid === amount) fewest = way;
      else
        for (const coin of coins)
          if (paid + coin <= amount && (way.length === 0 || coin <= way.at(-1)!))
            ways.push([...way, coin]);
    }
    const replies = [
      `I pay <answer>${fewest.join(' + ')}</answer>`,
      `<answer>${new Array<number>(amount).fill(1).join('+')}</answer>`,
      `<answer>${amount - 1}</answer>`,
      '<answer></answer>',
    ];
    const verdicts = lines<{ kind: string }>(
      cli(
        ['tasks', 'verify', '--task', COINS, '--json'],
        replies.map((text) => JSON.stringify({ ...row, text })).join('\n'),
      ).out,
    );
    expect(verdicts.map(({ kind }) => kind)).toEqual(['pass', 'fail', 'fail', 'fail']);
  });
});
