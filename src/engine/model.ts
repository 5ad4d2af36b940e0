/**
 * A loaded model: sampling in batches, scoring, hidden states, adapters, prompts. All computing
 * happens in C++.
 */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { deriveSeed } from '../random.js';
import { Adapter, hashFile, requireAdapter } from './adapter.js';
import {
  cancellable,
  loadAddon,
  MATMULS,
  settled,
  typed,
  type Addon,
  type BranchScores,
  type GenerationProgress,
  type NativeModel,
  type NativeModelInfo,
  type NativeScores,
  type TokenChance,
  type OperationTime,
} from './addon.js';
import { bounded } from './bounded-list.js';
import { nativeBranches, type Branch } from './branches.js';
import { abortSignal, callback, checked } from './argument-check.js';
import { withContextRemedy, type ContextLimits } from './context-overflow.js';
import { embedEach, type EmbedOptions, type Embeddings } from './embedding.js';
import {
  checkRequest,
  tokenIds,
  type GenerateRequest,
  type PromptContent,
  type TokenIds,
} from './generate-request.js';
import { runGeneration, type Rollout } from './generation.js';
import { infillTokens, type InfillTokens } from './infill.js';
import { chatMessage, chatMessages, type MessageInput } from './messages.js';
import { resolveModel, type DownloadProgress } from './model-files.js';
import { requireTrial } from './model-trial.js';
import { single } from './single-precision.js';
import { RunningBatch, type BatchSettings } from './running-batch.js';
import {
  joined,
  PromptRenderer,
  type RenderedPrompt,
  type TemplateVariables,
} from './prompt-renderer.js';

const KV_TYPES = ['f32', 'f16', 'bf16', 'q8_0'] as const;
export type KvType = (typeof KV_TYPES)[number];

/** Log-probability and rank of a token at its position, with the most likely alternatives. */
export interface TokenAlternatives extends TokenChance {
  /** Number of tokens that are at least as likely, this one included: 1 for the most likely. */
  readonly rank: number;
  /** The most likely ones, most likely first. */
  readonly top: readonly TokenChance[];
}

export interface HiddenRows {
  readonly layer: number;
  /** f16 bits, [tokens, d_model]. */
  readonly rows: Uint16Array;
}

/**
 * Means over tokens of the Euclidean norms of a layer's output, of its input, and of their
 * difference.
 */
export interface HiddenNorms {
  readonly layer: number;
  readonly out: number;
  readonly in: number;
  readonly update: number;
}

const GIBIBYTE = 2 ** 30;

/** Tokens of a KV cache, at most. */
export const MOST_CELLS = 2 ** 26;

export const loadOptions = z.strictObject({
  /** Number of threads for decoding and sampling. Default: the physical cores. */
  threads: z.int().min(1).max(1024).optional(),
  /**
   * Results of this many threads. By default fewer compute while other processes hold the cores,
   * which for a request of one sample changes floating-point results and thus, rarely, a sampled
   * token. Fixed, fewer compute where that changes no bit: in calls of several rows, on x86.
   * Default false.
   */
  fixedThreads: z.boolean().default(false),
  /** Number of layers on the GPU. Default: all on Apple silicon, none elsewhere. */
  gpuLayers: z.int().min(0).max(100_000).optional(),
  /**
   * Maximum number of tokens in the KV cache over all live sequences, allocated as requests need
   * it. Default: what fits into 1 GiB, at least 4096.
   */
  contextTokens: z.int().min(1).max(MOST_CELLS).optional(),
  /**
   * Type of the cached keys and values. Default: f16 where attention is our own, otherwise the
   * file's `isopro.kv_cache_type`, otherwise f16. With ggml's attention, q8_0 takes half the
   * memory, and with heads of less than 64 values, for which its f16 has no vector code, half the
   * time (dev/log.md). f32 takes twice the memory and is slower; llama.cpp's flash attention rounds
   * it to f16 all the same.
   */
  kvType: z.enum(KV_TYPES).optional(),
  /**
   * Whose kernels multiply rows with the weights: llama.cpp's, or on x86 with AVX2 ours, for
   * matrices of Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_XS and MXFP4. Ours take a half to
   * four fifths of their processor time off where several rows share a call
   * (native/kernels/block_product.h). On processors with AMX it is a third, and a file that has
   * other quantised formats too is llama.cpp's there. Both round
   * activations to eight bits; they sum in another order, and the layers make of that some
   * hundredths of a nat a token. Replies, the running batch, `score`, branches, hidden states and
   * embeddings of one loaded model all go the same way, so that they agree with each other. 'own'
   * is refused where nothing of the file is ours, 'auto' takes what there is and `info.matmul` says
   * what that was. Default 'ggml'.
   */
  matmul: z.enum(MATMULS).default('ggml'),
  signal: abortSignal.optional(),
  /** Called with the loaded fraction in [0, 1]. */
  onProgress: callback<(fraction: number) => void>().optional(),
  /** Called while the file is downloaded. */
  onDownload: callback<(progress: DownloadProgress) => void>().optional(),
});
export type LoadModelOptions = z.input<typeof loadOptions>;

const alternativesOptions = z.strictObject({
  count: z.int().min(0).max(20),
  signal: abortSignal.optional(),
});

const hiddenRequest = z.strictObject({
  tokens: tokenIds,
  layers: tokenIds,
  reduce: z.enum(['rows', 'norms']),
  signal: abortSignal.optional(),
});
export type HiddenRequest = Omit<z.input<typeof hiddenRequest>, 'reduce'>;

/**
 * Loads a model: a GGUF file, an alias or a URI; what is not in the cache is downloaded first.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_DOWNLOAD_FAILED, MODEL_CORRUPT, MODEL_UNSUPPORTED,
 *   ARCH_UNSUPPORTED, OUT_OF_MEMORY, ABORTED
 */
export async function loadModel(
  pathOrAlias: string,
  options: LoadModelOptions = {},
): Promise<Model> {
  checked(z.string().min(1), pathOrAlias, 'pathOrAlias');
  const valid = checked(loadOptions, options, 'options');
  const { signal, onDownload, onProgress } = valid;
  const { addon } = loadAddon();
  const { path } = await resolveModel(pathOrAlias, { signal, onProgress: onDownload });
  await requireTrial(path, signal);
  const allLayers = process.platform === 'darwin' && process.arch === 'arm64' ? 100_000 : 0;
  const native = typed(() => new addon.NativeModel());
  // A callback that throws ends the loading, and what it threw arrives at the caller.
  let thrown: { readonly error: unknown } | undefined;
  await cancellable(addon, signal, (cancellation) =>
    native.load(
      {
        path,
        threads: valid.threads ?? 0,
        fixedThreads: valid.fixedThreads,
        gpuLayers: valid.gpuLayers ?? allLayers,
        kvType: valid.kvType ?? '',
        matmul: valid.matmul,
      },
      cancellation,
      (fraction) => {
        try {
          if (thrown === undefined) onProgress?.(fraction);
        } catch (error) {
          thrown = { error };
          cancellation.cancel();
        }
      },
    ),
  ).catch((error: unknown) => {
    thrown ??= { error };
  });
  if (thrown !== undefined) {
    await native.dispose().catch(() => undefined); // which needs a thread too
    throw thrown.error;
  }
  const given = typed(() => native.info());
  const info = { ...given, ends: [...given.ends] }; // a list, which JSON writes as one
  const fitting = Math.min(
    MOST_CELLS,
    Math.max(4096, Math.floor(GIBIBYTE / Math.max(1, info.kvBytesPerToken))),
  );
  return new Model(addon, native, path, info, valid.contextTokens ?? fitting);
}

export class Model {
  readonly path: string;
  readonly info: Readonly<NativeModelInfo>;
  /** Tokens of KV cache that all live sequences may use together. */
  readonly contextTokens: number;
  /** For a text between two others; null: the vocabulary has no such tokens. */
  readonly infillTokens: InfillTokens | null;
  readonly #addon: Addon;
  readonly #native: NativeModel;
  readonly #renderer: PromptRenderer;
  /** What llama.cpp takes for the end of a turn. */
  readonly #eotOfFile: number;
  #adapter: Adapter | null = null;
  #hash: Promise<string> | undefined;
  #disposal: Promise<void> | undefined;

  /** @internal Use loadModel. */
  constructor(
    addon: Addon,
    native: NativeModel,
    path: string,
    info: NativeModelInfo,
    contextTokens: number,
  ) {
    this.#addon = addon;
    this.#native = native;
    this.path = path;
    this.contextTokens = contextTokens;
    const controlTokens = typed(() => native.controlTokens());
    this.infillTokens = infillTokens(controlTokens);
    this.#renderer = new PromptRenderer({
      chatTemplate: info.chatTemplate,
      controlTokens,
      bos: info.bos,
      eos: info.eos,
      ends: info.ends,
      addBos: info.addBos,
      tokenize: (text) => native.tokenize(text, false),
      isInjective: typed(() => native.tokenizesInjectively()),
    });
    // llama.cpp takes some token with one of the usual names, and that may be one which the
    // template never writes
    this.#eotOfFile = info.eot;
    this.info = {
      ...info,
      eot: this.#renderer.endOfReply() ?? (info.eos >= 0 ? info.eos : info.eot),
    };
  }

  /**
   * SHA-256 of the model file, in hexadecimal; computed once, on first use.
   * @throws IsoproError FILE_UNREADABLE, SYSTEM_LIMIT
   */
  hash(): Promise<string> {
    return (this.#hash ??= hashFile(this.path).catch((error: unknown) => {
      this.#hash = undefined;
      throw error;
    }));
  }

  /** SHA-256 of the adapter that is the model's own; null: the bare base. */
  get adapterId(): string | null {
    return this.#adapter?.id ?? null;
  }

  /** Id of the prompt template and its renderer. */
  get rendererId(): string {
    return this.#renderer.rendererId;
  }

  /**
   * The id that the template had before the renderer was corrected; null where it has that one
   * still.
   */
  get formerRendererId(): string | null {
    return this.#renderer.formerId;
  }

  /**
   * The token that ends an answer: what the renderer writes after a reply, or the end of a text
   * where it writes none.
   */
  get endOfAnswer(): number {
    const { eot, eos } = this.info;
    return eot >= 0 ? eot : eos;
  }

  /**
   * The token that ended an answer until it was the one that the renderer writes: a guess between
   * the two that the file names. Trainings that were interrupted then have learned it.
   */
  get formerEndOfAnswer(): number {
    const { chatTemplate, eos } = this.info;
    const eot = this.#eotOfFile;
    const isWritten = (id: number): boolean => {
      const text = id < 0 ? '' : this.detokenize(Int32Array.of(id), { withControl: true });
      return text !== '' && chatTemplate.includes(text);
    };
    const end = !isWritten(eot) && isWritten(eos) ? eos : eot;
    return end >= 0 ? end : eos;
  }

  /**
   * @internal Whether the chat template writes a system message, and does not refuse it or leave it
   *   out.
   */
  get takesSystem(): boolean {
    return this.#renderer.takesSystem;
  }

  /** @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT */
  renderChat(
    messages: readonly MessageInput[],
    options: { addGenerationPrompt?: boolean } = {},
  ): RenderedPrompt {
    const valid = checked(chatMessages, messages, 'messages');
    return this.#run(() => this.#renderer.render(valid, options.addGenerationPrompt ?? true));
  }

  /** Many at once, in less time than one after the other. @throws as renderChat */
  renderChats(
    conversations: readonly (readonly MessageInput[])[],
    options: { addGenerationPrompt?: boolean } = {},
  ): RenderedPrompt[] {
    const valid = checked(bounded(z.array(chatMessages)), conversations, 'conversations');
    return this.#run(() => this.#renderer.renderAll(valid, options.addGenerationPrompt ?? true));
  }

  /**
   * The tokens that every rendered prompt ends with, where the assistant's answer begins: the
   * invocation tokens of an adapter that acts from the reply on. Empty where the chat template
   * writes none.
   * @throws IsoproError TEMPLATE_INVALID
   */
  generationPrompt(): Int32Array {
    return this.#run(() => this.#renderer.generationPrompt());
  }

  /**
   * @internal Equal for two prompts exactly where their tokens are, in less time than these take.
   * @throws as renderChat
   */
  promptIdentities(conversations: readonly (readonly MessageInput[])[]): string[] {
    const valid = checked(bounded(z.array(chatMessages)), conversations, 'conversations');
    return this.#run(() => this.#renderer.identities(valid));
  }

  /**
   * Returns the token ids between the end token of a reply that ended by itself and the next reply.
   * @param before the messages up to the reply
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT
   */
  renderTurn(before: readonly MessageInput[], said: MessageInput): Int32Array {
    const [earlier, message] = [
      checked(chatMessages, before, 'before'),
      checked(chatMessage, said, 'said'),
    ];
    return this.#run(() => this.#renderer.renderTurn(earlier, message));
  }

  /** @internal What `generate` evaluates for a prompt. */
  promptIds({ messages, text, tokenIds: ids }: PromptContent): Int32Array {
    if (ids !== undefined) return ids;
    if (messages !== undefined) return this.renderChat(messages).tokenIds;
    const { addBos, bos } = this.info;
    return Int32Array.from([...(addBos && bos >= 0 ? [bos] : []), ...this.tokenize(text ?? '')]);
  }

  /**
   * What `generate` evaluates for messages or a text. Another thread makes tokens of it, so that
   * megabytes hold up nobody.
   * @param options.variables what else the template may ask for; texts in it are plain text, as in
   *   messages
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT, OBJECT_DISPOSED
   */
  async promptIdsAside(
    content: { readonly messages: readonly MessageInput[] } | { readonly text: string },
    options: { addGenerationPrompt?: boolean; variables?: TemplateVariables } = {},
  ): Promise<Int32Array> {
    const tokenizeAll = (texts: string[]): Promise<Int32Array[]> =>
      settled(typed(() => this.#native.tokenizeAll(texts)));
    if ('messages' in content) {
      const valid = checked(chatMessages, content.messages, 'messages');
      return this.#renderer.renderAside(
        valid,
        options.addGenerationPrompt ?? true,
        tokenizeAll,
        options.variables,
      );
    }
    const { addBos, bos } = this.info;
    const [ids] = await tokenizeAll([checked(z.string(), content.text, 'text')]);
    return addBos && bos >= 0 ? joined([Int32Array.of(bos), ids!]) : ids!;
  }

  /**
   * Returns the token ids of a text, without BOS. Control tokens are recognised only with
   * `parseControl`.
   */
  tokenize(text: string, options: { parseControl?: boolean } = {}): Int32Array {
    const valid = checked(z.string(), text, 'text');
    return this.#run(() => this.#native.tokenize(valid, options.parseControl ?? false));
  }

  /**
   * @internal Control tokens that a text names, each once: they are text like any other but to
   *   `tokenize` with `parseControl`.
   */
  controlTokensIn(text: string): string[] {
    return this.#renderer.controlTokensIn(text);
  }

  /** @internal */
  get limits(): ContextLimits {
    return { contextTokens: this.contextTokens, trainedContext: this.info.trainedContext };
  }

  /** Returns the text of token ids. Control tokens are written out only with `withControl`. */
  detokenize(ids: TokenIds, options: { withControl?: boolean } = {}): string {
    const valid = checked(tokenIds, ids, 'ids');
    return this.#run(() => this.#native.detokenize(valid, options.withControl ?? false));
  }

  /**
   * Returns the bytes of one token, with control tokens written out. A token that is part of a
   * character has bytes but no text.
   * @throws IsoproError INVALID_ARGUMENT
   */
  bytesOf(id: number): Uint8Array {
    const [token] = checked(tokenIds, [id], 'id');
    return this.#run(() => this.#native.bytes(token!));
  }

  /**
   * Samples every prompt of the request in one running batch and yields rollouts as they finish.
   * Their order and their tokens depend on the request, the machine and the thread count only.
   * Leaving the iteration early cancels the rest; when `signal` is aborted, the unfinished rollouts
   * come with finish 'aborted', then ABORTED is thrown.
   * @throws IsoproError INVALID_ARGUMENT, CONTEXT_OVERFLOW, GRAMMAR_INVALID, TEMPLATE_INVALID,
   *   NUMERIC_FAILURE, ADAPTER_MISMATCH, OUT_OF_MEMORY, OBJECT_DISPOSED, ABORTED
   */
  async *generate(
    request: GenerateRequest,
  ): AsyncGenerator<Rollout, GenerationProgress, undefined> {
    const valid = checkRequest(request);
    const prompts = valid.prompts.map(({ id, seeds, ...prompt }, index) => ({
      tokens: this.promptIds(prompt),
      seeds:
        seeds ??
        Array.from({ length: valid.samples }, (_, sample) =>
          deriveSeed({
            runSeed: valid.sampling.seed,
            purpose: 'generate',
            iteration: 0,
            problemId: id ?? String(index),
            sample,
          }),
        ),
    }));
    return yield* runGeneration(valid, {
      addon: this.#addon,
      native: this.#native,
      ...this.limits,
      adapter: this.#adapter,
      prompts,
      modelHash: valid.captureBoundary === undefined ? '' : await this.hash(),
    });
  }

  /**
   * @internal Opens the batch that requests join one by one, in a context of its own; one a model.
   * The calls of the model run between its steps. Ends with the model.
   */
  async openBatch({
    contextTokens,
    maxSequences,
    prefixTokens,
  }: BatchSettings): Promise<RunningBatch> {
    await settled(this.#native.openBatch({ cells: contextTokens, maxSequences, prefixTokens }));
    const limits = { ...this.limits, contextTokens };
    return new RunningBatch({
      addon: this.#addon,
      native: this.#native,
      limits,
      promptIds: (content) => this.promptIds(content),
    });
  }

  /**
   * Natural log-probability of each token of each continuation after the prefix, at temperature 1;
   * the prefix is evaluated once, and so is what continuations have in common at their beginning.
   *
   * On the CPU these are bit for bit what `generate` reports in a request for several samples. A
   * request for one sample runs kernels of its own: `stepwise` runs them here, one token a call,
   * two to three times slower. dev/log.md has the differences between them. That rows of a call
   * are computed alike is a property of ggml's kernels: it holds with each of its back ends for
   * x86; on other processors `doctor --selftest` says whether it does, and fails where the two
   * differ by more than 1e-3 nats. On a GPU nothing is promised.
   * @throws IsoproError INVALID_ARGUMENT, CONTEXT_OVERFLOW, NUMERIC_FAILURE, OBJECT_DISPOSED,
   *   ABORTED
   */
  async score(
    prefixIds: TokenIds,
    continuationIds: readonly TokenIds[],
    options: { stepwise?: boolean; signal?: AbortSignal } = {},
  ): Promise<Float32Array[]> {
    const prefix = checked(tokenIds, prefixIds, 'prefixIds');
    const continuations = checked(bounded(z.array(tokenIds)), continuationIds, 'continuationIds');
    const { stepwise = false, signal } = options;
    const scores = await this.#score(prefix, continuations, { stepwise, alternatives: -1 }, signal);
    return scores.map(({ logProbabilities }) => logProbabilities);
  }

  /**
   * Natural log-probability of the tokens of branches that go on from places of one text, at
   * temperature 1: the trunk is evaluated once as far as a branch needs it, and so is what branches
   * of one place have in common.
   *
   * On the CPU these are bit for bit what `score` says of the same tokens where its prefix is the
   * trunk up to `cut`, the last multiple of 4 below `at`, and its continuation the rest of the
   * trunk up to `at`, and the branch.
   * @throws IsoproError as `score`
   */
  async scoreBranches(
    trunkIds: TokenIds,
    branches: readonly Branch[],
    options: { signal?: AbortSignal } = {},
  ): Promise<BranchScores> {
    const trunk = checked(tokenIds, trunkIds, 'trunkIds');
    const natives = nativeBranches(branches);
    return cancellable(this.#addon, options.signal, (cancellation) =>
      this.#native.scoreBranches(trunk, natives, { cellBudget: this.contextTokens }, cancellation),
    ).catch((error: unknown) => {
      throw withContextRemedy(error, this.limits);
    });
  }

  /**
   * What the model holds likely at each place of a text: for every token after the first its
   * log-probability as `score` gives it, its rank, and the `count` most likely tokens there, at
   * most 20.
   * @throws IsoproError as `score`
   */
  async alternatives(
    ids: TokenIds,
    options: { count: number; signal?: AbortSignal },
  ): Promise<TokenAlternatives[]> {
    const tokens = checked(tokenIds, ids, 'ids');
    const { count, signal } = checked(alternativesOptions, options, 'options');
    const [scores] = await this.#score(
      tokens.subarray(0, 1),
      [tokens.subarray(1)],
      { stepwise: false, alternatives: count },
      signal,
    );
    const { logProbabilities, ranks, top } = scores!;
    return Array.from(logProbabilities, (logprob, i) => ({
      tokenId: tokens[i + 1]!,
      logprob,
      rank: ranks[i]!,
      top: top[i]!,
    }));
  }

  #score(
    prefix: Int32Array,
    continuations: Int32Array[],
    how: { stepwise: boolean; alternatives: number },
    signal: AbortSignal | undefined,
  ): Promise<NativeScores[]> {
    return cancellable(this.#addon, signal, (cancellation) =>
      this.#native.score(
        prefix,
        continuations,
        { cellBudget: this.contextTokens, ...how },
        cancellation,
      ),
    ).catch((error: unknown) => {
      throw withContextRemedy(error, this.limits);
    });
  }

  /**
   * Residual-stream values. `rows`: for each L in [0, layers], what enters layer L (for L = layers:
   * what leaves the last). `norms`: for each layer in [0, layers), mean norms of its output, its
   * input and their difference.
   * @throws IsoproError INVALID_ARGUMENT, CONTEXT_OVERFLOW, OBJECT_DISPOSED, ABORTED
   */
  hidden(request: HiddenRequest & { reduce: 'rows' }): Promise<HiddenRows[]>;
  hidden(request: HiddenRequest & { reduce: 'norms' }): Promise<HiddenNorms[]>;
  async hidden(
    request: HiddenRequest & { reduce: 'rows' | 'norms' },
  ): Promise<HiddenRows[] | HiddenNorms[]> {
    const { tokens, layers, reduce, signal } = checked(hiddenRequest, request, 'request');
    if (tokens.length > this.contextTokens) {
      const message = `${tokens.length} tokens exceed the context of ${this.contextTokens}`;
      throw withContextRemedy(new IsoproError('CONTEXT_OVERFLOW', message), this.limits);
    }
    const numbers = [...layers];
    return cancellable(
      this.#addon,
      signal,
      async (cancellation): Promise<HiddenRows[] | HiddenNorms[]> => {
        if (reduce === 'norms') {
          const norms = await this.#native.hiddenNorms(tokens, layers, cancellation);
          return norms.map((of, i) => ({ layer: numbers[i] as number, ...of }));
        }
        const rows = await this.#native.hiddenRows(tokens, layers, cancellation);
        return rows.map((values, i) => ({ layer: numbers[i] as number, rows: values }));
      },
    );
  }

  /**
   * The meaning of each text as a unit vector: the hidden states after the last norm, averaged over
   * the text's tokens. A text may be given by its token ids, which are evaluated as they are. Texts
   * are evaluated one by one: a vector depends on its text alone. How much it says of the meaning
   * depends on what the model was trained for.
   * @throws IsoproError INVALID_ARGUMENT (an empty text), CONTEXT_OVERFLOW, MODEL_UNSUPPORTED,
   *   NUMERIC_FAILURE, ADAPTER_MISMATCH, OUT_OF_MEMORY, OBJECT_DISPOSED, ABORTED
   */
  async embed(
    texts: readonly (string | TokenIds)[],
    options: EmbedOptions = {},
  ): Promise<Embeddings> {
    const promptIdsAside = (content: { readonly text: string }): Promise<Int32Array> =>
      this.promptIdsAside(content);
    const { vocabularySize } = this.info;
    return embedEach(texts, options, {
      addon: this.#addon,
      native: this.#native,
      limits: this.limits,
      vocabularySize,
      promptIdsAside,
    });
  }

  /**
   * Loads a LoRA adapter in GGUF onto this model, without activating it.
   * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH, OBJECT_DISPOSED
   */
  async loadAdapter(path: string): Promise<Adapter> {
    requireAdapter(path);
    const native = await settled(this.#native.loadAdapter(path));
    // only now: gigabytes that are no adapter are not read to their end
    return new Adapter({ native, handles: 0 }, path, await hashFile(path));
  }

  /**
   * Sets the model's own adapter, or removes it with null. It applies from the next call on.
   * @throws IsoproError ADAPTER_MISMATCH, OBJECT_DISPOSED
   */
  async setAdapter(adapter: Adapter | null, scale = 1): Promise<void> {
    checked(single, scale, 'scale');
    await settled(this.#run(() => this.#native.setAdapter(adapter?.native ?? null, scale)));
    this.#adapter = adapter;
  }

  /**
   * Frees the KV cache and compute buffers until the next call needs them. The weights stay loaded.
   */
  releaseContext(): Promise<void> {
    return settled(this.#native.releaseContext());
  }

  /**
   * From now on, measures each operation of llama.cpp's graphs by itself, which makes calls slower
   * and does not change their results. A second call counts from zero again.
   * @throws IsoproError OBJECT_DISPOSED
   */
  measureOperations(): Promise<void> {
    return settled(this.#native.measureOperations());
  }

  /**
   * Returns the measured costs by operation and kernels, the dearest first; an empty list if
   * nothing was measured.
   * @throws IsoproError OBJECT_DISPOSED
   */
  async operationTimes(): Promise<readonly OperationTime[]> {
    const times = await settled(this.#native.operationTimes());
    return times.sort((a, b) => b.processorSeconds - a.processorSeconds);
  }

  /** Cancels running calls and frees everything. Safe to call repeatedly. */
  dispose(): Promise<void> {
    this.#disposal ??= settled(this.#native.dispose());
    return this.#disposal;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  #run<T>(call: () => T): T {
    if (this.#disposal !== undefined)
      throw new IsoproError('OBJECT_DISPOSED', 'the model has been disposed');
    return typed(call);
  }
}
