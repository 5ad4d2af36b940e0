/**
 * Rows of a file as a task: what each check takes and refuses, what is wrong with a file and where,
 * which rows are kept from training.
 */
import { spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, describe, expect, test } from '@jest/globals';
import { evaluationSet, wholeSets } from '../../src/evaluation/evaluation-set.js';
import { hasEnded, readLines } from '../../src/files.js';
import { keepSplit } from '../../src/training/split-file.js';
import { measureBaselines } from '../../src/tasks/baselines.js';
import { readData } from '../../src/tasks/data/open-data.js';
import { readRows } from '../../src/tasks/data/read-rows.js';
import { planRollouts } from '../../src/rollouts/plan.js';
import { refuseNondeterminism } from '../../src/tasks/determinism.js';
import { openTask, type OpenTaskOptions } from '../../src/tasks/open-task.js';
import type { OpenTask } from '../../src/tasks/task.js';
import { verifyRecords } from '../../src/tasks/verify-records.js';
import { MAIN } from '../cli/run-cli.js';

const folder = mkdtempSync(join(tmpdir(), 'isopro-data-'));
const open: OpenTask[] = [];
afterAll(async () => {
  for (const task of open) await task.dispose();
  rmSync(folder, { recursive: true });
});

/** Whether a process ends within 20 seconds. */
async function ended(id: number): Promise<boolean> {
  for (let waited = 0; !hasEnded(id) && waited < 400; waited++) await setTimeout(50);
  return hasEnded(id);
}

type Row = Record<string, unknown>;
let files = 0;
const write = (content: string, extension = 'jsonl'): string => {
  const path = join(folder, `data-${++files}.${extension}`);
  writeFileSync(path, content);
  return path;
};
const lines = (rows: readonly unknown[]): string =>
  rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];
/** Questions that differ by words, so that no two are one. */
const asks = (i: number): string =>
  `Count ${WORDS[i % 10]} boxes of ${WORDS[Math.floor(i / 10) % 10]} eggs in row ${WORDS[Math.floor(i / 100)]}`;
const rows = (count: number, change: (i: number) => Row = () => ({})): Row[] =>
  Array.from({ length: count }, (_, i) => ({ prompt: asks(i), answer: String(i), ...change(i) }));
const load = async (path: string, options: OpenTaskOptions = {}): Promise<OpenTask> => {
  const task = await openTask(path, options);
  open.push(task);
  return task;
};

/** The kinds of verdict on replies to a task whose rows all have this answer. */
async function verdicts(
  options: OpenTaskOptions,
  row: Row,
  replies: readonly string[],
): Promise<string[]> {
  const task = await load(write(lines(rows(30, () => row))), options);
  const [problem] = task.rows!.heldOut.test;
  const found = [];
  for (const reply of replies) {
    const { verdict, form } = await task.judge(problem!, reply, 'stop');
    found.push(verdict.kind === 'fail' && form === null ? 'unread' : verdict.kind);
  }
  return found;
}

describe('checks', () => {
  test.each<[string, Row, Record<string, string>]>([
    [
      'exact',
      { answer: 'New York' },
      {
        'New York': 'pass',
        ' New York\n': 'pass',
        'new york': 'fail',
        'New York.': 'fail',
        ' ': 'unread',
      },
    ],
    ['exact', { answer: 7 }, { '7': 'pass', '7.0': 'fail' }],
    [
      'normalised',
      { answer: 'Don\u2019t  Stop' },
      {
        'DON\u2019T stop.': 'pass',
        '"Don\u2019t stop"': 'pass',
        '**Don\u2019t stop!**': 'pass',
        'Dont stop': 'fail',
        '': 'unread',
      },
    ],
    ['normalised', { answer: '-5' }, { '-5': 'pass', '5': 'fail', '-5.': 'pass', '-.5': 'fail' }],
    [
      'number',
      { answer: '1,234.5' },
      {
        'It is 1234.5.': 'pass',
        '$1,234.50': 'pass',
        '12345': 'fail',
        'first 3, then 1234.5': 'pass',
        '1234.5 or 7': 'fail',
        none: 'unread',
      },
    ],
    [
      'number',
      { answer: -3 },
      { '-3': 'pass', '\u22123': 'pass', '7-3': 'unread', '3': 'fail', '-3e0': 'pass' },
    ],
    ['number:0.01', { answer: 2 }, { '2.01': 'pass', '1.99': 'pass', '2.011': 'fail' }],
    ['number:5%', { answer: 200 }, { '210': 'pass', '190': 'pass', '211': 'fail' }],
    [
      'json',
      { answer: { a: [1, 2], b: null } },
      {
        '{"b": null, "a": [1.0, 2]}': 'pass',
        '```json\n{"a":[1,2],"b":null}\n```': 'pass',
        '{"a":[2,1],"b":null}': 'fail',
        'So: {"a":[1,2],"b":null}': 'unread',
        '[': 'unread',
        ['['.repeat(100_000)]: 'unread',
        [`${'['.repeat(100_000)}${']'.repeat(100_000)}`]: 'unread',
      } as Record<string, string>,
    ],
    [
      'regex',
      { answer: '(yes|no), \\d+' },
      { 'yes, 12': 'pass', 'no, 1\n': 'pass', 'yes, 12!': 'fail', 'I say yes, 12': 'fail' },
    ],
    [
      'contains',
      { answer: 'Paris' },
      { 'It is Paris, I think': 'pass', paris: 'fail', '': 'unread' },
    ],
    [
      'choice',
      { answer: 'B', choices: ['A', 'B', 'C'] },
      {
        B: 'pass',
        'The answer is (B).': 'pass',
        'a good one: B': 'pass',
        C: 'fail',
        'A or B': 'unread',
        'B, sorry, C': 'unread',
        b: 'unread',
      },
    ],
    [
      'choice',
      { answer: 'York', choices: ['York', 'New York'] },
      {
        york: 'pass',
        'I mean York.': 'pass',
        'new york': 'fail',
        Yorkshire: 'unread',
        'York, not New York': 'unread',
      },
    ],
  ])('%s of %j', async (check, row, replies) => {
    expect(await verdicts({ check }, row, Object.keys(replies))).toEqual(Object.values(replies));
  });

  test('json:SCHEMA holds replies to the schema, and to the answers where the rows have them', async () => {
    const file = write(
      JSON.stringify({
        type: 'object',
        properties: { n: { type: 'integer' } },
        required: ['n'],
        additionalProperties: false,
      }),
      'schema.json',
    );
    const check = `json:${file}`;
    const replies = ['{"n": 1}', '{"n": 2}', '{"n": "1"}', '{}', 'n'];
    expect(await verdicts({ check }, { answer: { n: 1 } }, replies)).toEqual([
      'pass',
      'fail',
      'fail',
      'fail',
      'unread',
    ]);
    expect(await verdicts({ check }, { answer: undefined }, replies)).toEqual([
      'pass',
      'pass',
      'fail',
      'fail',
      'unread',
    ]);
    await expect(
      openTask(write(lines(rows(30, () => ({ answer: { n: 'x' } })))), { check }),
    ).rejects.toThrow(
      /row 1 \(line 1\): the answer does not match the schema: answer\/n must be integer/,
    );
    const unknown = write(JSON.stringify({ type: 'string', format: 'email' }), 'schema.json');
    await expect(openTask(write(lines(rows(30))), { check: `json:${unknown}` })).rejects.toThrow(
      /unknown format "email"/,
    );
  });

  test('a reply that a regular expression backtracks on for ever has no verdict, and the next one has', async () => {
    const row = { answer: '(a+)+b' };
    const replies = ['aab', `${'a'.repeat(60)}!`, 'aab'];
    expect(await verdicts({ check: 'regex', verifySeconds: 0.3 }, row, replies)).toEqual([
      'pass',
      'none',
      'pass',
    ]);
  }, 30_000);

  test.each(['', 'exactly', 'exact:1', 'number:x', 'number:-1', 'choice:A', 'json:', 'toString'])(
    '%j is none',
    async (check) => {
      await expect(openTask(write(lines(rows(30))), { check })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    },
  );

  test('a task that has a verifier takes no check', async () => {
    await expect(openTask('ladder', { check: 'exact' })).rejects.toThrow(
      /ladder has its own verifier/,
    );
  });
});

test.each([
  ['utf16le', [0xff, 0xfe]],
  ['utf16be', [0xfe, 0xff]],
] as const)('a table in %s with its byte order mark is read', (encoding, mark) => {
  const text = [
    'prompt,answer',
    ...Array.from({ length: 30 }, (_, i) => `Größe ${i} – ${'a'.repeat(i)},ja`),
  ].join('\r\n');
  const bytes = Buffer.from(text, 'utf16le');
  const path = write('', 'csv');
  const save = (content: Buffer): void =>
    writeFileSync(path, Buffer.concat([Buffer.from(mark), content]));
  save(encoding === 'utf16le' ? bytes : bytes.swap16());
  const rows = readRows(path);
  expect([rows.length, rows[3]!.messages[0]!.content, rows[3]!.answer]).toEqual([
    30,
    'Größe 3 – aaa',
    'ja',
  ]);
  writeFileSync(path, bytes); // without the mark
  expect(() => readRows(path)).toThrow(
    expect.objectContaining({ code: 'DATA_INVALID', remedy: 'Save the file as UTF-8.' }),
  );
});

test('a table as Excel leaves it is read: its separator line, capitals in the header, rows of nothing', () => {
  const rows = Array.from({ length: 30 }, (_, i) => `frage ${i};ja`);
  const path = write(['\uFEFFsep=;', 'Prompt;ANSWER', ...rows, ';', ' ; '].join('\r\n'), 'csv');
  const read = readRows(path);
  expect([read.length, read[29]!.messages[0]!.content, read[29]!.answer, read[0]!.line]).toEqual([
    30,
    'frage 29',
    'ja',
    3,
  ]);
  writeFileSync(
    path,
    ['Prompt,prompt,answer', ...rows.map((row) => `${row.replace(';', ',')},x`)].join('\n'),
  );
  // two columns of that name: the exact one is meant
  expect(readRows(path)[0]!.fields).toEqual({ Prompt: 'frage 0' });
});

test('lines of UTF-16 are read by their byte order mark, and files of no or one byte as they are', async () => {
  const path = write('', 'jsonl');
  writeFileSync(
    path,
    Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('{"a": "ü"}\r\n\n{"b": 2}', 'utf16le')]),
  );
  const all = async (): Promise<string[]> => {
    const read: string[] = [];
    for await (const line of readLines(path)) read.push(line);
    return read;
  };
  expect(await all()).toEqual(['{"a": "ü"}', '', '{"b": 2}']);
  for (const content of ['', 'x']) {
    writeFileSync(path, content);
    expect(await all()).toEqual(content === '' ? [] : [content]);
  }
});

describe('what is wrong with a file is said with the row', () => {
  const good = rows(40);
  const withRow = (at: number, row: unknown): string =>
    lines(good.map((each, i) => (i + 1 === at ? row : each)));
  const table = (body: readonly string[], header = 'prompt,answer'): string =>
    [header, ...body].join('\n');
  const cells = good.map(({ prompt, answer }) => `${prompt},${answer}`);
  const withCells = (at: number, text: string): string =>
    table(cells.map((each, i) => (i + 1 === at ? text : each)));
  test.each<[string, string, string, RegExp]>([
    ['too few rows', lines(rows(29)), 'jsonl', /has 29 rows, but at least 30 are needed/],
    ['no rows', '', 'csv', /has 0 rows/],
    [
      'a line that is not JSON',
      `${lines(good.slice(0, 3))}\n{"prompt": }\n${lines(good.slice(4))}`,
      'jsonl',
      /row 4 \(line 5\): is not JSON/,
    ],
    [
      'a line that is no object',
      withRow(2, [1]),
      'jsonl',
      /row 2 \(line 2\): is not a JSON object/,
    ],
    [
      'no answer',
      withRow(40, { prompt: 'x' }),
      'jsonl',
      /row 40 \(line 40\): the answer is missing/,
    ],
    [
      'an empty answer',
      withRow(7, { prompt: 'x', answer: ' ' }),
      'jsonl',
      /row 7 .* the answer is missing/,
    ],
    [
      'an answer that is no text',
      withRow(7, { prompt: 'x', answer: [1] }),
      'jsonl',
      /row 7 .* is not text, which the check exact needs/,
    ],
    [
      'no question',
      withRow(9, { answer: 'x' }),
      'jsonl',
      /row 9 .* the prompt is missing or empty/,
    ],
    [
      'several rows',
      lines(
        good.map((each, i) =>
          i === 2 ? { answer: 'x' } : i === 7 ? { prompt: ' ', answer: 'x' } : each,
        ),
      ),
      'jsonl',
      /2 rows are wrong: row 3 \(line 3\): the prompt is missing or empty; row 8 \(line 8\): prompt: is empty/,
    ],
    ['two questions', withRow(9, { prompt: 'x', messages: [], answer: 'x' }), 'jsonl', /row 9 /],
    [
      'a message of nobody',
      withRow(3, { messages: [{ role: 'bot', content: 'x' }], answer: 'x' }),
      'jsonl',
      /row 3 .*messages\.0\.role/,
    ],
    [
      'a talk that ends with its answer',
      withRow(3, { messages: [{ role: 'assistant', content: 'x' }], answer: 'x' }),
      'jsonl',
      /last message must have the role user/,
    ],
    [
      'a contradiction',
      withRow(5, { prompt: asks(0), answer: 'x' }),
      'jsonl',
      /row 5 .* asks the same as row 1 but has a different answer/,
    ],
    [
      'other bytes than UTF-8',
      withRow(6, { prompt: 'caf\uFFFD', answer: 'x' }),
      'jsonl',
      /row 6 .* not UTF-8/,
    ],
    [
      'a tier of few rows',
      withRow(8, { prompt: 'x', answer: 'x', tier: 'rare' }),
      'jsonl',
      /tier "rare" has 1 different questions/,
    ],
    [
      'equal columns',
      table(cells, 'prompt,answer,answer').replaceAll(/(\d)$/gm, '$1,1'),
      'csv',
      /header \(line 1\): two columns are named "answer"/,
    ],
    ['other columns', table(cells, 'question;answer'), 'csv', /header \(line 1\)|row 1/],
    [
      'other columns by semicolons, in quotes',
      table(
        cells.map((each) => each.replace(/^(.*),(.*)$/, '"$1";"$2"')),
        '"question";"answer"',
      ),
      'csv',
      new RegExp(
        'header \\(line 1\\): there is no column "prompt"; the columns, separated by ";", ' +
          'are "question", "answer"\\. ' +
          'Rename the column of questions to "prompt"',
      ),
    ],
    [
      'a text by semicolons that is cut in two',
      table(
        cells.map((each, i) => (i === 11 ? 'a;b;c' : each.replace(/^(.*),(.*)$/, '"$1";"$2"'))),
        'prompt;answer',
      ),
      'csv',
      /row 12 \(line 13\): .*Put text that contains the separator ";" in double quotes/,
    ],
    ['a column too many', withCells(12, 'a,b,c'), 'csv', /row 12 \(line 13\)/],
    ['an open quote', withCells(12, '"a,b'), 'csv', /row \d+ \(line \d+\): Quote Not Closed/],
    [
      'a quote within a cell',
      withCells(12, 'a "b,c'),
      'csv',
      /row 12 \(line 13\): Invalid Opening Quote/,
    ],
    ['an empty cell', withCells(12, 'a,'), 'csv', /row 12 \(line 13\): the answer is missing/],
    [
      'messages that are no JSON',
      table(cells, 'messages,answer'),
      'csv',
      /row 1 \(line 2\): messages is not JSON/,
    ],
    [
      'half a character in an answer',
      `${lines(rows(30))}{"prompt":"x","answer":"\\ud83d"}\n`,
      'jsonl',
      /row 31 \(line 31\): contains half a char/,
    ],
    [
      'half a character in a name',
      `${lines(rows(30))}{"prompt":"x","answer":"y","\\udc00":1}\n`,
      'jsonl',
      /row 31 .* half a character/,
    ],
    [
      'an answer without a bottom',
      `${lines(rows(30))}{"prompt":"x","answer":${'['.repeat(20_000)}${']'.repeat(20_000)}}\n`,
      'jsonl',
      /row 31 \(line 31\): (is nested too deeply|is not JSON)/,
    ],
  ])('%s', async (_, content, extension, words) => {
    await expect(openTask(write(content, extension))).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(words),
    });
  });

  test.each<[string, Row, RegExp]>([
    ['number', { answer: 'four' }, /the answer "four" is not a number/],
    ['number', { answer: '4 or 5' }, /not a number/],
    ['regex', { answer: '(' }, /not a valid regular expression/],
    ['json', { answer: '{' }, /is not JSON/],
    ['choice', { answer: 'D', choices: ['A', 'B'] }, /"D" is not one of its choices/],
    ['choice', { answer: 'A', choices: ['A', 'A'] }, /different strings/],
    ['choice', { answer: 'A' }, /1 different answers/],
  ])('%s: the answer %j', async (check, row, words) => {
    await expect(openTask(write(lines(rows(30, () => row))), { check })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(words),
    });
  });

  test('a file that is not there', async () => {
    await expect(openTask(join(folder, 'absent.csv'))).rejects.toMatchObject({
      code: 'FILE_UNREADABLE',
    });
  });

  test('a name that a built-in task has', async () => {
    const file = join(folder, 'ladder.jsonl');
    writeFileSync(file, lines(rows(30)));
    await expect(openTask(file)).rejects.toMatchObject({ code: 'TASK_INVALID' });
  });
});

describe('the split', () => {
  const prompts = async (
    task: OpenTask,
    problems: readonly { readonly id: string }[],
  ): Promise<string[]> =>
    Promise.all(
      problems.map(async (problem) => (await task.prompt(problem as never, 'cot')).at(-1)!.content),
    );
  const drawn = async (task: OpenTask, count: number): Promise<Set<string>> => {
    const problems = [];
    for (let seed = 0n; seed < count; seed++)
      problems.push(await task.generate(task.tiers[0]!.id, seed));
    return new Set(await prompts(task, problems));
  };

  test('is of the content: order, format and name change neither it nor the identity, and nothing held out is drawn', async () => {
    const all = rows(80);
    const one = await load(write(lines(all)));
    const csv = `\uFEFF"prompt",answer\r\n${all.map(({ prompt, answer }) => `"${prompt}",${answer}\r\n`).join('')}`;
    const separated = (mark: string): string =>
      `"prompt"${mark}answer\n${all.map(({ prompt, answer }) => `"${prompt}"${mark}"${answer}"\n`).join('')}`;
    const others = [
      await load(write(lines([...all].reverse()))),
      ...(await Promise.all(
        [csv, separated(';'), separated('\t')].map((text) => load(write(text, 'csv'))),
      )),
    ];
    const sets = await Promise.all(
      [one, ...others].map(async (task) => (await evaluationSet(task, 'test', 100)).sha256),
    );
    expect(new Set(sets).size).toBe(1);
    const identity = ({ source }: OpenTask): unknown =>
      source.kind === 'file' ? source.sha256 : null;
    for (const other of others.slice(1)) expect(identity(other)).toBe(identity(one));
    expect(one.rows!.counts).toEqual({ train: 52, dev: 8, test: 20 });
    const held = new Set(await prompts(one, await wholeSets(one)));
    expect(held.size).toBe(28);
    const trained = await drawn(one, 600);
    expect([...trained].filter((prompt) => held.has(prompt))).toEqual([]);
    expect(trained.size).toBe(52);
  });

  test('takes no more rows than an evaluation does, by tier', async () => {
    const task = await load(write(lines(rows(900, (i) => ({ tier: i < 60 ? 'few' : 'many' })))));
    expect(task.tiers.map(({ id }) => id)).toEqual(['few', 'many']);
    const { problems } = await evaluationSet(task, 'test', 100);
    expect(problems.filter(({ tier }) => tier === 'many')).toHaveLength(100);
    expect(problems.filter(({ tier }) => tier === 'few')).toHaveLength(15);
  });

  test('what another check or row would decide otherwise has another identity', async () => {
    const of = (given: Row[], check: string): Promise<string> =>
      readData(write(lines(given)), { check }).then(({ sha256 }) => sha256);
    const identities = [
      await of(rows(40), 'exact'),
      await of(rows(40), 'normalised'),
      await of(rows(41), 'exact'),
      await of(
        rows(40, (i) => (i === 3 ? { answer: 'changed' } : {})),
        'exact',
      ),
      await of(rows(40), 'number'),
      await of(rows(40), 'number:1'),
    ];
    expect(new Set(identities).size).toBe(identities.length);
  });

  test('once written down it keeps the held-out rows, however the data grow', async () => {
    const file = write(lines(rows(60)));
    const before = await load(file);
    const notices: string[] = [];
    await keepSplit(before, (text) => notices.push(text));
    expect(notices).toEqual([]);
    writeFileSync(file, lines(rows(200)));
    const after = await load(file);
    const ids = async (task: OpenTask): Promise<string[]> =>
      (await wholeSets(task)).map(({ id }) => id);
    expect(await ids(after)).toEqual(await ids(before));
    expect(after.rows!.counts.train).toBe(before.rows!.counts.train + 140);
    const copy = join(folder, 'without-split.jsonl');
    copyFileSync(file, copy);
    expect(await ids(await load(copy))).not.toEqual(await ids(before));
    writeFileSync(`${copy}.split.json`, '{}');
    await expect(openTask(copy)).rejects.toMatchObject({ code: 'DATA_INVALID' });
  });

  test('rows that ask the same but for case, blanks and marks are never on both sides; what is said twice is left out', async () => {
    const given = rows(90, (i) => ({
      prompt: `${asks(i % 45)}${i < 45 ? '' : ' ?'}`.toUpperCase(),
      answer: String(i % 45),
    }));
    const task = await load(write(lines([...given, given[0]!, given[1]!])));
    expect(task.rows!.duplicates).toBe(2);
    const words = (text: string): string => text.replace(/\W+/g, ' ').trim();
    const held = new Set((await prompts(task, await wholeSets(task))).map(words));
    expect([...(await drawn(task, 600))].filter((prompt) => held.has(words(prompt)))).toEqual([]);
  });

  test('questions that are nearly those that are trained on are counted, and an example named', async () => {
    const long = (i: number): string =>
      `${Array.from({ length: 20 }, (_, k) => `w${Math.floor(i / 2)}x${k}`).join(' ')} ${i % 2 ? 'yes' : 'no'}`;
    const task = await load(write(lines(rows(60, (i) => ({ prompt: long(i) })))));
    const notices: string[] = [];
    const { rows: near, heldOut, example } = task.rows!.nearDuplicates();
    expect([near > 0, near <= heldOut]).toEqual([true, true]);
    const { heldOut: one, train: other } = example!;
    expect(Math.floor((one - 1) / 2)).toBe(Math.floor((other - 1) / 2));
    await keepSplit(task, (text) => notices.push(text));
    expect(notices.join()).toContain(`rows ${one} and ${other}`);
    expect((await load(write(lines(rows(60))))).rows!.nearDuplicates().rows).toBe(0);
  });
});

describe('as any task', () => {
  test('an iteration draws as many rows as it wants, down to the last one that is trained on, and none twice', async () => {
    const task = await load(write(lines(rows(60))));
    const { train } = task.rows!.counts;
    const planned = async (iteration: number, wanted: number): Promise<string[]> => {
      const plan = await planRollouts({
        task,
        runSeed: 1n,
        iteration,
        counts: new Map([['all', wanted]]),
        samples: 2,
      });
      return plan.map(({ problem: { id } }) => id);
    };
    const held = new Set((await wholeSets(task)).map(({ id }) => id));
    const whole = await planned(1, 60);
    expect([whole.length, new Set(whole).size, whole.filter((id) => held.has(id))]).toEqual([
      train,
      train,
      [],
    ]);
    expect((await planned(1, train - 1)).sort()).toEqual(whole.slice(0, -1).sort());
    expect(await planned(1, 7)).toEqual(whole.slice(0, 7));
    expect(await planned(2, 60)).not.toEqual(whole);
    expect((await planned(2, 60)).sort()).toEqual([...whole].sort());
  });

  test('it is deterministic, has baselines, solved examples and references, and its rows can be named', async () => {
    const task = await load(
      write(lines(rows(60, (i) => ({ answer: i % 3 === 0 ? 'fizz' : 'buzz' })))),
    );
    await refuseNondeterminism(task, 'cot');
    const { policies } = await measureBaselines(task, { count: 100, seed: 1n, set: 'test' });
    expect(policies['empty reply']!.mean).toBe(0);
    expect(policies['commonest answer']!.mean).toBeGreaterThan(0.3);
    const problem = task.rows!.heldOut.test[0]!;
    const examples = (await task.fewShot(problem, 'cot', 3, 7n))!;
    expect(examples.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    const held = new Set(
      await Promise.all(
        (await wholeSets(task)).map(async (each) => (await task.prompt(each, 'cot'))[0]!.content),
      ),
    );
    expect(examples.filter(({ content }) => held.has(content))).toEqual([]);
    const reply = (await task.referenceReply(problem, 'cot'))!;
    expect((await task.judge(problem, reply, 'stop')).verdict.kind).toBe('pass');
    const records = [];
    for await (const record of verifyRecords(task, [
      JSON.stringify({ problemId: problem.id, text: reply }),
    ]))
      records.push(record);
    expect(records).toMatchObject([{ kind: 'pass' }]);
    const cut = JSON.stringify({ problemId: problem.id, text: reply, finish: 'context' });
    for await (const record of verifyRecords(task, [cut]))
      expect(record).toMatchObject({ kind: 'fail', violations: [{ category: 'truncated' }] });
    const { verdict } = await task.judge(problem, 'something else', 'stop');
    expect(await task.feedback(problem, verdict)).not.toContain(
      (problem as unknown as { answer: string }).answer,
    );
  });

  test('messages are asked as they stand, and other columns are part of the problem', async () => {
    const messages = (i: number) => [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: asks(i) },
    ];
    const task = await load(
      write(lines(rows(30, (i) => ({ prompt: undefined, messages: messages(i), source: 'book' })))),
    );
    const problem = task.rows!.heldOut.dev[0]!;
    expect(problem).toMatchObject({ fields: { source: 'book' } });
    expect((await task.prompt(problem, 'plain')).map(({ role }) => role)).toEqual([
      'system',
      'user',
    ]);
  });
});

describe('checks that are programs', () => {
  const file = (name: string, content: string): string => {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  };
  const answers = (reply: string): Row => ({ answer: reply });
  const REPLIES = {
    right: 'pass',
    wrong: 'fail',
    crash: 'none',
    garbage: 'none',
    silent: 'none',
    right2: 'fail',
  };
  const SH = `read -r line
case "$line" in
  *'"reply":"right"}') echo true ;;
  *'"reply":"wrong"}') echo '{"outcome": "fail", "score": 0.5, "reason": "Not so."}' ;;
  *'"reply":"crash"}') echo true; exit 3 ;;
  *'"reply":"garbage"}') echo '{"outcome": "perhaps"}' ;;
  *'"reply":"silent"}') ;;
  *) echo false ;;
esac\n`;
  const PY = `def verify(problem, reply):
    if reply == "crash":
        raise ValueError("no")
    if reply == "garbage":
        return {"outcome": "perhaps"}
    if reply == "silent":
        import os
        os._exit(0)
    return reply == problem["answer"]\n`;
  const TS = `type Row = { readonly answer: string };
export async function verify({ answer }: Row, reply: string): Promise<unknown> {
  if (reply === 'crash') throw new Error('no');
  return reply === 'garbage' ? 3 : reply === 'silent' ? undefined : reply === answer;
}\n`;

  test.each([
    ['command', () => `command:sh ${file('check.sh', SH)}`],
    ['python', () => `python:${file('check.py', PY)}`],
    ['script', () => file('check.ts', TS)],
  ])(
    '%s: its crash and what is no verdict are none, and the next reply has one',
    async (_, check) => {
      const found = await verdicts({ check: check(), verifySeconds: 60 }, answers('right'), [
        ...Object.keys(REPLIES),
        'right',
      ]);
      expect(found).toEqual([...Object.values(REPLIES), 'pass']);
    },
    60_000,
  );

  const FOR_EVER: readonly (readonly [string, string, string])[] = [
    ['command', 'hang.sh', `echo $$ > PID; sleep 1000`],
    [
      'python',
      'hang.py',
      `import os\ndef verify(problem, reply):\n    open("PID", "w").write(str(os.getpid()))\n    while True: pass\n`,
    ],
    ['script', 'hang.mjs', `export const verify = () => { for (;;); };\n`],
  ];
  test.each(FOR_EVER)(
    '%s: one that takes too long is ended, and has no verdict',
    async (kind, name, source) => {
      const pid = join(folder, `${kind}.pid`);
      const path = file(name, source.replace('PID', pid));
      const check =
        kind === 'command' ? `command:sh ${path}` : kind === 'python' ? `python:${path}` : path;
      expect(await verdicts({ check, verifySeconds: 1 }, answers('x'), ['x'])).toEqual(['none']);
      // it was ended before it had begun, or is a thread of this process
      if (!existsSync(pid)) return;
      const id = Number(readFileSync(pid, 'utf8'));
      expect(await ended(id)).toBe(true);
    },
    60_000,
  );

  (process.platform === 'win32' ? test.skip : test)(
    'what a command started ends with a program that is killed, and with the command itself',
    async () => {
      const idIn = (path: string): number => Number(readFileSync(path, 'utf8'));

      const pid = join(folder, 'killed.pid');
      const data = write(lines(rows(30)));
      const program = spawn(
        process.execPath,
        [
          MAIN,
          'tasks',
          'baselines',
          '--task',
          data,
          '--check',
          `command:sleep 1000 & echo $! > ${pid}.new; mv ${pid}.new ${pid}; wait`,
        ],
        { stdio: 'ignore' },
      );
      while (!existsSync(pid) && program.exitCode === null) await setTimeout(10);
      expect(hasEnded(idIn(pid))).toBe(false);
      program.kill('SIGKILL');
      expect(await ended(idIn(pid))).toBe(true);

      const left = join(folder, 'left.pid');
      const check = `command:sleep 1000 & echo $! > ${left}; echo true`;
      expect(await verdicts({ check, verifySeconds: 60 }, answers('x'), ['x'])).toEqual(['pass']);
      expect(await ended(idIn(left))).toBe(true);
    },
    60_000,
  );

  test('its score and its reason are the verdict’s', async () => {
    const task = await load(write(lines(rows(30))), {
      check: `command:sh ${file('check.sh', SH)}`,
    });
    const { verdict } = await task.judge(task.rows!.heldOut.dev[0]!, 'wrong', 'stop');
    expect(verdict).toMatchObject({
      kind: 'fail',
      score: 0.5,
      violations: [{ detail: 'Not so.' }],
    });
  });

  test('its contents are part of the identity, and where they lie is none', async () => {
    const data = write(lines(rows(30)));
    for (const [name, source, prefix] of [
      ['check.sh', SH, 'command:sh '],
      ['check.py', PY, 'python:'],
      ['check.ts', TS, ''],
    ] as const) {
      const of = async (place: string, content: string) =>
        readData(data, { check: `${prefix}${file(join(place, name), content)}` });
      const [one, copy, other] = [
        await of('one', source),
        await of('two', source),
        await of('three', `${source}\n\n `),
      ];
      expect(copy.sha256).toBe(one.sha256);
      expect(other.sha256).not.toBe(one.sha256);
      expect(one.rows.check.name).toBe(`${prefix}${name}`);
    }
  }, 60_000);

  test.each<[string, () => string, string]>([
    ['no command', () => 'command:', 'INVALID_ARGUMENT'],
    ['no function', () => `python:${file('empty.py', 'x = 1\n')}`, 'TASK_INVALID'],
    ['no such module', () => 'python:no_such_module_here', 'PYTHON_UNAVAILABLE'],
    ['no such file', () => `python:${join(folder, 'absent.py')}`, 'TASK_UNKNOWN'],
    ['no such script', () => join(folder, 'absent.ts'), 'FILE_UNREADABLE'],
    [
      'a script that does not parse',
      () => file('broken.ts', 'export const verify = ('),
      'INVALID_ARGUMENT',
    ],
  ])('%s', async (_, check, code) => {
    await expect(openTask(write(lines(rows(30))), { check: check() })).rejects.toMatchObject({
      code,
    });
  });

  test('rows may do without answers, all of them or none', async () => {
    const check = `command:sh ${file('check.sh', SH)}`;
    const { rows: task } = await readData(write(lines(rows(30, () => ({ answer: undefined })))), {
      check,
    });
    expect(task.heldOut.dev[0]).toMatchObject({ answer: null });
    const mixed = write(lines(rows(30, (i) => (i === 4 ? { answer: undefined } : {}))));
    await expect(readData(mixed, { check })).rejects.toThrow(
      /row 5 .* the answer is missing, but other rows have one/,
    );
  });
});

describe('asked otherwise', () => {
  test('what stands in the answer tag is checked, the prompt asks for it, and solved examples have it', async () => {
    const options = { check: 'number', answerTag: 'answer' };
    const replies = [
      '3 and 4: <answer>7</answer>',
      '<answer>8</answer>',
      '7',
      '<answer>7</answer><answer>7</answer>',
      '</answer><answer>7</answer>',
    ];
    expect(await verdicts(options, { answer: 7 }, replies)).toEqual([
      'pass',
      'fail',
      'unread',
      'unread',
      'unread',
    ]);
    const task = await load(write(lines(rows(30))), options);
    const problem = task.rows!.heldOut.test[0]!;
    const [cot, plain] = [
      await task.prompt(problem, 'cot'),
      await task.prompt(problem, 'plain'),
    ].map((messages) => messages.at(-1)!.content);
    expect(cot).toMatch(
      /\nThink step by step\. Then give the answer between <answer> and <\/answer>\.$/,
    );
    expect(plain).toMatch(/\nGive only the answer, between <answer> and <\/answer>\.$/);
    expect((await task.fewShot(problem, 'plain', 1, 1n))!.at(-1)!.content).toMatch(
      /^<answer>\d+<\/answer>$/,
    );
    expect(
      (await task.judge(problem, (await task.referenceReply(problem, 'plain'))!, 'stop')).verdict
        .kind,
    ).toBe('pass');
    await refuseNondeterminism(task, 'plain');
    for (const answerTag of ['', 'a b', '<x>'])
      await expect(openTask(write(lines(rows(30))), { answerTag })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
  });

  test('solved examples have different answers as long as there are any', async () => {
    const answers = ['ten', 'ten', 'ten', 'ten', 'ten', 'two', 'one', 'six'];
    const task = await load(
      write(lines(rows(48, (i) => ({ answer: answers[i % answers.length] })))),
      { examples: 6 },
    );
    const shown = (await task.prompt(task.rows!.heldOut.test[0]!, 'plain')).filter(
      ({ role }) => role === 'assistant',
    );
    const said = shown.map(({ content }) => content);
    expect(said.slice(0, 4).toSorted()).toEqual(['one', 'six', 'ten', 'two']);
    expect(said).toHaveLength(6);
  });

  test('a system prompt and solved examples stand before the question of any task, and truncated replies are judged', async () => {
    const asking = { system: 'Be brief.', examples: 2, judgeTruncated: true };
    const messages = (i: number) => [
      { role: 'system', content: 'Count.' },
      { role: 'user', content: asks(i) },
    ];
    const task = await load(
      write(lines(rows(40, (i) => ({ prompt: undefined, messages: messages(i) })))),
      asking,
    );
    const problem = task.rows!.heldOut.test[0]!;
    const prompt = await task.prompt(problem, 'plain');
    expect(prompt.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
    ]);
    expect(prompt[0]!.content).toBe('Be brief.\n\nCount.');
    expect(await task.prompt({ ...problem, id: 'of another' } as never, 'plain')).toEqual(prompt);
    // the same before every question, and never that question itself
    for (const row of [...task.rows!.heldOut.test, ...task.rows!.heldOut.dev])
      expect((await task.prompt(row, 'plain')).slice(0, -1)).toEqual(prompt.slice(0, -1));
    const [, shown] = prompt;
    const drawn = await Promise.all(
      Array.from({ length: 300 }, (_, i) => task.generate(problem.tier, BigInt(i))),
    );
    const itsOwn = await task.prompt(
      drawn.find((row) => JSON.stringify(row).includes(JSON.stringify(shown!.content)))!,
      'plain',
    );
    expect(itsOwn.slice(0, -1)).not.toContainEqual(shown);
    expect(itsOwn.slice(1, 3)).toEqual(prompt.slice(3, 5));
    expect(await task.question!(problem, 'plain')).toHaveLength(2);
    const reply = (await task.referenceReply(problem, 'plain'))!;
    expect((await task.judge(problem, reply, 'length')).verdict.kind).toBe('pass');
    await refuseNondeterminism(task, 'plain');
    const builtIn = await load('ladder', { system: 'Be brief.', judgeTruncated: true });
    const made = await builtIn.generate(builtIn.tiers[0]!.id, 1n);
    expect((await builtIn.prompt(made, 'plain'))[0]).toEqual({
      role: 'system',
      content: 'Be brief.',
    });
    const { verdict } = await builtIn.judge(made, 'nothing', 'length');
    expect(verdict.violations.map(({ category }) => category)).not.toContain('truncated');
    expect(builtIn.stop).toBeUndefined();
    expect((await load('ladder', { stop: ['\n\n'] })).stop).toEqual(['\n\n']);
    for (const [specifier, options] of [
      ['ladder', { stop: [''] }],
      ['resource_trader', { stop: ['.'] }],
    ] as const)
      await expect(openTask(specifier, options)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(/^stop: /),
      });
  });
});
