import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  createTrainer,
  type StepStatistics,
  type Trainer,
  type TrainSequence,
} from '../../src/engine/trainer.js';
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { executeDecision, executedRules } from '../../src/monitor/remedies.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import { TrainerExecutor } from '../../src/trainees/lora/executor.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import { LORA, type LoraIteration as Iteration } from '../../src/trainees/lora/trainee.js';
import { Random } from '../../src/random.js';
import { decided } from '../models/rule-history.js';
import { temporaryFolder } from '../models/signed-log.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const file = join(folder.path, 'tiny.gguf');
const { vocabularySize } = writeSyntheticModel(file, { architecture: 'llama' });

function batch(count: number, seed: bigint): TrainSequence[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => ({
    tokenIds: Int32Array.from({ length: 20 }, () => random.nextInteger(0, vocabularySize - 1)),
    labelMask: Uint8Array.from({ length: 20 }, (_, t) => (t > 0 ? 1 : 0)),
  }));
}
const iteration = (
  n: number,
  steps: StepStatistics[],
  parameters: Iteration['parameters'],
): Iteration => ({
  iteration: n,
  steps,
  informativeGroupFraction: 1,
  objective: null,
  heldOut: null,
  kl: null,
  parameters,
  executed: [],
});
const kept = new Map<string, Uint8Array>();
const digestOf = async (trainer: Trainer): Promise<string> =>
  createHash('sha256')
    .update(await trainer.snapshot())
    .digest('hex');
function executorOf(trainer: Trainer, learningRate: number, dropout?: number): TrainerExecutor {
  const loop = {
    setBatch: (n: number) => n,
    kept: (digest: string) => kept.get(digest),
    digest: () => digestOf(trainer),
    stop: () => undefined,
  };
  const executor = new TrainerExecutor(trainer, {
    inForce: { learningRate, maxNorm: 1, epsilon: 1e-8 },
    loop,
    ...(dropout !== undefined && { dropout }),
  });
  executor.begin({ probe: batch(2, 9n), steps: [] });
  return executor;
}
const SETTINGS = {
  batchSize: 8,
  maxBatchSize: 64,
  epsilon: 1e-8,
  unadapted: [],
  bestAdapter: 'ab'.repeat(32),
  lastSoundAdapter: 'cd'.repeat(32),
};

describe('on a real trainer', () => {
  test('a learning rate times 100 trips R1 on its high side, and the executed remedies clear it', async () => {
    const start = 5e-4;
    await using trainer = await createTrainer(
      { path: file },
      { lora: { rank: 4 }, optimiser: { learningRate: start }, threads: 1 },
    );
    const executor = executorOf(trainer, start);
    const parameters = Object.fromEntries(
      trainer.info.targets.map(({ module, rank }) => [module, rank * 128]),
    );
    const data = batch(8, 1n);
    const history: Iteration[] = [];
    const firedAt: [number, string][] = [];
    for (let n = 0; n < 22; n++) {
      if (n === 4)
        await executor.execute({
          op: 'set_lr',
          from: executor.inForce.learningRate,
          to: start * 100,
        });
      const steps: StepStatistics[] = [];
      for (let k = 0; k < 4; k++)
        steps.push(await trainer.step(data, { microBatches: [2, 2, 2, 2] }));
      history.push(iteration(n, steps, parameters));
      const evaluations = evaluateHistory(history, DEFAULT_RULES, LORA.ruleSet);
      const now = evaluations.at(-1)!;
      firedAt.push(
        ...now.fired.map((rule): [number, string] => [n, `${rule} ${now.rules[rule].side}`]),
      );
      const decisions = await decided(scripted, evaluations, {
        ...SETTINGS,
        learningRate: executor.inForce.learningRate,
        maxGradNorm: executor.inForce.maxNorm,
        modules: {},
      });
      const effects = [];
      for (const decision of decisions.filter(({ cites }) => cites[0] === 'R1'))
        effects.push(...(await executeDecision(decision, n, executor)));
      history[n] = { ...history[n]!, executed: executedRules(decisions, effects) };
    }
    const r1 = firedAt.filter(([, what]) => what.startsWith('R1'));
    expect(r1[0]).toEqual([expect.any(Number), 'R1 high']);
    expect(r1[0]![0]).toBeGreaterThanOrEqual(6); // three readings
    expect(r1[0]![0]).toBeLessThanOrEqual(8);
    // random tokens agree on no direction, so R2 asks for a larger batch from the start, and
    // rightly
    expect(new Set(firedAt.filter(([n]) => n < 4).map(([, what]) => what))).toEqual(
      new Set(['R2 high']),
    );
    expect(executor.inForce.learningRate).toBeLessThan((start * 100) / 3 + 1e-9);
    expect(r1.at(-1)![0]).toBeLessThan(21); // cleared at the end
    expect(trainer.stats!.learningRate).toBeCloseTo(executor.inForce.learningRate, 8);
  });

  test('edits measure their consequence: growing, adding, rebalancing and rescaling keep the function, recycling does not', async () => {
    await using trainer = await createTrainer(
      { path: file },
      { lora: { targets: ['q', 'v'], rank: 4 }, optimiser: { learningRate: 5e-3 }, threads: 1 },
    );
    const executor = executorOf(trainer, 5e-3);
    const data = batch(8, 1n);
    for (let k = 0; k < 6; k++) await trainer.step(data);
    const module = 'blk.0.attn_q';
    expect(await executor.execute({ op: 'raise_rank', module, from: 4, to: 6 })).toMatchObject({
      rank: 6,
      probeChange: expect.closeTo(0, 5),
    });
    expect(
      await executor.execute({ op: 'add_target', module: 'blk.1.ffn_down', rank: 4 }),
    ).toMatchObject({
      rank: 4,
      probeChange: expect.closeTo(0, 5),
    });
    expect(await executor.execute({ op: 'rebalance', module, factor: 4 })).toMatchObject({
      probeChange: expect.closeTo(0, 4),
    });
    expect(await executor.execute({ op: 'rescale', module, factor: 2 })).toMatchObject({
      probeChange: expect.closeTo(0, 4),
    });
    expect(
      (await executor.execute({ op: 'recycle', module, directions: [0, 1] })).probeChange,
    ).toBeGreaterThan(1e-4);
  });

  test("an added module has the run's dropout", async () => {
    const trained = async (dropout: number): Promise<string> => {
      const lora = { rank: 4, targets: ['q'] as const };
      await using trainer = await createTrainer(
        { path: file },
        { lora, optimiser: { learningRate: 5e-3 }, threads: 1 },
      );
      await executorOf(trainer, 5e-3, dropout).execute({
        op: 'add_target',
        module: 'blk.1.ffn_down',
        rank: 4,
      });
      await trainer.step(batch(8, 1n));
      return digestOf(trainer);
    };
    const [none, half, again] = [await trained(0), await trained(0.5), await trained(0.5)];
    expect(half).toBe(again);
    expect(half).not.toBe(none);
  });

  test('a rollback restores exactly, and what does not fit is refused with the state as it was', async () => {
    await using trainer = await createTrainer(
      { path: file },
      { lora: { rank: 4 }, optimiser: { learningRate: 1e-2 }, threads: 1 },
    );
    const executor = executorOf(trainer, 1e-2);
    const data = batch(4, 2n);
    await trainer.step(data);
    const digest = await digestOf(trainer);
    kept.set(digest, await trainer.snapshot());
    const sound = await trainer.evaluate(data);
    for (let k = 0; k < 3; k++) await trainer.step(data);
    const measured = await executor.execute({
      op: 'rollback',
      to: digest,
      learningRate: 1e-3,
      maxNorm: 0.5,
    });
    expect(measured).toEqual({ learningRate: 1e-3, maxNorm: 0.5, restored: digest });
    expect((await trainer.evaluate(data)).loss).toBe(sound.loss);
    expect((await trainer.step(data)).learningRate).toBeCloseTo(1e-3, 8);
    const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never;
    await expect(
      executor.execute({ op: 'rollback', to: '00'.repeat(32), learningRate: 1e-3, maxNorm: 1 }),
    ).rejects.toThrow(invalid);
    await expect(executor.execute({ op: 'set_lr', from: 1, to: 0.1 })).rejects.toThrow(invalid);
    await expect(executor.execute({ op: 'add_target', module: 'output', rank: 4 })).rejects.toThrow(
      invalid,
    );
    expect(executor.inForce.learningRate).toBe(1e-3);
  });
});
