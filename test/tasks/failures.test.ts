/** Why replies do not pass: categories, counts, examples, and what a user is told to change. */
import { describe, expect, test } from '@jest/globals';
import { IsoproError } from '../../src/errors.js';
import { withQuestions } from '../../src/evaluation/failure-examples.js';
import { failureTable, nothingAccepted } from '../../src/text/failures.js';
import { failuresLogged } from '../../src/run-folder/derived-figures.js';
import { heldOut } from '../../src/run-folder/evaluation-records.js';
import {
  FailureTally,
  failureOf,
  pooledFailures,
  reasonOf,
  shortenedReply,
  type Failures,
  type JudgedReplyText,
} from '../../src/tasks/failures.js';
import type { FinishReason, Judgement, OpenTask, Problem, Verdict } from '../../src/tasks/task.js';
import { failed, judgedCut, threw, TRUNCATED, undecided } from '../../src/tasks/verdict.js';
import { refuseUndecided } from '../../src/training/verifier-check.js';

const PASS: Verdict = { kind: 'pass', violations: [], metrics: {} };
const wrong = (...categories: string[]): Verdict => ({
  kind: 'fail',
  violations: categories.flatMap((category) => failed(category, 'detail').violations),
  metrics: {},
});
const reason = (verdict: Verdict, form: string | null = 'answer', finish: FinishReason = 'stop') =>
  reasonOf({ verdict, form }, finish);
const reply = (text: string, ...judged: Parameters<typeof reason>): JudgedReplyText => ({
  problemId: text.slice(0, 8),
  tier: 'T',
  text,
  ...reason(...judged),
});
const tallied = (...replies: JudgedReplyText[]): Failures => {
  const tally = new FailureTally();
  for (const each of replies) tally.take(each);
  return tally.failures;
};

describe('the category of a reply', () => {
  test.each<[string, Parameters<typeof reason>, object | null]>([
    ['passes', [PASS], null],
    ['cannot be read', [failed('format', ''), null], { kind: 'format', why: '' }],
    [
      'cannot be read, in the words of its parser',
      [failed('two_answers', ''), null],
      { kind: 'format', why: 'two_answers' },
    ],
    ['is cut off', [TRUNCATED, null, 'length'], { kind: 'truncated', why: '' }],
    ['had no room for its next turn', [TRUNCATED, null, 'context'], { kind: 'context', why: '' }],
    ['is cancelled', [TRUNCATED, null, 'aborted'], { kind: 'aborted', why: '' }],
    [
      'breaks rules, each named once',
      [wrong('order', 'deadline', 'order')],
      { kind: 'wrong', why: 'deadline, order' },
    ],
    [
      'is cut off, and judged all the same',
      [wrong('deadline'), 'answer', 'length'],
      { kind: 'wrong', why: 'deadline' },
    ],
    [
      'is cut off, and read in vain',
      [failed('format', ''), null, 'length'],
      { kind: 'format', why: '' },
    ],
    ['is not decided', [undecided('no time')], { kind: 'undecided', why: 'no time' }],
    [
      'is cut off and not decided',
      [threw('verify', 'boom'), null, 'length'],
      { kind: 'undecided', why: 'verify threw: boom' },
    ],
  ])('that %s', (_, judged, expected) => expect(failureOf(reason(...judged))).toEqual(expected));

  test('of a reply that was cut off is told by code that throws, and by nothing else that it would have come to', () => {
    const judgement = (verdict: Verdict): Judgement => ({ verdict, form: 'answer' });
    expect(judgedCut(judgement(threw('parse', 'x'))).verdict.reason).toBe('parse threw: x');
    for (const found of [
      null,
      judgement(PASS),
      judgement(undecided('no time')),
      judgement(wrong('deadline')),
    ])
      expect(judgedCut(found)).toEqual({ verdict: TRUNCATED, form: null });
  });
});

describe('a table', () => {
  test('counts every reply once, the commonest reason first, with the first reply as an example', () => {
    const { rows, ...counts } = tallied(
      reply('a', PASS),
      reply('b', wrong('deadline')),
      reply('c', failed('format', ''), null),
      reply('d', wrong('deadline')),
      reply('e', undecided('boom')),
    );
    expect(counts).toEqual({ replies: 5, passed: 1 });
    expect(rows).toEqual([
      {
        kind: 'wrong',
        why: 'deadline',
        count: 2,
        example: { problemId: 'b', tier: 'T', text: 'b' },
      },
      { kind: 'format', why: '', count: 1, example: { problemId: 'c', tier: 'T', text: 'c' } },
      {
        kind: 'undecided',
        why: 'boom',
        count: 1,
        example: { problemId: 'e', tier: 'T', text: 'e' },
      },
    ]);
  });

  test('has few rows of few characters, whatever verifiers and models say', () => {
    const all = tallied(
      ...Array.from({ length: 500 }, (_, i) =>
        reply(`${i} ${'\ud800'.repeat(100_000)}`, undecided(`${i} ${'x'.repeat(9999)}`)),
      ),
    );
    expect(all.rows.length).toBeLessThan(70);
    expect(all.rows.reduce((sum, { count }) => sum + count, 0)).toBe(500);
    expect(all.rows[0]).toMatchObject({ why: 'other reasons', kind: 'undecided' });
    expect(JSON.stringify(all).length).toBeLessThan(70_000);
    expect(JSON.stringify(all).isWellFormed()).toBe(true);
    expect(shortenedReply(`begin ${'x'.repeat(1000)} end`)).toMatch(/^begin x+ … x+ end$/);
  });

  test('of several evaluations counts reasons alike together, the commonest of all first', () => {
    const parts = [
      tallied(reply('a', wrong('x')), reply('b', wrong('x')), reply('c', PASS)),
      tallied(reply('d', wrong('y')), reply('e', wrong('y'))),
      tallied(reply('f', wrong('y')), reply('g', TRUNCATED, null, 'length')),
    ];
    const { rows, ...counts } = pooledFailures(parts);
    expect(counts).toEqual({ replies: 7, passed: 1 });
    expect(rows.map(({ kind, why, count, example }) => [kind, why, count, example!.text])).toEqual([
      ['wrong', 'y', 3, 'd'],
      ['wrong', 'x', 2, 'a'],
      ['truncated', '', 1, 'g'],
    ]);
    expect(pooledFailures([])).toEqual({ replies: 0, passed: 0, rows: [] });
  });

  test('is the same when it is read from a log, and null where a log does not hold it', () => {
    const replies = [
      reply('a', PASS),
      reply('b', wrong('x')),
      reply('c', TRUNCATED, null, 'length'),
      reply('d', wrong('x')),
    ];
    const live = tallied(...replies);
    const logged = {
      outcomes: replies.map(({ problemId, tier, kind }): [string, string, typeof kind] => [
        problemId,
        tier,
        kind,
      ]),
      formed: replies.map(({ formed }) => formed!),
      finishes: replies.map(({ finish }) => finish as FinishReason),
      why: replies.map(({ why }) => [...why!]),
      examples: [
        { at: 1, text: 'b' },
        { at: 2, text: 'c' },
      ],
    };
    expect(failuresLogged(logged)).toEqual(live);
    const { why: _, examples: __, ...older } = logged;
    expect(
      failuresLogged(older)!.rows.map(({ kind, why, count, example }) => [
        kind,
        why,
        count,
        example,
      ]),
    ).toEqual([
      ['wrong', '', 2, null],
      ['truncated', '', 1, null],
    ]);
    expect(failuresLogged({ outcomes: logged.outcomes })).toBeNull();
    const id = 'ab'.repeat(32);
    const record = {
      kind: 'held_out',
      set: 'test',
      when: 'before',
      iteration: 0,
      adapter: null,
      setSha256: id,
      outcomes: [[id, 'T', 'fail']],
    };
    const readable = (members: object) => heldOut.safeParse({ ...record, ...members }).success;
    expect([{}, { why: [['x']] }, { examples: [{ at: 0, text: '' }] }].map(readable)).toEqual([
      true,
      true,
      true,
    ]);
    expect(
      [{ why: [] }, { why: ['x'] }, { examples: [{ at: 1, text: '' }] }].map(readable),
    ).toEqual([false, false, false]);
  });

  test('fits its width, and shows no character that would steer a terminal', () => {
    const failures = tallied(
      reply('\u001b[2J\u202e long\n'.repeat(40), wrong('dead\u001bline')),
      reply('c', undecided('boom '.repeat(50))),
    );
    for (const width of [40, 80, 200]) {
      const [head, ...lines] = failureTable(failures, 'answers', { width }).split('\n');
      expect(head).toMatch(/^why 2 of 2 answers did not pass/);
      expect(lines).toHaveLength(2);
      if (width >= 80)
        expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(width);
      expect(lines.join('')).not.toMatch(/[\p{Cc}\u202e]/u);
    }
    expect(failureTable(tallied(reply('a', PASS)), 'answers', { width: 80 })).toBe('');
  });
});

describe('where nothing was accepted', () => {
  const asked = { style: 'cot', maxTokens: 96, samples: 8 };
  const told = (...judged: Parameters<typeof reason>) =>
    nothingAccepted(
      tallied(reply('x', ...judged), reply('y', ...judged), reply('z', wrong('other'))),
      {},
      asked,
    );
  test('the commonest cause is named, and what to change about it', () => {
    expect(told(failed('format', ''), null)).toMatch(
      /no answer could be read in 2 of 3 replies.*the answer format.*--style plain/,
    );
    expect(told(TRUNCATED, null, 'length')).toMatch(
      /2 of 3 replies were cut off at 96 tokens\. Raise --max-tokens.*; if replies only repeat themselves, use an easier tier/,
    );
    expect(told(threw('verify', 'boom'))).toMatch(
      /no verdict on 2 of 3 replies \(verify threw: boom\)\. Fix the verifier/,
    );
    expect(told(wrong('deadline'))).toMatch(
      /wrong answer \(deadline\)\. Try an easier tier, more samples per problem \(--samples, now 8\)/,
    );
    expect(
      nothingAccepted(
        tallied(reply('x', TRUNCATED, null, 'length')),
        {},
        { ...asked, style: 'plain' },
      ),
    ).not.toContain('--style');
  });

  test('rows of data can be shown with their answers, whatever the cause', () => {
    for (const [judged, form, finish] of [
      [wrong('wrong'), 'x', 'stop'],
      [TRUNCATED, null, 'length'],
      [failed('format', ''), null, 'stop'],
    ] as const) {
      const failures = tallied(reply('x', judged, form, finish));
      expect(nothingAccepted(failures, {}, { ...asked, unshown: 'rows' })).toMatch(
        /--examples 3 puts three rows with their answers/,
      );
      expect(
        nothingAccepted(failures, {}, { ...asked, unshown: 'problems' }).includes('--examples'),
      ).toBe(form === null && finish === 'stop');
      expect(nothingAccepted(failures, {}, asked)).not.toContain('--examples');
    }
  });

  test('passes that were not taken are told by what became of them', () => {
    const failures = tallied(reply('x', PASS), reply('y', TRUNCATED, null, 'length'));
    expect(nothingAccepted(failures, { contradictory: 1 }, asked)).toMatch(
      /1 of 2 replies passed, but no reply was accepted: their reasoning/,
    );
    expect(nothingAccepted(failures, { uninformative: 1 }, asked)).toMatch(/harder tiers/);
  });
});

describe('a verifier that decides nothing', () => {
  const refused = (...replies: ReturnType<typeof reason>[]) =>
    refuseUndecided({ id: 'own' }, replies);
  const none = reason(threw('verify', 'boom'));
  const cut = reason(TRUNCATED, null, 'length');
  test('ends the run with the words of its exception, whatever else was cut off or could not be read', () => {
    for (const others of [[], [cut], [cut, reason(failed('format', ''), null)]])
      expect(() => refused(none, none, ...others)).toThrow(
        expect.objectContaining({
          code: 'VERIFIER_UNDECIDED',
          message: expect.stringContaining('verify threw: boom'),
        }),
      );
  });

  test('is none that decided one, or that was asked nothing, or was once too slow', () => {
    refused();
    refused(cut, cut);
    refused(none, none, reason(wrong('deadline')));
    refused(none, none, reason(PASS));
    refused(none, ...Array.from({ length: 60 }, () => cut));
  });
});

describe('an example whose question is known', () => {
  const asked = { asked: 'Turn off the lamp in the "blue" room', right: 'lights' };
  const row = (more: object = asked) => tallied({ ...reply('music', wrong('wrong')), ...more });

  test('stands below its row with what was asked and what is right, within the width, the reason no word twice', () => {
    expect(failureTable(row(), 'answers', { width: 100 }).split('\n').slice(1)).toEqual([
      '  wrong  1  read, but wrong',
      '      asked "Turn off the lamp in the \\"blue\\" room", said "music", right "lights"',
    ]);
    expect(failureTable(row({ asked: asked.asked }), 'answers', { width: 100 })).not.toContain(
      'right "',
    );
    const long = row({ asked: 'x '.repeat(400), right: 'y '.repeat(400) });
    for (const width of [40, 80, 200]) {
      const lines = failureTable(long, 'answers', { width }).split('\n').slice(2);
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
      expect(lines).toEqual([
        expect.stringMatching(/^ {6}asked "x.*…"$/),
        expect.stringMatching(/^ {6}said "music", right "y.*…"$/),
      ]);
    }
  });

  test('is kept by a log, and read from it', () => {
    const outcome: [string, string, 'fail'] = ['a'.repeat(64), 'T', 'fail'];
    const logged = {
      formed: [true],
      why: [['wrong']],
      examples: [{ at: 0, text: 'music', ...asked }],
    };
    const members = {
      set: 'test',
      when: 'before',
      iteration: 0,
      adapter: null,
      setSha256: 'b'.repeat(64),
      outcomes: [outcome],
      ...logged,
    };
    expect(
      failuresLogged(heldOut.parse({ kind: 'held_out', ...members }))!.rows[0]!.example,
    ).toEqual({
      problemId: outcome[0],
      tier: 'T',
      text: 'music',
      ...asked,
    });
  });

  const source = (kind: 'file' | 'built-in') => ({ kind, path: 'x', sha256: 'y', options: {} });
  const task = (more: object): OpenTask =>
    ({
      source: source('file'),
      hasReferences: true,
      prompt: async ({ id }: Problem) => [
        {
          role: 'user',
          content: `All that there is to say.\n\nWhat is ${id}?\nBetween <a> and </a>.\n`,
        },
      ],
      referenceReply: async () => 'lights',
      ...more,
    }) as never;
  const problems = ['music', 'other'].map((id) => ({ id, tier: 'T' }));
  const example = async (more: object, failures = row({}), of = problems) =>
    (await withQuestions(failures, task(more), of, 'plain')).rows[0]!.example;

  test('has the last line that only it was asked, and a right reply where a task of a user knows one', async () => {
    expect(await example({})).toMatchObject({
      text: 'music',
      asked: 'What is music?',
      right: 'lights',
    });
    expect(await example({}, row({}), problems.slice(0, 1))).toMatchObject({
      asked: 'Between <a> and </a>.',
    });
    expect(
      await example({ question: async () => [{ role: 'user', content: 'Which?' }] }),
    ).toMatchObject({ asked: 'Which?' });
    const gone = [
      { hasReferences: false },
      { source: source('built-in') },
      { referenceReply: async () => null },
    ];
    const throws = async (): Promise<never> => {
      throw new IsoproError('TASK_INVALID', 'boom');
    };
    for (const more of [...gone, { referenceReply: throws }])
      expect(Object.keys((await example(more))!)).not.toContain('right');
    const undecidedRow = tallied(reply('music', undecided('no time')));
    expect(Object.keys((await example({}, undecidedRow))!)).toEqual([
      'problemId',
      'tier',
      'text',
      'asked',
    ]);
  });
});
