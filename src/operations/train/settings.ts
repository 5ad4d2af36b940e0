/** The settings of a training, and those of them that its state is held to. */
import { z } from 'zod';
import { precisionProblems, recorded } from '../../engine/precision.js';
import { adapterFrom, precision } from '../../engine/training-request.js';
import { LEARNING_RATES } from '../../fine-tuning/fine-tuning.js';
import { BEST_QUALITY, qualityLine, WEIGHTINGS } from '../../tasks/curation/quality.js';
import { TRACKER_NAMES } from '../../trackers/trackers.js';
import { count, modelName, output, seedText, threads } from '../members.js';
import { isCurated } from './curation.js';
import { DATA_HASH, type BegunWith } from './files.js';

export const OBJECTIVES = ['sft', 'dpo'] as const;
/** Which answers of a conversation are learned. */
export const ANSWERS = ['last', 'all'] as const;

/** Upper limit of counts that only the data bounds. */
const MOST = 1_000_000_000;

/** Settings of a training, wherever its rows are. */
export const courseMembers = {
  objective: z
    .enum(OBJECTIVES)
    .default('sft')
    .describe(
      'sft: maximise the likelihood of examples; dpo: learn from preference pairs (JSONL of prompt, chosen, rejected, as in TRL)',
    ),
  answers: z
    .enum(ANSWERS)
    .optional()
    .describe(
      'sft: answers of a conversation to learn; all: each answer, with the messages before it',
    )
    .meta({ defaultText: 'last' }),
  beta: z
    .number()
    .gt(0)
    .max(1000)
    .default(0.1)
    .describe('dpo: strength of the penalty for leaving the base model'),
  rank: count(4096).default(8).describe('rank of the LoRA factors'),
  alpha: z.number().gt(0).max(1e6).default(16).describe('the adapter is scaled by alpha / rank'),
  adapterFrom,
  topLayers: count(MOST)
    .optional()
    .describe('train only this many top layers; default: all')
    .meta({ flag: 'top', aliases: ['top'] }),
  learningRate: z
    .number()
    .gt(0)
    .max(10)
    .optional()
    .describe('learning rate')
    .meta({ flag: 'lr', aliases: ['lr'], defaultText: '2e-4, dpo: 2e-5' }),
  schedule: z
    .enum(['constant', 'linear', 'cosine'])
    .default('cosine')
    .describe('learning-rate schedule, after 3 % warm-up'),
  epochs: count(MOST).default(1).describe('epochs over the examples'),
  batchSize: count(MOST)
    .default(8)
    .describe('examples or pairs per step')
    .meta({ flag: 'batch', aliases: ['batch'] }),
  validation: z
    .number()
    .min(0)
    .lt(1)
    .optional()
    .describe('share of the examples held out for validation; 0: none')
    .meta({ defaultText: '0.1 for 100 examples or more' }),
  validateEvery: count(MOST)
    .optional()
    .describe('steps between validations')
    .meta({ defaultText: 'a tenth of the steps' }),
  patience: count(MOST, 0)
    .default(3)
    .describe(
      'stop after this many validations without a lower loss; 0: never; the best adapter is kept',
    ),
  dedupe: z
    .number()
    .gt(0)
    .max(1)
    .optional()
    .describe(
      'leave out duplicates, keeping the best; 1: the same answer to the same prompt; below 1: also answers to one prompt that ' +
        'share this part of their 4-character shingles',
    ),
  elite: z
    .number()
    .gt(0)
    .max(1)
    .default(1)
    .describe('train on the best share of the examples, by the "score" of their rows (0 to 1)'),
  weightByScore: z
    .enum(WEIGHTINGS)
    .default('uniform')
    .describe(
      'weight of an example: uniform, linear (0.1 to 1 from the lowest to the highest score), or softmax; the mean is 1',
    ),
  scoreConditioned: z
    .boolean()
    .default(false)
    .describe(
      `tell the model the quality of each example, 0 to ${BEST_QUALITY} by its score; ask for the best with ` +
        `--system "${qualityLine(BEST_QUALITY)}"`,
    ),
  maxTokens: count(MOST, 2)
    .default(2048)
    .describe('max tokens per example; longer ones are left out'),
  seed: seedText.default('0').describe('64-bit seed of the adapter and the order of examples'),
  saveEvery: count(MOST).default(25).describe('steps between saves of the training state'),
  logTo: z
    .array(z.enum(TRACKER_NAMES))
    .default([])
    .describe('also write metrics for these trackers, as files; prints the commands that show them')
    .meta({ defaultText: 'none' }),
  threads: threads.default(0),
  precision,
} as const;

export type CourseSettings = z.output<z.ZodObject<typeof courseMembers>>;

export const trainSettings = z.strictObject({
  model: modelName,
  data: z
    .string()
    .min(1)
    .describe(
      'JSONL or CSV, - for JSONL on standard input, in the forms of TRL, mlx-lm, Alpaca, ShareGPT and `run`: messages, ' +
        'prompt and completion, prompt and answer, text, instruction, conversations (not as CSV)',
    )
    .meta({ names: 'file' }),
  validationData: z
    .string()
    .min(1)
    .optional()
    .describe('JSONL of validation examples, instead of a share')
    .meta({ names: 'file' }),
  ...courseMembers,
  out: output
    .default('adapter.gguf')
    .describe('the adapter; its training state is written next to it as OUT.state'),
  resume: z
    .boolean()
    .default(false)
    .describe('continue from OUT.state with the same settings')
    .meta({ local: true }),
  force: z
    .boolean()
    .default(false)
    .describe('replace OUT and its state')
    .meta({ local: true, aliases: ['overwrite'] }),
  dryRun: z
    .boolean()
    .default(false)
    .describe('print the plan and the time of one step, without training')
    .meta({ local: true }),
});

/** Contradictions between settings. */
export const contradictionsOf = (
  settings: CourseSettings & { readonly validationData?: string | undefined } & Partial<
      Record<'resume' | 'force', boolean>
    >,
): string[] => [
  ...(settings.validation !== undefined && settings.validationData !== undefined
    ? ['validationData: it replaces the share (validation); give only one of them']
    : []),
  ...(settings.objective === 'dpo' && isCurated(settings)
    ? [
        'objective: dpo learns pairs; dedupe, elite, weightByScore and scoreConditioned apply to examples only',
      ]
    : []),
  ...(settings.adapterFrom === 'reply' && settings.answers === 'all'
    ? [
        'adapterFrom: reply is not supported with answers all, because such an adapter answers the first turn of a conversation only',
      ]
    : []),
  ...precisionProblems(settings.precision),
  ...(settings.resume === true && settings.force === true
    ? ['force: it restarts the training and cannot be combined with resume']
    : []),
];

export const learningRateOf = ({
  learningRate,
  objective,
}: Pick<CourseSettings, 'learningRate' | 'objective'>): number =>
  learningRate ?? LEARNING_RATES[objective];

/**
 * Settings that a resumed training must share, by their names in the settings file. The model is
 * not among them, since the state has its hash.
 */
export const HELD = {
  objective: 'objective',
  answers: 'answers',
  beta: 'beta',
  rank: 'rank',
  alpha: 'alpha',
  top: 'topLayers',
  lr: 'learningRate',
  schedule: 'schedule',
  epochs: 'epochs',
  batch: 'batchSize',
  validation: 'validation',
  dedupe: 'dedupe',
  elite: 'elite',
  'weight-by-score': 'weightByScore',
  'score-conditioned': 'scoreConditioned',
  'max-tokens': 'maxTokens',
  seed: 'seed',
  precision: 'precision',
  'adapter-from': 'adapterFrom',
} as const satisfies Record<string, keyof CourseSettings>;

/** @param dataHash of the rows; null: they cannot be read a second time */
export function begunWith(settings: CourseSettings, dataHash: string | null): BegunWith {
  const all = {
    ...settings,
    learningRate: learningRateOf(settings),
    precision: recorded(settings.precision),
  };
  return {
    ...Object.fromEntries(
      Object.entries(HELD).map(([name, member]) => [name, all[member] ?? null]),
    ),
    [DATA_HASH]: dataHash,
  };
}
