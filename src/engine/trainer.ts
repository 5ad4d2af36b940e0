/**
 * LoRA on a frozen quantised base, on the CPU: steps, evaluation, edits in flight, state. All
 * computing happens in C++.
 */
import { webcrypto } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { types } from 'node:util';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { hasEnded, requireFile, unreadable, unwritable } from '../files.js';
import { hashFile, type Adapter } from './adapter.js';
import { readAdapterFile, writePeft } from './adapter-files.js';
import {
  cancellable,
  loadAddon,
  settled,
  typed,
  type Addon,
  type Evaluation,
  type ModelShape,
  type NativeTrainer,
  type NativeTrainerInfo,
  type StepStatistics,
  type TrainerTimes,
} from './addon.js';
import { writeFileAtomically } from './atomic-file.js';
import { bounded } from './bounded-list.js';
import { checked } from './argument-check.js';
import type { Model } from './model.js';
import { resolveModel } from './model-files.js';
import { requirePrecision } from './precision.js';
import { single } from './single-precision.js';
import {
  exportModelOptions,
  writeModel,
  type ExportModelOptions,
  type WrittenModel,
} from './model-export.js';
import {
  objective as objectiveSchema,
  loraModule,
  planAll,
  planTargets,
  stepRequest,
  trainerOptions,
  trainSequences,
  type Boundary,
  type LoraModule,
  type Objective,
  type StepRequest,
  type TrainerOptions,
  type TrainSequence,
} from './training-request.js';

export type {
  Evaluation,
  ModuleStatistics,
  SequenceEvaluation,
  StepStatistics,
} from './addon.js';
export type {
  Boundary,
  LoraModule,
  LoraSettings,
  LoraTarget,
  Objective,
  OptimiserSettings,
  StepRequest,
  TrainerOptions,
  TrainSequence,
} from './training-request.js';

const bytes = z.custom<Uint8Array>(types.isUint8Array, 'must be a Uint8Array');
const MAGIC = Buffer.from('ISOPROCK');
const DIGEST_BYTES = 32;

/**
 * A trainer on the file of a model, which is one that `loadModel` takes; `inspectModel` says what
 * is against it. Its weights are mapped, not copied: the trainer shares the pages with llama.cpp.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_CORRUPT, MODEL_UNSUPPORTED, ARCH_UNSUPPORTED,
 *   NUMERIC_FAILURE, INVALID_ARGUMENT
 */
export async function createTrainer(
  model: Model | { readonly path: string },
  options: TrainerOptions = {},
): Promise<Trainer> {
  const valid = checked(trainerOptions, options, 'options');
  requirePrecision(valid.precision, 'options.precision');
  // the names that loadModel takes, where nothing is to be downloaded
  const { path: modelPath } = await resolveModel(
    checked(z.string().min(1), model.path, 'model.path'),
    { download: false },
  );
  const { addon } = loadAddon();
  const native = typed(() => new addon.NativeTrainer());
  const shape = await settled(native.open(modelPath));
  const targets = valid.allWeights ? [] : planTargets(valid.lora, shape);
  await settled(native.create({ ...valid, targets }));
  const hash = 'hash' in model ? () => model.hash() : () => hashFile(modelPath);
  const info = await settled(native.information());
  return new Trainer(addon, native, modelPath, shape, hash, valid.invocationTokens, info);
}

export class Trainer {
  readonly modelPath: string;
  readonly #addon: Addon;
  readonly #native: NativeTrainer;
  readonly #shape: ModelShape;
  readonly #computeHash: () => Promise<string>;
  #hash: Promise<string> | undefined;
  #info: NativeTrainerInfo;
  #stats: StepStatistics | undefined;
  #applied: { model: Model; adapter: Adapter } | undefined;
  #disposal: Promise<void> | undefined;

  /** @internal Use createTrainer. */
  constructor(
    addon: Addon,
    native: NativeTrainer,
    modelPath: string,
    shape: ModelShape,
    hash: () => Promise<string>,
    /** Empty: the adapter acts on every token. */
    readonly invocationTokens: Int32Array,
    info: NativeTrainerInfo,
  ) {
    this.#addon = addon;
    this.#native = native;
    this.modelPath = modelPath;
    this.#shape = shape;
    this.#computeHash = hash;
    this.#info = info;
  }

  /** Statistics of the last step; undefined before the first. */
  get stats(): StepStatistics | undefined {
    return this.#stats;
  }

  /** Shape of the model and the adapter; `steps` counts updates. */
  get info(): Readonly<NativeTrainerInfo> {
    return this.#info;
  }

  /** The linear maps of these layers that can be adapted, whether they are or not. */
  adaptable(layers: readonly number[]): { layer: number; module: LoraModule }[] {
    return planAll(layers, this.#shape).map(({ layer, module }) => ({ layer, module }));
  }

  /** @internal What its calls have cost so far, for benchmarks. */
  times(): Promise<TrainerTimes> {
    return settled(this.#native.times());
  }

  /** Returns the SHA-256 of the model file. @throws IsoproError FILE_UNREADABLE, SYSTEM_LIMIT */
  modelHash(): Promise<string> {
    return (this.#hash ??= this.#computeHash().catch((error: unknown) => {
      this.#hash = undefined;
      throw error;
    }));
  }

  /**
   * One update from the gradient of all sequences. When it throws, parameters, moments and counters
   * are as before.
   * @throws IsoproError INVALID_ARGUMENT, CONTEXT_OVERFLOW, ADAPTER_MISMATCH (boundary of another
   *   model or above the lowest trained layer), ABORTED, OBJECT_DISPOSED
   */
  async step(batch: readonly TrainSequence[], request: StepRequest = {}): Promise<StepStatistics> {
    const stats = await this.#run(batch, request, true);
    this.#stats = stats;
    this.#info = { ...this.#info, steps: stats.applied ? stats.step : stats.step - 1 };
    return stats;
  }

  /** Measures what `step` would measure, without an update. @throws as `step` */
  differentiate(
    batch: readonly TrainSequence[],
    request: StepRequest = {},
  ): Promise<StepStatistics> {
    return this.#run(batch, request, false);
  }

  async #run(
    batch: readonly TrainSequence[],
    request: StepRequest,
    apply: boolean,
  ): Promise<StepStatistics> {
    const { objective, microBatches, leastMicroBatches, signal } = checked(
      stepRequest,
      request,
      'request',
    );
    const sequences = await this.#sequences(batch);
    const counts = Int32Array.from(microBatches);
    const stats = await cancellable(this.#addon, signal, (cancellation) =>
      this.#native.step(
        sequences,
        nativeObjective(objective),
        counts,
        leastMicroBatches,
        apply,
        cancellation,
      ),
    );
    for (const module of Object.values(stats.modules)) {
      Object.freeze(module.dormantDirections);
      Object.freeze(module);
    }
    Object.freeze(stats.modules);
    return Object.freeze(stats);
  }

  /**
   * Loss, token log-probabilities and entropy. `adapter: false` is the base model. A policy's loss
   * counts sequences without advantages as having 0 everywhere: what is left is their divergence
   * from the reference.
   * @throws as `step`
   */
  async evaluate(
    batch: readonly TrainSequence[],
    options: { objective?: Objective; adapter?: boolean; signal?: AbortSignal } = {},
  ): Promise<Evaluation> {
    const objective = checked(
      objectiveSchema,
      options.objective ?? { kind: 'likelihood' },
      'objective',
    );
    const sequences = await this.#sequences(batch);
    return cancellable(this.#addon, options.signal, (cancellation) =>
      this.#native.evaluate(
        sequences,
        nativeObjective(objective),
        options.adapter ?? true,
        cancellation,
      ),
    );
  }

  /**
   * Boundary activations of each sequence at the lowest trained layer, to be passed in again with
   * the sequence: the frozen layers below are then not evaluated.
   * @throws as `step`
   */
  async captureBoundary(
    batch: readonly TrainSequence[],
    options: { signal?: AbortSignal } = {},
  ): Promise<Boundary[]> {
    const sequences = await this.#sequences(batch);
    const layer = this.#info.lowestTrained;
    const modelHash = await this.modelHash();
    const rows = await cancellable(this.#addon, options.signal, (cancellation) =>
      this.#native.captureBoundary(sequences, cancellation),
    );
    return rows.map((values) => ({ layer, modelHash, rows: values }));
  }

  /** Adds directions with B = 0, which keeps the function. @throws IsoproError INVALID_ARGUMENT */
  raiseRank(module: string, rank: number): Promise<void> {
    return this.#edit({ kind: 'raiseRank', module, rank: checked(z.int(), rank, 'rank') });
  }

  /** Adapts one more module with B = 0. @throws IsoproError INVALID_ARGUMENT */
  addTarget(
    layer: number,
    module: LoraModule,
    options: { rank: number; scale: number; dropout?: number },
  ): Promise<void> {
    const { rank, scale, dropout } = checked(
      z.strictObject({
        rank: z.int(),
        scale: single.positive(),
        dropout: single.min(0).lt(1).default(0),
      }),
      options,
      'options',
    );
    return this.#edit({
      kind: 'addTarget',
      layer: checked(z.int().min(0), layer, 'layer'),
      module: checked(loraModule, module, 'module'),
      rank,
      scale,
      dropout,
    });
  }

  /**
   * Draws directions again: their contribution is dropped and their moments and counters restart.
   * @throws IsoproError INVALID_ARGUMENT
   */
  recycleDirections(module: string, directions: readonly number[]): Promise<void> {
    return this.#edit({
      kind: 'recycleDirections',
      module,
      directions: Int32Array.from(
        checked(bounded(z.array(z.int().min(0))), directions, 'directions'),
      ),
    });
  }

  /**
   * Multiplies A by `factor` and divides B by it: the function stays, but gradients change.
   * @throws IsoproError INVALID_ARGUMENT
   */
  rebalance(module: string, factor: number): Promise<void> {
    return this.#edit({ kind: 'rebalance', module, factor: checked(single, factor, 'factor') });
  }

  /** Multiplies s by `factor` and divides B by it. @throws IsoproError INVALID_ARGUMENT */
  rescale(module: string, factor: number): Promise<void> {
    return this.#edit({ kind: 'rescale', module, factor: checked(single, factor, 'factor') });
  }

  /** Multiplies a module's learning rate. @throws IsoproError INVALID_ARGUMENT */
  setRateFactor(module: string, factor: number): Promise<void> {
    return this.#edit({ kind: 'setRateFactor', module, factor: checked(single, factor, 'factor') });
  }

  /**
   * Sets the base learning rate and clipping norm of the next steps, and Adam's epsilon if given.
   * None of them is part of a snapshot.
   */
  setOptimiser(settings: {
    learningRate: number;
    maxNorm: number;
    epsilon?: number | undefined;
  }): Promise<void> {
    const valid = checked(
      z.strictObject({
        learningRate: single.min(0).max(10),
        maxNorm: single.min(0),
        epsilon: single.positive().max(1).optional(),
      }),
      settings,
      'settings',
    );
    return this.#edit({ kind: 'setOptimiser', ...valid });
  }

  /**
   * Returns everything that the next step depends on, except model, data and options; rollbackTo
   * restores it exactly.
   */
  snapshot(): Promise<Uint8Array> {
    return settled(this.#native.state());
  }

  /**
   * Goes back to a snapshot: factors, moments, counters, ranks, generator. @throws IsoproError
   * ADAPTER_CORRUPT, ADAPTER_MISMATCH, INVALID_ARGUMENT
   */
  async rollbackTo(snapshot: Uint8Array): Promise<void> {
    await settled(this.#native.loadState(checked(bytes, snapshot, 'snapshot')));
    this.#stats = undefined; // they are of another state
    await this.#refresh();
  }

  /**
   * Writes the snapshot with the model's hash and a SHA-256 of the content, atomically.
   * @returns the SHA-256 of the snapshot, in hexadecimal
   * @throws IsoproError WRITE_FAILED; an older file is untouched
   */
  async save(file: string): Promise<string> {
    const body = Buffer.concat([MAGIC, Buffer.from(await this.modelHash(), 'hex')]);
    const state = await this.snapshot();
    const hash = await digest(state);
    await writeFileAtomically(file, [body, hash, state], 'follow');
    return hash.toString('hex');
  }

  /**
   * @throws IsoproError MODEL_NOT_FOUND, FILE_UNREADABLE, SYSTEM_LIMIT, ADAPTER_CORRUPT,
   *   ADAPTER_MISMATCH; the state is untouched
   */
  async load(file: string): Promise<void> {
    requireFile(file, 'MODEL_NOT_FOUND');
    const content = await readFile(file).catch((cause: unknown) => {
      throw unreadable(file, cause);
    });
    const at = MAGIC.length;
    if (!content.subarray(0, at).equals(MAGIC))
      throw new IsoproError('ADAPTER_CORRUPT', `${file} is not a trainer state file`);
    const state = content.subarray(at + 2 * DIGEST_BYTES);
    if (!(await digest(state)).equals(content.subarray(at + DIGEST_BYTES, at + 2 * DIGEST_BYTES))) {
      throw new IsoproError(
        'ADAPTER_CORRUPT',
        `${file} was changed or truncated: its content does not match its hash`,
      );
    }
    if (content.subarray(at, at + DIGEST_BYTES).toString('hex') !== (await this.modelHash())) {
      throw new IsoproError('ADAPTER_MISMATCH', `${file} is the trainer state of another model`);
    }
    await this.rollbackTo(state);
  }

  /**
   * Writes the adapter as GGUF, for llama.cpp.
   * @returns its SHA-256, in hexadecimal
   * @throws IsoproError WRITE_FAILED, INVALID_ARGUMENT where all weights are trained
   */
  async exportAdapter(file: string): Promise<string> {
    const bytes = await settled(this.#native.encodeAdapter(await this.modelHash()));
    await writeFileAtomically(file, [bytes], 'follow');
    return (await digest(bytes)).toString('hex');
  }

  /**
   * Writes the adapter as PEFT keeps it: a folder with adapter_model.safetensors and
   * adapter_config.json.
   * @param options.baseModel base_model_name_or_path of the configuration
   * @returns SHA-256 of adapter_model.safetensors, in hexadecimal
   * @throws IsoproError WRITE_FAILED, INVALID_ARGUMENT where all weights are trained
   */
  async exportPeft(folder: string, options: { baseModel?: string } = {}): Promise<string> {
    const { baseModel } = checked(
      z.strictObject({ baseModel: z.string().min(1).optional() }),
      options,
      'options',
    );
    const modules = await settled(this.#native.factors());
    const { invocationTokens } = this;
    return writePeft(folder, { modules, invocationTokens }, this.#shape, baseModel ?? null);
  }

  /**
   * Writes the model as it has been trained so far: all weights, or the base with the adapter
   * merged (W + s B A). Metadata and vocabulary are those of the source. Steps may go on meanwhile
   * and do not change the file.
   * @throws IsoproError WRITE_FAILED, NUMERIC_FAILURE (a value that `type` cannot hold),
   * INVALID_ARGUMENT, ABORTED; an older file is untouched
   */
  async exportModel(file: string, options: ExportModelOptions = {}): Promise<WrittenModel> {
    const { type, ...control } = checked(exportModelOptions, options, 'options');
    return writeModel(this.#addon, file, control, (native) =>
      this.#native.encodeModel(native, type),
    );
  }

  /**
   * Takes the factors of an adapter, a GGUF or a folder in PEFT's format, with fresh moments.
   * @throws IsoproError ADAPTER_CORRUPT, ADAPTER_MISMATCH, MODEL_NOT_FOUND, NUMERIC_FAILURE,
   *   INVALID_ARGUMENT; the state is untouched
   */
  async importAdapter(adapter: string): Promise<void> {
    const { modules, invocationTokens } = await readAdapterFile(adapter, this.#shape);
    const whence = (tokens: Int32Array): string =>
      tokens.length === 0 ? 'on every token' : `from its tokens ${tokens.join(', ')} on`;
    if (whence(invocationTokens) !== whence(this.invocationTokens))
      throw new IsoproError(
        'ADAPTER_MISMATCH',
        `${adapter} acts ${whence(invocationTokens)}, but the trainer's adapter acts ${whence(this.invocationTokens)}`,
      );
    await settled(this.#native.setAdapter(modules));
    await this.#refresh();
  }

  /**
   * Makes the current factors the adapter with which `model` generates. @throws IsoproError
   * WRITE_FAILED (no room for a temporary file), SYSTEM_LIMIT, OUT_OF_MEMORY
   */
  async applyTo(model: Model): Promise<Adapter> {
    await sweepAdapters();
    const name = path.join(tmpdir(), `${ADAPTER_FOLDER}${process.pid}-`);
    const folder = await mkdtemp(name).catch((cause: unknown) => {
      throw unwritable(name, cause);
    });
    try {
      // The bytes of exportAdapter; but nobody needs this file after a crash, and waiting for the
      // disk is most of a swap.
      const file = path.join(folder, 'adapter.gguf');
      const bytes = await settled(this.#native.encodeAdapter(await this.modelHash()));
      await writeFile(file, bytes).catch((cause: unknown) => {
        throw unwritable(file, cause);
      });
      const adapter = await model.loadAdapter(file);
      await model.setAdapter(adapter);
      if (this.#applied?.model === model) this.#applied.adapter.dispose();
      this.#applied = { model, adapter };
      return adapter;
    } finally {
      // swept later, as after a crash
      await rm(folder, { recursive: true, force: true }).catch(() => undefined);
    }
  }

  /**
   * Frees the buffers that a step keeps for the next one, which then allocates them again.
   * @throws IsoproError OBJECT_DISPOSED
   */
  releaseBuffers(): Promise<void> {
    return settled(this.#native.releaseBuffers());
  }

  /** Cancels running calls and frees everything. Safe to call repeatedly. */
  dispose(): Promise<void> {
    this.#disposal ??= settled(this.#native.dispose());
    return this.#disposal;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  async #edit(edit: Parameters<NativeTrainer['edit']>[0]): Promise<void> {
    await settled(this.#native.edit(edit));
    await this.#refresh();
  }

  /**
   * After a change that is made: where the memory to describe it is refused, the next change
   * describes both.
   */
  async #refresh(): Promise<void> {
    this.#info = await settled(this.#native.information()).catch((error: IsoproError) => {
      if (error.code === 'OUT_OF_MEMORY') return this.#info;
      throw error;
    });
  }

  async #sequences(batch: readonly TrainSequence[]): Promise<z.output<typeof trainSequences>> {
    const sequences = checked(trainSequences, batch, 'batch');
    if (sequences.some((sequence) => sequence.boundary !== undefined)) {
      const hash = await this.modelHash();
      const other = sequences.findIndex(
        (sequence) => sequence.boundary !== undefined && sequence.boundary.modelHash !== hash,
      );
      if (other >= 0)
        throw new IsoproError(
          'ADAPTER_MISMATCH',
          `batch.${other}.boundary was captured from another model`,
        );
    }
    return sequences;
  }
}

const ADAPTER_FOLDER = 'isopro-adapter-';
/**
 * Process ids are counted anew in a container, which may share the folder: what is that old is
 * nobody's any more, since an adapter is loaded at once.
 */
const ADAPTER_FOLDER_MS = 60_000;

/** Removes adapters that a killed process was about to load. */
async function sweepAdapters(): Promise<void> {
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    const pid = name.startsWith(ADAPTER_FOLDER)
      ? /^(\d+)-/.exec(name.slice(ADAPTER_FOLDER.length))?.[1]
      : undefined;
    if (pid === undefined || !hasEnded(Number(pid))) continue;
    const folder = path.join(tmpdir(), name);
    const made = await stat(folder).catch(() => null);
    if (made !== null && Date.now() - made.mtimeMs > ADAPTER_FOLDER_MS)
      await rm(folder, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function digest(bytes: Uint8Array): Promise<Buffer> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>));
}

function nativeObjective(
  objective: z.output<typeof objectiveSchema>,
): Parameters<NativeTrainer['step']>[1] {
  return objective.kind === 'policy'
    ? {
        policy: true,
        temperature: objective.temperature,
        clipLow: objective.clipLow,
        clipHigh: objective.clipHigh,
        klCoefficient: objective.klCoefficient,
      }
    : { policy: false, temperature: 1, clipLow: 0, clipHigh: 0, klCoefficient: 0 };
}
