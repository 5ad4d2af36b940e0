/** Parts that several kinds of answers have. */
import { randomBytes } from 'node:crypto';
import type { TokenChance } from '../../engine/addon.js';
import type { TokenAlternatives } from '../../engine/model.js';
import type { HostReply, TokenEvent } from '../../host/host-request.js';
import type { HostedModel } from '../../host/hosted-model.js';
import type { Slices } from '../time-slices.js';
import { nameByText, tokenBytes, TokensOfText, type TokenName } from './token-text.js';

export const newId = (kind: string): string => `${kind}-${randomBytes(12).toString('hex')}`;
export const unixSeconds = (): number => Math.floor(Date.now() / 1000);

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** vLLM's usage in each event of a stream: tokens of its choice, up to and with this event. */
export const usageSoFar = (
  promptTokens: number,
  completionTokens: number,
): Omit<Usage, 'prompt_tokens_details'> => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
});

/**
 * Says of a choice that the base model wrote it: the adapter acts from the reply on, and the prompt
 * lacks its invocation tokens.
 */
export const activityOf = ({ notActivated }: HostReply): { adapter_activated?: false } =>
  notActivated === true ? { adapter_activated: false } : {};

/** Usage of the replies to one prompt, which counts once. */
export const usageOf = (replies: readonly HostReply[]): Usage => ({
  ...usageSoFar(
    replies[0]?.promptIds.length ?? 0,
    replies.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
  ),
  prompt_tokens_details: {
    cached_tokens: Math.max(0, ...replies.map(({ reusedTokens }) => reusedTokens)),
  },
});

export function sumOf(usages: readonly Usage[]): Usage {
  const sum = (of: (usage: Usage) => number): number =>
    usages.reduce((total, usage) => total + of(usage), 0);
  return {
    ...usageSoFar(
      sum((usage) => usage.prompt_tokens),
      sum((usage) => usage.completion_tokens),
    ),
    prompt_tokens_details: {
      cached_tokens: sum((usage) => usage.prompt_tokens_details.cached_tokens),
    },
  };
}

interface ChanceShape {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** A token with what the model thought of it. */
export interface TokenLogprob extends ChanceShape {
  readonly top_logprobs: readonly ChanceShape[];
}

/** JSON has no infinity; OpenAI writes this for what is beyond it. */
export const finite = (logprob: number): number => Math.max(logprob, -9999);

function chanceShape(
  model: HostedModel,
  { tokenId, logprob }: TokenChance,
  name: TokenName,
): ChanceShape {
  return {
    token: name(model, tokenId),
    logprob: finite(logprob),
    bytes: tokenBytes(model, tokenId),
  };
}

export const tokenLogprob = (
  model: HostedModel,
  { topLogprobs = [], ...sampled }: SampledChance,
  name: TokenName = nameByText,
): TokenLogprob => ({
  ...chanceShape(model, sampled, name),
  top_logprobs: topLogprobs.map((chance) => chanceShape(model, chance, name)),
});

export type SampledChance = TokenChance & Pick<TokenEvent, 'topLogprobs'>;

/** Tokens of a reply, each with the likeliest tokens at its place if they were requested. */
export const sampledChances = ({ tokenIds, logprobs, topLogprobs }: HostReply): SampledChance[] =>
  Array.from(tokenIds, (tokenId, i) => ({
    tokenId,
    logprob: logprobs[i]!,
    ...(topLogprobs !== undefined && { topLogprobs: topLogprobs[i]! }),
  }));

export const tokenLogprobs = (
  slices: Slices,
  model: HostedModel,
  reply: HostReply,
  name: TokenName = nameByText,
): Promise<TokenLogprob[]> =>
  slices.map(sampledChances(reply), (chance) => tokenLogprob(model, chance, name));

/** Log-probabilities of the tokens at the beginning of the reply that make up the text. */
export function textLogprobs(
  slices: Slices,
  model: HostedModel,
  reply: HostReply,
  text: string,
  name: TokenName = nameByText,
): Promise<TokenLogprob[]> {
  const tokens = new TokensOfText<SampledChance>(model);
  for (const chance of sampledChances(reply)) tokens.draw(chance);
  return slices.map(tokens.tell(text), (chance) => tokenLogprob(model, chance, name));
}

/**
 * vLLM's: for each token of the prompt the likeliest ones and itself, by their ids; null for the
 * first, which follows nothing.
 */
export type PromptLogprobs = readonly (Readonly<
  Record<string, { logprob: number; rank: number; decoded_token: string }>
> | null)[];

/** @param count of likeliest tokens to show of those that there are */
export async function promptLogprobs(
  slices: Slices,
  model: HostedModel,
  alternatives: readonly TokenAlternatives[],
  count: number,
): Promise<PromptLogprobs> {
  const told = await slices.map(alternatives, ({ tokenId, logprob, rank, top }) =>
    Object.fromEntries(
      [
        ...top.slice(0, count).map((chance, i) => ({ ...chance, rank: i + 1 })),
        { tokenId, logprob, rank },
      ].map((of) => [
        of.tokenId,
        {
          logprob: finite(of.logprob),
          rank: of.rank,
          decoded_token: nameByText(model, of.tokenId),
        },
      ]),
    ),
  );
  return [null, ...told];
}

/** Server-sent events, as OpenAI streams them. */
export const eventOf = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
export const DONE = 'data: [DONE]\n\n';
