import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { EventLog } from '../../src/log/event-log.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { observe } from '../../src/monitor/policy.js';
import { monitorDigests } from '../../src/monitor/rule-set.js';
import { monitoredRun, type MonitoredRun } from '../../src/harness/monitored-run.js';
import { SCENARIOS, usualOptions } from '../../src/harness/scenarios.js';
import { DEFAULT_RULES, type RuleId } from '../../src/monitor/rules.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import {
  LORA,
  type LoraEffect as Effect,
  type LoraIteration as Iteration,
} from '../../src/trainees/lora/trainee.js';
import type { LoraReport as MonitorReport } from '../../src/training/monitor-session.js';
import { judgeLog } from '../models/judge-log.js';
import { outcomeOf, treatmentRates, type Treated } from '../models/calibration.js';
import { temporaryFolder } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const folder = temporaryFolder();
afterAll(folder.remove);

/** The calibration's, as they come: none is chosen for what its remedies do. */
const SEEDS = Array.from({ length: process.env.ISOPRO_FULL === '1' ? 8 : 2 }, (_, i) =>
  BigInt(20_001 + i),
);
const CALIBRATION = JSON.parse(
  readFileSync(new URL('../../docs/monitor-calibration.json', import.meta.url), 'utf8'),
) as {
  remedies: ReturnType<typeof treatmentRates>;
};

const firing = (reports: readonly MonitorReport[], rule: RuleId): MonitorReport[] =>
  reports.filter(({ evaluation }) => evaluation.rules[rule].fired);
const last = <T>(values: readonly T[]): T => values.at(-1) as T;
const nextSteps = (run: MonitoredRun, { iteration }: Effect): Iteration['steps'] =>
  run.session.history.find((each) => each.iteration === iteration + 1)?.steps ?? [];

/**
 * Each operation did what its effect says, measured on the run itself, whether that settles the
 * rule or not.
 */
const MEASURED: Record<string, (run: MonitoredRun, effects: readonly Effect[]) => void> = {
  'R1 high': rateFollows,
  'R1 low': rateFollows,
  'R1 plateau': rateFollows,
  'R2 high': batchFollows,
  'R2 low': batchFollows,
  'R3 plateau': (run, [effect]) => {
    expect([run.stopped, effect!.measured.restored]).toEqual([
      true,
      (effect!.operation as { restore: string }).restore,
    ]);
    // the best state is back, bit by bit
    expect(run.finalHeldOutLoss).toBe(Math.min(...run.heldOutLoss));
  },
  'R4 plateau': (_, effects) => {
    for (const { measured, operation } of effects)
      expect(measured).toMatchObject({
        probeChange: expect.closeTo(0, 5),
        rank: (operation as { to: number }).to,
      });
  },
  'R5 high': (run, effects) => {
    expect(effects[0]).toMatchObject({
      operation: { op: 'recycle', module: 'blk.1.attn_q', directions: [0, 1, 2] },
      measured: { probeChange: 0 },
    });
    expect(last(nextSteps(run, effects[0]!)).modules['blk.1.attn_q']!.dormantFraction).toBeLessThan(
      DEFAULT_RULES.r5.dormantFraction,
    );
  },
  'R6 low': (run, [effect]) => {
    expect(effect).toMatchObject({
      operation: { op: 'rescale', module: 'blk.0.attn_v' },
      measured: { probeChange: expect.closeTo(0, 5), scale: expect.closeTo(4, 5) },
    });
    expect(last(run.reports).evaluation.rules.R6.value).toBeGreaterThan(0.1);
  },
  'R7 high': (run, effects) => {
    const [rate, clip] = effects;
    expect([rate!.operation.op, clip!.operation.op]).toEqual(['set_lr', 'set_clip']);
    const { maxNorm } = clip!.operation as { maxNorm: number };
    expect(maxNorm).toBeLessThanOrEqual(1);
    expect(clip!.measured.maxNorm).toBe(maxNorm);
    rateFollows(run, [rate!]);
  },
  'R7 nonfinite': (run, effects) => {
    for (const { steps } of run.session.history)
      for (const { applied, nonFinite } of steps) expect(applied).toBe(nonFinite.length === 0);
    const back = effects.filter(({ operation }) => operation.op === 'rollback');
    expect(back.length).toBeGreaterThan(0);
    for (const { operation, measured } of back)
      expect(measured.restored).toBe((operation as { to: string }).to);
    rateFollows(run, back);
  },
};
function rateFollows(run: MonitoredRun, effects: readonly Effect[]): void {
  for (const effect of effects)
    for (const step of nextSteps(run, effect).slice(0, 1))
      expect(step.learningRate).toBeCloseTo(effect.measured.learningRate as number, 8);
}
function batchFollows(run: MonitoredRun, effects: readonly Effect[]): void {
  for (const { iteration, measured } of effects)
    expect(run.batchSizes[iteration + 1] ?? measured.sequencesPerStep).toBe(
      measured.sequencesPerStep,
    );
}

describe('a real training run', () => {
  test.each(SCENARIOS.map((sick) => [sick.id, sick] as const))(
    '%s: trips its rule; what is executed is measured, and as the judge recomputes it',
    async (id, scenario) => {
      const { rule, side, name: cause } = scenario;
      const name = `${rule} ${side}`;
      const treated: Treated[] = [];
      for (const seed of SEEDS) {
        const path = join(folder.path, `${id}-${seed}.sqlite`);
        const signer = new SingleProcessSigner(folder.path);
        const runConfig = JSON.parse(JSON.stringify({ rules: DEFAULT_RULES, cause })) as {
          rules: never;
        };
        const log = await EventLog.create({
          streams: RUN_STREAMS,
          path,
          runId: createHash('sha256').update(path).digest('hex').slice(0, 32),
          signer,
          runConfig,
          digests: monitorDigests(LORA.ruleSet, DEFAULT_RULES),
        });
        const run = await monitoredRun({
          seed,
          rules: DEFAULT_RULES,
          policy: scripted,
          log,
          ...usualOptions(scenario),
        });
        await log.finish();
        await signer.close();
        const outcome = outcomeOf(run.reports, rule, side, run.stopped);
        treated.push({ name: cause, rule, seed, ...outcome });
        const { audit } = await judgeLog(path, { home: folder.path });
        expect(
          audit.violations.filter(
            (violation) => violation.rule === rule && violation.kind === 'not_executed',
          ),
        ).toEqual([]);
        if (!outcome.fired) continue;
        expect(outcome.executed).toBe(true);
        expect(
          audit.obligations.filter((obligation) => obligation.rule === rule).length,
        ).toBeGreaterThan(0);
        const sided = run.reports
          .filter(({ evaluation }) => evaluation.rules[rule].side === side)
          .flatMap(({ effects }) => effects)
          .filter((effect) => effect.rule === rule);
        if (sided.length > 0) MEASURED[name]!(run, sided);
      }
      const counted = treatmentRates(treated)[`${rule}: ${cause}`]!;
      expect(counted.fired).toBeGreaterThan(0);
      if (process.env.ISOPRO_FULL !== '1') return;
      // the documented counts are of these seeds; another processor rounds some of them to another
      // end
      const documented = CALIBRATION.remedies[`${rule}: ${cause}`];
      if (documented === undefined) return;
      for (const count of ['fired', 'executed', 'settled'] as const)
        expect(Math.abs(counted[count] - documented[count])).toBeLessThanOrEqual(2);
    },
    300_000,
  );

  // a broken batch passes, an early stop has nothing to wait for, and weights that exploded
  // saturate, which leaves no gradient; an objective that is shaken passes its bar now and then
  const lasting = SCENARIOS.filter(
    ({ rule, side }) => (side !== 'plateau' || rule === 'R4') && rule !== 'R7',
  );
  test.each(lasting.map((sick) => [sick.id, sick] as const))(
    '%s: left alone it does not clear by itself',
    async (_, scenario) => {
      const { rule } = scenario;
      const [seed] = SEEDS as [bigint];
      const run = await monitoredRun({
        seed,
        rules: DEFAULT_RULES,
        policy: observe,
        ...usualOptions(scenario),
      });
      const [first] = firing(run.reports, rule);
      expect(first).toBeDefined();
      expect(
        firing(run.reports.slice(first!.iteration, first!.iteration + 4), rule).length,
      ).toBeGreaterThanOrEqual(2);
      expect(run.reports.flatMap(({ effects }) => effects)).toEqual([]);
    },
  );
});
