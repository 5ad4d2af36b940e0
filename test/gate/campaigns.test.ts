/** `bench gate`: that it simulates the gate there is, and that its figures are what is promised. */
import { expect, test } from '@jest/globals';
import {
  benchGate,
  EVERY,
  Gate,
  measureOf,
  PROBLEMS,
  SCENARIOS,
  source,
} from '../../bench/gate.js';
import { differenceOf, type Block } from '../../src/gate/trials.js';
import type { TrialInput } from '../../src/gate/index.js';
import { Random } from '../../src/random.js';
import { both, decided } from '../models/gate-trials.js';

const trialsOf = (blocks: readonly Block[]): TrialInput[] =>
  blocks.flatMap(({ challenger, incumbent }, problem) =>
    challenger.flatMap((score, sample) =>
      both(`problem ${problem}`, score, incumbent[sample]!, { sample }),
    ),
  );

const CAMPAIGNS = process.env.ISOPRO_FULL === '1' ? 1000 : 48;
const result = benchGate({ campaigns: CAMPAIGNS, seed: 1n });

test('A10: the default policy keeps its promise where comparing means and peeking do not', () => {
  expect(result).toMatchObject({ alpha: 0.05, campaigns: CAMPAIGNS, candidates: 8 });
  for (const scenario of SCENARIOS) {
    expect(result.falsePromotions[scenario]).toBeLessThanOrEqual(result.bound);
    expect(result.naive[scenario]).toBeGreaterThan(0.9);
    expect(result.peeking[scenario]).toBeGreaterThan(0.3);
  }
  expect(result.policies['e-process']).toEqual(result.falsePromotions);
  // the paired t calls a dozen small wins certain, before the rare extreme comes
  expect(result.policies['paired-t'].heavyTail).toBeGreaterThan(0.5);
});

test('power grows with the effect and with the problems', () => {
  for (const { effect, problems, power } of result.power) {
    const larger = result.power.filter((row) => row.effect === effect && row.problems > problems);
    expect(larger.every((row) => row.power >= power)).toBe(true);
  }
  const of = (effect: number, problems: number): number =>
    result.power.find((row) => row.effect === effect && row.problems === problems)!.power;
  expect(of(0.2, 400)).toBeGreaterThan(0.95);
  expect(of(0.05, 50)).toBeLessThan(0.3);
});

test('the same seed gives the same figures', () => {
  const [one, other] = [1, 2].map(() => benchGate({ campaigns: 2, seed: 7n }));
  expect(other).toEqual(one);
});

test.each(SCENARIOS)(
  '%s: nobody is better, and the gate of the simulation is `decide`',
  (scenario) => {
    const random = new Random(5n);
    let sum = 0;
    for (let candidate = 0; candidate < 100; candidate++) {
      const draw = source(scenario, 1, random);
      for (let index = 0; index < PROBLEMS; index++) sum += differenceOf(draw(index));
    }
    // a difference has a standard deviation of at most 1: 0.02 is three of the mean's
    expect(sum / (100 * PROBLEMS)).toBeLessThan(0.02);
    const policy = { kind: 'e-process', measure: measureOf(scenario) } as const;
    for (let attempt = 1; attempt <= 2; attempt++) {
      // one that is much better in every third problem crosses on the way
      const draw = source(scenario, 1, random);
      const gate = new Gate(policy.measure, attempt);
      const blocks: Block[] = [];
      for (let index = 0; index < 60; index++) {
        const block =
          attempt === 1 && index % 3 === 0
            ? { lane: 'confirmation' as const, challenger: [1], incumbent: [0] }
            : draw(index);
        blocks.push(block);
        gate.add(differenceOf(block));
        if ((index + 1) % (2 * EVERY) === 0)
          expect(decided(trialsOf(blocks), policy, { attempt }).decision === 'accepted').toBe(
            gate.accepts(),
          );
      }
    }
  },
);
