/**
 * Exact tests against every way in which things may fall, and the interval of a change against its
 * definition by numbers.
 */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import {
  changeOfMean,
  exactGreater,
  normalQuantile,
  pearson,
  type TierChange,
  type TwoSamples,
} from '../../src/statistics/index.js';
import { fisherExact, hypergeometric } from '../../src/statistics/hypergeometric.js';
import { isTwoValued, permutationP } from '../../src/statistics/permutation.js';
import {
  MOST_SUMS,
  SAME,
  signFlipTest,
  signSums,
  type Pairs,
} from '../../src/statistics/sign-sums.js';

const close = (value: number, digits = 10): number =>
  expect.closeTo(value, digits) as unknown as number;
const choose = (n: number, k: number): number =>
  k === 0 ? 1 : (choose(n, k - 1) * (n - k + 1)) / k;
const binomial = (n: number, k: number, p: number): number =>
  choose(n, k) * p ** k * (1 - p) ** (n - k);

describe('sums of weights that are gained or lost', () => {
  /** Chance that the sum is `least` or more, by trying every way. */
  function tried(discordant: readonly Pairs[], least: number, theta: number): number {
    const each = discordant.flatMap(({ weight, pairs }) => new Array<number>(pairs).fill(weight));
    let more = 0;
    for (let way = 0; way < 2 ** each.length; way++) {
      let [sum, chance] = [0, 1];
      for (const [i, weight] of each.entries()) {
        const gained = ((way >> i) & 1) === 1;
        sum += gained ? weight : -weight;
        chance *= gained ? theta : 1 - theta;
      }
      if (sum >= least - 1e-9) more += chance;
    }
    return more;
  }
  const pairs: Pairs[] = [
    { weight: 0.25, pairs: 3 },
    { weight: 0.1, pairs: 0 },
    { weight: 0.3, pairs: 2 },
    { weight: 0.25, pairs: 1 },
    { weight: 0.07, pairs: 4 },
  ];

  test('have the chances of all ways, at any theta', () => {
    const { tails, reach } = signSums(pairs);
    expect(reach).toBeCloseTo(4 * 0.25 + 2 * 0.3 + 4 * 0.07, 12);
    for (const least of [-1.9, -0.5, 0, 0.1, 0.25 * 4 + 0.3 * 2 + 0.07 * 2, 1.88, 1.9])
      for (const theta of [0, 0.1, 0.5, 0.83, 1]) {
        const more = tried(pairs, least, theta);
        expect(tails(least, theta)).toEqual([close(more), close(1 - more)]);
      }
  });

  test('of nothing are 0, and of one weight a binomial', () => {
    expect([signSums([]).reach, signSums([]).tails(0, 0.3), signSums([]).tails(0.1, 0.3)]).toEqual([
      0,
      [1, 0],
      [0, 1],
    ]);
    const { tails } = signSums([{ weight: 0.5, pairs: 6 }], 2);
    for (let k = 0; k <= 6; k++) {
      let more = 0;
      for (let gained = k; gained <= 6; gained++) more += binomial(6, gained, 0.3);
      expect(tails(0.5 * (2 * k - 6), 0.3)).toEqual([close(more), close(1 - more)]);
    }
  });

  test('are told apart up to as many as asked for, and rounded beyond', () => {
    const two = [
      { weight: 1, pairs: 1 },
      { weight: Math.SQRT2, pairs: 1 },
    ];
    expect(signSums(two, 4).tails(Math.SQRT2 - 1, 0.5)).toEqual([0.5, 0.5]);
    // in steps of 2 (1 + √2) / 3 the two in the middle are both 0
    expect(signSums(two, 3).tails(Math.SQRT2 - 1, 0.5)).toEqual([0.75, 0.25]);
    expect(signSums(two, 3).reach).toBeCloseTo(1 + Math.SQRT2, 12);
  });

  test('of 13 weights, each twice the one before and a little more, are 8192, all told apart', () => {
    expect(MOST_SUMS).toBe(2 ** 13);
    const many = Array.from({ length: 13 }, (_, i) => ({
      weight: 2 ** i * (1 + i / 1000),
      pairs: 1,
    }));
    const signs = [1, -1, 1, 1, -1, 1, -1, -1, 1, 1, -1, 1, 1];
    const seen = many.reduce((sum, { weight }, i) => sum + weight * signs[i]!, 0);
    expect(signFlipTest(many, seen)).toBeCloseTo(2 * tried(many, seen, 0.5), 13);
    expect(signFlipTest(many, -seen)).toBe(signFlipTest(many, seen));
  });

  test('weights that differ by less than 1e-7 are one', () => {
    expect(SAME).toBe(1e-7);
    const near = [
      { weight: 0.5, pairs: 3 },
      { weight: 0.5 + 1e-9, pairs: 4 },
    ];
    // eight sums of one weight, where twenty of two would be rounded to three
    for (let lost = 0; lost <= 3; lost++)
      expect(signSums(near, 3).tails(0.5 * (7 - 2 * lost), 0.5)[0]).toBeCloseTo(
        tried([{ weight: 0.5, pairs: 7 }], 0.5 * (7 - 2 * lost), 0.5),
        10,
      );
  });

  test('the test counts both sides, and no more than all', () => {
    expect(signFlipTest([], 0)).toBe(1);
    expect(signFlipTest([{ weight: 1, pairs: 4 }], 0)).toBe(1);
    expect(signFlipTest([{ weight: 1, pairs: 4 }], -4)).toBeCloseTo(2 / 16, 12);
    expect(signFlipTest(pairs, 1.88)).toBeCloseTo(2 / 2 ** 10, 12);
  });
});

describe('orders', () => {
  /** Share of all orders of y with a correlation as far from 0. */
  function tried(x: readonly number[], y: readonly number[]): number {
    const seen = Math.abs(pearson(x, y));
    let [asFar, all] = [0, 0];
    const place = (order: readonly number[], left: readonly number[]): void => {
      if (left.length > 0) {
        for (const [i, value] of left.entries()) place([...order, value], left.toSpliced(i, 1));
        return;
      }
      all++;
      if (Math.abs(pearson(x, order)) >= seen - 1e-9) asFar++;
    };
    place([], y);
    return asFar / all;
  }

  test('the p of a correlation is the share of orders that are as far, with equal values and without', () => {
    const random = new Random(3n);
    for (let draw = 0; draw < 25; draw++) {
      const n = random.nextInteger(2, 6);
      const [x, y] = [2, draw % 2 === 0 ? 1 : 9].map((most) =>
        Array.from({ length: n }, () => random.nextInteger(0, most)),
      ) as [number[], number[]];
      const constant = new Set(x).size === 1 || new Set(y).size === 1;
      expect(permutationP(x, y)).toEqual(constant ? null : close(tried(x, y)));
    }
  });

  test('eight pairs are tried, nine are not, unless both sides are two-valued', () => {
    const x = [1, 2, 3, 4, 5, 6, 7, 8];
    expect(permutationP(x, x)).toBeCloseTo(2 / 40320, 12);
    expect(permutationP([...x, 9], [...x, 9])).toBeNull();
    const half = [...'000001111'].map(Number);
    expect(permutationP([...x, 9], half)).toBeNull();
    expect(permutationP(half, [...x, 9])).toBeNull();
    // one of 126 ways; turned round, 1 of 4 drawn is right at least
    expect(permutationP(half, half)).toBeCloseTo(1 / 126, 12);
    const other = [...'100000111'].map(Number);
    expect(permutationP(half, other)).toBeCloseTo(fisherExact(3, 4, 4, 9), 12);
    expect([isTwoValued([1, 2, 1]), isTwoValued([1, 2, 3]), isTwoValued([1, 1])]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('draws', () => {
  test('have the chances of all ways of drawing', () => {
    for (let all = 1; all <= 7; all++)
      for (let marked = 0; marked <= all; marked++)
        for (let drawn = 0; drawn <= all; drawn++) {
          const { least, chances } = hypergeometric(drawn, marked, all);
          expect([least, chances.length]).toEqual([
            Math.max(0, drawn + marked - all),
            Math.min(drawn, marked) - Math.max(0, drawn + marked - all) + 1,
          ]);
          for (const [i, chance] of chances.entries()) {
            const ways = choose(marked, least + i) * choose(all - marked, drawn - least - i);
            expect(chance).toBeCloseTo(ways / choose(all, drawn), 12);
          }
          // as far from what is expected as what was seen
          const seen = least + chances.length - 1;
          const far = (found: number): number => Math.abs(found - (drawn * marked) / all);
          const p = chances.reduce(
            (sum, chance, i) => (far(least + i) >= far(seen) - 1e-9 ? sum + chance : sum),
            0,
          );
          const found = fisherExact(seen, drawn, marked, all);
          expect(found).toBeCloseTo(Math.min(1, p), 12);
          expect(found).toBeLessThanOrEqual(1); // however the doubles round
        }
  });

  test('a mean that is greater in one sample: the share of all draws of all tiers whose difference is as great', () => {
    const random = new Random(6n);
    for (let draw = 0; draw < 20; draw++) {
      // weights and sizes whose differences need no rounding
      const tiers = [0.5, 0.25, 0.25].map((weight): TwoSamples => {
        const [first, second] = [0, 1].map(() => {
          const n = 2 ** random.nextInteger(0, 2);
          return { n, passed: random.nextInteger(0, n) };
        }) as [TwoSamples['first'], TwoSamples['first']];
        return { weight, first, second };
      });
      const difference = (of: (tier: TwoSamples, index: number) => number): number =>
        tiers.reduce((sum, tier, index) => {
          const [found, passed] = [of(tier, index), tier.first.passed + tier.second.passed];
          return sum + tier.weight * (found / tier.first.n - (passed - found) / tier.second.n);
        }, 0);
      const seen = difference(({ first }) => first.passed);
      let more = 0;
      const go = (found: readonly number[], chance: number): void => {
        const tier = tiers[found.length];
        if (tier === undefined) {
          if (difference((_, i) => found[i]!) >= seen - 1e-9) more += chance;
          return;
        }
        const { least, chances } = hypergeometric(
          tier.first.n,
          tier.first.passed + tier.second.passed,
          tier.first.n + tier.second.n,
        );
        chances.forEach((each, i) => {
          go([...found, least + i], chance * each);
        });
      };
      go([], 1);
      expect(exactGreater(tiers)).toBeCloseTo(more, 10);
    }
  });

  test('all the way down is certain, and a tier with none on either side says nothing', () => {
    const none = { passed: 0, n: 0 };
    const [all, no] = [
      { passed: 3, n: 3 },
      { passed: 0, n: 3 },
    ];
    expect(exactGreater([{ weight: 1, first: no, second: all }])).toBeCloseTo(1, 12);
    expect(
      exactGreater([
        { weight: 0.5, first: all, second: no },
        { weight: 0.5, first: none, second: all },
      ]),
    ).toBeCloseTo(1 / 20, 12);
    expect(exactGreater([{ weight: 1, first: none, second: all }])).toBe(1);
  });
});

describe('the interval of a change', () => {
  /** Where what falls or rises over [from, to] turns true. */
  function turn(holds: (at: number) => boolean, from: number, to: number): number {
    let [low, high] = [from, to];
    for (let i = 0; i < 40; i++) {
      const middle = (low + high) / 2;
      if (holds(middle)) high = middle;
      else low = middle;
    }
    return high;
  }
  const atLeast = (n: number, k: number, p: number): number => {
    let sum = 0;
    for (let i = k; i <= n; i++) sum += binomial(n, i, p);
    return sum;
  };
  /**
   * 1 - Clopper and Pearson's upper limit of a share is where so few or fewer have a chance of 2.5
   * %.
   */
  const upper = (n: number, k: number): number =>
    k >= n ? 1 : turn((p) => 1 - atLeast(n, k + 1, p) <= 0.025, 0, 1);

  /**
   * The lower limit as Fay and Lumbard define it: the product of D and 2 theta - 1 lies below it
   * with a chance of 2.5 %.
   */
  function lower(n: number, gained: number, lost: number, positive: boolean): number {
    const changed = gained + lost;
    const [a, b] = positive ? [changed, n - changed + 1] : [changed + 1, n - changed];
    const [steps, places] = [2000, [] as (readonly [number, number])[]];
    let total = 0;
    for (let i = 0; i < steps; i++) {
      const share = (i + 0.5) / steps;
      const weight = share ** (a - 1) * (1 - share) ** (b - 1);
      total += weight;
      places.push([share, weight]);
    }
    const below = (change: number): number =>
      places.reduce((sum, [share, weight]) => {
        const theta = (1 + change / share) / 2;
        return (
          sum +
          (theta <= 0 ? 0 : (weight / total) * (theta >= 1 ? 1 : atLeast(changed, gained, theta)))
        );
      }, 0);
    return positive
      ? turn((change) => below(change) >= 0.025, 0, 1)
      : Math.min(
          0,
          turn((change) => below(change) >= 0.025, -1, 0),
        );
  }
  const one = (n: number, gained: number, lost: number) =>
    changeOfMean([{ weight: 1, n, gained, lost }]);

  test.each([
    [20, 8, 1, true],
    [20, 7, 0, true],
    [20, 4, 2, false],
    [30, 3, 9, false],
    [12, 5, 5, false],
  ])(
    'of %i problems with %i gained and %i lost is Fay and Lumbard’s',
    (n, gained, lost, positive) => {
      const { low, high } = one(n, gained, lost);
      expect(low).toBeCloseTo(lower(n, gained, lost, positive), 3);
      expect(one(n, lost, gained).high).toBeCloseTo(-low, 12);
      if (lost > 0 && !positive)
        expect(high).toBeCloseTo(
          -lower(n, lost, gained, lost > gained && one(n, gained, lost).p < 0.05),
          3,
        );
    },
  );

  test('where nothing was gained, its lower limit is Clopper and Pearson’s of what changed', () => {
    for (const [n, lost] of [
      [10, 0],
      [10, 3],
      [25, 1],
      [25, 24],
    ] as const)
      expect(one(n, 0, lost).low).toBeCloseTo(-upper(n, lost), 8);
    expect([one(8, 0, 8).low, one(8, 8, 0).high]).toEqual([-1, 1]);
    expect(one(10, 0, 0)).toEqual({
      mean: 0,
      low: close(-(1 - 0.025 ** 0.1), 8),
      high: close(1 - 0.025 ** 0.1, 8),
      p: 1,
    });
  });

  test('tiers of one size and weight are one tier', () => {
    const [whole, parts] = [
      one(20, 6, 2),
      changeOfMean([
        { weight: 0.5, n: 10, gained: 6, lost: 0 },
        { weight: 0.5, n: 10, gained: 0, lost: 2 },
      ]),
    ];
    for (const member of ['mean', 'low', 'high', 'p'] as const)
      expect(parts[member]).toBeCloseTo(whole[member], 10);
  });

  /** Wilson's limits at z, as roots. */
  const wilson = (k: number, n: number, z: number): [number, number] => {
    const [p, w] = [k / n, z ** 2 / n];
    const root = Math.sqrt((2 * p + w) ** 2 - 4 * (1 + w) * p ** 2);
    return [(2 * p + w - root) / (2 * (1 + w)), (2 * p + w + root) / (2 * (1 + w))];
  };
  /** The sum of what each tier gained less what it lost, by distances that add up in squares. */
  const byTier = (tiers: readonly TierChange[], z: number): [number, number] => {
    let [mean, down, up] = [0, 0, 0];
    for (const { weight, n, gained, lost } of tiers) {
      const [gain, loss] = [wilson(gained, n, z), wilson(lost, n, z)];
      mean += (weight * (gained - lost)) / n;
      down += weight ** 2 * ((gained / n - gain[0]) ** 2 + (loss[1] - lost / n) ** 2);
      up += weight ** 2 * ((gain[1] - gained / n) ** 2 + (lost / n - loss[0]) ** 2);
    }
    return [mean - Math.sqrt(down), mean + Math.sqrt(up)];
  };
  const unlike = (small: number, gained: number, lost: number): TierChange[] => [
    { weight: 0.5, n: small, gained: 1, lost: 0 },
    { weight: 0.5, n: 90, gained, lost },
  ];

  test.each<readonly [string, TierChange[], up: boolean]>([
    ['that rose', unlike(10, 40, 2), true],
    [
      'that fell',
      [
        { weight: 0.5, n: 10, gained: 0, lost: 1 },
        { weight: 0.5, n: 90, gained: 2, lost: 40 },
      ],
      false,
    ],
    [
      'of three',
      [
        { weight: 0.4, n: 8, gained: 3, lost: 0 },
        { weight: 0.3, n: 60, gained: 20, lost: 1 },
        { weight: 0.3, n: 60, gained: 9, lost: 9 },
      ],
      true,
    ],
  ])(
    'of a mean over tiers of unlike size, %s, reaches as far as the tiers do by themselves, and its p is where that reaches 0',
    (_, tiers, up) => {
      const { low, high, p } = changeOfMean(tiers);
      const [down, top] = byTier(tiers, normalQuantile(0.025));
      // the limit away from 0 may be that of all that changed, if it lies farther
      if (up) expect(low).toBeLessThanOrEqual(down + 1e-9);
      else expect(high).toBeGreaterThanOrEqual(top - 1e-9);
      expect(low).toBeLessThanOrEqual(down + 1e-9);
      expect(high).toBeGreaterThanOrEqual(top - 1e-9);
      expect(byTier(tiers, normalQuantile(p / 2))[up ? 0 : 1]).toBeCloseTo(0, 8);
    },
  );

  test('is that of all that changed up to three times the weight, and beyond also that of each tier', () => {
    const at = (small: number) => {
      const tiers = unlike(small, 3, 30);
      const { low, high } = changeOfMean(tiers);
      const [down, top] = byTier(tiers, normalQuantile(0.025));
      return [low === down || Math.abs(low - down) < 1e-9, Math.abs(high - top) < 1e-9];
    };
    // 90 problems beside 30 weigh a third each, beside 29 less
    expect(at(30)).toEqual([false, false]);
    expect(at(29)).toContain(true);
  });

  test('keeps within the scale, and is 1 where a mean over unlike tiers stood still', () => {
    const still = changeOfMean([
      { weight: 0.5, n: 10, gained: 1, lost: 0 },
      { weight: 0.5, n: 100, gained: 0, lost: 10 },
    ]);
    expect(still.mean).toBeCloseTo(0, 12);
    expect(still.p).toBeCloseTo(1, 3);
    expect(still.low < 0 && still.high > 0).toBe(true);
    const all = changeOfMean([
      { weight: 0.5, n: 1, gained: 1, lost: 0 },
      { weight: 0.5, n: 5, gained: 5, lost: 0 },
    ]);
    expect(all.high).toBe(1);
    expect(all.low).toBeGreaterThanOrEqual(-1);
  });

  test('a tier without a problem is refused in words', () => {
    expect(() =>
      changeOfMean([...unlike(4, 1, 1), { weight: 0, n: 0, gained: 0, lost: 0 }]),
    ).toThrow('every tier needs at least one problem');
  });
});
