/** POST /v1/completions: texts or token ids that the model continues, without a template. */
import type { TokenChance } from '../../engine/addon.js';
import type { TokenAlternatives } from '../../engine/model.js';
import { given } from '../../given.js';
import type { HostReply } from '../../host/host-request.js';
import type { HostedModel } from '../../host/hosted-model.js';
import { invalid, ofMember, unsupported } from '../failures.js';
import { fingerprintOf } from './chat.js';
import {
  drawIds,
  openModel,
  promptIdsOf,
  requireDrawTokens,
  requirePromptIds,
  type ServerContext,
} from './context.js';
import type { Served } from './models.js';
import { allReplies, streamReplies, type Asking, type Draw } from './replying.js';
import type { Slices } from '../time-slices.js';
import type { CompletionBody } from './requests.js';
import { drawSettings, grammarOf } from './sampling.js';
import { alternativesOf } from './scoring.js';
import {
  DONE,
  eventOf,
  activityOf,
  finite,
  newId,
  promptLogprobs,
  sampledChances,
  sumOf,
  unixSeconds,
  usageOf,
  usageSoFar,
} from './shapes.js';
import { namesOf, TokenOffsets } from './token-text.js';

/** OpenAI's default for max_tokens. */
const DEFAULT_TOKENS = 16;

type Prompts = CompletionBody['prompt'];

/** A text, or token ids, and no list of such. */
export const isOne = (prompt: Prompts): prompt is string | number[] =>
  typeof prompt === 'string' || typeof prompt[0] === 'number';
/** Splits prompts into one text or list of token ids each. */
export const promptsOf = (prompt: Prompts): (string | readonly number[])[] =>
  isOne(prompt) ? [prompt] : prompt;

interface PlannedDraw extends Draw {
  readonly tokenIds: Int32Array | readonly number[];
}

interface CompletionPlan {
  readonly prompts: readonly (string | readonly number[])[];
  /** Draws, those of the first prompt first. */
  readonly draws: readonly PlannedDraw[];
  /** Draws a prompt. */
  readonly drawn: number;
  /** Number of a prompt's draws that are returned: the best ones. */
  readonly choices: number;
}

/**
 * A text between two others, in the order that models are trained on: what is before, what is
 * behind, and then what is missing.
 */
async function infillIds(
  served: Served,
  asking: Asking,
  before: Int32Array | readonly number[],
  suffix: string,
): Promise<Int32Array> {
  const { infillTokens, info } = served.model;
  if (infillTokens === null)
    throw unsupported(
      'suffix',
      'suffix: the vocabulary of this model has no tokens to fill in the middle of a text',
    );
  const begins = info.addBos && before[0] === info.bos ? 1 : 0;
  const behind = await promptIdsOf(served, asking, 'suffix', { text: suffix });
  return Int32Array.from([
    ...before.slice(0, begins),
    infillTokens.prefix,
    ...before.slice(begins),
    infillTokens.suffix,
    ...behind.subarray(info.addBos && behind[0] === info.bos ? 1 : 0),
    infillTokens.middle,
  ]);
}

/** @throws RequestFailure, IsoproError */
async function planCompletion(
  context: ServerContext,
  served: Served,
  asking: Asking,
  body: CompletionBody,
): Promise<CompletionPlan> {
  const { n: choices = 1, best_of: drawn = choices, suffix = '' } = body;
  if (drawn < choices)
    throw invalid('best_of', `best_of: ${drawn} is less than n, which is ${choices}`);
  if (drawn > choices && body.stream === true)
    throw unsupported(
      'best_of',
      'best_of: not supported with stream, since all replies have to end first',
    );
  if (body.max_tokens === 0 && body.echo !== true)
    throw invalid(
      'max_tokens',
      'max_tokens: 0 is allowed only with echo: true, which scores the prompt',
    );
  if (suffix !== '' && body.echo === true)
    throw unsupported('echo', 'echo: not supported with suffix');
  if (body.stream === true && (body.echo === true || body.prompt_logprobs !== undefined))
    throw unsupported(
      body.echo === true ? 'echo' : 'prompt_logprobs',
      'echo and prompt_logprobs: not supported with stream',
    );
  requireDrawTokens(served, body);
  const grammar = await ofMember('response_format', () => grammarOf(body.response_format));
  const settings = {
    ...drawSettings(
      body,
      Math.min(body.max_tokens ?? DEFAULT_TOKENS, context.mostTokens),
      body.logprobs,
    ),
    ...given({ grammar }),
  };
  const prompts = promptsOf(body.prompt);
  if (prompts.length * drawn > 256) {
    const count = drawn > choices ? 'best_of' : 'n';
    throw invalid(count, `${count}: prompts times ${count} may be at most 256`);
  }
  const draws: PlannedDraw[] = [];
  for (const [at, prompt] of prompts.entries()) {
    const param = isOne(body.prompt) ? 'prompt' : `prompt[${at}]`;
    const before =
      typeof prompt === 'string'
        ? await promptIdsOf(served, asking, param, { text: prompt })
        : await requirePromptIds(served, param, prompt);
    const tokenIds = suffix === '' ? before : await infillIds(served, asking, before, suffix);
    for (const id of drawIds(context, body.seed, drawn)) draws.push({ ...settings, tokenIds, id });
  }
  return { prompts, draws, drawn, choices };
}

interface TextLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[] | null;
  readonly text_offset: readonly number[];
}

/** A token of a prompt or a reply; without a log-probability where it follows nothing. */
interface TextToken {
  readonly tokenId: number;
  readonly isPrompt?: boolean;
  readonly logprob: number | null;
  readonly topLogprobs?: readonly TokenChance[];
}

/** Options of log-probabilities: the number of likeliest tokens, and how tokens are named. */
type AskedLogprobs = Pick<CompletionBody, 'logprobs' | 'return_tokens_as_token_ids'>;

/**
 * Log-probabilities of the likeliest tokens and of the actual one, by name; of two tokens with the
 * same name the likelier.
 */
function byName(
  model: HostedModel,
  { tokenId, logprob, topLogprobs = [] }: TextToken,
  asked: AskedLogprobs,
): Record<string, number> | null {
  if (logprob === null) return null;
  const chances = [...topLogprobs.slice(0, asked.logprobs), { tokenId, logprob }].reverse();
  return Object.fromEntries(
    chances.map((chance) => [namesOf(asked)(model, chance.tokenId), finite(chance.logprob)]),
  );
}

async function chosenLogprobs(
  slices: Slices,
  model: HostedModel,
  of: readonly TextToken[],
  asked: AskedLogprobs,
  offsets: TokenOffsets,
): Promise<TextLogprobs> {
  // vLLM tells the token itself where none of the likeliest is asked for, and clients of its
  // dialect count on it; OpenAI tells nothing.
  const tellsNone = asked.logprobs === 0 && asked.return_tokens_as_token_ids !== true;
  return {
    tokens: of.map(({ tokenId }) => namesOf(asked)(model, tokenId)),
    token_logprobs: of.map(({ logprob }) => (logprob === null ? null : finite(logprob))),
    top_logprobs: tellsNone ? null : await slices.map(of, (token) => byName(model, token, asked)),
    text_offset: await slices.map(of, ({ tokenId, isPrompt = false }) =>
      offsets.next(tokenId, isPrompt),
    ),
  };
}

/** Text and tokens before a reply that continues its prompt. */
interface Echo {
  readonly text: string;
  readonly tokens: readonly TextToken[];
  /** Characters of the tokens that precede the text. */
  readonly before: number;
}
const NO_ECHO: Echo = { text: '', tokens: [], before: 0 };

/** @param alternatives of all tokens but the first */
function echoOf(
  model: HostedModel,
  prompt: string | readonly number[],
  ids: Int32Array,
  alternatives: readonly TokenAlternatives[] = [],
): Echo {
  const rest = alternatives.map(({ tokenId, logprob, top }) => ({
    tokenId,
    logprob,
    topLogprobs: top,
    isPrompt: true,
  }));
  if (typeof prompt !== 'string') {
    const text = model.detokenize(ids, { withControl: true });
    return {
      text,
      tokens: [{ tokenId: ids[0]!, logprob: null, isPrompt: true }, ...rest],
      before: 0,
    };
  }
  // The token that begins every text is no part of this one.
  const tokens = model.info.addBos
    ? rest
    : [{ tokenId: ids[0]!, logprob: null, isPrompt: true }, ...rest];
  const before =
    model.detokenize(model.info.addBos ? ids.subarray(1) : ids, { withControl: true }).length -
    prompt.length;
  return { text: prompt, tokens, before: Math.max(0, before) };
}

/** Reply for a text that is scored and not continued. */
const nothingDrawn = ({ tokenIds }: PlannedDraw): HostReply => ({
  promptIds: Int32Array.from(tokenIds),
  tokenIds: new Int32Array(),
  text: '',
  logprobs: new Float32Array(),
  sampledLogprobs: new Float32Array(),
  finish: 'length',
  seed: '0',
  adapterId: null,
  reusedTokens: 0,
});

const headOf = (body: CompletionBody, served: Served): object => ({
  id: newId('cmpl'),
  object: 'text_completion',
  created: unixSeconds(),
  model: body.model,
  system_fingerprint: fingerprintOf(served),
});

export async function completeText(
  context: ServerContext,
  body: CompletionBody,
  asking: Asking,
): Promise<object> {
  using served = await openModel(context, body, asking);
  const { prompts, draws, drawn, choices } = await planCompletion(context, served, asking, body);
  const { model } = served;
  const { slices, signal } = asking;
  const replies = byPrompt(
    body.max_tokens === 0 ? draws.map(nothingDrawn) : await allReplies(served, draws, asking),
    drawn,
  );
  const told = [body.prompt_logprobs, body.echo === true ? body.logprobs : undefined].filter(
    (count) => count !== undefined,
  );
  /** Alternatives by prompt. */
  const scores: TokenAlternatives[][] = [];
  for (const [first] of told.length > 0 ? replies : [])
    scores.push(await alternativesOf(served, first!.promptIds, Math.max(...told), signal));

  const choiceOf = async (reply: HostReply, prompt: number, index: number): Promise<object> => {
    const echo =
      body.echo === true
        ? echoOf(model, prompts[prompt]!, reply.promptIds, scores[prompt])
        : NO_ECHO;
    return {
      index,
      text: echo.text + reply.text,
      logprobs:
        body.logprobs === undefined
          ? null
          : await chosenLogprobs(
              slices,
              model,
              [...echo.tokens, ...sampledChances(reply)],
              body,
              new TokenOffsets(model, echo.before),
            ),
      finish_reason: reply.finish,
      ...activityOf(reply),
      ...(body.return_token_ids === true && {
        token_ids: [...reply.tokenIds],
        prompt_token_ids: [...reply.promptIds],
      }),
      ...(body.prompt_logprobs !== undefined && {
        prompt_logprobs: await promptLogprobs(slices, model, scores[prompt]!, body.prompt_logprobs),
      }),
    };
  };
  const chosen: object[] = [];
  for (const [prompt, drawings] of replies.entries())
    for (const reply of best(drawings, choices))
      chosen.push(await choiceOf(reply, prompt, chosen.length));
  return { ...headOf(body, served), choices: chosen, usage: sumOf(replies.map(usageOf)) };
}

const byPrompt = (replies: readonly HostReply[], drawn: number): HostReply[][] =>
  Array.from({ length: replies.length / drawn }, (_, prompt) =>
    replies.slice(prompt * drawn, (prompt + 1) * drawn),
  );

/** Replies with the highest mean log-probability; sorted by it unless all are wanted. */
function best(replies: readonly HostReply[], count: number): readonly HostReply[] {
  if (count === replies.length) return replies;
  const mean = ({ logprobs }: HostReply): number =>
    logprobs.reduce((sum, logprob) => sum + logprob, 0) / Math.max(1, logprobs.length);
  return [...replies].sort((a, b) => mean(b) - mean(a)).slice(0, count);
}

export async function* streamText(
  context: ServerContext,
  body: CompletionBody,
  asking: Asking,
): AsyncGenerator<string, void, undefined> {
  using served = await openModel(context, body, asking);
  const { draws, drawn } = await planCompletion(context, served, asking, body);
  const head = headOf(body, served);
  const withUsage = body.stream_options?.include_usage === true;
  const withUsageSoFar = body.stream_options?.continuous_usage_stats === true && withUsage;
  const withIds = body.return_token_ids === true;
  const said = draws.map(() => 0);
  const chunk = (index: number, text: string, more: object = {}): string =>
    eventOf({
      ...head,
      choices: [{ index, text, logprobs: null, finish_reason: null, ...more }],
      ...(withUsage && {
        usage: withUsageSoFar ? usageSoFar(draws[index]!.tokenIds.length, said[index]!) : null,
      }),
    });
  const replies: HostReply[] = [];
  const offsets = draws.map(() => new TokenOffsets(served.model));
  for await (const { index, token, reply } of streamReplies(served, draws, asking)) {
    if (token === undefined) {
      replies[index] = reply;
      yield chunk(index, '', {
        finish_reason: reply.finish,
        ...activityOf(reply),
        ...(withIds && { prompt_token_ids: [...reply.promptIds] }),
      });
      continue;
    }
    said[index]!++;
    const { text } = token;
    const told = {
      ...(body.logprobs !== undefined && {
        logprobs: await chosenLogprobs(asking.slices, served.model, [token], body, offsets[index]!),
      }),
      ...(withIds && { token_ids: [token.tokenId] }),
    };
    if (text !== '' || withUsageSoFar || Object.keys(told).length > 0)
      yield chunk(index, text, told);
  }
  if (withUsage)
    yield eventOf({ ...head, choices: [], usage: sumOf(byPrompt(replies, drawn).map(usageOf)) });
  yield DONE;
}
