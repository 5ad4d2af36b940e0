import type { Failures } from '../run-folder/derived.js';
import type { ForgettingComparison } from './forgetting.js';
import type { Fresh } from './fresh.js';
import { HardFail, NotEnded } from './hard-fail.js';
import type { HeldOutResult } from './held-out.js';
import type { Violation } from './obligations.js';
import { checkOptions, type JudgeOptions } from './options.js';
import { emitScores, emitWithoutProcess, scoreProcess, type Scores } from './scores.js';
import { judgeSteps, type Findings } from './steps.js';
import { JudgeTrace, type TraceStep } from './trace.js';

export interface JudgeReport {
  readonly format: 'isopro.judge.v1';
  readonly folder: string;
  readonly runId: string | null;
  /**
   * `not_ended`: nothing disagrees, and nothing is scored. `not_verified`: nothing disagrees, and
   * not everything that the run claims was measured and found again here; `notVerified` says what.
   */
  readonly verdict: 'pass' | 'not_verified' | 'hard_fail' | 'not_ended';
  readonly failure: {
    readonly step: number;
    readonly name: string;
    readonly detail: string;
  } | null;
  readonly scores: Scores;
  /** What the result is relative to. */
  readonly trust: {
    readonly key: string;
    /** True: the user who judges could have signed any history. */
    readonly ownedByThisUser: boolean;
    readonly signer: string | null;
    readonly ticket: { readonly number: number; readonly unfinishedBefore: number } | null;
    /** Null where it was not reached. */
    readonly sameMachineClass: boolean | null;
  } | null;
  /**
   * What was not measured or not found again, in words; empty where the verdict is another than
   * `not_verified`.
   */
  readonly notVerified: readonly string[];
  /**
   * Verdicts of the run that the judge could not find: its verifier ran out of time, or they are a
   * model's that is another one here.
   */
  readonly unverified: number;
  /** Measured by the judge, beside the run's claim; null where it was not evaluated. */
  readonly heldOut: HeldOutResult | null;
  /**
   * The submitted adapter on fresh problems, beside the gap to the test problems; null where they
   * were not measured.
   */
  readonly fresh: Fresh | null;
  /**
   * What the model forgot, measured by the judge, beside the run's claim; null where the run or the
   * judge did not measure it.
   */
  readonly forgetting: ForgettingComparison | null;
  /**
   * Why the run's rollouts do not pass, by the judge's own verdicts; null where it had no task to
   * find them with.
   */
  readonly failures: Failures | null;
  readonly violations: readonly Violation[];
  /** Who decided on the rules, as the genesis names it; null where it was not reached. */
  readonly policy: string | null;
  /** Thresholds with which the run replaced those of its profile, such as `r3.patience 9 (2)`. */
  readonly ruleSettings: readonly string[];
  readonly steps: readonly TraceStep[];
}

/**
 * Judges a finished run: integrity first, then what the log says against itself, then the submitted
 * adapter. Runs nothing that the run supplied.
 * @throws IsoproError where the check cannot be made (RUN_NOT_FOUND, LOG_NOT_FOUND,
 *   WITNESS_KEY_MISSING, MODEL_NOT_FOUND, INVALID_ARGUMENT for another base model or a key from the
 *   folder, ABORTED, …); what the run itself got wrong is a verdict
 */
export async function judgeRun(options: JudgeOptions): Promise<JudgeReport> {
  checkOptions(options);
  const trace = new JudgeTrace(options.onStep);
  const findings: Findings = {
    verification: null,
    ticket: null,
    sameMachine: null,
    policy: null,
    ruleSettings: [],
    audit: null,
    heldOut: null,
    fresh: null,
    forgetting: null,
    failures: null,
    unverified: 0,
    doubts: [],
    scores: null,
  };
  let failure: HardFail | null = null;
  try {
    await judgeSteps(options, trace, findings);
  } catch (error) {
    if (!(error instanceof HardFail)) throw error;
    failure = error;
  }
  const {
    verification,
    ticket,
    sameMachine,
    audit,
    heldOut,
    fresh,
    forgetting,
    failures,
    unverified,
    doubts,
  } = findings;
  const notEnded = failure instanceof NotEnded;
  const scores =
    findings.scores ??
    (audit === null || failure === null || notEnded
      ? emitWithoutProcess(notEnded ? null : (failure?.step ?? null))
      : emitScores(scoreProcess(audit), null, 1, failure.step));
  return {
    format: 'isopro.judge.v1',
    folder: options.folder,
    runId: verification?.runId ?? null,
    verdict:
      failure === null
        ? doubts.length === 0
          ? 'pass'
          : 'not_verified'
        : notEnded
          ? 'not_ended'
          : 'hard_fail',
    failure:
      failure === null
        ? null
        : { step: failure.step, name: failure.stepName, detail: failure.message },
    scores,
    trust:
      verification === null
        ? null
        : {
            key: verification.key.text,
            ownedByThisUser: verification.key.ownedByThisUser,
            signer: verification.signer,
            ticket,
            sameMachineClass: sameMachine,
          },
    notVerified: failure === null ? doubts : [],
    unverified,
    heldOut,
    fresh,
    forgetting,
    failures,
    violations: audit?.violations ?? [],
    policy: findings.policy,
    ruleSettings: findings.ruleSettings,
    steps: trace.steps,
  };
}
