/**
 * Judges, graders that ask a model, coherence and rewards: with scripted judges, whose words are
 * known.
 */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import {
  coverageGrader,
  modelBeliefGrader,
  modelGrader,
} from '../../src/truth-seeking/graders/model-graders.js';
import type { Message } from '../../src/truth-seeking/reasoner.js';
import { binaryProblem, openProblem, type Problem } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import {
  conjunctionExcess,
  negationIncoherence,
  orderSensitivity,
} from '../../src/truth-seeking/strategies/coherence.js';
import { graderScore } from '../../src/truth-seeking/strategies/grader-score.js';
import { judgedConsistency } from '../../src/truth-seeking/strategies/judged-consistency.js';
import { martingaleRewards } from '../../src/truth-seeking/strategies/martingale-reward.js';
import {
  bootstrapExamples,
  ordersOf,
  qualitativeConfig,
  qualitativeScore,
  rate,
  type Judging,
} from '../../src/truth-seeking/strategies/qualitative-judge.js';
import { objectsIn, readVerdict } from '../../src/truth-seeking/strategies/verdict.js';
import { trajectory } from '../../src/truth-seeking/trajectory.js';

const verdict = (score: number): string => `So be it. {"score": ${score}, "reason": "because"}`;
const candidate = (id: string): { id: string; question: string; response: string } => ({
  id,
  question: `q ${id}`,
  response: `r ${id}`,
});
const examples = ['a', 'b', 'c'].map((id) => ({
  question: `q ${id}`,
  response: `r ${id}`,
  score: 0.5,
}));

/** A judge that keeps what it was asked. */
function listening(reply: (messages: readonly Message[], call: number) => string): {
  judging: Judging;
  heard: (readonly Message[])[];
} {
  const heard: (readonly Message[])[] = [];
  const judge = scriptedReasoner({
    name: 'judge',
    reply: (messages) => {
      heard.push([...messages]);
      return reply(messages, heard.length);
    },
  });
  return {
    heard,
    judging: {
      judge,
      instruction: 'Short is good.',
      config: qualitativeConfig.parse({}),
      seed: 1n,
    },
  };
}

describe('verdicts', () => {
  test.each([
    ['{"score": 0.5}', 0.5],
    ['{"score": 1, "reason": "a } in a string"} and no more', 1],
    ['first {"score": 0.1}, then {"score": 0.9}', 0.9],
    ['{not json} {"score": 0.25}', 0.25],
    ['{"score": 0.5, "parts": {"score": 2}}', 0.5],
    ['he said " and {"score": 0.75}', 0.75],
  ])('%s', (text, score) => {
    expect(readVerdict(text)).toMatchObject({ ok: true, score });
  });
  test.each([
    ['0.9', 'no verdict'],
    ['{"score": 0.9', 'no verdict'],
    ['{"score": 90}', 'verdict out of form'],
    ['{"score": "0.9"}', 'verdict out of form'],
    ['{"score": 0.9} {"score": null}', 'verdict out of form'],
    ['', 'no verdict'],
  ])('%s is none', (text, error) => {
    expect(readVerdict(text)).toEqual({ ok: false, error });
  });
  test('objects by balanced braces, of a text without end too', () => {
    expect(objectsIn('a {b {c} "}" } d } {e')).toEqual(['{b {c} "}" }']);
    expect(objectsIn('{'.repeat(1e5))).toEqual([]);
  });
});

describe('qualitative judge', () => {
  test('own answer, attack, defence, resolution and verdict, each hearing what was said before', async () => {
    const { judging, heard } = listening((_, call) =>
      call === 5 ? verdict(0.8) : `stage ${call}`,
    );
    const found = await rate(
      { ...judging, config: qualitativeConfig.parse({ order: 'none' }) },
      candidate('x'),
    );
    expect(found).toEqual({ score: 0.8, error: null, gradings: 1, failed: {} });
    expect(heard.map(({ length }) => length)).toEqual([2, 4, 6, 8, 10]);
    const asked = heard[4]!.filter(({ role }) => role === 'user').map(({ content }) => content);
    for (const [i, words] of [
      /answer this yourself/,
      /Attack/,
      /Defend/,
      /Weigh/,
      /JSON/,
    ].entries())
      expect(asked[i]).toMatch(words);
    // its own answer comes before it sees the response
    expect(asked[0]).not.toContain('r x');
    expect(
      heard[4]!.filter(({ role }) => role === 'assistant').map(({ content }) => content),
    ).toEqual([1, 2, 3, 4].map((n) => `stage ${n}`));
  });

  test.each([
    ['none', 1],
    ['red', 2],
    ['red-blue', 3],
    ['red-blue-resolution', 4],
  ] as const)('%s: %i replies', async (redTeam, calls) => {
    const { judging, heard } = listening(() => verdict(0.5));
    await rate(
      {
        ...judging,
        config: qualitativeConfig.parse({ redTeam, selfAnswer: false, order: 'none' }),
      },
      candidate('x'),
    );
    expect(heard).toHaveLength(calls);
    expect(
      heard
        .at(-1)!
        .map(({ content }) => content)
        .join(),
    ).toContain('r x');
  });

  test('T24: three examples in all orders, two rounds: 12 gradings, averaged; one without a verdict is counted', async () => {
    const config = qualitativeConfig.parse({ redTeam: 'none', selfAnswer: false, rounds: 2 });
    const { judging, heard } = listening((_, call) =>
      call === 12 ? 'no' : verdict(call <= 5 ? 0.2 : 0.8),
    );
    const found = await rate({ ...judging, config }, candidate('x'), examples);
    expect(found.gradings).toBe(12);
    expect(found.score).toBeCloseTo((5 * 0.2 + 6 * 0.8) / 11, 12);
    expect(found.error).toBeGreaterThan(0);
    expect(found.failed).toEqual({ 'no verdict': 1 });
    const orders = heard.map((messages) =>
      messages
        .filter(({ content }) => /Response:\nr [abc]/.test(content))
        .map(({ content }) => content)
        .join(),
    );
    expect(new Set(orders).size).toBe(6);
  });

  test('T24: bootstrapping 3 examples by 2 rounds makes 6 and 12', async () => {
    const config = qualitativeConfig.parse({
      redTeam: 'none',
      selfAnswer: false,
      bootstrapRounds: 2,
    });
    const { judging, heard } = listening((_, call) => (call === 2 ? 'no' : verdict(0.6)));
    const source = Array.from({ length: 10 }, (_, i) => candidate(`s${i}`));
    const found = await bootstrapExamples({ ...judging, config }, examples, source);
    expect(found).toHaveLength(12);
    expect(found.map(({ question }) => question)).not.toContain('q s1'); // came to no verdict
    // 3 examples before the first round's candidates, 6 before the second's: each is two messages
    expect(heard.map(({ length }) => (length - 2) / 2)).toEqual([3, 3, 3, 3, 6, 6, 6, 6, 6, 6]);
    const few = bootstrapExamples({ ...judging, config }, examples, source.slice(0, 4));
    await expect(few).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('orders: all of them, none twice; of many examples as many as are drawn, by the seed', () => {
    expect(ordersOf(0, new Random(1n))).toEqual([[]]);
    expect(new Set(ordersOf(4, new Random(1n)).map(String)).size).toBe(24);
    const drawn = ordersOf(12, new Random(1n));
    expect(new Set(drawn.map(String)).size).toBe(120);
    expect(ordersOf(12, new Random(1n))).toEqual(drawn);
  });

  test('the score is the mean rating; candidates without a verdict are no number', async () => {
    const config = qualitativeConfig.parse({ redTeam: 'none', selfAnswer: false, order: 'none' });
    const { judging } = listening((messages) => {
      const asked = messages.at(-1)!.content;
      return asked.includes('r bad') ? 'hm' : verdict(asked.includes('r one') ? 1 : 0.5);
    });
    const found = await qualitativeScore(
      { ...judging, config },
      ['one', 'two', 'bad'].map(candidate),
    );
    expect(found).toMatchObject({
      direction: 'higher',
      value: 0.75,
      n: 2,
      skipped: { 'no verdict': 1 },
    });
  });
});

describe('graders as strategies', () => {
  const problem = binaryProblem({ question: 'Is it?', options: ['Yes', 'No'], correctOption: 0 });
  const open = openProblem({ question: 'Why?', reference: 'Because of A and B.' });
  const of = (about: Problem, text: string) =>
    trajectory({
      problemId: about.id,
      policyId: 'p',
      modeId: 'direct',
      seed: '0',
      prompt: [],
      steps: [{ content: text, trainable: true }],
    });
  const known = new Map<string, Problem>([problem, open].map((each) => [each.id, each]));
  const judge = (reply: (asked: string) => string) =>
    scriptedReasoner({
      name: 'grader',
      reply: (messages) => reply(messages.map(({ content }) => content).join()),
    });

  test('mean grade; errors are counted by reason, and are no numbers', async () => {
    const grader = async (text: string) => {
      if (text === 'throws') throw new Error('no');
      return text === 'refused'
        ? ({ ok: false, reason: 'no belief' } as const)
        : { ok: true as const, value: Number(text) };
    };
    const made = ['0.5', '1', 'throws', 'refused', 'NaN'].map((text) => of(problem, text));
    const unknown = trajectory({ ...of(problem, '1'), problemId: 'nobody’s' });
    const found = await graderScore([...made, unknown], known, grader);
    expect(found).toMatchObject({ direction: 'higher', value: 0.75, n: 2 });
    expect(found.skipped).toEqual({
      'grader failed': 1,
      'no belief': 1,
      'not a number': 1,
      'problem unknown': 1,
    });
  });

  test('a model extracts a belief, which is graded strictly', async () => {
    const found = await graderScore(
      [of(problem, 'I lean to yes')],
      known,
      modelBeliefGrader(judge(() => '\\finalBeliefProb{0.8}')),
    );
    expect(found.value).toBeCloseTo(-0.04, 12);
    const loose = await graderScore(
      [of(problem, 'I lean to yes')],
      known,
      modelBeliefGrader(judge(() => '0.8')),
    );
    expect(loose).toMatchObject({ value: null, skipped: { 'no belief': 1 } });
  });

  test('a model rates; coverage needs a reference, and both see it', async () => {
    const seen: string[] = [];
    const telling = judge((asked) => {
      seen.push(asked);
      return verdict(0.5);
    });
    expect(
      await graderScore([of(open, 'A')], known, modelGrader(telling, 'Rate it.')),
    ).toMatchObject({ value: 0.5, n: 1 });
    expect(await graderScore([of(open, 'A')], known, coverageGrader(telling))).toMatchObject({
      value: 0.5,
      n: 1,
    });
    for (const asked of seen) expect(asked).toContain('Because of A and B.');
    expect(await graderScore([of(problem, 'A')], known, coverageGrader(telling))).toMatchObject({
      value: null,
    });
    expect(
      await graderScore(
        [of(open, 'A')],
        known,
        modelGrader(
          judge(() => 'ten'),
          'Rate it.',
        ),
      ),
    ).toMatchObject({
      value: null,
      skipped: { 'grader failed': 1 },
    });
  });
});

test('answers that a judge holds to go together; a context that holds the answer says nothing', async () => {
  const judge = scriptedReasoner({
    name: 'j',
    reply: (messages) => verdict(messages[0]!.content.includes('Answer: wet') ? 1 : 0.5),
  });
  const context = [{ question: 'Does it rain?', answer: 'yes' }];
  const trial = (answer: string) => ({ question: 'How is the street?', answer, context });
  const found = await judgedConsistency(
    judge,
    new Map([['t', [trial('wet'), trial('dry'), trial('yes')]]]),
  );
  expect(found).toMatchObject({
    value: 0.75,
    n: 1,
    skipped: { 'the context holds the answer': 1 },
  });
});

test('coherence: .7 of a statement and .4 of its negation are .1 apart', () => {
  expect(negationIncoherence(0.7, 0.4)).toBeCloseTo(0.1, 12);
  expect([conjunctionExcess(0.5, [0.4, 0.9]), conjunctionExcess(0.3, [0.4, 0.9])]).toEqual([
    expect.closeTo(0.1, 12),
    0,
  ]);
  expect(orderSensitivity(0.7, 0.6)).toBeCloseTo(0.1, 12);
});

describe('rewards from a slope', () => {
  const others = [
    [0.2, 0.1],
    [0.5, 0.5],
    [0.8, 0.9],
  ];
  const config = { change: 'difference', granularity: 'steps' } as const;
  const reward = (
    own: number[],
    regularisation: 'none' | 'squared' | 'absolute',
    informative = 0,
  ): number =>
    martingaleRewards(
      [...others, own].map((beliefs, i) => ({ trajectoryId: `t${i}`, problemId: 'p', beliefs })),
      config,
      { regularisation, informative },
    ).get('t3')!;

  test('beside entrenched others, whoever goes the other way is rewarded', () => {
    for (const regularisation of ['squared', 'absolute'] as const) {
      expect(reward([0.8, 0.7], regularisation)).toBeGreaterThan(0);
      expect(reward([0.8, 0.9], regularisation)).toBeLessThan(0);
      // slope of the others 1/3: the squared loss rises 2/3 as fast as the absolute one
      expect(reward([0.8, 0.7], 'squared')).toBeCloseTo(
        (2 / 3) * reward([0.8, 0.7], 'absolute'),
        12,
      );
    }
  });

  test('moving much is worth what it is said to be worth', () => {
    expect(reward([0.8, 0.7], 'none', 1) - reward([0.8, 0.7], 'none')).toBeCloseTo(0.1, 12);
  });
});
