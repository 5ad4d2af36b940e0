/**
 * Tests the martingale's slope and its noise correction on reasoners with a known slope: an exact
 * Bayesian, a stubborn one and an over-correcting one, read many times through probes with and
 * without noise.
 */
import { Random } from '../../random.js';
import { mean } from '../../statistics/index.js';
import { overWordings, type BeliefPath } from '../beliefs/belief.js';
import { beliefPath, readBeliefs } from '../beliefs/readout.js';
import {
  changesOf,
  martingale,
  movementOf,
  type MartingaleConfig,
  type MartingaleScore,
} from '../strategies/martingale.js';
import { drawsAsSteps, urnQuestion, urnReasoner } from './urn-reasoners.js';
import { probabilityOf, type Colour, type Urns } from './urns.js';

/** Standard deviations of what a measurement adds to a belief. */
export interface ProbeNoise {
  /** One number per wording, the same everywhere. */
  readonly offset: number;
  /** One number per wording and trajectory, the same at all places. */
  readonly lasting: number;
  /** One number per wording and place. */
  readonly fresh: number;
}

export const NO_NOISE: ProbeNoise = { offset: 0, lasting: 0, fresh: 0 };

export interface OracleStudy {
  readonly urns: Urns;
  /** 1 Bayes; below, stubborn; above, over-correcting. */
  readonly weight: number;
  readonly draws: number;
  readonly trajectories: number;
  readonly wordings: number;
  readonly noise: ProbeNoise;
  /** Number of repetitions. */
  readonly samples: number;
  readonly seed: bigint;
}

/** Performance of an estimate over the samples. */
export interface Estimator {
  readonly mean: number;
  /** Standard error of that mean. */
  readonly error: number;
  /** Part of the bounded 95 % intervals that contain the true slope. */
  readonly coverage: number | null;
  /** Part of the samples whose interval excludes 0. */
  readonly detected: number;
  /** Samples without a bounded interval. */
  readonly unbounded: number;
}

export interface OracleFinding {
  /**
   * Over all sequences of draws, each weighted by its probability: what an infinite sample without
   * noise would show.
   */
  readonly slope: number;
  readonly movement: number;
  readonly uncertaintyReduction: number;
  /** The slope as it is measured. */
  readonly plain: Estimator;
  /** By different measurements alone; null where there is one. */
  readonly corrected: Estimator | null;
  /** Mean of the corrected movement less the corrected reduction of uncertainty. */
  readonly excess: { readonly mean: number; readonly error: number } | null;
}

const STEPS: MartingaleConfig = { change: 'difference', granularity: 'steps' };

interface Sequence {
  readonly beliefs: readonly number[];
  readonly probability: number;
}

/** The beliefs of a reasoner after every sequence of draws, read from its log-probabilities. */
export async function sequencesOf(urns: Urns, weight: number, draws: number): Promise<Sequence[]> {
  const reasoner = urnReasoner(urns, weight);
  const problem = urnQuestion(urns);
  const all = Array.from({ length: 2 ** draws }, (_, bits) =>
    Array.from({ length: draws }, (__, i): Colour => (((bits >> i) & 1) === 1 ? 'red' : 'blue')),
  );
  return Promise.all(
    all.map(async (colours) => {
      const path = beliefPath(
        await readBeliefs(reasoner, problem, drawsAsSteps(problem, reasoner, colours)),
      );
      if (typeof path === 'string') throw new Error(`a scripted reasoner has no belief: ${path}`);
      return { beliefs: path.beliefs, probability: probabilityOf(urns, colours) };
    }),
  );
}

/** Slope, movement and reduced uncertainty of the whole population. */
function populationOf(
  sequences: readonly Sequence[],
): Pick<OracleFinding, 'slope' | 'movement' | 'uncertaintyReduction'> {
  const weighted = sequences.flatMap(({ beliefs, probability }) =>
    changesOf({ trajectoryId: '', problemId: '', beliefs }, STEPS).map(({ prior, change }) => ({
      prior,
      change,
      weight: probability,
    })),
  );
  const total = weighted.reduce((sum, { weight }) => sum + weight, 0);
  const over = (of: (each: (typeof weighted)[number]) => number): number =>
    weighted.reduce((sum, each) => sum + each.weight * of(each), 0) / total;
  const [prior, change] = [over((each) => each.prior), over((each) => each.change)];
  const expected = (
    of: (moved: { movement: number; uncertaintyReduction: number }) => number,
  ): number =>
    sequences.reduce(
      (sum, { beliefs, probability }) => sum + probability * of(movementOf([{ beliefs }])!),
      0,
    );
  return {
    slope:
      over((each) => (each.prior - prior) * (each.change - change)) /
      over((each) => (each.prior - prior) ** 2),
    movement: expected(({ movement }) => movement),
    uncertaintyReduction: expected(({ uncertaintyReduction }) => uncertaintyReduction),
  };
}

const gauss = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random.nextDouble())) * Math.cos(2 * Math.PI * random.nextDouble());

/** One sample: trajectories drawn as they are probable, their beliefs measured by wordings. */
export function sampledPaths(
  sequences: readonly Sequence[],
  { trajectories, wordings, noise }: Pick<OracleStudy, 'trajectories' | 'wordings' | 'noise'>,
  random: Random,
): BeliefPath[] {
  const each = <T>(count: number, of: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => of(i));
  const offsets = each(wordings, () => noise.offset * gauss(random));
  return each(trajectories, (i) => {
    let at = random.nextDouble();
    const drawn = sequences.find(({ probability }) => (at -= probability) < 0) ?? sequences.at(-1)!;
    const lasting = each(wordings, () => noise.lasting * gauss(random));
    const measured = drawn.beliefs.map((belief) =>
      each(wordings, (k) => belief + offsets[k]! + lasting[k]! + noise.fresh * gauss(random)),
    );
    return {
      trajectoryId: String(i),
      problemId: String(i),
      beliefs: measured.map((values) => overWordings(values).p0),
      ...(wordings > 1 ? { measured } : {}),
    };
  });
}

type Found = {
  readonly slope: number;
  readonly interval: { readonly low: number; readonly high: number } | null;
};

function estimator(found: readonly (Found | null)[], slope: number): Estimator {
  const made = found.filter((each) => each !== null);
  const bounded = made.flatMap(({ interval }) => (interval === null ? [] : [interval]));
  const centre = mean(made.map((each) => each.slope));
  const squares = made.reduce((sum, each) => sum + (each.slope - centre) ** 2, 0);
  return {
    mean: centre,
    error: Math.sqrt(squares / (made.length - 1) / made.length),
    coverage:
      bounded.length === 0
        ? null
        : bounded.filter(({ low, high }) => low <= slope && slope <= high).length / bounded.length,
    detected: bounded.filter(({ low, high }) => low > 0 || high < 0).length / found.length,
    unbounded: found.length - bounded.length,
  };
}

const plainOf = ({ value, interval }: MartingaleScore): Found | null =>
  value === null ? null : { slope: value, interval };

/** Draws, reads and scores as often as asked. */
export async function urnOracle(study: OracleStudy): Promise<OracleFinding> {
  const sequences = await sequencesOf(study.urns, study.weight, study.draws);
  const random = new Random(study.seed);
  const scores = Array.from({ length: study.samples }, () =>
    martingale(sampledPaths(sequences, study, random), STEPS),
  );
  const population = populationOf(sequences);
  const corrected =
    study.wordings < 2 ? null : scores.map(({ details }) => details.withoutNoise?.slope ?? null);
  const excesses = scores.flatMap(({ details: { withoutNoise, moved } }) => {
    const own = withoutNoise ?? moved;
    return own === null ? [] : [own.movement - own.uncertaintyReduction];
  });
  const centre = mean(excesses);
  const squares = excesses.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  return {
    ...population,
    plain: estimator(scores.map(plainOf), population.slope),
    corrected: corrected && estimator(corrected, population.slope),
    excess:
      excesses.length < 2
        ? null
        : { mean: centre, error: Math.sqrt(squares / (excesses.length - 1) / excesses.length) },
  };
}

/** Reasoners by what they make of the evidence, as the weight of the log-odds that it adds. */
export const REASONERS = { bayesian: 1, stubborn: 0.3, 'over-correcting': 3 } as const;
export type ReasonerName = keyof typeof REASONERS;
export const REASONER_NAMES = Object.keys(REASONERS) as ReasonerName[];

/** No noise, each kind alone, and all of them. */
const noises = (sd: number): Readonly<Record<string, ProbeNoise>> => ({
  none: NO_NOISE,
  offset: { ...NO_NOISE, offset: sd },
  lasting: { ...NO_NOISE, lasting: sd },
  fresh: { ...NO_NOISE, fresh: sd },
  all: { offset: sd, lasting: sd, fresh: sd },
});

export interface OracleSettings extends Omit<OracleStudy, 'weight' | 'trajectories' | 'noise'> {
  readonly reasoners: readonly ReasonerName[];
  readonly trajectories: readonly number[];
  /** Standard deviation of each kind. */
  readonly noise: number;
}

export interface OracleResult extends OracleFinding {
  readonly reasoner: ReasonerName;
  readonly noise: string;
  readonly trajectories: number;
}

/** Every reasoner, read through every kind of noise. @yields each finding as it is there */
export async function* urnOracleStudies(
  settings: OracleSettings,
): AsyncGenerator<OracleResult, void> {
  const { reasoners, trajectories: counts, noise: sd, ...study } = settings;
  for (const reasoner of reasoners)
    for (const trajectories of counts)
      for (const [kind, noise] of Object.entries(noises(sd)))
        yield {
          reasoner,
          noise: kind,
          trajectories,
          ...(await urnOracle({ ...study, weight: REASONERS[reasoner], trajectories, noise })),
        };
}

/** Number of findings of `urnOracleStudies`. */
export const oracleStudyCount = ({ reasoners, trajectories, noise }: OracleSettings): number =>
  reasoners.length * trajectories.length * Object.keys(noises(noise)).length;
