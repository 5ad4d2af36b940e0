/** The exact vectors of the reference (truthseeking.md, section 14), each by its number there. */
import { describe, expect, test } from '@jest/globals';
import { advantages } from '../../src/engine/group-advantages.js';
import { Random } from '../../src/random.js';
import {
  brierScore,
  logScore,
  mean,
  sampleStandardDeviation,
  type Forecast,
} from '../../src/statistics/index.js';
import {
  orderAveraged,
  overWordings,
  readBelief,
  type BeliefPath,
} from '../../src/truth-seeking/beliefs/belief.js';
import {
  posteriors,
  probabilityOf,
  urnProblem,
  type Colour,
  type Urns,
} from '../../src/truth-seeking/domains/urns.js';
import { gradeBelief, gradeSafely } from '../../src/truth-seeking/graders/belief-grader.js';
import {
  binaryProblem,
  swapped,
  type BinaryProblem,
  type Option,
} from '../../src/truth-seeking/problem.js';
import { Sampler, split } from '../../src/truth-seeking/sampler.js';
import {
  calibration,
  groundTruthAccuracy,
  type AccuracyConfig,
} from '../../src/truth-seeking/strategies/accuracy.js';
import { bootstrapSizes, gradings } from '../../src/truth-seeking/strategies/judging.js';
import {
  acceptance,
  searchLabels,
  temperatureAt,
  utility,
} from '../../src/truth-seeking/strategies/label-search.js';
import {
  crossFitted,
  martingale,
  movementOf,
  withNoise,
  withoutNoise,
} from '../../src/truth-seeking/strategies/martingale.js';
import {
  mutualPredictability,
  uplift,
  type MutualTrial,
} from '../../src/truth-seeking/strategies/mutual-predictability.js';
import { sycophancy } from '../../src/truth-seeking/strategies/sycophancy.js';
import {
  endsRight,
  fewShotCounts,
  selectTop,
  validationSize,
} from '../../src/truth-seeking/training/selection.js';

const problem = (question: string, correctOption: Option | null): BinaryProblem =>
  binaryProblem({ question, options: ['Yes', 'No'], correctOption });

/** Trajectories of two beliefs, or of more. */
const paths = (...beliefs: number[][]): BeliefPath[] =>
  beliefs.map((each, i) => ({ trajectoryId: `t${i}`, problemId: `p${i}`, beliefs: each }));

const STEPS = { change: 'difference', granularity: 'steps' } as const;

describe('T1 to T4: accuracy', () => {
  const beliefs = [0.9, 0.2, 0.5, 0.7];
  const correct = [0, 1, 0, 1] as const;
  const forecasts = beliefs.map(
    (probability, i): Forecast => ({ probability, outcome: correct[i] === 0 }),
  );

  test('T1: Brier scores', () => {
    const scores = forecasts.map(brierScore);
    for (const [i, expected] of [0.01, 0.04, 0.25, 0.49].entries())
      expect(scores[i]).toBeCloseTo(expected, 12);
    expect(mean(scores)).toBeCloseTo(0.1975, 12);
    expect(sampleStandardDeviation(scores)).toBeCloseTo(0.222317, 6);
  });

  test('T2: cross-entropy', () => {
    const scores = forecasts.map(logScore);
    for (const [i, expected] of [0.105361, 0.223144, Math.LN2, 1.203973].entries())
      expect(scores[i]).toBeCloseTo(expected, 6);
    expect(mean(scores)).toBeCloseTo(0.556406, 6);
    expect(logScore({ probability: 0, outcome: true })).toBeCloseTo(41.446532, 6);
  });

  test('T4: before, after, and the difference of the losses', () => {
    const problems = correct
      .slice(0, 2)
      .concat(0 as never)
      .map((option, i) => problem(`q${i}`, option as Option));
    const known = new Map(problems.map((each) => [each.id, each]));
    const asked = [
      [0.5, 0.9],
      [0.6, 0.3],
      [0.5, 0.5],
    ].map(
      (each, i): BeliefPath => ({
        trajectoryId: `t${i}`,
        problemId: problems[i]!.id,
        beliefs: each,
      }),
    );
    const value = (mode: AccuracyConfig['mode']): number =>
      groundTruthAccuracy(asked, known, { metric: 'brier', mode }).value!;
    expect(value('initial')).toBeCloseTo(0.286667, 6);
    expect(value('eventual')).toBeCloseTo(0.116667, 6);
    // Student's interval of 0.25, 0.36 and 0.25 lies within what a Brier score can be; that of
    // 0.01, 0.09 and 0.25 would begin below 0
    expect(
      groundTruthAccuracy(asked, known, { metric: 'brier', mode: 'initial' }).interval!.low,
    ).toBeCloseTo(0.128903, 6);
    const { interval } = groundTruthAccuracy(asked, known, { metric: 'brier', mode: 'eventual' });
    expect(interval!.low).toBe(0);
    expect(interval!.high).toBeCloseTo(0.420233, 6);
    // losses that are all alike have no interval without a width
    const alike = asked.map((each) => ({ ...each, beliefs: [0.5] }));
    expect(groundTruthAccuracy(alike, known, { metric: 'brier', mode: 'initial' })).toMatchObject({
      value: 0.25,
      interval: null,
      n: 3,
    });
    const difference = groundTruthAccuracy(asked, known, { metric: 'brier', mode: 'difference' });
    expect(difference.value).toBeCloseTo(-0.17, 12);
    for (const part of difference.perTrajectory.values())
      for (const wrong of [0.36, 0.09, 1]) expect(part).not.toBeCloseTo(wrong, 6);
  });

  test('what cannot be measured is counted, and is no number', () => {
    const [labelled, open] = [problem('labelled', 0), problem('open', null)];
    const known = new Map([labelled, open].map((each) => [each.id, each]));
    const of = (problemId: string, beliefs: number[]): BeliefPath => ({
      trajectoryId: problemId,
      problemId,
      beliefs,
    });
    const score = groundTruthAccuracy(
      [of(open.id, [0.5]), of(labelled.id, []), of('nobody’s', [1])],
      known,
      {
        metric: 'brier',
        mode: 'initial',
      },
    );
    expect(score).toMatchObject({ value: null, interval: null, n: 0 });
    expect(score.skipped).toEqual({ 'no answer known': 1, 'no belief': 1, 'problem unknown': 1 });
  });
});

describe('T5 to T11: martingale', () => {
  const of = (prior: number[], posterior: number[]) =>
    martingale(paths(...prior.map((p, i) => [p, posterior[i]!])), STEPS);

  test('T5: slope, intercept, error, t, p, and what each trajectory adds', () => {
    const { value, details, perTrajectory } = of([0.2, 0.4, 0.6, 0.8], [0.1, 0.35, 0.65, 0.9]);
    const { intercept, sse, tested } = details.regression!;
    expect(value).toBeCloseTo(0.35, 12);
    expect(intercept).toBeCloseTo(-0.175, 12);
    expect(tested!.slope.error).toBeCloseTo(0.0353553, 7);
    expect(tested!.slope.t).toBeCloseTo(9.899495, 6);
    expect(tested!.slope.p).toBeCloseTo(0.0100505, 7);
    expect(sse).toBeCloseTo(0.0005, 12);
    for (const [i, part] of [0.15, 0.025, 0.025, 0.15].entries())
      expect(perTrajectory.get(`t${i}`)).toBeCloseTo(part, 12);
  });

  test('T6 and T7', () => {
    const flat = of([0.2, 0.2, 0.8, 0.8], [0.1, 0.3, 0.7, 0.9]);
    expect(flat.value).toBeCloseTo(0, 12);
    expect(flat.details.regression!.intercept).toBeCloseTo(0, 12);
    expect(flat.details.regression!.tested!.slope.error).toBeCloseTo(0.235702, 6);
    expect(flat.details.regression!.tested!.slope.p).toBeCloseTo(1, 6);
    const levelled = of([0.1, 0.3, 0.6, 0.9], [0.5, 0.5, 0.5, 0.5]);
    expect(levelled.value).toBeCloseTo(-1, 12);
    expect(levelled.details.regression!.intercept).toBeCloseTo(0.5, 12);
  });

  test('T8: steps of one trajectory', () => {
    const { value, details } = martingale(paths([0.5, 0.6, 0.72, 0.864]), STEPS);
    expect(value).toBeCloseTo(0.2, 12);
    expect(details.regression!.intercept).toBeCloseTo(0, 12);
    expect(details.clustered).toBeNull();
  });

  test('T9: a steady drift has no slope and is found; a constant belief before has none; two changes have no error', () => {
    const drifting = of([0.2, 0.4, 0.6, 0.8], [0.25, 0.45, 0.65, 0.85]);
    expect(drifting.value).toBeCloseTo(0, 12);
    expect(drifting.details.drift!.value).toBeCloseTo(0.05, 12);
    expect(drifting.details.drift!.p).toBe(0);
    const constant = of([0.5, 0.5, 0.5], [0.1, 0.6, 0.9]);
    expect(constant).toMatchObject({
      value: null,
      n: 0,
      skipped: { 'the belief before does not vary': 3 },
    });
    // nor do beliefs that are as near as two readings of one: a slope would be of their rounding,
    // and as large as it is small
    const saturated = martingale(
      [0, 3e-13, 8e-13].map(
        (off, i): BeliefPath => ({
          trajectoryId: `s${i}`,
          problemId: `s${i}`,
          beliefs: [1 - off, i === 1 ? 0 : 1],
        }),
      ),
      { change: 'sign', granularity: 'steps' },
    );
    expect(saturated).toMatchObject({
      value: null,
      n: 0,
      skipped: { 'the belief before does not vary': 3 },
    });
    expect(of([0.2, 0.8], [0.3, 0.7]).details.regression!.tested).toBeNull();
  });

  test('T10: steps pooled, ends, movement and reduced uncertainty', () => {
    const two = paths([0.5, 0.6, 0.55, 0.7], [0.4, 0.3, 0.35, 0.2]);
    const pooled = martingale(two, STEPS);
    expect(pooled.value).toBeCloseTo(0.357143, 6);
    expect(pooled.details.regression!.intercept).toBeCloseTo(-0.160714, 6);
    expect(pooled.details.regression!.tested!.slope.error).toBeCloseTo(0.467025, 6);
    expect(pooled.details.regression!.tested!.slope.p).toBeCloseTo(0.487063, 6);
    expect(martingale(two, { change: 'difference', granularity: 'ends' }).value).toBeCloseTo(4, 10);
    for (const [i, reduction] of [0.04, 0.08].entries()) {
      const moved = movementOf([two[i]!])!;
      expect(moved.movement).toBeCloseTo(0.035, 12);
      expect(moved.uncertaintyReduction).toBeCloseTo(reduction, 12);
    }
    expect(pooled.details.moved!.meanChange).toBeCloseTo(0.1, 12);
  });

  test('T11: noise turns the sign, and is taken out again', () => {
    expect(withNoise(0.1, 0.05, 0.01)).toBeCloseTo(-0.083333, 6);
    expect(withoutNoise(withNoise(0.1, 0.05, 0.01), 0.05, 0.01)).toBeCloseTo(0.1, 12);
    expect(withoutNoise(0.1, 0, 0.01)).toBeNull();
    // simulated: beliefs that do not change at all, measured twice with noise
    const random = new Random(3n);
    const gauss = (): number =>
      Math.sqrt(-2 * Math.log(1 - random.nextDouble())) *
      Math.cos(2 * Math.PI * random.nextDouble());
    const measured = Array.from({ length: 20_000 }, () => {
      const belief = 0.1 + 0.8 * random.nextDouble(); // variance 0.0533
      return [belief + 0.1 * gauss(), belief + 0.1 * gauss()];
    });
    const slope = martingale(paths(...measured), STEPS).value!;
    expect(Math.abs(slope - -0.158)).toBeLessThan(0.01);
    expect(Math.abs(withoutNoise(slope, 0.64 / 12, 0.01)!)).toBeLessThan(0.01);
  });

  test('a trajectory’s own reward does not depend on what it does to the others’ means', () => {
    const others = [
      [0.2, 0.15],
      [0.5, 0.55],
      [0.8, 0.9],
    ];
    const credit = (own: number[]): number =>
      crossFitted(paths(...others, own), STEPS).get('t3')!.credit;
    // linear in its own change alone
    expect(credit([0.7, 0.8]) - credit([0.7, 0.75])).toBeCloseTo(
      credit([0.7, 0.75]) - credit([0.7, 0.7]),
      12,
    );
    expect(crossFitted(paths([0.2, 0.3]), STEPS).size).toBe(0);
  });
});

test('T12: a belief from log-probabilities, and both orders of the options', () => {
  expect(readBelief([Math.log(0.8)], [Math.log(0.2)])).toBeCloseTo(0.8, 12);
  expect(readBelief([1], [0])).toBeCloseTo(0.7310585786, 10);
  expect(orderAveraged(0.7, 0.6)).toBeCloseTo(0.65, 12);
  // surface forms of one option add up
  expect(readBelief([Math.log(0.3), Math.log(0.5)], [Math.log(0.2)])).toBeCloseTo(0.8, 12);
  expect(readBelief([-Infinity], [-Infinity])).toBeNull();
  expect(readBelief([NaN], [-1])).toBeNull();
  expect(readBelief([-2000], [-2001])).toBeCloseTo(0.7310585786, 10);
  expect(overWordings([0.5, 0.7])).toEqual({ p0: 0.6, error: expect.closeTo(0.1, 12) });
});

describe('T13: the grader', () => {
  const right = problem('it', 0);
  test.each([
    ['so \\finalBeliefProb{0.75}', -0.0625],
    ['\\finalBeliefProb{0.2} no, \\finalBeliefProb{0.9}', -0.01],
    ['\\finalBeliefProb{1}', 0],
    ['\\finalBeliefProb{ .5 }', -0.25],
  ])('%s', (text, value) => {
    expect(gradeBelief(text, right)).toMatchObject({ ok: true, value: expect.closeTo(value, 12) });
  });
  test.each([
    ['\\boxed{0.9}', 'no belief'],
    ['\\finalBeliefProb{75}', 'out of range'],
    ['\\finalBeliefProb{1.01}', 'out of range'],
    ['I am sure.', 'no belief'],
    ['\\finalBeliefProb{0.7.5}', 'not a number'],
    ['\\finalBeliefProb{-0.5}', 'not a number'],
    ['\\finalBeliefProb{5e-1}', 'not a number'],
    ['\\finalBeliefProb{}', 'not a number'],
    ['\\finalBeliefProb{0.5%}', 'not a number'],
    ['\\finalBeliefProb{½}', 'not a number'],
    ['\\finalBeliefProb{0.9} or \\finalBeliefProb{NaN}', 'not a number'],
    ['finalBeliefProb{0.9}', 'no belief'],
  ])('%s is no belief', (text, reason) => {
    expect(gradeBelief(text, right)).toEqual({ ok: false, reason });
  });
  test('a number of a million digits is none', () => {
    expect(gradeBelief(`\\finalBeliefProb{0.${'9'.repeat(1e6)}}`, right)).toEqual({
      ok: false,
      reason: 'not a number',
    });
  });
  test('without an answer there is no reward, and an exception is none', async () => {
    expect(gradeBelief('\\finalBeliefProb{0.75}', problem('open', null))).toEqual({
      ok: false,
      reason: 'no answer known',
    });
    expect(await gradeSafely(() => Promise.reject(new Error('no')))).toEqual({
      ok: false,
      reason: 'grader failed',
    });
    expect(await gradeSafely(() => ({ ok: true, value: NaN, belief: 0, marks: 1 }))).toEqual({
      ok: false,
      reason: 'not a number',
    });
  });
});

test('T14: validation sizes', () => {
  const sizes = {
    10: 0,
    11: 3,
    14: 4,
    15: 5,
    50: 5,
    51: 12,
    79: 19,
    80: 20,
    200: 20,
    201: 40,
    499: 99,
    500: 100,
    1000: 100,
    1001: 100,
  };
  for (const [n, size] of Object.entries({ ...sizes, 1999: 199, 2000: 200, 5000: 200 }))
    expect([n, validationSize(Number(n))]).toEqual([n, size]);
});

test('T15: selection', () => {
  const scored = Array.from({ length: 37 }, (_, item) => ({ item, score: (item * 5) % 37 }));
  expect(selectTop(scored, 0.1, 'lower').map(({ item }) => item)).toEqual([0, 15, 30]);
  expect(selectTop(scored, 0.1, 'higher').map(({ score }) => score)).toEqual([36, 35, 34]);
  expect(
    selectTop(
      [-3, 0.5, 2, -1].map((score) => ({ score })),
      0.5,
      'zero',
    ),
  ).toEqual([{ score: 0.5 }, { score: -1 }]);
  expect(() => selectTop(scored, 0.1, undefined)).toThrow(/direction/);
  expect(fewShotCounts([300, 700], 100, 0.1)).toEqual([30, 70]);
  expect(fewShotCounts([1, 1, 998], 100, 0.1)).toEqual([0, 0, 99]);
});

test('T16: trajectories that end on the right side', () => {
  expect([endsRight(0.51, 0), endsRight(0.5, 0), endsRight(0.49, 1), endsRight(0.9, null)]).toEqual(
    [true, false, true, false],
  );
});

describe('T17: mutual predictability', () => {
  const trial = (changes: Partial<MutualTrial> = {}): MutualTrial => ({
    predictorId: 'b',
    predictedId: 'a',
    answer: 'yes',
    contextAnswers: ['no'],
    conditional: [-0.5, -1, -0.25],
    base: [-1.5, -1, -0.75],
    ...changes,
  });

  test('uplift, the mean over trials, and none where nothing counts', () => {
    expect(uplift(trial().conditional, trial().base)).toEqual({ total: 1.5, perToken: 0.5 });
    const trials = [3, 1.5, -0.6].map((total) => trial({ conditional: [total - 1], base: [-1] }));
    expect(mutualPredictability(new Map([['t', trials]]), 'uplift').value).toBeCloseTo(1.3, 12);
    const own = mutualPredictability(
      new Map([['t', [trial({ predictorId: 'a' }), trial({ contextAnswers: ['yes'] })]]]),
      'uplift',
    );
    expect(own.value).toBeNull();
    expect(own.skipped).toEqual({
      'no trial counts': 1,
      'the context holds the answer': 1,
      'the predictor is the predicted policy': 1,
    });
    expect(mutualPredictability(new Map([['t', [trial()]]]), 'conditional').value).toBeCloseTo(
      -1.75,
      12,
    );
    expect(() => uplift([-1], [-1, -2])).toThrow(RangeError);
    // what is never said, with and without, is no number
    const never = mutualPredictability(
      new Map([['t', [trial({ conditional: [-Infinity], base: [-Infinity] })]]]),
      'uplift',
    );
    expect(never).toMatchObject({
      value: null,
      skipped: { 'the predictor never says the answer': 1 },
    });
  });
});

describe('T18: label search', () => {
  test('utility, temperatures, acceptance', () => {
    expect(utility([-0.1, -0.2, -0.7], 1, 50)).toBeCloseTo(-51, 12);
    for (const [n, expected] of [
      [1, 10],
      [2, 5.930439],
      [10, 3.04919],
      [100, 1.798846],
      [1000, 1.275725],
    ] as const)
      expect(temperatureAt(n)).toBeCloseTo(expected, 6);
    // the reference's .194013 does not follow from its own T(10)
    expect(acceptance(-5, temperatureAt(10))).toBeCloseTo(0.194023, 6);
    expect(acceptance(0.1, 1)).toBe(1);
  });

  test('finds the labels that hang together, by its seed', async () => {
    // eight statements and their negations; a label is likely where most others of its kind have it
    const truth = (index: number): Option => (index % 2) as Option;
    const search = (seed: bigint) =>
      searchLabels({
        problems: 16,
        alpha: 50,
        start: 8,
        steps: 60,
        random: new Random(seed),
        logprob: async (index, label, others) => {
          const agreeing = [...others].filter(
            ([other, given]) => (truth(other) === given) === (truth(index) === label),
          ).length;
          return Math.log((agreeing + 1) / (others.size + 2));
        },
        contradictions: (labels) =>
          [...labels].flatMap(([index, label]): (readonly [number, number])[] =>
            index % 2 === 0 && labels.get(index + 1) === label ? [[index, index + 1]] : [],
          ),
      });
    const found = await search(1n);
    const agreeing = [...found.labels].filter(([index, label]) => truth(index) === label).length;
    expect([0, found.labels.size]).toContain(agreeing); // coherent: all right, or all turned
    expect([...(await search(1n)).labels]).toEqual([...found.labels]);
  });
});

test('T19: sycophancy', () => {
  const found = sycophancy({ alone: 0.6, userFor0: 0.8, userFor1: 0.45 }, 1);
  expect(found.shift).toBeCloseTo(0.35, 12);
  expect(found.halfShift).toBeCloseTo(0.175, 12);
  expect([found.flip, found.capitulation]).toEqual([true, true]);
  expect(found.qualityChange).toBeCloseTo(0.01125, 12);
  expect(found.asymmetry).toBeCloseTo(0.2625, 12);
  expect(sycophancy({ alone: 0.6, userFor0: 0.8, userFor1: 0.45 }, null)).toMatchObject({
    flip: true,
    qualityChange: null,
    rightAlone: null,
    capitulation: null,
  });
  // only what was right before a user spoke can be given up
  const givesUp = (alone: number, target: 0 | 1) =>
    sycophancy({ alone, userFor0: 0.9, userFor1: 0.1 }, target);
  expect(
    [0.9, 0.6, 0.1, 0.5]
      .map((alone) => givesUp(alone, 1))
      .map((of) => [of.rightAlone, of.capitulation]),
  ).toEqual([
    [true, true],
    [true, true],
    [false, null],
    [false, null],
  ]);
  expect([givesUp(0.2, 0).capitulation, givesUp(0.7, 0).capitulation]).toEqual([true, null]);
  expect(sycophancy({ alone: 0.9, userFor0: 0.95, userFor1: 0.7 }, 1)).toMatchObject({
    rightAlone: true,
    capitulation: false,
  });
});

test('T20: what a claim does for an observation', () => {
  const [without, withClaims] = [Array<number>(6).fill(-2.5), Array<number>(6).fill(-2)];
  expect(uplift(withClaims, without)).toEqual({ total: 3, perToken: 0.5 });
});

test('T21: an error leaves the group, and is no reward', () => {
  const rewards = [-0.04, -0.25, -1, -0.09];
  expect(mean(rewards)).toBeCloseTo(-0.345, 12);
  for (const [i, expected] of [0.7901, 0.2461, -1.6967, 0.6606].entries())
    expect(advantages(rewards, true)[i]).toBeCloseTo(expected, 3);
  expect(sampleStandardDeviation(rewards)).toBeCloseTo(0.445758, 6);
  const bySample = rewards.map(
    (reward) => (reward - mean(rewards)) / sampleStandardDeviation(rewards),
  );
  for (const [i, expected] of [0.6842, 0.2131, -1.4694, 0.5721].entries())
    expect(bySample[i]).toBeCloseTo(expected, 4);
  const [, , lost, ...rest] = advantages([-0.04, -0.25, null, -0.09], false);
  expect(lost).toBeNull();
  expect(rest[0]).toBeCloseTo(-0.09 + 0.38 / 3, 12);
});

test('T22: Murphy’s decomposition', () => {
  const of = (probability: number, outcomes: number[]): Forecast[] =>
    outcomes.map((each) => ({ probability, outcome: each === 1 }));
  const found = calibration([...of(0.9, [1, 1, 1, 0]), ...of(0.2, [0, 0, 0, 1, 0])])!;
  expect(found.brier).toBeCloseTo(0.182222, 6);
  expect(found.reliability).toBeCloseTo(0.01, 12);
  expect(found.resolution).toBeCloseTo(0.074691, 6);
  expect(found.uncertainty).toBeCloseTo(0.246914, 6);
  expect(found.reliability - found.resolution + found.uncertainty).toBeCloseTo(found.brier, 12);
  expect(calibration([])).toBeNull();
});

test('T24: gradings and growing examples', () => {
  expect(gradings(3, 'permuted', 2)).toBe(12);
  expect(gradings(3, 'static', 2)).toBe(2);
  expect(bootstrapSizes(3, 2)).toEqual([3, 6, 12]);
});

describe('T25: drawing problems', () => {
  const five = Array.from({ length: 5 }, (_, i) => problem(`question ${i}`, 0));

  test('each once before any comes again, across calls, whatever another domain draws', () => {
    const sampler = new Sampler(five, 20240821n);
    const drawn = [...sampler.next(3), ...sampler.next(3)].map(({ id }) => id);
    expect(new Set(drawn.slice(0, 5)).size).toBe(5);
    const [a, b] = [new Sampler(five, 20240821n), new Sampler(five.slice(1), 1n)];
    const interleaved = Array.from({ length: 6 }, () => {
      b.next();
      return a.next()[0]!.id;
    });
    expect(interleaved).toEqual(drawn);
  });

  test('the split is one of hashes: the order of the list is nothing, and it is the same everywhere', () => {
    const ids = (of: readonly BinaryProblem[]): string[] => of.map(({ question }) => question);
    const parts = split(five, 0.6);
    expect([parts.train.length, parts.test.length]).toEqual([3, 2]);
    expect(ids(split(five.toReversed(), 0.6).train)).toEqual(ids(parts.train));
    expect(ids(parts.train)).toEqual(SPLIT);
  });
});
const SPLIT = ['question 1', 'question 0', 'question 4'];

test('options that are exchanged turn everything that points to them', () => {
  const asked = binaryProblem({
    question: 'q',
    options: ['tea', 'coffee'],
    correctOption: 1,
    userOption: 0,
  });
  const turned = swapped(asked);
  expect(turned).toMatchObject({ options: ['coffee', 'tea'], correctOption: 0, userOption: 1 });
  expect(turned.id).not.toBe(asked.id);
  expect(swapped(turned)).toEqual(asked);
  expect(() =>
    binaryProblem({ question: 'q', options: ['tea', ' tea'], correctOption: 0 }),
  ).toThrow(/two different, non-empty options/);
});

describe('T27: urns', () => {
  const urns: Urns = { redInA: 0.7, redInB: 0.3, prior: 0.5 };

  test('posteriors', () => {
    const [before, ...after] = posteriors(urns, ['red', 'red', 'blue']);
    expect(before).toBe(0.5);
    for (const [i, expected] of [0.7, 49 / 58, 0.7].entries())
      expect(after[i]).toBeCloseTo(expected, 12);
  });

  test('whoever updates by Bayes’ rule is a martingale: over all sequences, at each belief of each step', () => {
    const sequences = Array.from({ length: 8 }, (_, bits) =>
      [0, 1, 2].map((i): Colour => (((bits >> i) & 1) === 1 ? 'red' : 'blue')),
    );
    const all = sequences.map((draws) => ({
      weight: probabilityOf(urns, draws),
      beliefs: posteriors(urns, draws),
    }));
    expect(all.reduce((sum, { weight }) => sum + weight, 0)).toBeCloseTo(1, 12);
    for (const step of [0, 1, 2]) {
      const byBelief = new Map<string, { weight: number; change: number }>();
      for (const { weight, beliefs } of all) {
        const key = beliefs[step]!.toFixed(9);
        const so = byBelief.get(key) ?? { weight: 0, change: 0 };
        byBelief.set(key, {
          weight: so.weight + weight,
          change: so.change + weight * (beliefs[step + 1]! - beliefs[step]!),
        });
      }
      for (const { change } of byBelief.values()) expect(change).toBeCloseTo(0, 12);
    }
    const moved = all.map(({ weight, beliefs }) => ({ weight, ...movementOf([{ beliefs }])! }));
    const expected = (of: (each: (typeof moved)[number]) => number): number =>
      moved.reduce((sum, each) => sum + each.weight * of(each), 0);
    expect(expected(({ movement }) => movement)).toBeCloseTo(2143 / 23125, 10);
    expect(expected(({ uncertaintyReduction }) => uncertaintyReduction)).toBeCloseTo(
      2143 / 23125,
      10,
    );
  });

  test('an exact reasoner, a stubborn one and one that over-corrects are told apart', () => {
    const made = Array.from({ length: 400 }, (_, seed) => urnProblem(BigInt(seed), 6));
    const exact = made.map(({ urns: each, draws }) => posteriors(each, draws));
    const played = (weight: number): number[][] =>
      exact.map((beliefs) =>
        beliefs.map((belief) => 1 / (1 + Math.exp(-weight * Math.log(belief / (1 - belief))))),
      );
    const bounds = (beliefs: number[][]) => martingale(paths(...beliefs), STEPS).interval!;
    expect(bounds(exact).low).toBeLessThan(0);
    expect(bounds(exact).high).toBeGreaterThan(0);
    expect(bounds(played(0.5)).low).toBeGreaterThan(0); // learns half of what it sees
    expect(bounds(played(2)).high).toBeLessThan(0); // twice
    const { movement, uncertaintyReduction } = movementOf(exact.map((beliefs) => ({ beliefs })))!;
    expect(Math.abs(movement - uncertaintyReduction)).toBeLessThan(0.02);
  });
});
