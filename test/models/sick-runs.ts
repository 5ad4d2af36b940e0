/** What makes a tiny run sick: one case for each rule and side. */
import { join } from 'node:path';
import { synthesizeAdapter } from './adapter.js';
import type { MonitoredRunOptions } from './monitored-run.js';
import { TINY } from './monitored-run.js';
import { encodeModel, synthesizeModel, writeSyntheticModel } from './synthetic.js';
import { writeAtomically } from './write-atomically.js';
import type { RuleId } from '../../src/monitor/rules.js';

export interface SickRun {
  readonly name: string;
  readonly rule: RuleId;
  readonly side: 'high' | 'low' | 'plateau' | 'nonfinite';
  readonly options: Partial<MonitoredRunOptions>;
}

type Before = NonNullable<MonitoredRunOptions['before']>;
const once =
  (iteration: number, make: (run: Parameters<Before>[1]) => unknown): Before =>
  (n, run) =>
    n === iteration ? make(run) : undefined;
const setRate = (iteration: number, to: number): Before =>
  once(iteration, ({ executor }) =>
    executor.execute({ op: 'set_lr', from: executor.inForce.learningRate, to }),
  );

/**
 * An adapter of rank 4 of which one module has three directions without input: A's rows are zero,
 * and so is all of B.
 */
function writeDeadAdapter(path: string): void {
  const { metadata, tensors } = synthesizeAdapter(synthesizeModel(TINY).shape, {
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
  writeAtomically(path, encodeModel({ metadata, tensors: dead }));
}

/** The model of all monitored runs and its dead adapter, in a folder. */
export function writeMonitoredModel(folder: string): {
  readonly model: string;
  readonly deadAdapter: string;
} {
  const files = { model: join(folder, 'tiny.gguf'), deadAdapter: join(folder, 'dead.gguf') };
  writeSyntheticModel(files.model, TINY);
  writeDeadAdapter(files.deadAdapter);
  return files;
}

/** @param deadAdapter as written by writeMonitoredModel */
export const sickRuns = (deadAdapter: string): readonly SickRun[] => [
  {
    name: 'a learning rate times 20',
    rule: 'R1',
    side: 'high',
    options: { noise: 0, learningRate: 1e-3, iterations: 14, before: setRate(4, 2e-2) },
  },
  {
    name: 'a learning rate of 2e-6',
    rule: 'R1',
    side: 'low',
    options: { noise: 0, learningRate: 2e-6, iterations: 8 },
  },
  {
    name: 'a rate that shakes a fifth of wrong labels',
    rule: 'R1',
    side: 'plateau',
    options: { noise: 0.2, symbols: 16, warmup: 160, learningRate: 2e-3, iterations: 8 },
  },
  {
    name: 'micro-batches of one with half of the labels wrong',
    rule: 'R2',
    side: 'high',
    options: {
      noise: 0.5,
      symbols: 16,
      batchSize: 8,
      microBatch: 1,
      learningRate: 1e-3,
      iterations: 16,
    },
  },
  {
    name: 'a batch of 192 that agrees with itself',
    rule: 'R2',
    side: 'low',
    options: {
      noise: 0,
      batchSize: 192,
      microBatch: 48,
      maxBatchSize: 256,
      learningRate: 5e-4,
      warmup: 4,
      stepsEach: 4,
      iterations: 8,
    },
  },
  {
    name: 'eight sequences of noise, again and again',
    rule: 'R3',
    side: 'plateau',
    options: { noise: 1, fixed: 8, learningRate: 2e-3, iterations: 12 },
  },
  {
    name: 'rank 1',
    rule: 'R4',
    side: 'plateau',
    options: {
      noise: 0,
      symbols: 32,
      warmup: 64,
      lora: { rank: 1, alpha: 4 },
      learningRate: 1e-3,
      iterations: 18,
    },
  },
  {
    name: 'an adapter with dead directions',
    rule: 'R5',
    side: 'high',
    options: { noise: 0, adapter: deadAdapter, learningRate: 1e-3, iterations: 10 },
  },
  {
    name: 'a module scaled to a hundred-thousandth',
    rule: 'R6',
    side: 'low',
    options: {
      noise: 0,
      warmup: 0,
      learningRate: 1.5e-3,
      iterations: 10,
      before: once(0, ({ trainer }) => trainer.rescale('blk.0.attn_v', 1e-5)),
    },
  },
  {
    name: 'a learning rate times 50',
    rule: 'R7',
    side: 'high',
    options: { noise: 0, learningRate: 2e-3, iterations: 16, before: setRate(6, 0.1) },
  },
  {
    name: 'rewards of 3e38',
    rule: 'R7',
    side: 'nonfinite',
    options: {
      noise: 0,
      learningRate: 1e-3,
      iterations: 8,
      before: (n, { poison }) => poison(n === 3 ? 3e38 : null),
    },
  },
];
