/** Trains an adapter to believe what is true and measures the result, in one folder. */
import path from 'node:path';
import { z } from 'zod';
import { hashFile } from '../../engine/adapter.js';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { LEARNING_RATES } from '../../fine-tuning/fine-tuning.js';
import type { Model } from '../../engine/model.js';
import { precisionProblems, recorded } from '../../engine/precision.js';
import { loadTrainable } from '../../engine/trainable-model.js';
import { precision } from '../../engine/training-request.js';
import { requireTarget } from '../../files.js';
import { given } from '../../given.js';
import { truthRunFolders } from '../../truth-seeking/analysis/discover.js';
import { scoredRuns } from '../../truth-seeking/analysis/from-run.js';
import { trajectoryScores } from '../../truth-seeking/analysis/index.js';
import type { Domain, GeneratedDomain } from '../../truth-seeking/domains/domain.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { readTruthConfig } from '../../truth-seeking/run/config.js';
import { readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import type { FigureChange } from '../../truth-seeking/training/before-after.js';
import { askedTwice, selectableOf } from '../../truth-seeking/training/from-run.js';
import { READOUT_REWARDS } from '../../truth-seeking/training/readout-training.js';
import {
  selectFewShot,
  selectForTraining,
  trainingRow,
  VALIDATIONS,
} from '../../truth-seeking/training/select.js';
import {
  changesBetween,
  measureHeldOut,
  TrainingFolder,
  trainInFolder,
  trainingProblems,
  trainingStart,
} from '../../truth-seeking/training/train-and-measure.js';
import { count, embeddedByDefault, matmul, output, seedText, threads } from '../members.js';
import { contextOf, memoryOf, TRAINER_BYTES } from '../memory.js';
import { operation, WrongSetting, type Context } from '../operation.js';
import { trainAdapter } from '../train-adapter.js';
import { tellDownload, tellTruth } from './progress.js';

const DEFAULT_FOLDER = 'runs/truth-training';
/** Learning rate of readout training: the one that `run` trains rollouts with. */
const READOUT_RATE = 2e-4;
/** Strategies measured before and after. */
const MEASURED = [
  ...['accuracy:mode=initial', 'accuracy:mode=eventual', 'accuracy:mode=difference', 'martingale'],
  ...[
    'sycophancy:measure=shift',
    'sycophancy:measure=quality-change',
    'sycophancy:measure=asymmetry',
  ],
];

const domains = (wanted: (domain: Domain) => boolean) =>
  z
    .array(z.enum(DOMAINS.filter(wanted).map(({ id }) => id)))
    .min(1)
    .optional();

const settings = z.strictObject({
  model: embeddedByDefault,
  runs: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe('run folders to take the best trajectories from (see by); or give domain')
    .meta({ positional: true, names: 'truthRun' }),
  domain: domains(({ source }) => source === 'generated')
    .describe("without runs: domains to reason about; the model's own beliefs are the reward")
    .meta({ first: 1 }),
  by: z
    .string()
    .min(1)
    .max(500)
    .optional()
    .describe(
      'with runs: strategy whose scores rank the trajectories, such as accuracy or martingale',
    ),
  part: z
    .number()
    .gt(0)
    .max(1)
    .default(0.1)
    .describe('with runs: part of the trajectories to keep, best first'),
  validation: z
    .enum(VALIDATIONS)
    .default('none')
    .describe(
      'with runs: train: hold out a random part; gt: the same, but select only trajectories whose last belief favours the right answer',
    ),
  rows: output
    .optional()
    .describe('with runs: write the examples for `train --data` without training'),
  fewShot: output.optional().describe('with runs: write few-shot turns without training'),
  count: count(100_000)
    .default(100)
    .describe('maximum number of turns of --few-shot')
    .meta({ local: true }), // of a file that a job does not write
  epochs: count(1000).default(2).describe('with runs: epochs over the examples'),
  reward: z
    .enum(READOUT_REWARDS)
    .default('accuracy')
    .describe(
      'readout training: the reward is 1 minus the Brier score, or how little a belief predicts its own change (martingale)',
    ),
  steps: count(100_000)
    .default(20)
    .describe('readout training: optimiser steps')
    .meta({ first: 2 }),
  questions: count(1024).default(4).describe('readout training: questions per step'),
  group: count(253, 2).default(8).describe('readout training: replies per question'),
  maxTokens: count(65_536)
    .default(128)
    .describe('max tokens of a reply, in readout training and in measurements'),
  temperature: z
    .number()
    .min(0)
    .max(10)
    .default(1)
    .describe('readout training: sampling temperature'),
  trainCutOff: z
    .boolean()
    .default(false)
    .describe('readout training: also train on replies that were cut off'),
  mode: z
    .enum(['direct', 'chain-of-thought'])
    .default('chain-of-thought')
    .describe('reasoning mode, in readout training and in measurements'),
  learningRate: z
    .number()
    .gt(0)
    .max(1)
    .optional()
    .describe('learning rate')
    .meta({
      flag: 'lr',
      aliases: ['lr'],
      defaultText: `${LEARNING_RATES.sft}, readout training ${READOUT_RATE}`,
    }),
  rank: count(1024).default(8).describe('LoRA rank'),
  measure: count(100_000, 0)
    .default(0)
    .describe(
      'held-out questions per domain, asked before and after training, once more with the opinion of a simulated ' +
        'user; the runs must not contain these questions',
    )
    .meta({ first: 3 }),
  measureDomain: domains(({ kind }) => kind === 'binary')
    .describe('domains of the held-out questions')
    .meta({ defaultText: 'the trained domains' }),
  measureSeed: seedText
    .default('42')
    .describe('64-bit seed of the held-out questions and their replies'),
  before: output
    .optional()
    .describe(
      'folder of the measurement before training; training runs with different seeds may share it',
    ),
  seed: seedText.default('42').describe('64-bit seed').meta({ first: 4 }),
  threads: threads.default(0),
  matmul: matmul.optional().meta({ defaultText: 'ggml' }),
  precision,
  out: output
    .default(DEFAULT_FOLDER)
    .describe('folder of the adapter, the measurements and result.json'),
});
type Settings = z.output<typeof settings>;

const contradictions = ({
  runs,
  domain,
  by,
  precision: asked,
}: Pick<Settings, 'runs' | 'domain' | 'by' | 'precision'>): string[] => [
  ...precisionProblems(asked),
  ...((runs === undefined) === (domain === undefined) ? ['give either domain or runs'] : []),
  ...((runs === undefined) === (by === undefined)
    ? []
    : ['by: required with runs, and only there']),
];

const jsonl = (rows: readonly object[]): Buffer =>
  Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

const loaded = (
  { model, threads: wanted, matmul: kernels }: Settings,
  { signal, tell }: Context,
): Promise<Model> =>
  loadTrainable(model, {
    signal,
    fixedThreads: true,
    ...(wanted !== 0 && { threads: wanted }),
    ...given({ matmul: kernels }),
    onDownload: tellDownload(tell, model),
  });
/** Settings of the model that a training depends on. */
const engineOf = ({ info: { threads: used, matmul: kernels } }: Model) => ({
  threads: used,
  ...(kernels === 'own' && { matmul: kernels }),
});

/** As the start of a training records it: only where it is not f32. */
const precisionOf = ({ precision: asked }: Pick<Settings, 'precision'>) =>
  given({ precision: recorded(asked) });

/** @param trained domains that are trained on: these, too, where no others are named */
const measuredConfig = (asked: Settings, trained: readonly string[]) => ({
  domain: [...(asked.measureDomain ?? trained)],
  mode: [asked.mode],
  eval: [...MEASURED],
  problems: asked.measure,
  seed: asked.measureSeed,
  maxTokens: asked.maxTokens,
  threads: asked.threads,
});

/**
 * Requires that the measured questions are not trained on.
 * @throws IsoproError INVALID_ARGUMENT
 */
function requireHeldOut(
  runs: readonly TruthRun[],
  asked: Settings,
  trained: readonly string[],
): void {
  if (asked.measure === 0) return;
  const seen = askedTwice(
    runs,
    readTruthConfig({ ...measuredConfig(asked, trained), model: asked.model }),
  );
  if (seen > 0)
    throw new WrongSetting(
      `measure: the runs ask ${seen} of these questions, so they are not held out. ` +
        'Train on runs of the other split (`truth run --split train`).',
    );
}

/** Held-out questions before and after a training, if any are asked for. */
async function measured(
  model: Model,
  folder: TrainingFolder,
  asked: Settings,
  trained: readonly string[],
  train: () => Promise<void>,
  { signal, tell }: Context,
) {
  if (asked.measure === 0) {
    await train();
    return null;
  }
  const measuring = { config: measuredConfig(asked, trained), ...given(asked, 'before') };
  const measure = (when: 'before' | 'after'): Promise<string> =>
    measureHeldOut(model, asked.model, folder, when, measuring, {
      signal,
      onProgress: (_, progress) => tellTruth(tell, when)(progress),
    });
  const before = await measure('before');
  await train();
  const after = await measure('after');
  return { before, after, changes: changesBetween(before, after, BigInt(asked.measureSeed)) };
}

/** Writes the result next to the adapter and returns it. */
async function resultOf<Found extends object>(folder: TrainingFolder, found: Found) {
  const result = {
    folder: folder.folder,
    adapter: folder.adapter,
    sha256: await hashFile(folder.adapter),
    ...found,
  };
  await writeFileAtomically(path.join(folder.folder, 'result.json'), [
    Buffer.from(`${JSON.stringify(result, null, 2)}\n`),
  ]);
  return result;
}

const tellStep =
  ({ tell }: Context) =>
  (done: number, total: number, note: string): void =>
    tell({ type: 'progress', data: { stage: 'training', done, total, unit: 'steps', note } });

/**
 * The best trajectories of runs by a strategy, learned by their likelihood, or written to a file.
 */
async function bySelection(asked: Settings, context: Context): Promise<TruthTraining> {
  const { by, part, fewShot, rows } = asked;
  const runs = truthRunFolders(asked.runs!).map(readTruthRun);
  const files = runs
    .flatMap((run) => scoredRuns(run))
    .filter(
      ({ setup, scores }) => [setup.strategy, setup.config].includes(by!) && scores.length > 0,
    )
    .map(trajectoryScores);
  if (files.length === 0) throw new WrongSetting(`by: none of the runs has scores of ${by}`);
  const trained = [...new Set(runs.flatMap(({ start }) => start.config.domain))];
  requireHeldOut(runs, asked, trained);
  const of = selectableOf(runs);
  const seed = BigInt(asked.seed);
  if (fewShot !== undefined) {
    const turns = selectFewShot(files, of, { count: asked.count, part, seed });
    const text = `${JSON.stringify(turns, null, 2)}\n`;
    await writeFileAtomically(fewShot, [Buffer.from(text)], 'follow');
    return { turns: turns.length, fewShot };
  }
  const { training, validation, selected, notRight } = selectForTraining(files, of, {
    part,
    validation: asked.validation,
    seed,
  });
  const about = {
    files: files.length,
    trajectories: selected.length,
    notRight,
    examples: training.length,
    validation: validation.length,
  };
  const examples = training.map(trainingRow);
  if (rows === undefined)
    return likelihood(asked, context, { about, trained, examples, selected: [...selected] });
  await writeFileAtomically(rows, [jsonl(examples)], 'follow');
  return { ...about, rows };
}

async function likelihood(
  asked: Settings,
  context: Context,
  {
    about,
    trained,
    examples,
    selected,
  }: {
    readonly about: object;
    readonly trained: readonly string[];
    readonly examples: readonly object[];
    readonly selected: string[];
  },
): Promise<TruthTraining> {
  const { by, rank, epochs, seed, learningRate = LEARNING_RATES.sft } = asked;
  await using model = await loaded(asked, context);
  const start = {
    ...{ by: by!, selected, epochs, rank, learningRate, seed },
    ...engineOf(model),
    ...precisionOf(asked),
  };
  using folder = new TrainingFolder(path.resolve(asked.out), await trainingStart(model, start));
  const step = tellStep(context);
  const train = async (): Promise<void> => {
    if (await folder.isDone()) return;
    const { losses } = await trainAdapter(model, {
      examples,
      out: folder.adapter,
      overwrite: true, // of a training that was cut off before its end was written
      ...{ rank, epochs, learningRate, seed, threads: asked.threads, signal: context.signal },
      ...precisionOf(asked),
      onStep: ({ step: done, steps, loss }) => step(done, steps, `loss ${loss.toFixed(3)}`),
    });
    await folder.finish(losses.map((loss, i) => ({ step: i + 1, loss })));
  };
  const found = await measured(model, folder, asked, trained, train, context);
  return resultOf(folder, { ...about, steps: folder.steps, ...found });
}

/** Trains on beliefs read from the model after its own reasoning. */
async function byReadout(asked: Settings, context: Context): Promise<TruthTraining> {
  const { mode, rank, learningRate = READOUT_RATE } = asked;
  const { reward, steps, questions, group, maxTokens, temperature, trainCutOff } = asked;
  const trained = asked.domain!;
  const seed = BigInt(asked.seed);
  const problems = trainingProblems(
    trained.map((id) => DOMAINS.find((domain) => domain.id === id) as GeneratedDomain),
    steps * questions,
    seed,
  );
  const how = { reward, steps, questions, group, maxTokens, temperature, trainCutOff, seed };
  await using model = await loaded(asked, context);
  const start = {
    ...how,
    seed: asked.seed,
    domains: trained.join(' '),
    mode,
    rank,
    learningRate,
    ...engineOf(model),
    ...precisionOf(asked),
  };
  using folder = new TrainingFolder(path.resolve(asked.out), await trainingStart(model, start));
  const told = tellStep(context);
  const train = (): Promise<void> =>
    trainInFolder(
      model,
      folder,
      {
        ...{ problems, mode, how, rank, learningRate, threads: asked.threads },
        ...precisionOf(asked),
      },
      {
        signal: context.signal,
        onStep: ({ step, reward: got }) =>
          told(step, steps, `reward ${got === null ? '-' : got.toFixed(3)}`),
      },
    );
  const found = await measured(model, folder, asked, trained, train, context);
  return resultOf(folder, { problems: problems.length, steps: folder.steps, ...found });
}

/**
 * Figures of a training: what was selected, written, trained and measured; `adapter` if one was
 * trained.
 */
export interface TruthTraining {
  readonly adapter?: string;
  readonly changes?: readonly FigureChange[];
  readonly [figure: string]: unknown;
}

export const truthTrain = operation({
  id: 'truth train',
  title:
    'Train an adapter on the best trajectories of runs, or on beliefs read from the model while it reasons',
  settings,
  contradictions,
  async run(asked, context): Promise<TruthTraining> {
    for (const file of [asked.rows, asked.fewShot]) if (file !== undefined) requireTarget(file);
    return (asked.runs === undefined ? byReadout : bySelection)(asked, context);
  },
  job: {
    kind: 'truth-train',
    title: 'Train an adapter to believe what is true',
    button: 'Train on truth',
    contradictions,
    local: ({ folder }) => ({ out: path.join(folder, 'training') }),
    memoryBytes: async ({ model }) => memoryOf(model!, contextOf(model!), TRAINER_BYTES),
    adapterOf: (result) =>
      z.object({ adapter: z.string() }).safeParse(result).data?.adapter ?? null,
  },
});
