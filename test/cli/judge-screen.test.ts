/** What `judge` prints, of reports that a judge could give. */
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { judgeText, STEP_TITLES } from '../../src/cli/judge/judge-screen.js';
import { STEPS } from '../../src/judge/steps.js';
import type { JudgeReport } from '../../src/judge/judge.js';
import type { Summary } from '../../src/statistics/index.js';

const FILE = { width: 100, color: false };
const summary = (mean: number): Summary => ({
  mean,
  low: 0.1,
  high: 0.9,
  n: 1900,
  none: 0,
  valid: true,
  byTier: {},
});
const comparison = (mean: number): NonNullable<NonNullable<JudgeReport['heldOut']>['before']> =>
  ({
    measured: { ...summary(mean), byTier: { T0: { ...summary(mean), passed: 1 } } },
    claimed: summary(mean),
    differing: 0,
    p: 1,
    unverified: 0,
    figures: [],
    readings: [],
    failures: { measured: null, differing: null },
  }) as never;
const change = (mean: number, p: number) => ({
  difference: { mean, low: mean - 0.1, high: mean + 0.1 },
  p,
});
const report = (more: Partial<JudgeReport> = {}): JudgeReport => ({
  format: 'isopro.judge.v1',
  folder: 'runs/first',
  runId: 'ab'.repeat(16),
  verdict: 'pass',
  failure: null,
  scores: {
    process_score: 0.75,
    process_axis_exercised: true,
    obligations: 4,
    violations: 1,
    distinct_rules_fired: 2,
    process_lower_bound: 0.3,
    accuracy_score: 0.5 / 0.92,
    hard_fail: false,
    failed_step: null,
  },
  trust: {
    key: 'name+hash+key',
    ownedByThisUser: true,
    signer: 'witness',
    ticket: null,
    sameMachineClass: true,
  },
  notVerified: [],
  unverified: 0,
  fresh: null,
  heldOut: {
    ...{ before: comparison(0.1), after: comparison(0.5), change: change(0.4, 0.001) },
    policies: { trivial: summary(0), better: summary(0.91) },
  } as never,
  forgetting: null,
  failures: null,
  violations: [{ kind: 'missing', rule: 'R3', iteration: 4, detail: 'no answer' }] as never,
  policy: 'scripted',
  ruleSettings: [],
  deciders: null,
  steps: STEPS.map(({ step, name, kind }) => ({
    step,
    name,
    kind,
    status: 'pass' as const,
    durationMs: 3,
    detail: `what was found at ${name}, in some detail, of which there is more than a terminal of 80 columns has room for`,
  })),
  ...more,
});

test('the steps are numbered from 1 in the order in which they run, each on one line that says what is compared', () => {
  const lines = judgeText(report(), 0.92, FILE).split('\n');
  const steps = lines.filter((line) => /^ *\d+ {2}pass /.test(line));
  expect(steps.map((line) => Number(line.slice(0, 2)))).toEqual(STEPS.map((_, i) => i + 1));
  for (const [i, { name }] of STEPS.entries()) {
    expect(steps[i]).toContain(STEP_TITLES[name]);
    expect(steps[i]).toContain(`what was found at ${name}`);
  }
});

test('a score stands beside the division that gives it', () => {
  const text = judgeText(report(), 0.92, FILE);
  const [, score, measured, target] =
    /^accuracy score +([\d.]+) = ([\d.]+) % of the test problems .* \/ ([\d.]+) %/m.exec(text)!;
  expect(Number(score)).toBeCloseTo(Number(measured) / Number(target), 3);
  const [, process, broken, obligations] =
    /^process score +([\d.]+) = 1 - (\d+) violation \/ (\d+) obligations/m.exec(text)!;
  expect(Number(process)).toBe(1 - Number(broken) / Number(obligations));
  expect(
    judgeText(report({ scores: { ...report().scores, accuracy_score: 1 } }), 0.4, FILE),
  ).toMatch(/= 50\.0 % .* 40 % .*at most 1$/m);
  const few = {
    ...report().scores,
    process_score: null,
    process_axis_exercised: false,
    obligations: 1,
  };
  expect(judgeText(report({ scores: few }), 0.92, FILE)).toMatch(
    /^process score +none: .*too few to score.*which is normal$/m,
  );
});

test('why test replies and rollouts did not pass stands in tables of their own, as judged here', () => {
  const why = (passed: number) => {
    const example = {
      problemId: 'p',
      tier: 'L0',
      text: 'seven\nor eight',
      asked: 'how many are there?',
      right: '7',
    };
    return {
      replies: 20,
      passed,
      rows: [{ kind: 'wrong' as const, why: 'too-many', count: 20 - passed, example }],
    };
  };
  const after = { ...comparison(0.5), failures: { measured: why(10), differing: 0 } };
  const heldOut = { before: comparison(0.1), after, policies: {} } as never;
  const text = judgeText(report({ heldOut, failures: why(4) }), 0.92, {
    width: 80,
    prose: 80,
    color: false,
  });
  expect(text).toMatch(
    /^why 10 of 20 test replies after training, judged here, did not pass: category,\ncount, reason, an example$/m,
  );
  expect(text).toMatch(
    /^why 16 of 20 rollouts, judged here, did not pass: category, count, reason, an\nexample$/m,
  );
  expect(text.match(/^ {2}wrong {2}1[06] {2}too-many$/gm)).toHaveLength(2);
  expect(text).toContain(
    String.raw`asked "how many are there?", said "seven\nor eight", right "7"`,
  );
  for (const line of text.split('\n')) expect([line, line.length <= 80]).toEqual([line, true]);
});

test('the best program without a model comes first', () => {
  expect(judgeText(report(), 0.92, FILE)).toMatch(
    /programs without a model.*\n {2}better .*91\.0 %.*\n {2}trivial /,
  );
});

test('the verdict is on the log: what the run did to the model stands before it, and what was not looked at after it', () => {
  const ends = (
    before: number,
    after: number,
    more: Partial<JudgeReport> = {},
    p = 0.001,
    mean = after - before,
  ): string => {
    const heldOut = {
      before: comparison(before),
      after: comparison(after),
      change: change(mean, p),
      policies: {},
    } as never;
    return judgeText(report({ heldOut, ...more }), 0.92, FILE)
      .trimEnd()
      .split('\n')
      .slice(-2)
      .join('\n');
  };
  expect(ends(0.1, 0.5)).toMatch(
    /^The run made the model better: 50\.0 % .* 10\.0 % before\.\nPASS: the log is intact.* above$/,
  );
  expect(ends(0.5, 0.1)).toMatch(
    /^The run made the model worse: 10\.0 % .* 50\.0 % before\.\nPASS: /,
  );
  // by the one rule of a run's sentence: what may be chance is no claim, whichever way it goes
  for (const [before, after, p, mean] of [
    [0.5, 0.46, 0.3, -0.04],
    [0.46, 0.5, 0.05, 0.04],
    [0.5, 0.4, 0.001, 0.02], // the problems that were decided twice went the other way
    [0.4, 0.5, 0.001, 0],
  ] as const)
    expect(ends(before, after, {}, p, mean)).toMatch(
      / solved after the run, .* before: a difference that may be chance\.\nPASS: /,
    );
  expect(ends(0.5, 0.5)).toMatch(/^The run changed nothing .* 50\.0 % .* as before\.\nPASS: /);
  const steps = report().steps.map((step) =>
    step.name === 'test_set_evaluation' ? { ...step, status: 'skipped' as const } : step,
  );
  const scores = { ...report().scores, accuracy_score: null };
  expect(ends(0.1, 0.5, { steps, scores, heldOut: null })).toMatch(
    /\nPASS: .* above\. Not checked: test problems, answered here again$/,
  );
});

test('a failure is named by the number that its line has', () => {
  const steps = report().steps.map((step) =>
    step.name === 'adapter_loads' ? { ...step, status: 'hard_fail' as const } : step,
  );
  const failed = report({
    verdict: 'hard_fail',
    failure: { step: 3, name: 'adapter_loads', detail: 'a tensor is not finite' },
    steps,
    heldOut: null,
  });
  const text = judgeText(failed, 0.92, FILE);
  const [, line] = /^ *(\d+) {2}FAIL /m.exec(text)!;
  expect(text).toContain(
    `HARD FAIL at step ${line} of ${STEPS.length}, ${STEP_TITLES.adapter_loads} (adapter_loads): a tensor is not finite`,
  );
  expect(text).not.toMatch(/PASS/);
});

describe('in a terminal', () => {
  test.each([80, 200])('of %i columns nothing is wider than it', (width) => {
    for (const each of [
      report(),
      report({
        verdict: 'not_verified',
        notVerified: [
          '3 verdicts of rollouts were not found in time',
          'no fresh problems were requested',
        ],
      }),
    ])
      for (const line of judgeText(each, 0.92, { width, prose: width, color: false }).split('\n'))
        expect([line, line.length <= width]).toEqual([line, true]);
  });

  test('a pass is green, a failure red, and without colour the text is the same', () => {
    const style = { width: 80, prose: 80, color: true };
    const plain = judgeText(report(), 0.92, { ...style, color: false });
    const text = judgeText(report(), 0.92, style);
    expect(text).toContain('\u001b[32mPASS: the log is intact');
    expect(stripVTControlCharacters(text)).toBe(plain);
    const failed = report({
      verdict: 'hard_fail',
      failure: { step: 3, name: 'adapter_loads', detail: 'broken' },
      heldOut: null,
    });
    expect(judgeText(failed, 0.92, style)).toContain('\u001b[31mHARD FAIL');
  });
});
