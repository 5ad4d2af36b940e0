/** The policy that does what the playbook says. */
import type { Evaluation } from '../../monitor/evaluate-rules.js';
import { defer } from '../../monitor/policy.js';
import { expectedDirection } from '../../monitor/rule-set.js';
import { median } from '../../monitor/smoothing.js';
import { OPERATIONS, type LoraOperation } from './operations.js';
import { LORA, type LoraDecision, type LoraDecisionContext } from './trainee.js';

type Asked = Pick<LoraDecisionContext, 'rule' | 'evaluations' | 'settings'>;

/** The playbook's table. Null where its remedy has nowhere left to go. */
function operationsFor({ rule, evaluations, settings }: Asked): LoraOperation[] | null {
  const evaluation = (evaluations.at(-1) as Evaluation).rules[rule];
  const { learningRate, batchSize, maxBatchSize, modules, maxGradNorm } = settings;
  switch (rule) {
    case 'R1':
      return [
        {
          op: 'set_lr',
          from: learningRate,
          to: evaluation.side === 'low' ? learningRate * 2 : learningRate / 3,
        },
      ];
    case 'R2': {
      const to = evaluation.side === 'high' ? batchSize * 2 : Math.max(8, Math.ceil(batchSize / 2));
      return to > maxBatchSize || to === batchSize || (evaluation.side === 'low' && to > batchSize)
        ? null
        : [{ op: 'set_batch', from: batchSize, to }];
    }
    case 'R3':
      return [{ op: 'stop', restore: settings.bestAdapter }];
    case 'R4':
      return evaluation.modules.flatMap((module): LoraOperation[] => {
        const rank = modules[module]?.rank;
        return rank === undefined || rank >= 128
          ? []
          : [{ op: 'raise_rank', module, from: rank, to: Math.min(128, Math.ceil(rank * 1.5)) }];
      });
    case 'R5':
      return evaluation.modules.flatMap((module): LoraOperation[] => {
        const directions = modules[module]?.dormantDirections ?? [];
        return directions.length === 0
          ? []
          : [{ op: 'recycle', module, directions: [...directions] }];
      });
    case 'R6': {
      const scaleOf = (module: string): number => modules[module]?.scale ?? NaN;
      const usual = median(Object.values(modules).map(({ scale }) => scale));
      const shrunk = evaluation.modules.filter((module) => scaleOf(module) < usual / 10);
      if (shrunk.length > 0)
        return shrunk.map(
          (module): LoraOperation => ({
            op: 'rescale',
            module,
            factor: Math.min(1e6, usual / scaleOf(module)),
          }),
        );
      if (!evaluation.recurrence)
        return evaluation.modules.map(
          (module): LoraOperation => ({ op: 'lr_mult', module, factor: 4 }),
        );
      // Adam's steps do not depend on the gradient's size, so that a larger scale makes them
      // larger: little at a time
      return evaluation.modules.map(
        (module): LoraOperation => ({ op: 'rescale', module, factor: 4 }),
      );
    }
    case 'R7':
      return evaluation.side === 'nonfinite'
        ? [
            {
              op: 'rollback',
              to: settings.lastSoundAdapter,
              learningRate: learningRate / 10,
              maxNorm: Math.min(1, maxGradNorm),
            },
          ]
        : [
            { op: 'set_lr', from: learningRate, to: learningRate / 10 },
            { op: 'set_clip', maxNorm: Math.min(1, maxGradNorm) },
          ];
  }
}

/** Does what the playbook says. */
export const scripted = {
  name: 'scripted',
  decide(context: Asked): LoraDecision {
    const { rule, evaluations } = context;
    const evaluation = evaluations.at(-1) as Evaluation;
    const { side, value, threshold } = evaluation.rules[rule];
    const edit = operationsFor(context);
    if (edit === null || edit.length === 0)
      return defer(
        rule,
        evaluation.iteration,
        `${rule}: its remedy is exhausted (a bound is reached, or no module is left to change)`,
      );
    const event = OPERATIONS[(edit[0] as LoraOperation).op].event;
    return {
      event_type: event,
      cites: [rule],
      justification: `${rule} on its ${side} side: ${value ?? 'no value'} against ${threshold ?? 'no threshold'}`,
      remedy_direction: expectedDirection(LORA.ruleSet, rule, side) ?? 'none',
      edit,
      deferral: null,
    };
  },
};
