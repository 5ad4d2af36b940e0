import { latestEnds, makespan, projectOf, serialSchedule, toSchedule } from './list-schedule.js';
import type { Schedule, SchedulingProblem } from './problem.js';

export interface ExactResult {
  readonly schedule: Schedule;
  readonly makespan: number;
}

/**
 * Exact branch and bound for small problems (up to 10 jobs in milliseconds): the shortest schedule
 * that keeps every rule, or null where there is none.
 *
 * Jobs are placed in the order of their starts, each at the earliest feasible time not before the
 * previous start. Every active schedule is reached that way (Sprecher, Kolisch, Drexl 1995), and
 * makespan and deadlines are regular, so an optimal schedule is among them. Branches are cut where
 * a remaining job would miss its latest end, or where the work left on a resource does not fit
 * before the bound.
 */
export function solveExactly(problem: SchedulingProblem): ExactResult | null {
  const project = projectOf(problem);
  const { durations, needs, predecessors, capacities } = project;
  const count = durations.length;
  const jobs = durations.map((_, index) => index);
  const latestEnd = latestEnds(problem);
  if (needs.some((row) => row.some((need, resource) => need > capacities[resource]!))) return null;

  let best: number[] | null = null;
  let bound = problem.horizon + 1;
  const incumbent = serialSchedule(
    project,
    jobs.slice().sort((a, b) => latestEnd[a]! - latestEnd[b]! || a - b),
  );
  if (incumbent.every((start, job) => start + durations[job]! <= latestEnd[job]!))
    [best, bound] = [incumbent, makespan(durations, incumbent)];

  const span = durations.reduce((sum, duration) => sum + duration, 0);
  const usage = capacities.map(() => new Int32Array(span + 1));
  const workLeft = capacities.map((_, resource) =>
    jobs.reduce((sum, job) => sum + durations[job]! * needs[job]![resource]!, 0),
  );
  const starts = new Int32Array(count).fill(-1);

  const fits = (job: number, start: number): boolean => {
    for (let resource = 0; resource < capacities.length; resource++) {
      const free = capacities[resource]! - needs[job]![resource]!;
      const row = usage[resource]!;
      for (let time = start; time < start + durations[job]!; time++)
        if (row[time]! > free) return false;
    }
    return true;
  };
  const occupy = (job: number, start: number, sign: 1 | -1): void => {
    for (let resource = 0; resource < capacities.length; resource++) {
      const need = sign * needs[job]![resource]!;
      for (let time = start; time < start + durations[job]!; time++)
        usage[resource]![time]! += need;
      workLeft[resource]! -= durations[job]! * need;
    }
  };
  /**
   * Earliest start from precedences of jobs whose predecessors may themselves be unplaced; indices
   * need not be topological.
   */
  const readyAt = (job: number, from: number): number => {
    let ready = from;
    for (const other of predecessors[job]!)
      ready = Math.max(
        ready,
        starts[other]! >= 0
          ? starts[other]! + durations[other]!
          : readyAt(other, from) + durations[other]!,
      );
    return ready;
  };

  const branch = (placed: number, lastStart: number, lastJob: number, end: number): void => {
    if (placed === count) {
      best = Array.from(starts);
      bound = end;
      return;
    }
    for (let resource = 0; resource < capacities.length; resource++) {
      let room = 0;
      for (let time = lastStart; time < Math.min(bound - 1, span); time++)
        room += capacities[resource]! - usage[resource]![time]!;
      if (workLeft[resource]! > room) return;
    }
    const candidates: { job: number; start: number }[] = [];
    for (const job of jobs) {
      if (starts[job]! >= 0) continue;
      const ready = readyAt(job, lastStart);
      if (ready + durations[job]! > Math.min(latestEnd[job]!, bound - 1)) return;
      if (predecessors[job]!.some((other) => starts[other]! < 0)) continue;
      let start = ready;
      while (!fits(job, start)) start++;
      // it cannot start earlier in any continuation
      if (start + durations[job]! > Math.min(latestEnd[job]!, bound - 1)) return;
      if (start > lastStart || job > lastJob) candidates.push({ job, start });
    }
    candidates.sort((a, b) => a.start - b.start || latestEnd[a.job]! - latestEnd[b.job]!);
    for (const { job, start } of candidates) {
      if (start + durations[job]! > Math.min(latestEnd[job]!, bound - 1)) continue;
      starts[job] = start;
      occupy(job, start, 1);
      branch(placed + 1, start, job, Math.max(end, start + durations[job]!));
      occupy(job, start, -1);
      starts[job] = -1;
    }
  };
  branch(0, 0, -1, 0);
  return best === null ? null : { schedule: toSchedule(best), makespan: bound };
}
