import { acts, checkDecision, MAX_DEFERRAL, openedAt, type Decision, type LoggedDecision } from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import type { Watched } from './rule-set.js';
import type { RuleId } from './rules.js';
import type { TraineeTypes } from './trainee.js';

export interface DecisionContext<T extends TraineeTypes = TraineeTypes> {
  /** The rule to act on: the first of those that fired, or the next one where nothing is left to do about the first. */
  readonly rule: RuleId;
  /** Evaluations so far, oldest first; the last one is the present iteration. */
  readonly evaluations: readonly Evaluation[];
  readonly settings: T['settings'];
}

/** Decides on one fired rule. A language model may stand behind it: the answer is checked like any other. */
export interface Policy<T extends TraineeTypes = TraineeTypes> {
  readonly name: string;
  decide(context: DecisionContext<T>): Decision<T['operation']> | Promise<Decision<T['operation']>>;
}

/** Changes nothing: the rule has to be clear by then. */
export function defer(rule: RuleId, iteration: number, reason: string, until = iteration + MAX_DEFERRAL): Decision<never> {
  return {
    event_type: 'rule_triggered_no_action',
    cites: [rule],
    justification: reason,
    remedy_direction: 'none',
    edit: [],
    deferral: { until, reason },
  };
}

/** Logs and changes nothing. */
export const observe = {
  name: 'observe',
  decide: ({ rule, evaluations }: Pick<DecisionContext, 'rule' | 'evaluations'>): Decision<never> =>
    defer(rule, (evaluations.at(-1) as Evaluation).iteration, 'observed only: this run changes nothing by itself'),
};

/**
 * Decisions on the rules that fired. The policy is asked about the first of them, and where it only defers that one, about the next; once
 * it acts, the others are deferred to that. An obligation gets one deferral and one action at most, so that what was answered before is not
 * answered again.
 * @param earlier decisions of the iterations before
 * @throws IsoproError DECISION_INVALID where the policy's answer does not hold; nothing may be logged or executed then
 */
export async function decide<T extends TraineeTypes>(
  policy: Policy<T>,
  evaluations: readonly Evaluation[],
  settings: T['settings'],
  watched: Watched<T>,
  earlier: readonly LoggedDecision[] = [],
): Promise<Decision<T['operation']>[]> {
  const evaluation = evaluations.at(-1);
  if (evaluation === undefined) return [];
  const decisions: Decision<T['operation']>[] = [];
  let acting: RuleId | null = null;
  for (const rule of evaluation.fired) {
    const opened = openedAt(evaluations, rule);
    const answers = earlier.filter(({ iteration, decision }) => decision.cites[0] === rule && iteration >= opened);
    if (answers.some(({ decision }) => acts(decision))) continue;
    if (acting !== null) {
      if (answers.length === 0) decisions.push(defer(rule, evaluation.iteration, `deferred_to_${acting}`));
      continue;
    }
    const answer = checkDecision(await policy.decide({ rule, evaluations, settings }), evaluations, watched);
    if (acts(answer)) acting = answer.cites[0];
    else if (answers.length > 0) continue;
    decisions.push(answer);
  }
  return decisions;
}
