import {
  acts,
  checkDecision,
  expectedDirection,
  MAX_DEFERRAL,
  openedAt,
  OPERATIONS,
  type Decision,
  type LoggedDecision,
  type RemedyOperation,
} from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import type { RuleId } from './rules.js';
import { median } from './smoothing.js';

/** What a policy may know of the running trainer. */
export interface TrainerSettings {
  readonly learningRate: number;
  /** Sequences for each optimiser step. */
  readonly batchSize: number;
  readonly maxGradNorm: number;
  readonly modules: {
    readonly [name: string]: { readonly rank: number; readonly scale: number; readonly dormantDirections: readonly number[] };
  };
  /** SHA-256 of the best adapter so far, and of the last one whose weights and moments were all finite. */
  readonly bestAdapter: string;
  readonly lastSoundAdapter: string;
  /** Largest batch that the time budget allows. */
  readonly maxBatchSize: number;
}

export interface DecisionContext {
  /** The rule to act on: the first of those that fired, or the next one where nothing is left to do about the first. */
  readonly rule: RuleId;
  /** Evaluations so far, oldest first; the last one is the present iteration. */
  readonly evaluations: readonly Evaluation[];
  readonly settings: TrainerSettings;
}

/** Decides on one fired rule. A language model may stand behind it: the answer is checked like any other. */
export interface Policy {
  readonly name: string;
  decide(context: DecisionContext): Decision | Promise<Decision>;
}

function defer(rule: RuleId, iteration: number, reason: string, until = iteration + MAX_DEFERRAL): Decision {
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
export const observe: Policy = {
  name: 'observe',
  decide: ({ rule, evaluations }) =>
    defer(rule, (evaluations.at(-1) as Evaluation).iteration, 'observed only: this run changes nothing by itself'),
};

/** The playbook's table. Null where its remedy has nowhere left to go. */
function scriptedOperations({ rule, evaluations, settings }: DecisionContext): RemedyOperation[] | null {
  const evaluation = (evaluations.at(-1) as Evaluation).rules[rule];
  const { learningRate, batchSize, maxBatchSize, modules, maxGradNorm } = settings;
  switch (rule) {
    case 'R1':
      return [{ op: 'set_lr', from: learningRate, to: evaluation.side === 'low' ? learningRate * 2 : learningRate / 3 }];
    case 'R2': {
      const to = evaluation.side === 'high' ? batchSize * 2 : Math.max(8, Math.ceil(batchSize / 2));
      return to > maxBatchSize || to === batchSize || (evaluation.side === 'low' && to > batchSize)
        ? null
        : [{ op: 'set_batch', from: batchSize, to }];
    }
    case 'R3':
      return [{ op: 'stop', restore: settings.bestAdapter }];
    case 'R4':
      return evaluation.modules.flatMap((module): RemedyOperation[] => {
        const rank = modules[module]?.rank;
        return rank === undefined || rank >= 128
          ? []
          : [{ op: 'raise_rank', module, from: rank, to: Math.min(128, Math.ceil(rank * 1.5)) }];
      });
    case 'R5':
      return evaluation.modules.flatMap((module): RemedyOperation[] => {
        const directions = modules[module]?.dormantDirections ?? [];
        return directions.length === 0 ? [] : [{ op: 'recycle', module, directions: [...directions] }];
      });
    case 'R6': {
      const scaleOf = (module: string): number => modules[module]?.scale ?? NaN;
      const usual = median(Object.values(modules).map(({ scale }) => scale));
      const shrunk = evaluation.modules.filter((module) => scaleOf(module) < usual / 10);
      if (shrunk.length > 0)
        return shrunk.map((module): RemedyOperation => ({ op: 'rescale', module, factor: Math.min(1e6, usual / scaleOf(module)) }));
      if (!evaluation.recurrence) return evaluation.modules.map((module): RemedyOperation => ({ op: 'lr_mult', module, factor: 4 }));
      // Adam's steps do not depend on the gradient's size, so that a larger scale makes them larger: little at a time
      return evaluation.modules.map((module): RemedyOperation => ({ op: 'rescale', module, factor: 4 }));
    }
    case 'R7':
      return evaluation.side === 'nonfinite'
        ? [{ op: 'rollback', to: settings.lastSoundAdapter, learningRate: learningRate / 10, maxNorm: Math.min(1, maxGradNorm) }]
        : [
            { op: 'set_lr', from: learningRate, to: learningRate / 10 },
            { op: 'set_clip', maxNorm: Math.min(1, maxGradNorm) },
          ];
  }
}

/** Does what the playbook says. */
export const scripted: Policy = {
  name: 'scripted',
  decide(context) {
    const { rule, evaluations } = context;
    const evaluation = evaluations.at(-1) as Evaluation;
    const { side, value, threshold } = evaluation.rules[rule];
    const edit = scriptedOperations(context);
    if (edit === null || edit.length === 0)
      return defer(rule, evaluation.iteration, `${rule}: its remedy is exhausted (a bound is reached, or no module is left to change)`);
    const event = OPERATIONS[(edit[0] as RemedyOperation).op].event;
    return {
      event_type: event,
      cites: [rule],
      justification: `${rule} on its ${side} side: ${value ?? 'no value'} against ${threshold ?? 'no threshold'}`,
      remedy_direction: expectedDirection(rule, side) ?? 'none',
      edit,
      deferral: null,
    };
  },
};

/**
 * Decisions on the rules that fired. The policy is asked about the first of them, and where it only defers that one, about the next; once
 * it acts, the others are deferred to that. An obligation gets one deferral and one action at most, so that what was answered before is not
 * answered again.
 * @param earlier decisions of the iterations before
 * @throws IsoproError DECISION_INVALID where the policy's answer does not hold; nothing may be logged or executed then
 */
export async function decide(
  policy: Policy,
  evaluations: readonly Evaluation[],
  settings: TrainerSettings,
  earlier: readonly LoggedDecision[] = [],
): Promise<Decision[]> {
  const evaluation = evaluations.at(-1);
  if (evaluation === undefined) return [];
  const decisions: Decision[] = [];
  let acting: RuleId | null = null;
  for (const rule of evaluation.fired) {
    const opened = openedAt(evaluations, rule);
    const answers = earlier.filter(({ iteration, decision }) => decision.cites[0] === rule && iteration >= opened);
    if (answers.some(({ decision }) => acts(decision))) continue;
    if (acting !== null) {
      if (answers.length === 0) decisions.push(defer(rule, evaluation.iteration, `deferred_to_${acting}`));
      continue;
    }
    const answer = checkDecision(await policy.decide({ rule, evaluations, settings }), evaluations);
    if (acts(answer)) acting = answer.cites[0];
    else if (answers.length > 0) continue;
    decisions.push(structuredClone(answer)); // a policy that keeps what it returned cannot change what was decided
  }
  return decisions;
}
