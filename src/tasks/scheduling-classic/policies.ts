import { Random } from '../../random.js';
import { solveExactly } from '../scheduling/exact.js';
import { toSchedule } from '../scheduling/list-schedule.js';
import { POLICIES } from '../scheduling/policies.js';
import type { Schedule, SchedulingProblem } from '../scheduling/problem.js';

/** As the prompt words the capacities: a number of jobs, whatever each of them needs. */
export const asWorded = (problem: SchedulingProblem): SchedulingProblem => ({
  ...problem,
  jobs: problem.jobs.map((job) => ({ ...job, needs: job.needs.map((need) => Math.min(1, need)) })),
});

/** The rows of isopro.md §1.5. */
export const CLASSIC_POLICIES: Readonly<Record<string, (problem: SchedulingProblem) => Schedule>> =
  {
    'all-zeros': POLICIES['all-zeros'].decide,
    'random-start': (problem) => {
      const random = new Random(BigInt(`0x${problem.id.slice(0, 16)}`));
      const latest = solveExactly(problem)?.makespan ?? problem.horizon;
      return toSchedule(problem.jobs.map(() => random.nextInteger(0, latest)));
    },
    'serial-alphabetical': POLICIES['serial-alphabetical'].decide,
    'earliest-start': POLICIES['earliest-start'].decide,
    'serial-earliest-deadline': POLICIES['serial-earliest-deadline'].decide,
    'list-alphabetical': POLICIES['list-alphabetical'].decide,
    'list-earliest-deadline': POLICIES['list-earliest-deadline'].decide,
    'list-earliest-deadline-as-worded': (problem) =>
      POLICIES['list-earliest-deadline'].decide(asWorded(problem)),
  };
