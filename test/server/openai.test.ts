/**
 * What the server answers for OpenAI's and vLLM's paths is what the library gives for the same
 * request.
 */
import { CallReader } from '../../src/server/openai/tools.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  ModelHost,
  type HostedAdapter,
  type HostReply,
  type HostRequest,
} from '../../src/index.js';
import { HostedModel } from '../../src/host/hosted-model.js';
import type { Server } from '../../src/server/server.js';
import {
  adapterFile,
  asAdmin,
  eventsOf,
  file,
  folder,
  reported,
  send,
  start,
  UNDISTURBED,
  type Answer,
} from '../models/server.js';

const adapters = [
  { name: 'first', file: adapterFile('first', 3n) },
  { name: 'org/second@v1', file: adapterFile('second', 4n) },
];
let server: Server;
let host: ModelHost;
let direct: HostedModel;
let loaded: HostedAdapter[];
beforeAll(async () => {
  server = await start({ adapters, adapterFolder: folder });
  host = new ModelHost();
  direct = await host.load(file, { ...UNDISTURBED, contextTokens: 4096 });
  loaded = [];
  for (const adapter of adapters) loaded.push(await direct.loadAdapter(adapter.file));
});
afterAll(async () => {
  await server.close(0);
  await host.dispose();
  expect(reported).toEqual([]);
});

const messages = [
  { role: 'system' as const, content: 'Be brief.' },
  { role: 'user' as const, content: 'Name a river.' },
];
const ask = (body: object, to = '/v1/chat/completions'): Promise<Answer> =>
  send(server, to, { body: { model: 'base', ...body } });
const chat = (body: object = {}): Promise<Answer> =>
  ask({ messages, max_tokens: 12, seed: 5, ...body });
const expected = (request: HostRequest = {}): Promise<HostReply> =>
  direct.generate({
    messages,
    maxTokens: 12,
    sampling: { seed: 5 },
    id: '0',
    whenContextFull: 'stop',
    ...request,
  });
/** A part of a character has no text, and is named by its bytes. */
function nameOf(id: number): string {
  const bytes = Buffer.from(direct.bytesOf(id));
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes)
    ? text
    : `bytes:${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}
const failure = ({ status, body }: Answer): unknown[] => [
  status,
  body.error.type,
  body.error.param,
  body.error.code,
];

test('lora selects an adapter at its full strength, by its name or place, or the base', async () => {
  const textOf = async (body: object): Promise<string> =>
    (await chat(body)).body.choices[0].message.content;
  const [base, first, second] = [
    await textOf({}),
    await textOf({ model: 'first' }),
    await textOf({ model: 'org/second@v1' }),
  ];
  expect(new Set([base, first, second]).size).toBe(3);
  for (const [lora, text] of [
    [[], base],
    [[{ name: 'first', scale: 0 }], base],
    [[{ name: 'first' }], first],
    [[{ id: 0, scale: 1 }], first],
    [[{ id: 1, scale: 1 }], second],
    [[{ id: 'org/second@v1' }], second],
  ] as const)
    expect(await textOf({ lora })).toBe(text);
  for (const [lora, status, param] of [
    [[{ name: 'first', scale: 0.5 }], 400, 'lora[0].scale'],
    [[{ id: 0 }, { id: 1 }], 400, 'lora'],
    [[{ id: 7 }], 404, 'lora[0].id'],
    [[{ name: 'none' }], 404, 'lora[0].name'],
    [[{ scale: 1 }], 400, 'lora[0]'],
  ] as const) {
    const answer = await chat({ lora });
    expect([answer.status, answer.body.error.param]).toEqual([status, param]);
  }
  expect((await chat({ model: 'first', lora: [{ id: 1 }] })).body.error.param).toBe('lora');
});

test('chat_template_kwargs are told to the template, which may pass over them; what the server tells it stays', async () => {
  const reply = await expected();
  expect(
    (await chat({ chat_template_kwargs: { enable_thinking: false, tags: ['a', { b: 1 }] } })).body
      .choices[0].message.content,
  ).toBe(reply.text);
  const deep = JSON.parse(`${'['.repeat(20)}${']'.repeat(20)}`) as unknown;
  for (const variables of [
    { messages: [] },
    { bos_token: 'x' },
    { add_generation_prompt: false },
    { 'a b': 1 },
    { deep },
    { x: 'y'.repeat(20_000) },
  ]) {
    const { status, body } = await chat({ chat_template_kwargs: variables });
    expect([status, body.error.param]).toEqual([
      400,
      expect.stringContaining('chat_template_kwargs'),
    ]);
  }
});

test('options of a stream without a stream are refused, as OpenAI does', async () => {
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    const body = {
      ...(path.includes('chat') ? { messages } : { prompt: 'ab' }),
      stream_options: { include_usage: true },
    };
    expect(failure(await ask(body, path)).slice(0, 3)).toEqual([
      400,
      'invalid_request_error',
      'stream_options',
    ]);
  }
});

describe('/v1/models', () => {
  test('lists the base, then the adapters, each with its root and parent; names may have slashes', async () => {
    const { body } = await send(server, '/v1/models');
    expect(body.data.map(({ id, root, parent }: never) => [id, root, parent])).toEqual([
      ['base', 'base', null],
      ['first', loaded[0]!.id, 'base'],
      ['org/second@v1', loaded[1]!.id, 'base'],
    ]);
    expect(body.data[0]).toMatchObject({
      object: 'model',
      owned_by: 'isopro-native',
      max_model_len: 512,
    });
    for (const path of ['org/second@v1', 'org%2Fsecond%40v1'])
      expect((await send(server, `/v1/models/${path}`)).body).toEqual(body.data[2]);
    expect(failure(await send(server, '/v1/models/third'))).toEqual([
      404,
      'not_found_error',
      'model',
      'model_not_found',
    ]);
  });
});

describe('/v1/chat/completions', () => {
  test('gives the reply of the library, its usage and log-probabilities, for each adapter by its name', async () => {
    for (const [model, adapter] of [
      ['base', null],
      ['first', loaded[0]!],
      ['org/second@v1', loaded[1]!],
    ] as const) {
      const reply = await expected({ adapter });
      const { body } = await chat({ model, logprobs: true, return_token_ids: true });
      expect(body).toMatchObject({
        object: 'chat.completion',
        model,
        prompt_token_ids: [...reply.promptIds],
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: reply.text },
            finish_reason: reply.finish,
            token_ids: [...reply.tokenIds],
          },
        ],
        usage: { prompt_tokens: reply.promptIds.length, completion_tokens: reply.tokenIds.length },
      });
      const { content } = body.choices[0].logprobs;
      expect(content.map(({ logprob }: { logprob: number }) => logprob)).toEqual([
        ...reply.logprobs,
      ]);
      expect(content.map(({ token }: { token: string }) => token)).toEqual(
        [...reply.tokenIds].map(nameOf),
      );
    }
  });

  test('draws n replies: those of the library for the same seed, one after the other', async () => {
    const { body } = await chat({ n: 3 });
    const texts = await Promise.all(
      ['0', '1', '2'].map(async (id) => (await expected({ id })).text),
    );
    expect(
      body.choices.map(({ message }: never) => (message as { content: string }).content),
    ).toEqual(texts);
    expect(new Set(texts).size).toBe(3);
    expect(body.usage.completion_tokens).toBe(36);
  });

  test('gives a deterministic reply whatever else runs', async () => {
    const asked = { deterministic: true, logprobs: true, seed: 8 };
    const alone = (await chat(asked)).body.choices;
    const [again] = await Promise.all([
      chat(asked),
      chat({ n: 5, max_tokens: 40 }),
      chat({ n: 3, model: 'first' }),
    ]);
    expect(again.body.choices).toEqual(alone);
    expect(alone[0].message.content).toBe(
      (await expected({ sampling: { seed: 8 }, deterministic: true })).text,
    );
  });

  test('has other draws for each request without a seed', async () => {
    const texts = await Promise.all(
      [1, 2, 3].map(async () => (await chat({ seed: null })).body.choices[0].message.content),
    );
    expect(new Set(texts).size).toBe(3);
  });

  test.each([
    [
      'temperature, top_p, top_k, min_p',
      { temperature: 0.7, top_p: 0.9, top_k: 20, min_p: 0.01 },
      { temperature: 0.7, topP: 0.9, topK: 20, minP: 0.01 },
    ],
    [
      'repetition_penalty over all tokens',
      { repetition_penalty: 1.3 },
      { repeatPenalty: 1.3, repeatWindow: 1_000_000 },
    ],
    ['a negative seed as the same 64 bits', { seed: -1 }, { seed: 2n ** 64n - 1n }],
    [
      'presence_penalty, frequency_penalty, logit_bias',
      { presence_penalty: 2, frequency_penalty: -1, logit_bias: { 40: 6, 50: -100 } },
      { presencePenalty: 2, frequencyPenalty: -1, logitBias: { 40: 6, 50: -100 } },
    ],
    ['top_k -1: off', { top_k: -1 }, {}],
  ])('takes %s', async (_, body, sampling) => {
    const reply = await expected({ sampling: { seed: 5, ...sampling } });
    expect((await chat(body)).body.choices[0].message.content).toBe(reply.text);
  });

  test('ends at stop strings and tokens, at max_tokens, and where the context is full', async () => {
    const whole = await expected({ ignoreEndOfSequence: true });
    const stop = /[ -~]{2}/.exec(whole.text)![0];
    expect((await chat({ stop, ignore_eos: true })).body.choices[0]).toMatchObject({
      message: { content: whole.text.slice(0, whole.text.indexOf(stop)) },
      finish_reason: 'stop',
    });
    const byToken = await chat({
      stop_token_ids: [whole.tokenIds[2]!],
      ignore_eos: true,
      return_token_ids: true,
    });
    expect(byToken.body.choices[0].token_ids.length).toBeLessThanOrEqual(3);
    expect((await chat({ max_completion_tokens: 2, max_tokens: null })).body).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { completion_tokens: 2 },
    });
    const full = await chat({ max_tokens: 100_000, ignore_eos: true });
    expect(full.body.usage.total_tokens).toBe(512);
  });

  test('holds ends back for min_tokens', async () => {
    const ends = { logit_bias: Object.fromEntries([...direct.info.ends].map((id) => [id, 100])) };
    expect((await chat(ends)).body).toMatchObject({
      choices: [{ finish_reason: 'stop' }],
      usage: { completion_tokens: 1 },
    });
    expect((await chat({ ...ends, min_tokens: 4 })).body).toMatchObject({
      choices: [{ finish_reason: 'stop' }],
      usage: { completion_tokens: 5 },
    });
  });

  test('tells the likeliest tokens at each place, streamed or not', async () => {
    const { tokenIds, topLogprobs } = await expected({ topLogprobs: 3 });
    expect(topLogprobs).toHaveLength(tokenIds.length);
    const told = topLogprobs!.map((chances) =>
      chances.map(({ tokenId, logprob }) => ({ token: nameOf(tokenId), logprob })),
    );
    const { body } = await chat({ logprobs: true, top_logprobs: 3 });
    expect(
      body.choices[0].logprobs.content.map(
        (token: { top_logprobs: object[] }) => token.top_logprobs,
      ),
    ).toMatchObject(told);
    const { events } = eventsOf(
      (await chat({ logprobs: true, top_logprobs: 3, stream: true })).text,
    );
    const streamed = events.flatMap(({ choices }) => choices[0].logprobs?.content ?? []);
    expect(streamed).toEqual(body.choices[0].logprobs.content);
  });

  test('streams the same reply piece by piece, with its usage where that is asked for', async () => {
    const reply = await expected();
    const { text, headers } = await chat({
      stream: true,
      stream_options: { include_usage: true },
      logprobs: true,
      return_token_ids: true,
    });
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8');
    const { events, done } = eventsOf(text);
    expect(done).toBe(true);
    expect(events[0]).toMatchObject({
      object: 'chat.completion.chunk',
      prompt_token_ids: [...reply.promptIds],
      choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
    });
    const choices = events.flatMap((event) => event.choices);
    expect(choices.map(({ delta }) => delta.content ?? '').join('')).toBe(reply.text);
    expect(choices.flatMap((choice) => choice.token_ids ?? [])).toEqual([...reply.tokenIds]);
    expect(
      choices.flatMap(({ logprobs }) => logprobs?.content ?? []).map(({ logprob }) => logprob),
    ).toEqual([...reply.logprobs]);
    expect(choices.at(-1)).toMatchObject({ delta: {}, finish_reason: reply.finish });
    expect(events.at(-1)).toMatchObject({
      choices: [],
      usage: { completion_tokens: reply.tokenIds.length },
    });
    expect(new Set(events.map(({ id }) => id)).size).toBe(1);
  });

  test.each(['/v1/chat/completions', '/v1/completions'])(
    'tells usage so far in each event of %s where that is asked for',
    async (path) => {
      const own =
        path === '/v1/completions' ? { prompt: ['Rivers', 'Name a river.'] } : { messages, n: 2 };
      const asked = { ...own, max_tokens: 12, seed: 5, stream: true, return_token_ids: true };
      const usage = (options: object): Promise<Answer> =>
        ask({ ...asked, stream_options: options }, path);
      const { events, done } = eventsOf(
        (await usage({ include_usage: true, continuous_usage_stats: true })).text,
      );
      expect(done).toBe(true);
      const prompts: Record<number, number> = {};
      for (const event of events) {
        const [choice] = event.choices;
        const prompt = choice?.prompt_token_ids ?? event.prompt_token_ids;
        if (prompt !== undefined) prompts[choice.index] = prompt.length;
      }
      const said = [0, 0];
      for (const { choices, usage: told } of events.slice(0, -1)) {
        const { index, token_ids = [] } = choices[0];
        said[index]! += token_ids.length;
        const prompt = prompts[index] ?? prompts[0]!;
        expect(told).toEqual({
          prompt_tokens: prompt,
          completion_tokens: said[index],
          total_tokens: prompt + said[index]!,
        });
      }
      expect(events.at(-1).usage.completion_tokens).toBe(said[0]! + said[1]!);
      // As with vLLM, it is a part of what include_usage gives.
      const without = eventsOf((await usage({ continuous_usage_stats: true })).text);
      expect(without.events.filter((event) => event.usage !== undefined)).toEqual([]);
    },
  );

  test('streams n replies among each other', async () => {
    const { events } = eventsOf((await chat({ stream: true, n: 2 })).text);
    for (const index of [0, 1]) {
      const own = events
        .flatMap((event) => event.choices)
        .filter((choice) => choice.index === index);
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(
        (await expected({ id: String(index) })).text,
      );
      expect(own.filter(({ finish_reason }) => finish_reason !== null)).toHaveLength(1);
    }
  });

  test('writes JSON of any kind, or of a schema in either spelling', async () => {
    const schema = {
      type: 'object',
      properties: { kind: { enum: ['river', 'city'] }, large: { type: 'boolean' } },
      required: ['kind', 'large'],
    };
    const contents = [];
    for (const format of [
      { type: 'json_schema', json_schema: { name: 'thing', strict: true, schema } },
      { type: 'json_schema', schema },
      { type: 'json_object', schema },
    ]) {
      const { body } = await chat({ response_format: format, max_tokens: 100 });
      contents.push(body.choices[0].message.content);
    }
    const { text } = await expected({ jsonSchema: schema, maxTokens: 100 });
    expect(contents).toEqual([text, text, text]);
    expect(['river', 'city']).toContain((JSON.parse(text) as { kind: string }).kind);
    const any = await chat({ response_format: { type: 'json_object' }, max_tokens: 40 });
    expect(any.body.choices[0].message.content[0]).toBe('{');
  });

  test('renders what an earlier conversation holds of parts, developers and tools', async () => {
    const long = [
      {
        role: 'developer',
        content: [
          { type: 'text', text: 'Be ' },
          { type: 'text', text: 'brief.' },
        ],
      },
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: 'a',
            type: 'function',
            function: { name: 'weather', arguments: '{"city": "Rome"}' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'sun' },
      { role: 'tool', tool_call_id: 'b', content: 'rain' },
    ];
    const { body } = await chat({ messages: long });
    const reply = await expected({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Weather?' },
        {
          role: 'assistant',
          content: '<tool_call>\n{"name":"weather","arguments":{"city":"Rome"}}\n</tool_call>',
        },
        {
          role: 'user',
          content:
            '<tool_response>\nsun\n</tool_response>\n<tool_response>\nrain\n</tool_response>',
        },
      ],
    });
    expect(body.choices[0].message.content).toBe(reply.text);
  });

  test.each([
    ['an unknown model', { model: 'third' }, [404, 'not_found_error', 'model', 'model_not_found']],
    [
      'a member that it does not know',
      { reasoning: 'much' },
      [400, 'invalid_request_error', 'reasoning', 'unknown_parameter'],
    ],
    [
      'a value out of range',
      { temperature: -1 },
      [400, 'invalid_request_error', 'temperature', 'invalid_value'],
    ],
    [
      'a message without a role',
      { messages: [{ content: 'x' }] },
      [400, 'invalid_request_error', 'messages[0].role', 'invalid_value'],
    ],
    [
      'a bias for no token id',
      { logit_bias: { five: 1 } },
      [400, 'invalid_request_error', 'logit_bias.five', 'invalid_value'],
    ],
    [
      'a bias for a token that is not there',
      { logit_bias: { 99999999: 1 } },
      [400, 'invalid_request_error', 'logit_bias.99999999', 'invalid_argument'],
    ],
    [
      'more min_tokens than max_tokens',
      { min_tokens: 13 },
      [400, 'invalid_request_error', 'min_tokens', 'invalid_value'],
    ],
    [
      'top_logprobs without logprobs',
      { top_logprobs: 2 },
      [400, 'invalid_request_error', 'top_logprobs', 'invalid_value'],
    ],
    [
      'a schema that no grammar keeps',
      { response_format: { type: 'json_object', schema: { type: 'string', pattern: 'a' } } },
      [400, 'invalid_request_error', 'response_format', 'grammar_invalid'],
    ],
    [
      'a prompt that is too long',
      { messages: [{ role: 'user', content: 'word '.repeat(600) }] },
      [400, 'invalid_request_error', 'messages', 'context_length_exceeded'],
    ],
  ])('refuses %s by its name, streamed or not', async (_, body, error) => {
    expect(failure(await chat(body))).toEqual(error);
    expect(failure(await chat({ ...body, stream: true }))).toEqual(error);
  });
});

describe('what is none of several forms', () => {
  const [MODEL, USER] = [{ model: 'base' }, { messages: [{ role: 'user', content: 'x' }] }];
  test.each([
    [
      'chat/completions',
      { ...MODEL, messages: [{ role: 'robot', content: 'x' }] },
      'messages[0].role: must be "system", "developer", "user", "assistant", "tool" or "function", not "robot"',
    ],
    [
      'chat/completions',
      { ...MODEL, messages: [{ role: 'user', content: 5 }] },
      'messages[0].content: must be a string or a list, not 5',
    ],
    ['chat/completions', { ...MODEL, ...USER, stop: [1] }, 'stop[0]: must be a string, not 1'],
    [
      'chat/completions',
      { ...MODEL, ...USER, tool_choice: 'any' },
      'tool_choice: must be "none", "auto" or "required", not "any"',
    ],
    [
      'chat/completions',
      { ...MODEL, ...USER, tool_choice: { type: 'function' } },
      'tool_choice.function: is missing: an object',
    ],
    [
      'chat/completions',
      { ...MODEL, ...USER, max_tokns: 1 },
      'there is no "max_tokns"; did you mean max_tokens?',
    ],
    ['completions', { ...MODEL }, 'prompt: is missing: a string or a list'],
    ['completions', { ...MODEL, prompt: [] }, 'prompt: is empty'],
    ['completions', { ...MODEL, prompt: ['a', 1] }, 'prompt[1]: must be a string, not 1'],
    ['embeddings', { ...MODEL, input: '' }, 'input: an empty text has no embedding'],
    [
      'embeddings',
      { ...MODEL, input: ['x', 'x'.repeat(600)] },
      'input[1]: the text needs 601 tokens, more than the context of 512 tokens',
    ],
    [
      'responses',
      { ...MODEL, input: [{ type: 'function_call', call_id: 'a' }] },
      'input[0].name: is missing: a string',
    ],
    [
      'responses',
      { ...MODEL, input: [{ role: 'user', content: [{ type: 'input_text' }] }] },
      'input[0].content[0].text: is missing: a string',
    ],
  ])('/v1/%s %j', async (target, body, message) => {
    const { status, body: refused } = await ask(body, `/v1/${target}`);
    expect([status, refused.error.message]).toEqual([400, message]);
  });
});

describe('tools', () => {
  const tools = [
    {
      type: 'function',
      function: {
        name: 'weather',
        description: 'tells it',
        parameters: {
          type: 'object',
          properties: { city: { enum: ['Rome', 'Oslo'] } },
          required: ['city'],
        },
      },
    },
    { type: 'function', function: { name: 'now' } },
  ];
  const callsOf = ({ body }: Answer): { name: string; arguments: string }[] =>
    (body.choices[0].message.tool_calls ?? []).map((call: { function: object }) => call.function);

  test('a call that is required has arguments of its schema', async () => {
    for (const seed of [1, 2, 3, 4]) {
      const answer = await chat({
        tools,
        tool_choice: 'required',
        parallel_tool_calls: false,
        max_tokens: 200,
        seed,
      });
      const [call, ...more] = callsOf(answer);
      expect(more).toEqual([]);
      expect(['{"city":"Rome"}', '{"city":"Oslo"}', '{}']).toContain(call!.arguments);
      expect(call!.name).toBe(call!.arguments === '{}' ? 'now' : 'weather');
      expect(answer.body.choices[0]).toMatchObject({
        finish_reason: 'tool_calls',
        message: { content: null },
      });
    }
  });

  test('a named tool is called, and no other', async () => {
    for (const name of ['weather', 'now']) {
      const answer = await chat({
        tools,
        tool_choice: { type: 'function', function: { name } },
        max_tokens: 200,
      });
      expect(callsOf(answer).map((call) => call.name)).toEqual([name]);
    }
  });

  test('a stream has the same calls as the whole reply', async () => {
    const body = { tools, tool_choice: 'required', max_tokens: 300, seed: 1 };
    const whole = callsOf(await chat(body));
    const { events } = eventsOf((await chat({ ...body, stream: true })).text);
    const choices = events.flatMap((event) => event.choices);
    const streamed = choices.flatMap(({ delta }) => delta.tool_calls ?? []);
    expect(streamed.map((call) => call.function)).toEqual(whole);
    expect(streamed.map(({ index }) => index)).toEqual(whole.map((_, i) => i));
    expect(whole.length).toBeGreaterThan(0);
  });

  test('the model is told of them; with none it is not, and may answer in text', async () => {
    const [told, silent, plain] = [
      await chat({ tools }),
      await chat({ tools, tool_choice: 'none' }),
      await chat(),
    ];
    expect(told.body.usage.prompt_tokens).toBeGreaterThan(plain.body.usage.prompt_tokens);
    expect(silent.body.choices[0].message).toEqual(plain.body.choices[0].message);
  });

  test.each([
    ['a choice without tools', { tool_choice: 'required' }, 'tool_choice'],
    [
      'a choice that is none of them',
      { tools, tool_choice: { type: 'function', function: { name: 'x' } } },
      'tool_choice',
    ],
    ['two of one name', { tools: [tools[1], tools[1]] }, 'tools[1].function.name'],
    [
      'strict parameters that no grammar keeps',
      {
        tools: [
          tools[1],
          {
            type: 'function',
            function: {
              name: 'x',
              strict: true,
              parameters: { type: 'object', properties: { a: { minimum: 1 } } },
            },
          },
        ],
      },
      'tools[1].function.parameters',
    ],
  ])('%s is refused', async (_, body, param) => {
    expect(failure(await chat(body)).slice(0, 3)).toEqual([400, 'invalid_request_error', param]);
  });
});

describe('/v1/completions', () => {
  const complete = (body: object): Promise<Answer> =>
    ask({ max_tokens: 6, seed: 5, ...body }, '/v1/completions');
  const ids = [7, 9, 11, 30];

  test('continues texts and token ids, several prompts and choices, as the library does', async () => {
    const of = (request: HostRequest): Promise<HostReply> =>
      direct.generate({ maxTokens: 6, sampling: { seed: 5 }, ...request });
    const { body } = await complete({ prompt: ['ab', 'The river'], n: 2 });
    const replies = [];
    for (const text of ['ab', 'The river'])
      for (const id of ['0', '1']) replies.push((await of({ text, id })).text);
    expect(body.choices.map(({ text }: { text: string }) => text)).toEqual(replies);
    expect(body.choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2, 3]);

    const reply = await of({ tokenIds: ids, id: '0' });
    const exact = await complete({ prompt: ids, logprobs: 0, return_token_ids: true });
    expect(exact.body.choices[0]).toMatchObject({
      text: reply.text,
      token_ids: [...reply.tokenIds],
      prompt_token_ids: ids,
      logprobs: { token_logprobs: [...reply.logprobs] },
    });
    const { events } = eventsOf(
      (await complete({ prompt: [ids], stream: true, logprobs: 0, return_token_ids: true })).text,
    );
    const choices = events.flatMap((event) => event.choices);
    expect(choices.map(({ text }) => text).join('')).toBe(reply.text);
    expect(choices.flatMap((choice) => choice.token_ids ?? [])).toEqual([...reply.tokenIds]);
    expect(choices.at(-1)).toMatchObject({ finish_reason: reply.finish, prompt_token_ids: ids });
  });

  test('scores a prompt as the model of that name does: echo, and prompt_logprobs', async () => {
    for (const [model, adapter] of [
      ['base', null],
      ['first', loaded[0]!],
    ] as const) {
      const [scores] = await direct.score(ids.slice(0, 1), [ids.slice(1)], { adapter });
      const { body } = await complete({
        model,
        prompt: ids,
        echo: true,
        logprobs: 0,
        prompt_logprobs: 0,
      });
      const [choice] = body.choices;
      expect(choice.logprobs.token_logprobs.slice(0, 4)).toEqual([null, ...scores!]);
      expect(
        choice.prompt_logprobs.map(
          (entry: object | null) =>
            entry && Object.entries(entry).map(([id, { logprob }]) => [id, logprob]),
        ),
      ).toEqual([null, ...[...scores!].map((score, i) => [[String(ids[i + 1]), score]])]);
      expect(choice.text.startsWith(direct.detokenize(ids, { withControl: true }))).toBe(true);
      // What is drawn afterwards is the base's again.
      expect((await complete({ prompt: 'ab' })).body.choices[0].text).toBe(
        (await direct.generate({ text: 'ab', maxTokens: 6, sampling: { seed: 5 }, id: '0' })).text,
      );
    }
  });

  test('tells the likeliest tokens beside those of prompt and reply', async () => {
    const adapter = loaded[0]!;
    const prompt = await direct.alternatives(ids, { count: 3, adapter });
    const reply = await direct.generate({
      tokenIds: ids,
      maxTokens: 6,
      sampling: { seed: 5 },
      id: '0',
      topLogprobs: 2,
      adapter,
    });
    const byText = (chances: readonly { tokenId: number; logprob: number }[]): object =>
      Object.fromEntries(
        [...chances].reverse().map(({ tokenId, logprob }) => [nameOf(tokenId), logprob]),
      );
    const asked = { model: 'first', prompt: ids, logprobs: 2 };
    const [choice] = (await complete({ ...asked, echo: true, prompt_logprobs: 3 })).body.choices;
    expect(choice.logprobs.top_logprobs).toEqual([
      null,
      ...prompt.map((token) => byText([...token.top.slice(0, 2), token])),
      ...reply.topLogprobs!.map((top, i) =>
        byText([...top, { tokenId: reply.tokenIds[i]!, logprob: reply.logprobs[i]! }]),
      ),
    ]);
    expect(choice.prompt_logprobs).toEqual([
      null,
      ...prompt.map(({ tokenId, logprob, rank, top }) =>
        Object.fromEntries(
          [...top.map((chance, i) => ({ ...chance, rank: i + 1 })), { tokenId, logprob, rank }].map(
            (of) => [
              of.tokenId,
              { logprob: of.logprob, rank: of.rank, decoded_token: nameOf(of.tokenId) },
            ],
          ),
        ),
      ),
    ]);
    const { events } = eventsOf((await complete({ ...asked, stream: true })).text);
    const streamed = events.flatMap(({ choices }) => choices[0].logprobs?.top_logprobs ?? []);
    expect(streamed).toEqual(choice.logprobs.top_logprobs.slice(ids.length));
  });

  test('has 16 tokens where nobody says, and refuses what it does not have', async () => {
    expect(
      (await ask({ prompt: 'ab', ignore_eos: true }, '/v1/completions')).body.usage
        .completion_tokens,
    ).toBe(16);
    for (const body of [
      { suffix: 'x' },
      { best_of: 3, stream: true },
      { stream: true, echo: true },
    ])
      expect((await complete({ prompt: 'ab', ...body })).body.error.code).toBe(
        'unsupported_parameter',
      );
    expect(failure(await complete({ prompt: 'ab', n: 3, best_of: 2 }))).toEqual([
      400,
      'invalid_request_error',
      'best_of',
      'invalid_value',
    ]);
  });

  test('best_of draws so many, gives those that the model thinks likeliest, and counts all', async () => {
    const replies: HostReply[] = [];
    for (let draw = 0; draw < 5; draw++)
      replies.push(
        await direct.generate({
          text: 'ab',
          maxTokens: 6,
          sampling: { seed: 5 },
          id: String(draw),
        }),
      );
    const mean = ({ logprobs }: HostReply): number =>
      logprobs.reduce((sum, each) => sum + each, 0) / logprobs.length;
    const best = [...replies].sort((a, b) => mean(b) - mean(a)).slice(0, 2);
    const { body } = await complete({ prompt: 'ab', n: 2, best_of: 5, return_token_ids: true });
    expect(body.choices.map(({ token_ids: ids }: { token_ids: number[] }) => ids)).toEqual(
      best.map(({ tokenIds }) => [...tokenIds]),
    );
    expect(body.usage.completion_tokens).toBe(
      replies.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    );
  });
});

test('/inference/v1/generate takes and gives token ids', async () => {
  const reply = await direct.generate({
    tokenIds: [5, 6, 7],
    maxTokens: 4,
    sampling: { seed: 9 },
    id: '1',
  });
  const sampling_params = { max_tokens: 4, seed: 9, n: 2, logprobs: 2, prompt_logprobs: 0 };
  const { body } = await ask(
    { request_id: 'mine', token_ids: [5, 6, 7], sampling_params },
    '/inference/v1/generate',
  );
  expect(body).toMatchObject({
    request_id: 'mine',
    choices: [{ index: 0 }, { index: 1, token_ids: [...reply.tokenIds], finish_reason: 'length' }],
  });
  expect(body.choices[1].logprobs.content.map(({ logprob }: never) => logprob)).toEqual([
    ...reply.logprobs,
  ]);
  expect(
    body.choices[1].logprobs.content.map(
      ({ top_logprobs: top }: { top_logprobs: object[] }) => top.length,
    ),
  ).toEqual([2, 2, 2, 2]);
  expect(body.prompt_logprobs.map((entry: object | null) => entry && Object.keys(entry))).toEqual([
    null,
    ['6'],
    ['7'],
  ]);
});

test('/v1/embeddings gives the vectors of the library, as numbers or as the bytes that clients ask for', async () => {
  const { rows, tokens } = await direct.embed(['a river', 'a city'], { adapter: loaded[0]! });
  const input = ['a river', 'a city'];
  const { body } = await ask({ model: 'first', input }, '/v1/embeddings');
  expect(body.data.map(({ embedding }: never) => embedding)).toEqual(rows.map((row) => [...row]));
  expect(body.usage.prompt_tokens).toBe(tokens[0]! + tokens[1]!);
  const coded = await ask(
    { model: 'first', input: 'a river', encoding_format: 'base64' },
    '/v1/embeddings',
  );
  const bytes = Buffer.from(coded.body.data[0].embedding as string, 'base64');
  expect(Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i))).toEqual([
    ...rows[0]!,
  ]);
  expect((await ask({ input: 'x', dimensions: 3 }, '/v1/embeddings')).body.error.param).toBe(
    'dimensions',
  );
  // the same by their token ids, one list or several
  const ids = input.map((text) => [...direct.tokenize(text)]);
  const told = [direct.info.bos, ...ids[0]!];
  expect(told).toHaveLength(tokens[0]!);
  for (const asked of [told, [told]])
    expect(
      (await ask({ model: 'first', input: asked }, '/v1/embeddings')).body.data[0].embedding,
    ).toEqual([...rows[0]!]);
  const strange = await ask({ input: [[1], [direct.info.vocabularySize]] }, '/v1/embeddings');
  expect([strange.status, strange.body.error.message]).toEqual([
    400,
    expect.stringContaining('input[1]'),
  ]);
});

test('/tokenize and /detokenize are the tokens of the model, and of messages as they are rendered', async () => {
  const { body } = await ask({ prompt: 'a river', return_token_strs: true }, '/tokenize');
  const begin = direct.info.addBos ? [direct.info.bos] : [];
  expect(body.tokens).toEqual([...begin, ...direct.tokenize('a river')]);
  expect(body.token_strs.join('')).toContain('a river');
  expect((await ask({ messages }, '/tokenize')).body.tokens).toEqual([
    ...direct.renderChat(messages).tokenIds,
  ]);
  expect((await ask({ tokens: [...direct.tokenize('a river')] }, '/detokenize')).body.prompt).toBe(
    'a river',
  );
});

describe('adapters that requests load', () => {
  const load = (body: object, to = '/v1/load_lora_adapter'): Promise<Answer> =>
    send(server, to, { body, headers: asAdmin });

  test('answer under their names a request later, are replaced where that is asked for, and go', async () => {
    const other = adapterFile('other', 9n);
    expect((await load({ lora_name: 'new', lora_path: other })).text).toBe(
      "Success: LoRA adapter 'new' added successfully.",
    );
    const adapter = await direct.loadAdapter(other);
    expect((await chat({ model: 'new' })).body.choices[0].message.content).toBe(
      (await expected({ adapter })).text,
    );
    expect(failure(await load({ lora_name: 'new', lora_path: 'first.gguf' }))).toEqual([
      400,
      'invalid_request_error',
      'lora_name',
      'invalid_value',
    ]);
    // As trainers do it: at the root, in its place.
    expect(
      (await load({ lora_name: 'new', lora_path: 'first.gguf' }, '/load_lora_adapter')).status,
    ).toBe(200);
    expect((await chat({ model: 'new' })).body.choices[0].message.content).toBe(
      (await expected({ adapter: loaded[0]! })).text,
    );
    expect((await load({ lora_name: 'new' }, '/v1/unload_lora_adapter')).status).toBe(200);
    expect((await chat({ model: 'new' })).status).toBe(404);
    expect((await load({ lora_name: 'new' }, '/unload_lora_adapter')).status).toBe(404);
  });

  test('are refused where they are none', async () => {
    expect(failure(await load({ lora_name: 'x', lora_path: file }))).toEqual([
      400,
      'invalid_request_error',
      null,
      'adapter_mismatch',
    ]);
    expect((await load({ lora_name: 'x', lora_path: 'none.gguf' })).status).toBe(404);
    expect((await send(server, '/v1/models')).body.data).toHaveLength(3);
  });
});

test('different adapters answer at the same time, each its own', async () => {
  const models = ['base', 'first', 'org/second@v1'];
  const seeds = [1, 2, 3, 4];
  const answers = await Promise.all(
    models.flatMap((model) => seeds.map((seed) => chat({ model, seed }))),
  );
  const replies = await Promise.all(
    [null, ...loaded].flatMap((adapter) =>
      seeds.map((seed) => expected({ adapter, sampling: { seed } })),
    ),
  );
  expect(answers.map(({ body }) => body.choices[0].message.content)).toEqual(
    replies.map(({ text }) => text),
  );
});

test('chats that say nothing of their length come at once, each comes to its end, none has tokens of another or twice', async () => {
  // room for two and a half of those that fill their context
  const own = await start({ load: { ...UNDISTURBED, contextTokens: 1280, maxSequences: 4 } });
  const asked = (i: number): object => ({
    model: 'base',
    messages: [{ role: 'user', content: `River ${i}?` }],
    seed: i,
    ignore_eos: true,
    return_token_ids: true,
    logprobs: true,
  });
  const streamed = async (i: number): Promise<{ ids: number[]; logprobs: number[] }> => {
    const answer = await fetch(`${own.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...asked(i), stream: true }),
    });
    const { events, done } = eventsOf(await answer.text());
    expect([done, events.at(-1).choices[0].finish_reason]).toEqual([true, 'length']);
    const choices = events.flatMap((event) => event.choices);
    return {
      ids: choices.flatMap(({ token_ids }) => token_ids ?? []),
      logprobs: choices.flatMap(({ logprobs }) =>
        (logprobs?.content ?? []).map(({ logprob }: { logprob: number }) => logprob),
      ),
    };
  };
  // seen where the batch tells it: a client may read ends before beginnings
  const told: string[] = [];
  const stream = HostedModel.prototype.stream;
  // None enters the batch before all have come, however busy the machine is.
  let arrived = 0;
  let letIn = (): void => {};
  const allHere = new Promise<void>((resolve) => {
    letIn = resolve;
  });
  HostedModel.prototype.stream = async function* (request) {
    if (++arrived === 4) letIn();
    await allHere;
    const tokens = stream.call(this, request);
    for (let next = await tokens.next(), begun = false; ; next = await tokens.next()) {
      if (next.done === true) {
        told.push('ended');
        return next.value;
      }
      if (!begun) told.push('begun');
      begun = true;
      yield next.value;
    }
  };
  const replies = await Promise.all([0, 1, 2, 3].map(streamed)).finally(() => {
    HostedModel.prototype.stream = stream;
  });
  expect(told).toEqual([...Array(4).fill('begun'), ...Array(4).fill('ended')]);
  /** The largest difference of a token from its score under a prompt, in nats. */
  const distance = async (
    { ids, logprobs }: (typeof replies)[number],
    prompt: number,
  ): Promise<number> => {
    const { tokenIds } = direct.renderChat([{ role: 'user', content: `River ${prompt}?` }]);
    const [scores] = await direct.score(tokenIds, [ids]);
    return Math.max(...ids.map((_, at) => Math.abs(logprobs[at]! - scores![at]!)));
  };
  for (const [i, reply] of replies.entries()) {
    expect([reply.ids.length > 400, reply.logprobs.length]).toEqual([true, reply.ids.length]);
    // its own within what a shared batch rounds; that of another prompt is nats away
    expect(await distance(reply, i)).toBeLessThan(0.1);
    expect(await distance(reply, (i + 1) % 4)).toBeGreaterThan(1);
  }
  await own.close(0);
});

test('/pause keeps requests waiting until /resume; weight transfer is not there', async () => {
  const admin = { method: 'POST', headers: asAdmin };
  expect((await send(server, '/pause?mode=keep', admin)).body.error.param).toBe('mode');
  expect((await send(server, '/pause', admin)).body).toEqual({ status: 'paused' });
  expect((await send(server, '/health')).body).toEqual({ status: 'paused', matmul: 'ggml' });
  let answered = false;
  const waiting = chat().then((answer) => {
    answered = true;
    return answer;
  });
  for (let waited = 0; waited === 0; )
    waited = Number(
      /^isopro_waiting_replies (\d+)$/m.exec((await send(server, '/metrics')).text)![1],
    );
  expect(answered).toBe(false);
  expect((await send(server, '/resume', admin)).status).toBe(200);
  expect((await waiting).status).toBe(200);
  for (const path of [
    '/init_weight_transfer_engine',
    '/start_weight_update',
    '/update_weights',
    '/finish_weight_update',
  ])
    expect((await send(server, path, { body: {}, headers: asAdmin })).status).toBe(501);
});

test('/metrics counts what was answered, and /openapi.json has every path', async () => {
  const count = async (name: string): Promise<number> =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec((await send(server, '/metrics')).text)![1]);
  const before = await count('isopro_sampled_tokens_total');
  await chat({ ignore_eos: true });
  expect((await count('isopro_sampled_tokens_total')) - before).toBe(12);
  const { paths } = (await send(server, '/openapi.json')).body;
  expect(Object.keys(paths)).toEqual(
    expect.arrayContaining([
      '/v1/chat/completions',
      '/v1/embeddings',
      '/inference/v1/generate',
      '/pause',
    ]),
  );
  expect(
    paths['/v1/chat/completions'].post.requestBody.content['application/json'].schema.required,
  ).toEqual(['model', 'messages']);
});

test.each([
  [
    'in its arguments',
    '{"name": "weather", "arguments": {"city": "Ro',
    [{ name: 'weather', arguments: '{"city": "Ro' }],
  ],
  [
    'behind them',
    '{"name": "weather", "arguments": {"city": "Rome"}}\n</tool',
    [{ name: 'weather', arguments: '{"city":"Rome"}' }],
  ],
  ['in its name', '{"name": "wea', []],
])('a call that is cut off %s is no text', (_, written, calls) => {
  const reader = new CallReader();
  expect(reader.read(`<tool_call>\n${written}`)).toEqual({ text: '', calls: [] });
  expect(reader.rest()).toEqual({ text: '', calls });
});
