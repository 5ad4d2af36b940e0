/**
 * Course of a training from rows to adapter: steps, validations, checkpoints, early stopping and
 * the choice of the best adapter. Shared by the command, jobs and programs.
 */
import path from 'node:path';
import { hashFile } from '../../engine/adapter.js';
import { optimiserOf, stepsOf, type Figures } from '../../fine-tuning/fine-tuning.js';
import { invocationTokensFor } from '../../engine/invocation-tokens.js';
import type { Model } from '../../engine/model.js';
import { createTrainer, type StepStatistics, type Trainer } from '../../engine/trainer.js';
import { given } from '../../given.js';
import type { Rows } from '../../fine-tuning/training-examples.js';
import { Trackers } from '../../trackers/trackers.js';
import type { Context } from '../operation.js';
import type { CurationCounts } from './curation.js';
import { readTrainData, type TrainData } from './data.js';
import type { BegunWith, Losses, TrainFiles } from './files.js';
import { learningRateOf, type CourseSettings } from './settings.js';

export interface TrainStep {
  readonly step: number;
  /** Planned number of steps. */
  readonly steps: number;
  /** Mean over the labelled tokens of the step, or over its pairs, nats. */
  readonly loss: number;
  /** Metrics of pairs by TRL's names, such as `rewards/margins`; otherwise empty. */
  readonly figures: Figures;
}

export interface TrainingRequest {
  readonly model: Model;
  readonly rows: Rows;
  /** Validation rows, instead of a share of `rows`. */
  readonly validationRows?: Rows | undefined;
  /** File of `rows`, if there is one. */
  readonly file?: string | undefined;
  readonly settings: CourseSettings;
  readonly files: TrainFiles;
  /** Settings that a resumed training must share. */
  readonly begun: BegunWith;
  readonly resume: boolean;
  /** Additional values for trackers. */
  readonly about: Readonly<Record<string, unknown>>;
}

export interface TrainingContext extends Context {
  readonly onStep?: ((step: TrainStep) => void) | undefined;
}

/** Plan of a training before the first step. */
export interface TrainingPlan {
  readonly examples: number;
  readonly validationExamples: number;
  /** Examples that are too long, and pairs of two equal replies. */
  readonly leftOut: number;
  readonly tooLong: number;
  readonly curation?: CurationCounts;
  /** Tokens per epoch. */
  readonly tokens: number;
  readonly steps: number;
  /** Number of trained parameters. */
  readonly parameters: number;
  readonly layers: number;
  readonly threads: number;
}

/** Estimated cost of a training, from one step. */
export interface TrainingTrial extends TrainingPlan {
  readonly tokensPerSecond: number;
  readonly seconds: number;
  readonly residentBytes: number;
}

export interface Trained {
  readonly plan: TrainingPlan;
  readonly notes: readonly string[];
  readonly stepsTaken: number;
  /** Losses of all steps and validations, including those before an interruption. */
  readonly losses: Losses;
  /** The measurement whose adapter is kept; null: the last step's is. */
  readonly best: { readonly step: number; readonly loss: number } | null;
  /** Measured last: on the validation examples, where there are some, else in the last step. */
  readonly figures: Figures;
  readonly sha256: string;
  readonly seconds: number;
}

interface Opened {
  readonly data: TrainData;
  readonly trainer: Trainer;
  readonly plan: TrainingPlan;
}

async function withTrainer<Result>(
  { model, rows, validationRows, file, settings, files, resume }: TrainingRequest,
  { tell }: Context,
  use: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  if (resume) files.checkTokens(model);
  const { objective, answers, beta, validation, batchSize, epochs, rank, alpha } = settings;
  const data = await readTrainData(model, {
    ...{ objective, answers, beta, validation, rows, validationRows, file },
    curation: settings,
    adapterFrom: settings.adapterFrom,
    maxTokens: Math.min(settings.maxTokens, model.info.trainedContext),
    references: files.areKept ? files.references : undefined,
  });
  const steps = stepsOf(data.examples, batchSize, epochs);
  await using trainer = await createTrainer(model, {
    seed: BigInt(settings.seed),
    threads: settings.threads,
    ...given({ precision: settings.precision }),
    invocationTokens: invocationTokensFor(settings.adapterFrom, model, 'adapterFrom'),
    lora: {
      rank,
      alpha,
      layers: settings.topLayers === undefined ? 'all' : { top: settings.topLayers },
    },
    optimiser: optimiserOf(learningRateOf(settings), settings.schedule, steps),
  });
  if (resume) await trainer.load(files.state);
  const { parameters, layers, lowestTrained, threads } = trainer.info;
  const { examples, validationExamples, leftOut, tooLong, curation, tokens } = data;
  const plan = {
    ...{ examples, validationExamples, leftOut, tooLong },
    ...(curation !== null && { curation }),
    ...{ tokens, steps, parameters, layers: layers - lowestTrained, threads },
  };
  for (const text of data.notes) tell({ type: 'notice', data: { text } });
  return await use({ data, trainer, plan });
}

/** One step, of which nothing stays. @throws as `trained` */
export const tried = (request: TrainingRequest, context: Context): Promise<TrainingTrial> =>
  withTrainer(request, context, async ({ data, trainer, plan }) => {
    const { batchSize, epochs } = request.settings;
    const { signal } = context;
    const started = performance.now();
    const sample = data.sequences(batchSize);
    await trainer.differentiate(sample, { signal });
    const tokens = sample.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    const tokensPerSecond = tokens / ((performance.now() - started) / 1000);
    const before = await data.secondsBefore(trainer, batchSize, signal);
    return {
      ...plan,
      tokensPerSecond,
      seconds: before + (plan.tokens * epochs) / tokensPerSecond,
      residentBytes: process.memoryUsage().rss,
    };
  });

/**
 * The whole training. Where it ends by an error, what was saved stays for the next one, which
 * continues from there.
 * @throws IsoproError INVALID_ARGUMENT naming the row, TEMPLATE_INVALID, DATA_INVALID,
 *   NUMERIC_FAILURE, OUT_OF_MEMORY, WRITE_FAILED, ABORTED
 */
export const trained = (request: TrainingRequest, context: TrainingContext): Promise<Trained> =>
  withTrainer(request, context, async (opened) => {
    const { model, files, begun } = request;
    const { data, trainer, plan } = opened;
    await files.open(trainer.info.steps, begun, model);
    const started = performance.now();
    try {
      const figures = await tracked(opened, request, context);
      await files.save(trainer);
      const losses = files.all;
      const best = losses.validation
        .filter(({ step }) => step > 0)
        .reduce<Trained['best']>((a, b) => (a !== null && a.loss <= b.loss ? a : b), null);
      const stepsTaken = trainer.info.steps;
      if (best !== null && best.step < stepsTaken) files.promoteBest();
      else await trainer.exportAdapter(files.out);
      files.forgetBest();
      return {
        ...{ plan, notes: data.notes, stepsTaken, losses, best, figures },
        sha256: await hashFile(files.out),
        seconds: (performance.now() - started) / 1000,
      };
    } catch (error) {
      if (!files.areKept) files.forgetBest(); // nobody continues from it
      throw error;
    }
  });

/** The steps, told to trackers too. @returns what was measured last */
async function tracked(
  opened: Opened,
  request: TrainingRequest,
  context: TrainingContext,
): Promise<Figures> {
  const { settings, files, resume, about } = request;
  const notice = (text: string): void => context.tell({ type: 'notice', data: { text } });
  const { objective, beta, rank, alpha, schedule, epochs, batchSize: batch, seed } = settings;
  const trackers = new Trackers(settings.logTo, {
    folder: files.trackers,
    project: 'isopro-native',
    name: path.basename(files.out),
    config: {
      ...opened.plan,
      ...about,
      objective,
      ...(objective === 'dpo' && { beta }),
      ...{ rank, alpha, schedule, epochs, batch, seed, lr: learningRateOf(settings) },
    },
    resumed: resume,
    onNotice: notice,
  });
  for (const command of trackers.commands) notice(`figures: ${command}`);
  let status: 'failed' | 'finished' = 'failed';
  try {
    const figures = await steps(opened, request, context, trackers);
    status = 'finished';
    return figures;
  } finally {
    trackers.end(status);
  }
}

async function steps(
  { data, trainer, plan }: Opened,
  { settings, files }: TrainingRequest,
  { signal, tell, onStep }: TrainingContext,
  trackers: Trackers,
): Promise<Figures> {
  const { batchSize, epochs, patience, saveEvery } = settings;
  const perStep = plan.tokens / Math.ceil(plan.examples / batchSize);
  const total = plan.tokens * epochs;
  const progress = (step: number, note: string): void => {
    const done = Math.round(step * perStep);
    tell({ type: 'progress', data: { stage: 'training', done, total, unit: 'tokens', note } });
  };
  const isMeasured = plan.validationExamples > 0;
  let [measured, last]: [string, Figures] = ['', {}];
  const taken = ({ step, loss, learningRate, gradNorm, tokens }: StepStatistics, of: Figures) => {
    if (!isMeasured) last = of;
    files.add({ step, loss });
    trackers.log(step, {
      'train/loss': loss,
      'train/grad_norm': gradNorm,
      'train/learning_rate': learningRate,
      'train/epoch': (step * epochs) / plan.steps,
      ...named('train', of),
    });
    tell({ type: 'step', data: { step, loss, learningRate, gradNorm, tokens, ...of } });
    progress(step, `step ${step}/${plan.steps}, loss ${loss.toFixed(3)}${measured}`);
    onStep?.({ step, steps: plan.steps, loss, figures: of });
  };
  const how = {
    batchSize,
    steps: plan.steps,
    seed: BigInt(settings.seed),
    validation: {
      every: settings.validateEvery ?? Math.max(1, Math.ceil(plan.steps / 10)),
      patience,
      before: files.all.validation,
    },
  };
  const onReference = (done: number, pairs: number): void =>
    tell({
      type: 'progress',
      data: { stage: 'base log-probabilities', done, total: pairs, unit: 'pairs' },
    });
  progress(trainer.info.steps, 'the first step');
  for await (const event of data.train(trainer, how, signal, onReference)) {
    if (event.kind === 'step') {
      taken(event.stats, event.figures);
      if (event.stats.step % saveEvery === 0) await files.save(trainer);
      continue;
    }
    const { step, loss, best, figures } = event;
    last = figures;
    measured = `, validation ${loss.toFixed(3)}`;
    files.add({ step, validationLoss: loss });
    trackers.log(step, { 'eval/loss': loss, ...named('eval', figures) });
    tell({ type: 'step', data: { step, validationLoss: loss, ...figures } });
    if (best) await files.keepBest(trainer);
  }
  return last;
}

const named = (part: 'train' | 'eval', figures: Figures): Figures =>
  Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${part}/${name}`, value]));
