import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { judgeLog } from '../../src/judge/log-steps.js';
import { EventLog } from '../../src/log/event-log.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { monitorDigests } from '../../src/monitor/playbook.js';
import { observe, scripted } from '../../src/monitor/policy.js';
import { DEFAULT_RULES, type RuleId } from '../../src/monitor/rules.js';
import type { MonitorReport } from '../../src/monitor/session.js';
import { monitoredRun, type MonitoredRun } from '../models/monitored-run.js';
import { temporaryFolder } from '../models/signed-log.js';
import { sickRuns, writeMonitoredModel } from '../models/sick-runs.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const { model, deadAdapter } = writeMonitoredModel(folder.path);

const firing = (reports: readonly MonitorReport[], rule: RuleId): MonitorReport[] => reports.filter(({ evaluation }) => evaluation.rules[rule].fired);
const effectsOf = (run: MonitoredRun, rule: RuleId): MonitorReport['effects'] => run.reports.flatMap(({ effects }) => effects).filter((effect) => effect.rule === rule);
const last = <T>(values: readonly T[]): T => values.at(-1) as T;
const lastModules = (run: MonitoredRun): { dormantFraction: number }[] => Object.values(last(last(run.session.history).steps).modules);

/** What the remedy has to have changed, measured on the run itself. */
const CONSEQUENCES: Record<string, (run: MonitoredRun) => void> = {
  'R1 high': (run) => {
    expect(last(run.reports).evaluation.rules.R1.value).toBeLessThan(DEFAULT_RULES.r1.updateRatioHigh);
    expect(last(last(run.session.history).steps).learningRate).toBeCloseTo(last(effectsOf(run, 'R1')).measured.learningRate as number, 8);
  },
  'R1 low': (run) => {
    expect(last(run.reports).evaluation.rules.R1.value).toBeGreaterThan(DEFAULT_RULES.r1.updateRatioLow);
    expect(last(last(run.session.history).steps).learningRate).toBeCloseTo(4e-6, 10);
  },
  'R1 plateau': (run) => {
    const [first] = firing(run.reports, 'R1');
    expect(effectsOf(run, 'R1')[0]).toMatchObject({ operation: { op: 'set_lr' }, measured: { learningRate: expect.closeTo(2e-3 / 3, 8) } });
    expect(last(run.heldOutLoss)).toBeLessThan(0.85 * run.heldOutLoss[first!.iteration]!);
  },
  'R2 high': (run) => expect(last(run.batchSizes)).toBe(effectsOf(run, 'R2').at(-1)!.measured.sequencesPerStep),
  'R2 low': (run) => expect([run.batchSizes[0], last(run.batchSizes)]).toEqual([192, 96]),
  'R3 plateau': (run) => {
    const [effect] = effectsOf(run, 'R3');
    expect([run.stopped, effect!.measured.restored]).toEqual([true, (effect!.operation as { restore: string }).restore]);
    expect(run.finalHeldOutLoss).toBe(Math.min(...run.heldOutLoss)); // the best state is back, bit by bit
    expect(run.finalHeldOutLoss).toBeLessThan(last(run.heldOutLoss) - 0.01);
  },
  'R4 plateau': (run) => {
    for (const { measured } of effectsOf(run, 'R4')) expect(measured).toMatchObject({ probeChange: expect.closeTo(0, 5), rank: 2 });
    const grown = firing(run.reports, 'R4')[0]!.iteration;
    expect(last(run.heldOutLoss)).toBeLessThan(0.75 * run.heldOutLoss[grown]!);
  },
  'R5 high': (run) => {
    expect(effectsOf(run, 'R5')).toMatchObject([{ operation: { op: 'recycle', module: 'blk.1.attn_q', directions: [0, 1, 2] }, measured: { probeChange: 0 } }]);
    expect(Math.max(...lastModules(run).map(({ dormantFraction }) => dormantFraction))).toBe(0);
  },
  'R6 low': (run) => {
    expect(effectsOf(run, 'R6')).toMatchObject([{ operation: { op: 'rescale', module: 'blk.0.attn_v' }, measured: { probeChange: expect.closeTo(0, 5), scale: 4 } }]);
    expect(last(run.reports).evaluation.rules.R6.value).toBeGreaterThan(0.1);
  },
  'R7 high': (run) => {
    expect(effectsOf(run, 'R7')).toMatchObject([{ operation: { op: 'set_lr' }, measured: { learningRate: 0.01 } }, { operation: { op: 'set_clip' }, measured: { maxNorm: 1 } }]);
    expect(last(run.reports).evaluation.rules.R7.value).toBeLessThan(DEFAULT_RULES.r7.ratioHigh);
  },
  'R7 nonfinite': (run) => {
    const [broken] = run.session.history.filter(({ steps }) => steps.some(({ nonFinite }) => nonFinite.length > 0));
    expect(broken!.steps.every(({ applied }) => !applied)).toBe(true);
    expect(effectsOf(run, 'R7')).toMatchObject([{ operation: { op: 'rollback' }, measured: { learningRate: expect.closeTo(1e-4, 8) } }]);
    for (const { steps } of run.session.history.filter(({ iteration }) => iteration > broken!.iteration)) expect(steps.every(({ applied, nonFinite }) => applied && nonFinite.length === 0)).toBe(true);
  },
};

describe('a real training run', () => {
  test.each(sickRuns(deadAdapter).map((sick) => [`${sick.rule} ${sick.side}`, sick] as const))('%s: trips its rule, and what was executed clears it', async (name, { rule, side, seed, options, name: cause }) => {
    const path = join(folder.path, `${name.replace(' ', '-')}.sqlite`);
    const signer = new SingleProcessSigner(folder.path);
    const runConfig = JSON.parse(JSON.stringify({ rules: DEFAULT_RULES, cause })) as { rules: never };
    const log = await EventLog.create({ path, runId: name.charCodeAt(1).toString(16).padEnd(30, '0') + side.charCodeAt(0).toString(16), signer, runConfig, digests: monitorDigests(DEFAULT_RULES) });
    const run = await monitoredRun({ model, seed, rules: DEFAULT_RULES, policy: scripted, log, ...options });
    await log.finish();
    await signer.close();

    const [first] = firing(run.reports, rule);
    expect(first?.evaluation.rules[rule].side).toBe(side);
    const effects = effectsOf(run, rule);
    expect(effects.length).toBeGreaterThan(0);
    for (const effect of effects) expect(effect).toMatchObject({ executed: true });
    const acted = run.reports.findLastIndex(({ effects: own }) => own.some((effect) => effect.rule === rule));
    if (rule === 'R3') expect(acted).toBe(run.reports.length - 1); // stopped
    else {
      expect(run.reports.length - acted).toBeGreaterThan(2);
      expect(firing(run.reports.slice(acted + 1), rule)).toEqual([]);
    }
    CONSEQUENCES[name]!(run);

    // the judge recomputes all of it from the log, and finds this rule's obligations kept
    const { audit } = await judgeLog(path, { home: folder.path });
    expect(audit.violations.filter((violation) => violation.rule === rule)).toEqual([]);
    expect(audit.obligations.filter((obligation) => obligation.rule === rule).length).toBeGreaterThan(0);
  });

  // a broken batch passes, an early stop has nothing to wait for, and weights that exploded saturate, which leaves no gradient;
  // an objective that is shaken passes its bar now and then
  test.each(sickRuns(deadAdapter).filter(({ rule, side }) => side !== 'plateau' || rule === 'R4').filter(({ rule }) => rule !== 'R7').map((sick) => [`${sick.rule} ${sick.side}`, sick] as const))('%s: left alone it does not clear by itself', async (_, { rule, seed, options }) => {
    const run = await monitoredRun({ model, seed, rules: DEFAULT_RULES, policy: observe, ...options });
    const [first] = firing(run.reports, rule);
    expect(first).toBeDefined();
    expect(firing(run.reports.slice(first!.iteration, first!.iteration + 4), rule).length).toBeGreaterThanOrEqual(2);
    expect(run.reports.flatMap(({ effects }) => effects)).toEqual([]);
  });
});
