import { z } from 'zod';
import { readContent } from '../built-in.js';
import type { Problem } from '../task.js';

/**
 * Jobs are labelled A, B, C, … in the order in which they are listed; a job's index follows from
 * its label.
 */
export interface Job {
  readonly label: string;
  /** Whole time steps, at least 1. */
  readonly duration: number;
  /** Units of each resource, in the order of `resources`, held while the job runs. */
  readonly needs: readonly number[];
  /** Labels of the jobs that must have finished before this one starts, in alphabetical order. */
  readonly after: readonly string[];
  /** Latest end (start + duration <= deadline), or null. */
  readonly deadline: number | null;
}

export interface Resource {
  /** Plural, as the prompt names it. */
  readonly name: string;
  /** Units. */
  readonly capacity: number;
}

/** A resource-constrained project (RCPSP) with deadlines; time is counted in whole steps from 0. */
export interface SchedulingProblem extends Problem {
  readonly task: string;
  readonly jobs: readonly Job[];
  readonly resources: readonly Resource[];
  /** Every job ends at or before it. */
  readonly horizon: number;
}

/** Start time of each job by label. */
export type Schedule = Readonly<Record<string, number>>;

export const MAX_JOBS = 26;
export const labelOf = (index: number): string => String.fromCharCode(65 + index);
export const indexOf = (label: string): number => label.charCodeAt(0) - 65;

/** Indices of the direct predecessors of each job. */
export const predecessors = (problem: SchedulingProblem): number[][] =>
  problem.jobs.map((job) => job.after.map(indexOf));

const count = z.int().min(0).max(1_000_000);
const schema = z.object({
  id: z.string().optional(),
  task: z.string(),
  tier: z.string(),
  jobs: z
    .array(
      z.object({
        label: z.string(),
        duration: count.min(1),
        needs: z.array(count),
        after: z.array(z.string()),
        deadline: count.nullable(),
      }),
    )
    .min(1)
    .max(MAX_JOBS),
  resources: z.array(z.object({ name: z.string().min(1), capacity: count })).max(8),
  horizon: count,
});

/**
 * Checks a problem that came from outside: shape, labels in order, known predecessors without a
 * cycle, and that `id`, where given, is the content hash.
 * @throws IsoproError PROBLEM_INVALID
 */
export const readSchedulingProblem = (task: string, value: unknown): SchedulingProblem =>
  readContent('a scheduling problem', task, schema, value, ({ jobs, resources }, invalid) => {
    jobs.forEach((job, index) => {
      if (job.label !== labelOf(index))
        invalid(`job ${index + 1} must be labelled ${labelOf(index)}`);
      if (job.needs.length !== resources.length)
        invalid(`job ${job.label} must state its need of each of ${resources.length} resources`);
      for (const label of job.after) {
        if (label.length !== 1 || indexOf(label) < 0 || indexOf(label) >= jobs.length)
          invalid(`job ${job.label} comes after ${JSON.stringify(label)}, which is not a job`);
      }
    });
    if (topologicalOrder(jobs) === null) invalid('its precedences form a cycle');
  });

/**
 * Indices in an order in which every job follows its predecessors, the alphabetically first choice
 * each time; null for a cycle.
 */
export function topologicalOrder(jobs: readonly Job[]): number[] | null {
  const order: number[] = [];
  const done = new Set<number>();
  while (order.length < jobs.length) {
    const next = jobs.findIndex(
      (job, index) => !done.has(index) && job.after.every((label) => done.has(indexOf(label))),
    );
    if (next < 0) return null;
    done.add(next);
    order.push(next);
  }
  return order;
}
