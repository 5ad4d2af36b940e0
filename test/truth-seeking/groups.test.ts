/**
 * What belongs together is no independent observation: a statement and its negation, trajectories
 * of one problem.
 */
import { expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { clusteredWilsonInterval, wilsonInterval } from '../../src/statistics/index.js';
import { logisticRegression } from '../../src/statistics/least-squares.js';
import { correlate } from '../../src/truth-seeking/analysis/correlation.js';
import type { BeliefPath } from '../../src/truth-seeking/beliefs/belief.js';
import { binaryProblem, type BinaryProblem } from '../../src/truth-seeking/problem.js';
import { calibration, groundTruthAccuracy } from '../../src/truth-seeking/strategies/accuracy.js';
import { martingale } from '../../src/truth-seeking/strategies/martingale.js';

const twice = <T>(of: readonly T[]): T[] => of.flatMap((each) => [each, each]);
const width = ({ low, high }: { low: number; high: number }): number => high - low;

test('everything said twice: no interval is narrower than of what was said once', () => {
  const random = new Random(5n);
  const once: BeliefPath[] = Array.from({ length: 30 }, (_, i) => ({
    trajectoryId: `t${i}`,
    problemId: `p${i}`,
    group: `g${i}`,
    beliefs: [random.nextDouble(), random.nextDouble()],
  }));
  const doubled = twice(once).map((path, i) => ({
    ...path,
    trajectoryId: `${path.trajectoryId} ${i % 2}`,
  }));
  const problems = new Map<string, BinaryProblem>(
    once.map(({ problemId }) => [
      problemId,
      binaryProblem({ question: problemId, options: ['Yes', 'No'], correctOption: 0 }),
    ]),
  );
  const brier = (paths: readonly BeliefPath[]) =>
    groundTruthAccuracy(paths, problems, { metric: 'brier', mode: 'eventual' });
  expect(brier(doubled).value).toBeCloseTo(brier(once).value!, 12);
  expect(width(brier(doubled).interval!)).toBeCloseTo(width(brier(once).interval!), 12);
  const slope = (paths: readonly BeliefPath[]) =>
    martingale(paths, { change: 'difference', granularity: 'steps' });
  // but for the small-sample factor (n - 1) / (n - 2)
  expect(width(slope(doubled).interval!) / width(slope(once).interval!)).toBeCloseTo(
    Math.sqrt(59 / 58 / (29 / 28)),
    10,
  );
  expect(slope(doubled).details.drift!.error).toBeCloseTo(slope(once).details.drift!.error, 12);

  const [x, y] = [once.map(({ beliefs }) => beliefs[0]!), once.map(({ beliefs }) => beliefs[1]!)];
  const groups = once.map(({ group }) => group!);
  const [single, double] = [correlate(x, y), correlate(twice(x), twice(y), twice(groups))];
  expect(double.pearson!.interval).toEqual({
    low: expect.closeTo(single.pearson!.interval!.low, 10),
    high: expect.closeTo(single.pearson!.interval!.high, 10),
  });
  expect(double.pearson!.p).toBeCloseTo(single.pearson!.p!, 10);

  const right = x.map((value) => value > 0.4);
  expect(width(clusteredWilsonInterval(twice(right), twice(groups)))).toBeGreaterThan(
    0.95 * width(wilsonInterval(right.filter(Boolean).length, 30)),
  );
  expect(clusteredWilsonInterval(right, groups)).toEqual(
    wilsonInterval(right.filter(Boolean).length, 30),
  );
  const all = right.map(() => true);
  expect(clusteredWilsonInterval(twice(all), twice(groups))).toEqual(wilsonInterval(30, 30));
  const forecasts = x.map((probability, i) => ({ probability, outcome: right[i]! }));
  const [bin, wide] = [
    calibration(forecasts, 1)!.bins[0]!,
    calibration(twice(forecasts), 1, twice(groups))!.bins[0]!,
  ];
  expect(width(wide.interval)).toBeGreaterThan(0.95 * width(bin.interval));
});

test('answers that take turns within a group are no more certain than independent ones', () => {
  const [right, groups] = [
    Array.from({ length: 40 }, (_, i) => i % 2 === 0),
    Array.from({ length: 40 }, (_, i) => String(i >> 1)),
  ];
  expect(width(clusteredWilsonInterval(right, groups))).toBeGreaterThanOrEqual(
    width(wilsonInterval(20, 40)),
  );
});

test('ten trajectories of a problem: the logistic part covers over problems, where Wald’s own error does not', () => {
  const random = new Random(9n);
  const gauss = (): number =>
    Math.sqrt(-2 * Math.log(1 - random.nextDouble())) * Math.cos(2 * Math.PI * random.nextDouble());
  const [problems, each, samples] = [40, 10, 300];
  let [clustered, alone] = [0, 0];
  for (let sample = 0; sample < samples; sample++) {
    const rows = Array.from({ length: problems }, (_, i) => {
      const hardness = 1.5 * gauss();
      return Array.from({ length: each }, () => ({
        group: String(i),
        x: i % 2,
        outcome: random.nextDouble() < 1 / (1 + Math.exp(-hardness)),
      }));
    }).flat();
    const design = [rows.map(() => 1), rows.map(({ x }) => x)];
    const outcomes = rows.map(({ outcome }) => outcome);
    const held = (clusters: readonly string[]): number => {
      const { value, half } = logisticRegression(design, outcomes, clusters)!.coefficients[1]!;
      return Math.abs(value) <= half ? 1 : 0;
    };
    clustered += held(rows.map(({ group }) => group));
    alone += held(rows.map((_, i) => String(i)));
  }
  expect(Math.abs(clustered / samples - 0.95)).toBeLessThan(3 * Math.sqrt((0.95 * 0.05) / samples));
  expect(alone / samples).toBeLessThan(0.8);
});
