/** Training of a LoRA adapter on rows in memory: the operation `train` for programs. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { abortSignal, callback, checked } from '../engine/argument-check.js';
import type { ValidationLoss } from '../fine-tuning/fine-tuning.js';
import type { Model } from '../engine/model.js';
import { seed, type Seed } from '../engine/seed.js';
import type { Row } from '../fine-tuning/training-examples.js';
import { IsoproError } from '../errors.js';
import type { TrackerName } from '../trackers/trackers.js';
import { withoutAliases } from './aliases.js';
import { trained, type TrainStep } from './train/course.js';
import { TrainFiles, type SettingNames } from './train/files.js';
import { begunWith, contradictionsOf, courseMembers, HELD } from './train/settings.js';
import { train } from './train/train.js';

export type { TrainStep } from './train/course.js';

export interface TrainAdapterOptions {
  /**
   * Rows in the forms of `train --data`: `{messages}`, `{prompt, completion}`, `{text}`,
   * `{instruction, input, output}` or `{conversations}`; for `dpo` pairs,
   * `{prompt, chosen, rejected}`.
   */
  readonly examples: readonly object[];
  /** `sft` (default): maximise the likelihood of answers; `dpo`: prefer the chosen answers. */
  readonly objective?: 'sft' | 'dpo';
  /** dpo: strength of the penalty for leaving the base model. Default 0.1. */
  readonly beta?: number;
  /** sft: answers of a conversation to learn. Default `last`. */
  readonly answers?: 'last' | 'all';
  /**
   * Validation rows, or the share of the examples to hold out for validation. Their loss is
   * measured before the first step and during training, and the adapter with the lowest loss is
   * kept. Default: none.
   */
  readonly validation?: readonly object[] | number;
  /** Steps between two validations. Default: a tenth of all steps. */
  readonly validateEvery?: number;
  /** Validations without a lower loss after which training stops; 0: never. Default 3. */
  readonly patience?: number;
  /** Path of the adapter file, GGUF. */
  readonly out: string;
  /** Whether to replace an existing file. Default false. */
  readonly overwrite?: boolean;
  /** LoRA rank. Default 8. */
  readonly rank?: number;
  /** LoRA alpha; the adapter is scaled by alpha / rank. Default 16. */
  readonly alpha?: number;
  /**
   * `reply`: the adapter acts from the generation prompt on, and the prompt before it is evaluated
   * without it. Default: on every token.
   */
  readonly adapterFrom?: 'reply';
  /** Number of top layers to train. Default: all layers. */
  readonly topLayers?: number;
  /** Learning rate after 3 % warm-up. Default 2e-4, for dpo 2e-5. */
  readonly learningRate?: number;
  /** Learning-rate schedule. Default `cosine`. */
  readonly schedule?: 'constant' | 'linear' | 'cosine';
  /** Epochs over the examples. Default 1. */
  readonly epochs?: number;
  /** Examples per step. Default 8. */
  readonly batchSize?: number;
  /**
   * Leave out duplicates. 1: the same answer to the same prompt; below 1: also answers to one
   * prompt that share this part of their 4-character shingles.
   */
  readonly dedupe?: number;
  /** Share of the examples to train on, the best by the `score` of their rows. Default 1. */
  readonly elite?: number;
  /** Weight of an example by the `score` of its row. Default `uniform`. */
  readonly weightByScore?: 'uniform' | 'linear' | 'softmax';
  /** Whether to state the quality of each example in its prompt, by `score`. Default false. */
  readonly scoreConditioned?: boolean;
  /**
   * Max tokens of an example; longer ones are left out. Default 2048, at most the model's context.
   */
  readonly maxTokens?: number;
  /** Seed of the adapter and the order of examples. Default 0. */
  readonly seed?: Seed;
  /**
   * Steps between saves of the training state, which is written to `OUT.state`. Default: the state
   * is not saved, or every 25 steps if the training is resumed.
   */
  readonly saveEvery?: number;
  /** Whether to continue from the state that `saveEvery` saved. */
  readonly resume?: boolean;
  /** Trackers to write metrics for, as files in `OUT.trackers`. */
  readonly logTo?: readonly TrackerName[];
  /**
   * Precision of the products with the model's weights; `bf16` needs AVX512-BF16. Default `f32`.
   */
  readonly precision?: 'f32' | 'bf16';
  /** Number of threads; 0: the physical cores. */
  readonly threads?: number;
  readonly signal?: AbortSignal;
  /** Called after each step. */
  readonly onStep?: (step: TrainStep) => void;
}

export interface TrainedAdapter {
  readonly path: string;
  /** SHA-256 of the file, in hexadecimal. */
  readonly sha256: string;
  readonly steps: number;
  readonly examples: number;
  /** Examples that were left out because they were too long. */
  readonly tooLong: number;
  /** Notes on rows that are not learned, or are learned in another form. */
  readonly notes: readonly string[];
  /** Loss of each step, including those before an interruption. */
  readonly losses: readonly number[];
  /** Null without validation rows. `best` is the step whose adapter was kept. */
  readonly validation: { readonly losses: readonly ValidationLoss[]; readonly best: number } | null;
}

const rows = z.array(z.looseObject({})).min(1);
const optionsSchema = z.strictObject({
  ...courseMembers,
  examples: rows,
  validation: z.union([rows, courseMembers.validation]),
  seed: seed.default(0n).transform(String),
  saveEvery: courseMembers.saveEvery.unwrap().optional(),
  out: z.string().min(1),
  force: z.boolean().default(false),
  resume: z.boolean().default(false),
  signal: abortSignal.optional(),
  onStep: callback<(step: TrainStep) => void>().optional(),
});

const OPTIONS: SettingNames = {
  out: 'options.out',
  data: 'options.examples',
  resume: 'options.resume',
  force: 'options.overwrite',
  of: (flag) => `options.${HELD[flag as keyof typeof HELD]}`,
};

/** Steps between saves of a resumed training. */
const SAVED_EVERY = 25;

const rowsOf = (values: readonly object[], option: 'examples' | 'validation'): Row[] =>
  values.map((value, at) => ({ value, name: `options.${option}[${at}]` }));

/**
 * Trains an adapter on answers, or on pairs of a chosen and a rejected answer. The same settings
 * produce the same file as the command `train` with `--validation 0`, or with `--validation-data`
 * of the same rows.
 * @param model base model of the adapter; it remains usable
 * @throws IsoproError INVALID_ARGUMENT naming the option or the row, or if `out` exists,
 *   TEMPLATE_INVALID, NUMERIC_FAILURE, OUT_OF_MEMORY, ABORTED; no adapter is written then
 */
export async function trainAdapter(
  model: Model,
  options: TrainAdapterOptions,
): Promise<TrainedAdapter> {
  const valid = checked(optionsSchema, withoutAliases(train.flags, options), 'options');
  const { out, force, resume, validation, examples, signal, onStep, saveEvery } = valid;
  const settings = {
    ...valid,
    validation: typeof validation === 'number' ? validation : 0,
    saveEvery: saveEvery ?? SAVED_EVERY,
  };
  const problems = contradictionsOf({ ...settings, resume, force });
  if (problems.length > 0)
    throw new IsoproError('INVALID_ARGUMENT', `options.${problems.join('; options.')}`);
  if (!force && !resume && existsSync(out))
    throw new IsoproError('INVALID_ARGUMENT', `options.out: ${out} already exists`, {
      remedy: 'Give another path, or set `overwrite: true` to replace the file.',
    });
  const files = new TrainFiles(out, saveEvery !== undefined || resume, OPTIONS);
  files.check({ resume, force });
  if (typeof (model as Partial<Model> | null | undefined)?.limits !== 'object')
    throw new IsoproError('INVALID_ARGUMENT', 'model: must be a model of loadModel');
  const hash = files.areKept
    ? createHash('sha256').update(JSON.stringify(examples)).digest('hex')
    : null;
  const begun = begunWith(settings, hash);
  if (resume) files.checkSame(begun);
  const { plan, notes, stepsTaken, losses, best, sha256 } = await trained(
    {
      ...{ model, settings, files, begun, resume },
      rows: rowsOf(examples, 'examples'),
      validationRows: Array.isArray(validation) ? rowsOf(validation, 'validation') : undefined,
      about: { model: model.path },
    },
    { signal: signal ?? new AbortController().signal, tell: () => undefined, onStep },
  );
  return {
    path: out,
    sha256,
    steps: stepsTaken,
    ...{ examples: plan.examples, tooLong: plan.tooLong, notes },
    losses: losses.training.map(({ loss }) => loss),
    validation:
      plan.validationExamples === 0 ? null : { losses: losses.validation, best: best?.step ?? 0 },
  };
}
