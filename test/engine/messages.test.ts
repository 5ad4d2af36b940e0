/**
 * The one reader of messages: what clients, libraries and files write is the conversation that it
 * says, and nothing else of it counts.
 */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import {
  asTemplatesKnow,
  chatMessages,
  clientMessage,
  message,
} from '../../src/engine/messages.js';
import { maybe, members } from '../../src/object-schemas.js';
import { readPrompts } from '../../src/engine/prompt-file.js';
import { Random } from '../../src/random.js';

const client = (messages: unknown[]) => asTemplatesKnow(z.array(clientMessage).parse(messages));
const library = (messages: unknown[]) => chatMessages.parse(messages);
const both = (messages: unknown[]) => {
  expect(library(messages)).toEqual(client(messages));
  return client(messages);
};
const user = { role: 'user', content: 'Hi' };

describe('contents', () => {
  test.each([
    ['a text', 'Be brief.', 'Be brief.'],
    [
      'parts of a chat',
      [
        { type: 'text', text: 'Be ' },
        { type: 'text', text: 'brief.' },
      ],
      'Be brief.',
    ],
    ['a part of a response', [{ type: 'input_text', text: 'Be brief.' }], 'Be brief.'],
    [
      'parts with members that are left out',
      [
        { type: 'text', text: 'Be', image_url: null, cache_control: null },
        { type: 'output_text', text: ' brief.', annotations: null },
      ],
      'Be brief.',
    ],
  ])('%s', (_, content, text) => {
    for (const role of ['system', 'developer', 'user'])
      expect(both([{ role, content, name: null }, user])).toEqual([
        { role: role === 'user' ? 'user' : 'system', content: text },
        { role: 'user', content: 'Hi' },
      ]);
  });

  test.each([
    ['image_url', { type: 'image_url', image_url: { url: 'x' } }],
    ['input_audio', { type: 'input_audio', input_audio: {} }],
    ['input_file', { type: 'input_file', file_id: 'x' }],
    ['refusal', { type: 'refusal', refusal: 'no' }],
  ])('%s is refused by what it is', (type, part) => {
    for (const schema of [clientMessage, message]) {
      const { error } = schema.safeParse({
        role: 'user',
        content: [{ type: 'text', text: 'a' }, part],
      });
      expect(JSON.stringify(error!.issues)).toContain(
        `${type} is not supported: these models read only text`,
      );
    }
  });

  test('a member that messages do not have is refused where a client tells something, and passed over elsewhere', () => {
    const strange = { ...user, contents: 'x' };
    expect(clientMessage.safeParse(strange).error!.issues).toMatchObject([
      { code: 'unrecognized_keys', keys: ['contents'] },
    ]);
    expect(
      clientMessage.safeParse({ role: 'tool', tool_call_id: 'a', content: 'x', is_error: true })
        .success,
    ).toBe(false);
    expect(library([strange])).toEqual([user]);
  });
});

describe('an earlier reply', () => {
  /**
   * Of replies by OpenAI, vLLM, LiteLLM, OpenRouter, DeepSeek, Mistral, Ollama, llama-server, and
   * of the clients that read them.
   */
  const EXTRAS: Readonly<Record<string, readonly unknown[]>> = {
    refusal: [null],
    annotations: [null, [], [{ type: 'url_citation', url_citation: { url: 'x' } }]],
    audio: [null, { id: 'audio_1' }],
    function_call: [null],
    tool_calls: [null, []],
    parsed: [null, { on: true }, [1]],
    reasoning: [null, 'so', { effort: 'low' }],
    reasoning_content: [null, 'I think'],
    reasoning_details: [[{ type: 'reasoning.text', text: 'so' }]],
    provider_metadata: [{ openai: { id: 'x' } }],
    provider_specific_fields: [null, { citations: [] }],
    thinking_blocks: [[{ type: 'thinking', thinking: 'so', signature: 's' }]],
    images: [null, []],
    logprobs: [null, { content: [] }],
    finish_reason: ['stop'],
    name: [null, 'a helper'],
    prefix: [false],
    index: [0],
    stop_reason: [null, 'end'],
    token_ids: [[1, 2]],
  };
  const PART_EXTRAS: Readonly<Record<string, readonly unknown[]>> = {
    role: ['assistant'],
    refusal: [null],
    annotations: [[], null],
    logprobs: [[], null],
    parsed: [{ on: true }],
    providerData: [{ a: 1 }],
  };
  const random = new Random(11n);
  const some = (extras: Readonly<Record<string, readonly unknown[]>>): object =>
    Object.fromEntries(
      random
        .shuffle(Object.entries(extras))
        .slice(0, random.nextInteger(0, Object.keys(extras).length))
        .map(([name, values]) => [name, values[random.nextInteger(0, values.length - 1)]]),
    );

  test('says what it said, whatever else it had', () => {
    for (let i = 0; i < 300; i++) {
      const parts = [
        { type: 'text', text: 'Hel', ...some(PART_EXTRAS) },
        { type: 'output_text', text: 'lo', ...some(PART_EXTRAS) },
      ];
      const content = random.nextInteger(0, 1) === 0 ? 'Hello' : parts;
      expect(both([user, { ...some(EXTRAS), role: 'assistant', content }, user])).toEqual([
        user,
        { role: 'assistant', content: 'Hello' },
        user,
      ]);
    }
  });

  test.each<[string, object, string]>([
    ['that was a refusal', { content: null, refusal: 'I cannot.' }, 'I cannot.'],
    [
      'whose part is a refusal',
      { content: [{ type: 'refusal', refusal: 'I cannot.' }] },
      'I cannot.',
    ],
    [
      'that was thought before',
      {
        content: [
          { type: 'thinking', thinking: 'so' },
          { type: 'text', text: 'Yes' },
        ],
      },
      'Yes',
    ],
    ['without a word', { content: null }, ''],
    ['that was spoken', { audio: { id: 'a' } }, ''],
  ])('%s', (_, said, content) => {
    expect(both([user, { role: 'assistant', ...said }])).toEqual([
      user,
      { role: 'assistant', content },
    ]);
  });

  const weather = '<tool_call>\n{"name":"weather","arguments":{"city":"Rome"}}\n</tool_call>';
  test.each<[string, object]>([
    [
      'of a chat',
      {
        tool_calls: [
          {
            id: 'a',
            type: 'function',
            function: { name: 'weather', arguments: '{"city": "Rome"}' },
          },
        ],
      },
    ],
    [
      'as a client has parsed it',
      {
        tool_calls: [
          {
            id: 'a',
            index: 0,
            type: 'function',
            function: {
              name: 'weather',
              arguments: '{"city":"Rome"}',
              parsed_arguments: { city: 'Rome' },
            },
          },
        ],
      },
    ],
    [
      'as data sets have it',
      { tool_calls: [{ type: null, function: { name: 'weather', arguments: { city: 'Rome' } } }] },
    ],
    [
      'of before there were tools',
      { function_call: { name: 'weather', arguments: '{"city":"Rome"}' } },
    ],
  ])('a call %s is shown, and what it gave', (_, call) => {
    for (const result of [
      { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'sun' }] },
      { role: 'tool', tool_call_id: null, name: 'weather', content: 'sun' },
      { role: 'function', name: 'weather', content: 'sun' },
    ])
      expect(both([user, { role: 'assistant', content: null, ...call }, result])).toEqual([
        user,
        { role: 'assistant', content: weather },
        { role: 'user', content: '<tool_response>\nsun\n</tool_response>' },
      ]);
  });

  test('a call whose arguments are no JSON is shown as the text that it is; JSON keeps its digits, nested 128 deep and no deeper', () => {
    const shown = (given: string): string => {
      const call = { id: 'a', type: 'function', function: { name: 'weather', arguments: given } };
      return (
        both([user, { role: 'assistant', tool_calls: [call] }]) as [unknown, { content: string }]
      )[1].content;
    };
    for (const given of ['{"city": ', '', "{'city': 1}"])
      expect(shown(given)).toBe(
        `<tool_call>\n${JSON.stringify({ name: 'weather', arguments: given })}\n</tool_call>`,
      );
    for (const given of [
      `${'['.repeat(128)}${']'.repeat(128)}`,
      '{"id":9007199254740993,"share":1.50,"text":"a \\" b"}',
    ])
      expect(shown(given)).toBe(
        `<tool_call>\n{"name":"weather","arguments":${given}}\n</tool_call>`,
      );
    expect(shown('{ "a" :\n[1 , 2] }')).toContain('"arguments":{"a":[1,2]}}');
    for (const given of [`${'['.repeat(129)}${']'.repeat(129)}`, '[{'.repeat(30_000)])
      expect(() => shown(given)).toThrow('is nested more than 128 levels deep');
  });

  test('a call that is none is named', () => {
    const bad = {
      role: 'assistant',
      tool_calls: [{ type: 'custom', custom: { name: 'x', input: 'y' } }],
    };
    expect(clientMessage.safeParse(bad).error!.issues[0]).toMatchObject({
      path: ['tool_calls', 0, 'type'],
    });
  });
});

test('what was read is read again as it is; a message of the role tool that answers no call is left to the template', () => {
  const said = library([
    { role: 'developer', content: 'Be brief.' },
    user,
    { role: 'assistant', function_call: { name: 'f' } },
    { role: 'tool', content: 'x' },
  ]);
  expect(library(said)).toEqual(said);
  const report = [user, { role: 'tool', content: 'a report' }];
  expect(library(report)).toEqual(report);
});

test('a member without a value has any name, one with a value has those of its object', () => {
  const schema = members({ a: maybe(z.int()), b: maybe(members({ c: maybe(z.string()) })) });
  expect(schema.parse({ a: null, b: { c: null, d: null }, e: null, f: undefined })).toEqual({
    a: undefined,
    b: { c: undefined },
  });
  expect(schema.parse({})).toEqual({});
  const issues = (value: unknown) => schema.safeParse(value).error!.issues;
  expect(issues({ e: 0 })).toMatchObject([{ code: 'unrecognized_keys', keys: ['e'], path: [] }]);
  expect(issues({ b: { d: false } })).toMatchObject([
    { code: 'unrecognized_keys', keys: ['d'], path: ['b'] },
  ]);
  expect(issues(null)).toMatchObject([{ code: 'invalid_type' }]);
});

test('a file of prompts has them, and null for what a line leaves out', async () => {
  async function* lines(...rows: unknown[]): AsyncGenerator<string> {
    for (const row of rows) yield JSON.stringify(row);
  }
  const read: unknown[] = [];
  const rows = [
    {
      prompt: null,
      messages: [
        { role: 'developer', content: [{ type: 'text', text: 'Be brief.' }] },
        { ...user, id: 7 },
      ],
      id: null,
    },
    { prompt: 'Hi', messages: null, text: null, tokenIds: null },
  ];
  for await (const prompt of readPrompts(lines(...rows))) read.push(prompt);
  expect(read).toEqual([
    { messages: [{ role: 'system', content: 'Be brief.' }, user] },
    { messages: [user] },
  ]);
  const refused = async (row: unknown): Promise<void> => {
    for await (const prompt of readPrompts(lines(rows[1], row))) void prompt;
  };
  await expect(
    refused({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }),
  ).rejects.toThrow('line 2: messages: 0: content: 0: image_url is not supported');
  await expect(refused({ messages: [{ role: 'user', content: 5 }] })).rejects.toThrow(
    'line 2: messages: 0: content: must be a string or a list, not 5',
  );
});
