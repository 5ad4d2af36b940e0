/**
 * A caller's hold on a model that a host has loaded: asks its running batch, alone or with others.
 */
import path from 'node:path';
import { z } from 'zod';
import { offAbort, onAbort } from '../abort.js';
import { invocationTokensIn } from '../engine/adapter-files.js';
import { requireAdapter } from '../engine/adapter.js';
import type { NativeModelInfo } from '../engine/addon.js';
import { abortSignal, checked } from '../engine/argument-check.js';
import { checkBatchRequest } from '../engine/generate-request.js';
import type { Embeddings } from '../engine/embedding.js';
import type { TokenIds } from '../engine/generate-request.js';
import { inspectModel } from '../engine/inspect.js';
import type { MessageInput } from '../engine/messages.js';
import type { Model, TokenAlternatives } from '../engine/model.js';
import type { RenderedPrompt } from '../engine/prompt-renderer.js';
import type { RunningBatch } from '../engine/running-batch.js';
import { abortError, IsoproError } from '../errors.js';
import { fileIdentity } from './file-identity.js';
import type { HostReply, HostRequest, TokenEvent } from './host-request.js';
import { HostedAdapter, type LoadedAdapter } from './hosted-adapter.js';
import type { MemoryBudget } from './memory-budget.js';
import type { Held, SharedValues } from './shared-values.js';
import { grammarOf, objectOf, type ObjectReply, type ObjectRequest } from './structured-reply.js';

/** State that the handles of one model share. */
export interface LoadedModel {
  readonly model: Model;
  readonly batch: RunningBatch;
  readonly bytes: number;
  readonly budget: MemoryBudget;
  readonly adapters: SharedValues<LoadedAdapter>;
  /** Replies that run or wait. */
  requests: number;
  /** The last of the calls that are made with the model's own adapter, one after the other. */
  scoring: Promise<unknown>;
  readonly giveBack: () => void;
}

const WHEN_FULL = ['refuse', 'wait'] as const;
/** Behaviour if the host is out of memory: refuse with OUT_OF_MEMORY, or wait for memory. */
export type WhenFull = (typeof WHEN_FULL)[number];
export const whenFull = z.enum(WHEN_FULL).default('refuse');
const hostedAdapter = z
  .instanceof(HostedAdapter, { error: 'expected an adapter from HostedModel.loadAdapter, or null' })
  .nullable()
  .default(null);
const embedOptions = z.strictObject({
  /** Adapter that was loaded onto the same model. Default null: the bare base model. */
  adapter: hostedAdapter,
  signal: abortSignal.optional(),
});
export type HostEmbedOptions = z.input<typeof embedOptions>;
const adapterOptions = z.strictObject({
  /** What to do if memory is short. Default 'refuse'. */
  whenFull,
  /**
   * Evaluate a few tokens with the adapter, so that one that gives non-finite logits is refused now
   * instead of at the first request.
   */
  probe: z.boolean().default(false),
  signal: abortSignal.optional(),
});
export type HostAdapterOptions = z.input<typeof adapterOptions>;

/**
 * What an adapter takes: llama.cpp's tensors, of the file's types, and all of their numbers as f32
 * for rows that share a call.
 */
async function bytesOf(adapter: string): Promise<number> {
  try {
    const { types, parameters } = await inspectModel(adapter);
    return types.reduce((sum, { bytes }) => sum + bytes, 4 * parameters);
  } catch {
    return 0; // whoever loads it says what is wrong with it
  }
}

/** Not ABORTED, so that who asks can tell it from a caller that left. */
const goneError = (cause?: unknown): IsoproError =>
  new IsoproError('OBJECT_DISPOSED', 'the model was disposed while the request was running', {
    cause,
  });

/** Tokens that every vocabulary has. */
const PROBE = Int32Array.from({ length: 8 }, (_, id) => id);

export class HostedModel {
  readonly path: string;
  readonly info: Readonly<NativeModelInfo>;
  readonly #held: Held<LoadedModel>;
  readonly #adapters = new Set<HostedAdapter>();
  /** Ends a reply; resolves when the batch has let go of it. */
  readonly #running = new Set<() => Promise<void>>();
  readonly #onDispose: (model: HostedModel) => void;
  #disposal: Promise<void> | undefined;
  /** Before `#disposal` is there: replies are ended first. */
  #disposed = false;

  /** @internal Use ModelHost.load. */
  constructor(held: Held<LoadedModel>, onDispose: (model: HostedModel) => void) {
    this.#held = held;
    this.#onDispose = onDispose;
    this.path = held.value.model.path;
    this.info = held.value.model.info;
  }

  /** Returns the SHA-256 of the file in hexadecimal; see Model.hash. */
  hash(): Promise<string> {
    return this.#loaded().model.hash();
  }

  /** Id of the renderer; see Model.rendererId. */
  get rendererId(): string {
    return this.#loaded().model.rendererId;
  }

  /** Earlier id of the renderer; see Model.formerRendererId. */
  get formerRendererId(): string | null {
    return this.#loaded().model.formerRendererId;
  }

  /** Support for system messages; see Model.takesSystem. */
  get takesSystem(): boolean {
    return this.#loaded().model.takesSystem;
  }

  /** Tokens for infilling; see Model.infillTokens. */
  get infillTokens(): Model['infillTokens'] {
    return this.#loaded().model.infillTokens;
  }

  /** Maximum number of tokens of a prompt and its reply together. */
  get contextTokens(): number {
    return Math.min(this.#loaded().model.contextTokens, this.info.trainedContext);
  }

  /** Tokenizes a text; see Model.tokenize. @throws IsoproError INVALID_ARGUMENT, OBJECT_DISPOSED */
  tokenize(text: string, options: { parseControl?: boolean } = {}): Int32Array {
    return this.#loaded().model.tokenize(text, options);
  }

  /**
   * Decodes token ids; see Model.detokenize.
   * @throws IsoproError INVALID_ARGUMENT, OBJECT_DISPOSED
   */
  detokenize(ids: TokenIds, options: { withControl?: boolean } = {}): string {
    return this.#loaded().model.detokenize(ids, options);
  }

  /**
   * Returns a token's bytes; see Model.bytesOf.
   * @throws IsoproError INVALID_ARGUMENT, OBJECT_DISPOSED
   */
  bytesOf(id: number): Uint8Array {
    return this.#loaded().model.bytesOf(id);
  }

  /**
   * Renders messages as `generate` does.
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT, OBJECT_DISPOSED
   */
  renderChat(
    messages: readonly MessageInput[],
    options: { addGenerationPrompt?: boolean } = {},
  ): RenderedPrompt {
    return this.#loaded().model.renderChat(messages, options);
  }

  /**
   * Tokenizes a prompt on another thread; see Model.promptIdsAside.
   * @throws IsoproError as there
   */
  promptIdsAside(...prompt: Parameters<Model['promptIdsAside']>): Promise<Int32Array> {
    return this.#loaded().model.promptIdsAside(...prompt);
  }

  /**
   * Loads a LoRA adapter in GGUF onto the model, or shares it where it is loaded; a file that was
   * replaced is another adapter.
   * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH, OUT_OF_MEMORY,
   *   OBJECT_DISPOSED, ABORTED; with `probe` NUMERIC_FAILURE
   */
  async loadAdapter(file: string, options: HostAdapterOptions = {}): Promise<HostedAdapter> {
    const { model, adapters, budget } = this.#loaded();
    requireAdapter(file);
    const { whenFull: full, probe, signal } = checked(adapterOptions, options, 'options');
    const held = await adapters.hold(
      (await fileIdentity(file)).key,
      {
        open: async (abandoned) => {
          const what = `the adapter ${path.basename(file)}`;
          const bytes = await bytesOf(file);
          const wait = full === 'wait';
          const giveBack = await budget.take(bytes, { what, wait, signal: abandoned });
          try {
            return { adapter: await model.loadAdapter(file), bytes, giveBack };
          } catch (error) {
            giveBack();
            throw error;
          }
        },
        close: async ({ adapter, giveBack }) => {
          adapter.dispose();
          giveBack();
        },
      },
      signal,
    );
    const adapter = new HostedAdapter(held, (disposed) => this.#adapters.delete(disposed));
    if (this.#disposal !== undefined) {
      await adapter.dispose();
      throw new IsoproError('OBJECT_DISPOSED', 'the model has been disposed');
    }
    this.#adapters.add(adapter);
    if (!probe) return adapter;
    try {
      // without its invocation tokens it would not act
      const prefix = [...PROBE, ...(await invocationTokensIn(file))];
      await this.score(prefix, [PROBE], { adapter, signal });
      return adapter;
    } catch (error) {
      await adapter.dispose();
      throw error;
    }
  }

  /**
   * The reply to one prompt. It joins whatever runs on the model as soon as there is room, first
   * come, first served; an abort ends it at once.
   * @throws IsoproError INVALID_ARGUMENT, CONTEXT_OVERFLOW, GRAMMAR_INVALID, TEMPLATE_INVALID,
   *   NUMERIC_FAILURE, ADAPTER_MISMATCH, OUT_OF_MEMORY, OBJECT_DISPOSED, ABORTED
   */
  async generate(request: HostRequest): Promise<HostReply> {
    return this.#ask(request);
  }

  /**
   * As `generate`, with each token as it is sampled; leaving the iteration early ends the reply.
   * @throws IsoproError as `generate`
   */
  async *stream(request: HostRequest): AsyncGenerator<TokenEvent, HostReply, undefined> {
    const left = new AbortController();
    const tokens: TokenEvent[] = [];
    let wake = (): void => {};
    let ended = false;
    const reply = this.#ask(
      request,
      (token) => {
        tokens.push(token);
        wake();
      },
      left.signal,
    );
    const end = (): void => {
      ended = true;
      wake();
    };
    reply.then(end, end);
    try {
      for (;;) {
        for (let token = tokens.shift(); token !== undefined; token = tokens.shift()) yield token;
        if (ended) return await reply;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      if (!ended) left.abort();
    }
  }

  /**
   * A value of a zod schema: the reply follows the schema's grammar, and what the schema makes of
   * it comes back. What a grammar cannot keep is refused by name (docs/commands/generate.md);
   * refinements and transforms are the schema's own.
   * @throws IsoproError as `generate`, REPLY_INVALID
   */
  async generateObject<Schema extends z.ZodType>(
    request: ObjectRequest<Schema>,
  ): Promise<ObjectReply<Schema>> {
    const { schema, ...rest } = Object(request) as ObjectRequest<Schema>;
    const reply = await this.#ask({ ...rest, grammar: grammarOf(schema) });
    return { object: await objectOf(schema, reply), reply };
  }

  /**
   * Natural log-probability of each token of each continuation after the prefix, as `Model.score`;
   * replies go on between two calls. Its context is one beside that of the replies.
   * @throws IsoproError as `Model.score`, ADAPTER_MISMATCH
   */
  async score(
    prefix: TokenIds,
    continuations: readonly TokenIds[],
    options: HostEmbedOptions = {},
  ): Promise<Float32Array[]> {
    const { adapter, signal } = checked(embedOptions, options, 'options');
    return this.#scored(adapter, signal, (model, ended) =>
      model.score(prefix, continuations, { signal: ended }),
    );
  }

  /**
   * Returns likely alternatives; see Model.alternatives. Runs like `score`.
   * @throws IsoproError as `score`
   */
  async alternatives(
    ids: TokenIds,
    options: HostEmbedOptions & { count: number },
  ): Promise<TokenAlternatives[]> {
    const { count, ...rest } = options;
    const { adapter, signal } = checked(embedOptions, rest, 'options');
    return this.#scored(adapter, signal, (model, ended) =>
      model.alternatives(ids, { count, signal: ended }),
    );
  }

  async #scored<T>(
    adapter: HostedAdapter | null,
    signal: AbortSignal | undefined,
    score: (model: Model, ended: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const loaded = this.#loaded();
    const applied = adapter?.adapter() ?? null;
    return this.#during(signal, (ended) => {
      const { model } = loaded;
      const held = applied?.again() ?? null; // until its turn has come and gone
      // Scores are those of the model's own adapter, which nothing else here goes by.
      const scores = loaded.scoring.then(async () => {
        try {
          await model.setAdapter(held);
          return await score(model, ended);
        } finally {
          // gone with the model
          if (held !== null) await model.setAdapter(null).catch(() => undefined);
          held?.dispose();
        }
      });
      loaded.scoring = scores.catch(() => undefined);
      return scores;
    });
  }

  /**
   * As `Model.embed`; replies go on between two texts. Its context is one beside that of the
   * replies, as long as the longest text.
   * @throws IsoproError as `Model.embed`
   */
  async embed(
    texts: readonly (string | TokenIds)[],
    options: HostEmbedOptions = {},
  ): Promise<Embeddings> {
    const { model } = this.#loaded();
    const { adapter, signal } = checked(embedOptions, options, 'options');
    return this.#during(signal, (ended) =>
      model.embed(texts, { adapter: adapter?.adapter() ?? null, signal: ended }),
    );
  }

  /**
   * Ends this handle's replies with OBJECT_DISPOSED and lets go of its adapters and the model,
   * which goes with its last handle.
   */
  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  async #dispose(): Promise<void> {
    this.#disposed = true;
    this.#onDispose(this);
    await Promise.all([...this.#running].map((end) => end()));
    await Promise.all([...this.#adapters].map((adapter) => adapter.dispose()));
    await this.#held.release();
  }

  /** Runs a call that ends with the signal or with this handle. */
  async #during<T>(
    signal: AbortSignal | undefined,
    call: (ended: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ended = new AbortController();
    const abort = (): void => ended.abort(signal?.reason);
    if (signal?.aborted === true) abort();
    onAbort(signal, abort);
    const result = call(ended.signal);
    this.#track(result, () => ended.abort());
    try {
      return await result;
    } catch (error) {
      const isCaller =
        signal?.aborted === true || !(error instanceof IsoproError && error.code === 'ABORTED');
      throw this.#disposed && !isCaller ? goneError(error) : error;
    } finally {
      offAbort(signal, abort);
    }
  }

  /** Counts work as running until it has ended. @param abort ends it */
  #track(work: Promise<unknown>, abort: () => void): void {
    const loaded = this.#loaded();
    const ended = work.then(
      () => undefined,
      () => undefined,
    );
    const end = (): Promise<void> => {
      abort();
      return ended;
    };
    this.#running.add(end);
    loaded.requests++;
    void ended.then(() => {
      this.#running.delete(end);
      loaded.requests--;
    });
  }

  #loaded(): LoadedModel {
    if (this.#disposal !== undefined)
      throw new IsoproError('OBJECT_DISPOSED', 'the model has been disposed');
    return this.#held.value;
  }

  async #ask(
    request: HostRequest,
    onToken?: (token: TokenEvent) => void,
    left?: AbortSignal,
  ): Promise<HostReply> {
    const loaded = this.#loaded();
    const { adapter, ...plain } = Object(request) as HostRequest;
    const valid = checkBatchRequest(typeof request === 'object' ? plain : request);
    const applied = checked(hostedAdapter, adapter, 'request.adapter')?.adapter() ?? null;
    const signals = [valid.signal, left].filter((signal) => signal !== undefined);
    const cancelled = signals.find(({ aborted }) => aborted);
    if (cancelled !== undefined)
      throw abortError('the request was cancelled before it started', cancelled);

    const { reply, cancel } = loaded.batch.start(valid, applied, onToken);
    // At once for the caller, whatever step the batch is in.
    let abort = (): void => {};
    const aborted = new Promise<never>((_, reject) => {
      abort = () => {
        cancel();
        const signal = signals.find(({ aborted: ended }) => ended);
        reject(
          signal === undefined ? goneError() : abortError('the request was cancelled', signal),
        );
      };
    });
    this.#track(reply, abort);
    for (const signal of signals) onAbort(signal, abort);
    try {
      return await Promise.race([reply, aborted]);
    } finally {
      for (const signal of signals) offAbort(signal, abort);
    }
  }
}
