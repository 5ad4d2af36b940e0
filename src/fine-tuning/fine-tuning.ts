/**
 * Fine-tuning of a LoRA adapter on a file: the order of the examples, steps, validation, early
 * stop, resumption.
 */
import { IsoproError } from '../errors.js';
import { deriveSeed, Random } from '../random.js';
import type {
  OptimiserSettings,
  StepStatistics,
  Trainer,
  TrainSequence,
} from '../engine/trainer.js';

/**
 * Default learning rates by objective. Preference training needs a smaller one: a model that moves
 * away from the reference quickly loses its language.
 */
export const LEARNING_RATES = { sft: 2e-4, dpo: 2e-5 } as const;

/** Returns the number of steps of `epochs` passes over the examples. */
export const stepsOf = (examples: number, batchSize: number, epochs: number): number =>
  Math.ceil(examples / batchSize) * epochs;

/**
 * The learning rate warms up over 3 % of the steps, and then follows the schedule, which ends after
 * the last step: every step trains.
 */
export const optimiserOf = (
  learningRate: number,
  schedule: NonNullable<OptimiserSettings['schedule']>,
  steps: number,
): OptimiserSettings => ({
  learningRate,
  schedule,
  totalSteps: steps + 1,
  warmupSteps: Math.ceil(steps * 0.03),
});

/** Figures by name, next to the loss; empty if there are none. */
export type Figures = Readonly<Record<string, number>>;

export interface CallOptions {
  readonly signal?: AbortSignal;
}

/** A training objective: how a batch of examples is trained on and measured. */
export interface Learning<Example> {
  readonly trainer: Trainer;
  /** One update. `stats.loss` is this learning's own. */
  step(
    batch: readonly Example[],
    options: CallOptions,
  ): Promise<{ readonly stats: StepStatistics; readonly figures: Figures }>;
  /** Measures the current model: sums over the batch, and the count to divide them by. */
  measure(
    batch: readonly Example[],
    options: CallOptions,
  ): Promise<{ readonly loss: number; readonly figures: Figures; readonly count: number }>;
}

/** The likelihood of the labelled tokens, each alike. */
export const likelihood = (trainer: Trainer): Learning<TrainSequence> => ({
  trainer,
  step: async (batch, options) => ({ stats: await trainer.step(batch, options), figures: {} }),
  async measure(batch, options) {
    const { sequences, tokens } = await trainer.evaluate(batch, options);
    return {
      loss: sequences.reduce((sum, sequence) => sum + sequence.loss, 0),
      figures: {},
      count: tokens,
    };
  },
});

/** Measurements on held-out examples. */
export interface Validation<Example> {
  readonly examples: readonly Example[];
  /** Steps between two measurements; the last step has one too. */
  readonly every: number;
  /**
   * Measurements in a row that are no better than the best one before, after which training stops;
   * 0: never.
   */
  readonly patience: number;
  /** Measurements of an interrupted training up to the step from which it continues. */
  readonly before?: readonly ValidationLoss[];
}

export interface ValidationLoss {
  /** Steps that were taken; 0 is the base model. */
  readonly step: number;
  /** Mean over the labelled tokens of all examples, or over the pairs, nats. */
  readonly loss: number;
}

export interface FineTuningPlan<Example> {
  readonly examples: readonly Example[];
  /** Number of examples per step. */
  readonly batchSize: number;
  readonly steps: number;
  /** Seed of the order of the examples. */
  readonly seed: bigint;
  readonly validation?: Validation<Example>;
}

export type FineTuningEvent =
  | { readonly kind: 'step'; readonly stats: StepStatistics; readonly figures: Figures }
  /** `best`: of all after a step; `stop`: no step follows. */
  | ({
      readonly kind: 'validation';
      readonly best: boolean;
      readonly stop: boolean;
      readonly figures: Figures;
    } & ValidationLoss);

/** Means of the model as it stands, a batch at a time. */
async function means<Example>(
  learning: Learning<Example>,
  examples: readonly Example[],
  batchSize: number,
  options: CallOptions,
): Promise<{ readonly loss: number; readonly figures: Figures }> {
  let [loss, count] = [0, 0];
  const sums: Record<string, number> = {};
  for (let from = 0; from < examples.length; from += batchSize) {
    const measured = await learning.measure(examples.slice(from, from + batchSize), options);
    loss += measured.loss;
    count += measured.count;
    for (const [name, value] of Object.entries(measured.figures))
      sums[name] = (sums[name] ?? 0) + value;
  }
  return {
    loss: loss / count,
    figures: Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / count])),
  };
}

/**
 * Steps from where the trainer stands up to `steps`, or to where validation has stopped improving.
 * Every epoch has its own order, which depends on the seed alone: a resumed training sees the same
 * batches, and stops at the same step, as an uninterrupted one.
 * @throws IsoproError NUMERIC_FAILURE for a step that is not finite; as Trainer.step
 */
export async function* fineTune<Example>(
  learning: Learning<Example>,
  { examples, batchSize, steps, seed, validation }: FineTuningPlan<Example>,
  signal?: AbortSignal,
): AsyncGenerator<FineTuningEvent> {
  const { trainer } = learning;
  const options = signal === undefined ? {} : { signal };
  const measured: ValidationLoss[] = [...(validation?.before ?? [])];
  const stopped = (): boolean => {
    const best = measured.findIndex(
      ({ loss }) => loss === Math.min(...measured.map((each) => each.loss)),
    );
    return (
      validation !== undefined &&
      validation.patience > 0 &&
      measured.length - 1 - best >= validation.patience
    );
  };
  async function* measure(step: number): AsyncGenerator<FineTuningEvent> {
    if (
      validation === undefined ||
      (step % validation.every !== 0 && step !== steps) ||
      measured.some((each) => each.step === step)
    )
      return;
    const { loss, figures } = await means(learning, validation.examples, batchSize, options);
    const best = step > 0 && measured.every((each) => each.step === 0 || loss < each.loss);
    measured.push({ step, loss });
    yield { kind: 'validation', step, loss, figures, best, stop: stopped() };
  }
  const batchesPerEpoch = Math.ceil(examples.length / batchSize);
  let epoch = -1;
  let order: readonly Example[] = [];
  yield* measure(trainer.info.steps);
  for (let step = trainer.info.steps; step < steps && !stopped(); step++) {
    if (Math.floor(step / batchesPerEpoch) !== epoch) {
      epoch = Math.floor(step / batchesPerEpoch);
      order = new Random(
        deriveSeed({ runSeed: seed, purpose: 'epoch', iteration: epoch, problemId: '', sample: 0 }),
      ).shuffle(examples);
    }
    const from = (step % batchesPerEpoch) * batchSize;
    const { stats, figures } = await learning.step(order.slice(from, from + batchSize), options);
    if (!stats.applied)
      throw new IsoproError(
        'NUMERIC_FAILURE',
        `step ${stats.step}: these values are not finite: ${stats.nonFinite.join(', ')}; the adapter was not changed`,
      );
    yield { kind: 'step', stats, figures };
    yield* measure(step + 1);
  }
}
