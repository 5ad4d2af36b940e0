import { describe, expect, test } from '@jest/globals';
import { deriveSeed, Random } from '../../src/random.js';
import { frozenIndex, frozenSet } from '../../src/tasks/frozen-sets.js';
import { openTask } from '../../src/tasks/open-task.js';
import { drawProblem, TIERS } from '../../src/tasks/ladder/generate.js';
import { ladder } from '../../src/tasks/ladder/ladder.js';
import { type LadderProblem, readLadderProblem } from '../../src/tasks/ladder/problem.js';
import { ABSTAIN, solve } from '../../src/tasks/ladder/solve.js';
import { VOCABULARIES } from '../../src/tasks/ladder/vocabulary.js';
import { judgeReply } from '../../src/tasks/verdict.js';
import { answerLadder } from '../models/ladder-reader.js';

const frozen = (['test', 'dev'] as const).flatMap(
  (name) => frozenSet<LadderProblem, string>('ladder', name).problems,
);
const generated = TIERS.flatMap(({ id }) =>
  Array.from({ length: 100 }, (_, seed) => ladder.generate(id, BigInt(seed)) as LadderProblem),
);
const all = [...frozen.map(({ problem }) => problem), ...generated];
const judge = (problem: LadderProblem, text: string) =>
  judgeReply(ladder, problem, text, 'stop').verdict;
const questionOf = (problem: LadderProblem): string =>
  ladder.prompt(problem, 'plain').at(-1)!.content;

describe('problems', () => {
  test('a literal reader of nothing but the prompt is accepted on every one', () => {
    const refused: string[] = [];
    for (const problem of all) {
      const messages = ladder.prompt(problem, 'plain').map(({ content }) => content);
      if (judge(problem, answerLadder(messages.at(-1)!)).kind !== 'pass')
        refused.push(messages.at(-1)!);
      // its worked examples are solved the same way
      if (answerLadder(messages[0]!.split('\n\n').at(-1)!) !== messages[1])
        refused.push(messages[0]!);
      if (answerLadder(messages[2]!) !== messages[3]) refused.push(messages[2]!);
    }
    expect(all).toHaveLength(12 * 220);
    expect(refused).toEqual([]);
  });

  test('references pass; any other word, order or number fails', () => {
    const wrong: string[] = [];
    for (const { problem, reference } of frozen) {
      if (reference !== solve(problem)) wrong.push(`${reference} is not the answer`);
      const words = reference.split(' ');
      const good = [
        reference,
        `"${reference}"`,
        `${reference}.`,
        `"${reference}".`,
        ` ${reference}\n`,
      ];
      const bad = [
        `${reference}x`,
        words.slice(1).join(' '),
        [...words].reverse().join(' '),
        reference.toUpperCase(),
        `0${reference}`,
        ABSTAIN,
      ];
      for (const text of good)
        if (judge(problem, text).kind !== 'pass') wrong.push(`${text} fails`);
      for (const text of bad)
        if (text !== reference && judge(problem, text).kind !== 'fail')
          wrong.push(`${text} passes`);
    }
    expect(wrong).toEqual([]);
  });

  test('the same seed gives the same problem, and no two levels ask for the same', () => {
    for (const { id } of TIERS) expect(ladder.generate(id, 7n)).toEqual(ladder.generate(id, 7n));
    expect(new Set(all.map((problem) => problem.id)).size).toBeGreaterThan(all.length * 0.9);
    expect(TIERS).toHaveLength(12);
    for (const { id, length } of TIERS)
      if (id.endsWith('-2'))
        expect(length).toBeGreaterThan(
          TIERS.find((tier) => tier.id === id.replace('2', '1'))!.length,
        );
  });

  test('what is to be sorted or turned is not so yet; questions are answered or not in equal parts', () => {
    for (const problem of all)
      if (['sort', 'reverse'].includes(problem.tier.split('-')[0]!))
        expect(solve(problem)).not.toBe(problem.items.join(' '));
    for (const tier of ['abstain-1', 'abstain-2']) {
      const asked = all.filter((problem) => problem.tier === tier);
      const abstained = asked.filter((problem) => solve(problem) === ABSTAIN);
      expect(Math.abs(abstained.length / asked.length - 0.5)).toBeLessThan(0.12);
      for (const { facts, question } of abstained) {
        expect(facts.some(({ who }) => who === question!.who)).toBe(true);
        expect(facts.some(({ relation }) => relation === question!.relation)).toBe(true);
      }
    }
  });
});

describe('the frozen sets', () => {
  test('share no word, name or value with training', () => {
    const trained = new Set(Object.values(VOCABULARIES.training).flat());
    expect(
      Object.values(VOCABULARIES.frozen)
        .flat()
        .filter((word) => trained.has(word)),
    ).toEqual([]);
  });

  test('none of their problems is generated, although draws without the filter meet them', () => {
    const ids = frozenIndex('ladder');
    let [met, generatedFrozen] = [0, 0];
    for (const tier of TIERS) {
      for (let seed = 0n; seed < 100n; seed++) {
        if (ids.has((ladder.generate(tier.id, seed) as LadderProblem).id)) generatedFrozen++;
        if (ids.has(drawProblem('ladder', tier, new Random(seed), 'training').id)) met++;
      }
    }
    expect(generatedFrozen).toBe(0);
    expect(met).toBeGreaterThan(0);
  });

  test('are what their seeds give: the first test problem of each tier', () => {
    for (const tier of TIERS) {
      const seed = deriveSeed({
        runSeed: 0n,
        purpose: 'frozen test',
        iteration: 0,
        problemId: `ladder/${tier.id}`,
        sample: 0,
      });
      expect(drawProblem('ladder', tier, new Random(seed), 'frozen')).toEqual(
        frozen.find(({ problem }) => problem.tier === tier.id)!.problem,
      );
    }
  });
});

describe('the prompt', () => {
  test('states the rules of the answer before its worked examples, whose items no problem has', () => {
    const questions = new Set(all.map(questionOf));
    for (const problem of all.filter((_, index) => index % 5 === 0)) {
      const [first, , second, ...rest] = ladder.prompt(problem, 'plain');
      expect(first!.content).toMatch(/^Reply with /);
      expect(first!.content.includes(`or with ${ABSTAIN} if the text does not say`)).toBe(
        problem.operation === 'ask',
      );
      expect(rest).toHaveLength(2);
      expect(questions.has(first!.content.split('\n\n')[1]!)).toBe(false);
      expect(questions.has(second!.content)).toBe(false);
      expect(ladder.prompt(problem, 'cot')).toEqual(ladder.prompt(problem, 'plain'));
    }
  });
});

describe('verdicts', () => {
  test.each(ladder.exploits.map((exploit) => [exploit.name, exploit] as const))(
    'exploit: %s does not pass',
    (_name, exploit) => {
      const { verdict } = judgeReply(ladder, exploit.problem, exploit.text, exploit.finish);
      expect(verdict.kind).toBe('fail');
      expect(verdict.violations).toHaveLength(1);
    },
  );

  test('there are 200 exploits and more, all different, and an honest reply to their problems passes', () => {
    expect(ladder.exploits.length).toBeGreaterThanOrEqual(200);
    expect(
      new Set(ladder.exploits.map(({ problem, text, finish }) => `${problem.id} ${finish} ${text}`))
        .size,
    ).toBe(ladder.exploits.length);
    for (const { problem } of ladder.exploits)
      expect(judge(problem, solve(problem)).kind).toBe('pass');
  });

  test('a question tells inventions from abstentions', () => {
    const asked = frozen.filter(({ problem }) => problem.operation === 'ask');
    const category = (problem: LadderProblem, reply: string) =>
      judge(problem, reply).violations[0]!.category;
    const [open, answered] = [
      asked.find(({ reference }) => reference === ABSTAIN)!,
      asked.find(({ reference }) => reference !== ABSTAIN)!,
    ];
    expect([
      category(open.problem, 'Rome'),
      category(answered.problem, ABSTAIN),
      category(answered.problem, 'Rome'),
    ]).toEqual(['invented', 'abstained', 'value']);
  });

  test('no policy passes two thirds of a tier, but where its note says so', () => {
    const passed: string[] = [];
    for (const [name, decide] of Object.entries(ladder.trivialPolicies))
      for (const { id } of TIERS) {
        const problems = frozen.filter(({ problem }) => problem.tier === id);
        const hits = problems.filter(
          ({ problem }) => ladder.verify(problem, decide(problem)).kind === 'pass',
        ).length;
        if (hits > (problems.length * 2) / 3) passed.push(`${name} on ${id}`);
      }
    expect(passed).toEqual(['always-ascending on sort-1']);
  });

  test('feedback says that it is wrong and not what is right', () => {
    const { problem, reference } = frozen[0]!;
    const advice = ladder.feedback!(problem, judge(problem, 'zzz'));
    expect(advice).toContain('"zzz" is not right');
    expect(advice).not.toContain(reference);
  });
});

describe('the most lenient reading', () => {
  test('finds the answer in a sentence, on the last line, among commas; of wrong replies it passes none', async () => {
    const task = await openTask('ladder');
    for (const { problem, reference } of frozen.filter((_, index) => index % 30 === 0)) {
      const lenient = async (reply: string) =>
        (await task.judgeLeniently(problem, reply))!.verdict.kind;
      const commas = reference.replaceAll(' ', ', ');
      for (const reply of [
        reference,
        `The answer is ${reference}.`,
        `**Answer:** ${commas}`,
        `Let me see.\nx = 3\n= "${reference}"`,
        `${commas}, I think.`,
      ])
        expect(await lenient(reply)).toBe('pass');
      for (const reply of ['', '?', 'I do not say.', 'zzz'])
        expect(await lenient(reply)).toBe('fail');
    }
    await task.dispose();
  });
});

test('few-shot examples are solved problems of the tier, none of them the question or frozen', async () => {
  const [{ problem }] = frozen as [(typeof frozen)[0]];
  const messages = await ladder.fewShot!(problem, 'plain', 3, 5n);
  expect(messages.map(({ role }) => role)).toEqual([
    'user',
    'assistant',
    'user',
    'assistant',
    'user',
    'assistant',
  ]);
  for (let at = 0; at < 6; at += 2)
    expect(answerLadder(messages[at]!.content)).toBe(messages[at + 1]!.content);
  const questions = new Set(frozen.map((row) => questionOf(row.problem)));
  expect(messages.filter(({ content }) => questions.has(content))).toEqual([]);
});

describe('a problem from outside', () => {
  const of = (tier: string): LadderProblem =>
    frozen.find(({ problem }) => problem.tier === tier)!.problem;
  const without = (tier: string): Omit<LadderProblem, 'id'> => {
    const { id: _id, ...content } = of(tier);
    return content;
  };
  test('is taken as it was written', () => {
    for (const { problem } of frozen)
      expect(readLadderProblem('ladder', JSON.parse(JSON.stringify(problem)))).toEqual(problem);
    expect(readLadderProblem('ladder', without('copy-1'))).toEqual(of('copy-1'));
  });
  test.each<[string, object]>([
    ['of another task', { ...without('copy-1'), task: 'extract' }],
    ['with another id', { ...of('copy-1'), position: 1 + (of('copy-1').position! % 3) }],
    ['without items', { ...without('copy-1'), items: [] }],
    ['with a position too far', { ...without('copy-1'), position: 9 }],
    ['with a position that nobody asks for', { ...without('sort-1'), position: 1 }],
    ['with words to sort', { ...without('sort-1'), items: ['a', 'b'] }],
    ['with terms without signs', { ...without('sum-1'), items: ['1', '2'] }],
    ['with a word that is a program', { ...without('copy-1'), items: ['a b', '<script>'] }],
    ['with a question and no context', { ...without('abstain-1'), facts: [] }],
    ['with a context and no question', { ...without('abstain-1'), question: null }],
    [
      'with a context that says two things',
      {
        ...without('abstain-1'),
        facts: [1, 2].map((at) => ({ who: 'A', relation: 'has', what: `x${'y'.repeat(at)}` })),
      },
    ],
    ['with a context where none belongs', { ...without('copy-1'), facts: of('abstain-1').facts }],
  ])('%s is refused', (_name, value) => {
    expect(() => readLadderProblem('ladder', value)).toThrow(
      expect.objectContaining({ code: 'PROBLEM_INVALID' }),
    );
  });
});
