/**
 * What the belief readout and the martingale say of reasoners whose beliefs are known. Every
 * sequence of draws comes as often as it is probable, so that expectations are means and no luck is
 * left.
 */
import { describe, expect, test } from '@jest/globals';
import { runCli } from '../cli/run-cli.js';
import { Random } from '../../src/random.js';
import { beliefPath, readBeliefs } from '../../src/truth-seeking/beliefs/readout.js';
import type { BeliefPath } from '../../src/truth-seeking/beliefs/belief.js';
import {
  drawsAsSteps,
  urnQuestion,
  urnReasoner,
} from '../../src/truth-seeking/domains/urn-reasoners.js';
import {
  posteriors,
  probabilityOf,
  type Colour,
  type Urns,
} from '../../src/truth-seeking/domains/urns.js';
import {
  NO_NOISE,
  sampledPaths,
  sequencesOf,
  urnOracle,
  type OracleFinding,
  type OracleStudy,
} from '../../src/truth-seeking/domains/urn-oracle.js';
import {
  changesOf,
  crossFitted,
  martingale,
  movementOf,
  withNoise,
  withoutNoise,
} from '../../src/truth-seeking/strategies/martingale.js';

const URNS: Urns = { redInA: 0.7, redInB: 0.3, prior: 0.5 };
const STEPS = { change: 'difference', granularity: 'steps' } as const;
const PROBLEM = urnQuestion(URNS);
const SIGNS: Readonly<Record<string, number>> = { bayesian: 0, stubborn: 1, 'over-correcting': -1 };
const COLOURS: readonly Colour[] = ['red', 'blue'];
const SEQUENCES = COLOURS.flatMap((first) => COLOURS.map((second) => [first, second]));

/**
 * The beliefs of a reasoner, read from its log-probabilities: `count` trajectories, each sequence
 * of draws as often as it is probable.
 */
async function pathsOf(weight: number, count = 100): Promise<BeliefPath[]> {
  const policy = urnReasoner(URNS, weight);
  const read = SEQUENCES.map(async (draws) => {
    const readout = await readBeliefs(policy, PROBLEM, drawsAsSteps(PROBLEM, policy, draws));
    const path = beliefPath(readout) as BeliefPath;
    const times = Math.round(count * probabilityOf(URNS, draws));
    // each drew for itself: one question, but no group
    return Array.from({ length: times }, (_, i) => ({
      ...path,
      trajectoryId: `${path.trajectoryId} ${i}`,
      group: `${draws.join()} ${i}`,
    }));
  });
  return (await Promise.all(read)).flat();
}

test('what is read of a Bayesian is what Bayes says, and its error over wordings is 0', async () => {
  const policy = urnReasoner(URNS, 1);
  for (const draws of SEQUENCES) {
    const { readings } = await readBeliefs(policy, PROBLEM, drawsAsSteps(PROBLEM, policy, draws));
    const expected = posteriors(URNS, draws);
    expect(readings).toHaveLength(expected.length);
    for (const [i, { belief }] of readings.entries()) {
      expect(belief!.p0).toBeCloseTo(expected[i]!, 12);
      expect(belief!.error).toBeCloseTo(0, 12);
    }
  }
});

test('a Bayesian: slope 0, movement equal to the reduction of uncertainty', async () => {
  const paths = await pathsOf(1);
  expect(paths).toHaveLength(100);
  const { value, interval, details } = martingale(paths, STEPS);
  expect(value).toBeCloseTo(0, 10);
  expect(interval!.low).toBeLessThan(0);
  expect(interval!.high).toBeGreaterThan(0);
  expect(details.drift!.value).toBeCloseTo(0, 10);
  const { movement, uncertaintyReduction } = movementOf(paths)!;
  expect(movement).toBeGreaterThan(0.01);
  expect(movement).toBeCloseTo(uncertaintyReduction, 10);
});

test('a stubborn reasoner and one who over-corrects are told apart, by the sign of the slope and by movement', async () => {
  // A hundred trajectories of two draws are too few to tell the stubborn one from a Bayesian; a
  // thousand are enough.
  expect(martingale(await pathsOf(0.3), STEPS).interval!.low).toBeLessThan(0);
  const [stubborn, over] = [await pathsOf(0.3, 1000), await pathsOf(3, 1000)];
  expect(martingale(stubborn, STEPS).interval!.low).toBeGreaterThan(0);
  expect(martingale(over, STEPS).interval!.high).toBeLessThan(0);
  const excess = (paths: readonly BeliefPath[]): number =>
    movementOf(paths)!.movement - movementOf(paths)!.uncertaintyReduction;
  expect(excess(over)).toBeGreaterThan(0.05);
  // Less than Bayes would move with as much to learn: its own uncertainty stays.
  expect(movementOf(stubborn)!.movement).toBeLessThan(movementOf(await pathsOf(1))!.movement);
});

test('a judge with noise makes an over-correcting one of a Bayesian, as much as foretold; the correction takes it back', async () => {
  const NOISE = 0.1;
  const signs = [-1, 1].flatMap((a) => [-1, 1].flatMap((b) => [-1, 1].map((c) => [a, b, c])));
  const exact = await pathsOf(1);
  const judged = exact.flatMap((path) =>
    signs.map((sign, i) => ({
      ...path,
      trajectoryId: `${path.trajectoryId} ${i}`,
      group: `${path.group} ${i}`,
      beliefs: path.beliefs.map((belief, step) => belief + NOISE * sign[step]!),
    })),
  );
  const priors = exact.flatMap((path) => changesOf(path, STEPS)).map(({ prior }) => prior);
  const centre = priors.reduce((a, b) => a + b, 0) / priors.length;
  const variance = priors.reduce((sum, prior) => sum + (prior - centre) ** 2, 0) / priors.length;
  const { value, interval } = martingale(judged, STEPS);
  expect(value).toBeLessThan(-0.2);
  expect(interval!.high).toBeLessThan(0);
  expect(value).toBeCloseTo(withNoise(0, variance, NOISE ** 2), 10);
  expect(withoutNoise(value!, variance, NOISE ** 2)).toBeCloseTo(0, 10);
});

test('the command says of every reasoner and noise how its slope does, the same for the same seed', async () => {
  const oracle = async (...flags: string[]) => {
    const { code, stdout } = await runCli([
      'truth',
      'oracle',
      '--samples',
      '20',
      '--trajectories',
      '60',
      ...flags,
      '--json',
    ]);
    expect(code).toBe(0);
    return JSON.parse(stdout) as {
      studies: (OracleFinding & { reasoner: string; noise: string; trajectories: number })[];
    };
  };
  const { studies } = await oracle();
  expect(studies.map(({ reasoner, noise }) => `${reasoner} ${noise}`)).toEqual(
    ['bayesian', 'stubborn', 'over-correcting'].flatMap((who) =>
      ['none', 'offset', 'lasting', 'fresh', 'all'].map((kind) => `${who} ${kind}`),
    ),
  );
  for (const { reasoner, slope } of studies)
    expect(Math.abs(slope) < 1e-12 ? 0 : Math.sign(slope)).toBe(SIGNS[reasoner]);
  expect((await oracle('--reasoner', 'stubborn')).studies[4]).toEqual(studies[9]);
  const { studies: once } = await oracle('--reasoner', 'bayesian', '--wordings', '1');
  expect(once.map(({ corrected }) => corrected)).toEqual(Array.from({ length: 5 }, () => null));
  expect((await runCli(['truth', 'oracle', '--draws', '13'])).code).toBe(2);
});

describe('through three wordings of a probe', () => {
  const NOISES = {
    'an offset per wording': { ...NO_NOISE, offset: 0.1 },
    'what a wording adds to a question at all its places': { ...NO_NOISE, lasting: 0.1 },
    'what is new at each place': { ...NO_NOISE, fresh: 0.1 },
    'all three': { offset: 0.1, lasting: 0.1, fresh: 0.1 },
  };
  const study = (
    weight: number,
    noise: OracleStudy['noise'],
    trajectories: number,
  ): OracleStudy => ({
    ...{ urns: URNS, weight, draws: 3, trajectories, wordings: 3, noise },
    ...{ samples: 200, seed: 1n },
  });

  test.each(Object.entries(NOISES))(
    'the corrected slope of a Bayesian is 0 and its interval covers: %s',
    async (_, noise) => {
      const { slope, plain, corrected, excess } = await urnOracle(study(1, noise, 100));
      expect(slope).toBeCloseTo(0, 12);
      // least squares itself is off by the inverse of the number of trajectories, with or without
      // noise
      expect(Math.abs(corrected!.mean)).toBeLessThan(0.5 / 100 + 3 * corrected!.error);
      // 200 samples: 95 % within three standard errors of a share
      expect(Math.abs(corrected!.coverage! - 0.95)).toBeLessThan(
        3 * Math.sqrt((0.95 * 0.05) / 200),
      );
      expect(Math.abs(excess!.mean)).toBeLessThan(3 * excess!.error);
      if (noise.fresh > 0) expect(plain.coverage).toBeLessThan(0.8);
    },
  );

  test('a measurement that failed costs its own trajectory alone', async () => {
    const noise = NOISES['what is new at each place'];
    const sequences = await sequencesOf(URNS, 1, 3);
    const paths = sampledPaths(
      sequences,
      { trajectories: 200, wordings: 3, noise },
      new Random(4n),
    );
    const found = (of: readonly BeliefPath[]) => martingale(of, STEPS).details.withoutNoise!;
    const less = (count: number, i: number): BeliefPath[] =>
      paths.map((path, k) =>
        k === i
          ? { ...path, measured: path.measured!.map((values) => values.slice(0, count)) }
          : path,
      );
    const whole = found(paths);
    expect([whole.measurements, whole.leftOut]).toEqual([3, undefined]);
    const twice = found(less(2, 7));
    expect([twice.measurements, twice.leftOut]).toEqual([2, undefined]);
    expect(Math.abs(twice.slope!.slope - whole.slope!.slope)).toBeLessThan(0.01); // one of 200
    // measured once it says nothing, and the others what they say without it
    expect(found(less(1, 7))).toEqual({ ...found(paths.filter((_, k) => k !== 7)), leftOut: 1 });
    // in twos throughout: what a run of two measurements gives
    const two = paths.map((path) => ({
      ...path,
      measured: path.measured!.map((values) => values.slice(0, 2)),
    }));
    expect(found(two).measurements).toBe(2);
    expect(martingale(less(1, 7).slice(7, 8), STEPS).details.withoutNoise).toBeNull();
  });

  test('a Bayesian who is read with noise earns nothing on average by either way; with the noise, entrenchment would pay', async () => {
    const random = new Random(5n);
    const sequences = await sequencesOf(URNS, 1, 3);
    const sums = (of: (paths: BeliefPath[]) => BeliefPath[]): { mean: number; error: number } => {
      const each = Array.from({ length: 400 }, () => {
        const paths = of(
          sampledPaths(
            sequences,
            { trajectories: 24, wordings: 3, noise: NOISES['what is new at each place'] },
            random,
          ),
        );
        return [...crossFitted(paths, STEPS).values()].reduce((sum, { credit }) => sum + credit, 0);
      });
      const centre = each.reduce((sum, value) => sum + value, 0) / each.length;
      return {
        mean: centre,
        error: Math.sqrt(
          each.reduce((sum, value) => sum + (value - centre) ** 2, 0) /
            each.length /
            (each.length - 1),
        ),
      };
    };
    const without = sums((paths) => paths);
    const withNoise = sums((paths) => paths.map(({ measured: _, ...path }) => path));
    // credits add up to about the slope, which noise makes -s²/(V + s²)
    expect(withNoise.mean).toBeLessThan(-5 * withNoise.error);
    // least squares itself is off by the inverse of the number of trajectories
    expect(Math.abs(without.mean)).toBeLessThan(0.5 / 24 + 3 * without.error);
  });

  test('the stubborn and the over-correcting one keep their slopes, which noise had turned or made steeper', async () => {
    const [stubborn, over] = [
      await urnOracle(study(0.3, NOISES['all three'], 200)),
      await urnOracle(study(3, NOISES['all three'], 200)),
    ];
    expect(stubborn.slope).toBeGreaterThan(0.1);
    expect(stubborn.plain.mean).toBeLessThan(-0.2);
    expect(over.slope).toBeLessThan(-0.1);
    for (const { slope, corrected } of [stubborn, over]) {
      expect(Math.abs(corrected!.mean - slope)).toBeLessThan(0.01 + 3 * corrected!.error);
      expect(Math.abs(corrected!.coverage! - 0.95)).toBeLessThan(
        3 * Math.sqrt((0.95 * 0.05) / 200),
      );
    }
    expect(over.corrected!.detected).toBeGreaterThan(0.8);
  });
});
