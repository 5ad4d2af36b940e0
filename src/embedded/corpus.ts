/**
 * Training examples of the embedded model: problems of the tiers that may be trained on, each with
 * one heuristic's trace.
 */
import { deriveSeed, Random } from '../random.js';
import { frozenSet, SET_NAMES } from '../tasks/frozen-sets.js';
import { drawProblem, TIERS, type TierShape } from '../tasks/scheduling/generate.js';
import type { SchedulingProblem } from '../tasks/scheduling/problem.js';
import { followHeuristic, type HeuristicName } from './heuristics.js';

/**
 * How often the model is to name each heuristic, whatever the problem: what it starts with before
 * any reward.
 */
export const NAMING: Readonly<Record<HeuristicName, number>> = {
  'all at once': 0.08,
  'one by one, as listed': 0.14,
  'one by one, shortest first': 0.1,
  'one by one, earliest deadline first': 0.1,
  'one by one, predecessors first': 0.28,
  'each after its predecessors': 0.1,
  'side by side, as listed': 0.1,
  'side by side, earliest deadline first': 0.1,
};

/** How often each is practised: the longer procedures more often than they are named. */
export const PRACTICE: Readonly<Record<HeuristicName, number>> = {
  'all at once': 0.02,
  'one by one, as listed': 0.05,
  'one by one, shortest first': 0.06,
  'one by one, earliest deadline first': 0.16,
  'one by one, predecessors first': 0.13,
  'each after its predecessors': 0.22,
  'side by side, as listed': 0.13,
  'side by side, earliest deadline first': 0.23,
};

/** Share of each tier: short ones prevail at first. T5 is not among them. */
const TIER_SHARES: Readonly<Record<string, readonly [first: number, later: number]>> = {
  T0: [0.3, 0.13],
  T1: [0.3, 0.16],
  T2: [0.1, 0.18],
  T3: [0.2, 0.16],
  T4sr: [0.03, 0.12],
  T4rd: [0.03, 0.1],
  T4sd: [0.04, 0.15],
};

/** Of ten jobs, so that their letters are known too: like T1 and T3, not like T5. */
const LARGE: readonly TierShape[] = [
  {
    id: 'T1',
    title: '',
    trains: true,
    jobs: 10,
    duration: [1, 5],
    edges: 6,
    resources: [],
    deadlineSlack: [0, 5],
    horizonSlack: [0, 2],
  },
  {
    id: 'T3',
    title: '',
    trains: true,
    jobs: 10,
    duration: [1, 5],
    edges: 0,
    resources: [{ name: 'machines', capacity: [1, 1], need: [1, 1] }],
    deadlineSlack: [0, 8],
    horizonSlack: [0, 3],
  },
];
const LARGE_SHARE = 0.08;

export interface Example {
  readonly problem: SchedulingProblem;
  readonly heuristic: HeuristicName;
  readonly reply: string;
  /**
   * Whether the name counts in the loss: drawn so that the names are learned in the proportions of
   * NAMING.
   */
  readonly learnsName: boolean;
}

function choose<K extends string>(random: Random, shares: Readonly<Record<K, number>>): K {
  const entries = Object.entries(shares) as [K, number][];
  let at = random.nextDouble() * entries.reduce((sum, [, share]) => sum + share, 0);
  for (const [key, share] of entries) if ((at -= share) < 0) return key;
  return entries.at(-1)![0];
}

const MOST_NAMED = Math.max(
  ...(Object.keys(NAMING) as HeuristicName[]).map((name) => NAMING[name] / PRACTICE[name]),
);

let evaluated: ReadonlySet<string> | undefined;
/** Ids of the dev and test problems, which are never trained on. */
const evaluationIds = (): ReadonlySet<string> =>
  (evaluated ??= new Set(
    SET_NAMES.flatMap((name) =>
      frozenSet('scheduling', name).problems.map(({ problem }) => problem.id),
    ),
  ));

/**
 * Example `index` of a training run.
 * @param progress of the curriculum, in [0, 1]: 0 draws by the first shares, 1 by the later ones
 */
export function drawExample(seed: bigint, index: number, progress: number): Example {
  const random = new Random(
    deriveSeed({
      runSeed: seed,
      purpose: 'pretraining',
      iteration: 0,
      problemId: '',
      sample: index,
    }),
  );
  const tier = choose(
    random,
    Object.fromEntries(
      Object.entries(TIER_SHARES).map(([id, [first, later]]) => [
        id,
        first + (later - first) * progress,
      ]),
    ),
  );
  const usual = TIERS.find(({ id }) => id === tier)!;
  const shape =
    random.nextDouble() < LARGE_SHARE * progress
      ? LARGE[random.nextInteger(0, LARGE.length - 1)]!
      : usual;
  let problem = drawProblem('scheduling', shape, random);
  while (evaluationIds().has(problem.id)) problem = drawProblem('scheduling', shape, random);
  const heuristic = choose(random, PRACTICE);
  const learnsName = random.nextDouble() < NAMING[heuristic] / PRACTICE[heuristic] / MOST_NAMED;
  return { problem, heuristic, reply: followHeuristic(heuristic, problem).text, learnsName };
}
