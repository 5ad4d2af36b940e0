/**
 * Means, intervals, bootstraps and readings, against closed forms and second implementations from
 * the definitions.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { estimate } from '../../src/statistics/estimate.js';
import {
  brierScore,
  clusterBootstrap,
  clusteredWilsonInterval,
  figuresGiven,
  figuresOf,
  fisherInterval,
  FORGETTING_SET,
  forgettingOf,
  gainScore,
  intervalOfMean,
  isSignificantDrop,
  kendall,
  mcnemarExact,
  mean,
  measure,
  normalInterval,
  pairedBootstrap,
  pairedChange,
  passAtK,
  pearson,
  sampleStandardDeviation,
  spearman,
  stratifiedBootstrap,
  studentInterval,
  summarise,
  underReading,
  verdictsByTier,
  weightsOf,
  wilsonInterval,
  type Interval,
  type Outcome,
} from '../../src/statistics/index.js';
import {
  intervalOfAlike,
  intervalOfSum,
  quantile,
  scoreInterval,
} from '../../src/statistics/intervals.js';
import { groupBy, logFactorials } from '../../src/statistics/paired.js';

const close = (value: number, digits = 12): number =>
  expect.closeTo(value, digits) as unknown as number;

/** Wilson's limits as the roots of (p - q)² = z² q (1 - q) / n. */
function wilson(p: number, n: number, z = 1.96): Interval {
  const [a, b, c] = [1 + z ** 2 / n, -2 * p - z ** 2 / n, p ** 2];
  const root = Math.sqrt(b ** 2 - 4 * a * c);
  return { low: (-b - root) / (2 * a), high: (-b + root) / (2 * a) };
}

/** t with a chance of 2.5 % above it, from tables. */
const T: Record<number, number> = {
  1: 12.7062047361747,
  2: 4.30265272974946,
  3: 3.18244630528371,
  5: 2.57058183563631,
};

describe('descriptive figures', () => {
  test('of few values', () => {
    expect(mean([])).toBeNaN();
    expect([mean([2]), mean([1, 2, 6])]).toEqual([2, 3]);
    expect(sampleStandardDeviation([1, 3])).toBeCloseTo(Math.SQRT2, 14);
    expect(sampleStandardDeviation([])).toBeNaN();
  });

  test('correlations, with ties and without', () => {
    expect(pearson([1, 2, 4], [3, 7, 5])).toBeCloseTo(
      (3 * 37 - 7 * 15) / Math.sqrt((3 * 21 - 49) * (3 * 83 - 225)),
      14,
    );
    expect(pearson([1, 1, 1], [1, 2, 3])).toBeNaN();
    expect(spearman([1, 2, 2, 3], [1, 20, 300, 4000])).toBeCloseTo(4.5 / Math.sqrt(4.5 * 5), 14);
    expect(kendall([1, 2, 2, 3], [1, 2, 3, 4])).toBeCloseTo(5 / Math.sqrt(5 * 6), 14);
    expect(kendall([1, 2, 3, 4], [2, 1, 1, 3])).toBeCloseTo(1 / Math.sqrt(6 * 5), 14);
  });

  test('of sides of unlike length there is none, in words', () => {
    for (const correlation of [pearson, kendall])
      expect(() => correlation([1, 2], [1, 2, 3])).toThrow('needs as many x as y, got 2 and 3');
  });
});

describe('intervals of a proportion', () => {
  test('Wilson’s are the roots of its equation, at any n and z', () => {
    for (const n of [1, 2, 7, 40])
      for (let passed = 0; passed <= n; passed++) {
        const { low, high } = wilson(passed / n, n);
        expect(wilsonInterval(passed, n)).toEqual({ low: close(low), high: close(high) });
        const other = wilson(passed / n, n, 2.7);
        expect(scoreInterval(passed / n, n, 2.7)).toEqual({
          low: close(other.low),
          high: close(other.high),
        });
      }
    expect([wilsonInterval(0, 9).low, wilsonInterval(9, 9).high]).toEqual([0, 1]);
    expect([wilsonInterval(0, 0), normalInterval(0, 0)]).toEqual([
      { low: 0, high: 1 },
      { low: 0, high: 1 },
    ]);
    expect(normalInterval(1, 4)).toEqual({
      low: close(0.25 - (1.96 * Math.sqrt(3)) / 8),
      high: close(0.25 + (1.96 * Math.sqrt(3)) / 8),
    });
    expect(normalInterval(4, 4)).toEqual({ low: 1, high: 1 });
  });

  test.each([
    [3, 2],
    [-1, 2],
    [0, -1],
    [0.5, 2],
    [1, 2.5],
    [NaN, 2],
  ])('%f of %f are no counts', (passed, n) => {
    const words = `needs whole 0 <= passed <= n, got ${passed} of ${n}`;
    expect(() => wilsonInterval(passed, n)).toThrow(words);
    expect(() => normalInterval(passed, n)).toThrow(words);
    expect(() => passAtK(n, passed, 1)).toThrow(words);
  });

  /** Korn and Graubard: n over the design effect, and the ratio of the squares of two quantiles. */
  test.each<readonly [string, string, string, n: number]>([
    // p = 1/2, sums of deviations 1, -1: (2/1) 2 / ((4/3) 4/4) = 3
    [
      'two clusters that are all right and all wrong',
      '1100',
      'aabb',
      (4 / 3) * (T[3]! / T[1]!) ** 2,
    ],
    [
      'two clusters alike, whose effect is 0: no more than there are',
      '1010',
      'aabb',
      4 * (T[3]! / T[1]!) ** 2,
    ],
    // p = 1/2, sums 1, 0, -1: (3/2) 2 / ((6/5) 6/4) = 5/3
    ['three clusters', '111000', 'aabcbc', 6 * (T[5]! / T[2]!) ** 2 * (3 / 5)],
    ['all right: as many as there are clusters', '111111', 'aaabbc', 3],
    ['all wrong', '000000', 'aaabbc', 3],
    ['each its own cluster: Wilson’s', '1101', 'abcd', 4],
  ])('in clusters: %s', (_, passed, clusters, n) => {
    const right = [...passed].map((each) => each === '1');
    const { low, high } = wilson(right.filter(Boolean).length / right.length, n);
    expect(clusteredWilsonInterval(right, [...clusters])).toEqual({
      low: close(low, 8),
      high: close(high, 8),
    });
  });

  test('in one cluster, or of nothing, says nothing; each needs a cluster', () => {
    const all = { low: 0, high: 1 };
    expect([
      clusteredWilsonInterval([true, false], ['a', 'a']),
      clusteredWilsonInterval([], []),
    ]).toEqual([all, all]);
    expect(clusteredWilsonInterval([true], ['a'])).toEqual({
      low: close(wilson(1, 1).low),
      high: 1,
    });
    expect(() => clusteredWilsonInterval([true, false], ['a'])).toThrow(
      'needs a cluster for each of 2, got 1',
    );
  });
});

describe('other intervals', () => {
  test('of a sum: distances to the limits add up in squares, weighed', () => {
    const found = intervalOfSum([
      { weight: 2, value: 1, low: 0.25, high: 3 },
      { weight: -1, value: 3, low: 1, high: 3.5 },
    ]);
    expect(found).toEqual({
      low: close(-1 - Math.sqrt(1.5 ** 2 + 2 ** 2)),
      high: close(-1 + Math.sqrt(4 ** 2 + 0.5 ** 2)),
    });
  });

  test('of values all alike: a fraction has Wilson’s, a difference that of what was gained and lost', () => {
    for (const value of [0, 0.3, 1]) {
      const { low, high } = wilson(value, 12);
      expect(intervalOfAlike(value, 12, 'fractions')).toEqual({
        low: close(low),
        high: close(high),
      });
      const none = wilson(0, 12).high;
      const there = {
        low: Math.max(-1, value - Math.hypot(value - low, none)),
        high: Math.min(1, value + Math.hypot(high - value, 0)),
      };
      expect(intervalOfAlike(value, 12, 'differences')).toEqual({
        low: close(there.low),
        high: close(there.high),
      });
      expect(intervalOfAlike(-value, 12, 'differences')).toEqual({
        low: close(-there.high),
        high: close(-there.low),
      });
    }
    // one of which is not known by much, so that the sum would reach beyond the scale
    for (const value of [0, 0.5])
      expect(intervalOfAlike(value, 1, 'differences').high).toBeLessThanOrEqual(1);
  });

  test('Student’s: of two values its quantile is 12.7; of one, or of equals, there is none', () => {
    expect(studentInterval([1, 3])).toEqual({
      low: close(2 - T[1]!, 8),
      high: close(2 + T[1]!, 8),
    });
    expect(studentInterval([1, 2, 6])).toEqual({
      low: close(3 - T[2]! * Math.sqrt(7 / 3), 8),
      high: close(3 + T[2]! * Math.sqrt(7 / 3), 8),
    });
    expect([studentInterval([]), studentInterval([1]), studentInterval([2, 2])]).toEqual([
      null,
      null,
      null,
    ]);
  });

  test('Fisher’s needs four pairs, and a correlation', () => {
    expect(fisherInterval(0.2, 3)).toEqual({ low: -1, high: 1 });
    const { low, high } = fisherInterval(0.2, 4);
    // tanh(atanh r - z), by the addition theorem
    const z = Math.tanh(1.96);
    expect([low, high]).toEqual([
      close((0.2 - z) / (1 - 0.2 * z)),
      close((0.2 + z) / (1 + 0.2 * z)),
    ]);
    expect([fisherInterval(1, 9), fisherInterval(-1, 9)]).toEqual([
      { low: 1, high: 1 },
      { low: -1, high: -1 },
    ]);
    for (const r of [1.01, -1.01, NaN])
      expect(() => fisherInterval(r, 9)).toThrow(`a correlation must be in [-1, 1], got ${r}`);
  });

  test('quantiles lie between the values', () => {
    for (const [q, value] of [
      [0, 1],
      [0.25, 1.5],
      [0.5, 2],
      [0.75, 3],
      [1, 4],
    ] as const)
      expect(quantile([1, 2, 4], q)).toBe(value);
    expect([quantile([7], 0.3), quantile([7], 1)]).toEqual([7, 7]);
    expect(() => quantile([], 0.5)).toThrow('a quantile needs at least one value');
  });
});

describe('bootstraps', () => {
  const halves = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
  const alike = (value: number, n = 10): number[] => new Array<number>(n).fill(value);

  test('the percentiles of resampled means are those of a binomial', () => {
    // of ten tosses: at most 1 with a chance of 1.07 %, at most 2 with one of 5.47 %
    for (const seed of [1n, 2n, 3n]) {
      const found = stratifiedBootstrap([{ weight: 1, values: halves }], { seed, of: 'fractions' });
      expect(found).toEqual({ mean: 0.5, low: 0.2, high: 0.8 });
      expect(
        stratifiedBootstrap([{ weight: 1, values: [1, 0] }], { seed, of: 'fractions' }),
      ).toEqual({ mean: 0.5, low: 0, high: 1 });
    }
  });

  test('a stratum whose values are all alike adds its distances, in squares, and keeps within the scale', () => {
    const strata = [
      { weight: 0.5, values: halves },
      { weight: 0.5, values: alike(0) },
    ];
    const { high } = wilson(0, 10);
    expect(stratifiedBootstrap(strata, { seed: 1n, of: 'fractions' })).toEqual({
      mean: 0.25,
      low: close(0.1),
      high: close(0.25 + Math.hypot(0.15, high / 2)),
    });
    const of = 'differences' as const;
    expect(stratifiedBootstrap(strata, { seed: 1n, of })).toEqual({
      mean: 0.25,
      low: close(0.25 - Math.hypot(0.15, high / 2)),
      high: close(0.25 + Math.hypot(0.15, high / 2)),
    });
    const lost = stratifiedBootstrap([{ weight: 1, values: alike(-1) }], { seed: 1n, of });
    expect(lost).toEqual({ mean: -1, low: -1, high: close(-1 + Math.hypot(high, high)) });
    expect(stratifiedBootstrap([{ weight: 1, values: alike(1) }], { seed: 1n, of }).high).toBe(1);
  });

  test('as many resamples as are asked for, 2,000 by default', () => {
    const strata = [{ weight: 1, values: halves.map((value, i) => value + i / 7) }];
    const [none, same, fewer] = [{}, { resamples: 2_000 }, { resamples: 1_999 }].map((more) =>
      stratifiedBootstrap(strata, { seed: 4n, of: 'fractions', ...more }),
    );
    expect(none).toEqual(same);
    expect(none).not.toEqual(fewer);
    const clusters = halves.map((_, i) => String(i));
    const [plain, as] = [{}, { resamples: 2_000 }].map((more) =>
      clusterBootstrap(strata[0]!.values, clusters, { seed: 4n, ...more }),
    );
    expect(plain).toEqual(as);
  });

  test('clusters are drawn with all their values', () => {
    // with two clusters: one of them alone, the other, or both
    expect(clusterBootstrap([1, 1, 1, 0], ['a', 'a', 'a', 'b'], { seed: 1n })).toEqual({
      mean: 0.75,
      low: 0,
      high: 1,
    });
    expect(
      clusterBootstrap(
        halves,
        halves.map((_, i) => String(i)),
        { seed: 1n },
      ),
    ).toEqual({ mean: 0.5, low: 0.2, high: 0.8 });
    const pairs = [...halves, ...halves];
    const found = clusterBootstrap(
      pairs,
      pairs.map((_, i) => String(i % 10)),
      { seed: 1n },
    );
    expect(found).toEqual({ mean: 0.5, low: 0.2, high: 0.8 });
  });

  test('an estimate is the bootstrap of its own strata and options, asked again or not, and nothing of nothing', () => {
    const asked = [0, 1].flatMap(() =>
      [
        { weight: 1, values: [0.1, 0.7, 0.3] },
        { weight: 1, values: [0.1, 0.7, 0.2] },
        { weight: 0.5, values: [0.1, 0.7, 0.3] },
      ].flatMap((stratum) =>
        [{ seed: 1n }, { seed: 2n }, { seed: 1n, resamples: 50 }].map((options) => ({
          strata: [stratum],
          options,
        })),
      ),
    );
    for (const { strata, options } of asked)
      expect(estimate(strata, options)).toEqual(
        stratifiedBootstrap(strata, { ...options, of: 'fractions' }),
      );
    const nothing = { mean: null, low: 0, high: 1 };
    expect(estimate([], { seed: 1n })).toEqual(nothing);
    expect(
      estimate(
        [
          { weight: 0.5, values: [1] },
          { weight: 0.5, values: [] },
        ],
        { seed: 1n },
      ),
    ).toEqual(nothing);
  });

  test('pairs: none, or a problem without samples, is refused; samples count by their mean', () => {
    expect(() => pairedBootstrap([], { seed: 1n })).toThrow('no pairs to compare');
    for (const [before, after] of [
      [[], [1]],
      [[1], []],
    ])
      expect(() =>
        pairedBootstrap([{ stratum: 'a', before: before!, after: after! }], { seed: 1n }),
      ).toThrow('a problem without samples cannot be compared');
    const found = pairedBootstrap([{ stratum: 'a', before: [0, 1], after: [1, 1, 0] }], {
      seed: 1n,
    });
    expect(found).toMatchObject({ difference: close(2 / 3 - 1 / 2), problems: 1 });
  });

  test('groups keep the order of their first appearance', () => {
    const groups = groupBy(
      ['b1', 'a1', 'b2'],
      (item) => item[0]!,
      (item) => item[1]!,
    );
    expect([...groups]).toEqual([
      ['b', ['1', '2']],
      ['a', ['1']],
    ]);
  });
});

describe('counts', () => {
  test('logarithms of factorials', () => {
    expect([...logFactorials(6)].map(Math.exp)).toEqual(
      [1, 1, 2, 6, 24, 120, 720].map((value) => close(value, 10)),
    );
    expect(logFactorials(0)).toHaveLength(1);
  });

  test('McNemar’s p is the share of all ways in which the pairs may fall, for any counts', () => {
    for (let gained = 0; gained <= 6; gained++)
      for (let lost = 0; lost <= 6; lost++) {
        const n = gained + lost;
        let asFar = 0;
        for (let way = 0; way < 2 ** n; way++) {
          const up = way.toString(2).replaceAll('0', '').length;
          if (Math.abs(2 * up - n) >= Math.abs(gained - lost)) asFar++;
        }
        expect(mcnemarExact(gained, lost)).toBeCloseTo(asFar / 2 ** n, 12);
      }
  });

  test.each([0, 4, 1.5, NaN, -1])('pass@%f of 3 is refused', (k) => {
    expect(() => passAtK(3, 1, k)).toThrow(`needs 1 <= k <= 3 samples, got k = ${k}`);
  });
  test('pass@3 of 3, and pass@1', () =>
    expect([passAtK(3, 1, 3), passAtK(3, 1, 1), passAtK(3, 0, 3)]).toEqual([1, close(1 / 3), 0]));
});

describe('readings and figures of verdicts', () => {
  const of = (kind: Outcome['kind'], formed?: boolean, lenient?: Outcome['kind']): Outcome => ({
    tier: 'A',
    kind,
    formed,
    lenient,
  });
  const kinds = (outcomes: readonly Outcome[], reading: 'format' | 'lenient') =>
    underReading(outcomes, reading)?.map(({ kind }) => kind);

  test('the format is whether the strict reading succeeded, over the replies with a verdict', () => {
    expect(
      kinds(
        [
          of('pass', true),
          of('fail', true),
          of('fail', false),
          of('none', true),
          of('none', false),
        ],
        'format',
      ),
    ).toEqual(['pass', 'pass', 'fail', 'none', 'none']);
    expect(
      kinds(
        [of('none', undefined, 'pass'), of('fail', undefined, 'fail'), of('pass', false, 'none')],
        'lenient',
      ),
    ).toEqual(['pass', 'fail', 'none']);
    expect(underReading([of('pass', true)], 'format')).toEqual([{ tier: 'A', kind: 'pass' }]);
  });

  test('one that does not say leaves no reading, and so does nothing', () => {
    for (const reading of ['format', 'lenient'] as const) {
      expect(underReading([], reading)).toBeNull();
      expect(underReading([of('pass', true, 'pass'), of('pass')], reading)).toBeNull();
      expect(underReading([of('none')], reading)).toBeNull();
    }
  });

  test('figures are those that a verdict has, and no other member', () => {
    const forecast = { probability: 0.3, outcome: true };
    expect(figuresOf({ score: undefined, forecast: undefined })).toStrictEqual({});
    expect(figuresOf({ score: 0 })).toStrictEqual({ score: 0 });
    expect(
      figuresOf({ forecast: { ...forecast, more: 1 } as never, tier: 'A' } as never),
    ).toStrictEqual({ forecast });
    expect(figuresGiven([])).toEqual([]);
    expect(figuresGiven([{ forecast }, { score: 0.1 }])).toEqual(['score', 'forecast']);
    expect(figuresGiven([{}, { forecast }])).toEqual(['forecast']);
  });
});

describe('what a paired change says', () => {
  const of = (...verdicts: readonly string[]) =>
    verdicts.map((each) => ({ weight: 1 / verdicts.length, verdicts: each }));

  test('what is over other problems is refused with both numbers', () => {
    expect(() => pairedChange(of('p'), of('p', 'p'))).toThrow('1 tiers with 2');
    expect(() => pairedChange(of('pp'), of('ppf'))).toThrow('2 problems with 3');
  });

  test('a fall is significant below the level, not at it; none is no fall', () => {
    const drop = (difference: number, p: number): boolean =>
      isSignificantDrop({ difference, p }, 0.05);
    expect([drop(-0.1, 0.049), drop(-0.1, 0.05), drop(0, 0.01), drop(0.1, 0.01)]).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  test('gains that weigh as much as losses are no change, to the last bit; tiers without a pair leave their weight to the others', () => {
    // 0.1 + 0.2 beside 0.3, as three tiers of one problem each
    const tiers = (verdicts: string) =>
      [...verdicts].map((each, i) => ({ weight: [0.1, 0.2, 0.3, 0.4][i]!, verdicts: each }));
    const change = pairedChange(tiers('ffpp'), tiers('ppfp'));
    expect(change).toMatchObject({
      difference: 0,
      p: 1,
      gained: 2,
      lost: 1,
      before: close(0.7),
      gain: close(0.3),
      loss: close(0.3),
    });
    expect(change.after).toBe(change.before);
    const less = pairedChange(tiers('fpnf'), tiers('pfpn'));
    expect(less).toMatchObject({
      gain: close(1 / 3),
      loss: close(2 / 3),
      before: close(2 / 3),
      after: close(1 / 3),
      gained: 1,
      lost: 1,
    });
    expect(less.effective).toBeCloseTo(1 / (1 / 9 + 4 / 9), 12);
    expect(less.p).toBe(1); // a third or more apart in each of the four ways
  });

  test('nothing compared scores 0 for a gain', () =>
    expect(gainScore({ gain: 0, loss: 0, effective: 0 }, 0.1)).toBe(0));
});

describe('summaries', () => {
  const TIERS = [{ id: 'A' }, { id: 'B1', group: 'B' }, { id: 'B2', group: 'B' }];
  const some = (tier: string, kinds: string): Outcome[] =>
    [...kinds].map((kind) => ({
      tier,
      kind: ({ p: 'pass', f: 'fail', n: 'none' } as const)[kind as 'p'],
    }));

  test('weights: a group counts as one tier, of those that are there', () => {
    expect(weightsOf(TIERS)).toEqual([0.5, 0.25, 0.25]);
    expect(weightsOf(TIERS.slice(1))).toEqual([0.5, 0.5]);
    expect(verdictsByTier([...some('B2', 'pfn'), ...some('A', 'f')], TIERS)).toEqual([
      { weight: 0.5, verdicts: 'f' },
      { weight: 0.5, verdicts: 'pfn' },
    ]);
  });

  test('a group adds its tiers up, verdicts and none; one tier alone has one interval', () => {
    const { byTier, n, none } = summarise(
      [...some('A', 'pf'), ...some('B1', 'ppfn'), ...some('B2', 'pfffnn')],
      TIERS,
      { seed: 1n },
    );
    expect(byTier.B).toMatchObject({
      passed: 3,
      n: 7,
      none: 3,
      mean: close((2 / 3 + 1 / 4) / 2),
    });
    expect([byTier.B1, byTier.B2, n, none]).toMatchObject([
      { passed: 2, n: 3, none: 1 },
      { passed: 1, n: 4, none: 2 },
      9,
      3,
    ]);
    const { low, high } = wilson(2 / 3, 3);
    expect(summarise(some('B1', 'ppfn'), TIERS, { seed: 1n })).toMatchObject({
      low: close(low),
      high: close(high),
      n: 3,
      none: 1,
    });
    expect(summarise([...some('A', 'pf'), ...some('B1', 'nn')], TIERS, { seed: 1n })).toMatchObject(
      {
        mean: null,
        low: 0,
        high: 1,
        byTier: { A: { mean: 0.5 }, B1: { mean: null, n: 0, none: 2, low: 0, high: 1 } },
      },
    );
    expect(() => summarise(some('C', 'p'), TIERS, { seed: 1n })).toThrow(
      'an outcome names the unknown tier C',
    );
  });

  test('measures: means, counts and intervals by tier, group and over all, where all losses of a tier are alike', () => {
    const said = (tier: string, probability: number): Outcome => ({
      tier,
      kind: 'pass',
      forecast: { probability, outcome: true },
    });
    const problems = [
      ...Array.from({ length: 10 }, () => [said('A', 0.5), said('A', 0.5)]),
      ...Array.from({ length: 8 }, () => [said('B1', 0.25)]),
      ...Array.from({ length: 5 }, () => [
        said('B2', 0.5),
        { tier: 'B2', kind: 'none' } as Outcome,
      ]),
      [],
    ];
    const found = measure(problems, TIERS, { seed: 1n })!;
    expect(Object.keys(found)).toEqual(['brier', 'logarithmic']);
    for (const [name, most, half, quarter] of [
      ['brier', 1, 0.25, 0.5625],
      ['logarithmic', 18 * Math.LN10, Math.log(2), Math.log(4)],
    ] as const) {
      const summary = found[name]!;
      type Alike = Interval & { readonly loss: number };
      // of parts of the worst loss, each tier by its problems; tiers and the group add up in
      // squares
      const [a, b1, b2] = (
        [
          [half, 10],
          [quarter, 8],
          [half, 5],
        ] as const
      ).map(([loss, n]) => ({ loss, ...wilson(loss / most, n) })) as [Alike, Alike, Alike];
      const over = (parts: readonly (readonly [number, Alike])[]) => {
        const centre = parts.reduce((sum, [weight, { loss }]) => sum + weight * loss, 0);
        const far = (of: (part: Alike) => number): number =>
          most * Math.hypot(...parts.map(([weight, part]) => weight * of(part)));
        return {
          mean: close(centre),
          low: close(centre - far(({ loss, low }) => loss / most - low), 9),
          high: close(centre + far(({ loss, high }) => high - loss / most), 9),
        };
      };
      expect(summary.byTier.A).toMatchObject({ ...over([[1, a]]), n: 20, valid: 1 });
      expect(summary.byTier.B2).toMatchObject({ ...over([[1, b2]]), n: 5, valid: 1 });
      expect(summary.byTier.B).toMatchObject({
        ...over([
          [0.5, b1],
          [0.5, b2],
        ]),
        n: 13,
      });
      expect(summary).toMatchObject({
        ...over([
          [0.5, a],
          [0.25, b1],
          [0.25, b2],
        ]),
        n: 33,
        valid: 1,
        validInterval: { low: close(wilson(1, 33).low), high: 1 },
      });
    }
    const undecided = measure([[{ tier: 'A', kind: 'none' }]], TIERS, {
      seed: 1n,
      figures: ['score', 'forecast'],
    })!;
    const nothing = { mean: null, low: 0, n: 0, valid: null, validInterval: { low: 0, high: 1 } };
    expect(undecided).toMatchObject({
      score: { ...nothing, high: 1 },
      logarithmic: { ...nothing, high: close(18 * Math.LN10) },
    });
    expect(measure([[said('A', 0.5)]], TIERS, { seed: 1n, figures: [] })).toBeNull();
    expect(brierScore({ probability: 0.25, outcome: false })).toBe(0.0625);
  });

  test('a score is valid where it is given or the verdict is a pass; a verdict none counts nowhere', () => {
    const outcomes: Outcome[] = [
      { tier: 'A', kind: 'none', score: 0.5 },
      { tier: 'A', kind: 'fail', score: 0.5 },
      { tier: 'A', kind: 'fail' },
      { tier: 'A', kind: 'pass' },
      { tier: 'A', kind: 'pass', score: 0.75 },
    ];
    const { score } = measure([outcomes], TIERS, { seed: 1n })!;
    expect(score).toMatchObject({ mean: close((0.5 + 0 + 1 + 0.75) / 4), n: 4, valid: 0.75 });
  });
});

describe('forgetting', () => {
  const text = (tokens: number, before: number, after: number) => ({ tokens, before, after });

  test('is the fall of the log-probability a token, with the error of a ratio over texts', () => {
    const english = [text(10, -20, -21), text(30, -50, -54), text(10, -30, -30)];
    const { english: level, lost, divergence } = forgettingOf(english, [text(4, -8, -10)]);
    expect(level).toEqual({ before: -2, after: -2.1 });
    // falls of 1, 4 and 0 less a tenth of the tokens: 0, 1, -1
    const error = Math.sqrt((2 * 3) / 2) / 50;
    expect(lost).toEqual({ mean: 0.1, standardError: close(error), texts: 3, tokens: 50 });
    expect(intervalOfMean(lost)).toEqual({
      low: close(0.1 - T[2]! * error, 9),
      high: close(0.1 + T[2]! * error, 9),
    });
    expect(divergence).toEqual({ mean: 0.5, standardError: null, texts: 1, tokens: 4 });
    expect(intervalOfMean(divergence!)).toBeNull();
    expect(forgettingOf(english.slice(0, 1), []).divergence).toBeNull();
    const two = forgettingOf([text(1, 0, -1), text(1, 0, 1)], []).lost;
    expect(two).toMatchObject({ mean: 0, standardError: close(1) });
    expect(intervalOfMean(two)!.high).toBeCloseTo(T[1]!, 8);
  });

  test('the set has as many texts as are said', () => {
    const lines = (name: string, by: RegExp): number => {
      const file = new URL(`../../assets/forgetting/${name}.txt`, import.meta.url);
      return readFileSync(file, 'utf8').trim().split(by).length;
    };
    expect(FORGETTING_SET).toEqual({
      prompts: lines('prompts', /\n/),
      paragraphs: lines('english', /\n{2,}/),
    });
  });
});

test('seeded draws differ by their seed', () => {
  const values = Array.from({ length: 30 }, (_, i) => new Random(BigInt(i)).nextDouble());
  const [one, other] = [1n, 2n].map((seed) =>
    stratifiedBootstrap([{ weight: 1, values }], { seed, of: 'fractions' }),
  );
  expect(one!.low).not.toBe(other!.low);
});
