/** Rejection-sampling fine-tuning: likelihood steps on accepted rollouts. */
import type { StepStatistics, Trainer, TrainSequence } from '../engine/trainer.js';
import type { ReplayBuffer, Trace } from './replay-buffer.js';
import type { BoundaryCache } from './sequences.js';
import type { RunSettings } from './settings.js';

export interface LearningContext {
  readonly trainer: Trainer;
  readonly boundaries: BoundaryCache;
  readonly buffer: ReplayBuffer;
  readonly settings: RunSettings;
  readonly iteration: number;
  /** Sequences a step; a remedy may have changed it. */
  readonly batchSize: number;
  readonly signal?: AbortSignal;
  /** Before each step. */
  readonly onBatch?: (sequences: readonly TrainSequence[]) => void;
  readonly onStep?: (statistics: StepStatistics, step: number, steps: number) => void;
}

/**
 * At least two micro-batches where a step has two sequences, as even as can be: the noise scale (rule R2) needs two gradients. Undefined
 * leaves the packing to the trainer, which makes several of them anyway once the tokens exceed one.
 */
export function microBatches(tokens: number, sequences: number, limit = 512): number[] | undefined {
  return sequences < 2 || tokens > limit ? undefined : [Math.ceil(sequences / 2), Math.floor(sequences / 2)];
}

export const chunks = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));

/** The sequences that this iteration trains on, in order. */
export function drawTraces({
  buffer,
  settings,
  iteration,
  batchSize,
}: Pick<LearningContext, 'buffer' | 'settings' | 'iteration' | 'batchSize'>): Trace[] {
  const runSeed = BigInt(settings.seed);
  if (settings.buffer === 'classic') return buffer.drawClassic(runSeed, iteration);
  return buffer.drawBalanced({
    runSeed,
    iteration,
    wanted: settings.stepsPerIteration * batchSize,
    newShare: settings.newShare,
    accumulate: settings.accumulate,
  });
}

/** One iteration of steps; none where nothing was accepted. @throws as Trainer.step */
export async function learnByLikelihood(context: LearningContext): Promise<StepStatistics[]> {
  const { trainer, boundaries, batchSize, signal, onBatch, onStep } = context;
  const batches = chunks(drawTraces(context), batchSize);
  const statistics: StepStatistics[] = [];
  for (const [step, batch] of batches.entries()) {
    const sequences = await boundaries.sequences(batch, signal);
    onBatch?.(sequences);
    const parts = microBatches(
      sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      sequences.length,
    );
    const stats = await trainer.step(sequences, {
      ...(parts === undefined ? {} : { microBatches: parts }),
      ...(signal === undefined ? {} : { signal }),
    });
    statistics.push(stats);
    onStep?.(stats, step + 1, batches.length);
  }
  return statistics;
}
