/**
 * Guards whose costs have a sign, such as slopes: the distance of the mean from 0 counts, on either
 * side.
 */
import { describe, expect, test } from '@jest/globals';
import type { GuardDecision, TrialInput } from '../../src/gate/index.js';
import { Random } from '../../src/random.js';
import { decided, NEW, OLD, verdicts } from '../models/gate-trials.js';

const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random.nextDouble())) * Math.cos(2 * Math.PI * random.nextDouble());

/** A signed cost of each version a block; null: one whose sign nobody knows, the most. */
type Costs = readonly (readonly [number | null, number | null])[];
const trialsOf = (costs: Costs, ceiling = 1): TrialInput[] =>
  costs.flatMap((pair, i) =>
    [NEW.id, OLD.id].map((version, side): TrialInput => {
      const cost = pair[side];
      const of = { version, task: 'slopes', epoch: '1', verifier: 'v', problem: `block ${i}` };
      return cost == null ? { ...of, score: ceiling } : { ...of, score: cost, signed: true };
    }),
  );
const drawn = (random: Random, blocks: number, now: number, before: number, noise = 0.15): Costs =>
  Array.from(
    { length: blocks },
    () => [now + noise * normal(random), before + noise * normal(random)] as const,
  );

function guardOf(
  costs: Costs,
  margin: number,
  ceiling = 1,
  trials = trialsOf(costs, ceiling),
): GuardDecision {
  const guards = [{ kind: 'non-inferiority' as const, name: 'slope', margin, ceiling, most: 1000 }];
  const found = decided(
    verdicts(60, 0),
    { kind: 'e-process', guards },
    { guards: { slope: trials } },
  );
  if (found.guards.length === 0) throw new Error(found.reasons.join('; '));
  return found.guards[0]!;
}

describe('signed costs', () => {
  test.each([
    [0, 0, 'shown'],
    [0.35, 0, 'refuted'],
    [-0.35, 0, 'refuted'],
    [0.6, 0.25, 'refuted'],
    [-0.6, 0.25, 'refuted'],
    [0, 0.4, 'shown'],
    [0, -0.4, 'shown'],
    [0.4, -0.4, 'shown'], // as far from 0 on the other side
    [-0.4, -0.4, 'shown'],
    [0.05, -0.02, 'shown'],
  ])('of %f in place of %f, with a margin of 0.2: %s', (now, before, state) => {
    expect(guardOf(drawn(new Random(5n), 300, now, before), 0.2).state).toBe(state);
  });

  test('are the same seen from the other side, of either version, and in another unit', () => {
    const random = new Random(9n);
    for (let draw = 0; draw < 12; draw++) {
      const costs = drawn(random, 40, random.nextDouble() - 0.5, random.nextDouble() - 0.5);
      const found = guardOf(costs, 0.15).statistic as { logE: number; mean: number };
      const turned = [
        costs.map(([now, before]) => [-now!, before] as const),
        costs.map(([now, before]) => [now, -before!] as const),
        costs.map(([now, before]) => [-now!, -before!] as const),
      ];
      for (const other of turned)
        expect(guardOf(other, 0.15).statistic).toMatchObject({
          logE: expect.closeTo(found.logE, 9),
        });
      const scaled = costs.map(([now, before]) => [50 * now!, 50 * before!] as const);
      expect(guardOf(scaled, 7.5, 50).statistic).toMatchObject({
        logE: expect.closeTo(found.logE, 9),
      });
      const meanOf = (side: 0 | 1): number =>
        Math.abs(costs.reduce((sum, pair) => sum + pair[side]!, 0) / costs.length);
      expect(found.mean).toBeCloseTo(meanOf(1) - meanOf(0), 9);
    }
  });

  test('a cost whose sign nobody knows counts on both sides, so that it never makes up for another', () => {
    const random = new Random(11n);
    for (const slope of [-0.3, 0.3]) {
      const alike = drawn(random, 200, slope, slope);
      expect(guardOf(alike, 0.2).state).toBe('shown');
      expect(
        guardOf(
          alike.map(([now, before], i) => [i % 2 === 0 ? null : now, before] as const),
          0.2,
        ).state,
      ).toBe('refuted');
    }
  });

  test('distances alone are held against each other as costs without a sign are', () => {
    const costs = Array.from(
      { length: 60 },
      (_, i) => [0.1 + (i % 5) / 20, 0.2 + (i % 3) / 20] as const,
    );
    const distances = trialsOf(costs).map(({ signed: _, ...trial }) => trial);
    const [one, both] = [guardOf(costs, 0.2, 1, distances), guardOf(costs, 0.2)].map(
      ({ statistic }) => statistic as { mean: number },
    );
    expect(one!.mean).toBeCloseTo(both!.mean, 12);
  });

  test('are refused as scores, and where they are no numbers', () => {
    const [first] = trialsOf([[0.1, 0.1]]);
    const bad = decided([...verdicts(3, 0), { ...first!, task: 'sql' }]);
    expect([bad.decision, bad.reasons.join()]).toEqual([
      'invalid',
      expect.stringContaining('a signed score needs a guard with a ceiling'),
    ]);
    for (const cost of [NaN, Infinity, -Infinity])
      expect(() => guardOf([[cost, 0]], 0.2)).toThrow(/not a finite cost/);
    const unsigned = trialsOf([[0.1, 0.1]]).map(({ signed: _, ...trial }) => ({
      ...trial,
      score: -0.1,
    }));
    expect(() => guardOf([], 0.2, 1, unsigned)).toThrow(/not a finite cost/);
  });
});
