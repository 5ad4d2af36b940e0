import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { EventLog } from '../../src/log/event-log.js';
import { LogReader } from '../../src/log/read.js';
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { observe } from '../../src/monitor/policy.js';
import type { RemedyExecutor } from '../../src/monitor/remedies.js';
import { monitorDigests } from '../../src/monitor/rule-set.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import {
  LORA,
  type LoraIteration as Iteration,
  type LoraPolicy as Policy,
} from '../../src/trainees/lora/trainee.js';
import {
  type LoraReport as MonitorReport,
  MonitorSession,
} from '../../src/training/monitor-session.js';
import { eachModule, eachStep, history, SETTINGS as settings } from '../models/rule-history.js';
import { temporaryFolder } from '../models/signed-log.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const fast =
  (from: number) =>
  (each: Iteration, i: number): Iteration =>
    i >= from ? eachModule(each, () => ({ updateRatio: 0.5 })) : each;

/** Keeps what was appended, one entry a call. */
function listening(): {
  readonly appended: NewRunRecord[][];
  readonly append: (records: readonly NewRunRecord[]) => void;
} {
  const appended: NewRunRecord[][] = [];
  return { appended, append: (records) => void appended.push([...records]) };
}
const kinds = (records: readonly NewRunRecord[]): string[] =>
  records.map(({ payload }) => payload.kind).filter((kind) => kind !== 'step');

describe('a session', () => {
  test('logs measurement and evaluation, then decisions, and only then executes and logs effects', async () => {
    const log = listening();
    const at: number[] = [];
    const executor: RemedyExecutor = {
      execute: async () => {
        at.push(log.appended.length);
        return { learningRate: 1e-4 };
      },
    };
    const session = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: scripted,
      log,
    });
    const reports: MonitorReport[] = [];
    for (const iteration of history(9, fast(4)))
      reports.push(await session.iteration(iteration, { settings, executor }));
    const acted = reports.findIndex(({ decisions }) => decisions.length > 0);
    expect(reports[acted]).toMatchObject({
      iteration: 6,
      decisions: [{ cites: ['R1'] }],
      effects: [{ executed: true, measured: { learningRate: 1e-4 } }],
      refused: null,
    });
    expect(log.appended.slice(acted, acted + 3).map(kinds)).toEqual([
      ['iteration', 'rule_eval'],
      ['decision'],
      ['effect'],
    ]);
    expect(at[0]).toBe(acted + 2); // both were on disk before anything was executed
    expect(session.history[acted]!.executed).toEqual(['R1']);
    expect(reports[acted + 1]!.evaluation.rules.R1).toMatchObject({
      fired: false,
      eligible: false,
    }); // cooling down
  });

  test('taken up again from the log goes on as if it had never stopped', async () => {
    const path = join(folder.path, 'log.sqlite');
    const log = await EventLog.create({
      streams: RUN_STREAMS,
      path,
      runId: 'cd34'.repeat(8),
      signer: witnessInProcess(folder.path),
      runConfig: null,
      digests: monitorDigests(LORA.ruleSet, DEFAULT_RULES),
    });
    const executor: RemedyExecutor = { execute: async () => ({ learningRate: 1e-4 }) };
    const iterations = history(12, fast(3));
    const whole = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: scripted,
      log: listening(),
    });
    const expected = [];
    for (const iteration of iterations)
      expected.push(await whole.iteration(iteration, { settings, executor }));
    const first = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: scripted,
      log,
    });
    for (const iteration of iterations.slice(0, 6))
      await first.iteration(iteration, { settings, executor });
    const reader = new LogReader(path, RUN_STREAMS);
    const second = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: scripted,
      log,
      records: reader.records(),
    });
    reader.close();
    const rest = [];
    for (const iteration of iterations.slice(6))
      rest.push(await second.iteration(iteration, { settings, executor }));
    expect(rest).toEqual(expected.slice(6));
    expect(second.history).toEqual(whole.history);
    expect(expected.flatMap(({ effects }) => effects).length).toBeGreaterThan(1);
    log.close();
  });

  test("a report can be read and not written, and nothing in it is the session's own", async () => {
    const session = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: observe,
      log: listening(),
    });
    const iterations = history(8, fast(2));
    let report: MonitorReport | undefined;
    for (const iteration of iterations)
      report = await session.iteration(iteration, { settings, executor: null });
    expect(() => ((report as { iteration: number }).iteration = 99)).toThrow(TypeError);
    expect(() => ((report!.evaluation.rules.R1 as { fired: boolean }).fired = false)).toThrow(
      TypeError,
    );
    expect(() => (report!.decisions as unknown[]).push({})).toThrow('not extensible');
    expect(report!.evaluation).toEqual(
      evaluateHistory(iterations, DEFAULT_RULES, LORA.ruleSet).at(-1),
    );
  });

  test('a remedy without a trainer fails, is reported as not executed, and does not quieten its rule', async () => {
    const session = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: scripted,
      log: listening(),
    });
    const reports = [];
    for (const iteration of history(10, fast(2)))
      reports.push(await session.iteration(iteration, { settings, executor: null }));
    const [first] = reports.flatMap(({ effects }) => effects);
    expect(first).toMatchObject({
      rule: 'R1',
      executed: false,
      failure: 'there is no trainer yet',
    });
    expect(reports.at(-1)!.evaluation.rules.R1.fired).toBe(true);
  });
});

describe('one answer for each obligation', () => {
  const both = (each: Iteration, i: number): Iteration =>
    i < 4
      ? each
      : eachStep(
          eachModule(each, () => ({ updateRatio: 0.5 })),
          (step) => ({ microBatchNorms: step.microBatchNorms.map(() => step.gradNorm * 1.999) }),
        );

  test('a rule that keeps firing is deferred once in three iterations, not in each', async () => {
    const session = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: observe,
      log: listening(),
    });
    const deferred: number[] = [];
    for (const iteration of history(16, fast(3))) {
      const { decisions } = await session.iteration(iteration, { settings, executor: null });
      if (decisions.some(({ cites }) => cites[0] === 'R1')) deferred.push(iteration.iteration);
    }
    expect(deferred).toEqual([5, 8, 11, 14]);
  });

  test('where the first rule can only be deferred, the next one is acted on', async () => {
    const stuck: Policy = {
      name: 'stuck',
      decide: (context) => (context.rule === 'R1' ? observe : scripted).decide(context),
    };
    const session = new MonitorSession({
      watched: LORA,
      rules: DEFAULT_RULES,
      policy: stuck,
      log: listening(),
    });
    const reports = [];
    for (const iteration of history(16, both))
      reports.push(
        await session.iteration(iteration, {
          settings,
          executor: { execute: async () => ({ sequencesPerStep: 32 }) },
        }),
      );
    const together = reports.find(
      ({ evaluation }) => evaluation.fired.includes('R1') && evaluation.fired.includes('R2'),
    )!;
    expect(
      together.decisions.filter(({ event_type }) => event_type !== 'rule_triggered_no_action'),
    ).toMatchObject([{ cites: ['R2'], edit: [{ op: 'set_batch', from: 16, to: 32 }] }]);
  });
});
