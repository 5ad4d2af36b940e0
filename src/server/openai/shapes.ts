/** Parts that several kinds of answers have. */
import { randomBytes } from 'node:crypto';
import type { HostReply } from '../../host/host-request.js';
import type { HostedModel } from '../../host/hosted-model.js';

export const newId = (kind: string): string => `${kind}-${randomBytes(12).toString('hex')}`;
export const unixSeconds = (): number => Math.floor(Date.now() / 1000);

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Of the replies to one prompt, which counts once. */
export function usageOf(replies: readonly HostReply[]): Usage {
  const prompt = replies[0]?.promptIds.length ?? 0;
  const completion = replies.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  const cached = Math.max(0, ...replies.map(({ reusedTokens }) => reusedTokens));
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

export function sumOf(usages: readonly Usage[]): Usage {
  const sum = (of: (usage: Usage) => number): number => usages.reduce((total, usage) => total + of(usage), 0);
  return {
    prompt_tokens: sum((usage) => usage.prompt_tokens),
    completion_tokens: sum((usage) => usage.completion_tokens),
    total_tokens: sum((usage) => usage.total_tokens),
    prompt_tokens_details: { cached_tokens: sum((usage) => usage.prompt_tokens_details.cached_tokens) },
  };
}

/** A token with what the model thought of it; the bytes are null where the token is a part of a character. */
export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
  readonly top_logprobs: readonly never[];
}

/** JSON has no infinity; OpenAI writes this for what is beyond it. */
export const finite = (logprob: number): number => Math.max(logprob, -9999);

export function tokenLogprob(model: HostedModel, tokenId: number, logprob: number): TokenLogprob {
  const token = model.detokenize([tokenId], { withControl: true });
  return { token, logprob: finite(logprob), bytes: token.includes('\u{fffd}') ? null : [...Buffer.from(token)], top_logprobs: [] };
}

export const tokenLogprobs = (model: HostedModel, { tokenIds, logprobs }: Pick<HostReply, 'tokenIds' | 'logprobs'>): TokenLogprob[] =>
  Array.from(tokenIds, (id, i) => tokenLogprob(model, id, logprobs[i]!));

/** vLLM's: for each token of the prompt its own log-probability by its id; null for the first, which follows nothing. */
export type PromptLogprobs = readonly (Readonly<Record<string, { logprob: number; rank: null; decoded_token: string }>> | null)[];

export function promptLogprobs(model: HostedModel, ids: Int32Array, logprobs: Float32Array): PromptLogprobs {
  return Array.from(ids, (id, i) => {
    if (i === 0) return null;
    const decoded = model.detokenize([id], { withControl: true });
    return { [id]: { logprob: finite(logprobs[i - 1]!), rank: null, decoded_token: decoded } };
  });
}

/** Server-sent events, as OpenAI streams them. */
export const eventOf = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
export const DONE = 'data: [DONE]\n\n';
