/** A LoRA adapter from examples, in one call: what `isopro-native train` does with a file, for programs. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { hashFile } from '../engine/adapter.js';
import { abortSignal, callback, checked } from '../engine/checked.js';
import { IsoproError } from '../errors.js';
import { fineTune, LEARNING_RATES, likelihood, optimiserOf, stepsOf } from '../engine/fine-tuning.js';
import type { Model } from '../engine/model.js';
import { seed, type Seed } from '../engine/seed.js';
import { createTrainer } from '../engine/trainer.js';
import { exampleOf, tokenisedExamples } from '../engine/training-examples.js';

export interface TrainStep {
  readonly step: number;
  /** That will be taken. */
  readonly steps: number;
  /** Mean over the labelled tokens of the step, nats. */
  readonly loss: number;
}

export interface TrainAdapterOptions {
  /**
   * Rows in the forms that `train --data` reads: `{messages}`, `{prompt, completion}`, `{text}`, `{instruction, input, output}` or
   * `{conversations}`.
   */
  readonly examples: readonly object[];
  /** Path of the adapter, GGUF. */
  readonly out: string;
  /** Whether a file that is there is replaced; by default it is refused. */
  readonly overwrite?: boolean;
  /** Default 8. */
  readonly rank?: number;
  /** The adapter is scaled by alpha / rank. Default 16. */
  readonly alpha?: number;
  /** Train the top layers only; all by default. */
  readonly topLayers?: number;
  /** Default 2e-4, after 3 % of the steps, falling like a cosine. */
  readonly learningRate?: number;
  /** Passes over the examples. Default 1. */
  readonly epochs?: number;
  /** Examples a step. Default 8. */
  readonly batchSize?: number;
  /** Longer examples are left out. Default 2048, and the model's context at most. */
  readonly maxTokens?: number;
  /** Of the adapter and of the order. Default 0. */
  readonly seed?: Seed;
  /** 0: the physical cores. */
  readonly threads?: number;
  readonly signal?: AbortSignal;
  /** After each step. */
  readonly onStep?: (step: TrainStep) => void;
}

export interface TrainedAdapter {
  readonly path: string;
  /** Of the file, in hexadecimal. */
  readonly sha256: string;
  readonly steps: number;
  readonly examples: number;
  /** Examples that were left out because they were too long. */
  readonly tooLong: number;
  /** Of each step. */
  readonly losses: readonly number[];
}

const optionsSchema = z.strictObject({
  examples: z.array(z.looseObject({})).min(1),
  out: z.string().min(1),
  overwrite: z.boolean().default(false),
  rank: z.int().min(1).default(8),
  alpha: z.number().positive().default(16),
  topLayers: z.int().min(1).optional(),
  learningRate: z.number().positive().default(LEARNING_RATES.sft),
  epochs: z.int().min(1).default(1),
  batchSize: z.int().min(1).default(8),
  maxTokens: z.int().min(2).default(2048),
  seed: seed.default(0n),
  threads: z.int().min(0).default(0),
  signal: abortSignal.optional(),
  onStep: callback<TrainStep>().optional(),
});

/**
 * Trains an adapter on the likelihood of the answers. The same settings give the same file as `train` with `--validation 0`.
 * @param model of which it is an adapter; it goes on being usable
 * @throws IsoproError INVALID_ARGUMENT naming the option or the row, or where `out` is there already, TEMPLATE_INVALID, NUMERIC_FAILURE,
 * OUT_OF_MEMORY, ABORTED; then no file is written
 */
export async function trainAdapter(model: Model, options: TrainAdapterOptions): Promise<TrainedAdapter> {
  const valid = checked(optionsSchema, options, 'options');
  const { rank, alpha, topLayers, learningRate, epochs, batchSize, signal, onStep } = valid;
  if (!valid.overwrite && existsSync(valid.out))
    throw new IsoproError('INVALID_ARGUMENT', `options.out: ${valid.out} is there already`, {
      remedy: 'Give another path, or `overwrite: true`, which replaces the file.',
    });
  const examples = valid.examples.map((value, at) => exampleOf({ value, name: `options.examples[${at}]` }));
  const { sequences, tooLong } = tokenisedExamples(examples, model, Math.min(valid.maxTokens, model.info.trainedContext));
  const steps = stepsOf(sequences.length, batchSize, epochs);
  await using trainer = await createTrainer(model, {
    seed: valid.seed,
    threads: valid.threads,
    lora: { rank, alpha, layers: topLayers === undefined ? 'all' : { top: topLayers } },
    optimiser: optimiserOf(learningRate, 'cosine', steps),
  });
  const losses: number[] = [];
  for await (const event of fineTune(likelihood(trainer), { examples: sequences, batchSize, steps, seed: valid.seed }, signal)) {
    if (event.kind !== 'step') continue;
    losses.push(event.stats.loss);
    onStep?.({ step: event.stats.step, steps, loss: event.stats.loss });
  }
  await trainer.exportAdapter(valid.out);
  return { path: valid.out, sha256: await hashFile(valid.out), steps, examples: sequences.length, tooLong, losses };
}
