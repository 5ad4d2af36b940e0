import { MAX_NONE_FRACTION, mcnemarExact } from '../statistics/index.js';

/**
 * Decides when the judge's own measurement refutes a claim. On a machine of the run's class every
 * verdict repeats. On another class rounding changes some replies and thus some verdicts. The model
 * does not know which machine belongs to whom, so as many of these change to its credit as to its
 * loss; McNemar's exact test asks that. Apart from chance, one kind of kernel may be slightly
 * better than another: ROUNDING_SHIFT forgives that much. The class of the run's machine is its own
 * claim, which therefore gains it only this.
 */

/** A claim that is refuted at this level was not measured. */
export const CLAIM_P = 1e-3;

/** Fraction of the problems by which kernels may explain the excess of one side. */
export const ROUNDING_SHIFT = 0.02;

/**
 * Problems of a pair of evaluations on which the claim is higher and lower than the measurement.
 */
export interface Differences {
  readonly more: number;
  readonly less: number;
}

/** Returns the two-sided p of a claim. @param of problems with a verdict on both sides */
export function claimP({ more, less }: Differences, of: number, sameMachine: boolean): number {
  const forgiven = sameMachine ? 0 : Math.ceil(ROUNDING_SHIFT * of);
  const [low, high] = [Math.min(more, less), Math.max(more, less)];
  return mcnemarExact(low, Math.max(low, high - forgiven));
}

export const isRefuted = (differences: Differences, of: number, sameMachine: boolean): boolean =>
  claimP(differences, of, sameMachine) < CLAIM_P;

/**
 * Returns how many verdicts a run may lack: its verifier may time out once, and on at most a
 * hundredth of the replies. More would hide failures.
 */
export const mostUndecided = (verdicts: number): number =>
  Math.max(1, MAX_NONE_FRACTION * verdicts);
