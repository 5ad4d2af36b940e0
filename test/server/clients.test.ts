/**
 * Clients that no one here wrote, unchanged, against the server: what they give is what the library
 * gives.
 */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, generateObject, generateText, streamText, tool } from 'ai';
import OpenAI, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
} from 'openai';
import { z } from 'zod';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  ModelHost,
  type HostedAdapter,
  type HostedModel,
  type HostReply,
  type HostRequest,
} from '../../src/index.js';
import { hashKey } from '../../src/server/keys.js';
import type { Server } from '../../src/server/server.js';
import type { Parsed } from '../models/parsed.js';
import {
  adapterFile,
  ADMIN,
  asAdmin,
  closeAll,
  file,
  folder,
  reported,
  send,
  start,
  UNDISTURBED,
  untilIdle,
  type Answer,
} from '../models/server.js';

(globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;
const KEY = 'a-key-of-the-clients';

let server: Server;
let host: ModelHost;
let direct: HostedModel;
let adapter: HostedAdapter;
let client: OpenAI;
beforeAll(async () => {
  const sql = adapterFile('sql', 3n);
  server = await start({
    adapters: [{ name: 'org/sql', file: sql }],
    keys: [hashKey('clients', KEY, ['infer', 'read']), hashKey('admin', ADMIN, ['admin'])],
  });
  host = new ModelHost();
  direct = await host.load(file, { ...UNDISTURBED, contextTokens: 4096 });
  adapter = await direct.loadAdapter(sql);
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 });
});
afterAll(async () => {
  await closeAll();
  await host.dispose();
  expect(reported).toEqual([]);
});

const messages = [{ role: 'user' as const, content: 'Name a river.' }];
const expected = (request: HostRequest = {}): Promise<HostReply> =>
  direct.generate({
    messages,
    maxTokens: 10,
    sampling: { seed: 5 },
    id: '0',
    whenContextFull: 'stop',
    ...request,
  });
const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', enum: ['Rome', 'Oslo'] } },
      required: ['city'],
      additionalProperties: false,
    },
    strict: true,
  },
};

describe('openai for Node', () => {
  const request = { model: 'org/sql', messages, max_completion_tokens: 10, seed: 5 };

  test('lists and retrieves models', async () => {
    const models = [];
    for await (const { id } of client.models.list()) models.push(id);
    expect(models).toEqual(['base', 'org/sql']);
    expect(await client.models.retrieve('org/sql')).toMatchObject({
      id: 'org/sql',
      parent: 'base',
    });
  });

  test('completes a chat, whole and streamed, with an adapter by its name', async () => {
    const reply = await expected({ adapter });
    const whole = await client.chat.completions.create({ ...request, logprobs: true });
    expect(whole.choices[0]!.message.content).toBe(reply.text);
    expect(whole.choices[0]!.logprobs!.content!.map(({ logprob }) => logprob)).toEqual([
      ...reply.logprobs,
    ]);
    expect(whole.usage!.completion_tokens).toBe(reply.tokenIds.length);
    // Its own way of putting a stream together again.
    const stream = client.chat.completions.stream({
      ...request,
      stream_options: { include_usage: true },
    });
    expect((await stream.finalChatCompletion()).choices[0]!.message.content).toBe(reply.text);
    expect((await stream.totalUsage()).completion_tokens).toBe(reply.tokenIds.length);
  });

  test('gets calls of tools, and runs them', async () => {
    const { choices } = await client.chat.completions.create({
      ...request,
      max_completion_tokens: 200,
      tools: [weather],
      tool_choice: 'required',
    });
    const [call] = choices[0]!.message.tool_calls!;
    expect(choices[0]!.finish_reason).toBe('tool_calls');
    expect(call).toMatchObject({ type: 'function', function: { name: 'weather' } });
    const asked: unknown[] = [];
    const runner = client.chat.completions.runTools({
      ...request,
      max_completion_tokens: 200,
      tool_choice: { type: 'function', function: { name: 'weather' } },
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'tells the weather of a city',
            parameters: weather.function.parameters,
            parse: (text: string) => JSON.parse(text) as { city: string },
            function: (given: { city: string }) => {
              asked.push(given);
              return 'sun';
            },
          },
        },
      ],
    });
    await runner.done();
    expect(asked).toEqual([{ city: expect.stringMatching(/^(Rome|Oslo)$/) }]);
  });

  test('gets JSON of a schema', async () => {
    const schema = {
      type: 'object',
      properties: { large: { type: 'boolean' } },
      required: ['large'],
      additionalProperties: false,
    };
    const { choices } = await client.chat.completions.parse({
      ...request,
      max_completion_tokens: 60,
      response_format: { type: 'json_schema', json_schema: { name: 'size', strict: true, schema } },
    });
    expect(choices[0]!.message.parsed).toEqual({ large: expect.any(Boolean) });
  });

  test('completes texts, and embeds them in the form that it asks for', async () => {
    const { choices } = await client.completions.create({
      model: 'base',
      prompt: 'The river',
      max_tokens: 5,
      seed: 5,
    });
    expect(choices[0]!.text).toBe(
      (await direct.generate({ text: 'The river', maxTokens: 5, sampling: { seed: 5 }, id: '0' }))
        .text,
    );
    const { data } = await client.embeddings.create({ model: 'base', input: 'a river' });
    expect(data[0]!.embedding).toEqual([...(await direct.embed(['a river'])).rows[0]!]);
  });

  test('gets responses, whole and streamed: text, calls, JSON, and what was said before', async () => {
    const { seed: _, max_completion_tokens: max_output_tokens, messages: input, ...rest } = request;
    const asked = { ...rest, input, max_output_tokens, seed: 5 };
    const { text } = await expected({ adapter });
    const whole = await client.responses.create(asked);
    expect([whole.output_text, whole.status, whole.usage!.output_tokens]).toEqual([
      text,
      'incomplete',
      10,
    ]);
    const stream = client.responses.stream(asked);
    const types: string[] = [];
    const pieces: string[] = [];
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === 'response.output_text.delta') pieces.push(event.delta);
    }
    // As OpenAI writes them: each part is begun, ended, and told as a whole.
    expect([...new Set(types)]).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.incomplete',
    ]);
    expect([pieces.join(''), (await stream.finalResponse()).output_text]).toEqual([text, text]);

    const tools = [
      {
        type: 'function' as const,
        name: 'weather',
        parameters: weather.function.parameters,
        strict: true,
      },
    ];
    const calling = { ...asked, max_output_tokens: 200, tools, tool_choice: 'required' as const };
    const called = await client.responses.create(calling);
    const [call] = called.output;
    expect(call).toMatchObject({
      type: 'function_call',
      name: 'weather',
      arguments: expect.stringMatching(/^{"city":"(Rome|Oslo)"}$/),
    });
    const again = await client.responses.stream(calling).finalResponse();
    const withoutIds = (items: object[]): object[] =>
      items.map((item) => ({ ...item, id: '', call_id: '', parsed_arguments: undefined }));
    expect(withoutIds(again.output)).toEqual(withoutIds(called.output));

    // The conversation goes on, with what came before it as it is.
    const after = await client.responses.create({
      ...asked,
      instructions: 'Be brief.',
      input: [
        ...input,
        call as OpenAI.Responses.ResponseFunctionToolCall,
        { type: 'function_call_output', call_id: 'call', output: 'sun' },
      ],
    });
    const city = (call as { arguments: string }).arguments;
    const reply = await expected({
      adapter,
      messages: [
        { role: 'system', content: 'Be brief.' },
        messages[0]!,
        {
          role: 'assistant',
          content: `<tool_call>\n{"name":"weather","arguments":${city}}\n</tool_call>`,
        },
        { role: 'user', content: '<tool_response>\nsun\n</tool_response>' },
      ],
    });
    expect(after.output_text).toBe(reply.text);

    const schema = {
      type: 'object',
      properties: { large: { type: 'boolean' } },
      required: ['large'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema' as const, name: 'size', strict: true, schema };
    const sized = await client.responses.parse({
      ...asked,
      max_output_tokens: 60,
      text: { format },
    });
    expect([sized.output_parsed, sized.status]).toEqual([
      { large: expect.any(Boolean) },
      'completed',
    ]);
    for (const more of [{ store: true }, { previous_response_id: 'resp_1' }])
      await expect(client.responses.create({ ...asked, ...more })).rejects.toMatchObject({
        code: 'unsupported_parameter',
      });
  });

  test('throws its own errors', async () => {
    await expect(client.chat.completions.create({ ...request, model: 'none' })).rejects.toThrow(
      NotFoundError,
    );
    await expect(
      client.chat.completions.create({ ...request, top_logprobs: 2 }),
    ).rejects.toMatchObject({
      constructor: BadRequestError,
      param: 'top_logprobs',
      code: 'invalid_value',
    });
    const stranger = new OpenAI({
      baseURL: `${server.url}/v1`,
      apiKey: 'some-key-of-nobody',
      maxRetries: 0,
    });
    await expect(stranger.models.list()).rejects.toThrow(AuthenticationError);
  });

  test('leaves a stream, whose reply then ends', async () => {
    const stream = await client.chat.completions.create({
      ...request,
      max_completion_tokens: 400,
      stream: true,
    });
    for await (const _chunk of stream) break;
    await untilIdle(server);
    const abort = new AbortController();
    const left = client.chat.completions.create(
      { ...request, max_completion_tokens: 400 },
      { signal: abort.signal },
    );
    abort.abort();
    await expect(left).rejects.toThrow(APIUserAbortError);
    await untilIdle(server);
  });
});

describe('the AI SDK', () => {
  const provider = (): ReturnType<typeof createOpenAICompatible> =>
    createOpenAICompatible({
      name: 'isopro',
      baseURL: `${server.url}/v1`,
      apiKey: KEY,
      supportsStructuredOutputs: true,
      includeUsage: true,
    });
  const call = () => ({
    model: provider()('org/sql'),
    prompt: messages[0]!.content,
    maxOutputTokens: 10,
    seed: 5,
    temperature: 1,
  });

  test('generates and streams text, objects, calls of tools, and embeds', async () => {
    const reply = await expected({ adapter });
    expect((await generateText(call())).text).toBe(reply.text);
    const stream = streamText(call());
    let text = '';
    for await (const piece of stream.textStream) text += piece;
    expect(text).toBe(reply.text);
    expect((await stream.usage).outputTokens).toBe(reply.tokenIds.length);

    const schema = z.object({ kind: z.enum(['river', 'city']), count: z.int() });
    const { object } = await generateObject({ ...call(), maxOutputTokens: 120, schema });
    expect(schema.parse(object)).toEqual(object);
    const tools = {
      weather: tool({
        inputSchema: z.object({ city: z.enum(['Rome', 'Oslo']) }),
        execute: ({ city }) => `sun in ${city}`,
      }),
    };
    const { toolCalls, toolResults } = await generateText({
      ...call(),
      maxOutputTokens: 200,
      tools,
      toolChoice: 'required',
    });
    expect(toolResults.map(({ output }) => output)).toEqual(
      toolCalls.map(({ input }) => `sun in ${(input as { city: string }).city}`),
    );
    expect(toolCalls.length).toBeGreaterThan(0);

    const { embedding } = await embed({
      model: provider().embeddingModel('base'),
      value: 'a river',
    });
    expect(embedding).toEqual([...(await direct.embed(['a river'])).rows[0]!]);
  });
});

const run = promisify(execFile);
const body = JSON.stringify({ model: 'org/sql', messages, max_tokens: 10, seed: 5 });

(spawnSync('curl', ['--version']).status === 0 ? test : test.skip)('curl', async () => {
  const { stdout } = await run('curl', [
    '-sS',
    `${server.url}/v1/chat/completions`,
    ...['-H', 'content-type: application/json', '-H', `authorization: Bearer ${KEY}`, '-d', body],
  ]);
  const { choices } = JSON.parse(stdout) as OpenAI.ChatCompletion;
  expect(choices[0]!.message.content).toBe((await expected({ adapter })).text);
});

/**
 * Requests as trl 1.16.0 (its drivers stand in test/real/clients, which holds them against it) and
 * agent-lightning 0.3.0 sent them.
 */
describe('clients of vLLM', () => {
  interface Captured {
    readonly client: string;
    readonly call: string;
    readonly request: string;
    readonly body?: object;
    readonly status: number;
  }
  const captured = JSON.parse(
    readFileSync(new URL('vllm-clients.json', import.meta.url), 'utf8'),
  ) as Captured[];
  let open: Server;
  beforeAll(async () => {
    adapterFile('adapter', 5n);
    open = await start({ adapterFolder: folder });
  });
  const replay = async (client: string, call: string): Promise<Answer> => {
    const { request, body } = captured.find(
      (each) => each.client.startsWith(client) && each.call === call,
    )!;
    const [method, target] = request.split(' ') as [string, string];
    return send(open, target, { method, body, headers: asAdmin });
  };
  const ids = (replies: readonly HostReply[]): number[][] =>
    replies.map(({ tokenIds }) => [...tokenIds]);
  const both = (request: HostRequest): Promise<HostReply[]> =>
    Promise.all(
      ['0', '1'].map((id) =>
        direct.generate({ maxTokens: 4, sampling: { seed: 5 }, id, ...request }),
      ),
    );

  test.each(captured)('$client: $call', async ({ client, call, status }) => {
    const answer = await replay(client, call);
    expect(answer.status).toBe(status);
    if (status !== 200) expect(answer.body.error.code).toEqual(expect.any(String));
  });

  test('trl reads ids and log-probabilities out of the answers', async () => {
    const replies = await both({ tokenIds: [5, 6, 7] });
    const named = replies.map(({ tokenIds }) => [...tokenIds].map((id) => `token_id:${id}`));
    const { choices } = (await replay('trl', 'generate of token ids')).body;
    expect(choices.map((choice: Parsed) => choice.token_ids)).toEqual(ids(replies));
    expect(choices.map((choice: Parsed) => choice.logprobs.tokens)).toEqual(named);
    expect(choices.map((choice: Parsed) => choice.logprobs.top_logprobs)).toEqual(
      replies.map(({ logprobs }, i) =>
        [...logprobs].map((logprob, at) => ({ [named[i]![at]!]: logprob })),
      ),
    );
    const other = (await replay('trl', 'generate with features of none')).body.choices;
    expect(
      other.map((choice: Parsed) => choice.logprobs.content.map(({ token }: Parsed) => token)),
    ).toEqual(named);
    const told = (await replay('trl', 'chat')).body;
    expect(told.choices.map((choice: Parsed) => choice.token_ids)).toEqual(
      ids(await both({ messages })),
    );
    expect(told.choices[0].logprobs.content[0].token).toBe(
      `token_id:${told.choices[0].token_ids[0]}`,
    );
  });

  test('agent-lightning gets the ids of prompt and reply, and their log-probabilities', async () => {
    const [reply] = (await both({ messages })) as [HostReply];
    const { body } = await replay('agent-lightning', 'LLMProxy with return_token_ids and logprobs');
    expect([body.prompt_token_ids, body.choices[0].token_ids]).toEqual([
      [...reply.promptIds],
      [...reply.tokenIds],
    ]);
    expect(body.choices[0].logprobs.content.map(({ logprob }: Parsed) => logprob)).toEqual([
      ...reply.logprobs,
    ]);
  });
});
