/**
 * Files of rows as spreadsheets, other systems and other languages write them: read as they are
 * meant, or refused by name.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from '@jest/globals';
import { exampleLines } from '../../src/operations/train/data.js';
import { evaluateGreedy } from '../../src/evaluation/greedy.js';
import type { Backend } from '../../src/backends/backend.js';
import { readRaw, readRows } from '../../src/tasks/data/read-rows.js';
import { openTask } from '../../src/tasks/open-task.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-forms-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const write = (content: string | Uint8Array, ending = 'jsonl'): string => {
  const file = path.join(folder, `forms-${++files}.${ending}`);
  writeFileSync(file, content);
  return file;
};
const WORDS = ['oak', 'elm', 'fir', 'ash', 'yew'];
const asks = (i: number): string =>
  `How tall is ${WORDS[i % 5]} number ${WORDS[Math.floor(i / 5) % 5]} ${WORDS[Math.floor(i / 25)]}?`;
/** Lines with different questions and these members. */
const rows = (members: (i: number) => string): string =>
  Array.from(
    { length: 40 },
    (_, i) => `{"prompt": ${JSON.stringify(asks(i))}, ${members(i)}}\n`,
  ).join('');

async function kinds(
  check: string,
  members: string,
  replies: readonly string[],
): Promise<string[]> {
  await using task = await openTask(write(rows(() => members)), { check });
  const found = [];
  for (const reply of replies) {
    const { verdict, form } = await task.judge(task.rows!.heldOut.test[0]!, reply, 'stop');
    found.push(verdict.kind === 'fail' && form === null ? 'unread' : verdict.kind);
  }
  return found;
}

describe('numbers of JSON', () => {
  test.each<[string, string, Record<string, string>]>([
    ['exact', '"answer": 1.50', { '1.50': 'pass', '1.5': 'fail' }],
    [
      'exact',
      '"answer": 12345678901234567890',
      { '12345678901234567890': 'pass', '12345678901234567000': 'fail' },
    ],
    ['number', '"answer": 1.50', { '1.5': 'pass', '1.500': 'pass' }],
    [
      'number',
      '"answer": 12345678901234567890',
      {
        '12345678901234567890': 'pass',
        '12345678901234567891': 'fail',
        '1.234567890123456789e19': 'pass',
      },
    ],
    [
      'number:0.5',
      '"answer": "1234567890123456"',
      { '1234567890123457': 'fail', '1234567890123456.5': 'pass' },
    ],
    ['number:0.7%', '"answer": 1000', { '1007': 'pass', '993': 'pass', '1007.01': 'fail' }],
    [
      'json',
      '"answer": {"n": 12345678901234567890, "x": 1.50}',
      {
        '{"x": 1.5, "n": 12345678901234567890}': 'pass',
        '{"x": 1.5, "n": 12345678901234567890.00}': 'pass',
        '{"x": 1.5, "n": 12345678901234567891}': 'fail',
        '{"x": 1.5, "n": "12345678901234567890"}': 'fail',
        '{"x": 1.5, "x": 1.5, "n": 12345678901234567890}': 'unread',
      },
    ],
    [
      'json',
      '"answer": "[9007199254740993]"',
      { '[9007199254740993]': 'pass', '[9007199254740992]': 'fail' },
    ],
    [
      'json',
      '"answer": {"n": 9007199254740992}',
      { '{"n": 9007199254740993}': 'fail', '{"n": 9007199254740992}': 'pass' },
    ],
  ])('%s of {%s}', async (check, members, replies) => {
    expect(await kinds(check, members, Object.keys(replies))).toEqual(Object.values(replies));
  });

  test('change the id of no row that has none', () => {
    const [row] = readRows(write(rows(() => '"answer": 1.5, "id": 12, "score": 0.25')));
    expect(row).toMatchObject({ answer: 1.5, fields: { id: 12, score: 0.25 } });
    expect(
      readRows(write(rows(() => '"answer": "x", "id": 12345678901234567890')))[0],
    ).toMatchObject({
      fields: { id: '12345678901234567890' },
    });
  });

  test('are refused where a program would be given another one', async () => {
    const script = write('export const verify = () => true;', 'mjs');
    for (const members of [
      '"answer": 12345678901234567890',
      '"answer": "x", "of": {"id": 12345678901234567890}',
    ])
      await expect(openTask(write(rows(() => members)), { check: script })).rejects.toThrow(
        /row 1 \(line 1\): (?:answer|of\.id) is 12345678901234567890, which has more digits/,
      );
    await expect(
      openTask(write(rows(() => '"answer": {"x": 1e999}')), { check: 'json' }),
    ).rejects.toThrow(/answer\.x is 1e999/);
    const schema = write('{"properties": {"n": {"maximum": 9007199254740993}}}', 'json');
    await expect(
      openTask(write(rows(() => '"answer": "1"')), { check: `json:${schema}` }),
    ).rejects.toThrow(/properties\.n\.maximum/);
  });
});

test('a row that names a member twice is refused', () => {
  expect(() =>
    readRows(write(rows((i) => (i === 3 ? '"answer": "a", "answer": "b"' : '"answer": "a"')))),
  ).toThrow(/row 4 \(line 4\): has the member "answer" twice/);
});

describe('tables', () => {
  const table = (header: string, row: (i: number) => string, end = '\n'): string =>
    [header, ...Array.from({ length: 40 }, (_, i) => row(i))].join(end);

  test.each(['\n', '\r\n', '\r'])(
    'end their lines with %j, in cells too, which have one kind',
    (end) => {
      const read = readRows(
        write(
          table(
            'prompt,answer',
            (i) => `"${asks(i)}${end}Why?",a${end}"${asks(i)} And why?",b`,
            end,
          ),
          'csv',
        ),
      );
      expect(read[0]).toMatchObject({ answer: 'a', messages: [{ content: `${asks(0)}\nWhy?` }] });
      expect(read).toHaveLength(80);
    },
  );

  test('mix them', () => {
    const ends = ['\n', '\r\n', '\r'];
    const text = `prompt,answer,tier\r${Array.from({ length: 40 }, (_, i) => `${asks(i)},a,one${ends[i % 3]!}`).join('')}`;
    expect(new Set(readRows(write(text, 'csv')).map(({ tier }) => tier))).toEqual(new Set(['one']));
    const jsonl = rows(() => '"answer": "x"')
      .split('\n')
      .map((line, i) => `${line}${ends[i % 3]!}`)
      .join('');
    expect(readRows(write(jsonl))).toHaveLength(40);
    expect(readRows(write(jsonl))[39]).toMatchObject({ row: 40 });
  });

  test('have columns and cells of nothing, which are left out', () => {
    const read = readRows(
      write(
        table(',prompt,,answer,,', (i) =>
          i % 2 === 0 ? `${i},${asks(i)},,a,,` : `${i},${asks(i)},,a`,
        ),
        'csv',
      ),
    );
    expect(read[7]).toMatchObject({ answer: 'a', fields: { '': '7' } });
    expect(() =>
      readRows(
        write(
          table(
            'prompt,answer,,',
            (i) => `${asks(i)},a,${i === 5 ? 'x' : ''},${i === 9 ? 'y' : ''}`,
          ),
          'csv',
        ),
      ),
    ).toThrow(/two columns are named ""/);
    expect(() =>
      readRows(
        write(
          table('prompt,answer', (i) => `${asks(i)},a${i === 4 ? ',b' : ',,'}`),
          'csv',
        ),
      ),
    ).toThrow(/row 5 \(line 6\): Invalid Record Length: expect 2, got 3/);
  });

  test('by semicolons have decimal commas: a comma that may be a thousand is refused', async () => {
    const priced = (price: string): string =>
      write(
        table('prompt;answer', (i) => `${asks(i)};${i === 6 ? price : '1,5'}`),
        'csv',
      );
    for (const price of ['1,507', '€ 12,500', '-2,250'])
      await expect(openTask(priced(price), { check: 'number' })).rejects.toThrow(
        /row 7 \(line 8\): the comma in the answer .* may be a thousands separator or a decimal comma/,
      );
    for (const price of ['1,50', '0,125', '1.234,567', '1,234,567', '1507'])
      await (await openTask(priced(price), { check: 'number' })).dispose();
  });

  test('give train a score as the number that it is', async () => {
    const lines = [];
    for await (const line of exampleLines(
      write('prompt,completion,score\na,b,0.5\nc,d,\ne,f,high\n', 'csv'),
    ))
      lines.push(line);
    expect(lines.slice(1).map((line) => (JSON.parse(line) as { score?: unknown }).score)).toEqual([
      0.5,
      undefined,
      'high',
    ]);
  });
});

describe('names of files', () => {
  test('of rows, packed or not, are known, and a task is called by what stands before them', async () => {
    const jsonl = rows((i) => `"answer": "${i}"`);
    const csv = `prompt,answer\n${Array.from({ length: 40 }, (_, i) => `${asks(i)},${i}\n`).join('')}`;
    for (const [content, ending] of [
      [jsonl, 'ndjson'],
      [gzipSync(jsonl), 'jsonl.gz'],
      [gzipSync(jsonl), 'NDJSON.GZ'],
      [gzipSync(csv), 'csv.gz'],
    ] as const) {
      await using task = await openTask(write(content, ending));
      expect(task.id).toBe(`forms-${files}`);
      expect(task.rows!.counts).toEqual({ test: 10, dev: 4, train: 26 });
    }
  });

  test('of other kinds are refused as such', async () => {
    for (const ending of ['parquet', 'arrow', 'xlsx', 'json.gz'])
      await expect(openTask(write('x', ending), { check: 'exact' })).rejects.toThrow(
        expect.objectContaining({ code: 'TASK_UNKNOWN' }),
      );
  });
});

describe('texts in several forms of letters', () => {
  test.each<[string, string, Record<string, string>]>([
    [
      'exact',
      '"answer": "Zu\\u0308rich"',
      { Zürich: 'pass', 'Zu\u0308rich': 'pass', Zurich: 'fail' },
    ],
    [
      'contains',
      '"answer": "Ångström"',
      { 'It is A\u030angstro\u0308m.': 'pass', Angstrom: 'fail' },
    ],
    ['regex', '"answer": "na\\u00efve|x"', { 'nai\u0308ve': 'pass', naive: 'fail' }],
    ['json', '"answer": {"a": "e\\u0301"}', { '{"a": "é"}': 'pass', '{"a": "e"}': 'fail' }],
    ['normalised', '"answer": "..."', { '...': 'pass', '?': 'fail' }],
    ['exact', '"answer": "a\\r\\nb"', { 'a\nb': 'pass' }],
  ])('%s of {%s}', async (check, members, replies) => {
    expect(await kinds(check, members, Object.keys(replies))).toEqual(Object.values(replies));
  });

  test('are asked and learned as they are', async () => {
    const file = write(rows((i) => `"answer": "cafe\\u0301 ${i}"`));
    await using task = await openTask(file);
    expect(await task.referenceReply(task.rows!.heldOut.test[0]!, 'plain')).toMatch(/^cafe\u0301/);
    expect(readRaw(file)[0]).toMatchObject({ value: { answer: 'cafe\u0301 0' } });
  });
});

describe('a verifier that decides nothing of the first replies', () => {
  const backend: Backend = {
    identity: { kind: 'recorded', name: 'x' },
    capabilities: {
      tokenIds: false,
      logprobs: false,
      seeds: false,
      adapters: false,
      grammar: false,
    },
    async *sample({ prompts }) {
      for (const [promptIndex, { seeds }] of prompts.entries())
        for (const sampleIndex of seeds.keys())
          yield { promptIndex, sampleIndex, text: 'x', finish: 'stop' };
    },
    dispose: async () => undefined,
  };
  const script = (body: string): string =>
    write(`let n = 0; export const verify = () => { ${body} };`, 'mjs');
  const judged = async (body: string, endUndecided = true) => {
    await using task = await openTask(write(rows((i) => `"answer": "${i}"`)), {
      check: script(body),
    });
    const problems = [
      ...(await Promise.all(['test', 'dev'] as const)).flatMap((set) => task.rows!.heldOut[set]),
      ...task.rows!.trained('all'),
    ];
    return (
      await evaluateGreedy(backend, task, problems, { style: 'plain', maxTokens: 8, endUndecided })
    ).outcomes.map(({ kind }) => kind);
  };

  test('ends the evaluation with the commonest reason', async () => {
    await expect(judged("throw new Error(++n === 1 ? 'first' : 'disk is full');")).rejects.toThrow(
      expect.objectContaining({
        code: 'VERIFIER_UNDECIDED',
        message: expect.stringMatching(/none of the first 32 replies: .*disk is full/) as unknown,
      }),
    );
    await expect(
      judged("if (++n <= 32) throw new Error('warming up'); return true;"),
    ).rejects.toThrow(/warming up/);
  });

  test('one that decides one of them goes on', async () => {
    expect(await judged("if (++n !== 5) throw new Error('no'); return true;")).toContain('pass');
    expect(await judged("throw new Error('no');", false)).toEqual(Array(40).fill('none'));
  });
});
