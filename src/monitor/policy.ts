/**
 * Decides on a fired rule: how a policy is asked, and what happens to an answer that is late,
 * missing or invalid.
 */
import { offAbort, onAbort } from '../abort.js';
import { abortError, IsoproError } from '../errors.js';
import { acts, checkDecision, openedAt, type Decision, type LoggedDecision } from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import type { Iteration, Measurement } from './measurements.js';
import { defer } from './menu.js';
import type { Watched } from './rule-set.js';
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

/** Decides on one fired rule. It may be any code: the answer is data and is checked as such. */
export interface Policy<T extends TraineeTypes = TraineeTypes> {
  readonly name: string;
  decide(
    context: DecisionContext<T>,
    options: DecideOptions,
  ): Decision<T['operation']> | Promise<Decision<T['operation']>>;
}

/** Default of the milliseconds that a policy may take. */
export const DEFAULT_POLICY_TIMEOUT = 60_000;

/** Policy that only logs and changes nothing. */
export const observe = {
  name: 'observe',
  decide: ({ rule, evaluations }: Pick<DecisionContext, 'rule' | 'evaluations'>): Decision<never> =>
    defer(
      rule,
      (evaluations.at(-1) as Evaluation).iteration,
      'observed only: this run changes nothing by itself',
    ),
};

/** Reason why a rule has no answer. */
export interface Refusal {
  readonly rule: RuleId;
  readonly code: 'DECISION_INVALID' | 'POLICY_FAILED' | 'POLICY_TIMEOUT';
  readonly reason: string;
}

export interface Decided<T extends TraineeTypes> {
  readonly decisions: readonly Decision<T['operation']>[];
  readonly refused: Refusal | null;
}

export interface DecidingOptions<T extends TraineeTypes> {
  readonly watched: Watched<T>;
  readonly signal?: AbortSignal;
  readonly timeout?: number;
}

const REASON_LENGTH = 1000;

/** Returns text for the log from a value that foreign code threw. */
function wordsOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown)
      .slice(0, REASON_LENGTH)
      .toWellFormed();
  } catch {
    return 'a value that cannot be converted to text';
  }
}

const cancelled = (signal: AbortSignal | undefined): IsoproError =>
  abortError('the run was cancelled while its policy decided', signal);

/** @throws IsoproError ABORTED, POLICY_FAILED, POLICY_TIMEOUT */
async function answerOf<T extends TraineeTypes>(
  policy: Policy<T>,
  context: DecisionContext<T>,
  { signal, timeout = DEFAULT_POLICY_TIMEOUT }: Omit<DecidingOptions<T>, 'watched'>,
): Promise<unknown> {
  if (signal?.aborted === true) throw cancelled(signal);
  const late = (): IsoproError =>
    new IsoproError(
      'POLICY_TIMEOUT',
      `the policy ${policy.name} did not answer within ${timeout} ms`,
    );
  const over = new AbortController();
  const asked = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let abort: (() => void) | undefined;
  const ending = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), timeout);
    abort = (): void => reject(cancelled(signal));
    onAbort(signal, abort);
  });
  try {
    const answer: unknown = await Promise.race([
      (async () => policy.decide(context, { signal: over.signal, timeout }))().catch(
        (cause: unknown) => {
          throw new IsoproError(
            'POLICY_FAILED',
            `the policy ${policy.name} threw: ${wordsOf(cause)}`,
            { cause },
          );
        },
      ),
      ending,
    ]);
    // a policy that blocked the event loop also delayed its timer
    if (performance.now() - asked > timeout) throw late();
    return answer;
  } finally {
    clearTimeout(timer);
    if (abort !== undefined) offAbort(signal, abort);
    over.abort();
  }
}

/**
 * Decides on the rules that fired. The policy is asked about the first rule and, if it only defers
 * that one, about the next. Once it acts, the other rules are deferred to that action. An
 * obligation gets at most one deferral and one action, so an answered rule is not answered again.
 * If the policy throws, is late or gives an invalid answer, nothing is done instead: the rule stays
 * without an answer, no further rule is asked about in this iteration, and the policy is asked
 * again in the next iteration while the rule fires.
 * @param situation all of the context but what depends on the rule; frozen
 * @throws IsoproError ABORTED
 */
export async function decide<T extends TraineeTypes>(
  policy: Policy<T>,
  situation: Omit<DecisionContext<T>, 'rule' | 'snapshots'>,
  { watched, ...limits }: DecidingOptions<T>,
): Promise<Decided<T>> {
  const { evaluations, decisions: earlier, settings } = situation;
  const decisions: Decision<T['operation']>[] = [];
  const evaluation = evaluations.at(-1);
  if (evaluation === undefined) return { decisions, refused: null };
  const snapshots = Object.freeze(watched.trainee.snapshots(settings));
  let acting: RuleId | null = null;
  for (const rule of evaluation.fired) {
    const opened = openedAt(evaluations, rule);
    const answers = earlier.filter(
      ({ iteration, decision }) => decision.cites[0] === rule && iteration >= opened,
    );
    if (answers.some(({ decision }) => acts(decision))) continue;
    if (acting !== null) {
      if (answers.length === 0)
        decisions.push(defer(rule, evaluation.iteration, `deferred_to_${acting}`));
      continue;
    }
    let answer: Decision<T['operation']>;
    try {
      answer = checkDecision(
        await answerOf(policy, Object.freeze({ ...situation, rule, snapshots }), limits),
        evaluations,
        watched,
      );
    } catch (error) {
      if (!(error instanceof IsoproError) || error.code === 'ABORTED') throw error;
      return {
        decisions,
        refused: { rule, code: error.code as Refusal['code'], reason: wordsOf(error) },
      };
    }
    if (acts(answer)) acting = answer.cites[0];
    else if (answers.length > 0) continue;
    decisions.push(answer);
  }
  return { decisions, refused: null };
}
