/**
 * What rows say of themselves: what is not to be learned is not, what no form reads is named, and
 * null is as good as nothing.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { NO_CURATION } from '../../src/operations/train/curation.js';
import { readTrainData, type TrainData } from '../../src/operations/train/data.js';
import { tokenisedPairs } from '../../src/fine-tuning/preference-pairs.js';
import {
  eachAnswer,
  parseExamples,
  rowsOf,
  tokenisedExamples,
} from '../../src/fine-tuning/training-examples.js';
import { loadModel, type Model } from '../../src/index.js';
import { Random } from '../../src/random.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-rows-'));
const file = (name: string): string => path.join(folder, name);
let model: Model;
/** Whose template takes no message of the system. */
let strict: Model;
beforeAll(async () => {
  writeSyntheticModel(file('model.gguf'), { architecture: 'qwen2' });
  model = await loadModel(file('model.gguf'), { threads: 1 });
  copyWithTemplate(file('model.gguf'), file('strict.gguf'));
  strict = await loadModel(file('strict.gguf'), { threads: 1 });
});
afterAll(async () => {
  await model.dispose();
  await strict.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** In the place of ChatML one of the same length that takes no message of the system. */
function copyWithTemplate(from: string, to: string): void {
  const bytes = readFileSync(from);
  const at = bytes.indexOf('tokenizer.chat_template') + 'tokenizer.chat_template'.length + 4;
  const length = Number(bytes.readBigUInt64LE(at));
  const template =
    "{% if messages[0].role=='system' %}{{ raise_exception('no system') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
  expect(template.length).toBeLessThanOrEqual(length);
  bytes.write(template.padEnd(length), at + 8, 'latin1');
  writeFileSync(to, bytes);
}

async function* textsOf(rows: readonly unknown[]): AsyncGenerator<string> {
  for (const row of rows) yield JSON.stringify(row);
}
const linesOf = (...rows: unknown[]) => rowsOf(textsOf(rows));
const options = {
  beta: 0.1,
  curation: NO_CURATION,
  validation: undefined,
  maxTokens: 300,
  references: '',
};
const learned = (
  rows: unknown[],
  more: Partial<Parameters<typeof readTrainData>[1]> = {},
): Promise<TrainData> =>
  readTrainData(model, { ...options, objective: 'sft', ...more, rows: linesOf(...rows) });

const user = { role: 'user', content: 'hi' };
const said = { role: 'assistant', content: 'yes' };
const FALSE = [
  false,
  0,
  0.0,
  -1,
  '0',
  '0.0',
  ' 0,0 ',
  'false',
  'False',
  'FALSE',
  'no',
  'N',
  'f',
  'off',
];
const TRUE = [true, 1, 1.0, '1', '1.0', 'true', 'Yes', 't', null];

describe('what is not to be learned', () => {
  test.each(FALSE)('%j, wherever it stands, is heard', async (weight) => {
    const pair = { chosen: [user, said], rejected: [user, { ...said, content: 'no' }] };
    for (const row of [
      { prompt: 'hi', completion: 'yes', label: weight },
      { prompt: [user], completion: [{ ...said, weight }] },
      { prompt: 'hi', completion: 'yes', weight },
      { messages: [user, { ...said, weight }] },
      { messages: [user, said], weight },
      { messages: [user, said], label: weight },
      {
        conversations: [
          { from: 'human', value: 'hi' },
          { from: 'gpt', value: 'yes', weight },
        ],
      },
      {
        conversations: [
          { from: 'human', value: 'hi' },
          { from: 'gpt', value: 'yes' },
        ],
        kto_tag: weight,
      },
      { instruction: 'hi', output: 'yes', weight },
      { instruction: 'hi', output: 'yes', label: weight },
      { text: 'hi', weight },
      { prompt: 'hi', answer: 'yes', weight },
    ])
      await expect(parseExamples(linesOf({ text: 'fine' }, row))).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(
          /^line 2: (its (label|kto_tag) is false|the (row|last message) has weight 0)/,
        ),
        remedy: expect.stringContaining('Remove such rows'),
      });
    for (const row of [
      { ...pair, weight },
      { ...pair, chosen: [user, { ...said, weight }] },
      {
        input: { messages: [user] },
        preferred_output: [{ ...said, weight }],
        non_preferred_output: [said],
      },
    ])
      await expect(tokenisedPairs(linesOf(row), model, 200)).rejects.toThrow(
        /^line 1: .* has weight 0, which excludes it from training/,
      );
  });

  test.each(TRUE)('%j is no such word', async (weight) => {
    const rows = [
      { prompt: 'hi', completion: 'yes', label: weight, weight },
      { messages: [user, { ...said, weight }] },
      {
        conversations: [
          { from: 'human', value: 'hi' },
          { from: 'gpt', value: 'yes', weight },
        ],
        kto_tag: weight,
      },
    ];
    const { examples, notes } = await learned(rows);
    expect([examples, notes]).toEqual([3, []]);
  });

  test('of several answers those are learned that are to be', async () => {
    const random = new Random(5n);
    for (let i = 0; i < 40; i++) {
      const weights = Array.from({ length: 4 }, () => random.nextInteger(0, 1));
      const turns = [...weights, 1].flatMap((weight, k) => [
        { role: 'user', content: `q${k}` },
        {
          role: 'assistant',
          content: `a${k}`,
          ...(random.nextInteger(0, 1) === 0 && weight === 1 ? {} : { weight }),
        },
      ]);
      const wanted = [...weights, 1].flatMap((weight, k) => (weight === 1 ? [`a${k}`] : []));
      const rows = [
        { messages: turns },
        { prompt: turns.slice(0, -1), completion: 'a4' },
        {
          conversations: turns.map(({ role, content, ...more }) => ({
            from: role === 'user' ? 'human' : 'gpt',
            value: content,
            ...more,
          })),
        },
      ];
      for (const each of (await parseExamples(linesOf(...rows))).map(eachAnswer))
        expect(each.map(({ example }) => ('answer' in example ? example.answer : ''))).toEqual(
          wanted,
        );
    }
    const off = { messages: [user, { ...said, train: false }, user, said] };
    expect((await learned([off], { answers: 'all' })).examples).toBe(1);
    expect((await learned([off])).notes).toEqual([]);
    await expect(learned([{ messages: [user, { ...said, train: false }] }])).rejects.toThrow(
      'the last message has train: false',
    );
  });

  test('a class is no label of KTO where a row has an answer or a text; a weight that is neither 0 nor 1 is refused', async () => {
    const { examples } = await learned([
      { prompt: 'good?', answer: 'negative', label: 0 },
      { text: 'a review', label: 0 },
    ]);
    expect(examples).toBe(2);
    await expect(
      learned([{ prompt: 'good?', answer: 'negative', label: 'False' }]),
    ).rejects.toThrow('label is false');
    await expect(learned([{ messages: [user, { ...said, weight: 0.5 }] }])).rejects.toThrow(
      'messages: 1: weight: must be 0 or 1, not 0.5',
    );
    expect((await learned([{ prompt: 'a', completion: 'b', weight: 72 }])).notes).toEqual([
      'ignored members: weight (1 row)',
    ]);
  });
});

describe('members that no form reads', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }];
  test.each<[string, object, string]>([
    ['tools', { messages: [user, said], tools }, 'tools (1 row)'],
    ['functions', { messages: [user, said], functions: [{ name: 'f' }] }, 'functions (1 row)'],
    [
      'of a message',
      { messages: [user, { ...said, reasoning_content: 'so' }] },
      'reasoning_content (1 row)',
    ],
    [
      'of several messages',
      { messages: [user, { ...said, thinking: 'a' }, user, { ...said, thinking: 'b' }] },
      'thinking (1 row)',
    ],
    [
      'a part',
      {
        messages: [
          user,
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'a' },
              { type: 'text', text: 'b' },
            ],
          },
        ],
      },
      'thinking (1 row)',
    ],
    ['who speaks', { messages: [{ ...user, name: 'Ann' }, said] }, 'name (1 row)'],
    [
      'of ShareGPT',
      {
        conversations: [
          { from: 'human', value: 'a' },
          { from: 'gpt', value: 'b', thought: 'c' },
        ],
        tools: '[]x',
      },
      'tools (1 row), thought (1 row)',
    ],
    ['of Alpaca', { instruction: 'a', output: 'b', history: [['c', 'd']] }, 'history (1 row)'],
    [
      'of a completion',
      { prompt: 'a', completion: [{ ...said, reasoning: 'c' }], documents: ['d'] },
      'documents (1 row), reasoning (1 row)',
    ],
    ['beside a text', { text: 'a', images: ['b'] }, 'images (1 row)'],
  ])('%s are named', async (_, row, named) => {
    const [note] = (await learned([row])).notes.filter((text) =>
      text.startsWith('ignored members'),
    );
    expect(note).toBe(`ignored members: ${named}`);
  });

  test('are counted by rows, the commonest first; what is empty, and what a row says of itself, is none', async () => {
    const rows = [
      {
        prompt: 'a',
        completion: 'b',
        tools,
        images: [],
        id: 7,
        score: 1,
        tier: 'x',
        verdict: 'pass',
        source: { run: 'r' },
      },
      { prompt: 'c', completion: 'd', tools, docs: 'e', reasoning: null, functions: {} },
    ];
    expect((await learned(rows)).notes).toEqual(['ignored members: tools (2 rows), docs (1 row)']);
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`m${i}`, 1]));
    expect((await learned([{ ...rows[0], ...many }])).notes[0]).toMatch(
      /m10 \(1 row\) and 19 more$/,
    );
  });

  test('of pairs too', async () => {
    const rows = [
      {
        input: { messages: [user], tools },
        preferred_output: [said],
        non_preferred_output: [{ ...said, content: 'no', reasoning: 'x' }],
      },
      { prompt: 'hi', chosen: 'yes', rejected: 'no', chosen_rating: 5 },
    ];
    expect((await learned(rows, { objective: 'dpo' })).notes).toEqual([
      'ignored members: reasoning (1 row), tools (1 row), chosen_rating (1 row)',
    ]);
  });
});

describe('a text that names control tokens', () => {
  const ids = async (text: string): Promise<number[]> => [
    ...tokenisedExamples(await parseExamples(linesOf({ text })), model, 300).sequences[0]!.tokenIds,
  ];

  test('has them, and they are told', async () => {
    const [begin, end] = ['<|im_start|>', '<|im_end|>'];
    const control = (text: string): number => model.tokenize(text, { parseControl: true })[0]!;
    for (const [text, controls] of [
      [`${begin}user\nhi${end}\n${begin}assistant\nyes${end}\n`, [begin, end, begin, end]],
      [`a ${begin} b`, [begin]],
      [`a${end}`, [end]],
    ] as const) {
      const found = (await ids(text)).filter(
        (id) => [control(begin), control(end)].includes(id) && id !== model.info.eos,
      );
      expect(found).toEqual(controls.map(control).filter((id) => id !== model.info.eos));
      const { notes } = await learned([{ text }, { text: 'plain' }]);
      const named = [...new Set(controls)].map((name) => `${name} (1 text)`).join(', ');
      expect(notes).toEqual([`control tokens in texts are trained as control tokens: ${named}`]);
    }
  });

  test('one that names none is as it was', async () => {
    const { eos } = model.info;
    for (const text of ['plain', 'a < | b |> c', '<|im_start', '<s> x </s>', 'é\n\n<|im_ end|>']) {
      const tokens = await ids(text);
      const plain = [...model.tokenize(text)];
      expect(tokens.slice(tokens.length - 1 - plain.length)).toEqual([...plain, eos]);
      expect((await learned([{ text }])).notes).toEqual([]);
    }
  });
});

test('null is as good as nothing, in every form', async () => {
  const nothing = {
    messages: null,
    conversations: null,
    prompt: null,
    completion: null,
    answer: null,
    instruction: null,
    input: null,
  };
  const none = {
    ...nothing,
    output: null,
    system: null,
    text: null,
    chosen: null,
    rejected: null,
    label: null,
    weight: null,
    tools: null,
  };
  const part = { type: 'text', text: 'hi', image_url: null };
  const pairs: readonly (readonly [object, object])[] = [
    [
      { prompt: 'hi', completion: 'yes' },
      { ...none, prompt: 'hi', completion: 'yes' },
    ],
    [
      { messages: [user, said] },
      {
        ...none,
        messages: [
          { ...user, name: null, content: [part] },
          { ...said, tool_calls: null, weight: null },
        ],
      },
    ],
    [
      { instruction: 'hi', output: 'yes' },
      { ...none, instruction: 'hi', output: 'yes' },
    ],
    [{ text: 'hi' }, { ...none, text: 'hi' }],
    [
      { prompt: 'hi', answer: 'yes' },
      { ...none, prompt: 'hi', answer: 'yes' },
    ],
  ];
  for (const [plain, full] of pairs) {
    const [one, other] = await parseExamples(linesOf(plain, full));
    expect(other!.example).toEqual(one!.example);
    expect(other!.unread).toEqual([]);
  }
  const explicit = { prompt: 'hi', chosen: 'yes', rejected: 'no' };
  const { pairs: read } = await tokenisedPairs(
    linesOf(explicit, { ...none, ...explicit }),
    model,
    200,
  );
  expect(read[1]).toEqual(read[0]);
  await expect(parseExamples(linesOf({ ...none, prompt: 'hi' }))).rejects.toThrow(
    'line 1: expected',
  );
});

describe('pairs as UltraFeedback has them', () => {
  const no = { role: 'assistant', content: 'no' };
  const system = { role: 'system', content: 'be brief' };
  const before = [
    user,
    { role: 'assistant', content: 'go on' },
    { role: 'user', content: 'well?' },
  ];
  test.each<[string, object, object]>([
    [
      'a prompt as a text',
      { prompt: 'hi', chosen: [user, said], rejected: [user, no] },
      { prompt: 'hi', chosen: 'yes', rejected: 'no' },
    ],
    [
      'a prompt with blanks',
      { prompt: ' hi\n', chosen: [user, said], rejected: [user, no] },
      { prompt: 'hi', chosen: 'yes', rejected: 'no' },
    ],
    [
      'a prompt as messages',
      { prompt: [user], chosen: [user, said], rejected: [user, no] },
      { prompt: [user], chosen: 'yes', rejected: 'no' },
    ],
    [
      'a system that the prompt leaves out',
      { prompt: 'hi', chosen: [system, user, said], rejected: [system, user, no] },
      { prompt: [system, user], chosen: [said], rejected: [no] },
    ],
    [
      'a system that the conversations leave out',
      { prompt: [system, user], chosen: [user, said], rejected: [user, no] },
      { prompt: [system, user], chosen: [said], rejected: [no] },
    ],
    [
      'several turns',
      { prompt: 'hi', chosen: [...before, said], rejected: [...before, no] },
      { prompt: before, chosen: 'yes', rejected: 'no' },
    ],
    [
      'the last question',
      { prompt: 'well?', chosen: [...before, said], rejected: [...before, no] },
      { prompt: before, chosen: 'yes', rejected: 'no' },
    ],
  ])('%s', async (_, row, explicit) => {
    const { pairs } = await tokenisedPairs(linesOf(row, explicit), model, 300);
    expect(pairs[0]).toEqual(pairs[1]);
  });

  test.each<[string, object, string]>([
    [
      'another prompt',
      { prompt: 'bye', chosen: [user, said], rejected: [user, no] },
      'do not contain the prompt before their last messages',
    ],
    [
      'two prompts',
      { prompt: 'hi', chosen: [user, said], rejected: [{ ...user, content: 'ho' }, no] },
      'differ before their last messages',
    ],
    [
      'one whole and one reply',
      { prompt: 'hi', chosen: 'yes', rejected: [user, no] },
      'rejected: must be a string or a list of one message',
    ],
    [
      'a question last',
      { prompt: 'hi', chosen: [user, said, user], rejected: [user, no, user] },
      "chosen: the last message must be the assistant's",
    ],
  ])('%s is refused by its line', async (_, row, message) => {
    await expect(tokenisedPairs(linesOf(row), model, 300)).rejects.toMatchObject({
      message: expect.stringMatching(`^line 1: .*${message}`),
    });
  });

  test('two equal replies are left out, with their number', async () => {
    const equal = [
      { prompt: 'a', chosen: 'b', rejected: 'b' },
      { chosen: [user, said], rejected: [user, said] },
    ];
    const good = { prompt: 'a', chosen: 'b', rejected: 'c' };
    const data = await learned([good, ...equal], { objective: 'dpo' });
    expect(data).toMatchObject({
      examples: 1,
      leftOut: 2,
      tooLong: 0,
      notes: ['2 pairs have two identical replies and are skipped'],
    });
    await expect(learned(equal, { objective: 'dpo' })).rejects.toThrow(
      'all 2 pairs have two identical replies',
    );
  });
});

test('a row that the template refuses is named, of examples and pairs', async () => {
  const system = { role: 'system', content: 'be brief' };
  const remedy = expect.stringContaining('that row');
  const examples = await parseExamples(
    linesOf({ messages: [user, said] }, { text: 'a' }, { messages: [system, user, said] }),
  );
  expect(() => tokenisedExamples(examples, strict, 200)).toThrow(
    expect.objectContaining({
      code: 'TEMPLATE_INVALID',
      message: expect.stringMatching(/^line 3: .*no system/),
      remedy,
    }),
  );
  const pairs = linesOf(
    { prompt: 'a', chosen: 'b', rejected: 'c' },
    { prompt: [system, user], chosen: 'b', rejected: 'c' },
  );
  await expect(tokenisedPairs(pairs, strict, 200)).rejects.toMatchObject({
    code: 'TEMPLATE_INVALID',
    message: expect.stringMatching(/^line 2: /),
    remedy,
  });
});
