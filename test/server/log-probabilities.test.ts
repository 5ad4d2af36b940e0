/**
 * Tokens are bytes: what answers tell of them, whole and streamed, of texts whose characters have
 * several.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Server } from '../../src/server/server.js';
import type { Parsed } from '../models/parsed.js';
import { eventsOf, reported, send, start, UNDISTURBED, type Answer } from '../models/server.js';

let server: Server;
beforeAll(async () => {
  server = await start({ load: { ...UNDISTURBED, contextTokens: 4096, prefixTokens: 2000 } });
});
afterAll(async () => {
  await server.close(0);
  expect(reported).toEqual([]);
});

const TEXTS = ['🦄é', 'naïve 漢字', '👩‍👩‍👧 b', 'plain'];
const messages = [{ role: 'user', content: 'x' }];
const saying = (text: string): object => ({
  response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { const: text } } },
});
const chat = (body: object): Promise<Answer> =>
  send(server, '/v1/chat/completions', {
    body: { model: 'base', messages, max_tokens: 120, seed: 1, ...body },
  });
const complete = (body: object): Promise<Answer> =>
  send(server, '/v1/completions', {
    body: { model: 'base', prompt: 'x', max_tokens: 120, seed: 1, ...body },
  });
const respond = (body: object): Promise<Answer> =>
  send(server, '/v1/responses', {
    body: { model: 'base', input: 'x', max_output_tokens: 120, seed: 1, ...body },
  });
interface Told {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly top_logprobs: readonly Told[];
}
/** Of /v1/responses, whose events have a name each. */
const namedEventsOf = (text: string): Parsed[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)));
const textOf = (tokens: readonly Told[]): string =>
  Buffer.concat(tokens.map(({ bytes }) => Buffer.from(bytes))).toString();

describe.each(TEXTS)('%s', (text) => {
  const asked = saying(text);
  test('the tokens of a chat are those of its content, by their bytes; their names differ', async () => {
    const { body } = await chat({ ...asked, logprobs: true, top_logprobs: 20 });
    const [{ message, logprobs }] = body.choices;
    expect(textOf(logprobs.content)).toBe(message.content);
    for (const { top_logprobs: top } of logprobs.content as Told[]) {
      expect(new Set(top.map(({ token }) => token)).size).toBe(20);
      expect(new Set(top.map(({ bytes }) => bytes.join())).size).toBe(20);
    }
    const { events } = eventsOf(
      (await chat({ ...asked, logprobs: true, top_logprobs: 20, stream: true })).text,
    );
    expect(events.flatMap(({ choices }) => choices[0].logprobs?.content ?? [])).toEqual(
      logprobs.content,
    );
  });

  test('in a response, too', async () => {
    const include = ['message.output_text.logprobs'];
    const format = {
      text: { format: { type: 'json_schema', name: 'x', schema: { const: text } } },
    };
    const { body } = await respond({ ...format, include });
    const [{ text: said, logprobs }] = body.output[0].content;
    expect(textOf(logprobs)).toBe(said);
    const events = namedEventsOf((await respond({ ...format, include, stream: true })).text);
    const deltas = events.filter(
      ({ type }: Parsed) => type === 'response.output_text.delta',
    ) as Parsed[];
    expect(deltas.flatMap((delta) => delta.logprobs)).toEqual(logprobs);
  });

  test('text_offset is in characters of the text, whole and streamed', async () => {
    const { body } = await complete({ ...asked, logprobs: 2 });
    const [{ text: said, logprobs }] = body.choices;
    const characters = [...said];
    const { tokens, text_offset: offsets } = logprobs as {
      tokens: string[];
      text_offset: number[];
    };
    expect(offsets[0]).toBe(0);
    for (const [i, token] of tokens.entries())
      if (!token.startsWith('bytes:') && offsets[i]! < characters.length)
        expect([
          token,
          characters.slice(offsets[i], offsets[i]! + [...token].length).join(''),
        ]).toEqual([token, token]);
    for (const top of logprobs.top_logprobs)
      expect(Object.keys(top).length).toBeGreaterThanOrEqual(2);
    const { events } = eventsOf((await complete({ ...asked, logprobs: 2, stream: true })).text);
    expect(events.flatMap(({ choices }) => choices[0]?.logprobs?.text_offset ?? [])).toEqual(
      offsets,
    );
  });

  test('a prompt is scored alone', async () => {
    const { body } = await complete({ prompt: text, max_tokens: 0, echo: true, logprobs: 1 });
    const more = (await complete({ prompt: text, max_tokens: 1, echo: true, logprobs: 1 })).body
      .choices[0].logprobs;
    const [{ text: said, logprobs, finish_reason: finish }] = body.choices;
    expect([said, finish, body.usage.completion_tokens]).toEqual([text, 'length', 0]);
    expect(logprobs.token_logprobs).toEqual(more.token_logprobs.slice(0, -1));
    expect(logprobs.text_offset).toEqual(more.text_offset.slice(0, -1));
  });
});

test('a chat with calls tells the tokens of its text and no others', async () => {
  const tools = [
    { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } },
  ];
  const asked = { tools, tool_choice: 'required', parallel_tool_calls: false, logprobs: true };
  const { body } = await chat(asked);
  expect([body.choices[0].message.content, body.choices[0].logprobs.content]).toEqual([null, []]);
  const { events } = eventsOf((await chat({ ...asked, stream: true })).text);
  expect(events.flatMap(({ choices }) => choices[0].logprobs?.content ?? [])).toEqual([]);
  const ids = (await chat({ ...asked, return_token_ids: true })).body.choices[0];
  expect(ids.logprobs.content).toHaveLength(ids.token_ids.length);
  const stopped = (await chat({ logprobs: true, max_tokens: 40, ignore_eos: true })).body.choices[0]
    .message.content as string;
  const stop = [...stopped].slice(6, 8).join('');
  const { message, logprobs } = (
    await chat({ logprobs: true, max_tokens: 40, ignore_eos: true, stop })
  ).body.choices[0];
  expect(textOf(logprobs.content).startsWith(message.content)).toBe(true);
  expect(logprobs.content.length).toBeLessThanOrEqual(message.content.length);
});

describe('usage', () => {
  test('counts the prompt once, whatever the replies to it', async () => {
    const one = (await chat({ max_tokens: 3 })).body.usage;
    const four = (await chat({ max_tokens: 3, n: 4, ignore_eos: true })).body.usage;
    expect([four.prompt_tokens, four.completion_tokens]).toEqual([one.prompt_tokens, 12]);
    const two = (await complete({ prompt: ['ab', 'abc'], max_tokens: 2, n: 3, ignore_eos: true }))
      .body.usage;
    const [a, b] = [
      (await complete({ prompt: 'ab', max_tokens: 2 })).body.usage,
      (await complete({ prompt: 'abc', max_tokens: 2 })).body.usage,
    ];
    expect([two.prompt_tokens, two.completion_tokens]).toEqual([
      a.prompt_tokens + b.prompt_tokens,
      12,
    ]);
  });

  test('tells the tokens that were kept of an earlier request', async () => {
    const input = 'Name all the rivers that flow into the sea. '.repeat(4);
    const asked = { input, max_output_tokens: 2, cache_salt: 'kept' };
    const first = (await respond(asked)).body.usage;
    const again = (await respond(asked)).body.usage;
    expect(first.input_tokens_details.cached_tokens).toBe(0);
    expect(again.input_tokens_details.cached_tokens).toBeGreaterThan(again.input_tokens / 2);
  });
});

describe('the ends of ranges', () => {
  const text = async (body: object): Promise<string> =>
    (await chat({ max_tokens: 12, ...body })).body.choices[0].message.content as string;

  test('top_p 0 takes the likeliest token, at every temperature', async () => {
    const greedy = await text({ temperature: 0 });
    for (const more of [
      { seed: 5 },
      { seed: 6, temperature: 2 },
      { temperature: 1000, top_k: 0, min_p: 0 },
    ])
      expect(await text({ top_p: 0, ...more })).toBe(greedy);
    expect((await complete({ top_p: 0, max_tokens: 2 })).status).toBe(200);
    expect((await respond({ top_p: 0, max_output_tokens: 2 })).body.top_p).toBe(0);
  });

  test('seeds of 64 bits are read by their digits', async () => {
    let asked = 0;
    const seeded = async (seed: string): Promise<[number, string]> => {
      const messages = '[{"role":"user","content":"\\"seed\\": 18446744073709551615,"}]';
      // None reuses the prompt of another: whether it does is a matter of time, and shows in bits.
      const salt = `"cache_salt":"${asked++}"`;
      const body = `{"model":"base","max_tokens":24,"temperature":2, "seed" : ${seed} ,${salt},"messages":${messages}}`;
      const answer = await send(server, '/v1/chat/completions', { body });
      return [
        answer.status,
        answer.status === 200 ? answer.body.choices[0].message.content : answer.body.error.param,
      ];
    };
    const seeds = [
      '18446744073709551615',
      '18446744073709551614',
      '-9223372036854775808',
      '-9223372036854775807',
      '9007199254740993',
      '9007199254740992',
    ];
    const texts = [];
    for (const seed of seeds) {
      const [status, said] = await seeded(seed);
      expect([seed, status]).toEqual([seed, 200]);
      expect(await seeded(seed)).toEqual([200, said]);
      texts.push(said);
    }
    expect(new Set(texts).size).toBe(seeds.length);
    expect(await seeded('-1')).toEqual(await seeded('18446744073709551615'));
    for (const seed of ['18446744073709551616', '-9223372036854775809', '1.5'])
      expect(await seeded(seed)).toEqual([400, 'seed']);
    const ids = `{"token_ids":[7,8],"sampling_params":{"max_tokens":24,"temperature":2,"seed":SEED}}`;
    const generated = async (seed: string): Promise<unknown> =>
      (await send(server, '/inference/v1/generate', { body: ids.replace('SEED', seed) })).body
        .choices[0].token_ids;
    expect(await generated('9223372036854775807')).not.toEqual(
      await generated('9223372036854775806'),
    );
  });

  test.each<[string, object, object]>([
    ['temperature', { temperature: 0 }, { temperature: -0.001 }],
    ['top_p', { top_p: 1 }, { top_p: 1.001 }],
    ['presence_penalty', { presence_penalty: -2 }, { presence_penalty: -2.001 }],
    ['frequency_penalty', { frequency_penalty: 2 }, { frequency_penalty: 2.001 }],
    ['top_logprobs', { logprobs: true, top_logprobs: 20 }, { logprobs: true, top_logprobs: 21 }],
    ['top_logprobs', { logprobs: true, top_logprobs: 0 }, { logprobs: true, top_logprobs: -1 }],
    ['n', { n: 1 }, { n: 0 }],
    ['n', { n: 128, max_tokens: 1 }, { n: 129 }],
    ['logit_bias.7', { logit_bias: { 7: -100 } }, { logit_bias: { 7: -101 } }],
    ['logit_bias.7', { logit_bias: { 7: 100 } }, { logit_bias: { 7: 101 } }],
    ['max_tokens', { max_tokens: 2 ** 31 - 1, stop: [' ', 'e', 'a', 'o'] }, { max_tokens: 0 }],
    ['min_p', { min_p: 1 }, { min_p: 1.1 }],
    ['top_k', { top_k: -1 }, { top_k: -2 }],
  ])('%s: the end is taken, and what is beyond it is not', async (param, end, beyond) => {
    expect((await chat({ max_tokens: 2, ...end })).status).toBe(200);
    const { status, body } = await chat({ max_tokens: 2, ...beyond });
    expect([status, body.error.param]).toEqual([400, param]);
  });

  test('no tokens are a reply beside echo alone', async () => {
    for (const body of [{}, { echo: false }, { logprobs: 1 }]) {
      const { status, body: told } = await complete({ max_tokens: 0, ...body });
      expect([status, told.error.param]).toEqual([400, 'max_tokens']);
    }
    const two = (await complete({ prompt: ['ab', 'xyz'], max_tokens: 0, echo: true, n: 2 })).body;
    expect(two.choices.map(({ text: said }: { text: string }) => said)).toEqual([
      'ab',
      'ab',
      'xyz',
      'xyz',
    ]);
  });
});
