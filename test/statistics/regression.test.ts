/** Regressions against closed forms, and against second implementations from their definitions. */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { mean, normalTail, studentQuantile, studentTail } from '../../src/statistics/index.js';
import { leastSquares, logisticRegression } from '../../src/statistics/least-squares.js';
import {
  clusteredBand,
  clusteredInterval,
  clusteredMean,
  clusteredSlope,
  cooksDistances,
  crossedMean,
  linearRegression,
  regressionBand,
  tested,
} from '../../src/statistics/regression.js';
import { crossProduct, replicatedSlope } from '../../src/statistics/replicated-slope.js';

const close = (value: number, digits = 10): number =>
  expect.closeTo(value, digits) as unknown as number;
const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
const X = [1, 2, 3, 4, 5, 9];
const Y = [2, 1, 4, 3, 5, 5];
const clusters = ['a', 'a', 'b', 'b', 'c', 'c'];

describe('an estimate with its error', () => {
  test('has Student’s two-sided p', () => {
    // one degree of freedom: Cauchy's; two: a root
    expect(tested(3, 1, 1)).toEqual({
      value: 3,
      error: 1,
      t: 3,
      freedom: 1,
      p: close(1 - (2 / Math.PI) * Math.atan(3)),
    });
    expect(tested(-3, 1.5, 2)).toEqual({
      value: -3,
      error: 1.5,
      t: -2,
      freedom: 2,
      p: close(1 - 2 / Math.sqrt(2 + 4)),
    });
    expect(tested(0, 1, 4)).toMatchObject({ t: 0, p: 1 });
  });

  test('without error is 0, or certainly not', () => {
    expect(tested(0, 0, 3)).toMatchObject({ t: 0, p: 1 });
    expect(tested(2, 0, 3)).toMatchObject({ t: Infinity, p: 0 });
    expect(tested(-2, 0, 3)).toMatchObject({ t: -Infinity, p: 0 });
  });
});

describe('a line', () => {
  test('of three points, by hand', () => {
    // residuals 1/6, -1/3 and 1/6
    const line = linearRegression([0, 1, 2], [1, 2, 4])!;
    expect(line).toMatchObject({
      n: 3,
      slope: close(1.5),
      intercept: close(5 / 6),
      sse: close(1 / 6),
      sxx: 2,
    });
    expect(line.tested!.slope).toMatchObject({
      error: close(Math.sqrt(1 / 12)),
      freedom: 1,
      t: close(1.5 * Math.sqrt(12)),
    });
    // the mean of x is 1: 1/3 + 1/2
    expect(line.tested!.intercept).toMatchObject({
      value: close(5 / 6),
      error: close(Math.sqrt(((1 / 6) * 5) / 6)),
      freedom: 1,
    });
  });

  test('of two points is exact and tests nothing; without variance of x there is none', () => {
    expect(linearRegression([1, 3], [2, 6])).toMatchObject({
      n: 2,
      slope: 2,
      intercept: 0,
      sse: 0,
      sxx: 2,
      tested: null,
    });
    expect([
      linearRegression([0.1, 0.1, 0.1], [1, 2, 3]),
      linearRegression([0, 0], [1, 2]),
      linearRegression([7], [1]),
    ]).toEqual([null, null, null]);
    expect(() => linearRegression([1, 2], [1])).toThrow('needs as many x as y, got 2 and 1');
  });

  test('that fits exactly has no error, though the doubles round', () => {
    const x = [0.1, 0.2, 0.3, 0.7, 1.1];
    const line = linearRegression(
      x,
      x.map((at) => 0.3 + 0.1 * at),
    )!;
    expect(line.sse).toBe(0);
    expect(line.tested!.slope).toMatchObject({ error: 0, p: 0 });
    expect(cooksDistances(x, x, line)).toEqual([0, 0, 0, 0, 0]);
    expect(linearRegression([1, 2, 3], [5, 5, 5])!.tested!.slope).toMatchObject({ t: 0, p: 1 });
  });

  test('its bands are the error of the intercept where x begins elsewhere', () => {
    const line = linearRegression(X, Y)!;
    for (const at of [-1, 0, 4, 10]) {
      const moved = X.map((x) => x - at);
      const { value, error } = linearRegression(moved, Y)!.tested!.intercept;
      const half = studentQuantile(0.025, 4) * error;
      expect(regressionBand(line, mean(X), [at])).toEqual([
        { x: at, fitted: close(value), low: close(value - half), high: close(value + half) },
      ]);
      const clustered = leastSquares([X.map(() => 1), moved], Y, clusters)!.coefficients[0]!;
      const other = studentQuantile(0.025, 2) * clustered.error;
      expect(clusteredBand(line, X, Y, clusters, [at])).toEqual([
        { x: at, fitted: close(value), low: close(value - other), high: close(value + other) },
      ]);
    }
  });

  test('three observations have bands and clustered errors, two of either kind or one cluster have none', () => {
    const [x, y, names] = [
      [0, 1, 2],
      [1, 2, 4],
      ['a', 'b', 'b'],
    ];
    const line = linearRegression(x, y)!;
    expect([
      regressionBand(line, 1, [1]).length,
      clusteredBand(line, x, y, names, [1]).length,
    ]).toEqual([1, 1]);
    // residuals 1/6, -1/3, 1/6; scores -1/6 in each cluster against 1/6; factor 2/1 times 2/1
    expect(clusteredSlope(x, y, names, line)).toMatchObject({
      error: close(Math.sqrt(4 * (2 / 36)) / 2),
      freedom: 1,
    });
    expect([
      clusteredSlope(x, y, ['a', 'a', 'a'], line),
      clusteredBand(line, x, y, ['a', 'a', 'a'], [1]),
    ]).toEqual([null, []]);
    const two = linearRegression([0, 1], [1, 3])!;
    expect([
      regressionBand(two, 0.5, [0]),
      clusteredBand(two, [0, 1], [1, 3], ['a', 'b'], [0]),
    ]).toEqual([[], []]);
    expect([
      clusteredSlope([0, 1], [1, 3], ['a', 'b'], two),
      cooksDistances([0, 1], [1, 3], { ...two, sse: 1 }),
    ]).toEqual([null, [0, 0]]);
  });
});

describe('means in clusters', () => {
  test('by hand: deviations add up within clusters', () => {
    // mean 3; sums -3 and 3; (2/1) 18 / 16
    const found = clusteredMean([1, 2, 3, 6], ['a', 'a', 'b', 'b'])!;
    expect(found).toEqual({
      value: 3,
      error: close(1.5),
      t: close(2),
      freedom: 1,
      p: close(1 - (2 / Math.PI) * Math.atan(2)),
    });
    expect(clusteredInterval([1, 2, 3, 6], ['a', 'a', 'b', 'b'])).toEqual({
      low: close(3 - 1.5 * 12.7062047362, 6),
      high: close(3 + 1.5 * 12.7062047362, 6),
    });
    // three clusters of unlike size: sums -3, 0 and 3 about 2
    expect(clusteredMean([1, 0, 2, 5], ['a', 'a', 'b', 'c'])).toMatchObject({
      error: close(Math.sqrt((3 / 2) * 18) / 4),
      freedom: 2,
    });
  });

  test('of one cluster there is none, and of values all alike no error, whatever the doubles round', () => {
    expect([
      clusteredMean([1, 2], ['a', 'a']),
      clusteredInterval([], []),
      clusteredInterval([1, 2], ['a', 'a']),
    ]).toEqual([null, null, null]);
    expect(clusteredMean([0.1, 0.1, 0.1], ['a', 'b', 'c'])).toMatchObject({
      error: 0,
      t: Infinity,
      p: 0,
      freedom: 2,
    });
    expect(clusteredInterval([0.1, 0.1, 0.1], ['a', 'b', 'c'])).toBeNull();
  });
});

describe('the mean of rows that share clusters', () => {
  /** The two-way analysis of variance of a whole table. */
  function anova(table: readonly (readonly number[])[]) {
    const [k, g] = [table.length, table[0]!.length];
    const rows = table.map(mean);
    const columns = table[0]!.map((_, j) => mean(table.map((row) => row[j]!)));
    const all = mean(rows);
    const rest = sum(
      table.flatMap((row, i) => row.map((value, j) => (value - rows[i]! - columns[j]! + all) ** 2)),
    );
    const of = (means: readonly number[]): number =>
      sum(means.map((each) => (each - all) ** 2)) / (means.length - 1) / means.length;
    return {
      k,
      g,
      all,
      byRow: of(rows),
      byColumn: of(columns),
      byCell: rest / ((k - 1) * (g - 1)) / (k * g),
    };
  }
  const rowsOf = (table: readonly (readonly number[])[]) =>
    table.map((values) => ({ values, clusters: values.map((_, column) => `c${column}`) }));

  test.each<readonly [string, readonly (readonly number[])[]]>([
    [
      'rows and columns vary',
      [
        [1, 2, 4],
        [3, 3, 8],
        [0, 2, 3],
        [1, 5, 6],
      ],
    ],
    [
      'rows vary more',
      [
        [1, 1.5],
        [9, 8.5],
        [4, 4],
      ],
    ],
    [
      'columns vary more',
      [
        [1, 7, 3, 9],
        [1.5, 7, 2, 9],
      ],
    ],
    [
      'cells alone',
      [
        [1, -1, 0.5],
        [-1, 1, -0.5],
        [0.2, 0, 0.1],
      ],
    ],
  ])('%s: the three tests are those of the analysis of variance', (_, table) => {
    const { k, g, all, byRow, byColumn, byCell } = anova(table);
    const both = Math.max(byRow, byColumn, byRow + byColumn - byCell);
    const freedom = Math.max(
      1,
      both ** 2 /
        (byRow ** 2 / (k - 1) + byColumn ** 2 / (g - 1) + byCell ** 2 / ((k - 1) * (g - 1))),
    );
    const found = crossedMean(rowsOf(table))!;
    expect(found.map(({ value, error, freedom: of }) => [value, error, of])).toEqual([
      [close(all), close(Math.sqrt(byRow)), k - 1],
      [close(all), close(Math.sqrt(byColumn)), g - 1],
      [close(all), close(Math.sqrt(both)), close(freedom)],
    ]);
    for (const { t, freedom: of, p } of found)
      expect(p).toBeCloseTo(2 * studentTail(Math.abs(t), of), 12);
  });

  test('a cell of several observations counts by its part of the row', () => {
    const table = [
      [1, 5],
      [2, 3],
    ];
    const doubled = table.map((values) => ({
      values: values.flatMap((value) => [value - 0.5, value + 0.5]),
      clusters: ['c0', 'c0', 'c1', 'c1'],
    }));
    expect(crossedMean(doubled)!.map(({ error }) => error)).toEqual(
      crossedMean(rowsOf(table))!.map(({ error }) => close(error)),
    );
  });

  test('two rows and two clusters are needed; rows all alike have no error', () => {
    expect(crossedMean(rowsOf([[1, 2]]))).toBeNull();
    expect(crossedMean(rowsOf([[1], [2]]))).toBeNull();
    const alike = crossedMean(
      rowsOf([
        [0.1, 0.1, 0.1],
        [0.1, 0.1, 0.1],
      ]),
    )!;
    expect(alike.map(({ error, p }) => [error, p])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
    expect(
      crossedMean(
        rowsOf([
          [0, 0],
          [0, 0],
        ]),
      )!.map(({ p, freedom }) => [p, freedom]),
    ).toEqual([
      [1, 1],
      [1, 1],
      [1, 1],
    ]);
  });
});

describe('least squares', () => {
  const ones = X.map(() => 1);

  test('takes the variance away that the line takes, and none of what does not vary', () => {
    const line = linearRegression(X, Y)!;
    const found = leastSquares([ones, X], Y, clusters)!;
    expect(found.n).toBe(6);
    expect(found.rSquared).toBeCloseTo(1 - line.sse / sum(Y.map((y) => (y - mean(Y)) ** 2)), 12);
    expect(leastSquares([ones, X], [3, 3, 3, 3, 3, 3], clusters)!.rSquared).toBeNull();
  });

  test('one observation more than columns, and two clusters, are enough', () => {
    const found = leastSquares(
      [
        [1, 1, 1],
        [0, 1, 2],
      ],
      [1, 2, 4],
      ['a', 'b', 'b'],
    )!;
    const line = linearRegression([0, 1, 2], [1, 2, 4])!;
    expect(found.coefficients[1]!.error).toBeCloseTo(
      clusteredSlope([0, 1, 2], [1, 2, 4], ['a', 'b', 'b'], line)!.error,
      12,
    );
  });
});

describe('logistic regression', () => {
  const clustersOf = [...'aaaabbbbcccc'];
  const right = [...'110011101000'].map((each) => each === '1');
  const ones = right.map(() => 1);

  test('the intercept alone is the log-odds, with an error from the sums within clusters', () => {
    // 6 of 12; sums about a half 0, 1 and -1
    const { coefficients, losses } = logisticRegression([ones], right, clustersOf)!;
    const error = Math.sqrt((3 / 2) * 2) / (12 / 4);
    expect(coefficients).toEqual([
      {
        value: close(0),
        error: close(error),
        half: close(4.30265272974946 * error, 8),
        p: close(1),
      },
    ]);
    expect(losses).toEqual(ones.map(() => close(Math.LN2)));
    // 9 of 12: log-odds ln 3, sums about three quarters 1, 0 and -1
    const more = [...'111111101100'].map((each) => each === '1');
    const [found] = logisticRegression([ones.map(() => 10)], more, clustersOf)!.coefficients;
    const wider = Math.sqrt((3 / 2) * 2) / ((12 * 3) / 16);
    const p = 1 - 1 / Math.sqrt(1 + 2 / (Math.log(3) / wider) ** 2);
    expect(found).toEqual({
      value: close(Math.log(3) / 10),
      error: close(wider / 10),
      half: close((4.30265272974946 * wider) / 10, 8),
      p: close(p),
    });
  });

  test('where each outcome is its own cluster the error is Woolf’s, and its interval and p are normal', () => {
    const feature = right.map((_, i) => (i < 6 ? 1 : 0));
    const outcomes = [...'110110100001'].map((each) => each === '1');
    const found = logisticRegression(
      [ones, feature],
      outcomes,
      ones.map((_, i) => String(i)),
    )!.coefficients[1]!;
    const error = Math.sqrt(1 / 4 + 1 / 2 + 1 / 2 + 1 / 4);
    expect(found).toEqual({
      value: close(Math.log(4), 8),
      error: close(error, 8),
      half: close(1.96 * error, 8),
      p: close(2 * normalTail(Math.log(4) / error), 8),
    });
  });

  test('two clusters are needed', () => {
    expect(
      logisticRegression(
        [ones],
        right,
        ones.map(() => 'a'),
      ),
    ).toBeNull();
    expect(
      logisticRegression(
        [ones],
        right,
        ones.map((_, i) => `${i % 2}`),
      ),
    ).not.toBeNull();
  });
});

describe('the slope between replicated measurements', () => {
  const products = (a: readonly number[], b: readonly number[]): number =>
    mean(a.flatMap((left, i) => b.flatMap((right, j) => (i === j ? [] : [left * right]))));

  test('the product of different measurements is the mean over all pairs of them', () => {
    expect(crossProduct([1, 2], [3, 5])).toBe((1 * 5 + 2 * 3) / 2);
    const [a, b] = [
      [1, -2, 4],
      [0.5, 3, 2],
    ];
    expect(crossProduct(a, b)).toBeCloseTo(products(a, b), 14);
  });

  const random = new Random(5n);
  const noise = (): number => random.nextDouble() - 0.5;
  const drawn = (n: number, ragged: boolean) => {
    const truth = Array.from({ length: n }, () => 3 * noise());
    const count = (i: number): number => (ragged && i % 3 === 0 ? 2 : 3);
    const x = truth.map((at, i) => Array.from({ length: count(i) }, (_, k) => at + k + noise()));
    const y = truth.map((at, i) =>
      Array.from({ length: count(i) }, (_, k) => 2 * at - k + noise()),
    );
    return { x, y, names: truth.map((_, i) => `c${i % 5}`) };
  };

  test.each([false, true])(
    'is that of centred products, with Fieller’s interval and its p (measured more or less often: %s)',
    (ragged) => {
      const { x, y, names } = drawn(20, ragged);
      const found = replicatedSlope(x, y, names)!;
      const centred = (rows: readonly (readonly number[])[]) => {
        const columns = [0, 1, 2].map((k) =>
          mean(rows.filter((row) => row.length > k).map((row) => row[k]!)),
        );
        return rows.map((row) => row.map((value, k) => value - columns[k]!));
      };
      const [cx, cy] = [centred(x), centred(y)];
      const [xy, xx] = [
        cx.map((row, i) => products(row, cy[i]!)),
        cx.map((row) => products(row, row)),
      ];
      expect(found.slope).toBeCloseTo(sum(xy) / sum(xx), 12);
      expect(found.variance).toBeCloseTo(sum(xx) / 20, 12);
      expect(found.noise).toBeCloseTo(mean(cx.map((row) => mean(row) ** 2)) - sum(xx) / 20, 12);
      expect(found.clusters).toBe(5);
      // at a limit, and only there, the clusters' sums of y less x times the slope are as far from
      // 0 as the level allows
      const t = (slope: number): number => {
        const sums = [0, 1, 2, 3, 4].map((c) =>
          sum(xy.map((value, i) => (i % 5 === c ? value - slope * xx[i]! : 0))),
        );
        const spread = Math.sqrt(sum(sums.map((each) => (each - mean(sums)) ** 2)) / 4 / 5);
        return mean(sums) / spread;
      };
      expect(t(found.interval!.low)).toBeCloseTo(2.7764451, 5);
      expect(t(found.interval!.high)).toBeCloseTo(-2.7764451, 5);
      expect(found.p).toBeCloseTo(2 * studentTail(t(0), 4), 10);
    },
  );

  test('one cluster has a slope alone', () => {
    const { x, y } = drawn(12, false);
    expect(
      replicatedSlope(
        x,
        y,
        x.map(() => 'a'),
      ),
    ).toMatchObject({ interval: null, p: null, clusters: 1 });
  });

  test('where x may not vary beyond its noise, its interval has no bounds', () => {
    // by cluster the variance of x is 1, 0 and 0: a third, give or take a third
    const x = [
      [1, 1],
      [-1, -1],
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
    ];
    const found = replicatedSlope(x, x, ['a', 'a', 'b', 'b', 'c', 'c'])!;
    expect(found).toMatchObject({
      slope: 1,
      interval: null,
      clusters: 3,
      variance: close(1 / 3),
      noise: 0,
    });
  });

  test('two observations of two measurements are enough, fewer are not, and neither is x without variance', () => {
    const two = [
      [0, 0],
      [2, 2],
    ];
    expect(
      replicatedSlope(
        two,
        [
          [1, 1],
          [5, 5],
        ],
        ['a', 'b'],
      ),
    ).toMatchObject({ slope: 2, variance: 1, clusters: 2 });
    expect(replicatedSlope([[1, 2]], [[1, 2]], ['a'])).toBeNull();
    expect(replicatedSlope([[1], [2]], [[1], [2]], ['a', 'b'])).toBeNull();
    expect(
      replicatedSlope(
        [
          [0.1, 0.2],
          [0.1, 0.2],
          [0.1, 0.2],
        ],
        [
          [1, 2],
          [2, 3],
          [3, 5],
        ],
        ['a', 'b', 'c'],
      ),
    ).toBeNull();
    // measurements that contradict each other: the product is below 0
    expect(
      replicatedSlope(
        [
          [1, -1],
          [-1, 1],
        ],
        two,
        ['a', 'b'],
      ),
    ).toBeNull();
  });

  test.each<readonly [string, number[][], number[][], string[]]>([
    [
      'y is missing',
      [
        [1, 2],
        [1, 2],
      ],
      [[1, 2]],
      ['a', 'b'],
    ],
    [
      'a cluster is missing',
      [
        [1, 2],
        [1, 2],
      ],
      [
        [1, 2],
        [1, 2],
      ],
      ['a'],
    ],
    [
      'a measurement is missing',
      [
        [1, 2],
        [1, 2],
      ],
      [[1, 2], [1]],
      ['a', 'b'],
    ],
  ])('is refused where %s', (_, x, y, names) => {
    expect(() => replicatedSlope(x, y, names)).toThrow(
      'each observation needs a cluster and equally many measurements of x and y',
    );
  });
});
