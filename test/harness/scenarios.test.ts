import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { choicesOf, consequenceOf, observedDraw } from '../../src/harness/consequences.js';
import { monitoredRun } from '../../src/harness/monitored-run.js';
import { SCENARIO_MODEL, writeDeadAdapter } from '../../src/harness/scenario-model.js';
import {
  drawScenario,
  PURPOSES,
  SCENARIOS,
  usualOptions,
  type Scenario,
} from '../../src/harness/scenarios.js';
import { liveness } from '../../src/monitor/liveness.js';
import { observe } from '../../src/monitor/policy.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { synthesizeAdapter } from '../models/adapter.js';
import { temporaryFolder } from '../models/signed-log.js';
import { encodeModel, synthesizeModel } from '../models/synthetic.js';

const FULL = process.env.ISOPRO_FULL === '1';
const folder = temporaryFolder();
afterAll(folder.remove);
const of = (id: string): Scenario => SCENARIOS.find((each) => each.id === id)!;

describe('the scenarios', () => {
  test('are one at least for each criterion of the rules, by its rule', () => {
    const criteria = liveness(DEFAULT_RULES, LORA.ruleSet, 8, 1).map(
      ({ rule, criterion }) => `${rule} ${criterion}`,
    );
    const covered = SCENARIOS.map(({ rule, criterion }) => `${rule} ${criterion}`);
    expect(criteria.length).toBe(14);
    expect(new Set(covered)).toEqual(new Set(criteria));
    expect(new Set(SCENARIOS.map(({ id }) => id)).size).toBe(SCENARIOS.length);
  });

  test('draw parameters within their bounds, other ones for each purpose and index, and the same again', () => {
    const seen = new Set<string>();
    for (const scenario of SCENARIOS)
      for (const purpose of PURPOSES)
        for (let index = 0; index < 20; index++) {
          const { values, seed } = drawScenario(scenario, purpose, index);
          seen.add(`${scenario.id} ${seed}`);
          for (const [name, value] of Object.entries(values)) {
            const { low, high, scale } = scenario.parameters[name]!;
            expect(value).toBeGreaterThanOrEqual(low);
            expect(value).toBeLessThanOrEqual(high);
            if (scale === 'whole') expect(Number.isInteger(value)).toBe(true);
          }
        }
    expect(seen.size).toBe(SCENARIOS.length * PURPOSES.length * 20);
    const again = drawScenario(of('rank-1'), 'held-out', 3);
    expect(drawScenario(of('rank-1'), 'held-out', 3).seed).toBe(again.seed);
    expect(drawScenario(of('rank-1'), 'held-out', 3).values).toEqual(again.values);
    expect(drawScenario(of('rank-1'), 'held-out', 3, 1n).seed).not.toBe(again.seed);
  });

  test('train the model that ships with the package, which test/models can write', async () => {
    const model = synthesizeModel({
      architecture: 'llama',
      type: 'F32',
      layers: 2,
      embedding: 32,
      feedForward: 64,
      heads: 2,
      keyValueHeads: 1,
      contextLength: 32,
    });
    expect(readFileSync(SCENARIO_MODEL).equals(Buffer.concat([...encodeModel(model)]))).toBe(true);
    const { metadata, tensors } = synthesizeAdapter(model.shape, {
      rank: 4,
      alpha: 16,
      magnitude: 0,
      type: 'F32',
    });
    const dead = tensors.map((tensor) => {
      if (tensor.info.name !== 'blk.1.attn_q.weight.lora_a') return tensor;
      const data = Uint8Array.from(tensor.data);
      return { ...tensor, data: data.fill(0, 0, (data.length / 4) * 3) };
    });
    const file = join(folder.path, 'dead.gguf');
    await writeDeadAdapter(file, { module: 'blk.1.attn_q', directions: 3 });
    // as numbers: a zero may have a sign
    const numbers = (bytes: Buffer): Float32Array =>
      new Float32Array(Uint8Array.from(bytes).buffer).map((x) => x + 0);
    const expected = Buffer.concat([...encodeModel({ metadata, tensors: dead })]);
    expect(Buffer.from(numbers(readFileSync(file)).buffer)).toEqual(
      Buffer.from(numbers(expected).buffer),
    );
  });

  /** What tells the criteria of one rule and side apart: the threshold that was passed. */
  const THRESHOLDS: Readonly<Record<string, number>> = {
    'update ratio too high': DEFAULT_RULES.r1.updateRatioHigh,
    'update ratio too low': DEFAULT_RULES.r1.updateRatioLow,
    KL: DEFAULT_RULES.r1.klHigh,
    'gradient over its median': DEFAULT_RULES.r7.ratioHigh,
    'gradient outside its past': DEFAULT_RULES.r7.zHigh,
    clipping: DEFAULT_RULES.r7.clipFraction,
    'not finite': 0,
  };
  test.each(
    SCENARIOS.filter(
      ({ id }) => FULL || ['policy-shift', 'labels-spoilt', 'bound-lowered'].includes(id),
    ).map((scenario) => [scenario.id, scenario] as const),
  )('%s: a drawn run trips its rule by its criterion', async (_, scenario) => {
    const { rule, side, criterion } = scenario;
    let tripped = 0;
    const count = FULL ? 5 : 1;
    for (let index = 0; index < count; index++) {
      const { options, seed } = drawScenario(scenario, 'fresh', index);
      const { reports } = await monitoredRun({
        seed,
        rules: DEFAULT_RULES,
        policy: observe,
        ...options,
      });
      const first = reports.find(({ evaluation }) => evaluation.rules[rule].side === side);
      const threshold = first?.evaluation.rules[rule].threshold;
      if (first !== undefined && (THRESHOLDS[criterion] ?? threshold) === threshold) tripped++;
    }
    expect(tripped).toBeGreaterThanOrEqual(Math.ceil(count * 0.6));
  });

  test('policies answer the question of a draw, each by an option of its menu', async () => {
    const draw = drawScenario(of('rewards-overflow'), 'fresh', 0);
    const { firing, outcome } = await observedDraw(draw);
    expect(firing!.menu).toEqual(
      expect.arrayContaining(['skip_step', 'rollback', 'defer 1', 'defer 3', 'defer 5']),
    );
    const foreign = { name: 'foreign', decide: () => ({ ...observe, edit: [] }) as never };
    const choices = await choicesOf(draw, firing!, [scripted, observe, foreign]);
    expect(choices.map(({ option }) => option)).toEqual(['rollback', 'defer 5', null]);
    // a step that is not finite was never applied: to skip it is to change nothing
    const skipped = await consequenceOf(draw, firing!, 'skip_step');
    expect(skipped).toEqual(outcome);
    expect(skipped.failure).toBeNull();
    // a policy that throws has not answered
    const broken = { name: 'broken', decide: () => Promise.reject(new TypeError('no answer')) };
    await expect(choicesOf(draw, firing!, [broken])).rejects.toThrow('no answer');
    // the copy is told from another run
    await expect(
      consequenceOf(draw, { ...firing!, situation: '0'.repeat(64) }, 'skip_step'),
    ).rejects.toMatchObject({ code: 'BANK_MISMATCH' });
  });

  test('usual parameters are those that docs/monitor-calibration.json was measured with', () => {
    expect(usualOptions(of('rate-times-20'))).toMatchObject({ learningRate: 1e-3, iterations: 14 });
    expect(usualOptions(of('rank-1'))).toMatchObject({ symbols: 32, warmup: 64 });
  });
});
