import { describe, expect, test } from '@jest/globals';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { judgeReply } from '../../src/tasks/verdict.js';
import { answerLiterally } from '../models/literal-reader.js';

describe('the scheduling prompt', () => {
  test('a literal reader of nothing but the prompt is accepted on every problem, in both styles', () => {
    const frozen = (['test', 'dev'] as const).flatMap((name) =>
      frozenSet<SchedulingProblem, unknown>('scheduling', name).problems.map(
        ({ problem }) => problem,
      ),
    );
    const generated = scheduling.tiers.flatMap(({ id }) =>
      Array.from(
        { length: 100 },
        (_, seed) => scheduling.generate(id, BigInt(seed)) as SchedulingProblem,
      ),
    );
    const refused: string[] = [];
    for (const problem of [...frozen, ...generated]) {
      for (const style of ['cot', 'plain'] as const) {
        const [message] = scheduling.prompt(problem, style);
        const { verdict } = judgeReply(
          scheduling,
          problem,
          answerLiterally(message!.content),
          'stop',
        );
        if (verdict.kind !== 'pass')
          refused.push(`${problem.tier} ${problem.id} ${verdict.violations[0]!.detail}`);
      }
    }
    expect(frozen.length + generated.length).toBe(960 + 800);
    expect(refused).toEqual([]);
  });

  test('the plain style asks for the block alone, the other for reasoning first', () => {
    const problem = scheduling.generate('T5', 1n) as SchedulingProblem;
    const [cot, plain] = [
      scheduling.prompt(problem, 'cot')[0]!.content,
      scheduling.prompt(problem, 'plain')[0]!.content,
    ];
    expect(cot).toContain('step by step');
    expect(plain).not.toContain('step by step');
    expect(plain).toContain('nothing else');
  });

  test('the sample block names every job and gives no answer away', () => {
    for (const { id } of scheduling.tiers) {
      const problem = scheduling.generate(id, 3n) as SchedulingProblem;
      const text = scheduling.prompt(problem, 'cot')[0]!.content;
      expect(/<answer>(.*)<\/answer>/.exec(text)![1]).toBe(
        problem.jobs.map((job) => `${job.label}: ?`).join(', '),
      );
    }
  });
});
