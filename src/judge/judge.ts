import { Closers } from '../closers.js';
import type { Failures } from '../run-folder/derived-figures.js';
import type { ForgettingComparison } from './forgetting.js';
import type { Fresh } from './fresh-problems.js';
import { NotEnded } from './hard-fail.js';
import type { HeldOutResult } from './held-out.js';
import type { Violation } from './obligations.js';
import type { JudgedDeciders } from './questions.js';
import { checkOptions, type JudgeOptions } from './options.js';
import { emitScores, emitWithoutProcess, scoreProcess, type Scores } from './scores.js';
import { JUDGE } from './steps.js';
import type { TraceStep } from './trace.js';

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
  /** Trust assumptions of the result. */
  readonly trust: {
    readonly key: string;
    /** True: this user could have signed any history. */
    readonly ownedByThisUser: boolean;
    readonly signer: string | null;
    readonly ticket: { readonly number: number; readonly unfinishedBefore: number } | null;
    /** Null if the judge did not get that far. */
    readonly sameMachineClass: boolean | null;
  } | null;
  /**
   * Sentences about what was not measured or not confirmed; empty unless the verdict is
   * `not_verified`.
   */
  readonly notVerified: readonly string[];
  /**
   * Verdicts of the run that the judge could not find: its verifier ran out of time, or they are a
   * model's that is another one here.
   */
  readonly unverified: number;
  /** Measurements by the judge next to the run's claims; null if it did not evaluate. */
  readonly heldOut: HeldOutResult | null;
  /**
   * Accuracy of the submitted adapter on fresh problems and the gap to the test problems; null if
   * not measured.
   */
  readonly fresh: Fresh | null;
  /**
   * Forgetting measured by the judge next to the run's claim; null if the run or the judge did not
   * measure it.
   */
  readonly forgetting: ForgettingComparison | null;
  /** Failures of the run's rollouts by the judge's own verdicts; null if it had no task. */
  readonly failures: Failures | null;
  readonly violations: readonly Violation[];
  /**
   * Decision maker of the rules, as the genesis names it; null if the judge did not get that far.
   */
  readonly policy: string | null;
  /** Thresholds with which the run replaced those of its profile, such as `r3.patience 9 (2)`. */
  readonly ruleSettings: readonly string[];
  /** What a decider did, by who answered; null if the policy chooses from no menu. */
  readonly deciders: JudgedDeciders | null;
  readonly steps: readonly TraceStep[];
}

/**
 * Judges a finished run: integrity first, then whether the log contradicts itself, then the
 * submitted adapter. It runs nothing that the run supplied.
 * @throws IsoproError if the check is not possible (RUN_NOT_FOUND, LOG_NOT_FOUND,
 *   WITNESS_KEY_MISSING, MODEL_NOT_FOUND, INVALID_ARGUMENT for another base model or a key from the
 *   folder, ABORTED, …); faults of the run itself are a verdict
 */
export async function judgeRun(options: JudgeOptions): Promise<JudgeReport> {
  checkOptions(options);
  await using closers = new Closers();
  const { found, failure, steps } = await JUDGE.run({ options, closers }, options.onStep);
  const { verification, rollouts, audit, testSet } = found;
  const notEnded = failure instanceof NotEnded;
  const doubts = [...(rollouts?.doubts ?? []), ...(testSet?.doubts ?? [])];
  const scores =
    found.scores ??
    (audit === undefined || failure === null || notEnded
      ? emitWithoutProcess(notEnded ? null : (failure?.step ?? null))
      : emitScores(scoreProcess(audit), null, 1, failure.step));
  return {
    format: 'isopro.judge.v1',
    folder: options.folder,
    runId: verification?.runId ?? null,
    verdict: notEnded
      ? 'not_ended'
      : failure !== null
        ? 'hard_fail'
        : doubts.length === 0
          ? 'pass'
          : 'not_verified',
    failure: failure && { step: failure.step, name: failure.stepName, detail: failure.message },
    scores,
    trust:
      verification === undefined
        ? null
        : {
            key: verification.key.text,
            ownedByThisUser: verification.key.ownedByThisUser,
            signer: verification.signer,
            ticket: found.ticket ?? null,
            sameMachineClass: found.sameMachine ?? null,
          },
    notVerified: failure === null ? doubts : [],
    unverified: (rollouts?.unverified ?? 0) + (testSet?.unverified ?? 0),
    heldOut: testSet?.heldOut ?? null,
    fresh: testSet?.fresh ?? null,
    forgetting: testSet?.forgetting ?? null,
    failures: rollouts?.failures ?? null,
    violations: audit?.violations ?? [],
    policy: found.policy ?? null,
    ruleSettings: found.ruleSettings ?? [],
    deciders: found.deciders ?? null,
    steps,
  };
}
