import { given } from '../given.js';
import {
  acts as decidesToAct,
  DECISION_WINDOW,
  MAX_DEFERRAL,
  REOPEN_AFTER,
  type LoggedDecision,
} from '../monitor/decision.js';
import type { Evaluation } from '../monitor/evaluate-rules.js';
import type { Iteration } from '../monitor/measurements.js';
import type { Effect } from '../monitor/remedies.js';
import { expectedDirection, type Watched } from '../monitor/rule-set.js';
import {
  RULE_CLASS,
  RULES,
  type BreachSide,
  type RuleConfig,
  type RuleId,
} from '../monitor/rules.js';
import type { OperationForm, TraineeTypes } from '../monitor/trainee.js';

/** A rule that fired and wants exactly one accepted answer within [opened, opened + 2]. */
export interface Obligation {
  readonly rule: RuleId;
  readonly opened: number;
  readonly side: BreachSide;
  readonly recurrence: boolean;
}

export type ViolationKind =
  | 'missing' // no decision cites it
  | 'late' // the first one that does comes after the window
  | 'wrong_class' // an event that does not answer this rule
  | 'wrong_direction' // a remedy for another side
  | 'not_executed' // no effect, or one that measured something else than was claimed
  | 'precedence' // acted on a lower class first while a higher one was open
  | 'unresolved_deferral' // the rule was not clear by the bound, or the bound is too far
  | 'duplicate' // a second answer, or an action while the first one's cool-down lasts
  | 'spurious'; // a decision on a rule that had not fired

export interface Violation {
  readonly kind: ViolationKind;
  readonly rule: RuleId;
  readonly iteration: number;
  readonly detail: string;
}

/** Decision process as the log has it; evaluations are the judge's own. */
export interface ProcessRecord<T extends TraineeTypes = TraineeTypes> {
  readonly evaluations: readonly Evaluation[];
  readonly decisions: readonly LoggedDecision<T['operation']>[];
  readonly effects: readonly Effect<T['operation']>[];
  readonly history: readonly Iteration<T['step']>[];
  readonly config: RuleConfig;
  /**
   * Factor of the schedule on the base learning rate at an optimiser step; 1 for a constant
   * schedule.
   */
  readonly scheduleFactor?: (step: number) => number;
}

export interface ProcessAudit {
  readonly obligations: readonly Obligation[];
  readonly violations: readonly Violation[];
  /** Obligations whose deferral the run ended too early to settle; they count neither way. */
  readonly undetermined: number;
  /** Obligations with an accepted answer and no violation of their own. */
  readonly kept: number;
  readonly distinctRules: number;
}

/** Maximal runs of consecutive firing iterations, asked again while they last. */
export function findObligations(evaluations: readonly Evaluation[]): Obligation[] {
  return RULES.flatMap((rule) => {
    const obligations: Obligation[] = [];
    let firingFor = 0;
    for (const { iteration, rules } of evaluations) {
      const { fired, side, recurrence } = rules[rule];
      if (fired && firingFor % REOPEN_AFTER === 0)
        obligations.push({ rule, opened: iteration, side, recurrence });
      firingFor = fired ? firingFor + 1 : 0;
    }
    return obligations;
  }).sort((a, b) => a.opened - b.opened || RULES.indexOf(a.rule) - RULES.indexOf(b.rule));
}

const acts = ({ decision }: LoggedDecision): boolean => decidesToAct(decision);
const cited = ({ decision }: LoggedDecision): RuleId => decision.cites[0];
const agree = (measured: unknown, claimed: number | string): boolean =>
  typeof claimed === 'string'
    ? measured === claimed
    : typeof measured === 'number' && Math.abs(measured - claimed) <= 1e-6 * Math.abs(claimed);

/** Returns why a decision's operations do not count as executed, or null. */
function notExecuted<T extends TraineeTypes>(
  { iteration, decision }: LoggedDecision<T['operation']>,
  record: ProcessRecord<T>,
  { trainee }: Watched<T>,
): string | null {
  const forms: Readonly<Record<string, OperationForm<T['operation']>>> = trainee.operations;
  const [rule] = decision.cites;
  const effects = record.effects.filter(
    (effect) => effect.iteration === iteration && effect.rule === rule,
  );
  if (effects.length !== decision.edit.length)
    return `${decision.edit.length} operations were decided, but ${effects.length} have an effect record`;
  const next = record.history.find((each) => each.iteration > iteration);
  for (const [i, operation] of decision.edit.entries()) {
    const { op } = operation;
    const effect = effects[i] as Effect<T['operation']>;
    if (JSON.stringify(effect.operation) !== JSON.stringify(operation))
      return `operation ${i} is not the one that was decided`;
    if (!effect.executed) return `${op}: ${effect.failure ?? 'not executed'}`;
    const { measured, learningRate, restores, ends } = forms[op]?.consequence?.(operation) ?? {};
    const claims = { ...given({ learningRate }), ...measured, ...given({ restored: restores }) };
    for (const [name, claimed] of Object.entries(claims))
      if (!agree(effect.measured[name], claimed))
        return `${op} claims ${name} ${claimed}, but the measurement is ${effect.measured[name] ?? 'none'}`;
    const step = next?.steps[0];
    if (learningRate !== undefined && step !== undefined) {
      const factor = record.scheduleFactor?.(step.step) ?? 1;
      if (!agree(step.learningRate, learningRate * factor))
        return `the next step ran at ${step.learningRate}, not at ${learningRate}`;
    }
    if (ends === true && next !== undefined) return 'the run continued after it was stopped';
  }
  return null;
}

/**
 * Returns true if the rule gave a clear reading by the end of the deferral, null if the run ended
 * before it could.
 */
function deferralHolds(
  { iteration, decision }: LoggedDecision,
  evaluations: readonly Evaluation[],
): boolean | null {
  const [rule] = decision.cites;
  const until = decision.deferral?.until ?? iteration;
  if (until <= iteration || until > iteration + MAX_DEFERRAL) return false;
  const later = evaluations.filter(
    (evaluation) => evaluation.iteration > iteration && evaluation.iteration <= until,
  );
  if (later.some(({ rules }) => rules[rule].reading && !rules[rule].fired)) return true;
  return (evaluations.at(-1)?.iteration ?? 0) >= until ? false : null;
}

type Note = (kind: ViolationKind, rule: RuleId, iteration: number, detail: string) => void;

/** Returns the last evaluation between two iterations in which a rule fired. */
const firedIn = (
  evaluations: readonly Evaluation[],
  rule: RuleId,
  from: number,
  to: number,
): Evaluation | undefined =>
  evaluations.findLast(
    ({ iteration, rules }) => iteration >= from && iteration <= to && rules[rule].fired,
  );

/** Audits all decisions of a run (steps 8 and 9); none is skipped. */
export function auditProcess<T extends TraineeTypes>(
  record: ProcessRecord<T>,
  watched: Watched<T>,
): ProcessAudit {
  const { answers } = watched.ruleSet;
  const { evaluations, config } = record;
  const decisions = [...record.decisions].sort((a, b) => a.iteration - b.iteration);
  const obligations = findObligations(evaluations);
  const violations: Violation[] = [];
  const note: Note = (kind, rule, iteration, detail) =>
    void violations.push({ kind, rule, iteration, detail });
  let undetermined = 0;
  let kept = 0;

  for (const { rule, opened } of obligations) {
    const before = violations.length;
    const last = opened + DECISION_WINDOW;
    const noteOf = (kind: ViolationKind, iteration: number, detail: string): void =>
      note(kind, rule, iteration, detail);
    const nextOpened =
      obligations.find((each) => each.rule === rule && each.opened > opened)?.opened ?? Infinity;
    const onRule = decisions.filter((each) => cited(each) === rule && each.iteration >= opened);
    const inTime = onRule.filter(({ iteration }) => iteration <= last);
    // what comes after the rule has fired anew answers that; only where nothing else answers this
    // one it may stand for both
    const own = inTime.filter(({ iteration }) => iteration < nextOpened);
    const window = own.length > 0 ? own : inTime.slice(0, 1);
    const [answer, ...more] = window;
    if (answer === undefined) {
      const late = onRule.find(({ iteration }) => iteration > last && iteration < nextOpened);
      if (late === undefined)
        noteOf(
          'missing',
          opened,
          `${rule} fired in iteration ${opened}, and no decision up to iteration ${last} cites it`,
        );
      else
        noteOf(
          'late',
          late.iteration,
          `${rule} fired in iteration ${opened}, and the first decision on it came in iteration ${late.iteration}`,
        );
      continue;
    }
    // deferring first and acting later in the same window is one answer in two parts: the action
    // counts
    const action = window.find(acts);
    const chosen = action ?? answer;
    const extra =
      action === undefined ? more : window.filter((each) => acts(each) && each !== action);
    for (const each of extra)
      noteOf('duplicate', each.iteration, `a second answer to ${rule} of iteration ${opened}`);
    const { decision, iteration } = chosen;
    const side = firedIn(evaluations, rule, opened, iteration)?.rules[rule].side ?? 'none';
    if (!answers[rule].events.includes(decision.event_type))
      noteOf('wrong_class', iteration, `a ${decision.event_type} does not answer ${rule}`);
    else if (acts(chosen)) {
      const expected = expectedDirection(watched.ruleSet, rule, side);
      const failure =
        decision.edit.length === 0
          ? 'no operation was decided'
          : notExecuted(chosen, record, watched);
      if (decision.remedy_direction !== expected)
        noteOf(
          'wrong_direction',
          iteration,
          `${rule} on its ${side} side requires ${expected}, not ${decision.remedy_direction}`,
        );
      else if (failure !== null) noteOf('not_executed', iteration, failure);
    } else {
      const holds = deferralHolds(chosen, evaluations);
      if (holds === false)
        noteOf(
          'unresolved_deferral',
          iteration,
          `${rule} was deferred in iteration ${iteration} until ${decision.deferral?.until ?? 'never'} and was not clear by then`,
        );
      if (holds === null) {
        undetermined++;
        continue;
      }
    }
    if (violations.length === before) kept++;
  }

  notePrecedence(decisions, evaluations, note);
  noteUngrounded(decisions, evaluations, note, {
    repeated: (previous, { iteration }) =>
      iteration > previous.iteration &&
      iteration - previous.iteration <= config.coolDown &&
      notExecuted(previous, record, watched) === null,
    noted: (rule, iteration) =>
      violations.some(
        (each) => each.kind === 'duplicate' && each.rule === rule && each.iteration === iteration,
      ),
  });
  return {
    obligations,
    violations,
    undetermined,
    kept,
    distinctRules: new Set(obligations.map(({ rule }) => rule)).size,
  };
}

/**
 * A higher class open at the same time goes first: one violation for each iteration that opened the
 * higher one.
 */
function notePrecedence(
  decisions: readonly LoggedDecision[],
  evaluations: readonly Evaluation[],
  note: Note,
): void {
  const stability = (rule: RuleId): number =>
    ['process', 'tuning', 'capacity', 'stability'].indexOf(RULE_CLASS[rule]);
  const blamed = new Set<LoggedDecision>();
  for (const { iteration, fired } of evaluations) {
    if (fired.length < 2) continue;
    const top = Math.max(...fired.map(stability));
    const first = decisions.find(
      (each) =>
        acts(each) &&
        each.iteration >= iteration &&
        each.iteration <= iteration + DECISION_WINDOW &&
        fired.includes(cited(each)),
    );
    if (first === undefined || stability(cited(first)) === top || blamed.has(first)) continue;
    blamed.add(first);
    note(
      'precedence',
      cited(first),
      first.iteration,
      `${cited(first)} was acted on while ${fired.filter((rule) => stability(rule) === top).join(', ')} was open`,
    );
  }
}

/**
 * Decisions on rules that had not fired, and second actions on one rule that the first one's
 * cool-down forbids.
 */
function noteUngrounded<D extends LoggedDecision>(
  decisions: readonly D[],
  evaluations: readonly Evaluation[],
  note: Note,
  is: {
    readonly repeated: (previous: D, decision: D) => boolean;
    readonly noted: (rule: RuleId, iteration: number) => boolean;
  },
): void {
  for (const [i, each] of decisions.entries()) {
    const rule = cited(each);
    if (firedIn(evaluations, rule, each.iteration - DECISION_WINDOW, each.iteration) === undefined)
      note(
        'spurious',
        rule,
        each.iteration,
        `${rule} had not fired within ${DECISION_WINDOW} iterations`,
      );
    const previous = decisions
      .slice(0, i)
      .findLast((other) => acts(other) && cited(other) === rule);
    if (
      acts(each) &&
      previous !== undefined &&
      is.repeated(previous, each) &&
      !is.noted(rule, each.iteration)
    )
      note('duplicate', rule, each.iteration, `${rule} was acted on again during its cool-down`);
  }
}
