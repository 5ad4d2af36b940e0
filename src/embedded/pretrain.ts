/**
 * Trains the embedded model from its initial weights: resumable, the same result however often it
 * was interrupted.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { loadModel, type Model } from '../engine/model.js';
import {
  createTrainer,
  type StepStatistics,
  type Trainer,
  type TrainSequence,
} from '../engine/trainer.js';
import { given } from '../given.js';
import { schedulingPrompt } from '../tasks/scheduling/prompt.js';
import { drawExample } from './corpus.js';
import { writeInitialModel } from './initial-model.js';

export interface PretrainingSettings {
  readonly seed: bigint;
  /** Optimiser steps in all. */
  readonly steps: number;
  readonly examplesPerStep: number;
  /** Of the warm-up's end; constant until `decayFrom`, then linear to 0 at the last step. */
  readonly learningRate: number;
  readonly warmupSteps: number;
  /** Step. */
  readonly decayFrom: number;
  /** Steps in which the tiers' shares move from the first to the later ones. */
  readonly curriculumSteps: number;
}

export const SETTINGS: PretrainingSettings = {
  seed: 1n,
  steps: 24_000,
  examplesPerStep: 8,
  learningRate: 2e-3,
  warmupSteps: 300,
  decayFrom: 18_000,
  curriculumSteps: 2500,
};

export interface PretrainingOptions {
  readonly threads?: number;
  /** Steps between two checkpoints. */
  readonly checkpointSteps: number;
  /** Stop here, to continue later. */
  readonly untilStep?: number;
  readonly onStep?: (stats: StepStatistics) => void;
  readonly onCheckpoint?: (trainer: Trainer, step: number) => Promise<void>;
}

/** [step] counted from 1. */
export function learningRateAt(
  { learningRate, warmupSteps, decayFrom, steps }: PretrainingSettings,
  step: number,
): number {
  if (step <= warmupSteps) return (learningRate * step) / warmupSteps;
  return step <= decayFrom
    ? learningRate
    : (learningRate * (steps + 1 - step)) / (steps + 1 - decayFrom);
}

/**
 * Prompt and reply as one sequence; the reply is labelled, its end included, its name only where
 * that is to be learned.
 */
export function trainSequence(
  model: Model,
  seed: bigint,
  index: number,
  progress: number,
): TrainSequence {
  const { problem, reply, learnsName } = drawExample(seed, index, progress);
  const prompt = model.renderChat(schedulingPrompt(problem, 'cot')).tokenIds;
  const answer = model.tokenize(reply);
  const tokenIds = Int32Array.from([...prompt, ...answer, model.info.eos]);
  const labelMask = Uint8Array.from(tokenIds, (_, at) =>
    at > prompt.length || (at === prompt.length && learnsName) ? 1 : 0,
  );
  return { tokenIds, labelMask };
}

/** @throws IsoproError as createTrainer, step and save do */
export async function pretrain(
  folder: string,
  settings: PretrainingSettings,
  options: PretrainingOptions,
): Promise<Trainer> {
  const initial = path.join(folder, 'initial.gguf');
  const state = path.join(folder, 'pretraining.state');
  if (!existsSync(initial)) await writeInitialModel(initial, settings.seed);
  const model = await loadModel(initial, { threads: 1 });
  const trainer = await createTrainer(model, {
    allWeights: true,
    microBatchTokens: 1 << 13,
    sharePrefixes: false, // gradients are summed in the order in which the embedded model's were
    optimiser: { learningRate: settings.learningRate, beta2: 0.99, weightDecay: 0.01 },
    ...given({ threads: options.threads }),
  });
  if (existsSync(state)) await trainer.load(state);
  const batchOf = (step: number): TrainSequence[] =>
    Array.from({ length: settings.examplesPerStep }, (_, i) =>
      trainSequence(
        model,
        settings.seed,
        (step - 1) * settings.examplesPerStep + i,
        Math.min(1, step / settings.curriculumSteps),
      ),
    );
  const last = Math.min(settings.steps, options.untilStep ?? settings.steps);
  let step = trainer.info.steps + 1;
  let batch = batchOf(step);
  for (; step <= last; step++) {
    await trainer.setOptimiser({ learningRate: learningRateAt(settings, step), maxNorm: 1 });
    const running = trainer.step(batch);
    // Drawn while the step runs on the trainer's threads.
    if (step < last) batch = batchOf(step + 1);
    options.onStep?.(await running);
    if (step % options.checkpointSteps === 0 || step === last) {
      await trainer.save(state);
      await options.onCheckpoint?.(trainer, step);
    }
  }
  await model.dispose();
  return trainer;
}
