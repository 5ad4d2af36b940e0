/**
 * A trainee that is no language model: an image classifier that measures dead units, can swap its
 * activation and grow by a block.
 */
import { z } from 'zod';
import type { Decision } from '../../src/monitor/decision.js';
import type { Iteration, Step } from '../../src/monitor/measurements.js';
import type { Watched } from '../../src/monitor/rule-set.js';
import { ruleConfig } from '../../src/monitor/rules.js';
import { EVENT_TYPES } from '../../src/monitor/trainee.js';
import { LORA } from '../../src/trainees/lora/trainee.js';

export interface ClassifierTypes {
  readonly settings: {
    readonly learningRate: number;
    readonly activation: string;
    readonly champion: string;
  };
  readonly operation:
    | { readonly op: 'swap_activation'; readonly to: 'leaky_relu' | 'gelu' }
    | { readonly op: 'add_block'; readonly name: string; readonly units: number }
    | { readonly op: 'rate'; readonly to: number };
  readonly step: Step & { readonly images: number };
  readonly module: { readonly units: number };
}

const { R1, R2, R3, R4, R6, R7 } = LORA.ruleSet.answers;
export const CLASSIFIER: Watched<ClassifierTypes> = {
  trainee: {
    id: 'classifier',
    signals: {
      step: { images: { form: 'number', what: 'images' } },
      module: {
        gradNorm: { form: 'number', what: 'norm of the gradient' },
        updateRatio: { form: 'number', what: 'change over size' },
        deadUnits: { form: 'number', what: 'part of the units that are zero for every image' },
      },
    },
    operations: {
      swap_activation: {
        event: 'architecture_change',
        directions: ['swap_activation'],
        parameters: { to: z.enum(['leaky_relu', 'gelu']) },
        consequence: ({ to }) => ({ measured: { activation: to } }),
      },
      add_block: {
        event: 'architecture_change',
        directions: ['add_capacity'],
        parameters: { name: z.string(), units: z.int().min(1) },
        restructure: ({ name, units }, structure) =>
          name in structure ? `there is a ${name}` : { ...structure, [name]: { units } },
      },
      rate: {
        event: 'hyperparameter_change',
        directions: ['decrease_lr', 'increase_lr', 'stabilise'],
        parameters: { to: z.number().positive() },
        objection: ({ to }) => (to < 1 ? null : 'a rate lies below 1'),
        consequence: ({ to }) => ({ learningRate: to }),
      },
    },
    structure: {
      form: z.object({ units: z.int().min(1) }),
      difference: (expected, found) =>
        expected.units === found.units ? null : `has ${found.units} units, not ${expected.units}`,
    },
    remedies: ({ rule, side, settings: { learningRate, activation } }) => [
      ...(rule === 'R5' && activation === 'relu'
        ? (['leaky_relu', 'gelu'] as const).map((to) => ({
            id: `swap_activation ${to}`,
            words: `replace ${activation} by ${to}`,
            edit: [{ op: 'swap_activation', to }] as const,
          }))
        : []),
      ...(rule === 'R1' && side !== 'low'
        ? [
            {
              id: 'rate x1/3',
              words: 'divide the rate by 3',
              edit: [{ op: 'rate', to: learningRate / 3 }] as const,
            },
          ]
        : []),
    ],
    snapshots: ({ champion }) => ({ champion }),
  },
  ruleSet: {
    id: 'classifier',
    signals: {
      change: 'updateRatio',
      gradient: 'gradNorm',
      dormancy: 'deadUnits',
      capacity: null,
      begun: null,
    },
    answers: {
      R1,
      R2,
      R3,
      R4,
      R6,
      R7,
      R5: { events: EVENT_TYPES, directions: { high: 'swap_activation' } },
    },
    playbook: ({ r5 }) =>
      `# Playbook\n\nR5: more than ${r5.dormantFraction} of the units of a layer are dead: \`swap_activation\`.\n`,
  },
};

const LAYERS = ['conv1', 'block1', 'head'];
/** Thresholds under which its dead units fire R5 in the third epoch. */
export const CLASSIFIER_RULES = ruleConfig.parse({ r5: { minSteps: 4 } });

/** @param dead part of block1's units */
export function epoch(
  iteration: number,
  dead: number,
  objective = 0.1 + 0.05 * iteration,
): Iteration<ClassifierTypes['step']> {
  const layer = { gradNorm: 0.2, updateRatio: 1e-3, deadUnits: 0.05 };
  return {
    iteration,
    steps: Array.from({ length: 4 }, (_, k) => ({
      step: 4 * iteration + k + 1,
      learningRate: 0.05,
      loss: 1,
      gradNorm: 0.4 + 0.01 * k,
      clipped: false,
      applied: true,
      nonFinite: [],
      microBatchNorms: [0.49, 0.49],
      microBatchTokens: [64, 64],
      images: 128,
      modules: Object.fromEntries(
        LAYERS.map((name) => [name, name === 'block1' ? { ...layer, deadUnits: dead } : layer]),
      ),
    })),
    informativeGroupFraction: 1,
    objective: { value: objective, standardError: 0.01 },
    heldOut: { loss: 1 / (iteration + 1) },
    kl: null,
    parameters: { conv1: 1000, block1: 9000, head: 640 },
    executed: [],
  };
}
export const SETTINGS = { learningRate: 0.05, activation: 'relu', champion: 'ef'.repeat(32) };

/** What its policy answers R5 with. */
export const SWAP: Decision<ClassifierTypes['operation']> = {
  event_type: 'architecture_change',
  cites: ['R5'],
  justification: 'most of block1 is dead',
  remedy_direction: 'swap_activation',
  edit: [{ op: 'swap_activation', to: 'gelu' }],
  deferral: null,
};
