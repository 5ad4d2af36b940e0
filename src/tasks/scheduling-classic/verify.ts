import { LATEST_START } from '../scheduling/check-schedule.js';
import { indexOf, type Schedule, type SchedulingProblem } from '../scheduling/problem.js';
import { verifySchedule } from '../scheduling/verify.js';
import type { Verdict } from '../task.js';

/** No `horizon`: a job's deadline is never later, so that fault comes with a deadline fault. */
const CATEGORY: Readonly<Record<string, string>> = {
  missing: 'validity',
  range: 'validity',
  precedence: 'precedence',
  resources: 'resource_capacity',
  deadline: 'deadlines',
};

/**
 * The original's checks and category names (isopro.md §3.2): letters that are no job are ignored,
 * the unstated horizon is a deadline of every job that has none, capacity is checked by the event
 * sweep instead of step by step.
 */
export function verifyClassic(problem: SchedulingProblem, schedule: Schedule): Verdict {
  const known = Object.fromEntries(
    Object.entries(schedule).filter(([label]) => indexOf(label) < problem.jobs.length),
  );
  const due = {
    ...problem,
    jobs: problem.jobs.map((job) => ({ ...job, deadline: job.deadline ?? problem.horizon })),
  };
  const verdict = verifySchedule(due, known, LATEST_START);
  const violations = verdict.violations
    .filter((violation) => violation.category !== 'horizon')
    .map((violation) => ({ ...violation, category: CATEGORY[violation.category]! }));
  return { ...verdict, violations };
}
