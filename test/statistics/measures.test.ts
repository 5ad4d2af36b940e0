import { describe, expect, test } from '@jest/globals';
import {
  brierScore,
  logScore,
  measure,
  sampleStandardDeviation,
  summarise,
  type Forecast,
  type Outcome,
} from '../../src/statistics/index.js';

const TIERS = [{ id: 'A' }, { id: 'B1', group: 'B' }, { id: 'B2', group: 'B' }];
const seed = 1n;
const scored = (tier: string, kind: Outcome['kind'], score?: number): Outcome => ({
  tier,
  kind,
  ...(score === undefined ? {} : { score }),
});
const said = (tier: string, probability: number, outcome: boolean): Outcome => ({
  tier,
  kind: probability >= 0.5 === outcome ? 'pass' : 'fail',
  forecast: { probability, outcome },
});
const single = (outcomes: readonly Outcome[]): Outcome[][] => outcomes.map((outcome) => [outcome]);

describe('proper scores', () => {
  // by hand: (0.9 - 0)², (0.2 - 1)² and so on; -ln of what the event that came about was given
  const FORECASTS: Forecast[] = [
    { probability: 0.9, outcome: true },
    { probability: 0.2, outcome: false },
    { probability: 0.5, outcome: true },
    { probability: 0.7, outcome: false },
  ];

  test('of single forecasts', () => {
    for (const [i, expected] of [0.01, 0.04, 0.25, 0.49].entries())
      expect(brierScore(FORECASTS[i]!)).toBeCloseTo(expected, 14);
    for (const [i, expected] of [
      0.10536051565782628,
      0.2231435513142097,
      Math.LN2,
      1.203972804325936,
    ].entries())
      expect(logScore(FORECASTS[i]!)).toBeCloseTo(expected, 12);
    expect([
      brierScore({ probability: 1, outcome: true }),
      logScore({ probability: 1, outcome: true }),
    ]).toEqual([0, 0]);
  });

  test('a certain error costs 1, and 18 ln 10 where infinity would make every mean infinite', () => {
    for (const forecast of [
      { probability: 0, outcome: true },
      { probability: 1, outcome: false },
    ]) {
      expect(brierScore(forecast)).toBe(1);
      expect(logScore(forecast)).toBeCloseTo(18 * Math.LN10, 12);
      expect(logScore(forecast)).toBeCloseTo(41.446532, 6);
    }
  });

  test('their means, and no probability where an answer was none', () => {
    const outcomes = FORECASTS.map(({ probability, outcome }) => said('A', probability, outcome));
    const alone = measure(single(outcomes), TIERS, { seed })!;
    expect(alone.brier!.mean).toBeCloseTo(0.1975, 14);
    expect(alone.logarithmic!.mean).toBeCloseTo(0.556406, 6);
    expect(alone.brier).toMatchObject({ n: 4, valid: 1 });
    const withInvalid = measure(
      single([...outcomes, scored('A', 'fail'), scored('A', 'none')]),
      TIERS,
      { seed },
    )!;
    expect(withInvalid.brier!.mean).toBeCloseTo(0.1975, 14);
    expect(withInvalid.brier).toMatchObject({ n: 4, valid: 0.8 });
  });

  test.each([0.02, 0.3, 0.6])(
    'the logarithmic one has the interval of a mean of that many losses, in nats: from a chance of %f',
    (least) => {
      const outcomes = Array.from({ length: 400 }, (_, i) =>
        said('A', least + ((1 - least) * ((i * 37) % 100)) / 100, true),
      );
      const losses = outcomes.map(({ forecast }) => logScore(forecast!));
      const { mean, low, high } = measure(single(outcomes), TIERS, { seed })!.logarithmic!;
      const half = (1.96 * sampleStandardDeviation(losses)) / Math.sqrt(losses.length);
      expect(Math.abs(mean! - low - half)).toBeLessThan(0.1 * half);
      expect(Math.abs(high - mean! - half)).toBeLessThan(0.1 * half);
    },
  );

  test('both are least, in expectation, where the probability that is given is the true one', () => {
    for (const truth of [0.15, 0.5, 0.83]) {
      for (const loss of [brierScore, logScore]) {
        const expected = (probability: number): number =>
          truth * loss({ probability, outcome: true }) +
          (1 - truth) * loss({ probability, outcome: false });
        for (const other of [0, 0.05, 0.4, 0.6, 0.95, 1])
          expect(expected(other)).toBeGreaterThan(expected(truth));
      }
    }
  });
});

describe('mean score', () => {
  test('counts a fail without a score 0 and a pass without one 1; none is in no denominator', () => {
    const { score } = measure(
      single([
        scored('A', 'fail', 0.5),
        scored('A', 'pass'),
        scored('A', 'fail'),
        scored('A', 'none'),
        scored('A', 'pass', 0.9),
      ]),
      TIERS,
      { seed },
    )!;
    expect(score!.mean).toBeCloseTo((0.5 + 1 + 0 + 0.9) / 4, 14);
    expect(score).toMatchObject({ n: 4, valid: 0.75 });
    // Wilson's interval of 3 of 4
    expect(
      [score!.validInterval.low, score!.validInterval.high].map((bound) => bound.toFixed(4)),
    ).toEqual(['0.3006', '0.9544']);
  });

  test('weighs tiers alike and a group as one of them', () => {
    const { score } = measure(
      single([
        ...[0.2, 0.4].map((value) => scored('A', 'fail', value)),
        ...[0.1, 0.3, 0.5].map((value) => scored('B1', 'fail', value)),
        scored('B2', 'fail', 0.9),
      ]),
      TIERS,
      { seed },
    )!;
    expect(Object.keys(score!.byTier)).toEqual(['A', 'B1', 'B2', 'B']);
    expect(score!.byTier.B!.mean).toBeCloseTo((0.3 + 0.9) / 2, 14);
    expect(score!.mean).toBeCloseTo((0.3 + 0.6) / 2, 14);
  });

  test('is accuracy, interval and all, where every score is what its kind says', () => {
    const outcomes = Array.from({ length: 60 }, (_, i) => {
      const kind = i % 3 === 0 ? ('pass' as const) : ('fail' as const);
      return scored(i < 20 ? 'A' : i < 40 ? 'B1' : 'B2', kind, kind === 'pass' ? 1 : 0);
    });
    const { mean, low, high, measures } = summarise(outcomes, TIERS, { seed });
    expect(measures!.score).toMatchObject({ mean, low, high, n: 60, valid: 1 });
  });

  test('has the interval of a mean of that many values', () => {
    const values = Array.from({ length: 400 }, (_, i) => ((i * 37) % 100) / 100);
    const { mean, low, high } = measure(
      single(values.map((value) => scored('A', 'fail', value))),
      TIERS,
      { seed },
    )!.score!;
    const half = (1.96 * sampleStandardDeviation(values)) / Math.sqrt(values.length);
    expect(Math.abs(mean! - low - half)).toBeLessThan(0.1 * half);
    expect(Math.abs(high - mean! - half)).toBeLessThan(0.1 * half);
  });

  test('resamples problems, each with all of its samples', () => {
    const values = [
      [0, 1, 1],
      [0.25, 0.5, 0],
      [1, 1, 1],
      [0.5, 0, 0.25],
    ];
    const samples = values.map((of) => of.map((value) => scored('A', 'fail', value)));
    const means = values.map((of) => [scored('A', 'fail', (of[0]! + of[1]! + of[2]!) / 3)]);
    const [clustered, alone] = [
      measure(samples, TIERS, { seed })!.score!,
      measure(means, TIERS, { seed })!.score!,
    ];
    expect(clustered).toMatchObject({ mean: alone.mean, low: alone.low, high: alone.high, n: 12 });
    expect(measure(samples, TIERS, { seed })).toEqual(measure(samples, TIERS, { seed }));
  });

  test('of values that are all alike is not known exactly', () => {
    const { low, high } = measure(
      single(Array.from({ length: 10 }, () => scored('A', 'fail', 0.5))),
      TIERS,
      { seed },
    )!.score!;
    // Wilson's, 5 of 10
    expect([low, high]).toEqual([expect.closeTo(0.5 - 0.2634, 3), expect.closeTo(0.5 + 0.2634, 3)]);
  });
});

test('verdicts without figures have no measures, unless they are asked for: then nothing was valid', () => {
  const outcomes = [scored('A', 'fail'), scored('A', 'fail')];
  expect(measure(single(outcomes), TIERS, { seed })).toBeNull();
  expect(Object.keys(summarise(outcomes, TIERS, { seed }))).not.toContain('measures');
  const { measures } = summarise(outcomes, TIERS, { seed, figures: ['score', 'forecast'] });
  expect(measures).toMatchObject({
    score: { mean: 0, n: 2, valid: 0 },
    brier: { mean: null, n: 0, valid: 0 },
  });
});
