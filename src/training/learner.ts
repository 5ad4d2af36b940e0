/**
 * The adapter in training: the trainer, what it cost to feed it, and the states that a run may go
 * back to.
 */
import { algorithmOf } from '../algorithms/index.js';
import { BoundaryCache } from '../algorithms/sequences.js';
import type { Adapter } from '../engine/adapter.js';
import { invocationTokensFor } from '../engine/invocation-tokens.js';
import type { Model } from '../engine/model.js';
import { createTrainer, type Trainer } from '../engine/trainer.js';
import { given } from '../given.js';
import { seedOf, type RunSettings } from './settings.js';

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

/** As invocationTokensFor, of a run. @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID */
export const invocationTokensOf = (
  { layers }: Pick<RunSettings, 'layers'>,
  model: Pick<Model, 'generationPrompt' | 'path'>,
): Int32Array => invocationTokensFor(layers.adapterFrom, model, 'layers.adapterFrom');

export class Learner {
  readonly trainer: Trainer;
  readonly boundaries: BoundaryCache;
  /** Dropout on the adapter's inputs. */
  readonly dropout: number;
  readonly #model: Model;
  /** Snapshot of the untrained adapter; null if no iteration restarts from it. */
  readonly #untrained: Uint8Array | null;
  #adapter: Adapter | null = null;

  private constructor(options: LearnerOptions, trainer: Trainer, untrained: Uint8Array | null) {
    this.trainer = trainer;
    this.dropout = options.settings.layers.dropout;
    this.#untrained = untrained;
    this.boundaries = new BoundaryCache(trainer, options.settings.layers.boundaryMemory);
    this.#model = options.model;
  }

  static async create(options: LearnerOptions): Promise<Learner> {
    const { model, settings, layers } = options;
    const { targets, rank, scale, dropout, trainerMemory } = settings.layers;
    const { learningRate, warmupSteps, maxNorm, weightDecay, precision } = settings.optimiser;
    const trainer = await createTrainer(model, {
      lora: { targets, layers, rank, alpha: scale * rank, dropout },
      optimiser: { learningRate, warmupSteps, maxNorm, weightDecay },
      seed: seedOf(settings, 'adapter'),
      threads: settings.model.threads,
      memoryBytes: trainerMemory,
      ...given({ precision }),
      invocationTokens: invocationTokensOf(settings, model),
    });
    return new Learner(
      options,
      trainer,
      algorithmOf(settings).startsAnew(settings) ? await trainer.snapshot() : null,
    );
  }

  /** Applies the current factors to the model; returns the adapter's SHA-256. */
  async apply(): Promise<string> {
    this.#adapter = await this.trainer.applyTo(this.#model);
    return this.#adapter.id;
  }

  /** Adapter that the model generates with. */
  get adapter(): Adapter | null {
    return this.#adapter;
  }

  /** Applies an adapter file to the model. */
  async use(file: string): Promise<void> {
    const adapter = await this.#model.loadAdapter(file);
    await this.#model.setAdapter(adapter);
    this.#adapter?.dispose();
    this.#adapter = adapter;
  }

  /** Applies the current factors and returns them with the trainer state. */
  async save(): Promise<SavedState> {
    return { snapshot: await this.trainer.snapshot(), adapterId: await this.apply() };
  }

  /** Restores the untrained adapter if the algorithm starts each iteration from it. */
  async beginIteration(run: Parameters<Learner['restore']>[1]): Promise<void> {
    if (this.#untrained !== null) await this.restore(this.#untrained, run);
  }

  /** Restores a state; rate, clipping norm and epsilon remain those of the run. */
  async restore(
    snapshot: Uint8Array,
    {
      learningRate,
      maxNorm,
      epsilon,
    }: { readonly learningRate: number; readonly maxNorm: number; readonly epsilon: number },
  ): Promise<void> {
    await this.trainer.rollbackTo(snapshot);
    await this.trainer.setOptimiser({ learningRate, maxNorm, epsilon });
  }

  async dispose(): Promise<void> {
    try {
      await this.trainer.dispose();
    } finally {
      this.#adapter?.dispose();
    }
  }
}
