/** Every admissible answer to a fired rule, ready to be given: what a decider chooses from. */
import { MAX_DEFERRAL, type Decision } from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import { expectedDirection, type Watched } from './rule-set.js';
import type { RuleId } from './rules.js';
import type { TraineeTypes } from './trainee.js';

/** One admissible answer. */
export interface MenuOption<T extends TraineeTypes = TraineeTypes> {
  /** Stable name, the same in every run: `set_lr x1/5`, `defer 3`. */
  readonly id: string;
  /** What it does, in words. */
  readonly words: string;
  readonly decision: Decision<T['operation']>;
}
export type Menu<T extends TraineeTypes = TraineeTypes> = readonly MenuOption<T>[];

/** What a menu depends on, of the context of a decision. */
export interface MenuContext<T extends TraineeTypes = TraineeTypes> {
  readonly rule: RuleId;
  /** Oldest first; the last one is the present iteration, in which the rule fired. */
  readonly evaluations: readonly Evaluation[];
  readonly settings: T['settings'];
}

/** Iterations that a deferral on the menu lasts. */
export const DEFERRALS = [1, 3, MAX_DEFERRAL] as const;

/** Returns a decision that changes nothing; the rule must be clear by `until`. */
export function defer(
  rule: RuleId,
  iteration: number,
  reason: string,
  until = iteration + MAX_DEFERRAL,
): Decision<never> {
  return {
    event_type: 'rule_triggered_no_action',
    cites: [rule],
    justification: reason,
    remedy_direction: 'none',
    edit: [],
    deferral: { until, reason },
  };
}

/**
 * The admissible answers to a rule that fired in the last evaluation, remedies first: those that
 * the trainee has for it, and deferrals. Each passes `checkDecision`. The same context gives the
 * same menu, so that a judge can list it again.
 */
export function menuOf<T extends TraineeTypes>(
  { trainee, ruleSet }: Watched<T>,
  { rule, evaluations, settings }: MenuContext<T>,
): Menu<T> {
  const { iteration, rules } = evaluations.at(-1) as Evaluation;
  const { side, modules, recurrence, value, threshold } = rules[rule];
  const direction = expectedDirection(ruleSet, rule, side);
  const remedies =
    direction === null
      ? []
      : trainee.remedies({ rule, side, modules, recurrence, settings }).map(
          ({ id, words, edit }): MenuOption<T> => ({
            id,
            words,
            decision: {
              event_type: trainee.operations[edit[0]!.op as T['operation']['op']].event,
              cites: [rule],
              justification: `${rule} on its ${side} side: ${value ?? 'no value'} against ${threshold ?? 'no threshold'}`,
              remedy_direction: direction,
              edit,
              deferral: null,
            },
          }),
        );
  const deferrals = DEFERRALS.map((iterations): MenuOption<T> => {
    const span = iterations === 1 ? '1 iteration' : `${iterations} iterations`;
    return {
      id: `defer ${iterations}`,
      words: `change nothing now; ${rule} must be clear in ${span}`,
      decision: defer(rule, iteration, `${rule} is left alone for ${span}`, iteration + iterations),
    };
  });
  return [...remedies, ...deferrals];
}
