/**
 * A real language model in the trainer: its log-probabilities, its gradient, its adapters in every
 * form.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  convertAdapter,
  createTrainer,
  inspectAdapter,
  mergeAdapter,
  Random,
  type LoraTarget,
  type Model,
  type Trainer,
  type TrainSequence,
} from '../../src/index.js';
import { loadReal, REAL_MODEL } from './real-model.js';

const SHEETS = [
  ['How many orders are open?', "SELECT count(*) FROM orders WHERE state = 'open';"],
  ['Name the oldest customer.', 'SELECT name FROM customers ORDER BY born LIMIT 1;'],
  ['Where does Ada live?', "SELECT city FROM customers WHERE name = 'Ada';"],
] as const;

let folder: string;
let model: Model;
let batch: TrainSequence[];
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-real-'));
  model = await loadReal();
  batch = SHEETS.map(([question, reply]) => {
    const prompt = model.renderChat([{ role: 'user', content: question }]).tokenIds;
    const tokenIds = Int32Array.from([...prompt, ...model.tokenize(reply), model.info.eos]);
    return {
      tokenIds,
      labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= prompt.length ? 1 : 0)),
    };
  });
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const at = (name: string): string => path.join(folder, name);

/**
 * Differences between the trainer's log-probabilities of the labelled tokens and llama.cpp's: mean
 * and largest, in nats.
 */
async function gaps(trainer: Trainer, engine: Model): Promise<{ mean: number; largest: number }> {
  const evaluated = await trainer.evaluate(batch);
  const all: number[] = [];
  for (const [i, { tokenIds, labelMask }] of batch.entries()) {
    const start = labelMask.indexOf(1);
    const [scores] = await engine.score(tokenIds.slice(0, start), [tokenIds.slice(start)]);
    scores!.forEach((value, t) => {
      all.push(Math.abs(value - evaluated.sequences[i]!.logprobs[start + t]!));
    });
  }
  return { mean: all.reduce((sum, gap) => sum + gap, 0) / all.length, largest: Math.max(...all) };
}

/** Takes a few steps, so that B is not zero. */
async function trained(options: Parameters<typeof createTrainer>[1] = {}): Promise<Trainer> {
  const trainer = await createTrainer(model, {
    lora: { rank: 4 },
    optimiser: { learningRate: 1e-3 },
    threads: 1,
    seed: 5n,
    ...options,
  });
  for (let i = 0; i < 3; i++) await trainer.step(batch);
  return trainer;
}

/** The rows of one tensor of a safetensors file, to be changed in place. */
function tensor(file: Buffer, name: RegExp): Float32Array {
  const length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + length).toString()) as Record<
    string,
    { dtype: string; data_offsets: [number, number] }
  >;
  const [entry] = Object.entries(header).filter(([key]) => name.test(key));
  expect(entry?.[1].dtype).toBe('F32');
  const [from, to] = entry![1].data_offsets;
  return new Float32Array(file.buffer, file.byteOffset + 8 + length + from, (to - from) / 4);
}

describe('log-probabilities', () => {
  test("differ from llama.cpp's by its rounding of activations, and without it by that of f16 keys and values", async () => {
    await using trainer = await createTrainer(model, { lora: { rank: 1 }, threads: 1 });
    const quantised = await gaps(trainer, model);
    // The same weights in F32, whose activations llama.cpp does not round: a merge of an adapter
    // that adds nothing.
    await trainer.exportAdapter(at('nothing.gguf'));
    await mergeAdapter({
      model: REAL_MODEL,
      adapter: at('nothing.gguf'),
      out: at('f32.gguf'),
      type: 'f32',
    });
    await using exact = await loadReal(at('f32.gguf'));
    const rest = await gaps(trainer, exact);
    console.info(
      `trainer and llama.cpp, nats: Q4_1 ${JSON.stringify(quantised)}, the same weights in F32 ${JSON.stringify(rest)}`,
    );
    // What docs/training.md has, with its margin of a half for other processors.
    expect(quantised.mean).toBeLessThan(1.5 * 0.075);
    expect(quantised.largest).toBeLessThan(1.5 * 0.25);
    expect(rest.mean).toBeLessThan(1.5 * 0.002);
    expect(rest.largest).toBeLessThan(1.5 * 0.012);
    await using other = await createTrainer(
      { path: at('f32.gguf') },
      { lora: { rank: 1 }, threads: 1 },
    );
    const [ours, theirs] = [await trainer.evaluate(batch), await other.evaluate(batch)];
    expect(Math.abs(ours.loss - theirs.loss)).toBeLessThan(1e-5);
  });
});

describe('gradient', () => {
  // With an epsilon that dwarfs the gradient, the first update of Adam is -rate / epsilon *
  // gradient: the adapter is the gradient.
  const SCALE = 1e-3;
  test.each<[LoraTarget, number]>([
    ['v', 0],
    ['down', 15],
    ['q', 29],
  ])('of %s in layer %i is the slope of the loss', async (target, layer) => {
    await using trainer = await createTrainer(model, {
      lora: { rank: 4, alpha: 4, targets: [target], layers: [layer] },
      optimiser: { learningRate: SCALE * 1e4, epsilon: 1e4, weightDecay: 0, maxNorm: 1e9 },
      threads: 1,
      seed: 5n,
    });
    const { pairGradNorm } = Object.values((await trainer.step(batch)).modules)[0]!;
    await trainer.exportPeft(at('stepped'));
    const name = /lora_B/;
    const gradient = tensor(readFileSync(at('stepped/adapter_model.safetensors')), name).map(
      (value) => -value / SCALE,
    );
    const size = Math.sqrt(gradient.reduce((sum, value) => sum + value * value, 0));
    expect(size / pairGradNorm).toBeCloseTo(1, 3); // B is zero, and so is A's gradient

    // Along the gradient itself, and along random signs on half of its largest entries.
    const random = new Random(7n);
    const order = [...gradient.keys()].sort(
      (a, b) => Math.abs(gradient[b]!) - Math.abs(gradient[a]!),
    );
    const chosen = new Set(order.slice(0, 400).filter(() => random.nextInteger(0, 1) === 1));
    for (const direction of [
      gradient.map((value) => value / size),
      gradient.map((value, i) => (chosen.has(i) ? Math.sign(value) / Math.sqrt(chosen.size) : 0)),
    ]) {
      const slope = gradient.reduce((sum, value, i) => sum + value * direction[i]!, 0);
      // the loss changes by some thousandths: far above f32's rounding, still near its tangent
      const reach = 0.004 / slope;
      const losses: number[] = [];
      for (const sign of [1, -1]) {
        cpSync(at('stepped'), at('moved'), { recursive: true });
        const file = readFileSync(at('moved/adapter_model.safetensors'));
        tensor(file, name).set(direction.map((value) => sign * reach * value));
        writeFileSync(at('moved/adapter_model.safetensors'), file);
        await trainer.importAdapter(at('moved'));
        losses.push((await trainer.evaluate(batch)).loss);
      }
      expect((losses[0]! - losses[1]!) / (2 * reach) / slope).toBeCloseTo(1, 2);
    }
  });
});

describe('an adapter', () => {
  test('teaches three replies by heart, and llama.cpp says them', async () => {
    await using trainer = await createTrainer(model, {
      lora: { rank: 8 },
      optimiser: { learningRate: 2e-3 },
      threads: 1,
      seed: 5n,
    });
    for (let i = 0; i < 60 && (await trainer.evaluate(batch)).loss > 0.01; i++)
      await trainer.step(batch);
    const adapter = await trainer.applyTo(model);
    const replies: string[] = [];
    for await (const { text } of model.generate({
      prompts: SHEETS.map(([content]) => ({ messages: [{ role: 'user', content }] })),
      sampling: { temperature: 0 },
      maxTokens: 40,
      adapter,
    }))
      replies.push(text);
    await model.setAdapter(null);
    expect(replies.sort()).toEqual(SHEETS.map(([, reply]) => reply).sort());
  });

  test('is the same in GGUF, in PEFT and back, in another trainer, and merged', async () => {
    await using trainer = await trained();
    const ours = await trainer.evaluate(batch);
    await trainer.exportAdapter(at('adapter.gguf'));
    await convertAdapter({
      adapter: at('adapter.gguf'),
      model: REAL_MODEL,
      format: 'peft',
      out: at('peft'),
    });
    await convertAdapter({
      adapter: at('peft'),
      model: REAL_MODEL,
      format: 'gguf',
      out: at('again.gguf'),
    });
    const [before, after] = [
      await inspectAdapter(at('adapter.gguf')),
      await inspectAdapter(at('again.gguf')),
    ];
    expect(after.modules).toEqual(before.modules);
    await using other = await createTrainer(model, { lora: { rank: 4 }, threads: 1 });
    await other.importAdapter(at('peft'));
    expect((await other.evaluate(batch)).sequences.map(({ logprobs }) => [...logprobs])).toEqual(
      ours.sequences.map(({ logprobs }) => [...logprobs]),
    );
    for (const [type, bound] of [
      ['f32', 1e-4],
      ['f16', 2e-3],
      ['q8_0', 0.05],
    ] as const) {
      await mergeAdapter({
        model: REAL_MODEL,
        adapter: at('adapter.gguf'),
        out: at('merged.gguf'),
        type,
      });
      await using merged = await createTrainer(
        { path: at('merged.gguf') },
        { lora: { rank: 1 }, threads: 1 },
      );
      expect(Math.abs((await merged.evaluate(batch)).loss - ours.loss)).toBeLessThan(bound);
    }
    expect(
      Math.abs(ours.loss - (await trainer.evaluate(batch, { adapter: false })).loss),
    ).toBeGreaterThan(0.2);
  });
});
