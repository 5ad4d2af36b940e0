/**
 * LoRA weights on a frozen base, trained by the engine's trainer: the first trainee, and the rules
 * that watch it.
 */
import type { StepStatistics } from '../../engine/trainer.js';
import type { Iteration } from '../../monitor/measurements.js';
import type { DecisionContext, Policy } from '../../monitor/policy.js';
import type { Decision } from '../../monitor/decision.js';
import type { Effect } from '../../monitor/remedies.js';
import type { RuleSet, Watched } from '../../monitor/rule-set.js';
import { OPERATIONS, type LoraOperation } from './operations.js';
import { playbook } from './playbook.js';
import { remedies } from './remedies.js';
import type { TrainerSettings } from './settings.js';
import { LORA_MODULE, type LoraModule } from './structure.js';

export type { TrainerSettings } from './settings.js';

export interface LoraTypes {
  readonly settings: TrainerSettings;
  readonly operation: LoraOperation;
  readonly step: StepStatistics;
  readonly module: LoraModule;
}
export type LoraDecision = Decision<LoraOperation>;
export type LoraDecisionContext = DecisionContext<LoraTypes>;
export type LoraEffect = Effect<LoraOperation>;
export type LoraIteration = Iteration<StepStatistics>;
export type LoraPolicy = Policy<LoraTypes>;

const HYPER = ['hyperparameter_change', 'rule_triggered_no_action'] as const;
const ARCHITECTURE = ['architecture_change', 'rule_triggered_no_action'] as const;
const EITHER = [
  'hyperparameter_change',
  'architecture_change',
  'rule_triggered_no_action',
] as const;

const ruleSet: RuleSet = {
  id: 'lora',
  signals: {
    change: 'updateRatio',
    gradient: 'pairGradNorm',
    dormancy: 'dormantFraction',
    capacity: 'rankUse',
    begun: 'rankUse', // 0 where BA = 0
  },
  answers: {
    R1: {
      events: HYPER,
      directions: { high: 'decrease_lr', low: 'increase_lr', plateau: 'decrease_lr' },
    },
    R2: { events: HYPER, directions: { high: 'increase_batch_size', low: 'decrease_batch_size' } },
    R3: { events: HYPER, directions: { plateau: 'stop' } },
    R4: { events: ARCHITECTURE, directions: { plateau: 'add_capacity' } },
    R5: { events: ARCHITECTURE, directions: { high: 'recycle_directions' } },
    R6: { events: EITHER, directions: { low: 'rebalance_gradient' } },
    R7: { events: EITHER, directions: { high: 'stabilise', nonfinite: 'stabilise' } },
  },
  playbook,
};

export const LORA: Watched<LoraTypes> = {
  trainee: {
    id: 'lora',
    signals: {
      step: {
        tokens: { form: 'number', what: 'labelled tokens' },
        clipFraction: { form: 'number', what: 'share of labelled tokens whose ratio was clipped' },
        klToReference: { form: 'number', what: 'mean KL to the reference, nats a token' },
        oldPolicyGap: {
          form: 'number',
          what: 'mean |log p - log p before the iteration’s steps|, nats a token',
          absent: 0,
        },
      },
      module: {
        pairGradNorm: { form: 'number', what: 'sqrt(||gA||^2 + ||gB||^2)' },
        updateRatio: { form: 'number', what: 's ||delta(BA)|| / ||W||' },
        dormantFraction: {
          form: 'number',
          what: 'directions that contribute next to nothing, over the rank',
        },
        dormantDirections: { form: 'indices', what: 'those directions' },
        rankUse: {
          form: 'number',
          what: 'exp(entropy of the normalised singular values of BA) / rank',
        },
      },
    },
    operations: OPERATIONS,
    structure: LORA_MODULE,
    remedies,
    snapshots: ({ bestAdapter, lastSoundAdapter }) => ({
      best: bestAdapter,
      sound: lastSoundAdapter,
    }),
  },
  ruleSet,
};
