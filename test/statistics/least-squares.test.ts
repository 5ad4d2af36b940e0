/** Regression on several columns against closed forms, and against leaving an observation out. */
import { describe, expect, test } from '@jest/globals';
import { mean } from '../../src/statistics/index.js';
import {
  independentColumns,
  leastSquares,
  logisticRegression,
} from '../../src/statistics/least-squares.js';
import {
  clusteredSlope,
  cooksDistances,
  linearRegression,
  regressionBand,
} from '../../src/statistics/regression.js';

const X = [1, 2, 3, 4, 5, 9];
const Y = [2, 1, 4, 3, 5, 5];
const ones = X.map(() => 1);
const clusters = ['a', 'a', 'b', 'b', 'c', 'c'];

test('one regressor: the same slope and the same clustered error as the simple regression', () => {
  const line = linearRegression(X, Y)!;
  const simple = clusteredSlope(X, Y, clusters, line)!;
  const [intercept, slope] = leastSquares([ones, X], Y, clusters)!.coefficients;
  expect(intercept!.value).toBeCloseTo(line.intercept, 12);
  expect(slope!.value).toBeCloseTo(line.slope, 12);
  expect(slope!.error).toBeCloseTo(simple.error, 12);
  expect(slope!.p).toBeCloseTo(simple.p, 12);
  expect(slope!.freedom).toBe(2);
});

test('two regressors: each coefficient is that of what the other leaves of its column (Frisch and Waugh 1933)', () => {
  const Z = [0, 1, 1, 0, 2, 5];
  const [, , ofZ] = leastSquares([ones, X, Z], Y, clusters)!.coefficients;
  const byX = linearRegression(X, Z)!;
  const rest = Z.map((z, i) => z - byX.intercept - byX.slope * X[i]!);
  expect(ofZ!.value).toBeCloseTo(linearRegression(rest, Y)!.slope, 12);
});

test('what the columns say exactly has no error, whatever their units', () => {
  const Z = [3e9, 1e9, 4e9, 1e9, 5e9, 9e9];
  const y = X.map((x, i) => 1 + 2 * x - 3e-9 * Z[i]!);
  const { coefficients, rSquared } = leastSquares([ones, X, Z], y, clusters)!;
  for (const [i, expected] of [1, 2, -3e-9].entries())
    expect(coefficients[i]!.value / expected).toBeCloseTo(1, 9);
  expect(rSquared).toBeCloseTo(1, 12);
});

test('columns that others add up to are found; too few observations or clusters have no fit', () => {
  expect(independentColumns([ones, X, X.map((x) => 3 - 2 * x), Y, X.map(() => 0)])).toEqual([
    0, 1, 3,
  ]);
  expect(
    leastSquares(
      [
        [1, 1],
        [1, 2],
      ],
      [1, 2],
      ['a', 'b'],
    ),
  ).toBeNull();
  expect(leastSquares([ones], Y, ones.map(String))).toBeNull();
});

describe('logistic', () => {
  // a table of four fields: 30 of 40 with the feature, 10 of 40 without it
  const feature = Array.from({ length: 80 }, (_, i) => (i < 40 ? 1 : 0));
  const outcomes = feature.map((_, i) => (i < 40 ? i < 30 : i < 50));
  const design = [feature.map(() => 1), feature];

  test('a table of four fields: log-odds, their ratio and Woolf’s error', () => {
    const { coefficients, losses } = logisticRegression(
      design,
      outcomes,
      feature.map((_, i) => String(i)),
    )!;
    expect(coefficients[0]!.value).toBeCloseTo(Math.log(10 / 30), 10);
    expect(coefficients[1]!.value).toBeCloseTo(Math.log(9), 10);
    expect(coefficients[1]!.error).toBeCloseTo(Math.sqrt(1 / 30 + 1 / 10 + 1 / 10 + 1 / 30), 8);
    expect(mean(losses)).toBeCloseTo(-(0.75 * Math.log(0.75) + 0.25 * Math.log(0.25)), 10);
  });

  test('outcomes that a column tells apart have no coefficient', () => {
    expect(
      logisticRegression(
        design,
        feature.map((value) => value === 1),
        feature.map((_, i) => String(i)),
      ),
    ).toBeNull();
  });
});

test('Cook’s distance is how far all fitted values move where the observation is left out', () => {
  const line = linearRegression(X, Y)!;
  const variance = line.sse / (X.length - 2);
  for (const [i, distance] of cooksDistances(X, Y, line).entries()) {
    const without = linearRegression(
      X.filter((_, k) => k !== i),
      Y.filter((_, k) => k !== i),
    )!;
    const moved = X.map(
      (x) => (line.intercept + line.slope * x - without.intercept - without.slope * x) ** 2,
    );
    expect(distance).toBeCloseTo(moved.reduce((a, b) => a + b, 0) / (2 * variance), 10);
  }
  expect(
    cooksDistances([0, 0, 0, 1], [1, 2, 3, 9], linearRegression([0, 0, 0, 1], [1, 2, 3, 9])!)[3],
  ).toBe(Infinity);
});

test('the band of a line is narrowest at the centre, where it is that of a mean', () => {
  const line = linearRegression(X, Y)!;
  const [at, far] = regressionBand(line, mean(X), [mean(X), 9]);
  expect(at!.fitted).toBeCloseTo(mean(Y), 12);
  // t of 4 degrees of freedom, 97.5 %
  expect(at!.high - at!.fitted).toBeCloseTo(2.7764451 * Math.sqrt(line.sse / 4 / 6), 6);
  expect(far!.high - far!.low).toBeGreaterThan(at!.high - at!.low);
});
