/**
 * Decides on a fired rule: how a policy is asked, and what happens to an answer that is late,
 * missing or invalid.
 */
import { IsoproError } from '../errors.js';
import { answerWithin, wordsOf, type AnswerLimits } from './answer.js';
import type { DecideOptions, DecisionContext } from './context.js';
import { acts, checkDecision, openedAt, type Decision } from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import { defer, type MenuOption } from './menu.js';
import { isDecider, type Decider } from './question.js';
import type { Watched } from './rule-set.js';
import type { RuleId } from './rules.js';
import type { TraineeTypes } from './trainee.js';

export { DEFAULT_POLICY_TIMEOUT } from './answer.js';
export type { DecideOptions, DecisionContext } from './context.js';

/** Decides on one fired rule. It may be any code: the answer is data and is checked as such. */
export interface Policy<T extends TraineeTypes = TraineeTypes> {
  readonly name: string;
  decide(
    context: DecisionContext<T>,
    options: DecideOptions,
  ): Decision<T['operation']> | Promise<Decision<T['operation']>>;
}

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

export interface DecidingOptions<T extends TraineeTypes> extends AnswerLimits {
  readonly watched: Watched<T>;
  /** Poses a question to a decider and records it; needed where the policy is one. */
  readonly pose?: (
    decider: Decider<T>,
    context: DecisionContext<T>,
    limits: AnswerLimits,
  ) => Promise<MenuOption<T>>;
}

const answerOf = <T extends TraineeTypes>(
  policy: Policy<T>,
  context: DecisionContext<T>,
  limits: AnswerLimits,
): Promise<unknown> =>
  answerWithin<unknown>(policy.name, (options) => policy.decide(context, options), limits);

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
  policy: Policy<T> | Decider<T>,
  situation: Omit<DecisionContext<T>, 'rule' | 'snapshots'>,
  { watched, pose, ...limits }: DecidingOptions<T>,
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
    const context = Object.freeze({ ...situation, rule, snapshots });
    // what a decider chooses is on the menu, and what goes wrong in recording it ends the run
    const chosen =
      isDecider<T>(policy) && pose !== undefined ? await pose(policy, context, limits) : null;
    let answer: Decision<T['operation']>;
    try {
      answer = checkDecision(
        chosen?.decision ?? (await answerOf(policy as Policy<T>, context, limits)),
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
