/**
 * Answers as a whole: every member of them, and every event of a stream in its order, from the
 * reply that the library gives.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { HostReply, HostRequest } from '../../src/index.js';
import { HostedModel } from '../../src/host/hosted-model.js';
import type { Server } from '../../src/server/server.js';
import type { Parsed } from '../models/parsed.js';
import {
  adapterFile,
  asAdmin,
  closeAll,
  eventsOf,
  folder,
  reported,
  send,
  start,
  UNDISTURBED,
  type Answer,
} from '../models/server.js';

let server: Server;
let direct: HostedModel;
beforeAll(async () => {
  server = await start({
    adapters: [{ name: 'first', file: adapterFile('answers', 3n) }],
    adapterFolder: folder,
    load: { ...UNDISTURBED, contextTokens: 4096, prefixTokens: 0 },
  });
  direct = server.models.model;
});
afterAll(async () => {
  await closeAll();
  expect(reported).toEqual([]);
});

const messages = [{ role: 'user' as const, content: 'Name a river.' }];
const ask = (target: string, body: object): Promise<Answer> =>
  send(server, target, { body: { model: 'base', ...body } });
const chat = (body: object = {}): Promise<Answer> =>
  ask('/v1/chat/completions', { messages, max_tokens: 6, seed: 5, ...body });
const complete = (body: object = {}): Promise<Answer> =>
  ask('/v1/completions', { prompt: 'ab', max_tokens: 6, seed: 5, ...body });
const respond = (body: object = {}): Promise<Answer> =>
  ask('/v1/responses', { input: 'Name a river.', max_output_tokens: 6, seed: 5, ...body });
const reply = (request: HostRequest): Promise<HostReply> =>
  direct.generate({
    maxTokens: 6,
    sampling: { seed: 5 },
    id: '0',
    whenContextFull: 'stop',
    ...request,
  });
const NOW = () => Math.floor(Date.now() / 1000);
const recently = (seconds: number): void => {
  expect(Number.isInteger(seconds)).toBe(true);
  expect(Math.abs(seconds - NOW())).toBeLessThan(100);
};
const usageOf = (prompt: number, completion: number): object => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: 0 },
});
const fingerprint = (): string => `iso-${direct.rendererId.slice(0, 8)}-base`;
const failure = ({ status, body }: Answer): unknown[] => [
  status,
  body.error?.param,
  body.error?.code,
  body.error?.message,
];

describe('a chat', () => {
  test('as a whole', async () => {
    const [first, second] = [await reply({ messages }), await reply({ messages, id: '1' })];
    const { body } = await chat({ n: 2 });
    recently(body.created);
    expect(body).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{24}$/),
      object: 'chat.completion',
      created: body.created,
      model: 'base',
      system_fingerprint: fingerprint(),
      choices: [first, second].map(({ text, finish }, index) => ({
        index,
        message: { role: 'assistant', content: text, refusal: null },
        logprobs: null,
        finish_reason: finish,
      })),
      usage: usageOf(first.promptIds.length, first.tokenIds.length + second.tokenIds.length),
    });
  });

  test('of an adapter says which in its fingerprint', async () => {
    const [, entry] = (await send(server, '/v1/models')).body.data;
    expect((await chat({ model: 'first' })).body.system_fingerprint).toBe(
      `iso-${direct.rendererId.slice(0, 8)}-${entry.root.slice(0, 12)}`,
    );
  });

  test.each([
    ['bare', {}],
    ['with usage', { stream_options: { include_usage: true } }],
    ['with ids', { return_token_ids: true }],
    ['with log-probabilities', { logprobs: true, top_logprobs: 1 }],
  ])('as a stream, %s: each event', async (_, more) => {
    const { tokenIds, promptIds, finish } = await reply({ messages });
    const whole = (await chat({ ...more, stream_options: null })).body;
    const { events, done } = eventsOf((await chat({ ...more, stream: true })).text);
    expect(done).toBe(true);
    const withUsage = 'stream_options' in more;
    const withIds = 'return_token_ids' in more;
    const head = {
      id: events[0].id,
      object: 'chat.completion.chunk',
      created: events[0].created,
      model: 'base',
      system_fingerprint: fingerprint(),
      ...(withUsage && { usage: null }),
    };
    recently(head.created);
    const choice = (delta: object, rest: object = {}): object => ({
      index: 0,
      delta,
      logprobs: null,
      finish_reason: null,
      ...rest,
    });
    const pieces = events.slice(1, withUsage ? -2 : -1);
    expect(events).toEqual([
      {
        ...head,
        choices: [choice({ role: 'assistant', content: '' })],
        ...(withIds && { prompt_token_ids: [...promptIds] }),
      },
      ...pieces.map((event, i) => ({
        ...head,
        choices: [
          choice(event.choices[0].delta, {
            ...('logprobs' in more && { logprobs: event.choices[0].logprobs }),
            ...(withIds && { token_ids: [tokenIds[i]] }),
          }),
        ],
      })),
      { ...head, choices: [choice({}, { finish_reason: finish })] },
      ...(withUsage
        ? [{ ...head, choices: [], usage: usageOf(promptIds.length, tokenIds.length) }]
        : []),
    ]);
    expect(pieces.map(({ choices }) => choices[0].delta.content ?? '').join('')).toBe(
      whole.choices[0].message.content,
    );
    if (!withIds) for (const { choices } of pieces) expect(choices[0].delta.content).not.toBe('');
    if ('logprobs' in more)
      expect(pieces.flatMap(({ choices }) => choices[0].logprobs?.content ?? [])).toEqual(
        whole.choices[0].logprobs.content,
      );
    if (withIds) expect(pieces).toHaveLength(tokenIds.length);
  });

  test('log-probabilities have names, bytes and the likeliest, as many as are asked for', async () => {
    const { tokenIds, logprobs, topLogprobs } = await reply({ messages, topLogprobs: 2 });
    const named = (tokenId: number, logprob: number) => {
      const bytes = Buffer.from(direct.bytesOf(tokenId));
      const text = bytes.toString();
      const hex = [...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
      return {
        token: Buffer.from(text).equals(bytes) ? text : `bytes:${hex}`,
        logprob,
        bytes: [...bytes],
      };
    };
    // of all tokens, those too that have no text
    const { body } = await chat({ logprobs: true, top_logprobs: 2, return_token_ids: true });
    expect(body.choices[0].logprobs).toEqual({
      content: [...tokenIds].map((id, i) => ({
        ...named(id, logprobs[i]!),
        top_logprobs: topLogprobs![i]!.map((chance) => named(chance.tokenId, chance.logprob)),
      })),
      refusal: null,
    });
    const byId = (await chat({ logprobs: true, return_tokens_as_token_ids: true })).body.choices[0]
      .logprobs.content;
    expect(byId.map(({ token }: { token: string }) => token)).toEqual(
      [...tokenIds].map((id) => `token_id:${id}`),
    );
    expect(byId.map(({ top_logprobs: top }: { top_logprobs: object[] }) => top)).toEqual(
      [...tokenIds].map(() => []),
    );
  });

  test('prompt_logprobs are those of the model, not beside a stream', async () => {
    const { promptIds } = await reply({ messages });
    const told = (await chat({ prompt_logprobs: 1 })).body.prompt_logprobs;
    const [scores] = await direct.score([promptIds[0]!], [[...promptIds.subarray(1)]]);
    expect(told[0]).toBeNull();
    expect(
      told
        .slice(1)
        .map(
          (entry: Record<string, { logprob: number }>, i: number) =>
            entry[promptIds[i + 1]!]!.logprob,
        ),
    ).toEqual([...scores!]);
    for (const entry of told.slice(1)) {
      const ranks = Object.values(entry as Record<string, { rank: number }>).map(
        ({ rank }) => rank,
      );
      expect(Math.min(...ranks)).toBe(1);
      expect(ranks.length).toBe(ranks.includes(1) && ranks.length === 1 ? 1 : 2);
    }
    expect(failure(await chat({ prompt_logprobs: 1, stream: true })).slice(0, 3)).toEqual([
      400,
      'prompt_logprobs',
      'unsupported_parameter',
    ]);
  });

  test('JSON beside tools is refused, text is not', async () => {
    const tools = [{ type: 'function', function: { name: 'f' } }];
    const beside = (format: object, more: object = {}): Promise<Answer> =>
      chat({ tools, response_format: format, max_tokens: 1, ...more });
    expect(failure(await beside({ type: 'json_object' })).slice(0, 3)).toEqual([
      400,
      'response_format',
      'unsupported_parameter',
    ]);
    expect((await beside({ type: 'text' })).status).toBe(200);
    expect((await beside({ type: 'json_object' }, { tool_choice: 'none' })).status).toBe(200);
    expect(failure(await chat({ response_format: { type: 'json_schema' } })).slice(0, 3)).toEqual([
      400,
      'response_format',
      'unsupported_parameter',
    ]);
  });

  test('a schema is kept to, and any object is one where none is given', async () => {
    const text = async (format: object): Promise<string> =>
      (await chat({ response_format: format, max_tokens: 60 })).body.choices[0].message
        .content as string;
    expect(await text({ type: 'json_schema', schema: { const: 7 } })).toBe('7');
    expect(await text({ type: 'json_object', schema: { enum: ['x'] } })).toBe('"x"');
    const plain = (await chat({ max_tokens: 60 })).body.choices[0].message.content;
    expect(await text({ type: 'text' })).toBe(plain);
  });
});

describe('completions', () => {
  test('as a whole', async () => {
    const [a, b] = [await reply({ text: 'ab' }), await reply({ text: 'The river' })];
    const { body } = await complete({ prompt: ['ab', 'The river'] });
    recently(body.created);
    expect(body).toEqual({
      id: expect.stringMatching(/^cmpl-[0-9a-f]{24}$/),
      object: 'text_completion',
      created: body.created,
      model: 'base',
      system_fingerprint: fingerprint(),
      choices: [a, b].map(({ text, finish }, index) => ({
        index,
        text,
        logprobs: null,
        finish_reason: finish,
      })),
      usage: usageOf(
        a.promptIds.length + b.promptIds.length,
        a.tokenIds.length + b.tokenIds.length,
      ),
    });
  });

  test('as a stream: each event of each prompt', async () => {
    const replies = [await reply({ text: 'ab' }), await reply({ text: 'The river' })];
    const { text } = await complete({
      prompt: ['ab', 'The river'],
      stream: true,
      stream_options: { include_usage: true },
    });
    const { events, done } = eventsOf(text);
    expect(done).toBe(true);
    const { id, created } = events[0];
    const head = {
      id,
      object: 'text_completion',
      created,
      model: 'base',
      system_fingerprint: fingerprint(),
    };
    for (const [index, { text: said, finish }] of replies.entries()) {
      const own = events.filter(({ choices }) => choices[0]?.index === index);
      expect(own.map(({ choices }) => choices[0].text).join('')).toBe(said);
      const last = own.pop();
      for (const event of own) {
        expect(event).toEqual({
          ...head,
          choices: [
            { index, text: expect.stringMatching(/[^]/), logprobs: null, finish_reason: null },
          ],
          usage: null,
        });
      }
      expect(last).toEqual({
        ...head,
        choices: [{ index, text: '', logprobs: null, finish_reason: finish }],
        usage: null,
      });
    }
    const prompt = replies.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
    const tokens = replies.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    expect(events.at(-1)).toEqual({ ...head, choices: [], usage: usageOf(prompt, tokens) });
    const bare = eventsOf((await complete({ stream: true })).text).events;
    expect(bare.every((event) => !('usage' in event))).toBe(true);
    expect(bare.at(-1).choices[0].finish_reason).toBe(replies[0]!.finish);
  });

  test('a text is echoed before the reply, with nothing told of the token that begins every text', async () => {
    const of = await reply({ text: 'ab' });
    const [choice] = (await complete({ echo: true, logprobs: 1 })).body.choices;
    expect(choice.text).toBe(`ab${of.text}`);
    const begin = direct.info.addBos ? 1 : 0;
    expect(choice.logprobs.tokens).toHaveLength(of.promptIds.length - begin + of.tokenIds.length);
    expect(
      choice.logprobs.tokens
        .slice(0, of.promptIds.length - begin)
        .join('')
        .endsWith('ab'),
    ).toBe(true);
    expect(choice.logprobs.text_offset[0]).toBe(0);
    const ends = choice.logprobs.text_offset.slice(0, of.promptIds.length - begin);
    for (const offset of ends) expect(offset).toBeLessThanOrEqual(2);
    expect(
      (await complete({ echo: true, logprobs: 0 })).body.choices[0].logprobs.top_logprobs,
    ).toBeNull();
    const named = (await complete({ logprobs: 0, return_tokens_as_token_ids: true })).body
      .choices[0].logprobs;
    expect(named.tokens).toEqual([...of.tokenIds].map((id) => `token_id:${id}`));
    expect(named.top_logprobs).toEqual(
      [...of.tokenIds].map((id, i) => ({ [`token_id:${id}`]: of.logprobs[i] })),
    );
    expect(
      (await complete({ echo: false, logprobs: 0 })).body.choices[0].logprobs.token_logprobs,
    ).toEqual([...of.logprobs]);
  });

  test.each<[string, object, string, string, string]>([
    [
      'best_of below n',
      { n: 3, best_of: 2 },
      'best_of',
      'invalid_value',
      'best_of: 2 is less than n, which is 3',
    ],
    [
      'best_of in a stream',
      { n: 1, best_of: 2, stream: true },
      'best_of',
      'unsupported_parameter',
      'best_of: not supported with stream, since all replies have to end first',
    ],
    [
      'no tokens',
      { max_tokens: 0 },
      'max_tokens',
      'invalid_value',
      'max_tokens: 0 is allowed only with echo: true, which scores the prompt',
    ],
    [
      'an echo beside a suffix',
      { suffix: 'x', echo: true },
      'echo',
      'unsupported_parameter',
      'echo: not supported with suffix',
    ],
    [
      'an echo in a stream',
      { stream: true, echo: true },
      'echo',
      'unsupported_parameter',
      'echo and prompt_logprobs: not supported with stream',
    ],
    [
      'prompts that are scored in a stream',
      { stream: true, prompt_logprobs: 0 },
      'prompt_logprobs',
      'unsupported_parameter',
      'echo and prompt_logprobs: not supported with stream',
    ],
    [
      'more choices than there may be',
      { prompt: ['a', 'b', 'c'], n: 86 },
      'n',
      'invalid_value',
      'n: prompts times n may be at most 256',
    ],
    [
      'more draws than there may be',
      { prompt: ['a', 'b', 'c'], n: 1, best_of: 86 },
      'best_of',
      'invalid_value',
      'best_of: prompts times best_of may be at most 256',
    ],
  ])('%s is refused with what is possible', async (_, body, param, code, message) => {
    expect(failure(await complete(body))).toEqual([400, param, code, message]);
  });

  test('256 choices are possible, and a stream of as many as are drawn', async () => {
    const { body } = await complete({ prompt: ['a', 'b'], n: 128, max_tokens: 0, echo: true });
    expect(body.choices.map(({ index }: { index: number }) => index)).toEqual(
      Array.from({ length: 256 }, (_, i) => i),
    );
    expect(body.choices.map(({ text }: { text: string }) => text)).toEqual([
      ...Array(128).fill('a'),
      ...Array(128).fill('b'),
    ]);
    expect(body.usage.completion_tokens).toBe(0);
    expect((await complete({ n: 2, best_of: 2, stream: true, max_tokens: 1 })).status).toBe(200);
  });
});

describe('a response', () => {
  test('as a whole', async () => {
    const { text, promptIds, tokenIds, finish } = await reply({ messages });
    expect(finish).toBe('length');
    const { body } = await respond({ metadata: { a: 'b' }, user: 'u' });
    recently(body.created_at);
    expect(body).toEqual({
      id: expect.stringMatching(/^resp-[0-9a-f]{24}$/),
      object: 'response',
      created_at: body.created_at,
      status: 'incomplete',
      error: null,
      incomplete_details: { reason: 'max_output_tokens' },
      instructions: null,
      max_output_tokens: 6,
      model: 'base',
      output: [
        {
          type: 'message',
          id: expect.stringMatching(/^msg-[0-9a-f]{24}$/),
          status: 'incomplete',
          role: 'assistant',
          content: [{ type: 'output_text', text, annotations: [] }],
        },
      ],
      parallel_tool_calls: true,
      previous_response_id: null,
      store: false,
      temperature: 1,
      text: { format: { type: 'text' } },
      tool_choice: 'auto',
      tools: [],
      top_p: 1,
      truncation: 'disabled',
      metadata: { a: 'b' },
      user: 'u',
      usage: {
        input_tokens: promptIds.length,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: tokenIds.length,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: promptIds.length + tokenIds.length,
      },
    });
    const said = {
      instructions: 'Be brief.',
      temperature: 0.5,
      top_p: 0.9,
      parallel_tool_calls: false,
      tool_choice: 'none',
    };
    const more = (await respond(said)).body;
    expect(more).toMatchObject({ ...said, metadata: {}, user: null });
  });

  test('that ends by itself is complete', async () => {
    const [stop] = (await reply({ messages })).text;
    const { body } = await respond({ stop });
    expect([body.status, body.incomplete_details, body.output[0].status]).toEqual([
      'completed',
      null,
      'completed',
    ]);
  });

  /** Of one stream, with what each is called. */
  const streamed = async (body: object): Promise<Parsed[]> => {
    const { text } = await respond({ ...body, stream: true });
    return text
      .trimEnd()
      .split('\n\n')
      .map((block) => {
        const [, name, data] = /^event: (\S+)\ndata: (.*)$/.exec(block)!;
        const event = JSON.parse(data!);
        expect(event.type).toBe(name);
        return event;
      });
  };

  test.each([
    ['bare', {}],
    ['with log-probabilities', { include: ['message.output_text.logprobs'], top_logprobs: 1 }],
  ])('as a stream, %s: each event, numbered', async (_, more) => {
    const whole = (await respond(more)).body;
    const events = await streamed(more);
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((__, i) => i));
    const { id, created_at } = events[0].response;
    const [item] = whole.output;
    const [content] = item.content;
    const itemId = events[2].item.id;
    const own = { ...item, id: itemId };
    const started = {
      ...whole,
      id,
      created_at,
      status: 'in_progress',
      incomplete_details: null,
      output: [],
      usage: null,
    };
    const at = { item_id: itemId, output_index: 0, content_index: 0 };
    const part = { type: 'output_text', annotations: [] };
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta');
    expect(
      events.map(({ type, sequence_number: __, ...rest }) => [
        type.slice('response.'.length),
        rest,
      ]),
    ).toEqual([
      ['created', { response: started }],
      ['in_progress', { response: started }],
      [
        'output_item.added',
        { output_index: 0, item: { ...own, status: 'in_progress', content: [] } },
      ],
      ['content_part.added', { ...at, part: { ...part, text: '' } }],
      ...deltas.map(({ delta, logprobs }) => ['output_text.delta', { ...at, delta, logprobs }]),
      ['output_text.done', { ...at, text: content.text, logprobs: content.logprobs ?? [] }],
      ['content_part.done', { ...at, part: { ...part, text: content.text } }],
      ['output_item.done', { output_index: 0, item: own }],
      ['incomplete', { response: { ...whole, id, created_at, output: [own] } }],
    ]);
    expect(deltas.length).toBeGreaterThan(2);
    expect(deltas.map(({ delta }) => delta).join('')).toBe(content.text);
    expect(deltas.every(({ delta }) => delta !== '')).toBe(true);
    expect(deltas.flatMap(({ logprobs }) => logprobs)).toEqual(content.logprobs ?? []);
  });

  test('an empty reply is an empty message, whole and streamed', async () => {
    const stop = [...(await reply({ messages })).text][0]!;
    const events = await streamed({ stop });
    const done = events.find(({ type }) => type === 'response.output_item.done');
    expect([done.item.content, done.item.status]).toEqual([
      [{ type: 'output_text', text: '', annotations: [] }],
      'completed',
    ]);
    expect(events.map(({ type }) => type.slice('response.'.length))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
  });

  test.each<[string, object, string, string, string]>([
    [
      'likeliest tokens without log-probabilities',
      { top_logprobs: 1 },
      'top_logprobs',
      'invalid_value',
      "top_logprobs: requires include: ['message.output_text.logprobs']",
    ],
    [
      'one to keep',
      { store: true },
      'store',
      'unsupported_parameter',
      'store: this server keeps no responses',
    ],
    [
      'a call without tools',
      { tool_choice: 'required' },
      'tool_choice',
      'invalid_value',
      'tool_choice asks for a call, but there are no tools',
    ],
  ])('%s is refused', async (_, body, param, code, message) => {
    expect(failure(await respond(body))).toEqual([400, param, code, message]);
    expect(failure(await respond({ ...body, stream: true }))).toEqual([400, param, code, message]);
  });

  test('what was said and called before is rendered as a chat has it', async () => {
    const call = (id: string, given: string) => ({
      id,
      type: 'function',
      function: { name: 'f', arguments: given },
    });
    const before = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b', tool_calls: [call('1', '{"x":1}'), call('2', '{}')] },
      { role: 'tool', tool_call_id: '1', content: 'r1' },
      { role: 'tool', tool_call_id: '2', content: 'r2' },
      { role: 'assistant', content: '', tool_calls: [call('3', '{}')] },
      { role: 'tool', tool_call_id: '3', content: 'r3' },
      { role: 'user', content: 'c' },
    ];
    const input = [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'a' },
      { type: 'reasoning', id: 'x', summary: [] },
      { role: 'assistant', content: 'b' },
      { type: 'function_call', call_id: '1', name: 'f', arguments: '{"x":1}' },
      { type: 'function_call', call_id: '2', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: '1', output: 'r1' },
      { type: 'function_call_output', call_id: '2', output: 'r2' },
      { type: 'function_call', call_id: '3', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: '3', output: 'r3' },
      { role: 'user', content: 'c' },
    ];
    const [asChat, asResponse] = [await chat({ messages: before }), await respond({ input })];
    expect(asResponse.body.output[0].content[0].text).toBe(asChat.body.choices[0].message.content);
    expect(asResponse.body.usage.input_tokens).toBe(asChat.body.usage.prompt_tokens);
    const [told, apart] = [
      await respond({ instructions: 'Be brief.', input: 'a' }),
      await chat({ messages: before.slice(0, 2) }),
    ];
    expect(told.body.output[0].content[0].text).toBe(apart.body.choices[0].message.content);
  });
});

test('a choice says that the base model answered where the prompt does not activate the adapter', async () => {
  const { promptIds } = await reply({ messages });
  const invocationTokens = [...promptIds.slice(-3)];
  const own = await start({
    adapters: [{ name: 'late', file: adapterFile('answers-late', 4n, { invocationTokens }) }],
    load: { ...UNDISTURBED, contextTokens: 1024, prefixTokens: 0 },
  });
  const asked = (target: string, body: object): Promise<Answer> =>
    send(own, target, { body: { model: 'late', max_tokens: 6, seed: 5, ...body } });
  const chatOf = (body: object = {}): Promise<Answer> =>
    asked('/v1/chat/completions', { messages, ...body });
  const textOf = (body: object = {}): Promise<Answer> =>
    asked('/v1/completions', { prompt: 'ab', ...body });
  const [activated] = (await chatOf()).body.choices;
  expect('adapter_activated' in activated).toBe(false);
  const [text] = (await textOf()).body.choices;
  expect(text.adapter_activated).toBe(false);
  expect(text.text).toBe((await textOf({ model: 'base' })).body.choices[0].text);
  const ends = ({ text: sent }: Answer): unknown[] =>
    eventsOf(sent).events.flatMap(({ choices: [choice] = [] }) =>
      choice?.finish_reason == null ? [] : [choice.adapter_activated],
    );
  expect(ends(await textOf({ stream: true }))).toEqual([false]);
  expect(ends(await chatOf({ stream: true }))).toEqual([undefined]);
  const ids = await send(own, '/inference/v1/generate', {
    body: { model: 'late', token_ids: [5, 6], sampling_params: { max_tokens: 6, seed: 5 } },
  });
  expect(ids.body.choices[0].adapter_activated).toBe(false);
  await own.close();
});

test('a second turn is refused with an adapter that acts from the reply on', async () => {
  const { promptIds } = await reply({ messages });
  const invocationTokens = [...promptIds.slice(-3)];
  const own = await start({
    adapters: [{ name: 'late', file: adapterFile('answers-turns', 4n, { invocationTokens }) }],
    load: { ...UNDISTURBED, contextTokens: 1024, prefixTokens: 0 },
  });
  const turns = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
    { role: 'user', content: 'c' },
  ];
  const asked = (target: string, body: object): Promise<Answer> =>
    send(own, target, { body: { model: 'late', ...body } });
  for (const [target, param, more] of [
    ['/v1/chat/completions', 'messages', { max_tokens: 4 }],
    ['/v1/chat/completions', 'messages', { max_tokens: 4, stream: true }],
    ['/v1/responses', 'input', { max_output_tokens: 16 }],
  ] as const) {
    const { status, body } = await asked(target, { ...more, [param]: turns });
    expect([target, status, body.error]).toEqual([
      target,
      400,
      {
        message: expect.stringContaining('first turn of a conversation only') as unknown,
        type: 'invalid_request_error',
        param,
        code: 'invalid_argument',
      },
    ]);
    expect((await asked(target, { ...more, [param]: turns.slice(0, 1) })).status).toBe(200);
    expect((await asked(target, { ...more, [param]: turns, model: 'base' })).status).toBe(200);
  }
  await own.close();
});

describe('a reply that says something and then calls', () => {
  const { stream, generate } = HostedModel.prototype;
  afterEach(() => {
    HostedModel.prototype.stream = stream;
    HostedModel.prototype.generate = generate;
  });
  /**
   * Whatever is asked, the reply is this text, token by token: what a model would write that had
   * learned to call.
   */
  function saysAlways(text: string, finish: 'stop' | 'length' = 'stop'): Int32Array {
    const tokenIds = Int32Array.from(direct.tokenize(text));
    const told = (): HostReply => ({
      ...{
        promptIds: Int32Array.of(1, 2, 3),
        tokenIds,
        text,
        finish,
        seed: '0',
        adapterId: null,
        reusedTokens: 0,
      },
      ...{
        logprobs: new Float32Array(tokenIds.length),
        sampledLogprobs: new Float32Array(tokenIds.length),
      },
    });
    HostedModel.prototype.generate = async () => told();
    HostedModel.prototype.stream = async function* () {
      const decoder = new TextDecoder();
      for (const tokenId of tokenIds)
        yield {
          tokenId,
          logprob: 0,
          sampledLogprob: 0,
          text: decoder.decode(Buffer.from(direct.bytesOf(tokenId)), { stream: true }),
        };
      return told();
    };
    return tokenIds;
  }
  const tools = [{ type: 'function', function: { name: 'f' } }];
  const flat = [{ type: 'function', name: 'f' }];
  const call = (given: string): string =>
    `<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>`;
  const CALLS = [call('{}'), call('{"a":1}')].join('\n');
  const calls = [
    { name: 'f', arguments: '{}' },
    { name: 'f', arguments: '{"a":1}' },
  ];

  test.each([
    ['text and calls', `Let me see.${CALLS}`, 'Let me see.'],
    ['calls alone', CALLS, null],
  ])('as a chat, whole and streamed: %s', async (_, text, content) => {
    saysAlways(text);
    const { body } = await chat({ tools, logprobs: true });
    const [{ message, finish_reason: finish, logprobs }] = body.choices;
    expect([message.content, finish]).toEqual([content, 'tool_calls']);
    expect(message.tool_calls).toEqual(
      calls.map((each) => ({
        id: expect.stringMatching(/^call-[0-9a-f]{24}$/),
        type: 'function',
        function: each,
      })),
    );
    const said = (told: Parsed[]): string => told.map(({ token }) => token).join('');
    expect(said(logprobs.content)).toBe(content ?? '');
    const { events } = eventsOf(
      (
        await chat({
          tools,
          logprobs: true,
          stream: true,
          stream_options: { include_usage: true, continuous_usage_stats: true },
        })
      ).text,
    );
    const deltas = events.flatMap(({ choices }) => choices.map(({ delta }: Parsed) => delta));
    expect(deltas.map((delta) => delta.content ?? '').join('')).toBe(content ?? '');
    expect(
      deltas
        .flatMap((delta) => delta.tool_calls ?? [])
        .map(({ index, function: of, type }) => [index, of, type]),
    ).toEqual(calls.map((each, i) => [i, each, 'function']));
    expect(said(events.flatMap(({ choices }) => choices[0]?.logprobs?.content ?? []))).toBe(
      content ?? '',
    );
    expect(events.at(-2).choices[0]).toEqual({
      index: 0,
      delta: {},
      logprobs: null,
      finish_reason: 'tool_calls',
    });
  });

  test('as a response, whole and streamed: the text is an item, and so is each call', async () => {
    const ids = saysAlways(`Let me see.${CALLS}`);
    const include = ['message.output_text.logprobs'];
    const { body } = await respond({ tools: flat, include });
    const item = (given: { name: string; arguments: string }, status = 'completed') => ({
      ...{
        type: 'function_call',
        id: expect.stringMatching(/^fc-[0-9a-f]{24}$/),
        call_id: expect.stringMatching(/^call-[0-9a-f]{24}$/),
      },
      ...{ ...given, status },
    });
    expect(body).toMatchObject({
      status: 'completed',
      usage: { input_tokens: 3, output_tokens: ids.length, total_tokens: 3 + ids.length },
    });
    const said = {
      type: 'output_text',
      text: 'Let me see.',
      annotations: [],
      logprobs: expect.any(Array),
    };
    const message = {
      type: 'message',
      id: expect.any(String),
      status: 'completed',
      role: 'assistant',
      content: [said],
    };
    expect(body.output).toEqual([message, ...calls.map((each) => item(each))]);
    const { text } = await respond({ tools: flat, include, stream: true });
    const events = text
      .trimEnd()
      .split('\n\n')
      .map((block) => JSON.parse(block.split('\ndata: ')[1]!));
    const called = (given: { name: string; arguments: string }, at: number): unknown[] => [
      [
        'output_item.added',
        { output_index: at, item: { ...item(given), arguments: '', status: 'in_progress' } },
      ],
      [
        'function_call_arguments.delta',
        { item_id: expect.stringMatching(/^fc-/), output_index: at, delta: given.arguments },
      ],
      [
        'function_call_arguments.done',
        {
          item_id: expect.stringMatching(/^fc-/),
          output_index: at,
          name: 'f',
          arguments: given.arguments,
        },
      ],
      ['output_item.done', { output_index: at, item: item(given) }],
    ];
    const rest = events.slice(events.findIndex(({ type }) => type === 'response.output_text.done'));
    expect(
      rest.map(({ type, sequence_number: __, ...each }) => [type.slice('response.'.length), each]),
    ).toEqual([
      ['output_text.done', expect.objectContaining({ output_index: 0, text: 'Let me see.' })],
      ['content_part.done', expect.objectContaining({ output_index: 0 })],
      ['output_item.done', { output_index: 0, item: message }],
      ...called(calls[0]!, 1),
      ...called(calls[1]!, 2),
      [
        'completed',
        {
          response: expect.objectContaining({
            status: 'completed',
            output: [message, ...calls.map((each) => item(each))],
          }),
        },
      ],
    ]);
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((__, i) => i));
  });

  test('a call that is cut off is incomplete, the one before it and the text are not', async () => {
    saysAlways(`Let me see.${CALLS.slice(0, -'1}}\n</tool_call>'.length)}`, 'length');
    const statuses = (output: Parsed[]): unknown[] =>
      output.map(({ type, status }) => [type, status]);
    const wanted = [
      ['message', 'completed'],
      ['function_call', 'completed'],
      ['function_call', 'incomplete'],
    ];
    const { body } = await respond({ tools: flat });
    expect([body.status, statuses(body.output)]).toEqual(['incomplete', wanted]);
    const { text } = await respond({ tools: flat, stream: true });
    const last = JSON.parse(text.trimEnd().split('\ndata: ').at(-1)!);
    expect([last.type, statuses(last.response.output)]).toEqual(['response.incomplete', wanted]);
    expect((await chat({ tools })).body.choices[0].finish_reason).toBe('length');
  });

  test('what looks as if a call began is text where none does', async () => {
    saysAlways('a <tool_ca');
    expect((await chat({ tools })).body.choices[0]).toMatchObject({
      message: { content: 'a <tool_ca' },
      finish_reason: 'stop',
    });
    for (const target of ['chat', 'response'] as const) {
      const { text } =
        target === 'chat'
          ? await chat({ tools, stream: true, logprobs: true })
          : await respond({ tools: flat, stream: true });
      const events = text
        .split('data: ')
        .flatMap((block) => (block.startsWith('{') ? [JSON.parse(block.split('\n\n')[0]!)] : []));
      const said = events
        .map((event) =>
          target === 'chat' ? (event.choices[0].delta.content ?? '') : (event.delta ?? ''),
        )
        .join('');
      expect(said).toBe('a <tool_ca');
      if (target === 'chat')
        expect(
          events
            .flatMap(({ choices }) => choices[0].logprobs?.content ?? [])
            .map(({ token }) => token)
            .join(''),
        ).toBe('a <tool_ca');
    }
  });
});

test('/inference/v1/generate as a whole, and with nothing asked for beside the ids', async () => {
  const of = await reply({ tokenIds: [5, 6, 7] });
  const sampling_params = { max_tokens: 6, seed: 5 };
  const { body } = await send(server, '/inference/v1/generate', {
    body: { token_ids: [5, 6, 7], sampling_params },
  });
  expect(body).toEqual({
    request_id: expect.stringMatching(/^generate-[0-9a-f]{24}$/),
    choices: [{ index: 0, finish_reason: of.finish, token_ids: [...of.tokenIds], logprobs: null }],
    prompt_logprobs: null,
    usage: usageOf(3, of.tokenIds.length),
  });
  const told = await send(server, '/inference/v1/generate', {
    body: {
      token_ids: [5],
      sampling_params: { ...sampling_params, prompt_logprobs: 2, logprobs: 0 },
    },
  });
  expect([told.body.prompt_logprobs, told.body.choices[0].logprobs.content.length]).toEqual([
    [null],
    told.body.choices[0].token_ids.length,
  ]);
  expect(told.body.choices[0].logprobs.content[0].token).toBe(
    `token_id:${told.body.choices[0].token_ids[0]}`,
  );
});

test('/tokenize and /detokenize as a whole', async () => {
  const ids = [...direct.tokenize('a river')];
  const begin = direct.info.addBos ? [direct.info.bos] : [];
  for (const target of ['/tokenize', '/v1/tokenize']) {
    expect((await ask(target, { prompt: 'a river' })).body).toEqual({
      count: begin.length + ids.length,
      max_model_len: 512,
      tokens: [...begin, ...ids],
      token_strs: null,
    });
  }
  expect(
    (await ask('/tokenize', { prompt: 'a river', add_special_tokens: false })).body.tokens,
  ).toEqual(ids);
  expect(
    (await ask('/tokenize', { prompt: 'a river', add_special_tokens: true })).body.tokens,
  ).toEqual([...begin, ...ids]);
  const strs = (await ask('/tokenize', { prompt: 'a river', return_token_strs: true })).body
    .token_strs;
  expect(strs).toEqual(
    [...begin, ...ids].map((id) => direct.detokenize([id], { withControl: true })),
  );
  const rendered = async (more: object): Promise<number[]> =>
    (await ask('/tokenize', { messages, ...more })).body.tokens;
  const whole = await rendered({ add_generation_prompt: true });
  const without = await rendered({ add_generation_prompt: false });
  expect(await rendered({})).toEqual(whole);
  // of messages the template says how they begin
  expect(await rendered({ add_special_tokens: false })).toEqual(whole);
  expect([without.length < whole.length, whole.slice(0, without.length)]).toEqual([true, without]);
  for (const target of ['/detokenize', '/v1/detokenize'])
    expect((await ask(target, { tokens: [...begin, ...ids] })).body).toEqual({
      prompt: direct.detokenize([...begin, ...ids], { withControl: true }),
    });
});

test('/v1/embeddings as a whole', async () => {
  const { rows, tokens } = await direct.embed(['a river', 'a city']);
  const { body } = await ask('/v1/embeddings', {
    input: ['a river', 'a city'],
    dimensions: direct.info.embeddingSize,
  });
  expect(body).toEqual({
    object: 'list',
    model: 'base',
    data: rows.map((row, index) => ({ object: 'embedding', index, embedding: [...row] })),
    usage: { prompt_tokens: tokens[0]! + tokens[1]!, total_tokens: tokens[0]! + tokens[1]! },
  });
  const size = direct.info.embeddingSize;
  expect(failure(await ask('/v1/embeddings', { input: 'x', dimensions: size - 1 }))).toEqual([
    400,
    'dimensions',
    'unsupported_parameter',
    `dimensions: the model's vectors have ${size} numbers and cannot be shortened`,
  ]);
  expect(failure(await ask('/v1/embeddings', { input: ['x', ''] })).slice(0, 3)).toEqual([
    400,
    'input',
    'invalid_value',
  ]);
  expect(
    failure(await ask('/v1/embeddings', { input: ['x', 'x'.repeat(600)] })).slice(0, 3),
  ).toEqual([400, 'input[1]', 'context_length_exceeded']);
  expect(failure(await ask('/v1/embeddings', { input: 'x'.repeat(600) })).slice(0, 3)).toEqual([
    400,
    'input',
    'context_length_exceeded',
  ]);
});

describe('the ends of what is possible', () => {
  test('a prompt leaves room for one token', async () => {
    const full = await complete({ prompt: Array(511).fill(7), max_tokens: 5 });
    expect(full.body.usage).toMatchObject({ prompt_tokens: 511, completion_tokens: 1 });
    expect(failure(await complete({ prompt: Array(512).fill(7) }))).toEqual([
      400,
      'prompt',
      'context_length_exceeded',
      'the prompt has 512 tokens; with one token of a reply it needs 513, but the context has 512',
    ]);
  });

  test('a token is one of the vocabulary', async () => {
    const { vocabularySize } = direct.info;
    expect((await ask('/detokenize', { tokens: [0, vocabularySize - 1] })).status).toBe(200);
    expect(failure(await ask('/detokenize', { tokens: [0, vocabularySize] }))).toEqual([
      400,
      'tokens[1]',
      'invalid_argument',
      `tokens[1]: there is no token ${vocabularySize} in a vocabulary of ${vocabularySize}`,
    ]);
    expect(
      (
        await complete({
          logit_bias: { [vocabularySize - 1]: 1 },
          stop_token_ids: [vocabularySize - 1],
        })
      ).status,
    ).toBe(200);
  });

  test('as many tokens may be wanted as there may be; a stop of nothing stops nothing', async () => {
    expect((await chat({ min_tokens: 6 })).status).toBe(200);
    expect(failure(await chat({ min_tokens: 7 }))).toEqual([
      400,
      'min_tokens',
      'invalid_value',
      'min_tokens: more than the 6 tokens that the reply may have',
    ]);
    const plain = (await chat()).body.choices[0].message.content;
    for (const stop of ['', [''], []])
      expect((await chat({ stop })).body.choices[0].message.content).toBe(plain);
    expect(
      (await chat({ stop: ['', [...(plain as string)][0]!] })).body.choices[0].message.content,
    ).toBe('');
  });

  test('top_k 1 takes the likeliest token, 0 all of them', async () => {
    const text = async (more: object): Promise<string> =>
      (await chat({ max_tokens: 12, ...more })).body.choices[0].message.content as string;
    const greedy = await text({ temperature: 0 });
    expect(await text({ top_k: 1, temperature: 2 })).toBe(greedy);
    expect(await text({ top_k: 0 })).toBe(await text({}));
    expect(await text({ top_k: 0 })).not.toBe(greedy);
  });
});

test('texts of 16384 characters are made tokens of in turn, shorter ones at once', async () => {
  const own = await start();
  const admin = { method: 'POST', headers: asAdmin };
  await send(own, '/pause', admin);
  const tokenize = (body: object): Promise<Answer> => send(own, '/tokenize', { body });
  const short = await tokenize({ prompt: 'x'.repeat(16_383) });
  expect(short.status).toBe(200);
  const two = (length: number) => ({
    messages: [
      messages[0],
      { role: 'assistant', content: 'y'.repeat(length - messages[0]!.content.length) },
    ],
  });
  expect((await tokenize(two(16_383))).status).toBe(200);
  const waiting = [tokenize({ prompt: 'x'.repeat(16_384) }), tokenize(two(16_384))];
  for (let waited = 0; waited < 2; )
    waited = Number(/^isopro_waiting_replies (\d+)$/m.exec((await send(own, '/metrics')).text)![1]);
  await send(own, '/resume', admin);
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200]);
  await own.close(0);
});

describe('names of models', () => {
  const load = (body: object, to = '/v1/load_lora_adapter'): Promise<Answer> =>
    send(server, to, { body, headers: asAdmin });
  const references = (): number[] =>
    server.usage().models[0]!.adapters.map((adapter) => adapter.references);

  test('an adapter goes with the last who holds it', async () => {
    const before = references().length;
    const file = adapterFile('held', 21n);
    await load({ lora_name: 'held', lora_path: file });
    expect(references()).toHaveLength(before + 1);
    const holders = [await server.models.open('held', 'a'), await server.models.open('held', 'b')];
    expect((await load({ lora_name: 'held' }, '/v1/unload_lora_adapter')).text).toBe(
      "Success: LoRA adapter 'held' removed successfully.",
    );
    expect(failure(await chat({ model: 'held' })).slice(0, 3)).toEqual([
      404,
      'model',
      'model_not_found',
    ]);
    for (const [i, holder] of holders.entries()) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(references()).toHaveLength(before + 1);
      expect(holder.adapter).not.toBeNull();
      if (i === 0) holder[Symbol.dispose]();
    }
    holders[1]![Symbol.dispose]();
    while (references().length > before) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(references()).toHaveLength(before);
  });

  test.each<[string, string, object, unknown[]]>([
    [
      'the base’s',
      '/v1/load_lora_adapter',
      { lora_name: 'base', load_inplace: true },
      [400, 'lora_name', 'invalid_value'],
    ],
    [
      'one that is taken',
      '/v1/load_lora_adapter',
      { lora_name: 'first' },
      [400, 'lora_name', 'invalid_value'],
    ],
    [
      'that of a file that is not there',
      '/v1/load_lora_adapter',
      { lora_name: 'x', lora_path: 'none.gguf' },
      [404, 'lora_path', 'file_not_found'],
    ],
    [
      'that of a file elsewhere',
      '/v1/load_lora_adapter',
      { lora_name: 'x', lora_path: '/etc/passwd' },
      [403, 'lora_path', 'path_not_allowed'],
    ],
  ])('%s is not given to an adapter', async (_, to, body, told) => {
    expect(failure(await load({ lora_path: 'answers.gguf', ...body }, to)).slice(0, 3)).toEqual(
      told,
    );
  });

  test('one at the root goes in the place of another, and by its own path only where that is said', async () => {
    const ids = async (): Promise<string[]> =>
      (await send(server, '/v1/models')).body.data.map(({ root }: { root: string }) => root);
    const before = await ids();
    await load({ lora_name: 'moved', lora_path: adapterFile('moved', 22n) });
    const with22 = await ids();
    expect(with22).toHaveLength(before.length + 1);
    adapterFile('moved-2', 23n);
    expect(
      (
        await load(
          { lora_name: 'moved', lora_path: 'moved-2.gguf', load_inplace: false },
          '/load_lora_adapter',
        )
      ).status,
    ).toBe(400);
    expect(
      (await load({ lora_name: 'moved', lora_path: 'moved-2.gguf', load_inplace: true })).status,
    ).toBe(200);
    const with23 = await ids();
    expect(with23.at(-1)).not.toBe(with22.at(-1));
    expect(references()).toHaveLength(before.length);
    await load({ lora_name: 'moved' }, '/unload_lora_adapter');
    expect(await ids()).toEqual(before);
  });

  test('a long one that is not there is told by its beginning', async () => {
    const { body } = await chat({ model: 'm'.repeat(201) });
    expect(body.error.message).toBe(
      `there is no model "${'m'.repeat(200)}": GET /v1/models lists the models`,
    );
  });

  test.each<[object, unknown[]]>([
    [
      { model: 'first', lora: [] },
      [
        400,
        'lora',
        'invalid_value',
        'lora: requires the name of the base, base; first is itself an adapter',
      ],
    ],
    [
      { model: 'none', lora: [] },
      [404, 'model', 'model_not_found', expect.stringContaining('"none"')],
    ],
    [
      { lora: [{ id: 0 }, { id: 0 }] },
      [400, 'lora', 'invalid_value', 'lora: takes one adapter; combining several is not supported'],
    ],
    [
      { lora: [{ id: 0, scale: 2 }] },
      [400, 'lora[0].scale', 'invalid_value', 'lora[0].scale: takes 1, or 0 for the base, not 2'],
    ],
    [
      { lora: [{ id: 1 }] },
      [
        404,
        'lora[0].id',
        'model_not_found',
        'there is no model "1": GET /v1/models lists the models',
      ],
    ],
    [
      { lora: [{ name: 'base' }] },
      [404, 'lora[0].name', 'model_not_found', expect.stringContaining('"base"')],
    ],
  ])('%j is refused', async (body, told) => {
    expect(failure(await chat(body))).toEqual(told);
  });

  test('the list tells of each what it is, since when, and how long its texts may be', async () => {
    const { body } = await send(server, '/v1/models');
    expect(body.object).toBe('list');
    for (const entry of body.data) {
      recently(entry.created);
      expect(entry).toEqual({
        id: expect.any(String),
        object: 'model',
        created: entry.created,
        owned_by: 'isopro-native',
        root: expect.any(String),
        parent: entry.id === 'base' ? null : 'base',
        max_model_len: 512,
      });
    }
  });
});

test('what trainers ask of a server, and what it does not take from them', async () => {
  expect((await send(server, '/get_world_size')).body).toEqual({ world_size: 1 });
  expect((await send(server, '/server_info')).body).toEqual({
    vllm_config: {
      model_config: { model: 'base', max_model_len: 512 },
      weight_transfer_config: null,
    },
  });
  for (const target of [
    '/reset_prefix_cache',
    '/init_communicator/',
    '/update_named_param/',
    '/reset_prefix_cache/',
    '/close_communicator/',
  ])
    expect(failure(await send(server, target, { method: 'POST', headers: asAdmin }))).toEqual([
      501,
      null,
      'not_implemented',
      'weight transfer over the network is not supported; publish an adapter and load it by name',
    ]);
  expect(
    failure(await send(server, '/pause?mode=keep', { method: 'POST', headers: asAdmin })).slice(
      0,
      3,
    ),
  ).toEqual([400, 'mode', 'unsupported_parameter']);
  expect((await send(server, '/health')).body).toEqual({ status: 'ok', matmul: 'ggml' });
});

test('headers of answers and of streams', async () => {
  const common = {
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'",
  };
  expect((await chat()).headers).toMatchObject({
    ...common,
    'content-type': 'application/json; charset=utf-8',
  });
  expect((await chat({ stream: true })).headers).toMatchObject({
    ...common,
    ...{
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
  });
  const { headers } = await send(server, '/metrics');
  expect([headers['content-type'], headers['x-content-type-options']]).toEqual([
    expect.stringMatching(/^text\/plain/),
    'nosniff',
  ]);
  const missing = await send(server, `/${'n'.repeat(300)}`, { method: 'DELETE' });
  expect(failure(missing)).toEqual([
    404,
    null,
    'unknown_url',
    `there is no DELETE /${'n'.repeat(199)} on this server`,
  ]);
  expect(missing.headers).toMatchObject(common);
});
