import type { Random } from '../../random.js';
import { problemId } from '../problem-id.js';
import type { Tier } from '../task.js';
import { makespan, serialSchedule, type Project } from './list-schedule.js';
import { labelOf, type SchedulingProblem } from './problem.js';

type Range = readonly [low: number, high: number];

export interface TierShape extends Tier {
  readonly jobs: number;
  readonly duration: Range;
  /** Exact number of precedence pairs. */
  readonly edges: number;
  readonly resources: readonly {
    readonly name: string;
    readonly capacity: Range;
    readonly need: Range;
  }[];
  /**
   * Deadline of a job = its end in the witness + a draw from this range, at most the horizon; null:
   * no deadlines.
   */
  readonly deadlineSlack: Range | null;
  /** Horizon = makespan of the witness + a draw from this range. */
  readonly horizonSlack: Range;
}

const machinesAndWorkers = (capacity: Range): TierShape['resources'] => [
  { name: 'machines', capacity, need: [1, 2] },
  { name: 'workers', capacity, need: [1, 2] },
];
const oneMachine: TierShape['resources'] = [{ name: 'machines', capacity: [1, 1], need: [1, 1] }];

/** Tiers of `T4` form one group; T5 is held out of training. */
const tier = (
  id: string,
  title: string,
  jobs: number,
  duration: Range,
  edges: number,
  resources: TierShape['resources'],
  deadlineSlack: Range | null,
  horizonSlack: Range,
): TierShape => ({
  id,
  title,
  trains: id !== 'T5',
  ...(id.startsWith('T4') && { group: 'T4' }),
  jobs,
  duration,
  edges,
  resources,
  deadlineSlack,
  horizonSlack,
});
const [few, more] = [machinesAndWorkers([2, 3]), machinesAndWorkers([2, 4])];

/**
 * The families of isopro.md §1.2. T3 has a machine that couples its jobs; slack is drawn against a
 * witness.
 */
export const TIERS: readonly TierShape[] = [
  tier('T0', 'warm-up: order', 4, [1, 2], 2, [], null, [1, 4]),
  tier('T1', 'order and deadlines', 5, [1, 3], 2, [], [0, 2], [0, 2]),
  tier('T2', 'resources and deadlines', 6, [1, 4], 0, few, [0, 3], [0, 2]),
  tier('T3', 'deadlines on one machine', 6, [2, 5], 0, oneMachine, [0, 6], [0, 3]),
  tier('T4sr', 'order and resources', 8, [1, 4], 4, more, null, [0, 2]),
  tier('T4rd', 'resources and deadlines, larger', 8, [1, 4], 0, more, [0, 4], [0, 2]),
  tier('T4sd', 'order and deadlines, larger', 8, [1, 4], 4, [], [0, 3], [0, 2]),
  tier('T5', 'order, resources and deadlines', 10, [1, 5], 6, more, [0, 8], [0, 2]),
];

/** Pairs (i, j), i < j, drawn without replacement. */
export function drawEdges(random: Random, jobs: number, edges: number): number[][] {
  const pairs: [number, number][] = [];
  for (let i = 0; i < jobs; i++) for (let j = i + 1; j < jobs; j++) pairs.push([i, j]);
  const before: number[][] = Array.from({ length: jobs }, () => []);
  for (const [i, j] of random.shuffle(pairs).slice(0, edges)) before[j]!.push(i);
  return before;
}

const WITNESSES = 8;
const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/**
 * Draws problems from one stream until one is taken. A draw is refused only where the horizon would
 * let any one-after-another order through (tiers above T0 whose jobs can overlap), or where
 * earliest deadline first would get the precedences for nothing (T5); the expected number of draws
 * is below two. Every problem is feasible: its deadlines and horizon are drawn against a witness,
 * the shortest of eight list schedules with random priorities. No solver is called.
 */
export function drawProblem(task: string, shape: TierShape, random: Random): SchedulingProblem {
  for (;;) {
    const project: Project = {
      durations: range(shape.jobs).map(() => random.nextInteger(...shape.duration)),
      needs: range(shape.jobs).map(() =>
        shape.resources.map((resource) => random.nextInteger(...resource.need)),
      ),
      predecessors: drawEdges(random, shape.jobs, shape.edges),
      capacities: shape.resources.map((resource) => random.nextInteger(...resource.capacity)),
    };
    let witness: number[] = [];
    let shortest = Infinity;
    for (let trial = 0; trial < WITNESSES; trial++) {
      const starts = serialSchedule(project, random.shuffle(range(shape.jobs)));
      const length = makespan(project.durations, starts);
      if (length < shortest) [witness, shortest] = [starts, length];
    }
    const horizon = shortest + random.nextInteger(...shape.horizonSlack);
    const slack = shape.deadlineSlack;
    const deadlines = witness.map((start, job) =>
      slack === null
        ? null
        : Math.min(horizon, start + project.durations[job]! + random.nextInteger(...slack)),
    );
    const serial = project.durations.reduce((sum, duration) => sum + duration, 0);
    const disjunctive = shape.resources.some((resource) => resource.capacity[1] === 1);
    if (shape.id !== 'T0' && !disjunctive && serial <= horizon) continue;
    const revealed = project.predecessors.every((before, job) =>
      before.every((other) => deadlines[other]! <= deadlines[job]!),
    );
    if (shape.resources.length > 0 && slack !== null && shape.edges > 0 && revealed) continue;
    return label(task, shape, project, deadlines, horizon, random);
  }
}

/**
 * Gives the jobs labels in an order that contradicts at least one precedence, so that the alphabet
 * is no schedule.
 */
function label(
  task: string,
  shape: TierShape,
  project: Project,
  deadlines: readonly (number | null)[],
  horizon: number,
  random: Random,
): SchedulingProblem {
  const jobs = range(shape.jobs);
  const misleads = (positions: readonly number[]): boolean =>
    jobs.some((job) =>
      project.predecessors[job]!.some((other) => positions[other]! > positions[job]!),
    );
  let positions = random.shuffle(jobs);
  while (shape.edges > 0 && !misleads(positions)) positions = random.shuffle(jobs);
  const atPosition = jobs.map((position) => positions.indexOf(position));
  const content = {
    task,
    tier: shape.id,
    jobs: atPosition.map((job, position) => ({
      label: labelOf(position),
      duration: project.durations[job]!,
      needs: [...project.needs[job]!],
      after: project.predecessors[job]!.map((other) => labelOf(positions[other]!)).sort(),
      deadline: deadlines[job]!,
    })),
    resources: shape.resources.map((resource, index) => ({
      name: resource.name,
      capacity: project.capacities[index]!,
    })),
    horizon,
  };
  return { id: problemId(content), ...content };
}
