/**
 * Sizes that no JSON Schema of /openapi.json tells: each end is taken, and what is beyond it is
 * refused by its name.
 */
import { describe, expect, test } from '@jest/globals';
import type { z } from 'zod';
import { readerOf } from '../../src/server/first-issue.js';
import { newFineTuning } from '../../src/server/fine-tuning/requests.js';
import {
  chatBody,
  completionBody,
  detokenizeBody,
  embeddingBody,
  generateBody,
  loadAdapterBody,
  pauseQuery,
  responseBody,
  tokenizeBody,
} from '../../src/server/openai/requests.js';

const READERS = new Map<z.ZodType, ReturnType<typeof readerOf>>();
/** Where a value is wrong first, and null where it is taken. */
function wrongAt(schema: z.ZodType, value: unknown): string | null {
  if (!READERS.has(schema)) READERS.set(schema, readerOf(schema));
  const { error } = READERS.get(schema)!(value);
  return error === undefined ? null : error.issues[0]!.path.join('.');
}

const times = <T>(count: number, one: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => one(i));
const record = (count: number, one: (i: number) => [string, unknown]): object =>
  Object.fromEntries(times(count, one));
const nested = (depth: number): unknown =>
  times(depth, (i) => i).reduce<unknown>((inner) => ({ a: inner }), 1);

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
const COMPLETION = { model: 'm', prompt: 'x' };
const RESPONSE = { model: 'm', input: 'x' };
const GENERATE = { token_ids: [1] };
const FINE_TUNING = { model: 'm', training_file: 'file-1' };
/** Of so many characters, with a comma behind each member. */
const schemaOf = (characters: number): object => ({
  const: 'x'.repeat(characters - '{"const":"",}'.length),
});
const MOST_SCHEMA = 65_536;
const toolsOf = (...sizes: number[]): object[] =>
  sizes.map((size, i) => ({
    type: 'function',
    function: { name: `f${i}`, parameters: schemaOf(size) },
  }));
const flatTools = (...sizes: number[]): object[] =>
  sizes.map((size, i) => ({ type: 'function', name: `f${i}`, parameters: schemaOf(size) }));

test.each<[string, z.ZodType, (size: number) => object, number, string]>([
  [
    'pairs of metadata of a chat',
    chatBody,
    (n) => ({ ...CHAT, metadata: record(n, (i) => [`k${i}`, 'x']) }),
    16,
    'metadata',
  ],
  [
    'pairs of metadata of a response',
    responseBody,
    (n) => ({ ...RESPONSE, metadata: record(n, (i) => [`k${i}`, 'x']) }),
    16,
    'metadata',
  ],
  [
    'pairs of metadata of a job',
    newFineTuning,
    (n) => ({ ...FINE_TUNING, metadata: record(n, (i) => [`k${i}`, 'x']) }),
    16,
    'metadata',
  ],
  [
    'a name in metadata of a job',
    newFineTuning,
    (n) => ({ ...FINE_TUNING, metadata: { ['k'.repeat(n)]: 'x' } }),
    64,
    `metadata.${'k'.repeat(65)}`,
  ],
  ['a suffix', newFineTuning, (n) => ({ ...FINE_TUNING, suffix: 's'.repeat(n) }), 64, 'suffix'],
  [
    'biases',
    chatBody,
    (n) => ({ ...CHAT, logit_bias: record(n, (i) => [String(i), 1]) }),
    1024,
    'logit_bias',
  ],
  [
    'digits of a token that is biased',
    chatBody,
    (n) => ({ ...CHAT, logit_bias: { ['1'.repeat(n)]: 1 } }),
    9,
    `logit_bias.${'1'.repeat(10)}`,
  ],
  [
    'messages',
    chatBody,
    (n) => ({ ...CHAT, messages: times(n, () => CHAT.messages[0]) }),
    2048,
    'messages',
  ],
  [
    'items of a response',
    responseBody,
    (n) => ({ ...RESPONSE, input: times(n, () => CHAT.messages[0]) }),
    2048,
    'input',
  ],
  [
    'messages that become tokens',
    tokenizeBody,
    (n) => ({ messages: times(n, () => CHAT.messages[0]) }),
    2048,
    'messages',
  ],
  [
    'variables of a template',
    chatBody,
    (n) => ({ ...CHAT, chat_template_kwargs: record(n, (i) => [`v${i}`, 1]) }),
    128,
    'chat_template_kwargs',
  ],
  [
    'letters of a variable',
    chatBody,
    (n) => ({ ...CHAT, chat_template_kwargs: { ['v'.repeat(n)]: 1 } }),
    100,
    `chat_template_kwargs.${'v'.repeat(101)}`,
  ],
  [
    'the depth of variables',
    chatBody,
    (n) => ({ ...CHAT, chat_template_kwargs: nested(n) }),
    8,
    'chat_template_kwargs',
  ],
  [
    'characters of variables',
    chatBody,
    (n) => ({ ...CHAT, chat_template_kwargs: { v: 'x'.repeat(n - '{"v":""}'.length) } }),
    16_384,
    'chat_template_kwargs',
  ],
  [
    'characters of a schema',
    chatBody,
    (n) => ({ ...CHAT, response_format: { type: 'json_object', schema: schemaOf(n) } }),
    MOST_SCHEMA,
    'response_format.schema',
  ],
  [
    'members of a schema',
    chatBody,
    (n) => ({
      ...CHAT,
      response_format: { type: 'json_object', schema: record(n, (i) => [`k${i}`, 1]) },
    }),
    1024,
    'response_format.schema',
  ],
  [
    'characters of the schemas of all tools',
    chatBody,
    (n) => ({ ...CHAT, tools: toolsOf(30_000, n - 30_000) }),
    MOST_SCHEMA,
    'tools',
  ],
  [
    'of all tools of a response',
    responseBody,
    (n) => ({ ...RESPONSE, tools: flatTools(30_000, n - 30_000) }),
    MOST_SCHEMA,
    'tools',
  ],
  [
    'members of a schema that grades',
    newFineTuning,
    (n) => ({
      ...FINE_TUNING,
      method: {
        type: 'reinforcement',
        reinforcement: { grader: { type: 'json_schema', schema: record(n, (i) => [`k${i}`, 1]) } },
      },
    }),
    1024,
    'method.reinforcement.grader.schema',
  ],
])('%s: so many are taken, and not one more', (_, schema, make, most, place) => {
  expect(wrongAt(schema, make(most))).toBeNull();
  expect(wrongAt(schema, make(most + 1))).toBe(place);
});

describe('a seed has 64 bits', () => {
  test.each<[unknown, boolean]>([
    [2n ** 64n - 1n, true],
    [2n ** 64n, false],
    [-(2n ** 63n), true],
    [-(2n ** 63n) - 1n, false],
    [0, true],
    [2 ** 53 - 1, true],
    [1.5, false],
  ])('%s: %s', (seed, isOne) => {
    for (const [schema, body] of [
      [chatBody, { ...CHAT, seed }],
      [completionBody, { ...COMPLETION, seed }],
      [responseBody, { ...RESPONSE, seed }],
    ] as const)
      expect(wrongAt(schema, body)).toBe(isOne ? null : 'seed');
    expect(wrongAt(generateBody, { ...GENERATE, sampling_params: { seed } })).toBe(
      isOne ? null : 'sampling_params.seed',
    );
  });
});

test.each<[string, z.ZodType, object, string | null]>([
  ['a repetition penalty above 0', chatBody, { ...CHAT, repetition_penalty: 1e-3 }, null],
  ['none of 0', chatBody, { ...CHAT, repetition_penalty: 0 }, 'repetition_penalty'],
  ['options beside a stream', chatBody, { ...CHAT, stream: true, stream_options: {} }, null],
  [
    'options without one',
    chatBody,
    { ...CHAT, stream: false, stream_options: {} },
    'stream_options',
  ],
  ['an adapter by its name', chatBody, { ...CHAT, lora: [{ name: 'a' }] }, null],
  ['an adapter by its place', chatBody, { ...CHAT, lora: [{ id: 0 }] }, null],
  ['an adapter by both', chatBody, { ...CHAT, lora: [{ name: 'a', id: 0 }] }, 'lora.0'],
  ['an adapter by neither', chatBody, { ...CHAT, lora: [{ scale: 1 }] }, 'lora.0'],
  ['a text for tokens', tokenizeBody, { prompt: 'x' }, null],
  ['a text and messages', tokenizeBody, { prompt: 'x', messages: CHAT.messages }, ''],
  ['neither of both', tokenizeBody, {}, ''],
  ['no tokens', detokenizeBody, { tokens: [] }, null],
  ['log-probabilities as a number', chatBody, { ...CHAT, logprobs: 1 }, null],
  ['of no other number', chatBody, { ...CHAT, logprobs: 2 }, 'logprobs'],
  [
    'an answer in one piece',
    generateBody,
    { ...GENERATE, sampling_params: { output_kind: 2 } },
    null,
  ],
  [
    'an answer in pieces',
    generateBody,
    { ...GENERATE, sampling_params: { output_kind: 1 } },
    'sampling_params.output_kind',
  ],
  ['the usual priority', generateBody, { ...GENERATE, priority: 0 }, null],
  ['another priority', generateBody, { ...GENERATE, priority: 1 }, 'priority'],
  ['a response of the background', responseBody, { ...RESPONSE, background: true }, 'background'],
  ['a prompt that is kept elsewhere', responseBody, { ...RESPONSE, prompt: null }, null],
  [
    'a variable of the language',
    chatBody,
    { ...CHAT, chat_template_kwargs: { namespace: 1 } },
    'chat_template_kwargs.namespace',
  ],
  [
    'a variable that begins with a digit',
    chatBody,
    { ...CHAT, chat_template_kwargs: { '1a': 1 } },
    'chat_template_kwargs.1a',
  ],
  ['an embedding of dimensions', embeddingBody, { model: 'm', input: 'x', dimensions: 1 }, null],
  ['an adapter to load', loadAdapterBody, { lora_name: 'a', lora_path: 'x'.repeat(4096) }, null],
  [
    'batches of a job',
    newFineTuning,
    { ...FINE_TUNING, hyperparameters: { batch_size: 4096, n_epochs: 1000 } },
    null,
  ],
  ['the largest seed of a job', newFineTuning, { ...FINE_TUNING, seed: 2 ** 53 - 1 }, null],
  ['a seed of a job below 0', newFineTuning, { ...FINE_TUNING, seed: -1 }, 'seed'],
])('%s', (_, schema, body, place) => {
  expect(wrongAt(schema, body)).toBe(place);
});

test('what is left out is read as the docs say', () => {
  expect(chatBody.parse({ ...CHAT, logprobs: 1, n: null, unknown: null })).toMatchObject({
    logprobs: true,
    n: undefined,
  });
  expect(chatBody.parse({ ...CHAT, logprobs: 0 }).logprobs).toBe(false);
  expect(generateBody.parse(GENERATE).sampling_params).toEqual({});
  expect(pauseQuery.parse({})).toEqual({ mode: 'wait' });
});
