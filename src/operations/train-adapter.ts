/**
 * A LoRA adapter from examples, in one call: what `isopro-native train` does with a file, for
 * programs.
 */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { z } from 'zod';
import { hashFile } from '../engine/adapter.js';
import { abortSignal, callback, checked } from '../engine/checked.js';
import { IsoproError } from '../errors.js';
import { dpo, referenceLogprobs } from '../engine/dpo.js';
import {
  fineTune,
  LEARNING_RATES,
  likelihood,
  optimiserOf,
  stepsOf,
  type Figures,
  type Learning,
  type ValidationLoss,
} from '../engine/fine-tuning.js';
import type { Model } from '../engine/model.js';
import { seed, type Seed } from '../engine/seed.js';
import { tokenisedPairs, type PreferencePair } from '../engine/preference-pairs.js';
import { createTrainer, type Trainer, type TrainSequence } from '../engine/trainer.js';
import { unreadNote } from '../engine/row-members.js';
import {
  exampleOf,
  tokenisedExamples,
  type NamedExample,
  type Row,
} from '../engine/training-examples.js';

export interface TrainStep {
  readonly step: number;
  /** That will be taken. */
  readonly steps: number;
  /** Mean over the labelled tokens of the step, or over its pairs, nats. */
  readonly loss: number;
  /** Of pairs, by TRL's names: `rewards/margins` and so on; else empty. */
  readonly figures: Figures;
}

export interface TrainAdapterOptions {
  /**
   * Rows in the forms that `train --data` reads: `{messages}`, `{prompt, completion}`, `{text}`,
   * `{instruction, input, output}` or `{conversations}`; for `dpo` pairs,
   * `{prompt, chosen, rejected}`.
   */
  readonly examples: readonly object[];
  /**
   * `sft` (default): the likelihood of the answers; `dpo`: of the preferred ones before the others.
   */
  readonly objective?: 'sft' | 'dpo';
  /** dpo: how strongly the model is held to the base. Default 0.1. */
  readonly beta?: number;
  /**
   * Rows that are not trained on: the loss on them is measured before the first step and ten times
   * on the way, and the adapter with the lowest is the one that is kept.
   */
  readonly validation?: readonly object[];
  /** Measurements without a lower loss after which training ends; 0: never. Default 3. */
  readonly patience?: number;
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
  /** Default 2e-4, for dpo 2e-5, after 3 % of the steps, falling like a cosine. */
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
  /**
   * What of the rows is not learned, or otherwise than it is written, in words; `train` prints
   * these.
   */
  readonly notes: readonly string[];
  /** Of each step. */
  readonly losses: readonly number[];
  /** Null where no rows were given for it. `best` is the step whose adapter was kept. */
  readonly validation: { readonly losses: readonly ValidationLoss[]; readonly best: number } | null;
}

const rows = z.array(z.looseObject({})).min(1);
const optionsSchema = z.strictObject({
  examples: rows,
  objective: z.enum(['sft', 'dpo']).default('sft'),
  beta: z.number().positive().max(1000).default(0.1),
  validation: rows.optional(),
  patience: z.int().min(0).default(3),
  out: z.string().min(1),
  overwrite: z.boolean().default(false),
  rank: z.int().min(1).default(8),
  alpha: z.number().positive().default(16),
  topLayers: z.int().min(1).optional(),
  learningRate: z.number().positive().optional(),
  epochs: z.int().min(1).default(1),
  batchSize: z.int().min(1).default(8),
  maxTokens: z.int().min(2).default(2048),
  seed: seed.default(0n),
  threads: z.int().min(0).default(0),
  signal: abortSignal.optional(),
  onStep: callback<TrainStep>().optional(),
});

type Valid = z.output<typeof optionsSchema>;

/** Rows as they are learned. */
interface Material<Example> {
  readonly examples: readonly Example[];
  readonly held: readonly Example[];
  readonly tooLong: number;
  readonly notes: readonly string[];
  readonly learning: (trainer: Trainer) => Promise<Learning<Example>>;
}

/**
 * Trains an adapter on answers, or on pairs of a preferred answer and another. The same settings
 * give the same file as `train` with `--validation 0`, or with `--validation-data` of the same
 * rows.
 * @param model of which it is an adapter; it goes on being usable
 * @throws IsoproError INVALID_ARGUMENT naming the option or the row, or where `out` is there
 * already, TEMPLATE_INVALID, NUMERIC_FAILURE, OUT_OF_MEMORY, ABORTED; then no file is written
 */
export async function trainAdapter(
  model: Model,
  options: TrainAdapterOptions,
): Promise<TrainedAdapter> {
  const valid = checked(optionsSchema, options, 'options');
  if (!valid.overwrite && existsSync(valid.out))
    throw new IsoproError('INVALID_ARGUMENT', `options.out: ${valid.out} is there already`, {
      remedy: 'Give another path, or `overwrite: true`, which replaces the file.',
    });
  return valid.objective === 'dpo'
    ? train(model, valid, await pairsOf(model, valid))
    : train(model, valid, answersOf(model, valid));
}

const named = (values: readonly object[], option: 'examples' | 'validation'): Row[] =>
  values.map((value, at) => ({ value, name: `options.${option}[${at}]` }));

const longest = (model: Model, { maxTokens }: Valid): number =>
  Math.min(maxTokens, model.info.trainedContext);

function answersOf(model: Model, valid: Valid): Material<TrainSequence> {
  const tokenised = (rows: readonly NamedExample[]) =>
    tokenisedExamples(rows, model, longest(model, valid));
  const rows = named(valid.examples, 'examples').map(exampleOf);
  const { sequences: examples, tooLong, notes } = tokenised(rows);
  const held =
    valid.validation === undefined
      ? []
      : tokenised(named(valid.validation, 'validation').map(exampleOf)).sequences;
  return {
    examples,
    held,
    tooLong,
    notes: [...unreadNote(rows), ...notes],
    learning: async (trainer) => likelihood(trainer),
  };
}

async function pairsOf(model: Model, valid: Valid): Promise<Material<PreferencePair>> {
  const read = (values: readonly Row[]) => tokenisedPairs(values, model, longest(model, valid));
  const { pairs: examples, tooLong, notes } = await read(named(valid.examples, 'examples'));
  const held =
    valid.validation === undefined ? [] : (await read(named(valid.validation, 'validation'))).pairs;
  const { batchSize, beta, signal } = valid;
  const how = { batchSize, ...(signal === undefined ? {} : { signal }) };
  const learning = async (trainer: Trainer): Promise<Learning<PreferencePair>> =>
    dpo(trainer, await referenceLogprobs(trainer, [...examples, ...held], how), beta);
  return { examples, held, tooLong, notes, learning };
}

async function train<Example>(
  model: Model,
  valid: Valid,
  { examples, held, tooLong, notes, learning }: Material<Example>,
): Promise<TrainedAdapter> {
  const {
    out,
    rank,
    alpha,
    topLayers,
    objective,
    epochs,
    batchSize,
    patience,
    seed: order,
    signal,
    onStep,
  } = valid;
  const planned = stepsOf(examples.length, batchSize, epochs);
  await using trainer = await createTrainer(model, {
    seed: order,
    threads: valid.threads,
    lora: { rank, alpha, layers: topLayers === undefined ? 'all' : { top: topLayers } },
    optimiser: optimiserOf(valid.learningRate ?? LEARNING_RATES[objective], 'cosine', planned),
  });
  const validation = { examples: held, every: Math.max(1, Math.ceil(planned / 10)), patience };
  const plan = {
    examples,
    batchSize,
    steps: planned,
    seed: order,
    ...(held.length === 0 ? {} : { validation }),
  };
  const losses: number[] = [];
  const measured: ValidationLoss[] = [];
  let best = 0;
  const bestFile = `${out}.best`;
  try {
    for await (const event of fineTune(await learning(trainer), plan, signal)) {
      if (event.kind === 'validation') {
        measured.push({ step: event.step, loss: event.loss });
        if (!event.best) continue;
        best = event.step;
        await trainer.exportAdapter(bestFile);
      } else {
        losses.push(event.stats.loss);
        onStep?.({
          step: event.stats.step,
          steps: planned,
          loss: event.stats.loss,
          figures: event.figures,
        });
      }
    }
    if (best > 0) renameSync(bestFile, out);
    else await trainer.exportAdapter(out);
  } catch (error) {
    if (best > 0) rmSync(bestFile, { force: true });
    throw error;
  }
  return {
    ...{
      path: out,
      sha256: await hashFile(out),
      steps: trainer.info.steps,
      examples: examples.length,
      tooLong,
      notes,
      losses,
    },
    validation: held.length === 0 ? null : { losses: measured, best },
  };
}
