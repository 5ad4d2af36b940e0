/**
 * The judge on the log of a trainee that is no language model: what its operations oblige the log
 * to show, and what they make of it.
 */
import { describe, expect, test } from '@jest/globals';
import { HardFail } from '../../src/judge/hard-fail.js';
import { readProcess } from '../../src/judge/log-steps.js';
import { auditProcess, type ProcessRecord } from '../../src/judge/obligations.js';
import { replayStructure, structureDifference } from '../../src/judge/replay.js';
import type { LogPayload } from '../../src/log/payload.js';
import type { LogRecord } from '../../src/log/read.js';
import { observe, type Policy } from '../../src/monitor/policy.js';
import { monitorDigests } from '../../src/monitor/rule-set.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { MonitorSession } from '../../src/training/monitor-session.js';
import {
  CLASSIFIER,
  CLASSIFIER_RULES,
  type ClassifierTypes,
  epoch,
  SETTINGS,
  SWAP as swap,
} from '../models/classifier.js';

const numbered = (
  records: readonly { readonly stream: string; readonly payload: object }[],
): LogRecord[] =>
  records.map(({ stream, payload }, gseq) => ({
    stream,
    payload: payload as LogPayload,
    gseq,
    sseq: gseq,
    timeUs: 0,
  }));

/** Six epochs; dead units fire R5 in the third, and its policy answers with a swap. */
async function log(measured: Record<string, number | string>): Promise<LogRecord[]> {
  let dead = 0.8;
  const policy: Policy<ClassifierTypes> = {
    name: 'swap',
    decide: (context) => (context.rule === 'R5' ? swap : observe.decide(context)),
  };
  const executor = {
    execute: async () => {
      dead = 0;
      return measured;
    },
  };
  const digests = monitorDigests(CLASSIFIER.ruleSet, CLASSIFIER_RULES);
  const records: { stream: string; payload: object }[] = [
    {
      stream: 'control',
      payload: { kind: 'session_start', digests, runConfig: { rules: CLASSIFIER_RULES } },
    },
  ];
  const session = new MonitorSession({
    watched: CLASSIFIER,
    rules: CLASSIFIER_RULES,
    policy,
    log: { append: (more) => void records.push(...more) },
  });
  for (let i = 0; i < 6; i++)
    await session.iteration(epoch(i, dead), { settings: SETTINGS, executor });
  return numbered(records);
}

describe('the process of another kind of trainee', () => {
  const details = (process: ProcessRecord<ClassifierTypes>): string[] =>
    auditProcess(process, CLASSIFIER).violations.map(
      ({ kind, rule, detail }) => `${kind} ${rule}: ${detail}`,
    );

  test('its rules are recomputed from its signals, and what its description asks of an operation is looked for', async () => {
    const process = readProcess(await log({ activation: 'gelu' }), CLASSIFIER);
    expect(auditProcess(process, CLASSIFIER)).toMatchObject({
      violations: [],
      kept: 1,
      obligations: [{ rule: 'R5', opened: 2 }],
    });
    for (const [measured, found] of [
      [{ activation: 'relu' }, 'relu'],
      [{ slope: 0.01 }, 'none'],
    ] as const)
      expect(details(readProcess(await log(measured), CLASSIFIER))).toEqual([
        `not_executed R5: swap_activation claims activation gelu, but the measurement is ${found}`,
      ]);
  });

  test('a rate that it claims is measured, and the next step runs at it', async () => {
    const process = readProcess(await log({ activation: 'gelu' }), CLASSIFIER);
    const rated = (to: number, measured: number): ProcessRecord<ClassifierTypes> => {
      const operation = { op: 'rate', to } as const;
      return {
        ...process,
        decisions: process.decisions.map((each) => ({
          ...each,
          decision: { ...each.decision, edit: [operation] },
        })),
        effects: process.effects.map((effect) => ({
          ...effect,
          operation,
          measured: { learningRate: measured },
        })),
      };
    };
    expect(details(rated(0.05, 0.05))).toEqual([]);
    expect(details(rated(0.05, 0.01))).toEqual([
      'not_executed R5: rate claims learningRate 0.05, but the measurement is 0.01',
    ]);
    expect(details(rated(0.01, 0.01))).toEqual([
      'not_executed R5: the next step ran at 0.05, not at 0.01',
    ]);
    expect(details({ ...rated(0.1, 0.1), scheduleFactor: () => 0.5 })).toEqual([]);
  });

  test('it is not read as another trainee', async () => {
    const records = await log({ activation: 'gelu' });
    expect(() => readProcess(records, LORA)).toThrow(HardFail);
  });
});

describe('the structure of another kind of trainee', () => {
  const small = { conv1: { units: 16 }, head: { units: 10 } };
  const grown = { ...small, block1: { units: 32 } };
  const state = (iteration: number, targets: object) => ({
    stream: 'metrics',
    payload: { kind: 'adapter_state', iteration, digest: `${iteration}`.repeat(64), targets },
  });
  const step = (iteration: number, modules: object) => ({
    stream: 'metrics',
    payload: { kind: 'step', iteration, modules },
  });
  const added = (name: string, more: object = {}) => ({
    stream: 'effects',
    payload: {
      kind: 'effect',
      iteration: 0,
      rule: 'R4',
      operation: { op: 'add_block', name, units: 32 },
      executed: true,
      measured: {},
      ...more,
    },
  });
  const replay = (...records: { stream: string; payload: object }[]) =>
    replayStructure(numbered(records), CLASSIFIER.trainee);

  test('follows what its operations make of it', () => {
    expect(replay()).toBeNull();
    expect(
      replay(state(0, small), step(0, small), added('block1'), state(1, grown), step(1, grown)),
    ).toEqual(grown);
    expect(replay(state(0, small), added('block1', { executed: false }))).toEqual(small);
  });

  test.each([
    [
      'an operation that cannot be done to it',
      [state(0, small), added('head')],
      'record 1: there is a head',
    ],
    [
      'an operation of another trainee',
      [state(0, small), added('head', { operation: { op: 'skip_step' } })],
      'record 1 is not a valid effect record',
    ],
    [
      'a state that the operations do not lead to',
      [state(0, small), state(1, grown)],
      'block1 is present but should not be',
    ],
    [
      'a module that is another',
      [state(0, small), state(1, { ...small, head: { units: 9 } })],
      'head has 9 units, not 10',
    ],
    [
      'a step that measured others',
      [state(0, small), added('block1'), step(1, small)],
      'did not measure the adapted modules',
    ],
    [
      'a state of another form',
      [state(0, { head: { rank: 8, scale: 2 } })],
      'record 0 is not a valid adapter_state record',
    ],
  ])('%s is a hard fail', (_, records, detail) => {
    expect(() => replay(...records)).toThrow(HardFail);
    expect(() => replay(...records)).toThrow(detail);
  });

  test('differences are in the words of the trainee', () => {
    expect(structureDifference(CLASSIFIER.trainee, small, small)).toBeNull();
    expect(
      structureDifference(LORA.trainee, { m: { rank: 8, scale: 2 } }, { m: { rank: 8, scale: 1 } }),
    ).toBe('m has scale 1 and should have 2');
    expect(
      structureDifference(
        LORA.trainee,
        { m: { rank: 8, scale: 2 } },
        { m: { rank: 8, scale: 1 } },
        true,
      ),
    ).toBeNull();
  });
});
