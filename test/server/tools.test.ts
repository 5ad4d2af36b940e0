/**
 * Tools as clients describe them, and what comes back: arguments that are an object, with the
 * digits and the end that the model wrote.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import path from 'node:path';
import type { Server } from '../../src/server/server.js';
import { callText } from '../../src/engine/tool-calls.js';
import { CallReader, planTools } from '../../src/server/openai/tools.js';
import { allowedBy } from '../models/gbnf.js';
import type { Parsed } from '../models/parsed.js';
import { eventsOf, reported, send, start, type Answer } from '../models/server.js';
import { processorMs } from '../models/processor-time.js';

let server: Server;
beforeAll(async () => {
  // Of the embedded model, whose context has room for tools.
  server = await start({ model: path.resolve('assets/models/tiny.gguf') });
});
afterAll(async () => {
  await server.close(0);
  expect(reported).toEqual([]);
});

const messages = [{ role: 'user', content: 'Name a river.' }];
const named = (
  name: string,
  parameters: object | boolean | undefined,
  more: object = {},
): object => ({
  type: 'function',
  function: { name, ...(parameters !== undefined && { parameters }), ...more },
});
const tool = (parameters: object | boolean | undefined, more: object = {}): object =>
  named('f', parameters, more);
const chat = (body: object): Promise<Answer> =>
  send(server, '/v1/chat/completions', {
    body: { model: 'base', messages, max_tokens: 200, seed: 1, ...body },
  });
const respond = (body: object): Promise<Answer> =>
  send(server, '/v1/responses', {
    body: { model: 'base', input: 'Name a river.', max_output_tokens: 200, seed: 1, ...body },
  });
const ONE = { tool_choice: 'required', parallel_tool_calls: false };
const O = (properties: object, more: object = {}): object => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  ...more,
});

describe('rules that no grammar keeps', () => {
  const RULES: [string, object][] = [
    ['exclusiveMaximum of a number', O({ a: { type: 'number', exclusiveMaximum: 7 } })],
    ['a format', O({ a: { type: 'string', format: 'email' } })],
    ['dependentRequired', { ...O({ a: { type: 'null' } }), dependentRequired: { a: ['b'] } }],
    ['contains', O({ a: { type: 'array', items: { type: 'null' }, contains: { type: 'null' } } })],
  ];
  test.each(RULES)(
    '%s: taken where the tool is not strict, refused by name where it is',
    async (_, parameters) => {
      expect((await chat({ tools: [tool(parameters)], max_tokens: 2 })).status).toBe(200);
      expect(
        (await chat({ tools: [tool(parameters, { strict: false })], max_tokens: 2 })).status,
      ).toBe(200);
      const refused = await chat({
        tools: [tool(O({})), named('g', parameters, { strict: true })],
        max_tokens: 2,
      });
      expect([refused.status, refused.body.error.code, refused.body.error.param]).toEqual([
        400,
        'grammar_invalid',
        'tools[1].function.parameters',
      ]);
      for (const [strict, status] of [
        [undefined, 200],
        [null, 200],
        [true, 400],
      ] as const) {
        const flat = {
          type: 'function',
          name: 'f',
          parameters,
          ...(strict !== undefined && { strict }),
        };
        expect((await respond({ tools: [flat], max_output_tokens: 2 })).status).toBe(status);
      }
    },
  );

  test('the model is told the whole schema', () => {
    const [[, parameters]] = RULES as [[string, object]];
    expect(
      planTools([
        {
          type: 'function',
          function: {
            name: 'f',
            description: undefined,
            parameters: parameters as never,
            strict: undefined,
          },
        },
      ])!.instructions,
    ).toContain('"exclusiveMaximum":7');
  });
});

test('references are to the own parameters of each tool, and a property may be called $ref', async () => {
  const tools = [
    named('one', {
      $defs: { 'a/b c': { enum: ['x'] } },
      ...O({ v: { $ref: '#/$defs/a~1b%20c' }, $ref: { type: 'boolean' } }),
    }),
    named('two', {
      definitions: { 'a/b c': { enum: [7] } },
      ...O({ v: { $ref: '#/definitions/a~1b%20c' } }),
    }),
    named('three', {
      $ref: '#/$defs/node',
      $defs: {
        node: O({
          v: { const: null },
          next: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] },
        }),
      },
    }),
  ];
  for (const [at, v] of ['x', 7, null].entries()) {
    const name = ['one', 'two', 'three'][at]!;
    const { body } = await chat({ tools, tool_choice: { type: 'function', function: { name } } });
    const [call] = body.choices[0].message.tool_calls;
    const given = JSON.parse(call.function.arguments);
    expect([call.function.name, given.v]).toEqual([name, v]);
    if (name === 'one') expect(typeof given.$ref).toBe('boolean');
  }
});

test.each([
  {},
  true,
  undefined,
  { $comment: 'none' },
  { properties: { a: { type: 'null' } } },
  { type: ['null', 'object'], properties: {} },
])('arguments are an object where the parameters are %j', async (parameters) => {
  for (const seed of [1, 2, 3]) {
    const { body } = await chat({ tools: [tool(parameters)], ...ONE, seed, temperature: 1.5 });
    expect(body.choices[0].message.tool_calls[0].function.arguments).toMatch(/^\{/);
  }
});

test('descriptions have no limit of their own, rules have', async () => {
  const long = 'what it is for. '.repeat(6000);
  const told = await chat({
    tools: [tool(O({ a: { type: 'null', description: long } }), { description: long })],
    max_tokens: 1,
  });
  expect([told.status, told.body.error?.code]).toEqual([400, 'context_length_exceeded']);
  const ruled = await chat({ tools: [tool(O({ a: { enum: [long] } }))], max_tokens: 1 });
  expect([ruled.status, ruled.body.error.param]).toEqual([400, expect.stringMatching(/^tools/)]);
});

describe('what ends a text ends no call', () => {
  const tools = [tool(O({ city: { enum: ['Rimini', 'Siena'] } }))];
  test.each([['i'], ['\n'], ['<'], ['<tool_call>'], ['"city"'], ['}']])(
    'the stop string %j',
    async (stop) => {
      const { body } = await chat({ tools, ...ONE, stop });
      const [choice] = body.choices;
      expect([
        choice.finish_reason,
        Object.keys(JSON.parse(choice.message.tool_calls[0].function.arguments)),
      ]).toEqual(['tool_calls', ['city']]);
      const { events } = eventsOf((await chat({ tools, ...ONE, stop, stream: true })).text);
      const [call] = events.flatMap(({ choices }) => choices[0].delta.tool_calls ?? []) as {
        function: object;
      }[];
      expect(call!.function).toEqual(choice.message.tool_calls[0].function);
    },
  );

  test('it ends the text before one', async () => {
    const plain = (await chat({ tools, max_tokens: 24 })).body.choices[0].message.content as string;
    const stop = plain.slice(3, 5);
    const { body } = await chat({ tools, max_tokens: 24, stop });
    expect(body.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: plain.slice(0, plain.indexOf(stop)) },
    });
    expect(body.choices[0].message.tool_calls).toBeUndefined();
  });
});

describe('calls as they were written', () => {
  const BIG = '{"id":9007199254740993,"x":1.50,"t":"a  b\\u0041\\n"}';
  test('numbers keep their digits, told and shown', () => {
    for (const given of [BIG, '{"a":-0.0,"b":12345678901234567890.123}', '{"a":[1e400]}']) {
      const written = `\n{"name": "f", "arguments": ${given.replaceAll('":', '": ')}\n}\n</tool_call>`;
      expect(new CallReader().read(`<tool_call>${written}`).calls).toEqual([
        { name: 'f', arguments: given },
      ]);
      expect(callText({ name: 'f', arguments: given })).toContain(`"arguments":${given}}`);
    }
    expect(callText({ name: 'f', arguments: 'no JSON' })).toContain('"arguments":"no JSON"}');
  });

  test.each([' ', '\u00a0', '\u3000'])(
    'a text of %j alone takes no longer than its length',
    (blank) => {
      const given = JSON.stringify({ a: blank.repeat(200_000) });
      const begun = process.cpuUsage();
      expect(
        new CallReader().read(`<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>`)
          .calls,
      ).toEqual([{ name: 'f', arguments: given }]);
      const cut = new CallReader();
      cut.read(`<tool_call>\n{"name": "f", "arguments": ${given} }`);
      expect([cut.rest().calls, cut.isCut]).toEqual([[{ name: 'f', arguments: given }], false]);
      expect(processorMs(begun)).toBeLessThan(2000); // by the square it is a minute
    },
  );

  test('one that is cut off is incomplete', async () => {
    const tools = [
      {
        type: 'function',
        name: 'f',
        parameters: O({ long: { type: 'array', items: { enum: ['aaaa'] }, minItems: 200 } }),
      },
    ];
    const { body } = await respond({ tools, ...ONE, max_output_tokens: 60 });
    const [call] = body.output;
    expect([body.status, call.type, call.status]).toEqual([
      'incomplete',
      'function_call',
      'incomplete',
    ]);
    expect(() => JSON.parse(call.arguments)).toThrow();
    const lines = (await respond({ tools, ...ONE, max_output_tokens: 60, stream: true })).text
      .split('\n')
      .filter((line) => line.startsWith('data: '));
    const events = lines.map((line) => JSON.parse(line.slice(6)));
    const items = events
      .filter(({ type }: Parsed) => type === 'response.output_item.done')
      .map(({ item }: Parsed) => item);
    expect(items.map(({ status, arguments: given }: Parsed) => [status, given])).toEqual([
      ['incomplete', call.arguments],
    ]);
    const whole = await respond({
      tools: [{ type: 'function', name: 'f', parameters: O({ a: { const: 1 } }) }],
      ...ONE,
    });
    expect([whole.body.status, whole.body.output[0].status]).toEqual(['completed', 'completed']);
  });

  test('sixteen of them are a reply, and no more', () => {
    const plan = planTools(
      [
        {
          type: 'function',
          function: { name: 'f', description: undefined, parameters: undefined, strict: undefined },
        },
      ],
      'required',
    );
    const isAllowed = allowedBy(plan!.grammar);
    const calls = (count: number): string =>
      Array(count).fill('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>').join('\n');
    expect([0, 1, 2, 16, 17].map((count) => isAllowed(calls(count)))).toEqual([
      false,
      true,
      true,
      true,
      false,
    ]);
  });
});
