/** What a policy is told of a fired rule, and how long it may take. */
import type { LoggedDecision } from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import type { Iteration, Measurement } from './measurements.js';
import type { RuleId } from './rules.js';
import type { TraineeTypes } from './trainee.js';

/** Input of a policy, deeply frozen. */
export interface DecisionContext<T extends TraineeTypes = TraineeTypes> {
  /**
   * Rule to act on: the first that fired, or the next one if nothing is left to do about the first.
   */
  readonly rule: RuleId;
  /** Evaluations so far, oldest first; the last one is the present iteration. */
  readonly evaluations: readonly Evaluation[];
  readonly settings: T['settings'];
  /** Digests of the states that can be gone back to, by what they are called. */
  readonly snapshots: Readonly<Record<string, string>>;
  /** Measurements of the current iteration. */
  readonly measurements: Measurement<T['step']>;
  /**
   * The iterations before, oldest first, each with the rules whose remedy was executed after it.
   */
  readonly history: readonly Iteration<T['step']>[];
  /** Decisions of those iterations. */
  readonly decisions: readonly LoggedDecision<T['operation']>[];
  /** The contract, as the run's genesis commits to it: what each rule sees, and what answers it. */
  readonly playbook: string;
}

export interface DecideOptions {
  /** Aborted when the run is cancelled or time is up: the answer is no longer awaited. */
  readonly signal: AbortSignal;
  /** Milliseconds until then. */
  readonly timeout: number;
}
