import {
  indexOf,
  labelOf,
  predecessors,
  type Schedule,
  type SchedulingProblem,
} from './problem.js';

export interface ListScheduleOptions {
  readonly ignoreOrder?: boolean;
  readonly ignoreResources?: boolean;
}

/**
 * What list scheduling needs of a problem; indices instead of labels, so that generation can use it
 * before labels exist.
 */
export interface Project {
  /** [jobs] */
  readonly durations: readonly number[];
  /** [jobs][resources] */
  readonly needs: readonly (readonly number[])[];
  /** [jobs][direct predecessors] */
  readonly predecessors: readonly (readonly number[])[];
  /** [resources] */
  readonly capacities: readonly number[];
}

export const projectOf = (problem: SchedulingProblem): Project => ({
  durations: problem.jobs.map((job) => job.duration),
  needs: problem.jobs.map((job) => job.needs),
  predecessors: predecessors(problem),
  capacities: problem.resources.map((resource) => resource.capacity),
});

/**
 * Serial schedule generation (Kolisch 1996): of the jobs whose predecessors are placed, the first
 * by `priority` is placed at its earliest feasible time. Without resources the result is the
 * earliest-start schedule whatever the priority.
 * @param priority a permutation of the job indices
 * @returns start times [jobs]
 */
export function serialSchedule(
  project: Project,
  priority: readonly number[],
  options: ListScheduleOptions = {},
): number[] {
  const { durations, needs, capacities } = project;
  const count = durations.length;
  const starts = new Array<number>(count).fill(-1);
  const span = durations.reduce((sum, duration) => sum + duration, 0);
  const usage = options.ignoreResources === true ? [] : capacities.map(() => new Int32Array(span));
  for (let placed = 0; placed < count; placed++) {
    const job = priority.find(
      (candidate) =>
        starts[candidate] === -1 &&
        (options.ignoreOrder === true ||
          project.predecessors[candidate]!.every((other) => starts[other] !== -1)),
    );
    if (job === undefined) throw new RangeError('the precedences form a cycle');
    const duration = durations[job]!;
    let start = 0;
    if (options.ignoreOrder !== true) {
      for (const other of project.predecessors[job]!)
        start = Math.max(start, starts[other]! + durations[other]!);
    }
    for (let resource = 0; resource < usage.length; ) {
      const free = capacities[resource]! - needs[job]![resource]!;
      if (free < 0) throw new RangeError('a job needs more than the capacity');
      const row = usage[resource]!;
      let blocked = -1;
      for (let time = Math.min(start + duration, span) - 1; time >= start && blocked < 0; time--)
        if (row[time]! > free) blocked = time;
      if (blocked < 0) resource++;
      else {
        start = blocked + 1;
        resource = 0;
      }
    }
    starts[job] = start;
    usage.forEach((row, resource) => {
      for (let time = start; time < start + duration; time++) row[time]! += needs[job]![resource]!;
    });
  }
  return starts;
}

/** One job after another in the given order, without a gap. */
export function oneAfterAnother(durations: readonly number[], order: readonly number[]): number[] {
  const starts = new Array<number>(durations.length).fill(0);
  let time = 0;
  for (const job of order) {
    starts[job] = time;
    time += durations[job]!;
  }
  return starts;
}

/**
 * Precedence-respecting order that takes, among the jobs whose predecessors are done, the first by
 * `compare`.
 */
export function dependencyOrder(
  problem: SchedulingProblem,
  compare: (a: number, b: number) => number,
): number[] {
  const done = new Set<number>();
  const order: number[] = [];
  while (order.length < problem.jobs.length) {
    const ready = problem.jobs
      .map((_, index) => index)
      .filter(
        (index) =>
          !done.has(index) && problem.jobs[index]!.after.every((label) => done.has(indexOf(label))),
      );
    if (ready.length === 0) throw new RangeError('the precedences form a cycle');
    const next = ready.reduce((best, candidate) =>
      compare(candidate, best) < 0 ? candidate : best,
    );
    done.add(next);
    order.push(next);
  }
  return order;
}

/**
 * Latest end of each job that keeps its own deadline, the horizon, and leaves room for everything
 * after it.
 */
export function latestEnds(problem: SchedulingProblem): number[] {
  const latest = problem.jobs.map((job) =>
    Math.min(job.deadline ?? problem.horizon, problem.horizon),
  );
  for (let pass = 0; pass < latest.length; pass++) {
    problem.jobs.forEach((job, index) => {
      job.after.forEach((label) => {
        latest[indexOf(label)] = Math.min(latest[indexOf(label)]!, latest[index]! - job.duration);
      });
    });
  }
  return latest;
}

export const toSchedule = (starts: readonly number[]): Schedule =>
  Object.fromEntries(starts.map((start, index) => [labelOf(index), start]));

export const makespan = (durations: readonly number[], starts: readonly number[]): number =>
  starts.reduce((latest, start, job) => Math.max(latest, start + durations[job]!), 0);
