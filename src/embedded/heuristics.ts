/**
 * The procedures that the embedded model imitates: each is named first and then executed step by
 * step. Most look at only part of a problem, so that their schedules are often wrong; none is told
 * which problems it suits.
 */
import { printAnswer } from '../tasks/scheduling/answer.js';
import {
  indexOf,
  type Job,
  type Schedule,
  type SchedulingProblem,
} from '../tasks/scheduling/problem.js';

export interface Trace {
  readonly schedule: Schedule;
  /** The whole reply, the answer block included. */
  readonly text: string;
}

interface Line {
  readonly job: Job;
  readonly start: number;
  /** What the line says between duration and start. */
  readonly waits?: string;
  /** What it says after the end. */
  readonly note?: string;
}

/** Smaller is taken first. */
type Priority = (job: Job, problem: SchedulingProblem) => number;

const listed: Priority = (job) => indexOf(job.label);
const shortest: Priority = (job) => job.duration;
const deadline: Priority = (job, problem) => job.deadline ?? problem.horizon;

const endOf = ({ job, start }: Line): number => start + job.duration;
const sorted = (problem: SchedulingProblem, priority: Priority): Job[] =>
  [...problem.jobs].sort(
    (a, b) =>
      priority(a, problem) - priority(b, problem) || listed(a, problem) - listed(b, problem),
  );
/**
 * Each number follows its job's letter, so that a later line can copy it by what precedes it
 * (Olsson et al. 2022: induction).
 */
const describe = (line: Line): string => {
  const { label, duration } = line.job;
  return (
    `Job ${label} takes ${duration}${line.waits ?? ''}; ${label} starts ${line.start}; ${label} ends ` +
    `${endOf(line)}${line.note ?? ''}.\n`
  );
};

/**
 * Jobs in an order in which each follows its predecessors: the first listed of those that may come
 * next.
 */
function predecessorsFirst(problem: SchedulingProblem): Job[] {
  const order: Job[] = [];
  const placed = new Set<string>();
  while (order.length < problem.jobs.length) {
    const next = problem.jobs.find(
      (job) => !placed.has(job.label) && job.after.every((label) => placed.has(label)),
    )!;
    placed.add(next.label);
    order.push(next);
  }
  return order;
}

const allAtOnce = (problem: SchedulingProblem): Line[] =>
  problem.jobs.map((job) => ({ job, start: 0 }));

function oneByOne(jobs: readonly Job[]): Line[] {
  let time = 0;
  return jobs.map((job) => {
    const line = { job, start: time };
    time += job.duration;
    return line;
  });
}

/** Each job at the latest end of its predecessors; resources and deadlines are not looked at. */
function afterPredecessors(problem: SchedulingProblem): Line[] {
  const ends = new Map<string, number>();
  return predecessorsFirst(problem).map((job) => {
    const start = Math.max(0, ...job.after.map((label) => ends.get(label)!));
    ends.set(job.label, start + job.duration);
    return {
      job,
      start,
      waits: job.after.map((label) => `; ${label} ends ${ends.get(label)}`).join(''),
    };
  });
}

/**
 * Parallel schedule generation (Kolisch 1996): at each time, jobs whose predecessors have ended and
 * whose needs are free start by priority; then time moves to the next end. The units left are told
 * after each event.
 */
function sideBySide(problem: SchedulingProblem, priority: Priority): (Line | string)[] {
  const free = problem.resources.map((resource) => resource.capacity);
  const left = (): string => (free.length === 0 ? '' : `; ${free.join(' and ')} left`);
  const waiting = sorted(problem, priority);
  const running: Line[] = [];
  const ended = new Set<string>();
  const events: (Line | string)[] = [];
  for (let time = 0; waiting.length > 0; ) {
    const next = waiting.findIndex(
      (job) =>
        job.after.every((label) => ended.has(label)) &&
        job.needs.every((need, index) => need <= free[index]!),
    );
    // Whatever ends now is told before anything starts.
    const over = running
      .filter((line) => endOf(line) === time)
      .sort((a, b) => listed(a.job, problem) - listed(b.job, problem))[0];
    if (over !== undefined) {
      running.splice(running.indexOf(over), 1);
      ended.add(over.job.label);
      over.job.needs.forEach((need, index) => {
        free[index]! += need;
      });
      events.push(`${over.job.label} ends ${time}${left()}.\n`);
    } else if (next >= 0) {
      const [job] = waiting.splice(next, 1) as [Job];
      job.needs.forEach((need, index) => {
        free[index]! -= need;
      });
      const line = { job, start: time, note: left() };
      running.push(line);
      events.push(line);
    } else {
      time = Math.min(...running.map(endOf));
    }
  }
  return events;
}

/** Name to procedure; the name opens the reply. */
export const HEURISTICS = {
  'all at once': allAtOnce,
  'one by one, as listed': (problem: SchedulingProblem) => oneByOne(sorted(problem, listed)),
  'one by one, shortest first': (problem: SchedulingProblem) => oneByOne(sorted(problem, shortest)),
  'one by one, earliest deadline first': (problem: SchedulingProblem) =>
    oneByOne(sorted(problem, deadline)),
  'one by one, predecessors first': (problem: SchedulingProblem) =>
    oneByOne(predecessorsFirst(problem)),
  'each after its predecessors': afterPredecessors,
  'side by side, as listed': (problem: SchedulingProblem) => sideBySide(problem, listed),
  'side by side, earliest deadline first': (problem: SchedulingProblem) =>
    sideBySide(problem, deadline),
} as const satisfies Record<string, (problem: SchedulingProblem) => readonly (Line | string)[]>;

export type HeuristicName = keyof typeof HEURISTICS;
export const HEURISTIC_NAMES = Object.keys(HEURISTICS) as HeuristicName[];

/** How a reply that follows a heuristic begins. */
export const opening = (name: HeuristicName): string => `Plan: ${name}.\n`;

/**
 * The same up to the first job's letter, which every reply has: one token in the embedded model's
 * vocabulary, as it learned them.
 */
export const beginning = (name: HeuristicName): string => `${opening(name)}Job `;

/** The heuristic that a reply names, or null. */
export const namedHeuristic = (reply: string): HeuristicName | null =>
  HEURISTIC_NAMES.find((name) => reply.startsWith(opening(name))) ?? null;

export function followHeuristic(name: HeuristicName, problem: SchedulingProblem): Trace {
  const events: readonly (Line | string)[] = HEURISTICS[name](problem);
  const starts = new Map(
    events.flatMap((event) => (typeof event === 'string' ? [] : [[event.job.label, event.start]])),
  );
  const schedule = Object.fromEntries(problem.jobs.map(({ label }) => [label, starts.get(label)!]));
  const steps = events.map((event) => (typeof event === 'string' ? event : describe(event)));
  return { schedule, text: `${opening(name)}${steps.join('')}${printAnswer(schedule)}` };
}
