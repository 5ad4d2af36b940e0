/** A running batch of a model, which requests join and leave. */
import { given } from '../given.js';
import { deriveSeed } from '../random.js';
import type { Adapter } from './adapter.js';
import {
  settled,
  typed,
  type Addon,
  type NativeModel,
  type NativeToken,
  type TokenChance,
} from './addon.js';
import { contextOf, withContextRemedy, type ContextLimits } from './context-overflow.js';
import {
  nativeReplySettings,
  type CheckedBatchRequest,
  type PromptContent,
} from './generate-request.js';
import { activityOf, tokensOf, type Rollout } from './generation.js';
import { withJson } from './json-form.js';

export interface BatchSettings {
  /** Tokens of KV cache, allocated when the first request joins. */
  readonly contextTokens: number;
  /** Replies that run at once. */
  readonly maxSequences: number;
  /** Tokens of finished sequences that stay in the cache; 0: none. */
  readonly prefixTokens: number;
}

export interface BatchReply
  extends Omit<Rollout, 'promptIndex' | 'sampleIndex' | 'finish' | 'boundary'> {
  readonly finish: 'stop' | 'length';
  /** Tokens of the prompt that came from the prefix cache. */
  readonly reusedTokens: number;
}

export interface BatchToken {
  readonly tokenId: number;
  /** Log-probabilities as in `Rollout.logprobs` and `Rollout.sampledLogprobs`. */
  readonly logprob: number;
  readonly sampledLogprob: number;
  /** As in `Rollout.topLogprobs`. */
  readonly topLogprobs?: readonly TokenChance[];
  /**
   * Text that this token adds to the reply, often none: a possible start of a stop string and an
   * incomplete character come with a later token. The texts of all tokens together are the reply's
   * text.
   */
  readonly text: string;
}

/** Parts of a model that a batch needs. */
export interface BatchModel {
  readonly addon: Addon;
  readonly native: NativeModel;
  readonly limits: ContextLimits;
  promptIds(content: PromptContent): Int32Array;
}

export interface StartedReply {
  readonly reply: Promise<BatchReply>;
  /** Ends the reply with ABORTED before the next step. */
  cancel(): void;
}

export class RunningBatch {
  readonly #model: BatchModel;

  /** @internal Use Model.openBatch. */
  constructor(model: BatchModel) {
    this.#model = model;
  }

  /**
   * Queues a request; without an adapter, or with null, it runs on the bare base. The seed is the
   * one that `Model.generate` derives for the first sample of the same prompt.
   * @param onToken must not throw
   * @throws IsoproError TEMPLATE_INVALID, GRAMMAR_INVALID, OBJECT_DISPOSED; the reply rejects with
   *   these, INVALID_ARGUMENT, CONTEXT_OVERFLOW, NUMERIC_FAILURE, ADAPTER_MISMATCH, OUT_OF_MEMORY,
   *   ABORTED
   */
  start(
    request: Omit<CheckedBatchRequest, 'adapter'>,
    adapter: Adapter | null,
    onToken?: (token: BatchToken) => void,
  ): StartedReply {
    const { addon, native, limits } = this.#model;
    const context = contextOf(limits);
    const promptIds = this.#model.promptIds(request);
    const { sampling, whenContextFull } = request;
    // One for a prompt without room, which is refused like any other.
    const room = whenContextFull === 'stop' ? Math.max(1, context - promptIds.length) : Infinity;
    const maxTokens = Math.min(request.maxTokens, room);
    const seed = deriveSeed({
      runSeed: sampling.seed,
      purpose: 'generate',
      iteration: 0,
      problemId: request.id ?? '0',
      sample: 0,
    });
    const cancellation = typed(() => new addon.Cancellation());
    const running = native.reply(
      {
        ...nativeReplySettings({
          ...request,
          maxTokens,
          minTokens: Math.min(request.minTokens, maxTokens),
        }),
        prompt: promptIds,
        seed,
        adapter: adapter?.native ?? null,
        deterministic: request.deterministic,
        cachePartition: request.cachePartition,
        rank: request.rank,
      },
      cancellation,
      onToken &&
        (({ token, logProbability, sampledLogProbability, top, text }: NativeToken) =>
          onToken({
            tokenId: token,
            logprob: logProbability,
            sampledLogprob: sampledLogProbability,
            ...given({ topLogprobs: top }),
            text,
          })),
    );
    const fitting = settled(running).catch((error: unknown) => {
      throw withContextRemedy(error, limits);
    });
    const reply = fitting.then((said) => {
      const { finish, reusedTokens } = said;
      const tokens = tokensOf(said);
      const activity = activityOf(said, adapter);
      return withJson({ promptIds, ...tokens, finish, seed: `${seed}`, ...activity, reusedTokens });
    });
    return { reply, cancel: () => cancellation.cancel() };
  }
}
