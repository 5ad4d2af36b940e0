/**
 * Calls in what a model writes: which texts a plan's grammar lets through, and what a reader makes
 * of them, however they come in pieces.
 */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import type { ToolBody } from '../../src/server/openai/requests.js';
import { CallReader, planTools } from '../../src/server/openai/tools.js';
import { allowedBy } from '../models/gbnf.js';

const [BEGIN, END] = ['<tool_call>', '</tool_call>'];
const tool = (name: string, parameters?: object, description?: string): ToolBody => ({
  type: 'function',
  function: { name, description, parameters: parameters as never, strict: undefined },
});
const written = (name: string, given = '{}'): string =>
  `${BEGIN}\n{"name": "${name}", "arguments": ${given}}\n${END}`;

describe('the grammar of a plan', () => {
  const tools = [
    tool('f'),
    tool('g', { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] }),
  ];

  test('lets any text through that has no opening tag, and after one nothing but calls', () => {
    const { grammar, stopBefore } = planTools(tools)!;
    const isAllowed = allowedBy(grammar);
    expect(stopBefore).toBe(BEGIN);
    const random = new Random(9n);
    const parts = [...'<tol_ca>', '<tool', '<tool_', '<tool_call', '<', 'x', '\n', 'é'];
    for (let i = 0; i < 400; i++) {
      let text = '';
      while (random.nextInteger(0, 6) > 0 && text.length < 30)
        text += parts[random.nextInteger(0, parts.length - 1)]!;
      expect([text, isAllowed(text)]).toEqual([text, !text.includes(BEGIN)]);
    }
    for (let i = 0; i <= BEGIN.length; i++)
      for (const behind of ['', '<', 'x', `<${BEGIN.slice(0, i)}y`]) {
        const text = BEGIN.slice(0, i) + behind;
        expect([text, isAllowed(text)]).toEqual([text, !text.includes(BEGIN)]);
      }
    for (const before of ['', 'Let me see. ', 'a < b <too'])
      for (const [behind, isOne] of [
        [written('f'), true],
        [written('g', '{"a": 2}'), true],
        [`${written('f')}\n${written('g', '{"a": 1}')}`, true],
        [`${written('f')}${written('f')}`, false],
        [`${written('f')} `, false],
        [written('g'), false],
        [written('h'), false],
        [BEGIN, false],
        [`${BEGIN}\n{}\n${END}`, false],
      ] as const)
        expect([before + behind, isAllowed(before + behind)]).toEqual([before + behind, isOne]);
  });

  test.each<[string, Parameters<typeof planTools>[1], boolean, Record<string, boolean>]>([
    [
      'required',
      'required',
      true,
      { '': false, text: false, [written('f')]: true, [`${written('f')}\n${written('f')}`]: true },
    ],
    [
      'required, one',
      'required',
      false,
      { '': false, [written('f')]: true, [`${written('f')}\n${written('f')}`]: false },
    ],
    [
      'text or one',
      'auto',
      false,
      { '': true, text: true, [written('f')]: true, [`${written('f')}\n${written('f')}`]: false },
    ],
    [
      'a named one',
      { type: 'function', function: { name: 'g' } },
      true,
      {
        '': false,
        [written('f')]: false,
        [written('g', '{"a": 1}')]: true,
        [`${written('g', '{"a": 1}')}\n${written('g', '{"a": 1}')}`]: false,
      },
    ],
  ])('%s', (_, choice, parallel, texts) => {
    const isAllowed = allowedBy(planTools(tools, choice, parallel)!.grammar);
    expect(Object.fromEntries(Object.keys(texts).map((text) => [text, isAllowed(text)]))).toEqual(
      texts,
    );
  });
});

describe('a plan', () => {
  test('tells the model of all tools, and whether it has to call one', () => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } } };
    const tools = [tool('f', parameters, 'tells it'), tool('g')];
    const lines = (first: string): string =>
      [
        first,
        'The tools, each with the JSON Schema of its parameters:',
        '<tools>',
        JSON.stringify({ name: 'f', description: 'tells it', parameters }),
        '{"name":"g","parameters":{"type":"object","properties":{}}}',
        '</tools>',
        'To call one, write its name and arguments as JSON, like this:',
        BEGIN,
        '{"name": NAME, "arguments": {ARGUMENTS}}',
        END,
      ].join('\n');
    expect(planTools(tools)!.instructions).toBe(lines('You may answer by calling tools.'));
    for (const choice of ['required', { type: 'function', function: { name: 'g' } }] as const)
      expect(planTools(tools, choice)!.instructions).toBe(lines('Answer by calling tools.'));
  });

  test('is none where there are no tools, or none is to be called', () => {
    expect([
      planTools(undefined),
      planTools([]),
      planTools([], 'none'),
      planTools([tool('f')], 'none'),
    ]).toEqual([null, null, null, null]);
  });

  test.each<[string, Parameters<typeof planTools>, unknown[]]>([
    [
      'a call without tools',
      [[], 'required'],
      ['tool_choice', 'tool_choice asks for a call, but there are no tools'],
    ],
    [
      'a named call without tools',
      [undefined, { type: 'function', function: { name: 'f' } }],
      ['tool_choice', 'tool_choice asks for a call, but there are no tools'],
    ],
    [
      'a name that is none',
      [[tool('f')], { type: 'function', function: { name: 'g' } }],
      ['tool_choice', 'tool_choice names none of the tools'],
    ],
    [
      'two of a name',
      [[tool('f'), tool('g'), tool('f')], 'none'],
      ['tools[2].function.name', 'two tools are named f'],
    ],
  ])('%s is refused', (_, given, [param, message]) => {
    expect(() => planTools(...given)).toThrow(
      expect.objectContaining({ status: 400, code: 'invalid_value', param, message }) as never,
    );
  });
});

describe('a reader', () => {
  test('finds text and calls, however the reply comes in pieces, and holds back no more than what may become a tag', () => {
    const random = new Random(17n);
    const texts = [
      '',
      'Let me see.',
      'a < b and <tool_cal',
      '<<tool_call',
      'é <',
      '\n',
      '<tool_call ',
    ];
    const given = [
      '{}',
      '{"a":"<tool_call>"}',
      '{"a":[1,{"b":"}"}]}',
      '{"n":1.50,"t":"</tool_call>"}',
    ];
    for (let i = 0; i < 120; i++) {
      const text = texts[random.nextInteger(0, texts.length - 1)]!;
      const calls = Array.from({ length: random.nextInteger(0, 3) }, (_, at) => ({
        name: `f${at}`,
        arguments: given[random.nextInteger(0, given.length - 1)]!,
      }));
      const reply = text + calls.map((call) => written(call.name, call.arguments)).join('\n');
      const reader = new CallReader();
      let [said, read] = ['', ''];
      const found: object[] = [];
      for (let at = 0; at < reply.length; ) {
        const to = at + random.nextInteger(1, 1 + (i % 9));
        const piece = reader.read(reply.slice(at, to));
        read += reply.slice(at, to);
        at = to;
        said += piece.text;
        found.push(...piece.calls);
        const begins = read.indexOf(BEGIN);
        const sayable = begins < 0 ? read : read.slice(0, begins);
        let held = begins < 0 ? Math.min(BEGIN.length - 1, sayable.length) : 0;
        while (!BEGIN.startsWith(sayable.slice(sayable.length - held))) held--;
        expect([read, said]).toEqual([read, sayable.slice(0, sayable.length - held)]);
        expect(found).toHaveLength(read.split(`}\n${END}`).length - 1);
      }
      const rest = reader.rest();
      expect([said + rest.text, [...found, ...rest.calls], reader.isCut]).toEqual([
        text,
        calls,
        false,
      ]);
      expect(reader.rest()).toEqual({ text: '', calls: [] });
    }
  });

  test('a call that is cut off anywhere has its name and what was written of its arguments', () => {
    const whole = '\n{"name": "f\\"x", "arguments": {"a": [1, 2]}}\n</tool_call>';
    const nameEnds = whole.indexOf('", "arg') + 1;
    const begins = whole.indexOf('{"a"');
    const ends = whole.indexOf('}}\n') + 2;
    for (let at = 0; at < whole.length; at++) {
      const reader = new CallReader();
      expect(reader.read(`text ${BEGIN}${whole.slice(0, at)}`)).toEqual({
        text: 'text ',
        calls: [],
      });
      const { text, calls } = reader.rest();
      expect(text).toBe('');
      const told = [whole.slice(0, at), calls, reader.isCut];
      if (at >= ends)
        expect(told).toEqual([
          whole.slice(0, at),
          [{ name: 'f"x', arguments: '{"a":[1,2]}' }],
          false,
        ]);
      else if (at >= begins - 1)
        expect(told).toEqual([
          whole.slice(0, at),
          [{ name: 'f"x', arguments: whole.slice(begins, at).trim() }],
          true,
        ]);
      else if (at < nameEnds) expect(told).toEqual([whole.slice(0, at), [], false]);
    }
  });

  test('what stands between calls and behind them is no text', () => {
    const reader = new CallReader();
    expect(reader.read(`a${written('f')}b${written('g')}c`)).toEqual({
      text: 'a',
      calls: [
        { name: 'f', arguments: '{}' },
        { name: 'g', arguments: '{}' },
      ],
    });
    expect([reader.rest(), reader.isCut]).toEqual([{ text: '', calls: [] }, false]);
  });
});
