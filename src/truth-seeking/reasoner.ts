/**
 * A reasoner: the interface of a model or a person that reasons. It throws an IsoproError where it
 * cannot answer, and never returns a made-up number.
 */
import { IsoproError } from '../errors.js';
import type { TokenIds } from '../engine/generate-request.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';

export type Message = ChatMessage;

/** Optional capabilities of a reasoner. */
export type Capability = 'logprobs';

export interface InferOptions {
  /** Seed of this reply. Default: 0. */
  readonly seed?: bigint;
  /** Default 256. */
  readonly maxTokens?: number;
  /** 0 takes the most likely token. Default 0.25, as in the reference (section 2.4). */
  readonly temperature?: number;
  /**
   * GBNF grammar for the reply of a local model. A reasoner without grammars answers freely and is
   * parsed as strictly.
   */
  readonly grammar?: string;
  readonly signal?: AbortSignal;
}

export interface Reply {
  readonly text: string;
  /** Exactly the sampled ids. */
  readonly tokenIds: TokenIds;
  /** `length`: cut off by `maxTokens`. */
  readonly finish: 'stop' | 'length';
}

/** One of several replies that are asked for together. */
export interface InferRequest {
  readonly messages: readonly Message[];
  readonly seed: bigint;
}

/** A target that continues from a place within the prefix. */
export interface BranchTarget {
  /** Number of prefix tokens before it, at least 1. */
  readonly at: number;
  readonly tokenIds: TokenIds;
  /** Its first token that is asked for. */
  readonly from: number;
}

export type Target = TokenIds | BranchTarget;

/** @returns the target as a branch */
export const asBranch = (target: Target, prefix: TokenIds): BranchTarget =>
  'tokenIds' in target ? target : { at: prefix.length, tokenIds: target, from: 0 };

export interface Reasoner {
  /** Hash of everything that determines the answers: the same on every machine. */
  readonly id: string;
  readonly capabilities: Readonly<Record<Capability, boolean>>;
  /** @throws IsoproError of the engine, CONTEXT_OVERFLOW among them */
  infer(messages: readonly Message[], options?: InferOptions): Promise<Reply>;
  /**
   * Runs `infer` for each request, in order; one failure fails all. Absent if batching gains
   * nothing.
   */
  inferMany?(
    requests: readonly InferRequest[],
    options?: Omit<InferOptions, 'seed'>,
  ): Promise<Reply[]>;
  /**
   * Token ids that `infer` reads for these messages, up to the first token of its reply.
   * @throws IsoproError TEMPLATE_INVALID
   */
  promptIds(messages: readonly Message[]): TokenIds;
  /** Token ids of a text inside a reply: no control token is recognised. */
  textIds(text: string): TokenIds;
  /**
   * Natural log-probability of each token of each target after the prefix, or for a branch of its
   * tokens from `from` on, at temperature 1; -Infinity for tokens that the reasoner never samples.
   * One call for all targets of a text evaluates that text once.
   * @throws IsoproError BACKEND_INCAPABLE where `capabilities.logprobs` is false; of the engine,
   *   CONTEXT_OVERFLOW among them
   */
  score(
    prefix: TokenIds,
    targets: readonly Target[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<Float64Array[]>;
}

/** @throws IsoproError BACKEND_INCAPABLE */
export function requireCapability(
  reasoner: Pick<Reasoner, 'id' | 'capabilities'>,
  capability: Capability,
): void {
  if (reasoner.capabilities[capability]) return;
  const message = `policy ${reasoner.id.slice(0, 12)} has no ${capability}`;
  throw new IsoproError('BACKEND_INCAPABLE', message, {
    remedy: 'Use a local model, which has log-probabilities.',
  });
}
