/** POST /v1/chat/completions. */
import type { ToolCall } from '../../engine/tool-calls.js';
import type { HostReply, TokenEvent } from '../../host/host-request.js';
import { invalid, unsupported } from '../failures.js';
import { openModel, type ServerContext } from './context.js';
import { planConversation, type ConversationPlan } from './conversation.js';
import type { Served } from './models.js';
import { allReplies, streamReplies, type Asking } from './replying.js';
import type { ChatBody } from './requests.js';
import { scorePrompt } from './scoring.js';
import {
  DONE,
  activityOf,
  eventOf,
  newId,
  tokenLogprob,
  textLogprobs,
  tokenLogprobs,
  unixSeconds,
  usageOf,
  usageSoFar,
} from './shapes.js';
import { namesOf, TokensOfText } from './token-text.js';
import { CallReader, readReply, type ToolPlan } from './tools.js';

/** @throws RequestFailure, IsoproError */
async function planChat(
  context: ServerContext,
  served: Served,
  asking: Asking,
  body: ChatBody,
): Promise<ConversationPlan> {
  if ((body.top_logprobs ?? 0) > 0 && body.logprobs !== true)
    throw invalid('top_logprobs', 'top_logprobs: requires logprobs: true');
  if (body.prompt_logprobs !== undefined && body.stream === true)
    throw unsupported('prompt_logprobs', 'prompt_logprobs: not supported with stream');
  return planConversation(context, served, asking, {
    messages: body.messages,
    tools: body.tools,
    toolChoice: body.tool_choice,
    parallelCalls: body.parallel_tool_calls,
    format: body.response_format,
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    topLogprobs: body.top_logprobs,
    variables: body.chat_template_kwargs,
    sampling: body,
  });
}

const callShape = ({ name, arguments: given }: ToolCall) => ({
  id: newId('call'),
  type: 'function',
  function: { name, arguments: given },
});

/**
 * Whether log-probabilities are those of all tokens: vLLM's clients that ask for token ids rely on
 * it; OpenAI reports those of the content.
 */
const ofAllTokens = (body: ChatBody): boolean =>
  body.return_token_ids === true || body.return_tokens_as_token_ids === true;

const finishOf = ({ finish }: HostReply, called: boolean): HostReply['finish'] | 'tool_calls' =>
  finish === 'stop' && called ? 'tool_calls' : finish;

async function choiceOf(
  served: Served,
  tools: ToolPlan | null,
  body: ChatBody,
  reply: HostReply,
  index: number,
  { slices }: Asking,
) {
  const { text: content, calls } = readReply(tools, reply.text);
  const logprobs = body.logprobs === true && {
    content: await (ofAllTokens(body)
      ? tokenLogprobs(slices, served.model, reply, namesOf(body))
      : textLogprobs(slices, served.model, reply, content, namesOf(body))),
    refusal: null,
  };
  return {
    index,
    message: {
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content,
      refusal: null,
      ...(calls.length > 0 && { tool_calls: calls.map(callShape) }),
    },
    logprobs: logprobs || null,
    finish_reason: finishOf(reply, calls.length > 0),
    ...activityOf(reply),
    ...(body.return_token_ids === true && { token_ids: [...reply.tokenIds] }),
  };
}

/** Names model, template and adapter, on which a reply depends in addition to the request. */
export const fingerprintOf = ({ model, adapter }: Served): string =>
  `iso-${model.rendererId.slice(0, 8)}-${adapter?.id.slice(0, 12) ?? 'base'}`;

export async function completeChat(context: ServerContext, body: ChatBody, asking: Asking) {
  using served = await openModel(context, body, asking);
  const { draws, tools } = await planChat(context, served, asking, body);
  const replies = await allReplies(served, draws, asking);
  const choices: Awaited<ReturnType<typeof choiceOf>>[] = [];
  for (const [index, reply] of replies.entries())
    choices.push(await choiceOf(served, tools, body, reply, index, asking));
  return {
    id: newId('chatcmpl'),
    object: 'chat.completion',
    created: unixSeconds(),
    model: body.model,
    system_fingerprint: fingerprintOf(served),
    choices,
    usage: usageOf(replies),
    ...(body.return_token_ids === true && { prompt_token_ids: [...replies[0]!.promptIds] }),
    ...(body.prompt_logprobs !== undefined && {
      prompt_logprobs: await scorePrompt(
        served,
        replies[0]!.promptIds,
        body.prompt_logprobs,
        asking,
      ),
    }),
  };
}

interface Delta {
  readonly content?: string;
  readonly tool_calls?: readonly object[];
}

/** A choice of a stream: separates the text of its tokens from calls. */
class ChoiceStream {
  readonly #reader: CallReader | null;
  #calls = 0;

  constructor(tools: ToolPlan | null) {
    this.#reader = tools === null ? null : new CallReader();
  }

  deltas(piece: string): Delta[] {
    return this.#told(
      this.#reader === null ? { text: piece, calls: [] } : this.#reader.read(piece),
    );
  }

  rest(): Delta[] {
    return this.#told(this.#reader?.rest() ?? { text: '', calls: [] });
  }

  #told({ text, calls }: ReturnType<CallReader['read']>): Delta[] {
    return [
      ...(text === '' ? [] : [{ content: text }]),
      ...calls.map((call) => ({ tool_calls: [{ index: this.#calls++, ...callShape(call) }] })),
    ];
  }

  get called(): boolean {
    return this.#calls > 0;
  }
}

export async function* streamChat(
  context: ServerContext,
  body: ChatBody,
  asking: Asking,
): AsyncGenerator<string, void, undefined> {
  using served = await openModel(context, body, asking);
  const { draws, tools, promptIds } = await planChat(context, served, asking, body);
  const head = {
    id: newId('chatcmpl'),
    object: 'chat.completion.chunk',
    created: unixSeconds(),
    model: body.model,
    system_fingerprint: fingerprintOf(served),
  };
  const withUsage = body.stream_options?.include_usage === true;
  const withIds = body.return_token_ids === true;
  const withLogprobs = body.logprobs === true;
  const withUsageSoFar = body.stream_options?.continuous_usage_stats === true && withUsage;
  const said = draws.map(() => 0);
  const chunk = (index: number, delta: object, more: object = {}, ofAll: object = {}): string =>
    eventOf({
      ...head,
      choices: [{ index, delta, logprobs: null, finish_reason: null, ...more }],
      ...(withUsage && {
        usage: withUsageSoFar ? usageSoFar(promptIds.length, said[index]!) : null,
      }),
      ...ofAll,
    });

  const choices = draws.map(() => new ChoiceStream(tools));
  const ofContent = draws.map(() => new TokensOfText<TokenEvent>(served.model));
  const logprobsOf = (of: readonly TokenEvent[]): object => ({
    ...(withLogprobs &&
      of.length > 0 && {
        logprobs: {
          content: of.map((each) => tokenLogprob(served.model, each, namesOf(body))),
          refusal: null,
        },
      }),
  });
  const toldBy = (index: number, { content = '' }: Delta): readonly TokenEvent[] =>
    ofContent[index]!.tell(content);
  const begun = new Set<number>();
  const replies: HostReply[] = [];
  for await (const { index, token, reply } of streamReplies(served, draws, asking)) {
    const choice = choices[index]!;
    if (!begun.has(index)) {
      begun.add(index);
      yield chunk(
        index,
        { role: 'assistant', content: '' },
        {},
        withIds && begun.size === 1 ? { prompt_token_ids: [...promptIds] } : {},
      );
    }
    if (token !== undefined) {
      said[index]!++;
      ofContent[index]!.draw(token);
      const deltas = choice.deltas(token.text);
      const [first = {}, ...rest] = deltas;
      const covered = toldBy(index, first);
      const told = {
        ...logprobsOf(ofAllTokens(body) ? [token] : covered),
        ...(withIds && { token_ids: [token.tokenId] }),
      };
      if (deltas.length > 0 || Object.keys(told).length > 0 || withUsageSoFar)
        yield chunk(index, first, told);
      for (const delta of rest) yield chunk(index, delta);
    } else {
      replies[index] = reply;
      for (const delta of choice.rest()) {
        const covered = toldBy(index, delta);
        yield chunk(index, delta, ofAllTokens(body) ? {} : logprobsOf(covered));
      }
      const ended = { finish_reason: finishOf(reply, choice.called), ...activityOf(reply) };
      yield chunk(index, {}, ended);
    }
  }
  if (withUsage) yield eventOf({ ...head, choices: [], usage: usageOf(replies) });
  yield DONE;
}
