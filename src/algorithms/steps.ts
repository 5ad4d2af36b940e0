/** Optimiser steps on batches of rollouts, as every algorithm makes them. */
import type { Objective, StepStatistics, Trainer, TrainSequence } from '../engine/trainer.js';
import { given } from '../given.js';
import type { Random } from '../random.js';
import type { LearningContext } from './algorithm.js';
import type { KeyedRollout, Sampled } from './sequences.js';

export const chunks = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );

/** Shuffled passes over an iteration's samples, at most. */
const PASSES = 4;

/** Returns the number of steps that `samples` allow, at most `steps`. */
export const mostSteps = (samples: number, steps: number, batchSize: number): number =>
  Math.min(steps, Math.ceil((PASSES * samples) / batchSize));

/**
 * Returns `steps` batches in as many passes over the samples as they need, at most four. Each pass
 * shuffles the problems and keeps the samples of one together, so that a step evaluates their
 * prompt once.
 */
export function shuffledBatches(
  samples: readonly KeyedRollout[],
  steps: number,
  batchSize: number,
  random: Random,
): KeyedRollout[][] {
  const problems = [...new Set(samples.map(({ problem }) => problem))];
  const siblings = (of: KeyedRollout['problem']) => samples.filter(({ problem }) => problem === of);
  const order: KeyedRollout[] = [];
  for (let pass = 0; pass < PASSES && order.length < steps * batchSize; pass++)
    order.push(...random.shuffle(problems).flatMap(siblings));
  return chunks(order, batchSize).slice(0, mostSteps(samples.length, steps, batchSize));
}

interface Prepared {
  readonly sequences: readonly TrainSequence[];
  /** Statistics that replace the trainer's own. */
  readonly statistics?: Partial<StepStatistics>;
}

interface StepOptions<T> {
  /** Default: the likelihood. */
  readonly objective?: Objective;
  /** Adds to the sequences what the objective needs besides tokens. */
  readonly prepare?: (
    sequences: readonly TrainSequence[],
    batch: readonly T[],
  ) => Promise<Prepared>;
}

/** A step a batch. @throws as Trainer.step */
export async function takeSteps<T extends Sampled>(
  { trainer, boundaries, signal, onBatch, onStep }: LearningContext,
  batches: readonly (readonly T[])[],
  { objective, prepare }: StepOptions<T> = {},
): Promise<StepStatistics[]> {
  const statistics: StepStatistics[] = [];
  for (const [step, batch] of batches.entries()) {
    const plain = await boundaries.sequences(batch, signal);
    const { sequences, statistics: own }: Prepared =
      prepare === undefined ? { sequences: plain } : await prepare(plain, batch);
    onBatch?.(sequences);
    const made = await trainer.step(sequences, {
      ...given({ objective, signal }),
      leastMicroBatches: 2, // rule R2 reads the noise scale
    });
    const stats = own === undefined ? made : { ...made, ...own };
    statistics.push(stats);
    onStep?.(stats, step + 1, batches.length);
  }
  return statistics;
}

/**
 * Returns token log-probabilities at the temperature of the rollouts, one row per sequence;
 * `adapter: false` means the base model.
 * @throws as Trainer.step
 */
export async function temperedLogprobs(
  trainer: Trainer,
  sequences: readonly TrainSequence[],
  {
    temperature,
    ...options
  }: { readonly temperature: number; readonly adapter?: boolean; readonly signal?: AbortSignal },
): Promise<Float32Array[]> {
  if (sequences.length === 0) return [];
  const { sequences: evaluated } = await trainer.evaluate(sequences, {
    objective: { kind: 'policy', temperature },
    ...options,
  });
  return evaluated.map(({ logprobs }) => logprobs);
}
