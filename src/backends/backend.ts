/**
 * Back ends, which answer prompts: a model in this process, a file of replies, a service. The types
 * are structural, so a program can bring its own back end as a plain object.
 */
import { types } from 'node:util';
import { abortError, IsoproError } from '../errors.js';
import type { SamplingSettings } from '../engine/generate-request.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { OF_TRAINING } from './names.js';

export interface Capabilities {
  /** Replies have `promptIds` and `tokenIds`: exactly the tokens read and sampled. */
  readonly tokenIds: boolean;
  /**
   * Replies have `logprobs` and `sampledLogprobs`. Both are per token, so this needs `tokenIds`.
   */
  readonly logprobs: boolean;
  /** A sample's seed determines its reply; the reply has it as `seed`. */
  readonly seeds: boolean;
  /** Answers with the adapter that a request names; replies have `adapterId`. */
  readonly adapters: boolean;
  /** Enforces a request's grammar, in GBNF. */
  readonly grammar: boolean;
  /** Each reply follows a request's JSON Schema. Default: as `grammar`. */
  readonly jsonSchema?: boolean;
}

/** Of whoever gives text and nothing else. */
export const TEXT_ONLY: Capabilities = {
  tokenIds: false,
  logprobs: false,
  seeds: false,
  adapters: false,
  grammar: false,
};

/** What a back end can do besides: it has the method of this name. */
const METHODS = ['score', 'renderTurn'] as const;
export type Capability = keyof Capabilities | (typeof METHODS)[number];

export interface BackendIdentity {
  /** `local`, `recorded`, or your own word. */
  readonly kind: string;
  /** Name of the model for readers. */
  readonly name: string;
  /** Address of a server, without a query. */
  readonly endpoint?: string;
  /** Names that a server gave its model in the replies so far. */
  readonly served?: readonly string[];
}

/**
 * Why a sample has no reply: `network`, the connection broke or was refused; `timeout`; `status`,
 * the server refused the request; `quota`, what was paid for is used up; `wait`, the server asks
 * for a longer wait than a minute; `redirect`, to another origin; `invalid`, a body that is none of
 * the protocol; `form`, a reply against the JSON Schema; `finish`, a reply that ended neither by
 * itself nor at a limit; `context`, prompt and reply do not fit; `ended`, the program that answers
 * has ended; `program`: it says that it has no reply.
 */
export const SAMPLE_FAILURES = [
  'network',
  'timeout',
  'status',
  'quota',
  'wait',
  'redirect',
  'invalid',
  'form',
  'finish',
  'context',
  'ended',
  'program',
] as const;

export interface SampleFailure {
  readonly kind: (typeof SAMPLE_FAILURES)[number];
  /** HTTP status, where a server gave one. */
  readonly status?: number;
  /** A sentence without keys, headers and bodies. */
  readonly message: string;
  /** Requests that were sent for this sample. */
  readonly attempts: number;
}

export interface SamplePrompt {
  /** Name of the prompt in messages: a problem's id. */
  readonly id: string;
  /**
   * Chat messages. If the last one is the assistant's, the reply continues it, and its text is the
   * continuation.
   */
  readonly messages: readonly ChatMessage[];
  /**
   * Token ids of the messages if the model wrote some of them: the sampled ids instead of a new
   * tokenization. Only with `tokenIds`.
   */
  readonly ids?: Int32Array;
  /** One seed per sample; a back end without `seeds` uses only their number. */
  readonly seeds: readonly bigint[];
}

export interface SampleRequest {
  readonly prompts: readonly SamplePrompt[];
  readonly sampling: Omit<SamplingSettings, 'seed'>;
  /** Maximum number of tokens of each reply. */
  readonly maxTokens: number;
  /** Stop strings; the reply is the text before the first of them. */
  readonly stop?: readonly string[];
  /** GBNF. */
  readonly grammar?: string;
  readonly jsonSchema?: object;
  /** Adapter to answer with; null: the bare base model. Default: the back end's own. */
  readonly adapter?: { readonly id: string } | null;
  /** Maximum number of replies at once. */
  readonly maxSequences?: number;
  readonly signal?: AbortSignal;
  /** Called by a back end that knows its progress before replies are finished. */
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
  /** Index of its seed. */
  readonly sampleIndex: number;
  /** Text without end-of-turn token and stop string. */
  readonly text: string;
  /**
   * How the reply ended: by itself, at `maxTokens`, or cancelled. A cancelled one is discarded.
   * `refused`: a content filter refused it, which is a fail. `failed`: there is no reply, which is
   * no verdict.
   */
  readonly finish: 'stop' | 'length' | 'aborted' | 'refused' | 'failed';
  /** Why a sample has failed. */
  readonly failure?: SampleFailure;
  /** Token counts of a back end without ids; absent if it does not count. */
  readonly promptTokens?: number;
  readonly tokens?: number;
  readonly promptIds?: Int32Array;
  /** Sampled token ids, including the end-of-turn or stop token. */
  readonly tokenIds?: Int32Array;
  /** Natural log-probability of each token of `tokenIds` under the model's own distribution. */
  readonly logprobs?: Float32Array;
  /** Log-probabilities under the distribution that each token was drawn from. */
  readonly sampledLogprobs?: Float32Array;
  readonly seed?: bigint;
  /** SHA-256 of the adapter that was active, or null. */
  readonly adapterId?: string | null;
}

/** A reply with everything that training needs. */
export interface TokenReply extends Reply {
  readonly finish: 'stop' | 'length' | 'aborted';
  readonly promptIds: Int32Array;
  readonly tokenIds: Int32Array;
  readonly logprobs: Float32Array;
  readonly sampledLogprobs: Float32Array;
  readonly seed: bigint;
  readonly adapterId: string | null;
}

/** What a service was asked, and what that cost. */
export interface Spending {
  /** Requests sent, with those that were repeated. */
  readonly requests: number;
  /** Requests that were repeated. */
  readonly retries: number;
  /** Replies that a recording had. */
  readonly recorded: number;
  /** As the service counts them; where it does not, the upper bounds that were reserved. */
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** Of the reply tokens. */
  readonly reasoningTokens: number;
  /** By the price that was given; absent without one. */
  readonly cost?: number;
}

/** @typeParam R what its capabilities promise of a reply */
export interface Backend<R extends Reply = Reply> {
  readonly identity: BackendIdentity;
  readonly capabilities: Capabilities;
  /**
   * Maximum number of tokens of a prompt and its reply together; absent if unknown. An episode ends
   * before a turn that does not fit.
   */
  readonly contextTokens?: number;
  /** What of the requests so far had no effect, such as a temperature; absent: all of it has. */
  readonly ignored?: readonly string[];
  /** What requests to a service have cost so far; absent if nobody counts. */
  readonly spending?: Spending;
  /** Returns the SHA-256 of the model, in hexadecimal; absent if it cannot be known. */
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
   * Returns the token ids between the end token of a reply that ended by itself and the next reply.
   * Training on episodes of several turns needs it.
   */
  renderTurn?(before: readonly ChatMessage[], said: ChatMessage): Int32Array;
  dispose(): Promise<void>;
}

/** What has failed, as a reader and a table of reasons have it. */
export const failureText = ({ kind, status, message }: SampleFailure): string =>
  `${kind}${status === undefined ? '' : ` ${status}`}: ${message}`;

/**
 * Tests whether the engine samples a reply to a prompt (native/inference/reply.cpp): whether a
 * reply of full length fits.
 */
export const hasRoom = (
  promptTokens: number,
  maxTokens: number,
  contextTokens = Infinity,
): boolean => promptTokens + maxTokens <= contextTokens;

const describe = ({ identity: { kind, name } }: Backend): string => `the back end ${kind}:${name}`;

/** Tests whether a back end has a capability. */
export const isCapable = (backend: Backend, capability: Capability): boolean =>
  capability === 'score' || capability === 'renderTurn'
    ? backend[capability] !== undefined
    : capability === 'jsonSchema'
      ? (backend.capabilities.jsonSchema ?? backend.capabilities.grammar)
      : backend.capabilities[capability];

/** @throws IsoproError BACKEND_INCAPABLE naming all that it lacks */
export function requireCapabilities(
  backend: Backend,
  needed: readonly Capability[],
  purpose: string,
): void {
  const lacking = needed.filter((capability) => !isCapable(backend, capability));
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
  requireCapabilities(backend, OF_TRAINING, 'training');
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
  if (grammar !== undefined) requireCapabilities(backend, ['grammar'], 'a grammar');
  if (jsonSchema !== undefined) requireCapabilities(backend, ['jsonSchema'], 'a JSON Schema');
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

/** Returns how a reply violates the promises of its back end, or null. */
function objectionTo(
  reply: Reply,
  capabilities: Capabilities,
  seed: bigint,
  adapter: { readonly id: string } | null,
): string | null {
  const { text, finish, promptIds, tokenIds, logprobs, sampledLogprobs, adapterId } = reply;
  if (typeof text !== 'string') return 'without text';
  if (finish === 'failed' || finish === 'refused')
    return finish === 'failed' && reply.failure === undefined ? 'without what has failed' : null;
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
