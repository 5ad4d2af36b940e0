/**
 * Detects that the version in use is worse than the previous one, with an e-process over trials in
 * the order of time.
 */
import { z } from 'zod';
import type { Version } from './decide.js';
import { RestartingProcess } from './e-process.js';
import { shownE } from './outcome.js';
import { parsed } from './terms.js';
import { differenceOf, pair, trials, type TrialInput } from './trials.js';

export const rollbackTerms = z.strictObject({
  /** The chance of taking back a version that is not worse, over all of its life. */
  alpha: z.number().gt(0).lte(0.5).default(0.05),
  /** Worse by no more than this is not worse. */
  margin: z.number().min(0).lt(1).default(0),
});
export type RollbackTerms = z.output<typeof rollbackTerms>;
export type RollbackTermsInput = z.input<typeof rollbackTerms>;

export interface RollbackDecision {
  readonly decision: 'rollback' | 'keep' | 'invalid';
  readonly reasons: readonly string[];
  /** Problems that count, and where among them the evidence was there first (from 1), or null. */
  readonly blocks: number;
  readonly at: number | null;
  /** ln of the largest e-value so far, and its threshold. */
  readonly logE: number;
  readonly logThreshold: number;
  /** Trials that failed through no version's fault; they and their partners do not count. */
  readonly failed: readonly string[];
}

/**
 * Decides about the version in use from trials of it and of the previous version, which answers the
 * same problems in the shadow, in the order of time. Once the decision is `rollback`, more trials
 * do not change it. Unlike a gate it continues after a failed trial, because a faulty machine must
 * not switch the alarm off.
 * @throws IsoproError GATE_POLICY_INVALID, GATE_EVIDENCE_INVALID
 */
export function decideRollback(
  current: Version,
  previous: Version,
  evidence: readonly TrialInput[],
  terms: RollbackTermsInput = {},
): RollbackDecision {
  const { alpha, margin } = parsed(rollbackTerms, terms, 'policy', 'GATE_POLICY_INVALID');
  const given = parsed(trials, evidence, 'evidence', 'GATE_EVIDENCE_INVALID');
  const { blocks, faults, errors } = pair(given, current.id, previous.id);
  const process = new RestartingProcess();
  const logThreshold = -Math.log(alpha);
  let logE = 0;
  let at: number | null = null;
  if (faults.length === 0)
    blocks.forEach((block, index) => {
      process.add((-differenceOf(block) - margin) / (1 + margin));
      logE = Math.max(logE, process.logE());
      if (at === null && logE >= logThreshold) at = index + 1;
    });
  const said = `E reached ${shownE(logE)}; ${shownE(logThreshold)} is required`;
  return {
    decision: faults.length > 0 ? 'invalid' : at === null ? 'keep' : 'rollback',
    reasons: faults.length > 0 ? faults : [said],
    blocks: blocks.length,
    at,
    logE,
    logThreshold,
    failed: errors,
  };
}
