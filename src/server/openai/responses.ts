/**
 * POST /v1/responses: a conversation as items, which newer clients ask by default. Nothing is kept
 * between two requests.
 */
import type { ReadMessage } from '../../engine/messages.js';
import type { ToolCall } from '../../engine/tool-calls.js';
import { given as stated } from '../../given.js';
import type { HostReply, TokenEvent } from '../../host/host-request.js';
import { invalid, RequestFailure, unsupported } from '../failures.js';
import { openModel, type ServerContext } from './context.js';
import {
  planConversation,
  type ConversationPlan,
  type ConversationRequest,
} from './conversation.js';
import type { Served } from './models.js';
import { allReplies, streamReplies, type Asking } from './replying.js';
import type { ResponseBody, ResponseFormatBody } from './requests.js';
import { newId, textLogprobs, tokenLogprob, unixSeconds, type TokenLogprob } from './shapes.js';
import { TokensOfText } from './token-text.js';
import { CallReader, readReply } from './tools.js';

/**
 * Items as the messages of a chat; what the assistant said and the calls after it are one. What it
 * thought is no message.
 */
function messagesOf(input: ResponseBody['input'], instructions: string | undefined): ReadMessage[] {
  const messages: ReadMessage[] = [];
  const say = (role: ReadMessage['role'], content: string, more: Partial<ReadMessage> = {}): void =>
    void messages.push({ role, content, calls: [], isResult: false, ...more });
  if (instructions !== undefined) say('system', instructions);
  if (typeof input === 'string') say('user', input);
  else
    for (const item of input) {
      if (item.type === 'reasoning' || item.type === 'item_reference') continue;
      if (item.type === 'function_call') {
        const call = { name: item.name, arguments: item.arguments };
        const before = messages.at(-1);
        if (before?.role === 'assistant')
          messages[messages.length - 1] = { ...before, calls: [...before.calls, call] };
        else say('assistant', '', { calls: [call] });
      } else if (item.type === 'function_call_output') say('tool', item.output, { isResult: true });
      else say(item.role === 'developer' ? 'system' : item.role, item.content);
    }
  return messages;
}

type Format = NonNullable<ResponseBody['text']>['format'];

/** Format in the form of a chat. */
function formatOf(format: Format): ResponseFormatBody | undefined {
  if (format === undefined || format.type === 'text') return format;
  return format.type === 'json_object'
    ? { type: 'json_object', schema: undefined }
    : { type: 'json_schema', schema: format.schema, json_schema: undefined };
}

/** @throws RequestFailure, IsoproError */
async function planResponse(
  context: ServerContext,
  served: Served,
  asking: Asking,
  body: ResponseBody,
): Promise<ConversationPlan> {
  const { tool_choice: choice } = body;
  if ((body.top_logprobs ?? 0) > 0 && !withLogprobs(body))
    throw invalid(
      'top_logprobs',
      "top_logprobs: requires include: ['message.output_text.logprobs']",
    );
  if (body.store === true) throw unsupported('store', 'store: this server keeps no responses');
  const conversation: ConversationRequest = {
    messages: messagesOf(body.input, body.instructions),
    tools: body.tools?.map(({ type, ...tool }) => ({ type, function: tool })),
    toolChoice:
      typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice,
    parallelCalls: body.parallel_tool_calls,
    format: formatOf(body.text?.format),
    maxTokens: body.max_output_tokens,
    topLogprobs: body.top_logprobs,
    sampling: body,
  };
  try {
    return await planConversation(context, served, asking, conversation);
  } catch (error) {
    throw error instanceof RequestFailure ? ofResponse(error) : error;
  }
}

/** A chat's members by the names that they have here. */
const NAMES: readonly (readonly [chat: RegExp, response: string])[] = [
  [/^messages$/, 'input'],
  [/^response_format\b/, 'text.format'],
  [/^(tools\[\d+\])\.function\./, '$1.'],
];

/** A failure of a chat, by the member that was sent. */
function ofResponse(failure: RequestFailure): RequestFailure {
  const { status, message, param, code, retryAfter } = failure;
  if (param === null) return failure;
  const name = NAMES.reduce((said, [chat, response]) => said.replace(chat, response), param);
  const renamed = message.startsWith(param) ? `${name}${message.slice(param.length)}` : message;
  return new RequestFailure(status, renamed, code, { param: name, retryAfter });
}

interface OutputText {
  readonly type: 'output_text';
  readonly text: string;
  readonly annotations: readonly never[];
  readonly logprobs?: readonly TokenLogprob[];
}
type Item =
  | {
      readonly type: 'message';
      readonly id: string;
      readonly status: string;
      readonly role: 'assistant';
      readonly content: readonly OutputText[];
    }
  | {
      readonly type: 'function_call';
      readonly id: string;
      readonly call_id: string;
      readonly name: string;
      readonly arguments: string;
      readonly status: string;
    };

const message = (
  id: string,
  status: string,
  text: string,
  logprobs: readonly TokenLogprob[] | undefined,
): Item => ({
  type: 'message',
  id,
  status,
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [], ...stated({ logprobs }) }],
});
const callItem = (
  { name, arguments: given }: ToolCall,
  isCut: boolean,
): Item & { type: 'function_call' } => ({
  type: 'function_call',
  id: newId('fc'),
  call_id: newId('call'),
  name,
  arguments: given,
  status: isCut ? 'incomplete' : 'completed',
});

const withLogprobs = ({ include = [] }: ResponseBody): boolean =>
  include.includes('message.output_text.logprobs');
const statusOf = ({ finish }: HostReply): 'completed' | 'incomplete' =>
  finish === 'stop' ? 'completed' : 'incomplete';

/** The whole response at a moment; without a reply it is in progress. */
function responseOf(
  id: string,
  created: number,
  body: ResponseBody,
  output: readonly Item[],
  reply?: HostReply,
): object {
  const status = reply === undefined ? 'in_progress' : statusOf(reply);
  return {
    id,
    object: 'response',
    created_at: created,
    status,
    error: null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    model: body.model,
    output,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    store: false,
    temperature: body.temperature ?? 1,
    text: body.text ?? { format: { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_p: body.top_p ?? 1,
    truncation: 'disabled',
    metadata: body.metadata ?? {},
    user: body.user ?? null,
    usage:
      reply === undefined
        ? null
        : {
            input_tokens: reply.promptIds.length,
            input_tokens_details: { cached_tokens: reply.reusedTokens },
            output_tokens: reply.tokenIds.length,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: reply.promptIds.length + reply.tokenIds.length,
          },
  };
}

/** Messages and calls of a reply. */
async function outputOf(
  served: Served,
  { tools }: ConversationPlan,
  body: ResponseBody,
  reply: HostReply,
  { slices }: Asking,
): Promise<Item[]> {
  const { text: said, calls, isCut } = readReply(tools, reply.text);
  const logprobs = withLogprobs(body)
    ? await textLogprobs(slices, served.model, reply, said)
    : undefined;
  // What was said before a call is whole, whatever has become of the call.
  const status = calls.length > 0 ? 'completed' : statusOf(reply);
  return [
    ...(said === '' && calls.length > 0 ? [] : [message(newId('msg'), status, said, logprobs)]),
    ...calls.map((call) => callItem(call, isCut && call === calls.at(-1))),
  ];
}

export async function respond(
  context: ServerContext,
  body: ResponseBody,
  asking: Asking,
): Promise<object> {
  using served = await openModel(context, body, asking);
  const plan = await planResponse(context, served, asking, body);
  const [reply] = await allReplies(served, plan.draws, asking);
  return responseOf(
    newId('resp'),
    unixSeconds(),
    body,
    await outputOf(served, plan, body, reply!, asking),
    reply,
  );
}

const eventOf = (type: string, number: number, value: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...value })}\n\n`;

export const errorEvent = ({ message: text, code, param }: RequestFailure): string =>
  eventOf('error', 0, { code, message: text, param });

export async function* streamResponse(
  context: ServerContext,
  body: ResponseBody,
  asking: Asking,
): AsyncGenerator<string, void, undefined> {
  using served = await openModel(context, body, asking);
  const { draws, tools } = await planResponse(context, served, asking, body);
  const [id, created] = [newId('resp'), unixSeconds()];
  const output: Item[] = [];
  let events = 0;
  const event = (type: string, value: object): string =>
    eventOf(`response.${type}`, events++, value);

  const reader = new CallReader();
  let said: { readonly id: string; text: string; logprobs: TokenLogprob[] } | undefined;
  /** Place of the message that is being written. */
  const place = (): object => ({
    item_id: said!.id,
    output_index: output.length,
    content_index: 0,
  });
  const part = (text: string): OutputText => ({ type: 'output_text', text, annotations: [] });
  function* say(text: string, logprobs: readonly TokenLogprob[]): Generator<string> {
    if (said === undefined) {
      said = { id: newId('msg'), text: '', logprobs: [] };
      const item = { ...message(said.id, 'in_progress', '', undefined), content: [] };
      yield event('output_item.added', { output_index: output.length, item });
      yield event('content_part.added', { ...place(), part: part('') });
    }
    said.text += text;
    said.logprobs.push(...logprobs);
    yield event('output_text.delta', { ...place(), delta: text, logprobs });
  }
  function* endMessage(status: string): Generator<string> {
    if (said === undefined) return;
    const logprobs = withLogprobs(body) ? said.logprobs : undefined;
    yield event('output_text.done', { ...place(), text: said.text, logprobs: said.logprobs });
    yield event('content_part.done', { ...place(), part: part(said.text) });
    const item = message(said.id, status, said.text, logprobs);
    yield event('output_item.done', { output_index: output.length, item });
    output.push(item);
    said = undefined;
  }
  function* call(made: ToolCall): Generator<string> {
    yield* endMessage('completed');
    const item = callItem(made, reader.isCut);
    const at = { item_id: item.id, output_index: output.length };
    yield event('output_item.added', {
      output_index: output.length,
      item: { ...item, arguments: '', status: 'in_progress' },
    });
    yield event('function_call_arguments.delta', { ...at, delta: item.arguments });
    yield event('function_call_arguments.done', {
      ...at,
      name: item.name,
      arguments: item.arguments,
    });
    yield event('output_item.done', { output_index: output.length, item });
    output.push(item);
  }

  const ofText = new TokensOfText<TokenEvent>(served.model);
  const logprobsOf = (text: string): TokenLogprob[] =>
    withLogprobs(body) ? ofText.tell(text).map((each) => tokenLogprob(served.model, each)) : [];
  let begun = false;
  for await (const { token, reply } of streamReplies(served, draws, asking)) {
    if (!begun) {
      begun = true;
      yield event('created', { response: responseOf(id, created, body, []) });
      yield event('in_progress', { response: responseOf(id, created, body, []) });
    }
    if (token !== undefined) {
      const { text, calls } =
        tools === null ? { text: token.text, calls: [] } : reader.read(token.text);
      ofText.draw(token);
      if (text !== '') yield* say(text, logprobsOf(text));
      for (const made of calls) yield* call(made);
      continue;
    }
    const rest = reader.rest();
    for (const made of rest.calls) yield* call(made);
    if (rest.text !== '' || (said === undefined && output.length === 0))
      yield* say(rest.text, logprobsOf(rest.text));
    yield* endMessage(statusOf(reply));
    yield event(statusOf(reply), { response: responseOf(id, created, body, output, reply) });
  }
}
