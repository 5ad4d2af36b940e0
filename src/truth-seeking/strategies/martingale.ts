/**
 * Whether what a policy believes tells in which direction it will change its mind. Of a rational reasoner it does not: the expected change
 * is 0 whatever the belief (the martingale property; He et al. 2025, arXiv 2512.02914). The score is the slope of the change on the belief
 * before it: above 0 entrenchment, below 0 over-correction. It knows nothing of the truth, and 0 alone is no merit: whoever never changes
 * his mind has it too. So it comes with companions, which are ours.
 */
import { clusteredMean, clusteredSlope, linearRegression, type Regression, type Tested } from '../../statistics/regression.js';
import { mean, studentQuantile } from '../../statistics/index.js';
import { crossProduct, replicatedSlope, type ReplicatedSlope } from '../../statistics/replicated-slope.js';
import { groupOf, type BeliefPath } from '../beliefs/belief.js';
import { SkipCount, type Score } from '../score.js';

/** How far a belief went: its difference, that of its log-odds, or its sign alone. */
export const BELIEF_CHANGES = ['difference', 'log-odds', 'sign'] as const;
export type BeliefChange = (typeof BELIEF_CHANGES)[number];
/** `steps`: each two beliefs that follow each other, of all trajectories together. `ends`: the first and the last of each. */
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
  const path = granularity === 'ends' && beliefs.length > 2 ? [beliefs[0]!, beliefs.at(-1)!] : beliefs;
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
  /** Mean over trajectories of b(1 - b) before less after. The two are equal for a Bayesian, in expectation (Augenblick and Rabin 2021). */
  readonly uncertaintyReduction: number;
  /** Mean absolute difference of one step. */
  readonly meanChange: number;
}

export interface MartingaleDetails {
  readonly changes: number;
  readonly trajectories: number;
  /** Null where the belief before never differs, so that there is no slope. */
  readonly regression: Regression | null;
  /** With errors of one group of problems depending on each other; null for one group. */
  readonly clustered: Tested | null;
  /** Mean change against 0: a slope of 0 with a steady drift is no martingale either. */
  readonly drift: Tested | null;
  /** By tenths of the belief before: mean change and changes. */
  readonly bins: readonly { readonly low: number; readonly prior: number; readonly change: number; readonly n: number }[];
  readonly moved: Movement | null;
  /** What is left without the noise of measurement; null of other changes than differences, or where a belief was measured once. */
  readonly withoutNoise: WithoutNoise | null;
}

export interface WithoutNoise extends Pick<Movement, 'movement' | 'uncertaintyReduction'> {
  /** Of each belief. */
  readonly measurements: number;
  /** Null where the beliefs before do not vary but for their noise. */
  readonly slope: ReplicatedSlope | null;
  /**
   * Variance of what is new at each place, in a mean over the measurements: what is left beside the trajectory's places and what a
   * measurement adds at all of them. The rest of `slope.noise` lasts over a trajectory.
   */
  readonly newNoise: number | null;
}

export interface MartingaleScore extends Score {
  readonly details: MartingaleDetails;
}

/** The slope as a score; `martingaleLoss` makes of it what can be trained on. */
export function martingale(paths: readonly BeliefPath[], config: MartingaleConfig): MartingaleScore {
  const skipped = new SkipCount();
  const usable = paths.filter(({ beliefs }) => {
    if (beliefs.length < 2) skipped.add('fewer than two beliefs');
    return beliefs.length >= 2;
  });
  const changes = usable.flatMap((path) => changesOf(path, config));
  const [priors, moves] = [changes.map(({ prior }) => prior), changes.map(({ change }) => change)];
  const clusters = changes.map(({ group }) => group);
  const regression = changes.length === 0 ? null : linearRegression(priors, moves);
  if (regression === null && changes.length > 0) skipped.add('the belief before does not vary', usable.length);
  const clustered = regression === null ? null : clusteredSlope(priors, moves, clusters, regression);
  const error = clustered ?? regression?.tested?.slope ?? null;
  const half = error === null ? null : studentQuantile(0.025, error.freedom) * error.error;
  return {
    direction: 'zero',
    value: regression?.slope ?? null,
    interval: regression === null || half === null ? null : { low: regression.slope - half, high: regression.slope + half },
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

/** Products of different measurements alone, so that independent noise meets none of its own. */
function correctedFor(paths: readonly BeliefPath[], config: MartingaleConfig): WithoutNoise | null {
  const count = paths[0]?.measured?.[0]?.length ?? 0;
  if (count < 2 || paths.some(({ measured }) => measured?.[0]?.length !== count)) return null;
  // by measurement, so that changes are those of one wording
  const byMeasurement = paths.map((path) =>
    Array.from({ length: count }, (_, k) => changesOf({ ...path, beliefs: path.measured!.map((values) => values[k]!) }, config)),
  );
  const rows = byMeasurement.flatMap((own) => own[0]!.map((_, at) => own.map((changes) => changes[at]!)));
  const values = (of: (change: Change) => number): number[][] => rows.map((row) => row.map(of));
  const clusters = rows.map(([first]) => first!.group);
  // b (1 - b), its square by different measurements
  const uncertainty = (values: readonly number[]): number => mean(values) - crossProduct(values, values);
  const squareOf = (from: readonly number[], to: readonly number[]): number => {
    const change = to.map((value, k) => value - from[k]!);
    return crossProduct(change, change);
  };
  return {
    measurements: count,
    slope: replicatedSlope(
      values(({ prior }) => prior),
      values(({ change }) => change),
      clusters,
    ),
    newNoise: newNoiseOf(paths),
    movement: mean(paths.map(({ measured }) => measured!.slice(1).reduce((sum, to, i) => sum + squareOf(measured![i]!, to), 0))),
    uncertaintyReduction: mean(paths.map(({ measured }) => uncertainty(measured![0]!) - uncertainty(measured!.at(-1)!))),
  };
}

/** Residual of place and measurement within each trajectory, over as many as a belief is the mean of. */
function newNoiseOf(paths: readonly BeliefPath[]): number | null {
  let [squares, freedom] = [0, 0];
  for (const { measured } of paths) {
    const table = measured!;
    const [places, count] = [table.length, table[0]!.length];
    const rows = table.map(mean);
    const columns = table[0]!.map((_, k) => mean(table.map((row) => row[k]!)));
    const whole = mean(rows);
    for (const [i, row] of table.entries())
      for (const [k, value] of row.entries()) squares += (value - rows[i]! - columns[k]! + whole) ** 2;
    freedom += (places - 1) * (count - 1) * count;
  }
  return freedom === 0 ? null : squares / freedom;
}

/** A trajectory's part of the slope: they add up to it exactly. */
function credits(changes: readonly Change[], { sxx }: Regression): Map<string, number> {
  const [prior, change] = [mean(changes.map((each) => each.prior)), mean(changes.map((each) => each.change))];
  const parts = new Map<string, number>();
  for (const each of changes)
    parts.set(each.trajectoryId, (parts.get(each.trajectoryId) ?? 0) + ((each.change - change) * (each.prior - prior)) / sxx);
  return parts;
}

/**
 * What a trajectory adds to the slope about means and spread of the others alone, and their slope: as a reward it cannot be lowered by
 * moving the group's mean. Absent where the others have no slope.
 */
export function crossFitted(
  paths: readonly BeliefPath[],
  config: MartingaleConfig,
): Map<string, { readonly credit: number; readonly slope: number }> {
  const found = new Map<string, { credit: number; slope: number }>();
  const byPath = paths.map((path) => ({ path, changes: changesOf(path, config) }));
  for (const { path, changes } of byPath) {
    const others = byPath.filter((other) => other.path !== path).flatMap((other) => other.changes);
    if (others.length === 0 || changes.length === 0) continue;
    const [priors, moves] = [others.map(({ prior }) => prior), others.map(({ change }) => change)];
    const line = linearRegression(priors, moves);
    if (line === null) continue;
    const [prior, change] = [mean(priors), mean(moves)];
    const credit = changes.reduce((sum, each) => sum + ((each.change - change) * (each.prior - prior)) / line.sxx, 0);
    found.set(path.trajectoryId, { credit, slope: line.slope });
  }
  return found;
}

function binned(changes: readonly Change[]): MartingaleDetails['bins'] {
  const bins = Array.from({ length: 10 }, (_, tenth) => changes.filter(({ prior }) => Math.min(9, Math.floor(prior * 10)) === tenth));
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
  const steps = usable.map(({ beliefs }) => beliefs.slice(1).map((belief, i) => belief - beliefs[i]!));
  const uncertainty = (belief: number): number => belief * (1 - belief);
  return {
    movement: mean(steps.map((differences) => differences.reduce((sum, each) => sum + each ** 2, 0))),
    uncertaintyReduction: mean(usable.map(({ beliefs }) => uncertainty(beliefs[0]!) - uncertainty(beliefs.at(-1)!))),
    meanChange: mean(steps.flat().map(Math.abs)),
  };
}

/**
 * The slope that a measurement with noise of a variance would have shown without it: noise in the belief before lowers the slope, since
 * it is in the change with the other sign.
 * @param priorVariance of the beliefs before, without the noise: what is observed less `noiseVariance`
 * @returns null where no variance is left
 */
export function withoutNoise(slope: number, priorVariance: number, noiseVariance: number): number | null {
  if (!(priorVariance > 0)) return null;
  return (slope * (priorVariance + noiseVariance) + noiseVariance) / priorVariance;
}

/** What noise of a variance makes of a slope. */
export const withNoise = (slope: number, priorVariance: number, noiseVariance: number): number =>
  (slope * priorVariance - noiseVariance) / (priorVariance + noiseVariance);

export const REGULARISATIONS = ['none', 'squared', 'absolute'] as const;
export type Regularisation = (typeof REGULARISATIONS)[number];

/**
 * A loss to train on, lower is better: the slope as it is, squared or absolute, less `informative` times the mean absolute change, so that
 * never changing one's mind is not the best there is.
 */
export function martingaleLoss(
  slope: number,
  meanChange: number,
  { regularisation, informative }: { readonly regularisation: Regularisation; readonly informative: number },
): number {
  const of = { none: slope, squared: slope ** 2, absolute: Math.abs(slope) }[regularisation];
  return of - informative * meanChange;
}
