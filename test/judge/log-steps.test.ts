import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { scoreProcess } from '../../src/judge/scores.js';
import { EventLog } from '../../src/log/event-log.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { evaluateRules, type Evaluation } from '../../src/monitor/evaluate-rules.js';
import { executeDecision, executedRules, type RemedyExecutor } from '../../src/monitor/remedies.js';
import { monitorDigests } from '../../src/monitor/rule-set.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import {
  decisionRecord,
  effectRecord,
  evaluationRecord,
  iterationRecords,
} from '../../src/run-folder/monitor-records.js';
import type { LoraOperation } from '../../src/trainees/lora/operations.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import {
  LORA,
  type LoraIteration as Iteration,
  type TrainerSettings,
} from '../../src/trainees/lora/trainee.js';
import { judgeLog } from '../models/judge-log.js';
import { decided, eachModule, eachStep, healthyIteration } from '../models/rule-history.js';
import { temporaryFolder } from '../models/signed-log.js';
import { Random } from '../../src/random.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const RUN = 'feed'.repeat(8);

/**
 * A run of the monitor's own loop on a model of a trainer: the update ratio is proportional to the
 * learning rate, and two sicknesses come from outside. `cheat` may change or drop what is appended;
 * everything is then signed as a run would have it signed.
 */
async function run(
  cheat: (records: NewRunRecord[], iteration: number) => NewRunRecord[] = (records) => records,
  options: { healthy?: boolean; config?: unknown; iterations?: number } = {},
): Promise<string> {
  const home = mkdtempSync(join(folder.path, 'run-'));
  const path = join(home, 'log.sqlite');
  const signer = new SingleProcessSigner(home);
  const log = await EventLog.create({
    streams: RUN_STREAMS,
    path,
    runId: RUN,
    signer,
    runConfig: { rules: (options.config ?? DEFAULT_RULES) as never },
    digests: monitorDigests(LORA.ruleSet, DEFAULT_RULES),
  });
  const random = new Random(4n);
  let learningRate = 2e-4;
  let clip = 2;
  let dormant = 0.9;
  const executor: RemedyExecutor<LoraOperation> = {
    execute: async (operation) => {
      if (operation.op === 'set_lr') learningRate = operation.to;
      if (operation.op === 'set_clip') clip = operation.maxNorm;
      if (operation.op === 'recycle') dormant = 0;
      if (operation.op === 'stop') stopped = true;
      return {
        learningRate,
        clip,
        ...(operation.op === 'stop' ? { restored: operation.restore } : {}),
      };
    },
  };
  const history: Iteration[] = [];
  const evaluations: Evaluation[] = [];
  let stopped = false;
  for (let i = 0; i < (options.iterations ?? 30) && !stopped; i++) {
    if (i === 4 && options.healthy !== true) learningRate *= 100; // an accident
    const base = healthyIteration(random, i);
    const sick = options.healthy !== true && i >= 10;
    const measured = eachModule(
      eachStep(base, () => ({ learningRate })),
      (module, name) => ({
        updateRatio: (module.updateRatio * learningRate) / 2e-4,
        dormantFraction: sick && name === 'blk.0.attn_v' ? dormant : module.dormantFraction,
      }),
    );
    history.push({ ...measured, executed: [] });
    const evaluation = evaluateRules(history, DEFAULT_RULES, LORA.ruleSet);
    evaluations.push(evaluation);
    const settings: TrainerSettings = {
      learningRate,
      batchSize: 16,
      maxBatchSize: 64,
      maxGradNorm: clip,
      epsilon: 1e-8,
      unadapted: [],
      bestAdapter: 'ab'.repeat(32),
      lastSoundAdapter: 'cd'.repeat(32),
      modules: Object.fromEntries(
        Object.keys(measured.parameters).map((name) => [
          name,
          { rank: 16, scale: 2, dormantDirections: [1, 2] },
        ]),
      ),
    };
    const decisions = await decided(scripted, evaluations, settings);
    const records = [...iterationRecords(measured), evaluationRecord(evaluation)];
    const effects = [];
    for (const decision of decisions)
      effects.push(...(await executeDecision(decision, i, executor)));
    records.push(
      ...decisions.map((decision) => decisionRecord(decision, i)),
      ...effects.map(effectRecord),
    );
    history[i] = { ...measured, executed: executedRules(decisions, effects) };
    const appended = cheat(records, i);
    if (appended.length > 0) log.append(appended);
    await log.checkpoint();
  }
  await log.reveal();
  await log.finish();
  await signer.close();
  return home;
}

const judged = (home: string): ReturnType<typeof judgeLog> => judgeLog(home, { home, runId: RUN });
const hardFail = (step: number): never =>
  expect.objectContaining({ name: 'HardFail', step }) as never;
const onStream =
  (stream: string, change: (record: NewRunRecord) => NewRunRecord | null, at?: number) =>
  (records: NewRunRecord[], iteration: number): NewRunRecord[] =>
    records.flatMap((record) => {
      if (record.stream !== stream || (at !== undefined && iteration !== at)) return [record];
      const changed = change(record);
      return changed === null ? [] : [changed];
    });
const payload = (record: NewRunRecord, change: object): NewRunRecord => ({
  ...record,
  payload: { ...record.payload, ...change } as never,
});

let honestHome: Promise<string> | undefined;
/** An attack counts as detected only if the honest run passes beside it. */
async function honestPasses(): Promise<void> {
  const { verification, audit } = await judged(await (honestHome ??= run()));
  expect([verification.outcome, audit.violations]).toEqual(['ok', []]);
}

describe('the judge on the log', () => {
  test('an honest run with two accidents passes every log step, and its remedies are seen to cure', async () => {
    const { verification, record, audit } = await judged(await run());
    expect(verification.outcome).toBe('ok');
    expect(audit.violations).toEqual([]);
    expect([...new Set(audit.obligations.map(({ rule }) => rule))].sort()).toEqual([
      'R1',
      'R3',
      'R5',
    ]);
    expect(
      record.decisions.some(({ decision }) => decision.remedy_direction === 'recycle_directions'),
    ).toBe(true);
    // all else is cured, and the run stops
    expect(record.evaluations.at(-1)!.fired).toEqual(['R3']);
    expect(scoreProcess(audit)).toMatchObject({ process_score: 1, process_axis_exercised: true });
  });

  test('X16: a run in which nothing fires is unexercised, not perfect', async () => {
    const { audit } = await judged(await run(undefined, { healthy: true, iterations: 14 }));
    expect(scoreProcess(audit)).toMatchObject({
      process_score: null,
      process_axis_exercised: false,
      obligations: 0,
    });
  });

  test('cheat 1: a file beside the log changes nothing', async () => {
    const home = await run();
    writeFileSync(join(home, 'decision_log.jsonl'), 'junk');
    expect((await judged(home)).audit.violations).toEqual([]);
  });

  test('a run that has not ended is not scored', async () => {
    const home = mkdtempSync(join(folder.path, 'open-'));
    const signer = new SingleProcessSigner(home);
    const log = await EventLog.create({
      streams: RUN_STREAMS,
      path: join(home, 'log.sqlite'),
      runId: RUN,
      signer,
      runConfig: null,
      digests: {},
    });
    log.close();
    await signer.close();
    await expect(judged(home)).rejects.toThrow(hardFail(5));
  });

  test.each<[string, (records: NewRunRecord[], iteration: number) => NewRunRecord[]]>([
    [
      'X8: all evaluations say that nothing fired',
      onStream('rule_evals', (record) => {
        const rules = Object.fromEntries(
          Object.entries(record.payload.rules as object).map(([rule, each]) => [
            rule,
            { ...(each as object), fired: false, side: 'none' },
          ]),
        );
        return payload(record, { rules, fired: [] });
      }),
    ],
    [
      'one smoothed value is a little off',
      onStream(
        'rule_evals',
        (record) =>
          payload(record, {
            rules: {
              ...(record.payload.rules as object),
              R3: { ...(record.payload.rules as { R3: object }).R3, value: 0.123 },
            },
          }),
        9,
      ),
    ],
    ['X3: no evaluations at all', onStream('rule_evals', () => null)],
    ['one evaluation is missing', onStream('rule_evals', () => null, 7)],
    ['measurements of one iteration are missing', onStream('metrics', () => null, 7)],
    ['one step is missing', (records, iteration) => (iteration === 7 ? records.slice(1) : records)],
    [
      'X7: a measured value was replaced, the evaluation was not',
      onStream(
        'metrics',
        (record) => (record.payload.kind === 'step' ? payload(record, { modules: {} }) : record),
        6,
      ),
    ],
    [
      'X6: a decision is dated back',
      onStream('decisions', (record) => payload(record, { iteration: 2 })),
    ],
    [
      'X5: decisions without a cite',
      onStream('decisions', (record) => payload(record, { cites: [] })),
    ],
  ])('%s: hard fail', async (_, cheat) => {
    await honestPasses();
    // the gate of that number, not the audit, which fails nothing
    await expect(judged(await run(cheat))).rejects.toMatchObject({
      name: 'HardFail',
      step: 8,
      stepName: 'rule_recomputation',
    });
  });

  test('other thresholds than the genesis commits to: hard fail', async () => {
    await expect(
      judged(await run(undefined, { config: { ...DEFAULT_RULES, alpha: 0.5 } })),
    ).rejects.toThrow(hardFail(8));
    await expect(judged(await run(undefined, { config: 'none' }))).rejects.toThrow(hardFail(8));
  });

  test('X15: a remedy whose effect is made up shows in the next iteration; without effect record too', async () => {
    const never: (records: NewRunRecord[], iteration: number) => NewRunRecord[] = onStream(
      'metrics',
      (record) =>
        record.payload.kind === 'step' ? payload(record, { learningRate: 2e-2 }) : record,
    );
    await honestPasses();
    const { audit } = await judged(await run(never));
    expect(audit.violations.map(({ kind }) => kind)).toContain('not_executed');
  });

  test('X12: a decision for the other direction is a violation, though it was logged', async () => {
    await honestPasses();
    const { audit } = await judged(
      await run(
        onStream('decisions', (record) => payload(record, { remedy_direction: 'increase_lr' })),
      ),
    );
    expect(audit.violations.length).toBeGreaterThan(0);
    expect(audit.violations.every(({ kind }) => kind === 'wrong_direction')).toBe(true);
  });

  test('cheat 5: decisions left out are missing', async () => {
    await honestPasses();
    const { audit } = await judged(
      await run((records) => records.filter(({ stream }) => stream !== 'decisions')),
    );
    expect(audit.violations.length).toBe(audit.obligations.length);
    expect(audit.violations.every(({ kind }) => kind === 'missing')).toBe(true);
  });
});
