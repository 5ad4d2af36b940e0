/**
 * Who reasons: what the truth-seeking layer asks of a policy, and nothing of how it answers. Where
 * a policy cannot do what it is asked it throws an IsoproError; a number always is one that it
 * holds.
 */
import { IsoproError } from '../errors.js';
import type { TokenIds } from '../engine/generate-request.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';

export type Message = ChatMessage;

/** What not every policy has. */
export type Capability = 'logprobs';

export interface InferOptions {
  /** Of this reply. Default: 0. */
  readonly seed?: bigint;
  /** Default 256. */
  readonly maxTokens?: number;
  /** 0 takes the most likely token. Default 0.25, as in the reference (section 2.4). */
  readonly temperature?: number;
  /**
   * GBNF that a local model's reply is bound to; whoever cannot be bound answers freely, and is
   * read as strictly.
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

/** A target that goes on from a place within the prefix. */
export interface BranchTarget {
  /** How many tokens of the prefix stand before it, at least 1. */
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
  /** The same for the same policy on every machine: a hash of all that its answers follow from. */
  readonly id: string;
  readonly capabilities: Readonly<Record<Capability, boolean>>;
  /** @throws IsoproError of the engine, CONTEXT_OVERFLOW among them */
  infer(messages: readonly Message[], options?: InferOptions): Promise<Reply>;
  /**
   * As `infer` for each, in order; one that cannot be answered ends all. Absent where there is
   * nothing to be gained.
   */
  inferMany?(
    requests: readonly InferRequest[],
    options?: Omit<InferOptions, 'seed'>,
  ): Promise<Reply[]>;
  /**
   * What `infer` reads for these messages, up to the first token of its reply.
   * @throws IsoproError TEMPLATE_INVALID
   */
  promptIds(messages: readonly Message[]): TokenIds;
  /** Token ids of a text inside a reply: no control token is recognised. */
  textIds(text: string): TokenIds;
  /**
   * Natural log-probability of each token of each target after the prefix, or of those of a branch
   * from `from` on after what stands before it, at temperature 1; -Infinity for what the policy
   * never says. One call for all that is asked of one text costs that text once.
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
