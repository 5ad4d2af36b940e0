import type { Grades, Verdict, VerdictKind } from '../task.js';

/** What the solver knows about a problem. */
export interface GroundTruth {
  readonly status: 'optimal' | 'feasible' | 'infeasible' | 'unknown';
  /** Start times of the best schedule found, or null. */
  readonly schedule: Readonly<Record<string, number>> | null;
  /** Its makespan, or null. */
  readonly makespan: number | null;
  /** No schedule is shorter. Equals `makespan` when the status is `optimal`. */
  readonly lowerBound: number;
}

/** Tolerances in percent of the optimum, so that the comparison is exact. */
export const EPSILON_PERCENT = [0, 10] as const;

/**
 * `feasible` (the training gate) and, for each ε, feasible with a makespan of at most (1+ε) times
 * the optimum. An ε grade that the solver's bounds do not settle is `none`.
 */
export function gradeSchedule(verdict: Verdict, truth: GroundTruth | null): Grades {
  const grades: Record<string, VerdictKind> = { feasible: verdict.kind };
  for (const percent of EPSILON_PERCENT)
    grades[`epsilon${percent / 100}`] =
      verdict.kind === 'pass' ? within(verdict.metrics.makespan!, percent, truth) : verdict.kind;
  return grades;
}

function within(makespan: number, percent: number, truth: GroundTruth | null): VerdictKind {
  if (truth === null) return 'none';
  if (makespan * 100 <= (100 + percent) * truth.lowerBound) return 'pass';
  if (truth.makespan !== null && makespan * 100 > (100 + percent) * truth.makespan) return 'fail';
  return 'none';
}
