/** Exact tests of counts, against values worked out by hand and against all ways of drawing. */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import {
  exactGreater,
  fisherExact,
  hypergeometric,
  type TwoSamples,
} from '../../src/statistics/hypergeometric.js';
import { permutationP } from '../../src/statistics/permutation.js';

const close = (value: number): number => expect.closeTo(value, 12) as unknown as number;

test('of 10, of which 3 are marked, 4 are drawn', () => {
  const { least, chances } = hypergeometric(4, 3, 10);
  expect([least, chances]).toEqual([0, [35, 105, 63, 7].map((ways) => close(ways / 210))]);
  // 7 of 8 and 5 of 8: 4 at least are both
  expect(hypergeometric(7, 5, 8)).toEqual({ least: 4, chances: [close(35 / 56), close(21 / 56)] });
  expect(hypergeometric(0, 0, 0)).toEqual({ least: 0, chances: [1] });
});

describe('Fisher’s test', () => {
  test.each<readonly [string, seen: number, drawn: number, marked: number, all: number, p: number]>(
    [
      ['his tea: 3 of 4 cups told', 3, 4, 4, 8, 34 / 70],
      ['all 4 cups told', 4, 4, 4, 8, 2 / 70],
      ['one of two among ten', 1, 1, 2, 10, 2 / 10],
      ['neither of two among twenty', 0, 2, 2, 20, 1],
      // 4 of 4 among the 5 of 9, 5 of 126 ways; none of them, one way, is farther from what is
      // expected, 20/9
      ['an uneven one', 4, 4, 5, 9, 6 / 126],
    ],
  )('%s', (_, seen, drawn, marked, all, p) => {
    expect(fisherExact(seen, drawn, marked, all)).toBeCloseTo(p, 12);
    expect(fisherExact(seen, marked, drawn, all)).toBeCloseTo(p, 12);
  });

  test('is the share of orders with a correlation as far from 0, tried one by one', () => {
    const random = new Random(1n);
    let tried = 0;
    for (let draw = 0; draw < 60; draw++) {
      const n = random.nextInteger(3, 7);
      const [x, y] = [0, 1].map(() =>
        Array.from({ length: n }, () => random.nextInteger(0, 1)),
      ) as [number[], number[]];
      if (new Set(x).size < 2 || new Set(y).size < 2) continue;
      tried++;
      // a value apart by next to nothing makes three values of two, and leaves the correlations in
      // their order
      const near = x.map((value, i) => value + (i === 0 ? 1e-12 : 0));
      const both = x.filter((value, i) => value === 1 && y[i] === 1).length;
      const ones = (of: readonly number[]): number => of.filter((value) => value === 1).length;
      expect(permutationP(x, y)).toBeCloseTo(fisherExact(both, ones(x), ones(y), n), 12);
      expect(permutationP(near, y)).toBeCloseTo(permutationP(x, y)!, 12);
    }
    expect(tried).toBeGreaterThan(30);
  });
});

describe('a mean over tiers that is greater in one sample than in another', () => {
  const tier = (weight: number, first: [number, number], second: [number, number]): TwoSamples => ({
    weight,
    first: { passed: first[0], n: first[1] },
    second: { passed: second[0], n: second[1] },
  });
  test.each<readonly [string, TwoSamples[], number]>([
    ['3 of 3 and none of 3: one of 20 ways', [tier(1, [3, 3], [0, 3])], 1 / 20],
    ['so in two tiers', [tier(0.5, [3, 3], [0, 3]), tier(0.5, [3, 3], [0, 3])], 1 / 400],
    // of 36 pairs of draws 9 differ by as much: one tier in one way and the other in at least four,
    // or both in one
    ['in one of two tiers', [tier(0.5, [2, 2], [0, 2]), tier(0.5, [1, 2], [1, 2])], 9 / 36],
    ['less: all but one of 20 ways', [tier(1, [1, 3], [2, 3])], 19 / 20],
    [
      'all right in both, however unlike their sizes',
      Array.from({ length: 20 }, () => tier(0.05, [100, 100], [1, 1])),
      1,
    ],
    ['all wrong in both', [tier(1, [0, 100], [0, 25])], 1],
    [
      'a tier of which one side has none says nothing',
      [tier(0.5, [3, 3], [0, 3]), tier(0.5, [3, 3], [0, 0])],
      1 / 20,
    ],
    ['no tier', [], 1],
  ])('%s', (_, tiers, p) => {
    expect(exactGreater(tiers)).toBeCloseTo(p, 12);
  });
});
