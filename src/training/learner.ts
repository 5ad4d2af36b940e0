/** The adapter in training: the trainer, what it cost to feed it, and the states that a run may go back to. */
import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import { createTrainer, type StepStatistics, type Trainer, type TrainSequence } from '../engine/trainer.js';
import { deriveSeed } from '../random.js';
import { BoundaryCache } from './sequences.js';
import type { RunSettings } from './settings.js';

export interface LearnerOptions {
  readonly model: Model;
  readonly settings: RunSettings;
  readonly layers: readonly number[];
}

/** A state of the trainer with the adapter file that it exports. */
export interface SavedState {
  readonly snapshot: Uint8Array;
  /** SHA-256 of the adapter file. */
  readonly adapterId: string;
}

export class Learner {
  readonly trainer: Trainer;
  readonly boundaries: BoundaryCache;
  readonly #model: Model;
  #adapter: Adapter | null = null;

  private constructor(options: LearnerOptions, trainer: Trainer) {
    this.trainer = trainer;
    this.boundaries = new BoundaryCache(trainer, options.settings.boundaryMemory);
    this.#model = options.model;
  }

  static async create(options: LearnerOptions): Promise<Learner> {
    const { model, settings, layers } = options;
    const trainer = await createTrainer(model, {
      lora: { targets: settings.targets, layers, rank: settings.rank, alpha: settings.scale * settings.rank, dropout: settings.dropout },
      optimiser: { learningRate: settings.learningRate, warmupSteps: settings.warmupSteps, maxNorm: settings.maxNorm, weightDecay: settings.weightDecay },
      seed: deriveSeed({ runSeed: BigInt(settings.seed), purpose: 'adapter', iteration: 0, problemId: '', sample: 0 }),
      threads: settings.threads,
      memoryBytes: settings.trainerMemory,
    });
    return new Learner(options, trainer);
  }

  /** Has the model generate with the present factors; returns the adapter's SHA-256. */
  async apply(): Promise<string> {
    this.#adapter = await this.trainer.applyTo(this.#model);
    return this.#adapter.id;
  }

  /** Has the model generate with an adapter file. */
  async use(file: string): Promise<void> {
    const adapter = await this.#model.loadAdapter(file);
    await this.#model.setAdapter(adapter);
    this.#adapter?.dispose();
    this.#adapter = adapter;
  }

  /** As `apply`, with the state that belongs to it. */
  async save(): Promise<SavedState> {
    return { snapshot: await this.trainer.snapshot(), adapterId: await this.apply() };
  }

  /** Goes back to a state; rate, clipping norm and epsilon stay those of the run. */
  async restore(snapshot: Uint8Array, { learningRate, maxNorm, epsilon }: { readonly learningRate: number; readonly maxNorm: number; readonly epsilon: number }): Promise<void> {
    await this.trainer.rollbackTo(snapshot);
    await this.trainer.setOptimiser({ learningRate, maxNorm, epsilon });
  }

  /** Token log-probabilities, a row a sequence. */
  async logprobs(sequences: readonly TrainSequence[], signal?: AbortSignal): Promise<Float32Array[]> {
    if (sequences.length === 0) return [];
    return (await this.trainer.evaluate(sequences, signal === undefined ? {} : { signal })).sequences.map(({ logprobs }) => logprobs);
  }

  async dispose(): Promise<void> {
    await this.trainer.dispose();
    this.#adapter?.dispose();
  }
}

/**
 * Mean KL(new‖old) per labelled token from samples of the old policy: r log r - (r - 1) with r = p_new / p_old, which is never negative.
 * Null where nothing was labelled.
 */
export function policyShift(before: readonly Float32Array[], after: readonly Float32Array[], sequences: readonly Pick<TrainSequence, 'labelMask'>[]): number | null {
  let [sum, tokens] = [0, 0];
  for (const [i, { labelMask }] of sequences.entries()) {
    labelMask.forEach((labelled, t) => {
      if (labelled === 0) return;
      const logRatio = after[i]![t]! - before[i]![t]!;
      const ratio = Math.exp(logRatio);
      sum += ratio * logRatio - (ratio - 1);
      tokens++;
    });
  }
  return tokens === 0 ? null : sum / tokens;
}

/** Loss per labelled token over an iteration's steps; null where there was none. */
export function meanLoss(steps: readonly StepStatistics[]): number | null {
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  return tokens === 0 ? null : steps.reduce((sum, step) => sum + step.loss * step.tokens, 0) / tokens;
}
