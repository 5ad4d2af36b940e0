import { z } from 'zod';
import { IsoproError } from '../errors.js';
import type { Evaluation } from './evaluate-rules.js';
import { expectedDirection, type RuleSet, type Watched } from './rule-set.js';
import { RULES, type RuleId } from './rules.js';
import {
  EVENT_TYPES,
  type EventType,
  type Operation,
  type OperationForm,
  type Trainee,
  type TraineeTypes,
} from './trainee.js';

/** Iterations after a rule fired in which a decision on it is in time (E, E+1, E+2). */
export const DECISION_WINDOW = 2;
/** Most iterations that a deferral may last until its rule is clear. */
export const MAX_DEFERRAL = 5;

/** A decision as a policy returns it: a closed object, everything required. */
export interface Decision<O extends Operation = Operation> {
  readonly event_type: EventType;
  /** The rule that it answers. */
  readonly cites: readonly [RuleId];
  readonly justification: string;
  /** A direction of the rule set, or `none`. */
  readonly remedy_direction: string;
  /** Operations on the trainee, in this order. */
  readonly edit: readonly O[];
  readonly deferral: { readonly until: number; readonly reason: string } | null;
}

/** Text that has a place in the log: lone surrogates have no canonical form. */
const text = (longest: number): z.ZodString =>
  z
    .string()
    .trim()
    .min(1)
    .max(longest)
    .refine((given) => given.isWellFormed(), 'contains half of a surrogate pair');

/** An operation of a trainee, with its parameters. */
export function operationForm<T extends TraineeTypes>({
  operations,
}: Trainee<T>): z.ZodType<T['operation']> {
  const forms = Object.entries<OperationForm>(operations).map(([op, { parameters }]) =>
    z.strictObject({ op: z.literal(op), ...parameters }),
  );
  return z.discriminatedUnion('op', forms as [(typeof forms)[number]]) as unknown as z.ZodType<
    T['operation']
  >;
}

const directionsOf = ({ answers }: RuleSet): string[] => [
  ...new Set(RULES.flatMap((rule) => Object.values(answers[rule].directions))),
];

/**
 * Returns the schema of a decision. The monitor sets `iteration` and the other members of a record;
 * a policy cannot.
 * @param members further members of a record
 */
export const decisionSchema = <T extends TraineeTypes>(
  { trainee, ruleSet }: Watched<T>,
  members: z.ZodRawShape = {},
) =>
  z.strictObject({
    event_type: z.enum(EVENT_TYPES),
    cites: z.tuple([z.enum(RULES)]),
    justification: text(2000),
    remedy_direction: z.enum(['none', ...directionsOf(ruleSet)]),
    edit: z.array(operationForm(trainee)).max(64),
    deferral: z.strictObject({ until: z.number().int().min(0), reason: text(500) }).nullable(),
    ...members,
  });

/** Making a schema takes longer than a check by it. */
const schemas = new WeakMap<object, z.ZodType>();
function schemaOf<T extends TraineeTypes>(watched: Watched<T>): z.ZodType {
  const known = schemas.get(watched);
  if (known !== undefined) return known;
  const made = decisionSchema(watched);
  schemas.set(watched, made);
  return made;
}

const refuse = (reason: string): never => {
  throw new IsoproError('DECISION_INVALID', reason);
};

/**
 * Checks a decision: its form, and that it answers a rule that fired in this iteration or in the
 * window before it, with one cite, the right class of event, the direction for the breached side,
 * operations that serve it and a bounded deferral.
 * @param recent evaluations of the window, oldest first; the last one is of the decision's own
 *   iteration
 * @returns a copy that no one else holds
 * @throws IsoproError DECISION_INVALID; nothing has been logged then
 */
export function checkDecision<T extends TraineeTypes>(
  value: unknown,
  recent: readonly Evaluation[],
  watched: Watched<T>,
): Decision<T['operation']> {
  const { trainee, ruleSet } = watched;
  let data: unknown;
  try {
    data = structuredClone(value);
  } catch (cause) {
    throw new IsoproError('DECISION_INVALID', 'not a decision: it cannot be cloned', {
      cause,
    });
  }
  const parsed = schemaOf(watched).safeParse(data);
  if (!parsed.success) return refuse(`not a decision: ${z.prettifyError(parsed.error)}`);
  const decision = parsed.data as Decision<T['operation']>;
  const [rule] = decision.cites;
  const now = recent.at(-1)?.iteration ?? refuse('no rule was evaluated yet');
  const cited = recent
    .filter(({ iteration, rules }) => iteration >= now - DECISION_WINDOW && rules[rule].fired)
    .at(-1);
  if (cited === undefined)
    return refuse(`${rule} did not fire within the last ${DECISION_WINDOW} iterations`);
  if (!ruleSet.answers[rule].events.includes(decision.event_type))
    refuse(`a ${decision.event_type} does not answer ${rule}`);
  if (!acts(decision)) {
    if (decision.edit.length > 0 || decision.remedy_direction !== 'none')
      refuse('a decision without action must not have a direction or an operation');
    if (decision.deferral === null)
      return refuse('a decision without action must state until when its rule is deferred');
    if (decision.deferral.until <= now || decision.deferral.until > now + MAX_DEFERRAL)
      refuse(`a deferral must end 1 to ${MAX_DEFERRAL} iterations later`);
    return decision;
  }
  if (decision.deferral !== null) refuse('a decision that acts must not defer');
  const expected = expectedDirection(ruleSet, rule, cited.rules[rule].side);
  if (decision.remedy_direction !== expected)
    refuse(
      `${rule} on its ${cited.rules[rule].side} side requires ${expected}, not ${decision.remedy_direction}`,
    );
  if (decision.edit.length === 0) refuse('a decision that acts must name its operations');
  const forms: Readonly<Record<string, OperationForm>> = trainee.operations;
  for (const operation of decision.edit) {
    const form = forms[operation.op] as OperationForm;
    if (form.event !== decision.event_type)
      refuse(`${operation.op} does not belong to ${decision.event_type}`);
    if (!form.directions.includes(decision.remedy_direction))
      refuse(`${operation.op} does not ${decision.remedy_direction}`);
    const objection = form.objection?.(operation, decision.remedy_direction) ?? null;
    if (objection !== null) refuse(objection);
  }
  return decision;
}

/** A decision with the iteration that the monitor stamped on it. */
export interface LoggedDecision<O extends Operation = Operation> {
  readonly iteration: number;
  readonly decision: Decision<O>;
}

export const acts = ({ event_type }: Pick<Decision, 'event_type'>): boolean =>
  event_type !== 'rule_triggered_no_action';

/** Iterations after which a rule that keeps firing needs a new answer. */
export const REOPEN_AFTER = DECISION_WINDOW + 1;

/**
 * Returns the iteration at which the obligation of a rule's current firing was opened. The rule
 * must fire at the last evaluation.
 */
export function openedAt(evaluations: readonly Evaluation[], rule: RuleId): number {
  const clear = evaluations.findLastIndex(({ rules }) => !rules[rule].fired);
  const firing = evaluations.slice(clear + 1);
  return (firing[firing.length - 1 - ((firing.length - 1) % REOPEN_AFTER)] as Evaluation).iteration;
}
