/**
 * Tests whether a belief predicts its own change. For a rational reasoner it does not: the expected
 * change is 0 whatever the belief (the martingale property; He et al. 2025, arXiv 2512.02914). The
 * score is the slope of the change on the belief before it: above 0 is entrenchment, below 0
 * over-correction. It does not depend on the truth, and 0 alone is not a merit: a belief that never
 * changes has it too. The companion figures, which are ours, cover that.
 */
import {
  clusteredMean,
  clusteredSlope,
  linearRegression,
  type Regression,
  type Tested,
} from '../../statistics/regression.js';
import { mean, studentQuantile } from '../../statistics/index.js';
import {
  crossProduct,
  replicatedSlope,
  type ReplicatedSlope,
} from '../../statistics/replicated-slope.js';
import { groupOf, type BeliefPath } from '../beliefs/belief.js';
import { SkipCount, type Score } from '../score.js';

/** Change of a belief: its difference, that of its log-odds, or its sign. */
export const BELIEF_CHANGES = ['difference', 'log-odds', 'sign'] as const;
export type BeliefChange = (typeof BELIEF_CHANGES)[number];
/**
 * `steps`: each two beliefs that follow each other, of all trajectories together. `ends`: the first
 * and the last of each.
 */
export const GRANULARITIES = ['steps', 'ends'] as const;
export type Granularity = (typeof GRANULARITIES)[number];

export interface MartingaleConfig {
  readonly change: BeliefChange;
  readonly granularity: Granularity;
}

/** Beliefs this near to 0 and 1 count as no nearer in log-odds. */
const LEAST = 1e-6;

const logOdds = (belief: number): number => {
  const bounded = Math.min(1 - LEAST, Math.max(LEAST, belief));
  return Math.log(bounded / (1 - bounded));
};

export interface Change {
  readonly trajectoryId: string;
  readonly group: string;
  readonly prior: number;
  readonly change: number;
}

/** @param path at least two beliefs give a change */
export function changesOf(of: BeliefPath, { change, granularity }: MartingaleConfig): Change[] {
  const [{ trajectoryId, beliefs }, group] = [of, groupOf(of)];
  const path =
    granularity === 'ends' && beliefs.length > 2 ? [beliefs[0]!, beliefs.at(-1)!] : beliefs;
  return path.slice(1).map((posterior, i) => {
    const prior = path[i]!;
    const far = change === 'log-odds' ? logOdds(posterior) - logOdds(prior) : posterior - prior;
    return { trajectoryId, group, prior, change: change === 'sign' ? Math.sign(far) : far };
  });
}

/** Change and what a change is about, of one trajectory or of all. */
export interface Movement {
  /** Mean over trajectories of the sum of squared differences. */
  readonly movement: number;
  /**
   * Mean over trajectories of b(1 - b) before less after. The two are equal for a Bayesian, in
   * expectation (Augenblick and Rabin 2021).
   */
  readonly uncertaintyReduction: number;
  /** Mean absolute difference of one step. */
  readonly meanChange: number;
}

export interface MartingaleDetails {
  readonly changes: number;
  readonly trajectories: number;
  /** Null if the belief before never varies, so that there is no slope. */
  readonly regression: Regression | null;
  /** Slope with clustered errors by group of problems; null for one group. */
  readonly clustered: Tested | null;
  /**
   * Test of the mean change against 0: a slope of 0 with a steady drift is not a martingale either.
   */
  readonly drift: Tested | null;
  /** By tenths of the belief before: mean change and changes. */
  readonly bins: readonly {
    readonly low: number;
    readonly prior: number;
    readonly change: number;
    readonly n: number;
  }[];
  readonly moved: Movement | null;
  /**
   * Figures without measurement noise; null for changes other than differences, or if a belief was
   * measured once.
   */
  readonly withoutNoise: WithoutNoise | null;
}

export interface WithoutNoise extends Pick<Movement, 'movement' | 'uncertaintyReduction'> {
  /** Minimum number of measurements of a belief: some stated ones may be unreadable. */
  readonly measurements: number;
  /**
   * Trajectories whose beliefs were measured once, which are ignored here; absent if there are
   * none.
   */
  readonly leftOut?: number;
  /** Null if the beliefs before vary only by their noise. */
  readonly slope: ReplicatedSlope | null;
  /**
   * Variance of the fresh noise at each place in the mean over measurements: the residual after the
   * effects of place and measurement. The rest of `slope.noise` lasts over a trajectory.
   */
  readonly newNoise: number | null;
}

export interface MartingaleScore extends Score {
  readonly details: MartingaleDetails;
}

/**
 * Largest difference of readings of one belief between numbers of threads; closer beliefs count as
 * equal.
 */
const READING = 1e-6;
const varies = (beliefs: readonly number[]): boolean =>
  beliefs.some((belief) => Math.abs(belief - beliefs[0]!) > READING);

/** The slope as a score. */
export function martingale(
  paths: readonly BeliefPath[],
  config: MartingaleConfig,
): MartingaleScore {
  const skipped = new SkipCount();
  const usable = paths.filter(({ beliefs }) => {
    if (beliefs.length < 2) skipped.add('fewer than two beliefs');
    return beliefs.length >= 2;
  });
  const changes = usable.flatMap((path) => changesOf(path, config));
  const [priors, moves] = [changes.map(({ prior }) => prior), changes.map(({ change }) => change)];
  const clusters = changes.map(({ group }) => group);
  const regression = varies(priors) ? linearRegression(priors, moves) : null;
  if (regression === null && changes.length > 0)
    skipped.add('the belief before does not vary', usable.length);
  const clustered =
    regression === null ? null : clusteredSlope(priors, moves, clusters, regression);
  const error = clustered ?? regression?.tested?.slope ?? null;
  const half = error === null ? null : studentQuantile(0.025, error.freedom) * error.error;
  return {
    direction: 'zero',
    value: regression?.slope ?? null,
    interval:
      regression === null || half === null
        ? null
        : { low: regression.slope - half, high: regression.slope + half },
    n: regression === null ? 0 : usable.length,
    skipped: skipped.counts,
    perTrajectory: regression === null ? new Map() : credits(changes, regression),
    details: {
      changes: changes.length,
      trajectories: usable.length,
      regression,
      clustered,
      drift: changes.length === 0 ? null : clusteredMean(moves, clusters),
      bins: binned(changes),
      moved: movementOf(usable),
      withoutNoise: config.change === 'difference' ? correctedFor(usable, config) : null,
    },
  };
}

type MeasuredPath = BeliefPath & Required<Pick<BeliefPath, 'measured'>>;
const isMeasuredTwice = (path: BeliefPath): path is MeasuredPath =>
  (path.measured?.[0]?.length ?? 0) >= 2;

/**
 * `[changes, measurements]` of beliefs before and of changes, so that a change is one of one
 * wording.
 */
interface MeasuredChanges {
  readonly priors: readonly (readonly number[])[];
  readonly moves: readonly (readonly number[])[];
  readonly clusters: readonly string[];
}

function measuredChanges(
  paths: readonly MeasuredPath[],
  config: MartingaleConfig,
): MeasuredChanges {
  const rows = paths.flatMap((path) => {
    const own = path.measured[0]!.map((_, k) =>
      changesOf({ ...path, beliefs: path.measured.map((values) => values[k]!) }, config),
    );
    return own[0]!.map((_, at) => own.map((changes) => changes[at]!));
  });
  const values = (of: (change: Change) => number): number[][] => rows.map((row) => row.map(of));
  return {
    priors: values(({ prior }) => prior),
    moves: values(({ change }) => change),
    clusters: rows.map(([first]) => first!.group),
  };
}

/**
 * Slope of differences on the belief before, without measurement noise, over paths whose beliefs
 * were measured several times.
 * @returns null where there are none, or their beliefs before vary by noise alone
 */
export function slopeWithoutNoise(
  paths: readonly BeliefPath[],
  granularity: Granularity,
): ReplicatedSlope | null {
  const usable = paths.filter(isMeasuredTwice).filter(({ beliefs }) => beliefs.length >= 2);
  const { priors, moves, clusters } = measuredChanges(usable, {
    change: 'difference',
    granularity,
  });
  return replicatedSlope(priors, moves, clusters);
}

/** Products of different measurements alone, so that independent noise meets none of its own. */
function correctedFor(
  all: readonly BeliefPath[],
  { granularity }: MartingaleConfig,
): WithoutNoise | null {
  const paths = all.filter(isMeasuredTwice);
  if (paths.length === 0) return null;
  // b (1 - b), its square by different measurements
  const uncertainty = (values: readonly number[]): number =>
    mean(values) - crossProduct(values, values);
  const squareOf = (from: readonly number[], to: readonly number[]): number => {
    const change = to.map((value, k) => value - from[k]!);
    return crossProduct(change, change);
  };
  return {
    measurements: Math.min(...paths.map(({ measured }) => measured[0]!.length)),
    ...(paths.length === all.length ? {} : { leftOut: all.length - paths.length }),
    slope: slopeWithoutNoise(paths, granularity),
    newNoise: newNoiseOf(paths),
    movement: mean(
      paths.map(({ measured }) =>
        measured.slice(1).reduce((sum, to, i) => sum + squareOf(measured[i]!, to), 0),
      ),
    ),
    uncertaintyReduction: mean(
      paths.map(({ measured }) => uncertainty(measured[0]!) - uncertainty(measured.at(-1)!)),
    ),
  };
}

/**
 * Residual of place and measurement within each trajectory, over as many as a belief is the mean
 * of.
 */
function newNoiseOf(paths: readonly MeasuredPath[]): number | null {
  let [squares, freedom] = [0, 0];
  for (const { measured: table } of paths) {
    const [places, count] = [table.length, table[0]!.length];
    const rows = table.map(mean);
    const columns = table[0]!.map((_, k) => mean(table.map((row) => row[k]!)));
    const whole = mean(rows);
    for (const [i, row] of table.entries())
      for (const [k, value] of row.entries())
        squares += (value - rows[i]! - columns[k]! + whole) ** 2;
    freedom += (places - 1) * (count - 1) * count;
  }
  return freedom === 0 ? null : squares / freedom;
}

/** A trajectory's part of the slope: they add up to it exactly. */
function credits(changes: readonly Change[], { sxx }: Regression): Map<string, number> {
  const [prior, change] = [
    mean(changes.map((each) => each.prior)),
    mean(changes.map((each) => each.change)),
  ];
  const parts = new Map<string, number>();
  for (const each of changes)
    parts.set(
      each.trajectoryId,
      (parts.get(each.trajectoryId) ?? 0) + ((each.change - change) * (each.prior - prior)) / sxx,
    );
  return parts;
}

/**
 * Smallest part of the variance of beliefs before that must be more than noise for a slope to be
 * used as a reward.
 */
const LEAST_RELIABLE = 0.1;

export type CrossFitted = Map<string, { readonly credit: number; readonly slope: number }>;

/**
 * Contribution of a trajectory to the slope, around the means and the spread of the others, and the
 * slope of the others: as a reward it cannot be changed by moving the group's mean. For differences
 * with repeated measurements both exclude measurement noise, which would otherwise reward
 * entrenchment, because a Bayesian's slope with noise is below 0. A trajectory is missing if the
 * others have no slope; without noise, also if nine tenths of the variance of their beliefs before
 * is noise. With few trajectories both are right on average but far off individually, as far as the
 * error of the slope.
 */
export function crossFitted(paths: readonly BeliefPath[], config: MartingaleConfig): CrossFitted {
  const usable = paths.filter(({ beliefs }) => beliefs.length >= 2);
  if (config.change === 'difference' && usable.length > 0 && usable.every(isMeasuredTwice))
    return crossFittedWithoutNoise(usable, config);
  const found: CrossFitted = new Map();
  const byPath = paths.map((path) => ({ path, changes: changesOf(path, config) }));
  for (const { path, changes } of byPath) {
    const others = byPath.filter((other) => other.path !== path).flatMap((other) => other.changes);
    if (others.length === 0 || changes.length === 0) continue;
    const [priors, moves] = [others.map(({ prior }) => prior), others.map(({ change }) => change)];
    const line = varies(priors) ? linearRegression(priors, moves) : null;
    if (line === null) continue;
    const [prior, change] = [mean(priors), mean(moves)];
    const credit = changes.reduce(
      (sum, each) => sum + ((each.change - change) * (each.prior - prior)) / line.sxx,
      0,
    );
    found.set(path.trajectoryId, { credit, slope: line.slope });
  }
  return found;
}

function crossFittedWithoutNoise(
  paths: readonly MeasuredPath[],
  config: MartingaleConfig,
): CrossFitted {
  const count = Math.min(...paths.map(({ measured }) => measured[0]!.length));
  const byPath = paths.map((path) => {
    const measured = path.measured.map((values) => values.slice(0, count));
    return { id: path.trajectoryId, changes: measuredChanges([{ ...path, measured }], config) };
  });
  const found: CrossFitted = new Map();
  for (const { id, changes } of byPath) {
    const others = byPath.filter((other) => other.id !== id).map((other) => other.changes);
    const [priors, moves] = [
      others.flatMap((each) => each.priors),
      others.flatMap((each) => each.moves),
    ];
    const line = replicatedSlope(
      priors,
      moves,
      others.flatMap((each) => each.clusters),
    );
    if (line === null || line.variance < LEAST_RELIABLE * (line.variance + line.noise)) continue;
    const centres = (rows: typeof priors): number[] =>
      Array.from({ length: count }, (_, k) => mean(rows.map((row) => row[k]!)));
    const [prior, move] = [centres(priors), centres(moves)];
    const less = (row: readonly number[], centre: readonly number[]): number[] =>
      row.map((value, k) => value - centre[k]!);
    const products = changes.priors.map((own, i) =>
      crossProduct(less(own, prior), less(changes.moves[i]!, move)),
    );
    const credit = products.reduce((sum, each) => sum + each, 0) / (line.variance * priors.length);
    found.set(id, { credit, slope: line.slope });
  }
  return found;
}

function binned(changes: readonly Change[]): MartingaleDetails['bins'] {
  const bins = Array.from({ length: 10 }, (_, tenth) =>
    changes.filter(({ prior }) => Math.min(9, Math.floor(prior * 10)) === tenth),
  );
  return bins.flatMap((within, tenth) =>
    within.length === 0
      ? []
      : [
          {
            low: tenth / 10,
            prior: mean(within.map(({ prior }) => prior)),
            change: mean(within.map(({ change }) => change)),
            n: within.length,
          },
        ],
  );
}

/** @returns null for no path of two beliefs */
export function movementOf(paths: readonly Pick<BeliefPath, 'beliefs'>[]): Movement | null {
  const usable = paths.filter(({ beliefs }) => beliefs.length >= 2);
  if (usable.length === 0) return null;
  const steps = usable.map(({ beliefs }) =>
    beliefs.slice(1).map((belief, i) => belief - beliefs[i]!),
  );
  const uncertainty = (belief: number): number => belief * (1 - belief);
  return {
    movement: mean(
      steps.map((differences) => differences.reduce((sum, each) => sum + each ** 2, 0)),
    ),
    uncertaintyReduction: mean(
      usable.map(({ beliefs }) => uncertainty(beliefs[0]!) - uncertainty(beliefs.at(-1)!)),
    ),
    meanChange: mean(steps.flat().map(Math.abs)),
  };
}

/**
 * The slope that a measurement with noise of a variance would have shown without it: noise in the
 * belief before lowers the slope, since it is in the change with the other sign.
 * @param priorVariance of the beliefs before, without the noise: what is observed less
 *   `noiseVariance`
 * @returns null where no variance is left
 */
export function withoutNoise(
  slope: number,
  priorVariance: number,
  noiseVariance: number,
): number | null {
  if (!(priorVariance > 0)) return null;
  return (slope * (priorVariance + noiseVariance) + noiseVariance) / priorVariance;
}

/** Slope that noise of a variance turns a true slope into. */
export const withNoise = (slope: number, priorVariance: number, noiseVariance: number): number =>
  (slope * priorVariance - noiseVariance) / (priorVariance + noiseVariance);
