/**
 * What answers prompts: a model in this process, a file of replies, a service. The types are
 * structural, so that a program can bring a back end of its own: a plain object will do.
 */
import { types } from 'node:util';
import { abortError, IsoproError } from '../errors.js';
import type { SamplingSettings } from '../engine/generate-request.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';

export interface Capabilities {
  /** Replies have `promptIds` and `tokenIds`: exactly what was read and what was sampled. */
  readonly tokenIds: boolean;
  /**
   * Replies have `logprobs` and `sampledLogprobs`. Both are of tokens, so that this needs
   * `tokenIds`.
   */
  readonly logprobs: boolean;
  /** A sample's seed determines its reply, which has it as `seed`. */
  readonly seeds: boolean;
  /** Answers with the adapter that a request names; replies have `adapterId`. */
  readonly adapters: boolean;
  /** Keeps a request's grammar or JSON Schema. */
  readonly grammar: boolean;
}
export type Capability = keyof Capabilities;

export interface BackendIdentity {
  /** `local`, `recorded`, or a word of one's own. */
  readonly kind: string;
  /** Of the model, as a reader would name it. */
  readonly name: string;
}

export interface SamplePrompt {
  /** Names the prompt where something is said of it: a problem's id. */
  readonly id: string;
  /**
   * Where the last one is the assistant's, the reply goes on from there, and its text is what
   * follows.
   */
  readonly messages: readonly ChatMessage[];
  /**
   * What the messages are where the model said some of them: the very ids, not what their text
   * would be read as. With `tokenIds`.
   */
  readonly ids?: Int32Array;
  /** One sample each; a back end without `seeds` heeds their number only. */
  readonly seeds: readonly bigint[];
}

export interface SampleRequest {
  readonly prompts: readonly SamplePrompt[];
  readonly sampling: Omit<SamplingSettings, 'seed'>;
  /** Of each reply. */
  readonly maxTokens: number;
  /** Text before the first of these is kept. */
  readonly stop?: readonly string[];
  /** GBNF. */
  readonly grammar?: string;
  readonly jsonSchema?: object;
  /** Null: the bare base; absent: what the back end answers with by itself. */
  readonly adapter?: { readonly id: string } | null;
  /** Replies at once, at most. */
  readonly maxSequences?: number;
  readonly signal?: AbortSignal;
  /** Called where a back end knows how far it is before replies are finished. */
  readonly onProgress?: (progress: SampleProgress) => void;
}

export interface SampleProgress {
  readonly finished: number;
  readonly total: number;
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

export interface Reply {
  readonly promptIndex: number;
  /** The place of its seed. */
  readonly sampleIndex: number;
  /** Without end-of-turn token and stop string. */
  readonly text: string;
  /** Ended by itself, at `maxTokens`, or cancelled: that one is no reply. */
  readonly finish: 'stop' | 'length' | 'aborted';
  /** Counts of a back end that gives no ids; absent where it does not count. */
  readonly promptTokens?: number;
  readonly tokens?: number;
  readonly promptIds?: Int32Array;
  /** The end-of-turn or stop token included. */
  readonly tokenIds?: Int32Array;
  /** Natural log-probability of each token of `tokenIds` under the model's own distribution. */
  readonly logprobs?: Float32Array;
  /** The same under the distribution that each was drawn from. */
  readonly sampledLogprobs?: Float32Array;
  readonly seed?: bigint;
  /** SHA-256 of the adapter that was active, or null. */
  readonly adapterId?: string | null;
}

/** A reply with everything that can be learned from. */
export interface TokenReply extends Reply {
  readonly promptIds: Int32Array;
  readonly tokenIds: Int32Array;
  readonly logprobs: Float32Array;
  readonly sampledLogprobs: Float32Array;
  readonly seed: bigint;
  readonly adapterId: string | null;
}

/** @typeParam R what its capabilities promise of a reply */
export interface Backend<R extends Reply = Reply> {
  readonly identity: BackendIdentity;
  readonly capabilities: Capabilities;
  /**
   * Tokens that a prompt and its reply may have together; absent where nobody knows. An episode
   * ends before a turn without room.
   */
  readonly contextTokens?: number;
  /** SHA-256 of what answers, in hexadecimal; absent where nobody can know it. */
  digest?(): Promise<string>;
  /**
   * One reply for each seed of each prompt, as they finish. Whoever leaves the iteration early, or
   * aborts the signal, cancels the rest.
   */
  sample(request: SampleRequest): AsyncIterable<R>;
  /**
   * Natural log-probability of each token of each continuation after the prefix, at temperature 1.
   */
  score?(
    prefixIds: Int32Array,
    continuationIds: readonly Int32Array[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly Float32Array[]>;
  /**
   * How a conversation goes on after a reply that ended by itself: the ids between its end token
   * and the next reply. Learning from episodes of several turns needs it.
   */
  renderTurn?(before: readonly ChatMessage[], said: ChatMessage): Int32Array;
  dispose(): Promise<void>;
}

/**
 * Whether a prompt is one to which the engine samples a reply (native/inference/reply.cpp): there
 * is room for a whole one.
 */
export const hasRoom = (
  promptTokens: number,
  maxTokens: number,
  contextTokens = Infinity,
): boolean => promptTokens + maxTokens <= contextTokens;

const describe = ({ identity: { kind, name } }: Backend): string => `the back end ${kind}:${name}`;

/** @throws IsoproError BACKEND_INCAPABLE naming all that it lacks */
export function requireCapabilities(
  backend: Backend,
  needed: readonly Capability[],
  purpose: string,
): void {
  const lacking = needed.filter((capability) => !backend.capabilities[capability]);
  if (lacking.length > 0)
    throw new IsoproError(
      'BACKEND_INCAPABLE',
      `${describe(backend)} lacks ${lacking.join(', ')}, which ${purpose} needs`,
    );
}

/**
 * A back end that can be trained on: the tokens that are learned, the probabilities that they were
 * drawn with, seeds from which a judge derives them again, and the adapter in training. @throws
 * IsoproError BACKEND_INCAPABLE
 */
export function trainable(backend: Backend): Backend<TokenReply> {
  requireCapabilities(backend, ['tokenIds', 'logprobs', 'seeds', 'adapters'], 'training');
  return backend as Backend<TokenReply>; // every reply is held to it in `sampleFrom`
}

/**
 * The replies to a request, held to the contract: each sample is answered once, with text, end and
 * what the capabilities promise.
 * @throws IsoproError BACKEND_INCAPABLE, BACKEND_REPLY_INVALID, ABORTED; what the back end throws
 */
export async function* sampleFrom<R extends Reply>(
  backend: Backend<R>,
  request: SampleRequest,
): AsyncGenerator<R, void, undefined> {
  const { prompts, adapter = null, grammar, jsonSchema, signal } = request;
  if (adapter !== null) requireCapabilities(backend, ['adapters'], `the adapter ${adapter.id}`);
  if (grammar !== undefined || jsonSchema !== undefined)
    requireCapabilities(backend, ['grammar'], 'a grammar or JSON Schema');
  const refuse = (what: string): never => {
    throw new IsoproError('BACKEND_REPLY_INVALID', `${describe(backend)} ${what}`);
  };
  const open = prompts.map(({ seeds }) => new Set(seeds.keys()));
  for await (const reply of backend.sample(request)) {
    if (signal?.aborted === true) break;
    if (reply.finish === 'aborted') continue;
    const { promptIndex, sampleIndex } = reply;
    if (open[promptIndex]?.delete(sampleIndex) !== true)
      refuse(
        `returned a reply to sample ${sampleIndex} of prompt ${promptIndex}, which was not requested or was answered before`,
      );
    const objection = objectionTo(
      reply,
      backend.capabilities,
      prompts[promptIndex]!.seeds[sampleIndex]!,
      adapter,
    );
    if (objection !== null)
      refuse(`returned a reply to prompt ${prompts[promptIndex]!.id} ${objection}`);
    yield reply;
  }
  if (signal?.aborted === true) throw abortError('sampling was cancelled', signal);
  const silent = open.findIndex(({ size }) => size > 0);
  if (silent >= 0)
    refuse(`returned no reply to sample ${[...open[silent]!][0]} of prompt ${prompts[silent]!.id}`);
}

/** What of a reply is not as its back end promises; null where all is. */
function objectionTo(
  reply: Reply,
  capabilities: Capabilities,
  seed: bigint,
  adapter: { readonly id: string } | null,
): string | null {
  const { text, finish, promptIds, tokenIds, logprobs, sampledLogprobs, adapterId } = reply;
  if (typeof text !== 'string') return 'without text';
  if (finish !== 'stop' && finish !== 'length') return 'without a valid finish reason';
  if (capabilities.tokenIds && !(types.isInt32Array(promptIds) && types.isInt32Array(tokenIds)))
    return 'without token ids';
  if (
    capabilities.logprobs &&
    [logprobs, sampledLogprobs].some(
      (of) => !types.isFloat32Array(of) || of.length !== tokenIds?.length,
    )
  )
    return 'without one log-probability per token';
  if (capabilities.seeds && reply.seed !== seed) return 'with a different seed';
  if (
    capabilities.adapters &&
    (adapterId === undefined || (adapter !== null && adapterId !== adapter.id))
  )
    return 'from a different adapter';
  return null;
}
