/**
 * `tasks check`: each fault that spoils a run is found by its name, and nothing in a task without
 * one. `tasks new` writes such tasks.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { examinationText } from '../../src/cli/tasks/check.js';
import { pythonTask, scriptTask, type TaskAnswers } from '../../src/cli/tasks/templates.js';
import {
  examineTask,
  type ExamineOptions,
  type TaskExamination,
} from '../../src/evaluation/examine-task.js';
import { failed, lost } from '../../src/tasks/verdict.js';
import type { OpenTask } from '../../src/tasks/task.js';
import { openTask, type OpenTaskOptions } from '../../src/tasks/open-task.js';
import { CommandLines } from '../cli/run-cli.js';

const folder = mkdtempSync(join(tmpdir(), 'isopro-examine-'));
afterAll(() => rmSync(folder, { recursive: true }));
const lines = new CommandLines();
afterAll(() => lines.end());

let files = 0;
const write = (content: string, extension: string): string => {
  const path = join(folder, `task-${++files}.${extension}`);
  writeFileSync(path, content);
  return path;
};

async function examine(
  specifier: string,
  given: OpenTaskOptions = {},
  options: Partial<ExamineOptions> = {},
): Promise<TaskExamination> {
  await using task = await openTask(specifier, given);
  return await examineTask(task, { style: 'plain', perTier: 12, ...options });
}
const found = async (...of: Parameters<typeof examine>): Promise<string[]> =>
  (await examine(...of)).findings.map(({ severity, name }) => `${severity} ${name}`).sort();

const MEMBERS: Record<string, string> = {
  id: `'addition'`,
  version: `'1'`,
  tiers: `[{ id: 'only' }]`,
  generate: `(tier, seed) => ({ a: Number(seed % 1000n), b: 7 })`,
  prompt: `({ a, b }) => [{ role: 'user', content: a + ' + ' + b + ' = ?' }]`,
  parse: `(text) => /^\\d+$/.test(text) ? { ok: true, answer: Number(text), form: 'number' } : { ok: false }`,
  verify: `({ a, b }, answer) => ({ kind: answer === a + b ? 'pass' : 'fail' })`,
  referenceReply: `({ a, b }) => String(a + b)`,
};
const task = (changes: Record<string, string | null> = {}): string =>
  write(
    `export default {\n${Object.entries({ ...MEMBERS, ...changes })
      .flatMap(([name, value]) => (value === null ? [] : [`  ${name}: ${value},\n`]))
      .join('')}};\n`,
    'mjs',
  );

test('a verifier that does not end is given up after three verdicts, and named with the first problem', async () => {
  const counted = { verdicts: 0, policies: 0 };
  const progress: number[][] = [];
  await using opened = await openTask(task());
  const changed: Partial<OpenTask> = {
    policies: ['adds'],
    judge: async (_: unknown, text: string) => {
      counted.verdicts++;
      return {
        verdict: text === '' ? failed('format', '') : lost('it took longer than 5 seconds'),
        form: null,
      };
    },
    applyPolicy: async () => {
      counted.policies++;
      // its own time and the verifier's: no second fault
      return lost('it took longer than 10 seconds');
    },
  };
  const hanging = new Proxy(opened, {
    get: (of, name) => {
      const value: unknown = Reflect.get(changed, name) ?? Reflect.get(of, name, of);
      return typeof value === 'function' ? value.bind(of) : value;
    },
  });
  const { findings, policies } = await examineTask(hanging, {
    style: 'plain',
    perTier: 12,
    onProgress: (done, total) => void progress.push([done, total]),
  });
  expect(findings).toEqual([
    {
      severity: 'error',
      name: 'undecided',
      detail: expect.stringMatching(
        /^3 of .* problem [0-9a-f]{12} of tier only: the verifier gave no verdict: it took longer than 5 seconds; nothing else .*tried$/,
      ),
    },
  ]);
  expect([counted, policies]).toEqual([{ verdicts: 3, policies: 1 }, {}]);
  expect(progress).toEqual([1, 2, 3, 4].map((done) => [done, 12 * 5]));
});

describe('tasks check', () => {
  test.each<[string, Record<string, string | null>, string[]]>([
    ['nothing', {}, []],
    [
      'a clock',
      { generate: `() => ({ a: performance.now(), b: 7 })`, verify: `() => ({ kind: 'pass' })` },
      ['error nondeterministic'],
    ],
    [
      'the day',
      { generate: `() => ({ a: new Date().getFullYear(), b: 7 })` },
      ['error nondeterministic'],
    ],
    [
      'nothing in dates that the seed makes',
      {
        generate: `(tier, seed) => ({ a: new Date(Date.UTC(2024, 0) + Number(seed % 1000n)).getTime() - Date.parse('2024-01-01'), b: 7 })`,
      },
      [],
    ],
    [
      'a verifier that throws',
      { verify: `() => { throw new Error('no') }` },
      ['error undecided', 'error passes-nothing'],
    ],
    [
      'one that throws as soon as an answer can be read',
      {
        verify: `() => { throw new Error('no') }`,
        referenceReply: null,
        trivialPolicies: `{ adds: ({ a, b }) => a + b }`,
      },
      ['error undecided', 'warning passes-nothing'],
    ],
    [
      'one that passes everything',
      { parse: `(text) => ({ ok: true, answer: text })`, verify: `() => ({ kind: 'pass' })` },
      ['error passes-everything'],
    ],
    [
      'one that passes nothing',
      { verify: `() => ({ kind: 'fail' })` },
      ['error passes-nothing', 'error refuses-reference'],
    ],
    [
      'one that passes nothing that is known',
      { verify: `() => ({ kind: 'fail' })`, referenceReply: null },
      ['warning passes-nothing'],
    ],
    [
      'one that passes its own empty answer',
      {
        parse: `(text) => ({ ok: true, answer: text === '' ? NaN : Number(text) })`,
        verify: `({ a, b }, answer) => ({ kind: answer !== a + b && !Number.isNaN(answer) ? 'fail' : 'pass' })`,
        prompt: `({ a, b }) => [{ role: 'user', content: String(a * b) }]`,
      },
      ['error passes-empty'],
    ],
    [
      'an answer in the prompt',
      {
        prompt: `({ a, b }) => [{ role: 'user', content: a + ' + ' + b + ', not ' + (10000 + a + b) }]`,
        referenceReply: `({ a, b }) => String(10000 + a + b)`,
        verify: `({ a, b }, answer) => ({ kind: answer === 10000 + a + b ? 'pass' : 'fail' })`,
      },
      ['error answer-in-prompt'],
    ],
    [
      'the question as an answer',
      { prompt: `({ a, b }) => [{ role: 'user', content: String(a + b) }]` },
      ['error passes-question'],
    ],
    [
      'few problems',
      { generate: `(tier, seed) => ({ a: Number(seed % 2n), b: 7 })` },
      ['warning few-problems'],
    ],
    [
      'a member that no prompt names',
      {
        generate: `(tier, seed) => ({ a: Number(seed % 90n), b: Number(seed % 9973n) })`,
        prompt: `({ a }) => [{ role: 'user', content: 'after ' + a }]`,
      },
      ['error same-prompt', 'warning few-problems'],
    ],
    [
      'a policy that passes',
      { trivialPolicies: `{ adds: ({ a, b }) => a + b }` },
      ['warning easy-policy'],
    ],
  ])('finds %s', async (_, changes, expected) => {
    const names = await found(task(changes));
    expect(names).toEqual(expect.arrayContaining(expected));
    // a clock spoils the rest too
    if (!expected.includes('error nondeterministic')) expect(names).toEqual([...expected].sort());
  });

  test('finds a verifier that keeps count of its calls, however many went before', async () => {
    for (const before of [0, 1])
      expect(
        await found(
          task({
            verify: `(() => { let calls = ${before}; return () => ({ kind: calls++ % 2 ? 'pass' : 'fail' }) })()`,
            trivialPolicies: `{ adds: ({ a, b }) => a + b }`,
          }),
        ),
      ).toContain('error nondeterministic');
  });

  const detailOf = async (
    name: string,
    ...of: Parameters<typeof examine>
  ): Promise<string | undefined> =>
    (await examine(...of)).findings.find((finding) => finding.name === name)?.detail;

  test('says of which reply there is no verdict, once for each cause', async () => {
    const throwing = task({
      verify: `(_, answer) => { if (answer > 900) throw new Error('no place for ' + answer); return { kind: 'fail' } }`,
    });
    const undecided = (await examine(throwing, {}, { perTier: 40 })).findings.filter(
      ({ name }) => name === 'undecided',
    );
    expect(undecided).toHaveLength(1);
    expect(undecided[0]!.detail).toMatch(
      /^\d+ of .* the first is the reply "9\d\d" to problem .*: verify threw: no place for 9\d\d$/,
    );
  });

  test('says of a tier by itself that nothing passes, and what passes without a model', async () => {
    const tiers = `[{ id: 'easy' }, { id: 'hard' }]`;
    const hard = task({
      tiers,
      generate: `(tier, seed) => ({ a: Number(seed % 1000n), b: 7, hard: tier === 'hard' })`,
      prompt: `({ a, b, hard }) => [{ role: 'user', content: a + (hard ? ' plus ' : ' + ') + b }]`,
      verify: `({ a, b, hard }, answer) => ({ kind: !hard && answer === a + b ? 'pass' : 'fail' })`,
      referenceReply: null,
      trivialPolicies: `{ adds: ({ a, b }) => a + b }`,
    });
    expect(await detailOf('passes-nothing', hard)).toMatch(
      /^tier hard: no reply that was tried passes/,
    );
    expect(await detailOf('easy-policy', hard)).toMatch(
      /^the policy adds passes 100 % of tier easy without a model/,
    );
  });

  test("tries the rows' own answers where their check is a program, and finds one that wants something else", async () => {
    const rows = Array.from(
      { length: 60 },
      (_, i) => `${JSON.stringify({ prompt: `double ${i} of ${i}`, answer: `${2 * i}` })}\n`,
    );
    const data = write(rows.join(''), 'jsonl');
    const check = (verdict: string): string =>
      write(`export default (problem, reply) => ${verdict};\n`, 'mjs');
    expect(await found(data, { check: check('reply === problem.answer') })).not.toContain(
      'warning passes-nothing',
    );
    expect(
      await detailOf('passes-nothing', data, { check: check('reply === problem.answer + "!"') }),
    ).toContain("not even the rows' own answers");
  });

  test('finds the one row of a file that is too long, wherever it was put', async () => {
    const rows = Array.from({ length: 60 }, (_, i) =>
      JSON.stringify({ prompt: `row ${i} ${'x'.repeat(i === 41 ? 200 : 2)}`, answer: `${i}` }),
    );
    const model = {
      info: { trainedContext: 100 },
      renderChats: (chats: readonly (readonly { content: string }[])[]) =>
        chats.map((chat) => ({ text: '', tokenIds: new Int32Array(chat[0]!.content.length) })),
    } as unknown as NonNullable<ExamineOptions['model']>['model'];
    const long = await detailOf(
      'too-long',
      write(rows.join('\n'), 'jsonl'),
      {},
      { perTier: 1, model: { model, template: true, maxTokens: 10 } },
    );
    expect(long).toMatch(/^1 of 60 prompts .* the longest has 207 tokens and begins "row 41 xxx/);
  });

  test('a file that exports no task is told so, and not that its task has no id', async () => {
    const silent = write(`const task = { id: 'x' };\n`, 'js');
    await expect(openTask(silent)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('export default'),
    });
  });

  test('finds prompts that leave no room, and a model that has no template', async () => {
    const model = {
      info: { trainedContext: 100 },
      renderChats: (chats: readonly (readonly { content: string }[])[]) =>
        chats.map((chat) => ({ text: '', tokenIds: new Int32Array(chat[0]!.content.length) })),
    } as unknown as NonNullable<ExamineOptions['model']>['model'];
    const of = (template: boolean, maxTokens: number) =>
      found(task(), {}, { model: { model, template, maxTokens } });
    expect(await of(true, 80)).toEqual([]);
    expect(await of(false, 95)).toEqual(['error too-long', 'warning no-chat-template']);
  });

  test('finds rows that are nearly others, and answers that their questions give away', async () => {
    const rows = Array.from({ length: 60 }, (_, i) => {
      const words = Array.from({ length: 20 }, (_, k) => `w${Math.floor(i / 2)}x${k}`).join(' ');
      return `${JSON.stringify({ prompt: `${words} ${i % 2 ? 'yes' : 'no'}`, answer: `w${Math.floor(i / 2)}x19` })}\n`;
    });
    const data = write(rows.join(''), 'jsonl');
    expect(await found(data)).toEqual(['error answer-in-prompt', 'warning near-duplicates']);
    expect(await found(data, { check: 'contains' })).toEqual([
      'error answer-in-prompt',
      'error passes-question',
      'warning near-duplicates',
    ]);
  });

  test('finds rows that nearly all have one answer, and no fault in two answers that are as common', async () => {
    const words = (i: number): string =>
      Array.from({ length: 6 }, (_, k) => `w${i}x${k}`).join(' ');
    const rows = (answer: (i: number) => string): string =>
      Array.from(
        { length: 60 },
        (_, i) => `${JSON.stringify({ prompt: words(i), answer: answer(i) })}\n`,
      ).join('');
    expect(
      await found(
        write(
          rows(() => 'yes'),
          'jsonl',
        ),
      ),
    ).toEqual(['warning easy-policy']);
    expect(
      await found(
        write(
          rows((i) => (i % 2 ? 'yes' : 'no')),
          'jsonl',
        ),
      ),
    ).toEqual([]);
  });

  test('a question that names what may be answered gives nothing away', async () => {
    const labels = ['payment', 'damage', 'account'];
    const rows = (asked: (i: number) => string): string =>
      Array.from({ length: 60 }, (_, i) => {
        const words = Array.from({ length: 6 }, (__, k) => `w${i}x${k}`).join(' ');
        return `${JSON.stringify({ prompt: `${words}. ${asked(i)}`, answer: labels[i % 3] })}\n`;
      }).join('');
    expect(
      await found(
        write(
          rows(() => 'Is it about a payment, a damage or an account?'),
          'jsonl',
        ),
      ),
    ).toEqual([]);
    expect(
      await found(
        write(
          rows((i) => `It is about ${labels[i % 3]}.`),
          'jsonl',
        ),
      ),
    ).toEqual(['error answer-in-prompt']);
  });
});

test('what tasks check prints is wrapped between words', async () => {
  await using opened = await openTask(
    task({ generate: `(tier, seed) => ({ a: Number(seed % 2n), b: 7 })` }),
  );
  const examination = await examineTask(opened, { style: 'plain', perTier: 12 });
  const [whole, narrow] = [{}, { prose: 80 }].map((style) =>
    examinationText(opened, examination, style),
  );
  expect(whole).toMatch(/^warning few-problems: .{80,}\nNo errors\.\n$/m);
  expect(narrow!.replace(/\n {2}(?! )/g, ' ')).toBe(whole);
  expect(Math.max(...narrow!.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(80);
});

describe('tasks new', () => {
  const answers = (check: TaskAnswers['check']): TaskAnswers => ({
    ask: 'What is {a} plus "{b}"?\\',
    answer: 'a + b',
    tiers: [
      ['small', 99],
      ['large', 9999],
    ],
    check,
    id: 'sums',
  });
  test.each([
    ['TypeScript', (check: TaskAnswers['check']) => write(scriptTask(answers(check)), 'ts')],
    [
      'Python',
      (check: TaskAnswers['check']) => `python:${write(pythonTask(answers(check)), 'py')}`,
    ],
  ])(
    'writes tasks in %s in which nothing is found',
    async (_, specifier) => {
      for (const check of ['number', 'text'] as const) {
        const examination = await examine(specifier(check));
        expect(examination.findings).toEqual([]);
        expect(examination).toMatchObject({ task: 'sums', problems: 24 });
      }
    },
    60_000,
  );

  test('from flags, in a script; a file that is there stays, and what comes next is printed', async () => {
    const file = join(folder, 'times.ts');
    const flags = ['tasks', 'new', file, '--ask', 'What is {a} times {b}?', '--answer', 'a * b'];
    const first = await lines.run(flags);
    expect([first.code, first.stdout]).toEqual([0, expect.stringContaining(`tasks check ${file}`)]);
    expect(await lines.run(flags)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--force'),
    });
    const unwritten = join(folder, 'unwritten.ts');
    const wrong = await lines.run(['tasks', 'new', unwritten, '--answer', 'a plus b']);
    expect([wrong.code, existsSync(unwritten)]).toEqual([2, false]);
    expect(wrong.stderr).toMatch(
      /^--answer: "a plus b" does not work in unwritten.ts, so the file was not written: /,
    );
    for (const [answer, why] of [
      ['a +', 'SyntaxError'],
      ['c', 'NameError'],
    ] as const) {
      const python = await lines.run([
        'tasks',
        'new',
        join(folder, 'unwritten.py'),
        '--answer',
        answer,
      ]);
      expect([python.code, existsSync(join(folder, 'unwritten.py'))]).toEqual([2, false]);
      expect(python.stderr).toMatch(
        new RegExp(
          `^--answer: .* does not work in unwritten.py, so the file was not written: .*${why}`,
        ),
      );
      expect(python.stderr.trim().split('\n').length).toBe(2);
    }
    for (const [flags, why] of [
      [['--ask', 'What is {c}?'], /has neither \{a\} nor \{b\}/],
      [
        ['--ask', 'Double {a}.', '--answer', 'a + b'],
        /--answer uses b, which --ask does not contain/,
      ],
      [
        ['--ask', 'Double {a}.', '--answer', 'a + a', '--tiers', 'small:50'],
        /largest number of 400 or more, as the question has one/,
      ],
    ] as const)
      expect(await lines.run(['tasks', 'new', unwritten, ...flags])).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(why),
      });
    expect(existsSync(unwritten)).toBe(false);
    const checked = await lines.run(['tasks', 'check', '--task', file, '--count', '4', '--json']);
    expect(checked.code).toBe(0);
    expect(JSON.parse(checked.stdout)).toMatchObject({ task: 'times', findings: [] });
  }, 60_000);
});
