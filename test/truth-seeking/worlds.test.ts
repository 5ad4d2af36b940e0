/** Worlds that a program knows, and what claims do for forecasts of them. */
import { describe, expect, test } from '@jest/globals';
import { generate } from '../../src/truth-seeking/domains/domain.js';
import { SMALL_WORLD } from '../../src/truth-seeking/domains/small-world.js';
import { SUMS_AND_CLAIMS } from '../../src/truth-seeking/domains/sums-and-claims.js';
import { urnProblem } from '../../src/truth-seeking/domains/urns.js';
import { VALUE_STATEMENTS } from '../../src/truth-seeking/domains/value-statements.js';
import type { Problem } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import {
  forecastMessages,
  forecastOutcomes,
  worldInTheLoop,
} from '../../src/truth-seeking/strategies/world-in-the-loop.js';
import { observed } from '../../src/truth-seeking/strategies/worlds.js';
import { FORECAST_TEMPLATES } from '../../src/truth-seeking/strategies/strategy.js';
import { trajectory, type Trajectory } from '../../src/truth-seeking/trajectory.js';

const [claim] = generate(SUMS_AND_CLAIMS, 'train', 1, 1n);
const saying = (problem: Problem, text: string): Trajectory =>
  trajectory({
    problemId: problem.id,
    policyId: 'p',
    modeId: 'direct',
    seed: '0',
    prompt: [],
    steps: [{ content: text, trainable: true }],
  });

describe('worlds', () => {
  test('towns that the table leaves out; their wells follow from the rule that the shown ones obey', () => {
    for (const problem of generate(SMALL_WORLD, 'train', 10, 2n)) {
      const { world, observations } = observed(problem)!;
      expect(world.id).toBe('held-out-rows');
      const { shown } = problem.about as unknown as {
        shown: { altitude: number; wells: number }[];
      };
      const [a, b] = shown as [
        { altitude: number; wells: number },
        { altitude: number; wells: number },
      ];
      const rise = (b.wells - a.wells) / (b.altitude - a.altitude);
      for (const { question, outcome } of observations) {
        const altitude = Number(/at (\d+) metres/.exec(question)![1]);
        expect(Number(outcome)).toBeCloseTo(a.wells + rise * (altitude - a.altitude), 9);
        expect(problem.question.split('\n\n')[0]).not.toContain(question.split(' ')[0]);
      }
    }
  });

  test('urns: balls come from the urn that it is, the same for whoever looks', () => {
    const drawn = Array.from({ length: 300 }, (_, seed) => urnProblem(BigInt(seed), 12));
    let [red, expected] = [0, 0];
    for (const { problem, urns } of drawn) {
      const { observations } = observed(problem)!;
      expect(observed(problem)!.observations).toEqual(observations);
      red += observations.filter(({ outcome }) => outcome === 'red').length;
      expected += observations.length * (problem.correctOption === 0 ? urns.redInA : urns.redInB);
    }
    // 900 balls of 300 different problems; the seeds are fixed, and so is this
    expect(Math.abs(red - expected)).toBeLessThan(3 * Math.sqrt(900 * 0.25));
  });

  test('sums: a program and a test say what holds; of what nobody knows nothing is observed', () => {
    const { observations } = observed(claim!)!;
    const { a, b, c } = claim!.about as unknown as { a: number; b: number; c: number };
    expect(observations.map(({ outcome }) => outcome)).toEqual([
      String(a + b),
      a + b === c ? 'passed' : 'failed',
    ]);
    expect(observed(VALUE_STATEMENTS.problems[0]!)).toBeNull();
  });
});

describe('forecasts', () => {
  const observation = { question: 'What is it?', outcome: 'wet' };
  const forecaster = scriptedReasoner({
    name: 'forecaster',
    answers: (text) => ({ wet: text.includes('it rains') ? 0.8 : 0.4 }),
  });
  const of = (template: 'vanilla' | 'rephrase' | 'toolcall', text: string) =>
    forecastOutcomes(forecaster, template, claim!, saying(claim!, text), [observation]);

  test.each(FORECAST_TEMPLATES)(
    '%s: what a claim does for what came about, and nothing else',
    async (template) => {
      const found = await of(template, 'it rains');
      const score = worldInTheLoop(new Map([['t', found]]), 'outcome');
      expect(score).toMatchObject({ direction: 'higher', n: 1 });
      expect(score.value).toBeCloseTo(Math.log(2), 12);
      // the scripted policy has a token a letter
      expect(worldInTheLoop(new Map([['t', found]]), 'token').value).toBeCloseTo(
        Math.log(2) / 3,
        12,
      );
      expect(
        worldInTheLoop(new Map([['t', await of(template, 'it is a day')]]), 'outcome').value,
      ).toBeCloseTo(0, 12);
      const [withClaims, without] = ['it rains', 'NOTHING'].map((report) =>
        forecastMessages(template, claim!, report, 'Q?'),
      );
      expect(JSON.stringify(withClaims).replace('it rains', 'NOTHING')).toBe(
        JSON.stringify(without),
      );
    },
  );

  test('T20: -15 to -12 over six tokens', () => {
    const [base, conditional] = [Array<number>(6).fill(-2.5), Array<number>(6).fill(-2)];
    const made = new Map([['t', [{ conditional, base }]]]);
    expect([worldInTheLoop(made, 'outcome').value, worldInTheLoop(made, 'token').value]).toEqual([
      3, 0.5,
    ]);
  });

  test('a base forecast is made once; what cannot be forecast is a reason, never a number', async () => {
    let calls = 0;
    const counting = {
      ...forecaster,
      score: (...args: Parameters<typeof forecaster.score>) => {
        calls++;
        return forecaster.score(...args);
      },
    };
    const known = new Map<string, readonly number[]>();
    for (const text of ['it rains', 'it snows'])
      await forecastOutcomes(counting, 'vanilla', claim!, saying(claim!, text), [observation], {
        known,
      });
    expect(calls).toBe(3);
    const never = worldInTheLoop(
      new Map([
        ['a', [{ conditional: [-1], base: [-Infinity] }, 'context overflow']],
        ['b', [{ conditional: [-Infinity], base: [-1] }]],
        ['c', [{ conditional: [], base: [] }]],
      ]),
      'token',
    );
    expect(never.value).toBeNull();
    expect(never.skipped).toMatchObject({
      'no outcome counts': 3,
      'context overflow': 1,
      'the outcome has no tokens': 1,
    });
    const silent = scriptedReasoner({ name: 'silent' });
    const asked = forecastOutcomes(silent, 'vanilla', claim!, saying(claim!, 'x'), [observation]);
    await expect(asked).rejects.toMatchObject({ code: 'BACKEND_INCAPABLE' });
  });
});
