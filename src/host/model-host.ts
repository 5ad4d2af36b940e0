/**
 * One place that loads models for several users in one process, shares them, counts who holds them
 * and keeps to a limit of memory.
 */
import { totalmem } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { inspectModel } from '../engine/inspect.js';
import { batchStateBytes, estimateMemory } from '../engine/memory-estimate.js';
import { resolveModel } from '../engine/model-files.js';
import { loadModel, loadOptions, MOST_CELLS, type KvType } from '../engine/model.js';
import { checked } from '../engine/argument-check.js';
import { IsoproError } from '../errors.js';
import { fileIdentity } from './file-identity.js';
import { HostedModel, whenFull, type LoadedModel } from './hosted-model.js';
import { MemoryBudget } from './memory-budget.js';
import { SharedValues, type Held } from './shared-values.js';

export interface HostUsage {
  readonly memoryBytes: number;
  /** Memory reserved for models and adapters that are loaded or loading. */
  readonly usedBytes: number;
  /** Number of loads that wait for memory. */
  readonly waiting: number;
  readonly models: readonly {
    readonly path: string;
    readonly bytes: number;
    /** Number of handles. */
    readonly references: number;
    /** Number of replies that run or wait. */
    readonly requests: number;
    readonly adapters: readonly {
      readonly path: string;
      readonly id: string;
      readonly bytes: number;
      readonly references: number;
    }[];
  }[];
}

const GIBIBYTE = 2 ** 30;
/** Bytes of a cached value against those of f16. */
const KV_BYTES: Readonly<Record<KvType, number>> = { f32: 2, f16: 1, bf16: 1, q8_0: 34 / 64 };

/** Default number of replies of a model that run at once. */
export const DEFAULT_SEQUENCES = 64;

const hostOptions = z.strictObject({
  /**
   * Maximum memory of the host's models and adapters in bytes: their files and KV caches. Default:
   * three quarters of the machine's memory, or of the process's limit.
   */
  memoryBytes: z.int().min(1).optional(),
});
export type ModelHostOptions = z.input<typeof hostOptions>;

const hostLoadOptions = loadOptions.extend({
  /**
   * Number of tokens in the KV cache, over all running replies and kept prefixes. Default: what
   * fits into 1 GiB, 4,096 to 16,384.
   */
  contextTokens: loadOptions.shape.contextTokens,
  /** Number of replies that run at once; the others wait. Default 64, maximum 253. */
  maxSequences: z.int().min(1).max(253).default(DEFAULT_SEQUENCES),
  /**
   * Tokens of finished prompts and replies that stay in the cache, used longest ago first to go: a
   * prompt that begins like one of them is evaluated from where they part. At most 16 replies are
   * kept. Default 0: short replies then have a cache each, where otherwise every row's attention
   * walks those of all, which a small model notices and long common beginnings win back many times
   * over (dev/log.md).
   */
  prefixTokens: z.int().min(0).max(MOST_CELLS).default(0),
  /**
   * What to do if memory is short. Default 'refuse'. A load of a model that another load waits for
   * waits too. A model larger than the host's memory is always refused.
   */
  whenFull,
});
/**
 * Options of ModelHost.load. Handles share a model if the file and all settings except `whenFull`,
 * `signal` and the callbacks are equal.
 */
export type HostLoadOptions = z.input<typeof hostLoadOptions>;
type CheckedLoad = z.output<typeof hostLoadOptions>;

function physicalBytes(): number {
  const confined = process.constrainedMemory();
  return Math.min(totalmem(), confined > 0 ? confined : Infinity);
}

export class ModelHost {
  readonly #budget: MemoryBudget;
  readonly #models = new SharedValues<LoadedModel>();
  readonly #handles = new Set<HostedModel>();
  readonly #disposing = new AbortController();
  #disposal: Promise<void> | undefined;

  /** @throws IsoproError INVALID_ARGUMENT */
  constructor(options: ModelHostOptions = {}) {
    const { memoryBytes } = checked(hostOptions, options, 'options');
    this.#budget = new MemoryBudget(memoryBytes ?? Math.floor(0.75 * physicalBytes()));
  }

  /**
   * A handle on a model: a GGUF file, an alias or a URI. What another handle has loaded from the
   * same file with the same settings is shared.
   * @throws IsoproError as `loadModel`, and OUT_OF_MEMORY where the host has no room,
   *   OBJECT_DISPOSED
   */
  async load(pathOrAlias: string, options: HostLoadOptions = {}): Promise<HostedModel> {
    checked(z.string().min(1), pathOrAlias, 'pathOrAlias');
    const valid = checked(hostLoadOptions, options, 'options');
    this.#requireOpen();
    const signals = [this.#disposing.signal, valid.signal].filter((signal) => signal !== undefined);
    try {
      const handle = new HostedModel(
        await this.#hold(pathOrAlias, valid, AbortSignal.any(signals)),
        (model) => this.#handles.delete(model),
      );
      this.#handles.add(handle);
      if (this.#disposal !== undefined) await handle.dispose();
      this.#requireOpen();
      return handle;
    } catch (error) {
      this.#requireOpen();
      throw error;
    }
  }

  usage(): HostUsage {
    return {
      memoryBytes: this.#budget.bytes,
      usedBytes: this.#budget.used,
      waiting: this.#budget.waiting,
      models: this.#models
        .values()
        .map(({ value: { model, bytes, requests, adapters }, references }) => ({
          path: model.path,
          bytes,
          references,
          requests,
          adapters: adapters.values().map(({ value, references: count }) => ({
            path: value.adapter.path,
            id: value.adapter.id,
            bytes: value.bytes,
            references: count,
          })),
        })),
    };
  }

  /**
   * Disposes of every handle and ends the loads that are under way with OBJECT_DISPOSED; harmless
   * when repeated.
   */
  dispose(): Promise<void> {
    this.#disposal ??= (async () => {
      this.#disposing.abort();
      await Promise.all([...this.#handles].map((handle) => handle.dispose()));
    })();
    return this.#disposal;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  #requireOpen(): void {
    if (this.#disposal !== undefined)
      throw new IsoproError('OBJECT_DISPOSED', 'the host has been disposed');
  }

  async #hold(
    pathOrAlias: string,
    options: CheckedLoad,
    cancelled: AbortSignal,
  ): Promise<Held<LoadedModel>> {
    // what is left tells two loads apart
    const { signal, whenFull: full, onProgress, onDownload, ...settings } = options;
    const { path: file } = await resolveModel(pathOrAlias, {
      signal: cancelled,
      onProgress: onDownload,
    });
    return this.#models.hold(
      JSON.stringify([(await fileIdentity(file)).key, settings]),
      {
        open: (abandoned) => this.#open(file, options, abandoned),
        close: async ({ model, giveBack }) => {
          await model.dispose();
          giveBack();
        },
      },
      cancelled,
    );
  }

  async #open(file: string, options: CheckedLoad, signal: AbortSignal): Promise<LoadedModel> {
    const { whenFull: full, maxSequences, prefixTokens, ...settings } = options;
    const inspection = await inspectModel(file);
    const written = inspection.metadata['isopro.kv_cache_type'];
    const type = settings.kvType ?? (settings.matmul === 'ggml' ? written : inspection.kvType);
    const perValue = KV_BYTES[(type ?? 'f16') as KvType] ?? 1;
    // Null for what is no model, which loadModel refuses with its reason.
    const one = await estimateMemory(file, inspection, 1);
    const perToken = Math.max(1, (one?.kvBytesPerToken ?? 1) * perValue);
    const contextTokens =
      options.contextTokens ?? Math.min(16_384, Math.max(4096, Math.floor(GIBIBYTE / perToken)));
    const bytes =
      one === null
        ? 0
        : Math.ceil(
            one.weightsBytes +
              perToken * contextTokens +
              batchStateBytes(one.stateBytes, maxSequences),
          );
    const giveBack = await this.#budget.take(bytes, {
      what: path.basename(file),
      wait: full === 'wait',
      signal,
    });
    try {
      const model = await loadModel(file, { ...settings, contextTokens, signal });
      const batch = await model
        .openBatch({ contextTokens, maxSequences, prefixTokens })
        .catch(async (error: unknown) => {
          await model.dispose();
          throw error;
        });
      return {
        model,
        batch,
        bytes,
        budget: this.#budget,
        adapters: new SharedValues(),
        requests: 0,
        scoring: Promise.resolve(),
        giveBack,
      };
    } catch (error) {
      giveBack();
      throw error;
    }
  }
}
