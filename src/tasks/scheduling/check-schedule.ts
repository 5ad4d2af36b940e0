import { indexOf, labelOf, type Schedule, type SchedulingProblem } from './problem.js';

/** A rule that a schedule breaks; categories are those of the `scheduling` verifier. */
export type ScheduleFault =
  | { readonly category: 'missing'; readonly job: string }
  | { readonly category: 'unknown'; readonly job: string }
  | { readonly category: 'range'; readonly job: string; readonly start: number }
  | {
      readonly category: 'precedence';
      readonly before: string;
      readonly after: string;
      readonly end: number;
      readonly start: number;
    }
  | {
      readonly category: 'deadline';
      readonly job: string;
      readonly end: number;
      readonly deadline: number;
    }
  | { readonly category: 'horizon'; readonly job: string; readonly end: number }
  | {
      readonly category: 'resources';
      readonly resource: number;
      readonly jobs: readonly string[];
      readonly from: number;
      readonly to: number;
      readonly peak: number;
    };

/** No later start can be checked; far beyond any horizon. */
export const LATEST_START = 1_000_000_000_000;

export interface ScheduleCheck {
  readonly faults: readonly ScheduleFault[];
  /** Latest end over the jobs that have a valid start. */
  readonly makespan: number;
}

/**
 * Every rule that a schedule breaks, in O(n log n + edges): jobs, starts, precedences, deadlines,
 * horizon, and capacity by a sweep over the 2n starts and ends, whatever their size.
 * @param latestStart at most LATEST_START; starts beyond it are out of range; such a job takes part
 *   in no other check
 */
export function checkSchedule(
  problem: SchedulingProblem,
  schedule: Schedule,
  latestStart: number = problem.horizon,
): ScheduleCheck {
  const { jobs, resources, horizon } = problem;
  const faults: ScheduleFault[] = [];
  const starts = new Float64Array(jobs.length).fill(-1);
  let makespan = 0;

  for (const label of Object.keys(schedule)) {
    if (label.length !== 1 || indexOf(label) < 0 || indexOf(label) >= jobs.length)
      faults.push({ category: 'unknown', job: label });
  }
  for (let index = 0; index < jobs.length; index++) {
    const job = jobs[index]!;
    const start = Object.hasOwn(schedule, job.label) ? schedule[job.label] : undefined;
    if (start === undefined) faults.push({ category: 'missing', job: job.label });
    else if (!Number.isSafeInteger(start) || start < 0 || start > latestStart)
      faults.push({ category: 'range', job: job.label, start });
    else {
      starts[index] = start;
      const end = start + job.duration;
      makespan = Math.max(makespan, end);
      if (job.deadline !== null && end > job.deadline)
        faults.push({ category: 'deadline', job: job.label, end, deadline: job.deadline });
      if (end > horizon) faults.push({ category: 'horizon', job: job.label, end });
    }
  }
  for (let index = 0; index < jobs.length; index++) {
    const start = starts[index]!;
    if (start < 0) continue;
    const job = jobs[index]!;
    for (const label of job.after) {
      const other = indexOf(label);
      const end = starts[other]! + jobs[other]!.duration;
      if (starts[other]! >= 0 && start < end)
        faults.push({ category: 'precedence', before: label, after: job.label, end, start });
    }
  }
  if (resources.length > 0) sweep(problem, starts, faults);
  return { faults, makespan };
}

/**
 * Events are sorted by time, ends before starts; a stretch of overload is one fault with its peak.
 * An event is one number, (2 time + start) * 32 + job, exact for starts up to LATEST_START.
 */
function sweep(
  { jobs, resources }: SchedulingProblem,
  starts: Float64Array,
  faults: ScheduleFault[],
): void {
  const all = new Float64Array(2 * jobs.length);
  let count = 0;
  for (let job = 0; job < jobs.length; job++) {
    const start = starts[job]!;
    if (start < 0) continue;
    all[count++] = (2 * start + 1) * 32 + job;
    all[count++] = 2 * (start + jobs[job]!.duration) * 32 + job;
  }
  const events = all.subarray(0, count).sort();
  for (let resource = 0; resource < resources.length; resource++) {
    const capacity = resources[resource]!.capacity;
    let usage = 0;
    let peak = 0;
    let from = -1;
    for (let i = 0; i < count; i++) {
      const event = events[i]!;
      const time = Math.floor(event / 64);
      const need = jobs[event % 32]!.needs[resource]!;
      usage += event - 64 * time >= 32 ? need : -need;
      if (i + 1 < count && Math.floor(events[i + 1]! / 64) === time) continue;
      if (usage > capacity) {
        if (from < 0) from = time;
        peak = Math.max(peak, usage);
      } else if (from >= 0) {
        const involved = jobs.flatMap((other, index) =>
          starts[index]! >= 0 &&
          starts[index]! < time &&
          starts[index]! + other.duration > from &&
          other.needs[resource]! > 0
            ? [labelOf(index)]
            : [],
        );
        faults.push({ category: 'resources', resource, jobs: involved, from, to: time, peak });
        [from, peak] = [-1, 0];
      }
    }
  }
}
