import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import {
  fisherInterval,
  gainScore,
  holm,
  kendall,
  mcnemarExact,
  mean,
  meanOverTiers,
  normalInterval,
  pairedBootstrap,
  pairedChange,
  passAtK,
  pearson,
  sampleStandardDeviation,
  spearman,
  summarise,
  verdictsByTier,
  wilsonInterval,
  type Outcome,
} from '../../src/statistics/index.js';

const TIERS = [
  { id: 'T0' },
  { id: 'T1' },
  { id: 'T2' },
  { id: 'T3' },
  { id: 'T4sr', group: 'T4' },
  { id: 'T4rd', group: 'T4' },
  { id: 'T4sd', group: 'T4' },
  { id: 'T5' },
];
const outcomes = (tier: string, passed: number, failed: number, none = 0): Outcome[] => [
  ...Array.from({ length: passed }, () => ({ tier, kind: 'pass' as const })),
  ...Array.from({ length: failed }, () => ({ tier, kind: 'fail' as const })),
  ...Array.from({ length: none }, () => ({ tier, kind: 'none' as const })),
];

describe('intervals', () => {
  test('the vectors of truthseeking.md T3: 7 of 10 and 8 of 8', () => {
    const normal = normalInterval(7, 10);
    expect(normal.low).toBeCloseTo(0.415969, 6);
    expect(normal.high).toBeCloseTo(0.984031, 6);
    const wilson = wilsonInterval(7, 10);
    expect(wilson.low).toBeCloseTo(0.396773, 6);
    expect(wilson.high).toBeCloseTo(0.892211, 6);
    expect(wilsonInterval(8, 8).low).toBeCloseTo(0.675584, 6);
    expect(wilsonInterval(8, 8).high).toBe(1);
  });

  test('2 of 3 is 21 to 94 %, 0 of 3 is 0 to 56 %, 4 of 5 is 38 to 96 %', () => {
    const percent = (passed: number, n: number): number[] =>
      Object.values(wilsonInterval(passed, n)).map((bound) => Math.round(100 * bound));
    expect(percent(2, 3)).toEqual([21, 94]);
    expect(percent(0, 3)).toEqual([0, 56]);
    expect(percent(4, 5)).toEqual([38, 96]);
  });

  test('the vectors of truthseeking.md T23: Fisher, Pearson, Spearman, Kendall', () => {
    const { low, high } = fisherInterval(0.5, 28);
    expect(low).toBeCloseTo(0.156021, 6);
    expect(high).toBeCloseTo(0.735822, 6);
    const [x, y] = [
      [1, 2, 3, 4, 5],
      [2, 1, 4, 3, 5],
    ];
    expect(pearson(x, y)).toBeCloseTo(0.8, 12);
    expect(spearman(x, y)).toBeCloseTo(0.8, 12);
    expect(kendall(x, y)).toBeCloseTo(0.6, 12);
  });

  test('Wilson covers the truth about as often as it says', () => {
    const random = new Random(11n);
    let covered = 0;
    for (let trial = 0; trial < 4_000; trial++) {
      let passed = 0;
      for (let i = 0; i < 100; i++) if (random.nextDouble() < 0.3) passed++;
      const { low, high } = wilsonInterval(passed, 100);
      if (low <= 0.3 && 0.3 <= high) covered++;
    }
    expect(covered / 4_000).toBeGreaterThan(0.93);
    expect(covered / 4_000).toBeLessThan(0.97);
  });

  test('counts that cannot be are refused', () => {
    expect(() => wilsonInterval(3, 2)).toThrow(RangeError);
    expect(() => wilsonInterval(-1, 2)).toThrow(RangeError);
    expect(() => mcnemarExact(0.5, 1)).toThrow(RangeError);
  });
});

describe('paired tests', () => {
  test('exact McNemar is the binomial sum', () => {
    expect(mcnemarExact(9, 1)).toBeCloseTo((2 * (1 + 10)) / 1024, 12);
    expect(mcnemarExact(1, 9)).toBe(mcnemarExact(9, 1));
    expect(mcnemarExact(6, 0)).toBeCloseTo(2 / 64, 12);
    expect(mcnemarExact(5, 5)).toBe(1);
    expect(mcnemarExact(0, 0)).toBe(1);
    expect(mcnemarExact(900, 700)).toBeGreaterThan(0);
    expect(mcnemarExact(900, 700)).toBeLessThan(1e-6);
  });

  test("the bootstrap over problems keeps a problem's samples together", () => {
    const random = new Random(3n);
    const perProblem = Array.from({ length: 40 }, () => (random.nextDouble() < 0.5 ? 1 : 0));
    const once = pairedBootstrap(
      perProblem.map((after) => ({ stratum: 'T1', before: [0], after: [after] })),
      { seed: 5n },
    );
    const eightFold = pairedBootstrap(
      perProblem.map((after) => ({
        stratum: 'T1',
        before: new Array<number>(8).fill(0),
        after: new Array<number>(8).fill(after),
      })),
      { seed: 5n },
    );
    expect(eightFold).toEqual(once); // eight copies of a sample carry no information
    expect(once.difference).toBeCloseTo(mean(perProblem), 12);
    const half = 1.96 * Math.sqrt((once.difference * (1 - once.difference)) / 40);
    expect(once.high - once.low).toBeGreaterThan(2 * half * 0.85);
    expect(once.high - once.low).toBeLessThan(2 * half * 1.15);
  });

  test('strata count equally whatever their size', () => {
    const pairs = [
      ...Array.from({ length: 90 }, () => ({ stratum: 'a', before: [0], after: [1] })),
      ...Array.from({ length: 10 }, () => ({ stratum: 'b', before: [1], after: [1] })),
    ];
    expect(pairedBootstrap(pairs, { seed: 1n })).toMatchObject({ difference: 0.5, problems: 100 });
    expect(
      pairedBootstrap([...pairs, { stratum: 'c', before: [1], after: [1] }], {
        seed: 1n,
        groupOf: (stratum) => (stratum === 'a' ? 'a' : 'rest'),
      }).difference,
    ).toBe(0.5);
  });

  test('without a single difference the interval is that of Tango (1998) for no discordant pair, not a point', () => {
    const same = (stratum: string): { stratum: string; before: number[]; after: number[] }[] =>
      Array.from({ length: 100 }, (_, i) => ({ stratum, before: [i % 2], after: [i % 2] }));
    const reach = 1.96 ** 2 / (100 + 1.96 ** 2);
    const one = pairedBootstrap(same('a'), { seed: 1n });
    expect([one.difference, one.low, one.high]).toEqual([
      0,
      expect.closeTo(-reach, 12),
      expect.closeTo(reach, 12),
    ]);
    // two strata, each half: their reaches add up in squares
    const two = pairedBootstrap([...same('a'), ...same('b')], { seed: 1n });
    expect([two.low, two.high]).toEqual([
      expect.closeTo(-reach / Math.SQRT2, 12),
      expect.closeTo(reach / Math.SQRT2, 12),
    ]);
    const all = pairedBootstrap(
      Array.from({ length: 100 }, () => ({ stratum: 'a', before: [0], after: [1] })),
      { seed: 1n },
    );
    expect(all.high).toBe(1);
    expect(all.low).toBeLessThan(1 - reach);
    expect(all.low).toBeGreaterThan(0.9);
  });

  test('Holm multiplies the smallest most and never decreases', () => {
    expect(holm([0.01, 0.04, 0.03, 0.005])).toEqual([0.03, 0.06, 0.06, 0.02]);
    expect(holm([0.9, 0.8])).toEqual([1, 1]);
  });
});

describe('pass@k', () => {
  test('equals the fraction of k-subsets with a pass', () => {
    for (const [n, c] of [
      [5, 2],
      [6, 0],
      [6, 6],
      [7, 1],
    ] as const) {
      for (let k = 1; k <= n; k++) {
        let [subsets, hits] = [0, 0];
        for (let mask = 0; mask < 1 << n; mask++) {
          if ([...mask.toString(2)].filter((bit) => bit === '1').length !== k) continue;
          subsets++;
          if ((mask & ((1 << c) - 1)) !== 0) hits++;
        }
        expect(passAtK(n, c, k)).toBeCloseTo(hits / subsets, 12);
      }
    }
    expect(() => passAtK(3, 1, 4)).toThrow(RangeError);
  });
});

test('the sample standard deviation divides by n - 1', () => {
  expect(sampleStandardDeviation([0.01, 0.04, 0.25, 0.49])).toBeCloseTo(0.222317, 6);
  expect(sampleStandardDeviation([1])).toBeNaN();
});

describe('summaries', () => {
  const all = [
    ...outcomes('T0', 10, 0),
    ...outcomes('T1', 5, 5),
    ...outcomes('T2', 0, 10),
    ...outcomes('T3', 2, 8),
    ...outcomes('T4sr', 9, 1),
    ...outcomes('T4rd', 0, 10),
    ...outcomes('T4sd', 3, 7),
    ...outcomes('T5', 1, 9),
  ];

  test('the mean is unweighted over tiers, with T4 the mean of its subtypes', () => {
    const summary = summarise(all, TIERS, { seed: 1n });
    const T4 = (0.9 + 0 + 0.3) / 3;
    expect(summary.byTier.T4).toMatchObject({ passed: 12, n: 30, none: 0 });
    expect(summary.byTier.T4!.mean).toBeCloseTo(T4, 12);
    expect(summary.mean).toBeCloseTo((1 + 0.5 + 0 + 0.2 + T4 + 0.1) / 6, 12);
    expect(summary.low).toBeLessThan(summary.mean!);
    expect(summary.high).toBeGreaterThan(summary.mean!);
    expect(Object.keys(summary.byTier)).toEqual([
      'T0',
      'T1',
      'T2',
      'T3',
      'T4sr',
      'T4rd',
      'T4sd',
      'T4',
      'T5',
    ]);
    expect(summary.byTier.T1).toEqual({
      passed: 5,
      n: 10,
      none: 0,
      mean: 0.5,
      ...wilsonInterval(5, 10),
    });
    expect(summarise(all, TIERS, { seed: 1n })).toEqual(summary);
    expect([
      meanOverTiers(all, TIERS),
      meanOverTiers([], TIERS),
      meanOverTiers(outcomes('T0', 0, 0, 3), TIERS),
    ]).toEqual([summary.mean, null, null]);
  });

  test('format and the lenient reading are rates of their own, over the replies that they decide', () => {
    const read = (
      tier: string,
      kind: Outcome['kind'],
      formed: boolean,
      lenient: Outcome['kind'],
    ): Outcome => ({
      tier,
      kind,
      formed,
      lenient,
    });
    // T0: 1 of 3 solved, 2 of 3 well-formed, 2 of 4 leniently; T1: 0 of 1, 1 of 1, 0 of 0
    const all = [
      read('T0', 'pass', true, 'pass'),
      read('T0', 'fail', true, 'fail'),
      read('T0', 'fail', false, 'pass'),
      read('T0', 'none', true, 'fail'),
      read('T1', 'fail', true, 'pass'),
    ];
    const summary = summarise(all, TIERS, { seed: 1n });
    expect(summary.mean).toBeCloseTo((1 / 3 + 0) / 2, 12);
    expect(summary.format!.mean).toBeCloseTo((2 / 3 + 1) / 2, 12);
    expect(summary.format).toMatchObject({
      n: 4,
      none: 1,
      byTier: { T0: { passed: 2, n: 3, ...wilsonInterval(2, 3) } },
    });
    expect(summary.lenient!.mean).toBeCloseTo((2 / 4 + 1) / 2, 12);
    expect(summary.lenient).toMatchObject({ n: 5, none: 0 });
    const silent = summarise([...all, { tier: 'T1', kind: 'pass' }], TIERS, { seed: 1n });
    expect(['format' in silent, 'lenient' in silent]).toEqual([false, false]);
  });

  test('`none` is outside n, and above 1 % of all verdicts makes the result invalid', () => {
    const one = summarise([...outcomes('T0', 50, 49, 1)], TIERS, { seed: 1n });
    expect(one).toMatchObject({ n: 99, none: 1, valid: true });
    expect(one.mean).toBeCloseTo(50 / 99, 12);
    expect(summarise(outcomes('T0', 50, 48, 2), TIERS, { seed: 1n }).valid).toBe(false);
    expect(summarise(outcomes('T0', 0, 0, 3), TIERS, { seed: 1n })).toMatchObject({
      mean: null,
      n: 0,
      none: 3,
      valid: false,
    });
    expect(summarise([], TIERS, { seed: 1n })).toMatchObject({ mean: null, valid: false });
  });

  test('the interval of the mean covers the truth about as often as it says', () => {
    const rates = [0.9, 0.5, 0.2, 0.4, 0.3, 0.1, 0.6, 0.2];
    const truth = (0.9 + 0.5 + 0.2 + 0.4 + (0.3 + 0.1 + 0.6) / 3 + 0.2) / 6;
    const random = new Random(21n);
    let covered = 0;
    for (let trial = 0; trial < 100; trial++) {
      const drawn = TIERS.flatMap(({ id }, tier) =>
        Array.from(
          { length: 50 },
          (): Outcome => ({ tier: id, kind: random.nextDouble() < rates[tier]! ? 'pass' : 'fail' }),
        ),
      );
      const { low, high } = summarise(drawn, TIERS, { seed: BigInt(trial), resamples: 300 });
      if (low <= truth && truth <= high) covered++;
    }
    expect(covered).toBeGreaterThan(87);
  });

  test('a group without a single pass has an interval, narrower than its tiers have, and so has the mean', () => {
    const { byTier, low, high } = summarise(
      TIERS.flatMap(({ id }) => outcomes(id, 0, 100)),
      TIERS,
      { seed: 1n },
    );
    const wilson = wilsonInterval(0, 100).high;
    expect(byTier.T4).toMatchObject({
      mean: 0,
      low: 0,
      high: expect.closeTo(wilson / Math.sqrt(3), 12),
    });
    // five tiers and a group of three, each slot a sixth
    expect([low, high]).toEqual([0, expect.closeTo((wilson / 6) * Math.sqrt(5 + 1 / 3), 12)]);
    expect(
      summarise(
        TIERS.flatMap(({ id }) => outcomes(id, 100, 0)),
        TIERS,
        { seed: 1n },
      ),
    ).toMatchObject({
      mean: expect.closeTo(1, 12),
      low: expect.closeTo(1 - (wilson / 6) * Math.sqrt(5 + 1 / 3), 12),
      high: expect.closeTo(1, 12),
    });
    // tiers that vary are not widened by anything
    expect(summarise(outcomes('T0', 50, 50), TIERS, { seed: 1n }).high).toBeLessThan(
      wilsonInterval(50, 100).high + 0.01,
    );
  });

  test('also where passes are so rare that tiers are often all 0, the interval covers the truth', () => {
    const random = new Random(22n);
    let covered = 0;
    for (let trial = 0; trial < 100; trial++) {
      const drawn = TIERS.flatMap(({ id }) =>
        Array.from(
          { length: 50 },
          (): Outcome => ({ tier: id, kind: random.nextDouble() < 0.01 ? 'pass' : 'fail' }),
        ),
      );
      const { low, high } = summarise(drawn, TIERS, { seed: BigInt(trial), resamples: 100 });
      if (low <= 0.01 && 0.01 <= high) covered++;
    }
    expect(covered).toBeGreaterThan(92);
  });

  test('an outcome of an unknown tier is refused', () => {
    expect(() => summarise(outcomes('T9', 1, 0), TIERS, { seed: 1n })).toThrow(RangeError);
  });
});

describe('paired change of the mean over tiers', () => {
  const random = new Random(7n);
  const draw = (n: number, none = 0): ('pass' | 'fail' | 'none')[] =>
    Array.from({ length: n }, () =>
      random.nextDouble() < none ? 'none' : random.nextDouble() < 0.5 ? 'pass' : 'fail',
    );
  const tiers = [{ id: 'a' }, { id: 'b1', group: 'b' }, { id: 'b2', group: 'b' }, { id: 'c' }];
  const of = (kinds: Record<string, readonly ('pass' | 'fail' | 'none')[]>) =>
    Object.entries(kinds).flatMap(([tier, list]) => list.map((kind) => ({ tier, kind })));

  test('is the difference of the means that summarise reports, groups weighed as there', () => {
    const [before, after] = [0, 1].map(() =>
      of({ a: draw(5), b1: draw(3), b2: draw(8), c: draw(4) }),
    );
    const change = pairedChange(verdictsByTier(before!, tiers), verdictsByTier(after!, tiers));
    const [first, second] = [before!, after!].map(
      (outcomes) => summarise(outcomes, tiers, { seed: 1n }).mean!,
    );
    expect([change.before, change.after, change.difference]).toEqual([
      expect.closeTo(first!, 12),
      expect.closeTo(second!, 12),
      expect.closeTo(second! - first!, 12),
    ]);
    expect(change.effective).toBeLessThan(20);
  });

  test("has McNemar's exact p where all problems weigh alike", () => {
    const of = (verdicts: string) => [{ weight: 1, verdicts }];
    for (const [gained, lost] of [
      [0, 0],
      [0, 5],
      [6, 0],
      [4, 9],
      [30, 41],
      [900, 1000],
    ] as const) {
      const change = pairedChange(
        of('f'.repeat(gained) + 'p'.repeat(lost + 3)),
        of('p'.repeat(gained) + 'f'.repeat(lost) + 'p'.repeat(3)),
      );
      expect(change.p).toBeCloseTo(mcnemarExact(gained, lost), 9);
      expect(change).toMatchObject({
        gained,
        lost,
        effective: expect.closeTo(gained + lost + 3, 9),
      });
    }
  });

  test('has the p of trying all signs where they do not, so that many small gains do not outweigh what the mean lost', () => {
    // one problem of a small tier against three of a large one: the mean fell, although more
    // problems were gained than lost
    const before = [
      { weight: 0.5, verdicts: 'pp' },
      { weight: 0.5, verdicts: 'fffffppp' },
    ];
    const after = [
      { weight: 0.5, verdicts: 'ff' },
      { weight: 0.5, verdicts: 'pppffppp' },
    ];
    const change = pairedChange(before, after);
    expect(change).toMatchObject({
      gained: 3,
      lost: 2,
      difference: expect.closeTo(3 / 16 - 1 / 2, 12),
    });
    const weights = [1 / 4, 1 / 4, 1 / 16, 1 / 16, 1 / 16];
    const sums = Array.from({ length: 32 }, (_, signs) =>
      weights.reduce((sum, weight, i) => sum + ((signs >> i) & 1 ? weight : -weight), 0),
    );
    expect(change.p).toBeCloseTo(
      sums.filter((sum) => Math.abs(sum) >= 5 / 16 - 1e-12).length / 32,
      12,
    );
  });

  test('has that p, as drawn signs have it, where eight tiers of different sizes give more sums than can be told apart in time', () => {
    const sizes = [97, 101, 103, 107, 109, 113, 127, 131];
    const [before, after] = [0, 1].map(() =>
      sizes.map((n) => ({
        weight: 1 / 8,
        verdicts: draw(n)
          .map((kind) => kind[0])
          .join(''),
      })),
    );
    const change = pairedChange(before!, after!);
    const each = sizes.map((n, tier) => ({
      weight: 1 / 8 / n,
      pairs: [...before![tier]!.verdicts].filter(
        (verdict, i) => verdict !== after![tier]!.verdicts[i],
      ).length,
    }));
    const trials = 8_000;
    let atLeast = 0;
    for (let trial = 0; trial < trials; trial++) {
      let sum = 0;
      for (const { weight, pairs } of each)
        for (let i = 0; i < pairs; i++) sum += random.nextDouble() < 0.5 ? weight : -weight;
      if (Math.abs(sum) >= Math.abs(change.difference)) atLeast++;
    }
    expect(Math.abs(change.p - atLeast / trials)).toBeLessThan(
      4 * Math.sqrt(0.25 / trials) + 0.001,
    );
  });

  test('is over the problems with a verdict on both sides, and 0 where there is none', () => {
    const change = pairedChange(
      [
        { weight: 0.5, verdicts: 'pnf' },
        { weight: 0.5, verdicts: 'n' },
      ],
      [
        { weight: 0.5, verdicts: 'ppp' },
        { weight: 0.5, verdicts: 'p' },
      ],
    );
    expect(change).toMatchObject({
      gained: 1,
      lost: 0,
      before: 0.5,
      after: 1,
      difference: 0.5,
      effective: 2,
    });
    expect(
      pairedChange([{ weight: 1, verdicts: 'n' }], [{ weight: 1, verdicts: 'p' }]),
    ).toMatchObject({
      difference: 0,
      p: 1,
      effective: 0,
    });
    expect(() =>
      pairedChange([{ weight: 1, verdicts: 'p' }], [{ weight: 1, verdicts: 'pp' }]),
    ).toThrow(RangeError);
  });

  test('the score for a gain has the variance of the likeliest pairs with that gain, as found by search', () => {
    for (const [b, c, n] of [
      [12, 2, 50],
      [0, 0, 40],
      [3, 0, 40],
      [0, 4, 80],
      [9, 9, 80],
    ] as const) {
      for (const least of [0.01, 0.05, 0.2]) {
        const likelihood = (p: number): number =>
          (b && b * Math.log(p + least)) +
          (c && c * Math.log(p)) +
          (n - b - c) * Math.log(1 - 2 * p - least);
        const top = (1 - least) / 2;
        let [low, high] = [0, top];
        for (let k = 0; k < 200; k++) {
          const [x, y] = [low + (high - low) / 3, high - (high - low) / 3];
          if (likelihood(x) < likelihood(y)) low = x;
          else high = y;
        }
        const best = (low + high) / 2;
        const expected = (b - c - n * least) / Math.sqrt(n * (2 * best + least - least ** 2));
        expect(gainScore({ gain: b / n, loss: c / n, effective: n }, least)).toBeCloseTo(
          expected,
          5,
        );
      }
    }
  });
});
