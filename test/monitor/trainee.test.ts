/**
 * A trainee that is no language model: an image classifier that measures dead units and can swap its activation. The monitor reads its
 * signals, checks its operations, logs and reads back its steps, without knowing what it is.
 */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { checkDecision, type Decision } from '../../src/monitor/decision.js';
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { liveness } from '../../src/monitor/liveness.js';
import type { Iteration, Step } from '../../src/monitor/measurements.js';
import { observe, type Policy } from '../../src/monitor/policy.js';
import type { Watched } from '../../src/monitor/rule-set.js';
import { DEFAULT_RULES, ruleConfig, RULES, type RuleId } from '../../src/monitor/rules.js';
import { EVENT_TYPES } from '../../src/monitor/trainee.js';
import { readDecisions, readHistory } from '../../src/run-folder/monitor-records.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { MonitorSession } from '../../src/training/monitor-session.js';
import type { NewRunRecord } from '../../src/run-folder/streams.js';

interface ClassifierTypes {
  readonly settings: { readonly learningRate: number; readonly activation: string; readonly champion: string };
  readonly operation:
    | { readonly op: 'swap_activation'; readonly to: 'leaky_relu' | 'gelu' }
    | { readonly op: 'add_block'; readonly after: number }
    | { readonly op: 'rate'; readonly to: number };
  readonly step: Step & { readonly images: number };
}

const { R1, R2, R3, R4, R6, R7 } = LORA.ruleSet.answers;
const CLASSIFIER: Watched<ClassifierTypes> = {
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
      },
      add_block: { event: 'architecture_change', directions: ['add_capacity'], parameters: { after: z.int().min(0) } },
      rate: {
        event: 'hyperparameter_change',
        directions: ['decrease_lr', 'increase_lr', 'stabilise'],
        parameters: { to: z.number().positive() },
        objection: ({ to }) => (to < 1 ? null : 'a rate lies below 1'),
      },
    },
    snapshots: ({ champion }) => ({ champion }),
  },
  ruleSet: {
    id: 'classifier',
    signals: { change: 'updateRatio', gradient: 'gradNorm', dormancy: 'deadUnits', capacity: null, begun: null },
    answers: { R1, R2, R3, R4, R6, R7, R5: { events: EVENT_TYPES, directions: { high: 'swap_activation' } } },
    playbook: ({ r5 }) => `# Playbook\n\nR5: more than ${r5.dormantFraction} of the units of a layer are dead: \`swap_activation\`.\n`,
  },
};

const LAYERS = ['conv1', 'block1', 'head'];
const rules = ruleConfig.parse({ r5: { minSteps: 4 } });

function epoch(iteration: number, dead: number, objective = 0.1 + 0.05 * iteration): Iteration<ClassifierTypes['step']> {
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
      modules: Object.fromEntries(LAYERS.map((name) => [name, name === 'block1' ? { ...layer, deadUnits: dead } : layer])),
    })),
    informativeGroupFraction: 1,
    objective: { value: objective, standardError: 0.01 },
    heldOut: { loss: 1 / (iteration + 1) },
    kl: null,
    parameters: { conv1: 1000, block1: 9000, head: 640 },
    executed: [],
  };
}
const SETTINGS = { learningRate: 0.05, activation: 'relu', champion: 'ef'.repeat(32) };
const swap: Decision<ClassifierTypes['operation']> = {
  event_type: 'architecture_change',
  cites: ['R5'],
  justification: 'most of block1 is dead',
  remedy_direction: 'swap_activation',
  edit: [{ op: 'swap_activation', to: 'gelu' }],
  deferral: null,
};

describe('another kind of trainee', () => {
  test('dead units fire R5, the remedy that it describes is executed, and the log gives the same history back', async () => {
    let dead = 0.8;
    const seen: unknown[] = [];
    const policy: Policy<ClassifierTypes> = {
      name: 'swap',
      decide: (context) => {
        seen.push([context.settings.activation, context.snapshots, context.playbook]);
        return context.rule === 'R5' ? swap : observe.decide(context);
      },
    };
    const executed: unknown[] = [];
    const executor = {
      execute: async (operation: ClassifierTypes['operation']) => (executed.push(operation), (dead = 0), { activation: 'gelu' }),
    };
    const records: NewRunRecord[] = [];
    const session = new MonitorSession({ watched: CLASSIFIER, rules, policy, log: { append: (more) => void records.push(...more) } });
    const fired: (readonly RuleId[])[] = [];
    for (let i = 0; i < 8; i++) fired.push((await session.iteration(epoch(i, dead), { settings: SETTINGS, executor })).evaluation.fired);
    expect(fired).toEqual([[], [], ['R5'], [], [], [], [], []]);
    expect(executed).toEqual(swap.edit);
    expect(seen).toEqual([['relu', { champion: 'ef'.repeat(32) }, CLASSIFIER.ruleSet.playbook(rules)]]);

    const logged = records.map((record, gseq) => ({ ...record, gseq, sseq: gseq, timeUs: 0 }));
    expect(readHistory(logged, CLASSIFIER.trainee)).toEqual(session.history);
    expect(session.history[0]!.steps[0]).toMatchObject({ images: 128, modules: { block1: { deadUnits: 0.8 } } });
    expect(readDecisions(logged, CLASSIFIER)).toEqual([{ iteration: 2, decision: swap }]);
    // its steps are no steps of a language model, nor are its decisions
    const unreadable = expect.objectContaining({ code: 'LOG_UNREADABLE' }) as never;
    expect(() => readHistory(logged, LORA.trainee)).toThrow(unreadable);
    expect(() => readDecisions(logged, LORA)).toThrow(unreadable);
  });

  test('takes its own operations and directions only', () => {
    const recent = [{ ...evaluateHistory([epoch(0, 0)], rules, CLASSIFIER.ruleSet)[0]! }].map((evaluation) => ({
      ...evaluation,
      rules: { ...evaluation.rules, R5: { ...evaluation.rules.R5, fired: true, side: 'high' as const } },
    }));
    expect(checkDecision(swap, recent, CLASSIFIER)).toEqual(swap);
    const invalid = expect.objectContaining({ code: 'DECISION_INVALID' }) as never;
    for (const bad of [
      { ...swap, remedy_direction: 'recycle_directions', edit: [{ op: 'recycle', module: 'block1', directions: [0] }] },
      { ...swap, edit: [{ op: 'recycle', module: 'block1', directions: [0] }] },
      { ...swap, edit: [{ op: 'swap_activation', to: 'tanh' }] },
      { ...swap, edit: [{ op: 'add_block', after: 0 }] },
      { ...swap, event_type: 'hyperparameter_change', edit: [{ op: 'rate', to: 2 }] },
    ])
      expect(() => checkDecision(bad, recent, CLASSIFIER)).toThrow(invalid);
    expect(() => checkDecision(swap, recent, LORA)).toThrow(invalid);
  });

  test('without a measure of capacity R4 asks for a flat objective alone, and without one of dormancy R5 is silent', () => {
    const flat = Array.from({ length: 9 }, (_, i) => epoch(i, 0.8, 0.5));
    const silent = { ...CLASSIFIER.ruleSet, signals: { ...CLASSIFIER.ruleSet.signals, dormancy: null } };
    expect(evaluateHistory(flat, rules, silent).at(-1)!.fired).toContain('R4');
    expect(evaluateHistory(flat, rules, CLASSIFIER.ruleSet).at(-1)!.fired).toEqual(expect.arrayContaining(['R5']));
    expect(evaluateHistory(flat, rules, silent).every(({ rules: { R5 } }) => !R5.reading && !R5.fired)).toBe(true);
    const able = (of: Watched['ruleSet']): Set<RuleId> =>
      new Set(liveness(DEFAULT_RULES, of, 8).flatMap(({ rule, from }) => (from === null ? [] : [rule])));
    expect(able(CLASSIFIER.ruleSet)).toEqual(new Set(RULES));
    expect(able(silent)).toEqual(new Set(RULES.filter((rule) => rule !== 'R5')));
  });
});
