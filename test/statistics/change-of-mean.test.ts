/**
 * The change of a mean: its test against trying all signs, its interval against the test and by
 * counting how often it holds.
 */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import {
  changeOfMean,
  mcnemarExact,
  pairedChange,
  type TierChange,
} from '../../src/statistics/index.js';

const one = (n: number, gained: number, lost: number): TierChange[] => [
  { weight: 1, n, gained, lost },
];

/** Two-sided p of the change by trying every way in which the changed problems may fall. */
function bySigns(tiers: readonly TierChange[]): number {
  const each = tiers.flatMap(({ weight, n, gained, lost }) =>
    new Array<number>(gained + lost).fill(weight / n),
  );
  const seen = Math.abs(
    tiers.reduce((sum, { weight, n, gained, lost }) => sum + (weight / n) * (gained - lost), 0),
  );
  let asFar = 0;
  for (let signs = 0; signs < 2 ** each.length; signs++) {
    const sum = each.reduce((total, value, i) => total + ((signs >> i) & 1 ? value : -value), 0);
    if (Math.abs(sum) >= seen - 1e-9) asFar++;
  }
  return asFar / 2 ** each.length;
}

describe('the change of a mean over tiers', () => {
  const N = 24;
  const all: { gained: number; lost: number; low: number; high: number; p: number }[] = [];
  for (let gained = 0; gained <= N; gained++)
    for (let lost = 0; gained + lost <= N; lost++)
      all.push({ gained, lost, ...changeOfMean(one(N, gained, lost)) });

  test("has McNemar's exact p, and an interval about the change that excludes 0 exactly where p is below 0.05", () => {
    for (const { gained, lost, low, high, p } of all) {
      expect(p).toBeCloseTo(mcnemarExact(gained, lost), 10);
      expect(low > 0 || high < 0).toBe(p < 0.05);
      const mean = (gained - lost) / N;
      expect([low >= -1, low <= mean, mean <= high, high <= 1]).toEqual([true, true, true, true]);
    }
  });

  test('is the same seen from the other side, and wider where fewer problems say the same', () => {
    const there = changeOfMean(one(40, 9, 2));
    const back = changeOfMean(one(40, 2, 9));
    expect([back.mean, back.low, back.high, back.p]).toEqual([
      -there.mean,
      -there.high,
      -there.low,
      there.p,
    ]);
    const more = changeOfMean(one(400, 90, 20));
    expect(more.high - more.low).toBeLessThan((there.high - there.low) / 2.5);
  });

  test.each([0.05, 0.2, 0.5, 0.9])(
    'holds in at least 95 of 100 draws, where a share of %f changes',
    (changing) => {
      const ln = (n: number): number => (n < 2 ? 0 : Math.log(n) + ln(n - 1));
      for (const theta of [0.02, 0.2, 0.5, 0.7, 0.99]) {
        const chances = [changing * theta, changing * (1 - theta), 1 - changing] as const;
        let held = 0;
        for (const { gained, lost, low, high } of all) {
          const same = N - gained - lost;
          const log =
            ln(N) -
            ln(gained) -
            ln(lost) -
            ln(same) +
            [gained, lost, same].reduce((sum, k, i) => sum + k * Math.log(chances[i]!), 0);
          if (low <= chances[0] - chances[1] && chances[0] - chances[1] <= high)
            held += Math.exp(log);
        }
        expect(held).toBeGreaterThanOrEqual(0.95);
      }
    },
  );

  test.each<readonly TierChange[]>([
    [
      { weight: 0.5, n: 2, gained: 0, lost: 2 },
      { weight: 0.5, n: 9, gained: 4, lost: 0 },
    ],
    [
      { weight: 1 / 3, n: 10, gained: 6, lost: 0 },
      { weight: 1 / 3, n: 17, gained: 1, lost: 0 },
      { weight: 1 / 3, n: 23, gained: 0, lost: 0 },
    ],
    [
      { weight: 0.25, n: 7, gained: 5, lost: 1 },
      { weight: 0.75, n: 11, gained: 3, lost: 3 },
    ],
  ])(
    'where tiers weigh unlike, has the p of trying all signs, and an interval that agrees with it',
    (...tiers) => {
      const { mean, low, high, p } = changeOfMean(tiers);
      expect(p).toBeCloseTo(bySigns(tiers), 9);
      expect(mean).toBeCloseTo(
        tiers.reduce((sum, { weight, n, gained, lost }) => sum + (weight * (gained - lost)) / n, 0),
        12,
      );
      expect(low > 0 || high < 0).toBe(p < 0.05);
      expect(low <= mean && mean <= high).toBe(true);
    },
  );

  test('of weights without a common measure agrees with trying all signs to a few per cent, and with itself', () => {
    const tiers = [13, 17, 29, 31].map((n, i) => ({
      weight: [0.1, 0.2, 0.3, 0.4][i]! + (i - 1.5) * 1e-5,
      n,
      gained: 3,
      lost: i % 2,
    }));
    const { low, p } = changeOfMean(tiers);
    expect(Math.abs(Math.log(p / bySigns(tiers)))).toBeLessThan(0.1);
    expect(low > 0).toBe(p < 0.05);
  });

  const verdicts = (tiers: readonly TierChange[], when: 'before' | 'after') =>
    tiers.map(({ weight, n, gained, lost }) => {
      const [won, gone] = when === 'before' ? ['f', 'p'] : ['p', 'f'];
      return {
        weight,
        verdicts: won.repeat(gained) + gone.repeat(lost) + 'p'.repeat(n - gained - lost),
      };
    });
  const many = (count: number, weight: number, tier: Omit<TierChange, 'weight'>): TierChange[] =>
    Array.from({ length: count }, () => ({ weight, ...tier }));

  test.each<readonly [string, readonly TierChange[]]>([
    [
      '20 tiers',
      [
        ...many(10, 1 / 20, { n: 3, gained: 3, lost: 0 }),
        ...many(10, 1 / 20, { n: 100, gained: 20, lost: 60 }),
      ],
    ],
    [
      '40 tiers',
      [
        ...many(20, 1 / 40, { n: 3, gained: 3, lost: 0 }),
        ...many(20, 1 / 40, { n: 100, gained: 20, lost: 60 }),
      ],
    ],
    [
      'two tiers of thousands',
      [
        { weight: 0.5, n: 500, gained: 300, lost: 100 },
        { weight: 0.5, n: 5000, gained: 500, lost: 1500 },
      ],
    ],
    [
      '20 sizes',
      Array.from({ length: 20 }, (_, i) => ({
        weight: 1 / 20,
        n: 50 + 2 * i,
        gained: 8 + i,
        lost: 4 + (i % 5),
      })),
    ],
  ])('loses no weight by rounding, small beside large: %s', (_, tiers) => {
    const { mean, low, high, p } = changeOfMean(tiers);
    expect(mean).toBeGreaterThan(0);
    expect([low > 0, low <= mean, mean <= high]).toEqual([true, true, true]);
    expect(p).toBe(pairedChange(verdicts(tiers, 'before'), verdicts(tiers, 'after')).p);
  });

  test.each<
    readonly [
      string,
      readonly (readonly [weight: number, n: number, gains: number, losses: number])[],
    ]
  >([
    [
      '5 beside 300',
      [
        [0.5, 5, 0.15, 0],
        [0.5, 300, 0, 0.1],
      ],
    ],
    [
      '4 beside 200',
      [
        [0.5, 4, 0, 0.5],
        [0.5, 200, 0.01, 0.01],
      ],
    ],
    [
      '25 beside 100',
      [
        [0.5, 25, 0.06, 0],
        [0.5, 100, 0, 0.06],
      ],
    ],
    [
      '25 beside 50',
      [
        [0.5, 25, 0.08, 0],
        [0.5, 50, 0, 0.08],
      ],
    ],
  ])(
    'holds in 95 of 100 draws, and agrees with its p, where tiers are of unlike size: %s',
    (_, tiers) => {
      const random = new Random(7n);
      const truth = tiers.reduce(
        (sum, [weight, , gains, losses]) => sum + weight * (gains - losses),
        0,
      );
      let held = 0;
      for (let draw = 0; draw < 100; draw++) {
        const drawn = tiers.map(([weight, n, gains, losses]) => {
          const places = Array.from({ length: n }, () => random.nextDouble());
          const gained = places.filter((at) => at < gains).length;
          return {
            weight,
            n,
            gained,
            lost: places.filter((at) => at < gains + losses).length - gained,
          };
        });
        const { low, high, p } = changeOfMean(drawn);
        expect(low > 0 || high < 0).toBe(p < 0.05);
        if (low <= truth && truth <= high) held++;
      }
      expect(held / 100).toBeGreaterThanOrEqual(0.95);
    },
  );

  test('has no interval of nothing', () => {
    expect(() => changeOfMean(one(0, 0, 0))).toThrow(RangeError);
    expect(() => changeOfMean([])).toThrow(RangeError);
  });
});
