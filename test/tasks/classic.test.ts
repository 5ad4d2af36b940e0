import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { solveExactly } from '../../src/tasks/scheduling/exact.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import {
  CLASSIC_TIERS,
  drawClassicCandidate,
} from '../../src/tasks/scheduling-classic/generate.js';
import { asWorded } from '../../src/tasks/scheduling-classic/policies.js';
import { schedulingClassic } from '../../src/tasks/scheduling-classic/scheduling-classic.js';
import { judgeReply } from '../../src/tasks/verdict.js';

/**
 * isopro.md §1.5: per cent accepted of 400 feasible problems; columns T0 T1 T2 T3 T4sr T4rd T4sd
 * T5.
 */
const PUBLISHED: Record<string, (number | null)[]> = {
  'all-zeros': [0, 0, 0, 100, 0, 0, 0, 0],
  'random-start': [11.7, 7.0, 0.6, 44.8, 0, 0.4, 0.6, 0],
  'serial-alphabetical': [100, 53.5, 17.0, 0, 100, 2.0, 3.0, 1.0],
  'earliest-start': [100, 100, 0, 100, 0, 0, 100, 0],
  'serial-earliest-deadline': [100, 91.8, 94.5, 23.5, 100, 75.0, 41.8, 38.8],
  'list-alphabetical': [100, 100, 31.8, 100, 100, 20.3, 100, 19.3],
  'list-earliest-deadline': [100, 100, 99.8, 100, 100, 99.8, 100, 94.0],
  'list-earliest-deadline-as-worded': [100, 100, 0, 100, 0.3, 0, 100, 0.3],
  'optimum as worded': [null, null, 0.3, null, 0.3, 0, null, 0.3],
  'rejected as infeasible': [0, 14.0, 12.5, 0, 0, 21.4, 39.9, 70.0],
};
const MAKESPAN_AND_DURATIONS = [
  [3.5, 5.9],
  [4.8, 9.9],
  [11.9, 14.9],
  [4.8, 21.1],
  [14.4, 20.1],
  [13.2, 20.0],
  [7.3, 20.1],
  [18.9, 29.7],
];
const N = 400;

test('the policy table of §1.5 is reproduced within its sampling error, 400 problems a tier', () => {
  const deviations: string[] = [];
  CLASSIC_TIERS.forEach((tier, column) => {
    const random = new Random(1n);
    const problems: SchedulingProblem[] = [];
    let [candidates, makespans, durations] = [0, 0, 0];
    for (; problems.length < N; candidates++) {
      const candidate = drawClassicCandidate(tier, random);
      const exact = solveExactly(candidate);
      if (exact === null) continue;
      problems.push(candidate);
      makespans += exact.makespan;
      durations += candidate.jobs.reduce((sum, job) => sum + job.duration, 0);
    }
    const accepted = (decide: (problem: SchedulingProblem) => Record<string, number>): number =>
      problems.filter(
        (problem) => schedulingClassic.verify(problem, decide(problem)).kind === 'pass',
      ).length;
    for (const [row, published] of Object.entries(PUBLISHED)) {
      const there = published[column]! === null ? null : published[column]! / 100;
      if (there === null) continue;
      const rejections = row === 'rejected as infeasible';
      const trials = rejections ? candidates : N;
      const count = rejections
        ? candidates - N
        : accepted(
            row === 'optimum as worded'
              ? (problem) => solveExactly(asWorded(problem))?.schedule ?? {}
              : schedulingClassic.trivialPolicies[row]!,
          );
      // Two samples of about the same size; one added success and failure keep the error of 0 and
      // 100 % above zero.
      const pooled = (count + there * trials + 1) / (2 * trials + 2);
      const z = Math.abs(count / trials - there) / Math.sqrt((pooled * (1 - pooled) * 2) / trials);
      if (z > 3.3)
        deviations.push(
          `${tier.id} ${row}: ${((100 * count) / trials).toFixed(1)} against ${100 * there}, ${z.toFixed(1)} standard errors`,
        );
    }
    const [makespan, total] = MAKESPAN_AND_DURATIONS[column]!;
    expect(Math.abs(makespans / N - makespan!)).toBeLessThan(0.6);
    expect(Math.abs(durations / N - total!)).toBeLessThan(0.7);
  });
  expect(deviations).toEqual([]);
});

describe('the five strategies', () => {
  const problem = schedulingClassic.generate('T0', 1n) as SchedulingProblem;
  const parse = (text: string): unknown => {
    const parsed = schedulingClassic.parse(text, problem);
    return parsed.ok ? { form: parsed.form, ...parsed.answer } : parsed.category;
  };
  test.each([
    ['Job A: 0, B : 3', { form: 'colon', A: 0, B: 3 }],
    ['A: 1 and later A: 2', { form: 'colon', A: 2 }],
    ['A: 1, Time: 4', { form: 'colon', A: 1, E: 4 }],
    ['A: -3', 'parsing'],
    ['A: 0.5, B: 0-3', { form: 'colon', A: 0, B: 0 }],
    [
      'job a starts at 3; Job B begins at time step 4, C start 5',
      { form: 'starts_at', A: 3, B: 4, C: 5 },
    ],
    ['A = 0, B=3', { form: 'equals', A: 0, B: 3 }],
    [
      '1. Job A - 0\n2. B – start 3\n3. C — start time 4',
      { form: 'numbered_list', A: 0, B: 3, C: 4 },
    ],
    ['{"A": 0, \'B\': 3}', { form: 'json', A: 0, B: 3 }],
    ['Step: 2. A = 0, B = 3', { form: 'colon', P: 2 }],
    ['**A**: 0', 'parsing'],
    ['| A | 0 |', 'parsing'],
    ['', 'parsing'],
  ])('%j', (text, expected) => {
    expect(parse(text)).toEqual(expected);
  });
});

test("the prompt keeps the original's defects: capacities in jobs, no horizon, a sample of three jobs", () => {
  const problem = schedulingClassic.generate('T4sr', 2n) as SchedulingProblem;
  const text = schedulingClassic.prompt(problem, 'cot')[0]!.content;
  expect(text).toMatch(/At most \d jobs? can use machines/);
  expect(text).not.toContain(String(problem.horizon));
  expect(text).toContain('A: 0, B: 3, C: 5');
  expect(schedulingClassic.prompt(problem, 'plain')[0]!.content).not.toMatch(/^1\./m);
});

test('letters that are no job are ignored, a cut-off reply is read, the unstated horizon is enforced', () => {
  const problem = schedulingClassic.generate('T0', 3n) as SchedulingProblem;
  const good = solveExactly(problem)!.schedule;
  const text = Object.entries(good)
    .map(([label, start]) => `${label}: ${start}`)
    .join(', ');
  expect(judgeReply(schedulingClassic, problem, `${text}, Z: 99`, 'length').verdict.kind).toBe(
    'pass',
  );
  const late = Object.fromEntries(
    Object.entries(good).map(([label, start]) => [label, start + problem.horizon]),
  );
  expect(
    schedulingClassic
      .verify(problem, late)
      .violations.every(({ category }) => category === 'deadlines'),
  ).toBe(true);
});
