import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { EventLog } from '../../src/log/event-log.js';
import { LogReader } from '../../src/log/read.js';
import { checkDecision } from '../../src/monitor/decision.js';
import {
  evaluateHistory,
  type Evaluation,
  type RuleEvaluation,
} from '../../src/monitor/evaluate-rules.js';
import { observe } from '../../src/monitor/policy.js';
import { executeDecision, executedRules, type RemedyExecutor } from '../../src/monitor/remedies.js';
import { expectedDirection, monitorDigests } from '../../src/monitor/rule-set.js';
import {
  type BreachSide,
  DEFAULT_RULES,
  ruleConfig,
  type RuleId,
  RULES,
} from '../../src/monitor/rules.js';
import { EVENT_TYPES } from '../../src/monitor/trainee.js';
import {
  decisionRecord,
  effectRecord,
  evaluationRecord,
  iterationRecords,
  readHistory,
} from '../../src/run-folder/monitor-records.js';
import { OPERATIONS } from '../../src/trainees/lora/operations.js';
import { playbook } from '../../src/trainees/lora/playbook.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import {
  LORA,
  type LoraDecision as Decision,
  type LoraPolicy as Policy,
  type TrainerSettings,
} from '../../src/trainees/lora/trainee.js';
import { decided, eachModule, history, MODULES, SETTINGS } from '../models/rule-history.js';
import { temporaryFolder } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const quiet: RuleEvaluation = {
  fired: false,
  side: 'none',
  value: 1,
  threshold: 2,
  modules: [],
  eligible: true,
  reading: true,
  recurrence: false,
};
function evaluation(
  iteration: number,
  sides: Partial<Record<RuleId, BreachSide>> = {},
): Evaluation {
  const rules = Object.fromEntries(
    RULES.map((rule) => [
      rule,
      sides[rule] === undefined
        ? quiet
        : { ...quiet, fired: true, side: sides[rule], modules: ['blk.0.attn_q'] },
    ]),
  ) as Record<RuleId, RuleEvaluation>;
  const fired = (['R7', 'R6', 'R5', 'R4', 'R1', 'R2', 'R3'] as const).filter(
    (rule) => rules[rule].fired,
  );
  return { iteration, rules, fired, advisories: [] };
}
const settings: TrainerSettings = {
  ...SETTINGS,
  modules: Object.fromEntries(
    ['blk.0.attn_q', ...MODULES].map((name) => [
      name,
      { rank: 16, scale: 2, dormantDirections: [3, 7] },
    ]),
  ),
};
const act: Decision = {
  event_type: 'hyperparameter_change',
  cites: ['R1'],
  justification: 'ratio 0.3 against 0.005',
  remedy_direction: 'decrease_lr',
  edit: [{ op: 'set_lr', from: 3e-4, to: 1e-4 }],
  deferral: null,
};
const wait: Decision = {
  event_type: 'rule_triggered_no_action',
  cites: ['R1'],
  justification: 'wait',
  remedy_direction: 'none',
  edit: [],
  deferral: { until: 6, reason: 'deferred_to_R7' },
};
const invalid = expect.objectContaining({ code: 'DECISION_INVALID' }) as never;
const high = [evaluation(4, { R1: 'high' })];

describe('a decision is refused before it is logged', () => {
  test('the honest ones pass', () => {
    expect(checkDecision(act, high, LORA)).toEqual(act);
    expect(checkDecision(wait, high, LORA)).toEqual(wait);
    expect(checkDecision(act, [...high, evaluation(5), evaluation(6)], LORA)).toEqual(act); // E + 2
  });

  const cases: [string, unknown, (readonly Evaluation[])?][] = [
    ['75: nothing fired', act, [evaluation(4)]],
    ['cited three iterations late', act, [...high, evaluation(5), evaluation(6), evaluation(7)]],
    ['before anything was evaluated', act, []],
    ['77: an unknown event', { ...act, event_type: 'wild_guess' }],
    ['X5: no cite', { ...act, cites: [] }],
    ['two cites', { ...act, cites: ['R1', 'R7'] }],
    ['an unknown rule', { ...act, cites: ['R8'] }],
    ['X6: an iteration of its own', { ...act, iteration: 2 }],
    ['a kind of its own', { ...act, kind: 'decision' }],
    ['no justification', { ...act, justification: '  ' }],
    ['98: R1 as architecture', { ...act, event_type: 'architecture_change' }],
    [
      'X12: the wrong direction',
      { ...act, remedy_direction: 'increase_lr', edit: [{ op: 'set_lr', from: 1e-4, to: 2e-4 }] },
    ],
    ['X12: no direction', { ...act, remedy_direction: 'none' }],
    [
      'X12: the right word and the wrong number',
      { ...act, edit: [{ op: 'set_lr', from: 1e-4, to: 2e-4 }] },
    ],
    ['X15: no operation', { ...act, edit: [] }],
    [
      'an operation of another class',
      { ...act, edit: [{ op: 'raise_rank', module: 'x', from: 8, to: 16 }] },
    ],
    [
      'an operation that serves another direction',
      { ...act, edit: [{ op: 'set_clip', maxNorm: 1 }] },
    ],
    ['too timid', { ...act, edit: [{ op: 'set_lr', from: 3e-4, to: 2.9e-4 }] }],
    ['too bold', { ...act, edit: [{ op: 'set_lr', from: 3e-4, to: 1e-9 }] }],
    ['a rate that is not finite', { ...act, edit: [{ op: 'set_lr', from: 3e-4, to: NaN }] }],
    [
      'extra members of an operation',
      { ...act, edit: [{ op: 'set_lr', from: 3e-4, to: 1e-4, secretly: 1 }] },
    ],
    ['an action that also defers', { ...act, deferral: wait.deferral }],
    ['X20: a deferral without end', { ...wait, deferral: { until: 10, reason: 'later' } }],
    ['a deferral to the past', { ...wait, deferral: { until: 4, reason: 'later' } }],
    ['a deferral that does not say until when', { ...wait, deferral: null }],
    ['a deferral that acts', { ...wait, edit: act.edit }],
    ['null', null],
    ['text', 'decrease_lr'],
  ];
  test.each(cases.map(([name, decision, recent = high]) => [name, decision, recent] as const))(
    '%s',
    (_, decision, recent) => {
      expect(() => checkDecision(decision, recent, LORA)).toThrow(invalid);
    },
  );

  test('every rule and side has one direction, and every direction an operation of an allowed class', () => {
    const sides: [RuleId, BreachSide][] = [
      ['R1', 'high'],
      ['R1', 'low'],
      ['R1', 'plateau'],
      ['R2', 'high'],
      ['R2', 'low'],
      ['R3', 'plateau'],
      ['R4', 'plateau'],
      ['R5', 'high'],
      ['R6', 'low'],
      ['R7', 'high'],
      ['R7', 'nonfinite'],
    ];
    for (const [rule, side] of sides) {
      const direction = expectedDirection(LORA.ruleSet, rule, side);
      expect(direction).not.toBeNull();
      expect(
        Object.values(OPERATIONS).some(
          ({ event, directions }) =>
            LORA.ruleSet.answers[rule].events.includes(event) && directions.includes(direction!),
        ),
      ).toBe(true);
    }
    // noise over signal: the other sign than the original's signal over noise
    expect(expectedDirection(LORA.ruleSet, 'R2', 'high')).toBe('increase_batch_size');
    expect(
      EVENT_TYPES.every(
        (event) =>
          LORA.ruleSet.answers.R6.events.includes(event) &&
          LORA.ruleSet.answers.R7.events.includes(event),
      ),
    ).toBe(true);
  });
});

describe('policies', () => {
  const sides: [RuleId, BreachSide, Partial<Decision>][] = [
    [
      'R1',
      'high',
      { remedy_direction: 'decrease_lr', edit: [{ op: 'set_lr', from: 3e-4, to: 1e-4 }] },
    ],
    [
      'R1',
      'low',
      { remedy_direction: 'increase_lr', edit: [{ op: 'set_lr', from: 3e-4, to: 6e-4 }] },
    ],
    ['R1', 'plateau', { remedy_direction: 'decrease_lr' }],
    [
      'R2',
      'high',
      { remedy_direction: 'increase_batch_size', edit: [{ op: 'set_batch', from: 16, to: 32 }] },
    ],
    [
      'R2',
      'low',
      { remedy_direction: 'decrease_batch_size', edit: [{ op: 'set_batch', from: 16, to: 8 }] },
    ],
    [
      'R3',
      'plateau',
      { remedy_direction: 'stop', edit: [{ op: 'stop', restore: settings.bestAdapter }] },
    ],
    [
      'R4',
      'plateau',
      {
        remedy_direction: 'add_capacity',
        edit: [{ op: 'raise_rank', module: 'blk.0.attn_q', from: 16, to: 24 }],
      },
    ],
    [
      'R5',
      'high',
      {
        remedy_direction: 'recycle_directions',
        edit: [{ op: 'recycle', module: 'blk.0.attn_q', directions: [3, 7] }],
      },
    ],
    [
      'R6',
      'low',
      {
        remedy_direction: 'rebalance_gradient',
        edit: [{ op: 'lr_mult', module: 'blk.0.attn_q', factor: 4 }],
      },
    ],
    [
      'R7',
      'high',
      {
        remedy_direction: 'stabilise',
        edit: [
          { op: 'set_lr', from: 3e-4, to: 3e-5 },
          { op: 'set_clip', maxNorm: 1 },
        ],
      },
    ],
    [
      'R7',
      'nonfinite',
      {
        remedy_direction: 'stabilise',
        edit: [
          {
            op: 'rollback',
            to: settings.lastSoundAdapter,
            learningRate: expect.closeTo(3e-5, 12) as never,
            maxNorm: 1,
          },
        ],
      },
    ],
  ];
  test('scripted doubles a batch of one sequence too', async () => {
    const [decision] = await decided(scripted, [evaluation(4, { R2: 'high' })], {
      ...settings,
      batchSize: 1,
    });
    expect(decision!.edit).toEqual([{ op: 'set_batch', from: 1, to: 2 }]);
  });

  test.each(sides)('scripted answers %s %s as the playbook says', async (rule, side, expected) => {
    const decisions = await decided(scripted, [evaluation(4, { [rule]: side })], settings);
    expect(decisions).toHaveLength(1);
    const [decision] = decisions as [Decision];
    expect(decision.cites).toEqual([rule]);
    if (expected.edit !== undefined && decision.edit[0]?.op === 'set_lr') {
      const want = expected.edit[0] as { to: number };
      expect((decision.edit[0] as { to: number }).to).toBeCloseTo(want.to, 12);
      expect(decision.remedy_direction).toBe(expected.remedy_direction);
    } else expect(decision).toMatchObject(expected);
  });

  test('acts on the first rule and defers the others to it', async () => {
    const decisions = await decided(
      scripted,
      [evaluation(4, { R1: 'high', R6: 'low', R7: 'high', R3: 'plateau' })],
      settings,
    );
    expect(decisions.map(({ cites }) => cites[0])).toEqual(['R7', 'R6', 'R1', 'R3']);
    expect(decisions[0]!.event_type).toBe('hyperparameter_change');
    for (const other of decisions.slice(1))
      expect(other).toMatchObject({
        event_type: 'rule_triggered_no_action',
        deferral: { reason: 'deferred_to_R7', until: 9 },
      });
    for (const each of decisions)
      expect(
        checkDecision(
          each,
          [evaluation(4, { R1: 'high', R6: 'low', R7: 'high', R3: 'plateau' })],
          LORA,
        ),
      ).toEqual(each);
  });

  test('says so where a remedy has nowhere left to go', async () => {
    const [batch] = await decided(scripted, [evaluation(4, { R2: 'high' })], {
      ...settings,
      batchSize: 64,
    });
    const [floor] = await decided(scripted, [evaluation(4, { R2: 'low' })], {
      ...settings,
      batchSize: 8,
    });
    const [below] = await decided(scripted, [evaluation(4, { R2: 'low' })], {
      ...settings,
      batchSize: 4,
    });
    const [rank] = await decided(scripted, [evaluation(4, { R4: 'plateau' })], {
      ...settings,
      modules: { 'blk.0.attn_q': { rank: 128, scale: 2, dormantDirections: [] } },
    });
    for (const decision of [batch, floor, below, rank])
      expect(decision).toMatchObject({
        event_type: 'rule_triggered_no_action',
        justification: expect.stringContaining('exhausted'),
      });
  });

  test('observe changes nothing; nothing fired asks nobody', async () => {
    expect(await decided(observe, [evaluation(4, { R7: 'nonfinite' })], settings)).toMatchObject([
      { event_type: 'rule_triggered_no_action', edit: [] },
    ]);
    const forbidden: Policy = {
      name: 'x',
      decide: () => {
        throw new Error('asked');
      },
    };
    expect(await decided(forbidden, [evaluation(4)], settings)).toEqual([]);
  });

  test('X18: a policy that returns one object again and again cannot have it changed, nor change it afterwards', async () => {
    const kept = structuredClone(act);
    const [first] = await decided({ name: 'cache', decide: () => kept }, high, settings);
    (kept.edit as unknown[]).pop();
    expect(first).toEqual(act);
  });

  test('a policy that talks nonsense gets a typed error', async () => {
    await expect(
      decided({ name: 'x', decide: () => ({ ...act, cites: ['R2'] }) as never }, high, settings),
    ).rejects.toThrow(invalid);
  });
});

describe('effects', () => {
  test('carry what was measured; an operation that fails ends its decision and does not count as executed', async () => {
    const done: string[] = [];
    const executor: RemedyExecutor = {
      execute: async (operation) => {
        if (operation.op === 'set_clip') throw new Error('no such thing');
        done.push(operation.op);
        return { learningRate: 3e-5 };
      },
    };
    const both = (await decided(scripted, [evaluation(4, { R7: 'high' })], settings))[0]!;
    const effects = await executeDecision(both, 4, executor);
    expect(effects).toMatchObject([
      { executed: true, measured: { learningRate: 3e-5 } },
      { executed: false, failure: 'no such thing' },
    ]);
    expect(executedRules([both], effects)).toEqual([]);
    const one = await executeDecision(act, 4, executor);
    expect(executedRules([act, wait], one)).toEqual(['R1']);
    expect(done).toEqual(['set_lr', 'set_lr']);
  });
});

describe('the playbook', () => {
  test('has seven sections of four parts, and the thresholds of its configuration', () => {
    const text = playbook(DEFAULT_RULES);
    for (const rule of RULES) expect(text).toContain(`## ${rule} `);
    for (const part of ['Symptoms', 'Cause', 'Remedy', 'Caveat'])
      expect(text.match(new RegExp(`\\*\\*${part}\\.\\*\\*`, 'g'))).toHaveLength(7);
    expect(text).toContain('R7, R6, R5, R4, R1, R2, R3');
    for (const operation of Object.keys(OPERATIONS).filter((op) => op !== 'skip_step'))
      expect(text).toContain(`\`${operation}\``);
    const other = ruleConfig.parse({ r5: { dormantFraction: 0.123 } });
    expect(playbook(other)).toContain('0.123');
    expect(monitorDigests(LORA.ruleSet, other).playbook).not.toBe(
      monitorDigests(LORA.ruleSet, DEFAULT_RULES).playbook,
    );
    expect(monitorDigests(LORA.ruleSet, other).rules).not.toBe(
      monitorDigests(LORA.ruleSet, DEFAULT_RULES).rules,
    );
  });

  test('the shipped file is what the defaults generate', () => {
    const shipped = readFileSync(new URL('../../assets/playbook.md', import.meta.url), 'utf8');
    expect(shipped).toBe(playbook(DEFAULT_RULES));
    expect(monitorDigests(LORA.ruleSet, DEFAULT_RULES).playbook).toBe(
      createHash('sha256').update(shipped).digest('hex'),
    );
  });

  test('a configuration with unknown or impossible members is refused', () => {
    for (const bad of [
      { r1: { updateRatioHigh: -1 } },
      { alpha: 0 },
      { r8: {} },
      { persistence: 0 },
    ])
      expect(() => ruleConfig.parse(bad)).toThrow();
  });
});

describe('in the log', () => {
  const folder = temporaryFolder();
  afterAll(folder.remove);

  test('a judge reads the same history back and finds the same evaluations; hooks cannot write over measurements (X7, X8)', async () => {
    const path = join(folder.path, 'log.sqlite');
    const log = await EventLog.create({
      streams: RUN_STREAMS,
      path,
      runId: 'ab12'.repeat(8),
      signer: witnessInProcess(folder.path),
      runConfig: null,
      digests: monitorDigests(LORA.ruleSet, DEFAULT_RULES),
    });
    const iterations = history(12, (each, i) => ({
      ...(i >= 4
        ? eachModule(each, (_, name) => ({
            updateRatio: 0.5,
            dormantFraction: name === MODULES[0] ? NaN : 0.1,
          }))
        : each),
      executed: i === 6 ? ['R1'] : [],
    }));
    const evaluations = evaluateHistory(iterations, DEFAULT_RULES, LORA.ruleSet);
    for (const [i, iteration] of iterations.entries()) {
      log.append(iterationRecords(iteration, { iteration: 77, kind: 'forged', kl: 0 }));
      log.append([evaluationRecord(evaluations[i]!)]);
      for (const decision of await decided(scripted, evaluations.slice(0, i + 1), settings))
        log.append([decisionRecord(decision, i)]);
      for (const rule of iteration.executed)
        log.append([
          effectRecord({
            kind: 'effect',
            iteration: i,
            rule,
            operation: act.edit[0]!,
            executed: true,
            measured: { learningRate: 1e-4 },
          }),
        ]);
    }
    await log.finish();
    const reader = new LogReader(path, RUN_STREAMS);
    const back = readHistory(reader.records(), LORA.trainee);
    expect(back).toEqual(iterations);
    expect(evaluateHistory(back, DEFAULT_RULES, LORA.ruleSet)).toEqual(evaluations);
    const logged = [...reader.records({ stream: 'rule_evals' })].map(
      ({ payload: { kind: _, ...rest } }) => rest,
    );
    expect(logged).toEqual(evaluations);
    expect([...reader.records({ stream: 'decisions' })].length).toBeGreaterThan(0);
    reader.close();
  });

  test('records that a monitor cannot have written are unreadable, not misread', () => {
    const [iteration] = history(1);
    const records = iterationRecords(iteration!).map(({ stream, payload }, i) => ({
      gseq: i,
      sseq: i,
      timeUs: 0,
      stream,
      payload,
    }));
    const unreadable = expect.objectContaining({ code: 'LOG_UNREADABLE' }) as never;
    expect(readHistory(records, LORA.trainee)).toHaveLength(1);
    // a step is missing
    expect(() => readHistory(records.slice(1), LORA.trainee)).toThrow(unreadable);
    // steps of no iteration
    expect(() => readHistory(records.slice(0, -1), LORA.trainee)).toThrow(unreadable);
    expect(() =>
      readHistory(
        records.map((record, i) =>
          i === 0 ? { ...record, payload: { ...record.payload, iteration: 5 } } : record,
        ),
        LORA.trainee,
      ),
    ).toThrow(unreadable);
    expect(() =>
      readHistory(
        records.map((record, i) =>
          i === 0 ? { ...record, payload: { ...record.payload, loss: 'low' } } : record,
        ),
        LORA.trainee,
      ),
    ).toThrow(unreadable);
  });
});
