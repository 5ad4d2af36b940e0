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
  const { category } = fault;
  const violation = (jobs: readonly string[], amount: number, detail: string): Violation => ({
    category,
    jobs,
    amount,
    detail,
  });
  switch (category) {
    case 'missing':
      return violation([fault.job], 1, `Job ${fault.job} has no start time.`);
    case 'unknown': {
      const job = fault.job.slice(0, 20);
      return violation([job], 1, `There is no Job ${job}.`);
    }
    case 'range': {
      const { job, start } = fault;
      const amount = start < 0 ? -start : start > problem.horizon ? start - problem.horizon : 1;
      return violation(
        [job],
        Number.isFinite(amount) ? amount : Number.MAX_SAFE_INTEGER,
        `Job ${job} starts at ${start}, which is not a whole number from 0 to ${problem.horizon}.`,
      );
    }
    case 'precedence': {
      const { before, after, start, end } = fault;
      const detail = `Job ${after} starts at ${start}, before Job ${before} has ended at ${end}.`;
      return violation([before, after], end - start, detail);
    }
    case 'deadline': {
      const { job, end, deadline } = fault;
      const detail = `Job ${job} ends at ${end}, after its deadline ${deadline}.`;
      return violation([job], end - deadline, detail);
    }
    case 'horizon': {
      const { job, end } = fault;
      const detail = `Job ${job} ends at ${end}; every job must end by time ${problem.horizon}.`;
      return violation([job], end - problem.horizon, detail);
    }
    case 'resources': {
      const { jobs, from, to, peak } = fault;
      const { name, capacity } = problem.resources[fault.resource]!;
      return violation(
        jobs,
        peak - capacity,
        `From time ${from} to ${to} ${jobList(jobs)} together use up to ${units(peak, name)}; there ` +
          `${capacity === 1 ? 'is' : 'are'} ${units(capacity, name)}.`,
      );
    }
  }
}
