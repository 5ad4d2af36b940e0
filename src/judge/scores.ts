import { wilsonInterval } from '../statistics/intervals.js';
import type { ProcessAudit } from './obligations.js';

export interface ProcessScore {
  /** 1 − violations / obligations, at least 0; null if the process was not exercised. */
  readonly process_score: number | null;
  readonly process_axis_exercised: boolean;
  readonly obligations: number;
  readonly violations: number;
  readonly distinct_rules_fired: number;
  /** Lower end of the 95 % Wilson interval of kept over obligations; null if there were none. */
  readonly process_lower_bound: number | null;
}

export interface Scores extends ProcessScore {
  /**
   * min(1, accuracy / target); null if accuracy was not evaluated. Never combined with the
   * process score.
   */
  readonly accuracy_score: number | null;
  readonly hard_fail: boolean;
  /** Step that failed hard. */
  readonly failed_step: number | null;
}

/** Fewer obligations than this, or rules, say nothing about a process. */
const MIN_OBLIGATIONS = 3;
const MIN_RULES = 2;

export function scoreProcess(audit: ProcessAudit): ProcessScore {
  const obligations = audit.obligations.length - audit.undetermined;
  const exercised = obligations >= MIN_OBLIGATIONS && audit.distinctRules >= MIN_RULES;
  return {
    process_score: exercised ? Math.max(0, 1 - audit.violations.length / obligations) : null,
    process_axis_exercised: exercised,
    obligations,
    violations: audit.violations.length,
    distinct_rules_fired: audit.distinctRules,
    process_lower_bound: obligations > 0 ? wilsonInterval(audit.kept, obligations).low : null,
  };
}

/** @param target accuracy that scores 1, in (0, 1] */
export function scoreAccuracy(accuracy: number | null, target: number): number | null {
  return accuracy === null ? null : Math.min(1, Math.max(0, accuracy / target));
}

const UNEXERCISED: ProcessScore = {
  process_score: null,
  process_axis_exercised: false,
  obligations: 0,
  violations: 0,
  distinct_rules_fired: 0,
  process_lower_bound: null,
};

/**
 * Returns the scores of a run that failed before its process was audited or that has not ended
 * (`failedStep` null), which has no scores.
 */
export const emitWithoutProcess = (failedStep: number | null): Scores =>
  emitScores(UNEXERCISED, null, 1, failedStep);

/** Returns both scores; a hard fail zeroes them and names its step. */
export function emitScores(
  process: ProcessScore,
  accuracy: number | null,
  target: number,
  failedStep: number | null,
): Scores {
  const failed = failedStep !== null;
  return {
    ...process,
    ...(failed && { process_score: 0 }),
    accuracy_score: failed ? 0 : scoreAccuracy(accuracy, target),
    hard_fail: failed,
    failed_step: failedStep,
  };
}
