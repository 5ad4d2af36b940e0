import type { Random } from '../../random.js';
import { problemId } from '../problem-id.js';
import { solveExactly } from '../scheduling/exact.js';
import { drawEdges } from '../scheduling/generate.js';
import { labelOf, type SchedulingProblem } from '../scheduling/problem.js';
import type { Tier } from '../task.js';

type Range = readonly [low: number, high: number];

export interface ClassicTier extends Tier {
  readonly jobs: number;
  readonly duration: Range;
  readonly edges: number;
  /** Capacity of machines and of workers; null: no resources. Needs are 1 or 2. */
  readonly capacity: Range | null;
  /** Times the sum of the durations. */
  readonly slack: number;
  readonly deadlines: boolean;
}

/** Tiers of `T4` form one group; T5 is held out of training. */
const tier = (
  id: string,
  title: string,
  jobs: number,
  duration: Range,
  edges: number,
  capacity: Range | null,
  slack: number,
  deadlines: boolean,
): ClassicTier => ({
  id,
  title,
  trains: id !== 'T5',
  ...(id.startsWith('T4') && { group: 'T4' }),
  jobs,
  duration,
  edges,
  capacity,
  slack,
  deadlines,
});

/** The rows of isopro.md §1.2. */
export const CLASSIC_TIERS: readonly ClassicTier[] = [
  tier('T0', 'warm-up', 4, [1, 2], 2, null, 3, false),
  tier('T1', 'sequencing', 5, [1, 3], 2, null, 3, true),
  tier('T2', 'resource allocation', 6, [1, 4], 0, [2, 3], 2, true),
  tier('T3', 'deadline pressure', 6, [2, 5], 0, null, 1.15, true),
  tier('T4sr', 'sequencing and resources', 8, [1, 4], 4, [2, 4], 1.5, false),
  tier('T4rd', 'resources and deadlines', 8, [1, 4], 0, [2, 4], 1.5, true),
  tier('T4sd', 'sequencing and deadlines', 8, [1, 4], 4, null, 1.5, true),
  tier('T5', 'full composition', 10, [1, 5], 6, [2, 4], 1.3, true),
];

/** One draw of the original's distribution, in its drawing order; it may be infeasible. */
export function drawClassicCandidate(tier: ClassicTier, random: Random): SchedulingProblem {
  const drawn = Array.from({ length: tier.jobs }, () => ({
    duration: random.nextInteger(...tier.duration),
    needs: tier.capacity === null ? [] : [random.nextInteger(1, 2), random.nextInteger(1, 2)],
  }));
  const before = drawEdges(random, tier.jobs, tier.edges);
  const resources =
    tier.capacity === null
      ? []
      : ['machines', 'workers'].map((name) => ({
          name,
          capacity: random.nextInteger(...tier.capacity!),
        }));
  const horizon =
    Math.floor(drawn.reduce((sum, { duration }) => sum + duration, 0) * tier.slack) + 1;
  const content = {
    task: 'scheduling-classic',
    tier: tier.id,
    jobs: drawn.map(({ duration, needs }, index) => ({
      label: labelOf(index),
      duration,
      needs,
      after: before[index]!.sort((a, b) => a - b).map(labelOf),
      deadline: tier.deadlines
        ? random.nextInteger(duration, Math.max(duration, Math.floor(0.9 * horizon)))
        : null,
    })),
    resources,
    horizon,
  };
  return { id: problemId(content), ...content };
}

/**
 * The first feasible draw of the stream. The original filters with CP-SAT and gives up after 50
 * draws; the exact branch and bound takes the same draws without a clock, and no problem is
 * dropped.
 */
export function drawClassicProblem(tier: ClassicTier, random: Random): SchedulingProblem {
  for (;;) {
    const candidate = drawClassicCandidate(tier, random);
    if (solveExactly(candidate) !== null) return candidate;
  }
}
