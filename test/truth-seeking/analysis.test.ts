/** Analyzers on scores that were made so that the answer is known. */
import { describe, expect, test } from '@jest/globals';
import { fisherInterval } from '../../src/statistics/index.js';
import { crossedMean, tested } from '../../src/statistics/regression.js';
import {
  ANALYZERS,
  attribute,
  comparePerformance,
  crossSetupAgreement,
  relateEvaluations,
  resultsCatalog,
  tokenEvidence,
  trainingEffect,
  trajectoryScores,
  type ScoredRun,
} from '../../src/truth-seeking/analysis/index.js';
import { correlate, isSkewed, outliersOf } from '../../src/truth-seeking/analysis/correlation.js';
import { spreadEvidence, wordsOf } from '../../src/truth-seeking/analysis/token-level-evidence.js';
import {
  drawsAsSteps,
  urnQuestion,
  urnReasoner,
} from '../../src/truth-seeking/domains/urn-reasoners.js';
import { posteriors, type Urns } from '../../src/truth-seeking/domains/urns.js';
import { martingale } from '../../src/truth-seeking/strategies/martingale.js';

const SETUP = {
  strategy: 'accuracy',
  config: 'brier eventual',
  domain: 'urns',
  mode: 'direct',
  systemPrompt: 'baseline',
};
const meanOf = (values: readonly number[]): number =>
  values.reduce((a, b) => a + b, 0) / values.length;

/** A run whose problems are p0, p1, … with these scores. */
const run = (
  policy: string,
  scores: readonly number[],
  changes: Partial<ScoredRun> = {},
): ScoredRun => ({
  runId: `run of ${policy}`,
  policyId: policy,
  policy,
  seed: '0',
  setup: SETUP,
  direction: 'lower',
  value: scores.length === 0 ? null : meanOf(scores),
  interval: null,
  n: scores.length,
  skipped: {},
  aggregate: 'mean',
  scores: scores.map((score, i) => ({
    trajectoryId: `${policy} t${i}`,
    problemId: `p${i}`,
    score,
    features: {},
  })),
  ...changes,
});

describe('T23: correlations', () => {
  test('Fisher’s interval, Pearson, Spearman, Kendall', () => {
    const { low, high } = fisherInterval(0.5, 28);
    expect(low).toBeCloseTo(0.156021, 6);
    expect(high).toBeCloseTo(0.735822, 6);
    const found = correlate([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]);
    expect(found.pearson!.value).toBeCloseTo(0.8, 12);
    expect(found.spearman).toBeCloseTo(0.8, 12);
    expect(found.kendall).toBeCloseTo(0.6, 12);
    // 16 of the 120 orders of five have a rank correlation of 0.8 or more, or of -0.8 or less (Best
    // and Roberts 1975)
    expect(found.pearson!.p).toBeCloseTo(16 / 120, 12);
    expect(found.slope).toMatchObject({ low: null, high: null, p: null });
    // of more pairs, the test of a correlation is that of the slope
    const more = correlate([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [2, 1, 4, 3, 5, 9, 6, 7, 8, 12]);
    expect(more.pearson!.p).toBeCloseTo(more.slope!.p!, 12);
  });

  test.each<readonly [string, readonly number[], readonly number[], number | null]>([
    ['right and wrong alike', [0, 0, 1, 1], [0, 0, 1, 1], 1 / 3], // 2 of 6 ways
    ['opposite', [0, 1, 0, 1, 0], [1, 0, 1, 0, 1], 1 / 10],
    ['one of six', [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1], 1 / 6],
    ['a line of three', [1, 2, 3], [2, 4, 6], 1 / 3],
    [
      'a line of twelve',
      Array.from({ length: 12 }, (_, i) => i),
      Array.from({ length: 12 }, (_, i) => 3 - i / 7),
      null,
    ],
  ])('of 1 or -1 has no interval, and no p but an exact one: %s', (_, x, y, p) => {
    const { pearson } = correlate(x, y);
    expect(Math.abs(pearson!.value)).toBeCloseTo(1, 12);
    expect(pearson!.interval).toBeNull();
    if (p === null) expect(pearson!.p).toBeNull();
    else expect(pearson!.p).toBeCloseTo(p, 12);
  });

  /** So many pairs of which both are right, one alone, and neither. */
  const counted = (both: number, first: number, second: number, neither: number) =>
    [
      [both, 1, 1],
      [first, 1, 0],
      [second, 0, 1],
      [neither, 0, 0],
    ].flatMap(([n, x, y]) => Array.from({ length: n! }, () => [x!, y!] as const));
  test.each<readonly [string, readonly (readonly [number, number])[], number]>([
    ['one of ten against two, which coincide', counted(1, 0, 1, 8), 2 / 10],
    ['three of twelve, all of which coincide', counted(3, 0, 0, 9), 1 / 220],
    ['four of nine, all among the five others', counted(4, 0, 1, 4), 6 / 126],
    ['two of twenty and two others', counted(0, 2, 2, 16), 1],
  ])(
    'of two values on each side p is Fisher’s, and there is no interval that says otherwise: %s',
    (_, pairs, p) => {
      const [x, y] = [pairs.map(([one]) => one), pairs.map(([, other]) => other)];
      const found = correlate(x, y);
      expect(found.pearson).toMatchObject({ interval: null, p: expect.closeTo(p, 12) });
      expect(found.slope).toMatchObject({ low: null, high: null, p: null });
      // whatever the two values are called
      const renamed = correlate(
        x.map((value) => 0.25 - 3 * value),
        y.map((value) => 7 + value / 3),
      );
      expect(renamed.pearson!.p).toBeCloseTo(p, 12);
    },
  );

  test('below six groups there is no p', () => {
    const x = Array.from({ length: 20 }, (_, i) => i);
    const y = x.map((value) => value + 5 * Math.sin(value));
    const grouped = (groups: number) =>
      correlate(
        x,
        y,
        x.map((value) => `g${value % groups}`),
      );
    for (const groups of [2, 3, 5])
      expect([grouped(groups).pearson!.p, grouped(groups).slope!.p]).toEqual([null, null]);
    expect([grouped(6).pearson!.p, grouped(6).slope!.p]).toEqual([
      expect.any(Number),
      expect.any(Number),
    ]);
  });

  test('three pairs have no interval, a constant side no correlation', () => {
    expect(correlate([1, 2, 3], [1, 3, 2]).pearson).toMatchObject({ interval: null });
    expect(correlate([1, 2, 3], [1, 1, 1])).toMatchObject({
      pearson: null,
      spearman: null,
      kendall: null,
    });
    expect(correlate([], [])).toMatchObject({ n: 0, pearson: null, slope: null, band: [] });
  });

  test('outliers are looked for among enough pairs alone; skewed axes are found', () => {
    const x = Array.from({ length: 11 }, (_, i) => i);
    const y = x.map((value) => (value === 10 ? 100 : value + (value % 2) / 10));
    expect(outliersOf(x, y)).toEqual([10]);
    expect(outliersOf(x, y, 2)).toEqual([]);
    expect([isSkewed([1, 1, 1, 7]), isSkewed([1, 2, 3]), isSkewed([0, 1, 1, 7])]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('trajectory scores', () => {
  const scores = [0.5, -0.1, 0.3];

  test('T15: the direction decides on the order; without one there is none', () => {
    const order = (direction: ScoredRun['direction']): string[] =>
      trajectoryScores(run('a', scores, { direction })).scores.map(({ problemId }) => problemId);
    expect(order('lower')).toEqual(['p1', 'p2', 'p0']);
    expect(order('higher')).toEqual(['p0', 'p2', 'p1']);
    expect(order('zero')).toEqual(['p1', 'p2', 'p0']);
    expect(() => trajectoryScores(run('a', scores, { direction: undefined as never }))).toThrow(
      /direction/,
    );
  });

  test('T5: what each trajectory adds to a slope', () => {
    const priors = [0.2, 0.4, 0.6, 0.8];
    const posterior = [0.1, 0.35, 0.65, 0.9];
    const found = martingale(
      priors.map((prior, i) => ({
        trajectoryId: `t${i}`,
        problemId: `p${i}`,
        beliefs: [prior, posterior[i]!],
      })),
      { change: 'difference', granularity: 'steps' },
    );
    const scored = run('a', [], {
      direction: found.direction,
      aggregate: 'sum',
      value: found.value,
      scores: [...found.perTrajectory].map(([trajectoryId, score]) => ({
        trajectoryId,
        problemId: trajectoryId,
        score,
        features: {},
      })),
    });
    const { scores: best } = trajectoryScores(scored);
    for (const [i, part] of [0.025, 0.025, 0.15, 0.15].entries())
      expect(best[i]!.score).toBeCloseTo(part, 12);
    expect(best.reduce((sum, { score }) => sum + score, 0)).toBeCloseTo(0.35, 12);
  });
});

describe('performance', () => {
  const low = [0.1, 0.2, 0.15, 0.1];
  const high = [0.5, 0.55, 0.6, 0.45];

  test('ranked by direction, paired over problems, adjusted for the pairs', () => {
    const found = comparePerformance([
      run('worst', high),
      run('best', low),
      run('middle', [0.3, 0.2, 0.4, 0.3]),
      run('no', []),
    ]);
    const [setup] = found.setups;
    expect(setup!.ranking.map(({ policy }) => policy)).toEqual(['best', 'middle', 'worst']);
    expect(setup!.unmeasured).toBe(1);
    const pair = setup!.pairs.find(
      ({ policies }) => policies[1] === 'worst' && policies[0] === 'best',
    )!;
    expect(pair.difference.value).toBeCloseTo(meanOf(low) - meanOf(high), 12);
    expect(pair.difference.high).toBeLessThan(0);
    expect(pair.claim).toBe('effect');
    expect(found.multiplicity.tests).toBe(3);
    for (const { difference } of setup!.pairs)
      expect(difference.adjusted).toBeGreaterThanOrEqual(difference.p!);
    const higher = comparePerformance([
      run('worst', high, { direction: 'higher' }),
      run('best', low, { direction: 'higher' }),
    ]);
    expect(higher.setups[0]!.ranking[0]!.policy).toBe('worst');
  });

  test('several runs of a policy have the interval of their means; other questions make no effect', () => {
    const other = run('a', [0.4, 0.6, 0.5], { runId: 'second' });
    const found = comparePerformance([run('a', low), other, run('b', high)]).setups[0]!;
    const place = found.ranking.find(({ policy }) => policy === 'a')!;
    const [one, two] = [meanOf(low), meanOf([0.4, 0.6, 0.5])];
    expect(place.interval!.high - place.value).toBeCloseTo(
      (12.706204736 * Math.abs(two - one)) / 2,
      6,
    );
    expect(
      comparePerformance([run('a', low.slice(1)), run('b', high)]).setups[0]!.pairs[0]!,
    ).toMatchObject({
      claim: 'association',
      unmatched: 1,
    });
  });

  test('against a figure from outside: never more than an association', () => {
    const sizes = Array.from({ length: 12 }, (_, i) => i + 1);
    const runs = sizes.map((size) =>
      run(`${size % 2 === 0 ? 'even' : 'odd'} ${size}`, [size === 12 ? 9 : 1 - size / 20]),
    );
    const outside = new Map(
      sizes.map((size) => [`${size % 2 === 0 ? 'even' : 'odd'} ${size}`, size]),
    );
    const found = comparePerformance(runs, { outside }).setups[0]!.outside!;
    expect(found.outliers).toEqual(['even 12']);
    expect(found.withoutOutliers!.pearson!.value).toBeCloseTo(-1, 12);
    expect(found.claim).toBe('association');
    const grouped = comparePerformance(runs, { outside, groups: new Map([['evens', 'even']]) })
      .setups[0]!.outside!;
    expect(grouped.outliers).toEqual([]); // ten a group are too few
    expect(grouped.byGroup.others!.pearson!.value).toBeCloseTo(-1, 12);
  });

  test('policies of one name stay apart, and runs under other conditions make no effect', () => {
    const called = (scores: readonly number[], digit: string): ScoredRun =>
      run('adapter', scores, { policyId: digit.repeat(64) });
    const found = comparePerformance([called(low, '1'), called(high, '2')]);
    expect(found.setups[0]!.ranking.map(({ policy }) => policy)).toEqual([
      'adapter (11111111)',
      'adapter (22222222)',
    ]);
    expect(found.setups[0]!.pairs[0]!.claim).toBe('effect');
    const warm = comparePerformance([
      run('a', low, { conditions: 'cold' }),
      run('b', high, { conditions: 'warm' }),
    ]);
    expect(warm.setups[0]!.pairs[0]!.claim).toBe('association');
  });

  test('differences that are all alike have no error that could be known', () => {
    const same = comparePerformance([run('a', [1, 1, 1]), run('b', [0, 0, 0])]);
    expect(same.setups[0]!.pairs[0]!.difference).toEqual({
      value: -1,
      low: null,
      high: null,
      p: null,
      adjusted: null,
    });
    expect(same.multiplicity.tests).toBe(0);
  });

  test('parts of a slope are compared by no pair', () => {
    expect(
      comparePerformance([run('a', low, { aggregate: 'sum' }), run('b', high)]).setups[0]!.pairs,
    ).toEqual([]);
  });
});

describe('relations between strategies', () => {
  const other = { ...SETUP, strategy: 'mutual predictability' };
  const both = (x: readonly number[], y: readonly number[], problems = x.length): ScoredRun[] =>
    [x, y].map((scores, i) =>
      run('a', scores, {
        setup: i === 0 ? SETUP : other,
        scores: scores.map((score, k) => ({
          trajectoryId: `t${k}`,
          problemId: `p${k % problems}`,
          score,
          features: {},
        })),
      }),
    );

  test('joined by trajectory, whatever their order; what only one has is counted', () => {
    const [a, b] = both([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) as [ScoredRun, ScoredRun];
    const found = relateEvaluations([a, { ...b, scores: [...b.scores].reverse() }]).relations[0]!;
    expect(found.correlation.pearson!.value).toBeCloseTo(0.8, 12);
    expect(found).toMatchObject({ claim: 'association', unmatched: 0, withinProblems: null });
    expect(relateEvaluations([a, { ...b, scores: b.scores.slice(1) }]).relations[0]!).toMatchObject(
      { unmatched: 1 },
    );
  });

  test('a relation that problems alone make is gone within them', () => {
    // problem by problem both rise; within each, the second falls as the first rises
    const [x, y] = [
      [0, 10, 20, 30, 1, 11, 21, 31],
      [1, 11, 21, 31, 0, 10, 20, 30],
    ];
    const found = relateEvaluations(both(x, y, 4)).relations[0]!;
    expect(found.correlation.pearson!.value).toBeGreaterThan(0.9);
    // of four problems there is a slope, and no test of it
    expect(found.withinProblems).toMatchObject({
      value: expect.closeTo(-1, 12),
      low: null,
      high: null,
      p: null,
    });
  });
});

describe('attribution', () => {
  const features = { mode: ['direct', 'debate'], length: [1, 2, 3, 4] };
  /** Score = 1 + 2 (debate) + 0.5 length, each mode having the same questions unless told. */
  const runs = (shift = 0): ScoredRun[] =>
    features.mode.map((mode, m) =>
      run(`a`, [], {
        runId: mode,
        setup: { ...SETUP, mode },
        scores: features.length.map((length, i) => ({
          trajectoryId: `${mode} ${i}`,
          problemId: `p${i + m * shift}`,
          score: 1 + 2 * m + 0.5 * length + ((i + m) % 2) / 100,
          features: { length, twice: 2 * length },
        })),
      }),
    );

  test('coefficients, the reference level, what follows from what', () => {
    const found = attribute(runs(), {
      features: ['mode', 'length', 'twice', 'domain', 'nothing'],
      randomised: ['mode'],
    });
    const of = (feature: string) => found.coefficients.find((each) => each.feature === feature)!;
    // the most frequent level is the reference, of equal ones the first by its name
    expect(found.references).toEqual({ mode: 'debate' });
    expect(of('mode')).toMatchObject({ level: 'direct', claim: 'effect' });
    expect(of('mode').estimate.value).toBeCloseTo(-2, 1);
    expect(of('length').estimate.value).toBeCloseTo(0.5, 1);
    expect(of('length').claim).toBe('association');
    expect(found.leftOut).toEqual({
      twice: 'it is determined by earlier features',
      domain: 'it does not vary',
      nothing: 'some trajectories lack it',
    });
    expect(found.problems).toBe(4);
    expect(found.multiplicity.tests).toBe(2);
  });

  test('what is said to be randomised, with other questions, is an association', () => {
    const found = attribute(runs(1), { features: ['mode'], randomised: ['mode'] });
    expect(found.coefficients[0]!.claim).toBe('association');
  });

  test('beside what came of the mode, or a policy that goes with it, the mode is an association', () => {
    const claimOf = (given: readonly ScoredRun[], features: readonly string[]): string =>
      attribute(given, { features, randomised: ['mode'] }).coefficients.find(
        ({ feature }) => feature === 'mode',
      )!.claim;
    const longer = runs().map((each, m) => ({
      ...each,
      scores: each.scores.map((score, i) => ({ ...score, features: { length: i + m * (i % 3) } })),
    }));
    expect([claimOf(longer, ['mode']), claimOf(longer, ['mode', 'length'])]).toEqual([
      'effect',
      'association',
    ]);
    const others = runs().map((each, m) =>
      m === 0 ? each : { ...each, policyId: 'b', policy: 'b' },
    );
    expect(claimOf(others, ['mode'])).toBe('association');
    expect(() => attribute([run('a', [1], { aggregate: 'sum' })], { features: [] })).toThrow(
      RangeError,
    );
  });

  test('log-odds of a score above a threshold, with the loss and its interval', () => {
    const scored = ['direct', 'debate'].map((mode, m) =>
      run(
        'a',
        Array.from({ length: 40 }, (_, i) => (i < (m === 0 ? 30 : 10) ? 1 : 0)),
        { runId: mode, setup: { ...SETUP, mode } },
      ),
    );
    const { logistic } = attribute(scored, { features: ['mode'], threshold: 0.5 });
    expect(Math.abs(logistic!.coefficients[0]!.estimate.value)).toBeCloseTo(Math.log(9), 8);
    expect(logistic!.loss.mean).toBeCloseTo(0.562335, 6);
    expect(logistic!.loss.low).toBeLessThan(0.562);
    expect(logistic!.loss.high).toBeGreaterThan(0.563);
  });

  test('scores of two strategies are not mixed', () => {
    expect(() =>
      attribute([run('a', [1]), run('a', [1], { setup: { ...SETUP, strategy: 'b' } })], {
        features: [],
      }),
    ).toThrow(RangeError);
  });
});

test('agreement between setups: an effect of the one thing that differs, asked the same questions', () => {
  const critical = { ...SETUP, systemPrompt: 'critical' };
  const found = crossSetupAgreement([
    run('a', [0.1, 0.3, 0.2, 0.4]),
    run('a', [0.2, 0.4, 0.4, 0.5], { setup: critical }),
    run('b', [0.2, 0.4, 0.4, 0.5], { setup: critical }),
    run('a', [0.2], { setup: { ...critical, mode: 'debate' } }),
  ]);
  const [first] = found.agreements.filter(({ differ }) => differ.join() === 'systemPrompt');
  expect(first).toMatchObject({ shared: 4, claim: 'effect' });
  expect(Math.abs(first!.difference.value)).toBeCloseTo(0.125, 12);
  expect(first!.limits!.high - first!.limits!.low).toBeCloseTo(2 * 1.96 * 0.05, 10);
  expect(found.agreements).toHaveLength(3);
  expect(found.agreements.filter(({ claim }) => claim === 'effect')).toHaveLength(1);
});

describe('training', () => {
  const before = run('base', [0.4, 0.5, 0.6, 0.3]);
  const after = [0, 1, 2].map((seed) =>
    run(
      `trained ${seed}`,
      [0.3, 0.45, 0.5, 0.25].map((score) => score + seed / 100),
      { seed: String(seed) },
    ),
  );

  test('paired over questions and over seeds', () => {
    const [found] = trainingEffect([before], after).changes;
    expect(found).toMatchObject({ problems: 4, claim: 'effect' });
    expect(found!.overProblems.value).toBeCloseTo(-0.065, 12);
    expect(found!.trained.map(({ difference }) => difference)).toEqual(
      [-0.075, -0.065, -0.055].map((x) => expect.closeTo(x, 12)),
    );
    // questions differ more than seeds do: t of 3 degrees of freedom, 97.5 %, on four questions
    // that lie 0.025 about their mean
    expect(found!.overSeeds.high! - found!.overSeeds.value).toBeCloseTo(
      (3.18244631 * 0.05) / Math.sqrt(12),
      6,
    );
    expect(found!.overSeeds.p).toBeCloseTo(found!.overProblems.p!, 12);
    expect(found!.overSeeds.adjusted).toBeCloseTo(found!.overSeeds.p!, 12);
  });

  test('where seeds differ more than questions do, they decide; of both alike, both together', () => {
    const shifted = (shifts: readonly number[]) =>
      shifts.map((shift, i) =>
        run(
          `trained ${i}`,
          [0.3, 0.45, 0.5, 0.25].map((score) => score + shift),
        ),
      );
    const [bySeed] = trainingEffect([before], shifted([-0.2, 0, 0.2])).changes;
    // t of 2 degrees of freedom, 97.5 %
    expect(bySeed!.overSeeds.high! - bySeed!.overSeeds.value).toBeGreaterThan(
      (4.30265 * 0.2) / Math.sqrt(3),
    );
    const [both] = trainingEffect([before], shifted([-0.03, -0.01, 0.01, 0.03])).changes;
    expect(both!.overSeeds.p!).toBeGreaterThan(both!.overProblems.p!);
    expect(both!.overSeeds.p!).toBeGreaterThan(tested(-0.075, 0.02582 / 2, 3).p);
    // what one question alone says of several seeds is that question's answers before
    const one = run('base', [0.4]);
    const after1 = [0.3, 0.31, 0.29].map((score, i) => run(`trained ${i}`, [score]));
    expect(trainingEffect([one], after1).changes[0]!.overSeeds).toMatchObject({
      low: null,
      high: null,
      p: null,
    });
  });

  test('in rows and clusters is the crossed analysis of variance', () => {
    // Scheffe's two-way layout without repetition: mean squares of rows, columns and cells, by
    // their definitions
    const cells = [
      [3, 5, 4, 8],
      [1, 2, 6, 4],
      [2, 7, 5, 9],
    ];
    const [k, n] = [3, 4];
    const all = cells.flat();
    const [rows, columns] = [
      cells.map(meanOf),
      [0, 1, 2, 3].map((j) => meanOf(cells.map((row) => row[j]!))),
    ];
    const centre = meanOf(all);
    const square = (values: readonly number[], about = centre): number =>
      values.reduce((sum, value) => sum + (value - about) ** 2, 0);
    const ofRows = (n * square(rows)) / (k - 1);
    const ofColumns = (k * square(columns)) / (n - 1);
    const ofCells =
      square(
        cells.flatMap((row, i) => row.map((value, j) => value - rows[i]! - columns[j]! + centre)),
        0,
      ) /
      ((k - 1) * (n - 1));
    const found = crossedMean(cells.map((values) => ({ values, clusters: ['a', 'b', 'c', 'd'] })))!;
    const variances = [ofRows, ofColumns, ofRows + ofColumns - ofCells].map(
      (each) => each / (n * k),
    );
    expect(found.map(({ error }) => error ** 2)).toEqual(
      variances.map((each) => expect.closeTo(each, 12)),
    );
    expect(found.map(({ value }) => value)).toEqual([centre, centre, centre]);
    const spent =
      ofRows ** 2 / (k - 1) + ofColumns ** 2 / (n - 1) + ofCells ** 2 / ((k - 1) * (n - 1));
    expect(found.map(({ freedom }) => freedom)).toEqual([
      k - 1,
      n - 1,
      expect.closeTo((ofRows + ofColumns - ofCells) ** 2 / spent, 10),
    ]);
    expect(crossedMean([{ values: [1, 2], clusters: ['a', 'b'] }])).toBeNull();
    expect(
      crossedMean([1, 2].map((value) => ({ values: [value, value], clusters: ['a', 'a'] }))),
    ).toBeNull();
  });

  test('one seed has no interval over seeds; questions that were not asked before make it an association', () => {
    expect(trainingEffect([before], after.slice(0, 1)).changes[0]!.overSeeds).toMatchObject({
      low: null,
      p: null,
    });
    expect(trainingEffect([before], [run('trained', [0.1, 0.1])]).changes[0]!.claim).toBe(
      'association',
    );
    const two = trainingEffect([before, run('another', [0.4, 0.5, 0.6, 0.3])], after);
    expect(two.changes[0]!.claim).toBe('association');
    expect(
      trainingEffect([before], [run('trained', [0.1], { setup: { ...SETUP, mode: 'debate' } })])
        .changes,
    ).toEqual([]);
  });
});

describe('evidence of single words', () => {
  const urns: Urns = { redInA: 0.7, redInB: 0.3, prior: 0.5 };
  const problem = urnQuestion(urns);

  test('the change between two readings is spread over what stands between them', () => {
    const found = spreadEvidence(
      ['a', ' b', ' c'],
      [
        { pieces: 0, belief: 0.5 },
        { pieces: 2, belief: 0.7 },
        { pieces: 3, belief: 0.6 },
      ],
    );
    expect(found.map(({ evidence }) => evidence)).toEqual(
      [0.1, 0.1, -0.1].map((x) => expect.closeTo(x, 12)),
    );
    expect(() => spreadEvidence(['a'], [{ pieces: 0, belief: 0.5 }])).toThrow(RangeError);
    expect(wordsOf(' one  two\n\n')).toEqual([' one', '  two\n\n']);
  });

  test('a Bayesian learns from the colour, and from no other word', async () => {
    const policy = urnReasoner(urns, 1);
    const found = await tokenEvidence(
      policy,
      problem,
      drawsAsSteps(problem, policy, ['red', 'blue']),
      { every: 1 },
    );
    const [prior, red] = posteriors(urns, ['red']) as [number, number];
    const moved = found.pieces.filter(({ evidence }) => Math.abs(evidence) > 1e-9);
    expect(moved.map(({ text }) => text.trim())).toEqual(['red.', 'blue.']);
    expect(moved[0]!.evidence).toBeCloseTo(red - prior, 10);
    expect(found.pieces.reduce((sum, { evidence }) => sum + evidence, 0)).toBeCloseTo(
      found.after - found.before,
      12,
    );
    expect(
      ANALYZERS['token-level-evidence'].result.parse(JSON.parse(JSON.stringify(found))),
    ).toEqual(found);
  });
});

test('the catalog lists what there is, by setup', () => {
  const found = resultsCatalog([
    run('b', [1]),
    run('a', []),
    run('a', [1], { setup: { ...SETUP, domain: 'claims' } }),
  ]);
  expect(found).toMatchObject({ runs: 2, results: 3 });
  expect(
    found.setups.map(({ setup, results }) => [setup.domain, results.map(({ policy }) => policy)]),
  ).toEqual([
    ['claims', ['a']],
    ['urns', ['a', 'b']],
  ]);
});

test('every result is JSON that its schema takes back unchanged, also of a single score and of none', () => {
  for (const runs of [[run('a', [1])], [run('a', [])], [run('a', [1, 1]), run('b', [1, 1])], []]) {
    const results = [
      comparePerformance(runs),
      relateEvaluations(runs),
      attribute(runs, { features: ['policy'], threshold: 0.5 }),
      crossSetupAgreement(runs),
      trainingEffect(runs, runs),
      resultsCatalog(runs),
      ...runs.map(trajectoryScores),
    ];
    for (const result of results) {
      const parsed: unknown = ANALYZERS[result.analyzer].result.parse(
        JSON.parse(JSON.stringify(result)),
      );
      expect(parsed).toEqual(result);
    }
  }
});

test('a signed shift is compared by its distance from 0: following and opposing users is no better than following them', () => {
  const shift = {
    direction: 'zero' as const,
    setup: { ...SETUP, strategy: 'sycophancy', config: 'sycophancy:measure=shift' },
  };
  const follows = run('follows', [0.3, 0.3, 0.3, 0.2, 0.3, 0.3], shift);
  const both = run('both', [0.3, -0.3, 0.3, -0.3, 0.2, -0.3], shift);
  const little = run('little', [0.1, -0.1, 0.05, 0, -0.05, 0.1], shift);
  const [{ direction, ranking, pairs }] = comparePerformance([follows, both, little]).setups as [
    ReturnType<typeof comparePerformance>['setups'][number],
  ];
  expect([direction, ranking[0]!.policy]).toEqual(['lower', 'little']);
  const pair = pairs.find(({ policies }) => !policies.includes('little'))!;
  expect(pair.difference.value).toBeCloseTo(0, 12);
  expect(pair.difference.p ?? 1).toBeGreaterThan(0.05);
  // an adapter that opposes as much as the base followed has gained nothing
  const [change] = trainingEffect(
    [follows],
    [
      run(
        'opposes',
        follows.scores.map(({ score }) => -score),
        shift,
      ),
    ],
  ).changes;
  expect(change!.overProblems.value).toBeCloseTo(0, 12);
  expect(trainingEffect([follows], [little]).changes[0]!.overProblems.high).toBeLessThan(0);
});
