/** Supervised fine-tuning of a LoRA adapter: the order of the examples, steps, validation, early stop, resumption. */
import { IsoproError } from '../errors.js';
import { Random } from '../random.js';
import type { StepStatistics, Trainer, TrainSequence } from './trainer.js';

/** What is measured on examples that are not trained on. */
export interface Validation {
  readonly sequences: readonly TrainSequence[];
  /** Steps between two measurements; the last step has one too. */
  readonly every: number;
  /** Measurements in a row that are no better than the best one before, after which training stops; 0: never. */
  readonly patience: number;
  /** Of an interrupted training: what was measured up to the step where it goes on. */
  readonly before?: readonly ValidationLoss[];
}

export interface ValidationLoss {
  /** Steps that were taken; 0 is the base model. */
  readonly step: number;
  /** Mean over the labelled tokens of all examples, nats. */
  readonly loss: number;
}

export interface FineTuningPlan {
  readonly sequences: readonly TrainSequence[];
  /** Sequences a step. */
  readonly batchSize: number;
  readonly steps: number;
  /** Of the order of the examples. */
  readonly seed: bigint;
  readonly validation?: Validation;
}

export type FineTuningEvent =
  | { readonly kind: 'step'; readonly stats: StepStatistics }
  /** `best`: of all after a step; `stop`: no step follows. */
  | ({ readonly kind: 'validation'; readonly best: boolean; readonly stop: boolean } & ValidationLoss);

/** Loss of the model as it stands, a batch at a time. */
async function lossOf(
  trainer: Trainer,
  sequences: readonly TrainSequence[],
  batchSize: number,
  options: { readonly signal?: AbortSignal },
): Promise<number> {
  let [loss, tokens] = [0, 0];
  for (let from = 0; from < sequences.length; from += batchSize) {
    const evaluated = await trainer.evaluate(sequences.slice(from, from + batchSize), options);
    loss += evaluated.sequences.reduce((sum, sequence) => sum + sequence.loss, 0);
    tokens += evaluated.tokens;
  }
  return loss / tokens;
}

/**
 * Steps from where the trainer stands up to `steps`, or to where validation has stopped improving. Every epoch has its own order, which
 * depends on the seed alone: a resumed training sees the same batches, and stops at the same step, as an uninterrupted one.
 * @throws IsoproError NUMERIC_FAILURE for a step that is not finite; as Trainer.step
 */
export async function* fineTune(
  trainer: Trainer,
  { sequences, batchSize, steps, seed, validation }: FineTuningPlan,
  signal?: AbortSignal,
): AsyncGenerator<FineTuningEvent> {
  const options = signal === undefined ? {} : { signal };
  const measured: ValidationLoss[] = [...(validation?.before ?? [])];
  const stopped = (): boolean => {
    const best = measured.findIndex(({ loss }) => loss === Math.min(...measured.map((each) => each.loss)));
    return validation !== undefined && validation.patience > 0 && measured.length - 1 - best >= validation.patience;
  };
  async function* measure(step: number): AsyncGenerator<FineTuningEvent> {
    if (validation === undefined || (step % validation.every !== 0 && step !== steps) || measured.some((each) => each.step === step))
      return;
    const loss = await lossOf(trainer, validation.sequences, batchSize, options);
    const best = step > 0 && measured.every((each) => each.step === 0 || loss < each.loss);
    measured.push({ step, loss });
    yield { kind: 'validation', step, loss, best, stop: stopped() };
  }
  const batchesPerEpoch = Math.ceil(sequences.length / batchSize);
  let epoch = -1;
  let order: readonly TrainSequence[] = [];
  yield* measure(trainer.info.steps);
  for (let step = trainer.info.steps; step < steps && !stopped(); step++) {
    if (Math.floor(step / batchesPerEpoch) !== epoch) {
      epoch = Math.floor(step / batchesPerEpoch);
      order = new Random(BigInt.asUintN(64, seed + BigInt(epoch))).shuffle(sequences);
    }
    const from = (step % batchesPerEpoch) * batchSize;
    const stats = await trainer.step(order.slice(from, from + batchSize), options);
    if (!stats.applied)
      throw new IsoproError(
        'NUMERIC_FAILURE',
        `step ${stats.step}: ${stats.nonFinite.join(', ')} not finite; the adapter is as before the step`,
      );
    yield { kind: 'step', stats };
    yield* measure(step + 1);
  }
}
