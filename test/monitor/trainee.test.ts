/**
 * A trainee that is no language model: the monitor reads its signals, checks its operations, logs
 * and reads back its steps, without knowing what it is.
 */
import { describe, expect, test } from '@jest/globals';
import { checkDecision } from '../../src/monitor/decision.js';
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { liveness } from '../../src/monitor/liveness.js';
import { observe, type Policy } from '../../src/monitor/policy.js';
import type { Watched } from '../../src/monitor/rule-set.js';
import { DEFAULT_RULES, RULES, type RuleId } from '../../src/monitor/rules.js';
import { readDecisions, readHistory } from '../../src/run-folder/monitor-records.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { MonitorSession } from '../../src/training/monitor-session.js';
import type { NewRunRecord } from '../../src/run-folder/streams.js';
import {
  CLASSIFIER,
  type ClassifierTypes,
  epoch,
  CLASSIFIER_RULES as rules,
  SETTINGS,
  SWAP as swap,
} from '../models/classifier.js';

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
      execute: async (operation: ClassifierTypes['operation']) => {
        executed.push(operation);
        dead = 0;
        return { activation: 'gelu' };
      },
    };
    const records: NewRunRecord[] = [];
    const session = new MonitorSession({
      watched: CLASSIFIER,
      rules,
      policy,
      log: { append: (more) => void records.push(...more) },
    });
    const fired: (readonly RuleId[])[] = [];
    for (let i = 0; i < 8; i++)
      fired.push(
        (await session.iteration(epoch(i, dead), { settings: SETTINGS, executor })).evaluation
          .fired,
      );
    expect(fired).toEqual([[], [], ['R5'], [], [], [], [], []]);
    expect(executed).toEqual(swap.edit);
    expect(seen).toEqual([
      ['relu', { champion: 'ef'.repeat(32) }, CLASSIFIER.ruleSet.playbook(rules)],
    ]);

    const logged = records.map((record, gseq) => ({ ...record, gseq, sseq: gseq, timeUs: 0 }));
    expect(readHistory(logged, CLASSIFIER.trainee)).toEqual(session.history);
    expect(session.history[0]!.steps[0]).toMatchObject({
      images: 128,
      modules: { block1: { deadUnits: 0.8 } },
    });
    expect(readDecisions(logged, CLASSIFIER)).toEqual([{ iteration: 2, decision: swap }]);
    // its steps are no steps of a language model, nor are its decisions
    const unreadable = expect.objectContaining({ code: 'LOG_UNREADABLE' }) as never;
    expect(() => readHistory(logged, LORA.trainee)).toThrow(unreadable);
    expect(() => readDecisions(logged, LORA)).toThrow(unreadable);
  });

  test('takes its own operations and directions only', () => {
    const recent = [{ ...evaluateHistory([epoch(0, 0)], rules, CLASSIFIER.ruleSet)[0]! }].map(
      (evaluation) => ({
        ...evaluation,
        rules: {
          ...evaluation.rules,
          R5: { ...evaluation.rules.R5, fired: true, side: 'high' as const },
        },
      }),
    );
    expect(checkDecision(swap, recent, CLASSIFIER)).toEqual(swap);
    const invalid = expect.objectContaining({ code: 'DECISION_INVALID' }) as never;
    for (const bad of [
      {
        ...swap,
        remedy_direction: 'recycle_directions',
        edit: [{ op: 'recycle', module: 'block1', directions: [0] }],
      },
      { ...swap, edit: [{ op: 'recycle', module: 'block1', directions: [0] }] },
      { ...swap, edit: [{ op: 'swap_activation', to: 'tanh' }] },
      { ...swap, edit: [{ op: 'add_block', name: 'block2', units: 8 }] },
      { ...swap, event_type: 'hyperparameter_change', edit: [{ op: 'rate', to: 2 }] },
    ])
      expect(() => checkDecision(bad, recent, CLASSIFIER)).toThrow(invalid);
    expect(() => checkDecision(swap, recent, LORA)).toThrow(invalid);
  });

  test('without a measure of capacity R4 asks for a flat objective alone, and without one of dormancy R5 is silent', () => {
    const flat = Array.from({ length: 9 }, (_, i) => epoch(i, 0.8, 0.5));
    const silent = {
      ...CLASSIFIER.ruleSet,
      signals: { ...CLASSIFIER.ruleSet.signals, dormancy: null },
    };
    expect(evaluateHistory(flat, rules, silent).at(-1)!.fired).toContain('R4');
    expect(evaluateHistory(flat, rules, CLASSIFIER.ruleSet).at(-1)!.fired).toEqual(
      expect.arrayContaining(['R5']),
    );
    expect(
      evaluateHistory(flat, rules, silent).every(({ rules: { R5 } }) => !R5.reading && !R5.fired),
    ).toBe(true);
    const able = (of: Watched['ruleSet']): Set<RuleId> =>
      new Set(
        liveness(DEFAULT_RULES, of, 8).flatMap(({ rule, from }) => (from === null ? [] : [rule])),
      );
    expect(able(CLASSIFIER.ruleSet)).toEqual(new Set(RULES));
    expect(able(silent)).toEqual(new Set(RULES.filter((rule) => rule !== 'R5')));
  });
});
