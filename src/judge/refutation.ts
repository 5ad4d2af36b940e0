import { MAX_NONE_FRACTION, mcnemarExact } from '../statistics/index.js';

/**
 * When the judge's own measurement refutes a claim. On a machine of the run's class every verdict
 * repeats. On another one rounding changes some replies, and so some verdicts: the model does not
 * know which of the two machines is whose, so that of those that differ as many change to its
 * credit as to its loss, which is what McNemar's exact test asks. What is left beside chance is
 * that one kind of kernel may be a little better than another: so many problems in a hundred are
 * forgiven, and no more. Which class the run was on is its own word, which therefore buys it that
 * much and nothing else.
 */

/** A claim that is refuted at this level was not measured. */
export const CLAIM_P = 1e-3;

/** Part of the problems by which the excess of one side over the other may be the kernels'. */
export const ROUNDING_SHIFT = 0.02;

/** Problems of a pair of evaluations on which the claim says more, and less, than was measured. */
export interface Differences {
  readonly more: number;
  readonly less: number;
}

/** p of the claim, two-sided. @param of problems with a verdict on both sides */
export function claimP({ more, less }: Differences, of: number, sameMachine: boolean): number {
  const forgiven = sameMachine ? 0 : Math.ceil(ROUNDING_SHIFT * of);
  const [low, high] = [Math.min(more, less), Math.max(more, less)];
  return mcnemarExact(low, Math.max(low, high - forgiven));
}

export const isRefuted = (differences: Differences, of: number, sameMachine: boolean): boolean =>
  claimP(differences, of, sameMachine) < CLAIM_P;

/**
 * A run's verifier may have run out of time once, and on no more than a hundredth of the replies:
 * more of it hides failures.
 */
export const mostUndecided = (verdicts: number): number =>
  Math.max(1, MAX_NONE_FRACTION * verdicts);
