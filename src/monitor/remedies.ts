import { acts, type Decision } from './decision.js';
import type { RuleId } from './rules.js';
import type { Measured, Operation } from './trainee.js';

/**
 * Measured effect of an operation on the trainee; the judge compares it with the next iteration's
 * records.
 */
export interface Effect<O extends Operation = Operation> {
  readonly kind: 'effect';
  readonly iteration: number;
  readonly rule: RuleId;
  readonly operation: O;
  readonly executed: boolean;
  /** Measured consequence by name: the learning rate now in force, what a step is made of, … */
  readonly measured: Measured;
  /** Reason why it was not executed. */
  readonly failure?: string;
}

/**
 * The side of a running trainee that remedies need. A call takes effect before the next step, or
 * throws with the state as it was.
 */
export interface RemedyExecutor<O extends Operation = Operation> {
  execute(operation: O): Promise<Measured>;
}

/**
 * Executes a decision's operations in order. One that fails ends the decision; its effect record
 * says so.
 */
export async function executeDecision<O extends Operation>(
  decision: Decision<O>,
  iteration: number,
  executor: RemedyExecutor<O>,
): Promise<Effect<O>[]> {
  const effects: Effect<O>[] = [];
  const [rule] = decision.cites;
  for (const operation of decision.edit) {
    const effect = { kind: 'effect', iteration, rule, operation } as const;
    try {
      const measured = await executor.execute(operation);
      effects.push({ ...effect, executed: true, measured });
    } catch (error) {
      const failure = error instanceof Error ? error.message : String(error);
      effects.push({ ...effect, executed: false, measured: {}, failure });
      break;
    }
  }
  return effects;
}

/** Returns the rules whose remedy was fully executed, for the iteration's `executed`. */
export function executedRules(
  decisions: readonly Decision[],
  effects: readonly Effect[],
): RuleId[] {
  return decisions
    .filter((decision) => acts(decision) && decision.edit.length > 0)
    .map(({ cites: [rule] }) => rule)
    .filter(
      (rule) =>
        effects.some((effect) => effect.rule === rule) &&
        effects.filter((effect) => effect.rule === rule).every(({ executed }) => executed),
    );
}
