import { Random } from '../../random.js';
import {
  dependencyOrder,
  latestEnds,
  oneAfterAnother,
  projectOf,
  serialSchedule,
  toSchedule,
} from './list-schedule.js';
import type { Schedule, SchedulingProblem } from './problem.js';

export type Dimension = 'order' | 'resources' | 'deadlines';

export interface Policy {
  /** Dimensions that the policy never looks at. */
  readonly ignores: readonly Dimension[];
  readonly decide: (problem: SchedulingProblem) => Schedule;
}

const alphabetical = (a: number, b: number): number => a - b;
const byStatedDeadline =
  (problem: SchedulingProblem) =>
  (a: number, b: number): number =>
    (problem.jobs[a]!.deadline ?? problem.horizon) -
      (problem.jobs[b]!.deadline ?? problem.horizon) || a - b;
/**
 * By the latest end that leaves the successors room: deadlines tightened backwards along the
 * precedences. The rows of isopro.md §1.5 that go by deadlines are reproduced with these and not
 * with the stated ones.
 */
export function byDeadline(problem: SchedulingProblem): (a: number, b: number) => number {
  const due = latestEnds(problem);
  return (a, b) => due[a]! - due[b]! || a - b;
}
const byDuration =
  (problem: SchedulingProblem, sign: 1 | -1) =>
  (a: number, b: number): number =>
    sign * (problem.jobs[a]!.duration - problem.jobs[b]!.duration) || a - b;

const jobIndices = (problem: SchedulingProblem): number[] => problem.jobs.map((_, index) => index);
const durations = (problem: SchedulingProblem): number[] => problem.jobs.map((job) => job.duration);
const serial = (problem: SchedulingProblem, order: readonly number[]): Schedule =>
  toSchedule(oneAfterAnother(durations(problem), order));
const list = (
  problem: SchedulingProblem,
  compare: (a: number, b: number) => number,
  ignoreOrder = false,
): Schedule =>
  toSchedule(
    serialSchedule(projectOf(problem), jobIndices(problem).sort(compare), { ignoreOrder }),
  );

/** The policies of isopro.md §1.5 and those that ignore one dimension, by name. */
export const POLICIES = {
  'all-zeros': {
    ignores: ['order', 'resources', 'deadlines'],
    decide: (problem) => toSchedule(problem.jobs.map(() => 0)),
  },
  'random-start': {
    ignores: ['order', 'resources', 'deadlines'],
    decide: (problem) => {
      const random = new Random(BigInt(`0x${problem.id.slice(0, 16)}`));
      return toSchedule(
        problem.jobs.map((job) =>
          random.nextInteger(0, Math.max(0, problem.horizon - job.duration)),
        ),
      );
    },
  },
  'serial-alphabetical': {
    ignores: ['order', 'deadlines'],
    decide: (problem) => serial(problem, jobIndices(problem)),
  },
  'serial-dependency': {
    ignores: ['deadlines'],
    decide: (problem) => serial(problem, dependencyOrder(problem, alphabetical)),
  },
  'serial-earliest-deadline': {
    ignores: [],
    decide: (problem) => serial(problem, dependencyOrder(problem, byDeadline(problem))),
  },
  'earliest-start': {
    ignores: ['resources', 'deadlines'],
    decide: (problem) =>
      toSchedule(
        serialSchedule(projectOf(problem), jobIndices(problem), { ignoreResources: true }),
      ),
  },
  'list-order-ignored': {
    ignores: ['order', 'deadlines'],
    decide: (problem) => list(problem, alphabetical, true),
  },
  'list-deadline-order-ignored': {
    ignores: ['order'],
    decide: (problem) => list(problem, byStatedDeadline(problem), true),
  },
  'list-alphabetical': { ignores: ['deadlines'], decide: (problem) => list(problem, alphabetical) },
  'list-longest-first': {
    ignores: ['deadlines'],
    decide: (problem) => list(problem, byDuration(problem, -1)),
  },
  'list-shortest-first': {
    ignores: ['deadlines'],
    decide: (problem) => list(problem, byDuration(problem, 1)),
  },
  'list-earliest-deadline': {
    ignores: [],
    decide: (problem) => list(problem, byDeadline(problem)),
  },
} as const satisfies Record<string, Policy>;

const EARLIEST =
  'exact solver of T0, T1 and T4sd, where nothing limits the jobs but their order; exempt there from the bound on trivial policies';

/** Where a policy is an exact solver, so that its figure is no sign of a weak tier. */
export const POLICY_NOTES: Readonly<Record<string, string>> = {
  'earliest-start': EARLIEST,
  'list-alphabetical': EARLIEST,
  'list-longest-first': EARLIEST,
  'list-shortest-first': EARLIEST,
  'list-earliest-deadline':
    'looks at every dimension; exact solver of T0, T1, T3 (one machine) and T4sd',
  'serial-earliest-deadline': 'looks at every dimension; exact solver of T3, which has one machine',
};

/** Dimensions that can make a schedule of this problem wrong. */
export function dimensionsOf(problem: SchedulingProblem): Dimension[] {
  const dimensions: Dimension[] = [];
  if (problem.jobs.some((job) => job.after.length > 0)) dimensions.push('order');
  if (problem.resources.length > 0) dimensions.push('resources');
  if (problem.jobs.some((job) => job.deadline !== null)) dimensions.push('deadlines');
  return dimensions;
}
