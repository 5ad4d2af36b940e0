import { z } from 'zod';
import { IsoproError } from '../errors.js';
import type { Evaluation } from './evaluate-rules.js';
import { RULES, type BreachSide, type RuleId } from './rules.js';

/** Iterations after a rule fired in which a decision on it is in time (E, E+1, E+2). */
export const DECISION_WINDOW = 2;
/** A deferral names an iteration at most so far ahead at which its rule is clear. */
export const MAX_DEFERRAL = 5;

export const DIRECTIONS = [
  'decrease_lr',
  'increase_lr',
  'increase_batch_size',
  'decrease_batch_size',
  'stop',
  'add_capacity',
  'recycle_directions',
  'rebalance_gradient',
  'stabilise',
  'none',
] as const;
export type Direction = (typeof DIRECTIONS)[number];
export const EVENT_TYPES = ['hyperparameter_change', 'architecture_change', 'rule_triggered_no_action'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

const module = z.string().min(1).max(200);
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const learningRate = z.number().positive().max(1);
const factor = z.number().positive().max(1e6);
const rank = z.number().int().min(1).max(1024);

/** What is done to the running trainer (env_rl.md §7.4). `from` is what the decision found, so that a stale one is refused. */
export const remedyOperation = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('set_lr'), from: learningRate, to: learningRate }),
  z.strictObject({ op: z.literal('set_batch'), from: z.number().int().min(1), to: z.number().int().min(8).max(65_536) }),
  z.strictObject({ op: z.literal('set_clip'), maxNorm: z.number().positive().max(1e6) }),
  z.strictObject({ op: z.literal('lr_mult'), module, factor }),
  z.strictObject({ op: z.literal('raise_precision'), adamEps: z.number().positive().max(1e-3) }),
  z.strictObject({ op: z.literal('stop'), restore: digest }),
  z.strictObject({ op: z.literal('skip_step') }),
  z.strictObject({ op: z.literal('rollback'), to: digest, learningRate: learningRate, maxNorm: z.number().positive().max(1e6) }),
  z.strictObject({ op: z.literal('raise_rank'), module, from: rank, to: rank }),
  z.strictObject({ op: z.literal('add_target'), module, rank }),
  z.strictObject({ op: z.literal('recycle'), module, directions: z.array(z.number().int().min(0)).min(1).max(1024) }),
  z.strictObject({ op: z.literal('rebalance'), module, factor }),
  z.strictObject({ op: z.literal('rescale'), module, factor }),
]);
export type RemedyOperation = z.infer<typeof remedyOperation>;
export type Operation = RemedyOperation['op'];

/** Which class of event an operation is, and which directions it can serve. */
export const OPERATIONS: Readonly<Record<Operation, { readonly event: EventType; readonly directions: readonly Direction[] }>> = {
  set_lr: { event: 'hyperparameter_change', directions: ['decrease_lr', 'increase_lr', 'stabilise'] },
  set_batch: { event: 'hyperparameter_change', directions: ['increase_batch_size', 'decrease_batch_size'] },
  set_clip: { event: 'hyperparameter_change', directions: ['stabilise'] },
  lr_mult: { event: 'hyperparameter_change', directions: ['rebalance_gradient'] },
  raise_precision: { event: 'hyperparameter_change', directions: ['rebalance_gradient'] },
  stop: { event: 'hyperparameter_change', directions: ['stop'] },
  skip_step: { event: 'hyperparameter_change', directions: ['stabilise'] },
  rollback: { event: 'hyperparameter_change', directions: ['stabilise'] },
  raise_rank: { event: 'architecture_change', directions: ['add_capacity'] },
  add_target: { event: 'architecture_change', directions: ['add_capacity'] },
  recycle: { event: 'architecture_change', directions: ['recycle_directions'] },
  rebalance: { event: 'architecture_change', directions: ['rebalance_gradient'] },
  rescale: { event: 'architecture_change', directions: ['rebalance_gradient'] },
};

const HYPER: readonly EventType[] = ['hyperparameter_change', 'rule_triggered_no_action'];
const ARCHITECTURE: readonly EventType[] = ['architecture_change', 'rule_triggered_no_action'];
export const ALLOWED_EVENTS: Readonly<Record<RuleId, readonly EventType[]>> = {
  R1: HYPER,
  R2: HYPER,
  R3: HYPER,
  R4: ARCHITECTURE,
  R5: ARCHITECTURE,
  R6: EVENT_TYPES,
  R7: EVENT_TYPES,
};

/** The direction that cures a breach on a side; null where that side does not exist for the rule. */
export function expectedDirection(rule: RuleId, side: BreachSide): Direction | null {
  const table: Readonly<Record<RuleId, Partial<Record<BreachSide, Direction>>>> = {
    R1: { high: 'decrease_lr', low: 'increase_lr', plateau: 'decrease_lr' },
    R2: { high: 'increase_batch_size', low: 'decrease_batch_size' },
    R3: { plateau: 'stop' },
    R4: { plateau: 'add_capacity' },
    R5: { high: 'recycle_directions' },
    R6: { low: 'rebalance_gradient' },
    R7: { high: 'stabilise', nonfinite: 'stabilise' },
  };
  return table[rule][side] ?? null;
}

/**
 * A decision as a policy returns it: a closed object, everything required. `iteration` and the other reserved keys are set by the
 * monitor when it is logged; a policy cannot.
 */
export const decisionSchema = z.strictObject({
  event_type: z.enum(EVENT_TYPES),
  cites: z.tuple([z.enum(RULES)]),
  justification: z.string().trim().min(1).max(2000),
  remedy_direction: z.enum(DIRECTIONS),
  edit: z.array(remedyOperation).max(64),
  deferral: z.strictObject({ until: z.number().int().min(0), reason: z.string().trim().min(1).max(500) }).nullable(),
});
export type Decision = z.infer<typeof decisionSchema>;

const refuse = (reason: string): never => {
  throw new IsoproError('DECISION_INVALID', reason);
};

/** A learning rate changes by 1/10 to 1/3, or by 1.5 to 3; one unit in the last place is not worth a refusal. */
function checkSize(operation: RemedyOperation): void {
  const within = (ratio: number, low: number, high: number): boolean => ratio >= low * (1 - 1e-9) && ratio <= high * (1 + 1e-9);
  switch (operation.op) {
    case 'set_lr': {
      const ratio = operation.to / operation.from;
      if (!within(ratio, 1 / 10, 1 / 3) && !within(ratio, 1.5, 3))
        refuse(`set_lr changes the rate by ${ratio}; 1/10 to 1/3 or 1.5 to 3 is allowed`);
      break;
    }
    case 'set_batch': {
      // downwards it may stop at the floor of 8 before the half
      const halved = operation.to === Math.max(8, Math.ceil(operation.from / 2)) && operation.to < operation.from;
      if (operation.to !== 2 * operation.from && !halved) refuse('set_batch doubles or halves the batch, to not less than 8');
      break;
    }
    case 'raise_rank':
      if (operation.to <= operation.from) refuse('raise_rank raises the rank');
      break;
    default:
  }
}

/**
 * Checks a decision's form and that it answers a rule that fired at this iteration or in the window before it: one cite, the right class of
 * event, the direction for the side that was breached, operations that serve it, a bounded deferral.
 * @param recent evaluations of the window, oldest first; the last one is the decision's own iteration
 * @throws IsoproError DECISION_INVALID; nothing has been logged then
 */
export function checkDecision(value: unknown, recent: readonly Evaluation[]): Decision {
  const parsed = decisionSchema.safeParse(value);
  if (!parsed.success) return refuse(`not a decision: ${z.prettifyError(parsed.error)}`);
  const decision = parsed.data;
  const [rule] = decision.cites;
  const now = recent.at(-1)?.iteration ?? refuse('nothing was evaluated yet');
  const cited = recent.filter(({ iteration, rules }) => iteration >= now - DECISION_WINDOW && rules[rule].fired).at(-1);
  if (cited === undefined) return refuse(`${rule} did not fire within the last ${DECISION_WINDOW} iterations`);
  if (!ALLOWED_EVENTS[rule].includes(decision.event_type)) refuse(`a ${decision.event_type} does not answer ${rule}`);
  if (decision.event_type === 'rule_triggered_no_action') {
    if (decision.edit.length > 0 || decision.remedy_direction !== 'none')
      refuse('a decision without action has no direction and no operation');
    if (decision.deferral === null) return refuse('a decision without action says until when its rule is deferred');
    if (decision.deferral.until <= now || decision.deferral.until > now + MAX_DEFERRAL)
      refuse(`a deferral ends 1 to ${MAX_DEFERRAL} iterations later`);
    return decision;
  }
  if (decision.deferral !== null) refuse('a decision that acts defers nothing');
  const expected = expectedDirection(rule, cited.rules[rule].side);
  if (decision.remedy_direction !== expected)
    refuse(`${rule} on its ${cited.rules[rule].side} side wants ${expected}, not ${decision.remedy_direction}`);
  if (decision.edit.length === 0) refuse('a decision that acts names its operations');
  for (const operation of decision.edit) {
    const { event, directions } = OPERATIONS[operation.op];
    if (event !== decision.event_type) refuse(`${operation.op} is no ${decision.event_type}`);
    if (!directions.includes(decision.remedy_direction)) refuse(`${operation.op} does not ${decision.remedy_direction}`);
    if (operation.op === 'set_lr') {
      const down = decision.remedy_direction !== 'increase_lr';
      if (operation.to < operation.from !== down) refuse(`set_lr goes the other way than ${decision.remedy_direction}`);
    }
    if (operation.op === 'set_batch' && operation.to > operation.from !== (decision.remedy_direction === 'increase_batch_size'))
      refuse(`set_batch goes the other way than ${decision.remedy_direction}`);
    checkSize(operation);
  }
  return decision;
}

/** A decision with the iteration that the monitor stamped on it. */
export interface LoggedDecision {
  readonly iteration: number;
  readonly decision: Decision;
}

export const acts = ({ event_type }: Decision): boolean => event_type !== 'rule_triggered_no_action';

/** While a rule keeps firing it is owed a new answer every so many iterations. */
export const REOPEN_AFTER = DECISION_WINDOW + 1;

/**
 * The iteration at which the obligation that a rule's present firing belongs to was opened. Needs a rule that fires at the last evaluation.
 */
export function openedAt(evaluations: readonly Evaluation[], rule: RuleId): number {
  const clear = evaluations.findLastIndex(({ rules }) => !rules[rule].fired);
  const firing = evaluations.slice(clear + 1);
  return (firing[firing.length - 1 - ((firing.length - 1) % REOPEN_AFTER)] as Evaluation).iteration;
}
