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

/** isopro.md §1.2 */
export const CLASSIC_TIERS: readonly ClassicTier[] = [
  {
    id: 'T0',
    title: 'warm-up',
    trains: true,
    jobs: 4,
    duration: [1, 2],
    edges: 2,
    capacity: null,
    slack: 3,
    deadlines: false,
  },
  {
    id: 'T1',
    title: 'sequencing',
    trains: true,
    jobs: 5,
    duration: [1, 3],
    edges: 2,
    capacity: null,
    slack: 3,
    deadlines: true,
  },
  {
    id: 'T2',
    title: 'resource allocation',
    trains: true,
    jobs: 6,
    duration: [1, 4],
    edges: 0,
    capacity: [2, 3],
    slack: 2,
    deadlines: true,
  },
  {
    id: 'T3',
    title: 'deadline pressure',
    trains: true,
    jobs: 6,
    duration: [2, 5],
    edges: 0,
    capacity: null,
    slack: 1.15,
    deadlines: true,
  },
  {
    id: 'T4sr',
    title: 'sequencing and resources',
    trains: true,
    group: 'T4',
    jobs: 8,
    duration: [1, 4],
    edges: 4,
    capacity: [2, 4],
    slack: 1.5,
    deadlines: false,
  },
  {
    id: 'T4rd',
    title: 'resources and deadlines',
    trains: true,
    group: 'T4',
    jobs: 8,
    duration: [1, 4],
    edges: 0,
    capacity: [2, 4],
    slack: 1.5,
    deadlines: true,
  },
  {
    id: 'T4sd',
    title: 'sequencing and deadlines',
    trains: true,
    group: 'T4',
    jobs: 8,
    duration: [1, 4],
    edges: 4,
    capacity: null,
    slack: 1.5,
    deadlines: true,
  },
  {
    id: 'T5',
    title: 'full composition',
    trains: false,
    jobs: 10,
    duration: [1, 5],
    edges: 6,
    capacity: [2, 4],
    slack: 1.3,
    deadlines: true,
  },
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
