/**
 * Changes by a training on the same questions before and after: means, calibration and slope, each
 * with an interval.
 */
import { IsoproError } from '../../errors.js';
import { Random } from '../../random.js';
import { mean } from '../../statistics/index.js';
import { quantile } from '../../statistics/intervals.js';
import { groupBy } from '../../statistics/paired.js';
import { clusteredMean, linearRegression } from '../../statistics/regression.js';
import { isRight, type BeliefPath } from '../beliefs/belief.js';
import { beliefPath, type Readout } from '../beliefs/readout.js';
import { targetOf } from '../problem.js';
import type { TruthRun } from '../run/folder.js';
import { setupKey, type ResultRecord, type Setup } from '../run/records.js';
import { calibration } from '../strategies/accuracy.js';
import { changesOf, slopeWithoutNoise } from '../strategies/martingale.js';
import { STRATEGIES } from '../strategies/strategy.js';

/** One figure of one setup, on the questions that have it both times. */
export interface FigureChange {
  readonly domain: string;
  readonly mode: string;
  readonly systemPrompt: string | null;
  readonly figure: string;
  /** Number of questions; related ones are resampled together. */
  readonly n: number;
  readonly groups: number;
  readonly before: number | null;
  readonly after: number | null;
  /** After less before. */
  readonly difference: number | null;
  /**
   * 95 %, percentiles of a paired bootstrap over groups; null for a group alone, where all of them
   * changed alike, and where more than one draw in twenty has no such figure.
   */
  readonly interval: { readonly low: number; readonly high: number } | null;
  /** p of means only, by t over groups; null without an interval. */
  readonly p: number | null;
}

/** One question, with what was found of it before and after. */
interface Pair<T> {
  readonly group: string;
  readonly before: T;
  readonly after: T;
}

const RESAMPLES = 2000;
/** Rounding error of equal figures that are summed in different orders. */
const ROUNDING = 1e-12;
/** Bins of the calibration, as in a run's scores. */
const BINS = 10;

type Statistic<T> = (items: readonly T[]) => number | null;
type Figure = Omit<FigureChange, 'domain' | 'mode' | 'systemPrompt'>;

function changeOf<T>(
  figure: string,
  pairs: readonly Pair<T>[],
  statistic: Statistic<T>,
  seed: bigint,
): Figure {
  const groups = [...groupBy(pairs, ({ group }) => group).values()];
  const ends = (of: readonly Pair<T>[]) =>
    [statistic(of.map((pair) => pair.before)), statistic(of.map((pair) => pair.after))] as const;
  const [before, after] = pairs.length === 0 ? [null, null] : ends(pairs);
  const about = { figure, n: pairs.length, groups: groups.length, before, after, p: null };
  if (before === null || after === null) return { ...about, difference: null, interval: null };
  const random = new Random(seed);
  const drawn: number[] = [];
  for (let i = 0; i < RESAMPLES && groups.length > 1; i++) {
    const [one, other] = ends(
      Array.from(groups, () => groups[random.nextInteger(0, groups.length - 1)]!).flat(),
    );
    // a draw without the figure says that it may lie anywhere
    drawn.push(one !== null && other !== null ? other - one : i % 2 === 0 ? Infinity : -Infinity);
  }
  drawn.sort((a, b) => a - b);
  const [low, high] =
    drawn.length === 0 ? [NaN, NaN] : [quantile(drawn, 0.025), quantile(drawn, 0.975)];
  // where every draw comes to the same, nothing is known of how it varies: that is no certainty
  const isKnown = Number.isFinite(low) && Number.isFinite(high) && high - low > ROUNDING;
  return { ...about, difference: after - before, interval: isKnown ? { low, high } : null };
}

/** A mean, whose difference has a p, too. */
function meanChangeOf(figure: string, pairs: readonly Pair<number>[], seed: bigint): Figure {
  const found = changeOf(figure, pairs, mean, seed);
  if (found.interval === null) return found;
  const test = clusteredMean(
    pairs.map(({ before, after }) => after - before),
    pairs.map(({ group }) => group),
  );
  return { ...found, p: test?.p ?? null };
}

interface Read {
  readonly group: string;
  readonly path: BeliefPath;
  readonly target: 0 | 1 | null;
}

/**
 * Noise of a measurement is in the belief before and, with the other sign, in the change: it draws
 * this slope down.
 */
function slopeOf(read: readonly Read[]): number | null {
  const changes = read.flatMap(({ path }) =>
    changesOf(path, { change: 'difference', granularity: 'steps' }),
  );
  if (changes.length === 0) return null;
  const line = linearRegression(
    changes.map(({ prior }) => prior),
    changes.map(({ change }) => change),
  );
  return line?.slope ?? null;
}

const slopeWithoutNoiseOf: Statistic<Read> = (read) =>
  slopeWithoutNoise(
    read.map(({ path }) => path),
    'steps',
  )?.slope ?? null;

const calibrationOf =
  (part: 'error' | 'reliability'): Statistic<Read> =>
  (read) =>
    calibration(
      read.map(({ path, target }) => ({
        probability: path.beliefs.at(-1)!,
        outcome: target === 1,
      })),
      BINS,
    )?.[part] ?? null;

/** By the id of the question, where all of its beliefs could be read. */
function readOf({ state }: TruthRun, setup: Setup): Map<string, Read> {
  const found = new Map<string, Read>();
  for (const { trajectory } of state.of(setup, 'plain')) {
    const problem = state.problem(trajectory.problemId)!;
    const readout = state.beliefs(trajectory.id)?.readout as Readout | undefined;
    if (readout === undefined || problem.kind !== 'binary') continue;
    const path = beliefPath(readout);
    if (typeof path !== 'string')
      found.set(problem.id, {
        path,
        target: targetOf(problem),
        group: problem.group ?? problem.id,
      });
  }
  return found;
}

/** By the id of the question. */
const scoresOf = ({ state }: TruthRun, { perTrajectory }: ResultRecord): Map<string, number> =>
  new Map(perTrajectory.map(([id, score]) => [state.trajectory(id)!.problemId, score]));

const paired = <T>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
  groupOf: (id: string) => string,
): Pair<T>[] =>
  [...before].flatMap(([id, one]) =>
    after.has(id) ? [{ group: groupOf(id), before: one, after: after.get(id)! }] : [],
  );

/**
 * @param seed of the bootstrap
 * @throws IsoproError DATA_INVALID where the two runs share no question under the same setup
 */
export function beforeAndAfter(before: TruthRun, after: TruthRun, seed: bigint): FigureChange[] {
  const found = before.state.setups.flatMap((setup): FigureChange[] => {
    const groups = readOf(before, setup);
    const groupOf = (id: string): string => groups.get(id)?.group ?? id;
    const read = paired(groups, readOf(after, setup), groupOf);
    if (read.length === 0) return [];
    const means = before.state.results.flatMap((result): Figure[] => {
      const { strategy, direction } = result;
      const then = after.state.result(setup, strategy);
      // parts of a slope are no scores of questions
      if (
        setupKey(result.setup) !== setupKey(setup) ||
        then === null ||
        STRATEGIES.parse(strategy).name === 'martingale'
      )
        return [];
      const pairs = paired(scoresOf(before, result), scoresOf(after, then), groupOf);
      // where the nearer to 0 is the better, the mean says in which direction, and the mean
      // distance how far
      const far = pairs.map(({ group, before: a, after: b }) => ({
        group,
        before: Math.abs(a),
        after: Math.abs(b),
      }));
      const distance =
        direction === 'zero' ? [meanChangeOf(`${strategy}, distance to 0`, far, seed)] : [];
      return [meanChangeOf(strategy, pairs, seed), ...distance];
    });
    const answered = read.filter(({ before: { target } }) => target !== null);
    const right = ({ path, target }: Read): number =>
      isRight(path.beliefs.at(-1)!, target!) ? 1 : 0;
    const rights = answered.map(({ group, before: a, after: b }) => ({
      group,
      before: right(a),
      after: right(b),
    }));
    const others = [
      meanChangeOf('right', rights, seed),
      changeOf('calibration error', answered, calibrationOf('error'), seed),
      changeOf('reliability', answered, calibrationOf('reliability'), seed),
      changeOf('slope with noise', read, slopeOf, seed),
      changeOf('slope without noise', read, slopeWithoutNoiseOf, seed),
    ];
    return [...means, ...others].map((figure) => ({ ...setup, ...figure }));
  });
  if (found.length === 0)
    throw new IsoproError(
      'DATA_INVALID',
      'the runs before and after share no question under the same setup',
    );
  return found;
}
