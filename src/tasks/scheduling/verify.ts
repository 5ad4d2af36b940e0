import type { Verdict, Violation } from '../task.js';
import { checkSchedule, type ScheduleFault } from './check-schedule.js';
import type { Schedule, SchedulingProblem } from './problem.js';
import { jobList, units } from './prompt.js';

/**
 * Judges a schedule: all violations, with categories `missing`, `unknown`, `range`, `precedence`,
 * `deadline`, `horizon` and `resources`; amounts are jobs, steps or units. `metrics.makespan` is
 * the latest end.
 */
export function verifySchedule(
  problem: SchedulingProblem,
  schedule: Schedule,
  latestStart?: number,
): Verdict {
  const { faults, makespan } = checkSchedule(problem, schedule, latestStart);
  if (faults.length === 0) return { kind: 'pass', violations: [], metrics: { makespan } };
  return {
    kind: 'fail',
    violations: faults.map((fault) => describe(problem, fault)),
    metrics: { makespan },
  };
}

function describe(problem: SchedulingProblem, fault: ScheduleFault): Violation {
  switch (fault.category) {
    case 'missing':
      return {
        category: 'missing',
        jobs: [fault.job],
        amount: 1,
        detail: `Job ${fault.job} has no start time.`,
      };
    case 'unknown':
      return {
        category: 'unknown',
        jobs: [fault.job.slice(0, 20)],
        amount: 1,
        detail: `There is no Job ${fault.job.slice(0, 20)}.`,
      };
    case 'range': {
      const { start } = fault;
      const amount = start < 0 ? -start : start > problem.horizon ? start - problem.horizon : 1;
      return {
        category: 'range',
        jobs: [fault.job],
        amount: Number.isFinite(amount) ? amount : Number.MAX_SAFE_INTEGER,
        detail: `Job ${fault.job} starts at ${start}, which is not a whole number from 0 to ${problem.horizon}.`,
      };
    }
    case 'precedence':
      return {
        category: 'precedence',
        jobs: [fault.before, fault.after],
        amount: fault.end - fault.start,
        detail: `Job ${fault.after} starts at ${fault.start}, before Job ${fault.before} has ended at ${fault.end}.`,
      };
    case 'deadline':
      return {
        category: 'deadline',
        jobs: [fault.job],
        amount: fault.end - fault.deadline,
        detail: `Job ${fault.job} ends at ${fault.end}, after its deadline ${fault.deadline}.`,
      };
    case 'horizon':
      return {
        category: 'horizon',
        jobs: [fault.job],
        amount: fault.end - problem.horizon,
        detail: `Job ${fault.job} ends at ${fault.end}; every job must end by time ${problem.horizon}.`,
      };
    case 'resources': {
      const { name, capacity } = problem.resources[fault.resource]!;
      return {
        category: 'resources',
        jobs: fault.jobs,
        amount: fault.peak - capacity,
        detail:
          `From time ${fault.from} to ${fault.to} ${jobList(fault.jobs)} together use up to ${units(fault.peak, name)}; there ` +
          `${capacity === 1 ? 'is' : 'are'} ${units(capacity, name)}.`,
      };
    }
  }
}
