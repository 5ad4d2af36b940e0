/**
 * A LoRA adapter from rows in memory, in one call: what the operation `train` does with a file, for
 * programs.
 */
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
  /** sft: which answers of a conversation are learned. Default `last`. */
  readonly answers?: 'last' | 'all';
  /**
   * Rows that are not trained on, or the share of the examples that is not: the loss on them is
   * measured before the first step and on the way, and the adapter with the lowest is the one that
   * is kept. Default: none.
   */
  readonly validation?: readonly object[] | number;
  /** Steps between two measurements. Default: a tenth of them. */
  readonly validateEvery?: number;
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
  /** After 3 % of the steps. Default 2e-4, for dpo 2e-5. */
  readonly learningRate?: number;
  /** Of the learning rate. Default `cosine`. */
  readonly schedule?: 'constant' | 'linear' | 'cosine';
  /** Passes over the examples. Default 1. */
  readonly epochs?: number;
  /** Examples a step. Default 8. */
  readonly batchSize?: number;
  /**
   * Leave out examples that repeat another: 1: the same answer to the same prompt; below 1, answers
   * to one prompt that share this part of their runs of four characters too.
   */
  readonly dedupe?: number;
  /** Train on this share of the examples, by the `score` of their rows. Default 1. */
  readonly elite?: number;
  /** How much an example counts, by the `score` of its row. Default `uniform`. */
  readonly weightByScore?: 'uniform' | 'linear' | 'softmax';
  /** Tell the model of each example how good it is, by the `score` of its row. Default false. */
  readonly scoreConditioned?: boolean;
  /** Longer examples are left out. Default 2048, and the model's context at most. */
  readonly maxTokens?: number;
  /** Of the adapter and of the order. Default 0. */
  readonly seed?: Seed;
  /**
   * Steps between two savings of the state, which is written next to the adapter (`OUT.state`).
   * Default: the state is not kept; where the training is resumed, 25.
   */
  readonly saveEvery?: number;
  /** Whether the training continues from the state that `saveEvery` has kept. */
  readonly resume?: boolean;
  /** Trackers that get the figures, as files in `OUT.trackers`. */
  readonly logTo?: readonly TrackerName[];
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
  /** Of each step, those before an interruption too. */
  readonly losses: readonly number[];
  /** Null where no rows were kept apart. `best` is the step whose adapter was kept. */
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
  onStep: callback<TrainStep>().optional(),
});

const OPTIONS: SettingNames = {
  out: 'options.out',
  data: 'options.examples',
  resume: 'options.resume',
  force: 'options.overwrite',
  of: (flag) => `options.${HELD[flag as keyof typeof HELD]}`,
};

/** How often the state of a training that is resumed is saved. */
const SAVED_EVERY = 25;

const rowsOf = (values: readonly object[], option: 'examples' | 'validation'): Row[] =>
  values.map((value, at) => ({ value, name: `options.${option}[${at}]` }));

/**
 * Trains an adapter on answers, or on pairs of a preferred answer and another. The same settings
 * give the same file as `train` with `--validation 0`, or with `--validation-data` of the same
 * rows.
 * @param model of which it is an adapter; it goes on being usable
 * @throws IsoproError INVALID_ARGUMENT naming the option or the row, or where `out` is there
 *   already, TEMPLATE_INVALID, NUMERIC_FAILURE, OUT_OF_MEMORY, ABORTED; then no adapter is written
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
