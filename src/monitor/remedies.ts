import type { Decision, RemedyOperation } from './decision.js';
import type { RuleId } from './rules.js';

/** What an operation did, as measured on the trainer; the judge compares it with the next iteration's records. */
export interface Effect {
  readonly kind: 'effect';
  readonly iteration: number;
  readonly rule: RuleId;
  readonly operation: RemedyOperation;
  readonly executed: boolean;
  /** Measured consequence by name: the learning rate now in force, sequences per step, the probe's largest logit change, … */
  readonly measured: { readonly [name: string]: number | string };
  /** Why it was not executed. */
  readonly failure?: string;
}

/** The side of the trainer that remedies need. Each call takes effect before the next optimiser step or throws with the state as it was. */
export interface RemedyExecutor {
  execute(operation: RemedyOperation): Promise<{ readonly [name: string]: number | string }>;
}

/** Executes a decision's operations in order. One that fails ends the decision; its effect record says so. */
export async function executeDecision(decision: Decision, iteration: number, executor: RemedyExecutor): Promise<Effect[]> {
  const effects: Effect[] = [];
  const [rule] = decision.cites;
  for (const operation of decision.edit) {
    try {
      const measured = await executor.execute(operation);
      effects.push({ kind: 'effect', iteration, rule, operation, executed: true, measured });
    } catch (error) {
      effects.push({
        kind: 'effect',
        iteration,
        rule,
        operation,
        executed: false,
        measured: {},
        failure: error instanceof Error ? error.message : String(error),
      });
      break;
    }
  }
  return effects;
}

/** Rules whose remedy was executed as a whole; they go into the iteration's `executed`. */
export function executedRules(decisions: readonly Decision[], effects: readonly Effect[]): RuleId[] {
  return decisions
    .filter(({ event_type, edit }) => event_type !== 'rule_triggered_no_action' && edit.length > 0)
    .map(({ cites: [rule] }) => rule)
    .filter(
      (rule) =>
        effects.some((effect) => effect.rule === rule) &&
        effects.filter((effect) => effect.rule === rule).every(({ executed }) => executed),
    );
}
