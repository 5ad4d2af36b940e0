import { describe, expect, test } from '@jest/globals';
import { frozenIndex, frozenSet } from '../../src/tasks/frozen-sets.js';
import { fewShotExamples, solvedReply } from '../../src/tasks/scheduling/few-shot.js';
import type { GroundTruth } from '../../src/tasks/scheduling/grade.js';
import { problemId } from '../../src/tasks/problem-id.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import { judgeReply } from '../../src/tasks/verdict.js';

const set = frozenSet<SchedulingProblem, GroundTruth>('scheduling', 'test').problems;

/** A 3, B 2 after A, C 1 after B; machines: 2. */
const content = {
  task: 'scheduling',
  tier: 'T4sr',
  horizon: 9,
  resources: [{ name: 'machines', capacity: 2 }],
  jobs: [
    { label: 'A', duration: 3, needs: [1], after: [], deadline: null },
    { label: 'B', duration: 2, needs: [2], after: ['A'], deadline: 6 },
    { label: 'C', duration: 1, needs: [1], after: ['B'], deadline: null },
  ],
};
const problem: SchedulingProblem = { id: problemId(content), ...content };
const BLOCK = '<answer>A: 0, B: 3, C: 5</answer>';
const findings = (reasoning: string) =>
  scheduling.checkTrace!(problem, `${reasoning}\n${BLOCK}`).map(
    ({ category, jobs, claimed, actual }) => [category, jobs.join(''), claimed, actual],
  );

describe('the trace check', () => {
  test.each([
    ['Job A takes 3 steps. Job B takes 2. Job C lasts 1 time step.', []],
    ['A takes 4 steps.', [['duration', 'A', '4', '3']]],
    ['**Job B** has a duration of 3.', [['duration', 'B', '3', '2']]],
    ['The duration of Job C is 2.', [['duration', 'C', '2', '1']]],
    ['A (duration 2), B (2 steps)', [['duration', 'A', '2', '3']]],
    ['Job B needs 2 machines.', []],
    ['Job A starts at 0 and ends at 3. Job B runs from 3 to 5.', []],
    ['Job A starts at 0 and ends at 2.', [['end', 'A', '2', '3']]],
    ['B: 3-6', [['end', 'B', '6', '5']]],
    ['Job B runs from time 3 until time 4.', [['end', 'B', '4', '5']]],
    ['Job C ends at 7.', [['end', 'C', '7', '6']]],
    ['At first Job C ends at 7. No, Job C ends at 6.', []],
    ['Job B starts 5; B ends 5.', [['start', 'B', '5', '3']]],
    ['Job B begins at time 4, no: B starts at 3.', []],
    ['Job B could start at 4. Job B can start at 9.', []],
    [
      'Job B runs from 4 to 6.',
      [
        ['start', 'B', '4', '3'],
        ['end', 'B', '6', '5'],
      ],
    ],
    ['Job B must end by time 6, Job C must finish by 9, and the deadline of Job B is 6.', []],
    ['Job B must end by time 9.', []],
    ['Job B must be done by 7.', [['deadline', 'B', '7', '6']]],
    ['Job A has a deadline of 4.', [['deadline', 'A', '4', '9']]],
    ['Job C takes 1 step. It waits for Job B, which ends at 6.', [['end', 'B', '6', '5']]],
    [
      'Job A takes 3 steps. It waits for Job C.',
      [['precedence', 'CA', 'C before A', 'no such rule']],
    ],
    ['Job C depends on A and B.', []],
    ['Job A depends on Job C.', [['precedence', 'CA', 'C before A', 'no such rule']]],
    ['Job C must finish before Job B.', [['precedence', 'CB', 'C before B', 'no such rule']]],
    ['B cannot start before A has ended, so B waits for A.', []],
    ['B starts after C in this plan? I takes 9 steps to see that it does not.', []],
    ['', []],
  ])('%j', (reasoning, expected) => {
    expect(findings(reasoning)).toEqual(expected);
  });

  test('finds nothing in the reasoning of an oracle, and something once any number in it is changed', () => {
    let [changed, numbers] = [0, 0];
    for (const { problem: question, reference } of set) {
      const reply = solvedReply(question, reference.schedule!, 'cot');
      expect(scheduling.checkTrace!(question, reply)).toEqual([]);
      const [reasoning, block] = reply.split('<answer>') as [string, string];
      for (const { index, 0: digits } of question.tier === 'T5' ? reasoning.matchAll(/\d+/g) : []) {
        const lie = `${reasoning.slice(0, index)}${Number(digits) + 1}${reasoning.slice(index + digits.length)}<answer>${block}`;
        // a deadline that is moved to the horizon is no lie, and of the ends named for a job the
        // last one counts
        const claim = reasoning.slice(Math.max(0, index - 24), index);
        if (/deadline $/.test(claim) && Number(digits) + 1 === question.horizon) continue;
        if (
          /which ends at $/.test(claim) &&
          new RegExp(`ends at ${digits}\\b`).test(reasoning.slice(index))
        )
          continue;
        numbers++;
        expect([claim, scheduling.checkTrace!(question, lie).length > 0]).toEqual([claim, true]);
      }
      const lie = reply.replace(
        /takes (\d+)/,
        (_, duration: string) => `takes ${Number(duration) + 1}`,
      );
      expect(scheduling.checkTrace!(question, lie)).toMatchObject([{ category: 'duration' }]);
      const late = reply.replace(
        /ends at (\d+)(?!.*waits)/,
        (_, end: string) => `ends at ${Number(end) + 1}`,
      );
      if (scheduling.checkTrace!(question, late).some(({ category }) => category === 'end'))
        changed++;
    }
    expect(changed).toBe(set.length);
    expect(numbers).toBeGreaterThan(3_000);
  });

  test('does not change the verdict', () => {
    expect(judgeReply(scheduling, problem, `A takes 4 steps.\n${BLOCK}`, 'stop').verdict.kind).toBe(
      'pass',
    );
  });
});

describe('feedback', () => {
  const feedback = (text: string): string =>
    scheduling.feedback!(problem, judgeReply(scheduling, problem, text, 'stop').verdict);

  test('names every violation in the words of the prompt', () => {
    const text = feedback('<answer>A: 1, B: 3, C: 12</answer>');
    expect(text).toContain('Job B starts at 3, before Job A has ended at 4.');
    expect(text).toContain('Job C starts at 12, which is not a whole number from 0 to 9.');
    expect(text).toContain(
      'From time 3 to 4 Jobs A and B together use up to 3 machines; there are 2 machines.',
    );
    expect(text).not.toMatch(/\bR1\b|\bcapacity\b|undefined|NaN/);
    for (const word of ['machines', 'Job'])
      expect(scheduling.prompt(problem, 'cot')[0]!.content).toContain(word);
  });

  test('after a reply that cannot be read it says why and shows the form', () => {
    expect(feedback('A: 0')).toMatch(
      /no <answer> block[\s\S]*<answer>A: \?, B: \?, C: \?<\/answer>/,
    );
    expect(feedback('<answer>A: 0.5</answer>')).toContain('cannot stand in the answer block');
  });

  test('of a pass says so', () => {
    expect(feedback(BLOCK)).toBe('The schedule keeps every rule.');
  });
});

describe('few-shot examples', () => {
  test.each(['T1', 'T3', 'T5'])(
    '%s: solved, of the same tier, new, outside the frozen sets, in the style asked for',
    async (tier) => {
      const question = set.find(({ problem: { tier: own } }) => own === tier)!.problem;
      for (const style of ['cot', 'plain'] as const) {
        const messages = await scheduling.fewShot!(question, style, 3, 5n);
        expect(messages.map(({ role }) => role)).toEqual([
          'user',
          'assistant',
          'user',
          'assistant',
          'user',
          'assistant',
        ]);
        const jobs = (text: string): number => text.match(/^Job [A-Z] takes/gm)!.length;
        for (let i = 0; i < messages.length; i += 2) {
          expect(jobs(messages[i]!.content)).toBe(question.jobs.length);
          expect(messages[i]!.content).not.toBe(scheduling.prompt(question, style)[0]!.content);
          const reply = messages[i + 1]!.content;
          if (style === 'plain') expect(reply).toMatch(/^<answer>[^<]*<\/answer>$/);
          else expect(reply.split('\n').length).toBeGreaterThan(question.jobs.length);
        }
        expect(await scheduling.fewShot!(question, style, 3, 5n)).toEqual(messages);
      }
      expect(frozenIndex('scheduling').has(question.id)).toBe(true);
    },
  );

  test('a solver that never answers is a typed error, not an endless search', async () => {
    const generate = (tier: string, seed: bigint): SchedulingProblem =>
      scheduling.generate(tier, seed) as SchedulingProblem;
    await expect(
      fewShotExamples(set[0]!.problem, 'cot', 2, 1n, generate, async () => null),
    ).rejects.toMatchObject({
      code: 'SOLVER_FAILED',
    });
  });
});
