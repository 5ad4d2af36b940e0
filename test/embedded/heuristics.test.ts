import { describe, expect, test } from '@jest/globals';
import { drawExample, NAMING, PRACTICE } from '../../src/embedded/corpus.js';
import {
  followHeuristic,
  HEURISTIC_NAMES,
  namedHeuristic,
  opening,
  type HeuristicName,
} from '../../src/embedded/heuristics.js';
import { Random } from '../../src/random.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { parseAnswer } from '../../src/tasks/scheduling/answer.js';
import { drawProblem, TIERS } from '../../src/tasks/scheduling/generate.js';
import { POLICIES } from '../../src/tasks/scheduling/policies.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import { verifySchedule } from '../../src/tasks/scheduling/verify.js';

const drawn = (tier: string, count: number): SchedulingProblem[] => {
  const random = new Random(11n);
  return Array.from({ length: count }, () =>
    drawProblem('scheduling', TIERS.find(({ id }) => id === tier)!, random),
  );
};
const every = TIERS.flatMap(({ id }) => drawn(id, 25));
const accepted = (name: HeuristicName, tier: string): number =>
  drawn(tier, 100).filter(
    (problem) => verifySchedule(problem, followHeuristic(name, problem).schedule).kind === 'pass',
  ).length;

describe('heuristics that the embedded model imitates', () => {
  test.each(HEURISTIC_NAMES)(
    '%s: the reply is well formed, names the heuristic and answers with the schedule of its steps',
    (name) => {
      for (const problem of every) {
        const { text, schedule } = followHeuristic(name, problem);
        expect(parseAnswer(text)).toEqual({ ok: true, answer: schedule, form: 'list' });
        expect(namedHeuristic(text)).toBe(name);
        expect(text.startsWith(opening(name))).toBe(true);
        const lines = [
          ...text.matchAll(/^Job ([A-Z]) takes (\d+).*; \1 starts (\d+); \1 ends (\d+)/gm),
        ];
        expect(
          Object.fromEntries(lines.map(([, label, , start]) => [label, Number(start)])),
        ).toEqual(schedule);
        for (const [, label, duration, start, end] of lines) {
          expect(Number(end)).toBe(Number(start) + Number(duration));
          expect(Number(duration)).toBe(problem.jobs.find((job) => job.label === label)!.duration);
        }
        expect(scheduling.checkTrace!(problem, text)).toEqual([]);
      }
    },
  );

  test.each([
    ['one by one, as listed', 'serial-alphabetical'],
    ['one by one, predecessors first', 'serial-dependency'],
    ['each after its predecessors', 'earliest-start'],
    ['all at once', 'all-zeros'],
  ] as const)('%s is the policy %s', (name, policy) => {
    for (const problem of every)
      expect(followHeuristic(name, problem).schedule).toEqual(POLICIES[policy].decide(problem));
  });

  test('side by side keeps order and resources on every tier, and by deadline solves most problems', () => {
    for (const name of [
      'side by side, as listed',
      'side by side, earliest deadline first',
    ] as const) {
      for (const problem of every) {
        const { violations } = verifySchedule(problem, followHeuristic(name, problem).schedule);
        expect(
          violations.filter(
            ({ category }) => category === 'precedence' || category === 'resources',
          ),
        ).toEqual([]);
      }
    }
    expect(accepted('side by side, earliest deadline first', 'T2')).toBeGreaterThan(60);
    expect(accepted('side by side, earliest deadline first', 'T3')).toBe(100);
  });

  test('the heuristic that is named most often is right on few problems', () => {
    const most = HEURISTIC_NAMES.reduce((best, name) =>
      NAMING[name] > NAMING[best] ? name : best,
    );
    const shares = ['T0', 'T1', 'T2', 'T3', 'T4sr', 'T5'].map((tier) => accepted(most, tier));
    expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeLessThan(20);
  });
});

describe('corpus', () => {
  const examples = Array.from({ length: 3000 }, (_, index) => drawExample(3n, index, 1));

  test('is the same for the same seed and index', () => {
    expect(drawExample(3n, 17, 1)).toEqual(examples[17]);
    expect(drawExample(4n, 17, 1)).not.toEqual(examples[17]);
  });

  test('holds no problem of T5 and none of the frozen sets', () => {
    const frozen = new Set(
      ['dev', 'test'].flatMap((name) =>
        frozenSet('scheduling', name as 'dev').problems.map(({ problem }) => problem.id),
      ),
    );
    const ids = Array.from({ length: 20_000 }, (_, index) => drawExample(5n, index, 0).problem);
    expect(ids.some(({ id }) => frozen.has(id))).toBe(false);
    expect(
      new Set([...ids, ...examples.map(({ problem }) => problem)].map(({ tier }) => tier)),
    ).toEqual(new Set(['T0', 'T1', 'T2', 'T3', 'T4sr', 'T4rd', 'T4sd']));
  });

  test('practises in one proportion and teaches the names in another', () => {
    const taught = examples.filter(({ learnsName }) => learnsName);
    for (const name of HEURISTIC_NAMES) {
      const share = (list: typeof examples): number =>
        list.filter(({ heuristic }) => heuristic === name).length / list.length;
      expect(Math.abs(share(examples) - PRACTICE[name])).toBeLessThan(0.03);
      expect(Math.abs(share(taught) - NAMING[name])).toBeLessThan(0.04);
    }
  });
});
