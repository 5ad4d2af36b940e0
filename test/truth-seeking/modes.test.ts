/** Modes of reasoning, on scripted policies that write down what they are asked. */
import { expect, test } from '@jest/globals';
import { IsoproError } from '../../src/errors.js';
import { together } from '../../src/truth-seeking/joint-sampling.js';
import { REASONING_MODES, type ReasoningMode } from '../../src/truth-seeking/modes/mode.js';
import { FIXED_QUESTIONS, questionsIn } from '../../src/truth-seeking/modes/asking.js';
import {
  paragraphSteps,
  reason,
  replySteps,
  trainingSamples,
  type ReasonOptions,
} from '../../src/truth-seeking/modes/reason.js';
import type { Message, Reasoner } from '../../src/truth-seeking/reasoner.js';
import { binaryProblem, openProblem } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { STRATEGIES } from '../../src/truth-seeking/strategies/strategy.js';

const PROBLEM = binaryProblem({
  question: 'Is it raining?',
  options: ['Yes', 'No'],
  correctOption: 0,
});
const OPTIONS: ReasonOptions = { system: null, seed: 6n };

/** Answers in order, and keeps what it was asked and with which seed. */
function recorder(...replies: readonly string[]): {
  policy: Reasoner;
  asked: (readonly Message[])[];
  seeds: bigint[];
} {
  const asked: (readonly Message[])[] = [];
  const seeds: bigint[] = [];
  const policy = scriptedReasoner({
    name: replies.join(' / '),
    reply: (messages, seed) => {
      asked.push(messages);
      seeds.push(seed);
      return replies[asked.length - 1] ?? 'nothing more';
    },
  });
  return { policy, asked, seeds };
}

const mode = <N extends ReasoningMode['name']>(text: string): Extract<ReasoningMode, { name: N }> =>
  REASONING_MODES.parse(text) as never;
const contents = (steps: readonly { content: string }[]): string[] =>
  steps.map(({ content }) => content);

test('a spec parses back, and is written with all its options', () => {
  for (const [specs, texts] of [
    [
      REASONING_MODES,
      [
        'direct',
        'chain-of-thought',
        'self-debate:turns=7',
        'bootstrap-interview:source=stationary-ood,domains=urns+puzzles',
      ],
    ],
    [
      STRATEGIES,
      [
        'accuracy',
        'martingale:change=log-odds',
        'mutual-predictability:contextSize=2',
        'world-in-the-loop:template=toolcall',
      ],
    ],
  ] as const)
    for (const text of texts) {
      const spec = specs.parse(text);
      const whole = specs.format(spec as never);
      expect(specs.parse(whole)).toEqual(spec);
      expect(specs.format(specs.parse(whole) as never)).toBe(whole);
    }
  expect(REASONING_MODES.format(mode('length-control:tolerance=0.5'))).toBe(
    'length-control:tokens=128,tolerance=0.5',
  );
  expect(mode('bootstrap-interview:domains=urns')).toMatchObject({
    domains: ['urns'],
    questions: 3,
    source: 'iid',
  });
});

test.each([
  '',
  'debate',
  'direct:turns=2',
  'self-debate:turns',
  'self-debate:turns=0',
  'self-debate:turns=1,turns=2',
  'self-debate:turns=x',
  '__proto__',
])('no mode: %j', (text) =>
  expect(() => REASONING_MODES.parse(text)).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  ),
);

test('direct: one step, two where the reasoning is marked, none for silence', async () => {
  const { policy, asked } = recorder('It pours.');
  const { trajectory, sampledTokens, cutOff } = await reason(policy, PROBLEM, mode('direct'), {
    ...OPTIONS,
    system: 'Be true.',
  });
  expect(trajectory).toMatchObject({
    modeId: 'direct',
    seed: '6',
    problemId: PROBLEM.id,
    policyId: policy.id,
  });
  expect(trajectory.steps).toEqual([{ content: 'It pours.', trainable: true }]);
  expect(trajectory.prompt).toEqual(asked[0]);
  expect(trajectory.prompt.map(({ role }) => role)).toEqual(['system', 'user']);
  for (const part of [PROBLEM.question, 'Yes', 'No'])
    expect(trajectory.prompt[1]!.content).toContain(part);
  expect([sampledTokens, cutOff]).toEqual(['It pours.'.length, 0]);
  expect(replySteps('<think>\nlet me see\n</think>\n\nNo.')).toEqual(['let me see', 'No.']);
  expect(replySteps('<think>never ends')).toEqual(['never ends']);
  expect(replySteps(' \n ')).toEqual([]);
});

test('chain of thought: paragraphs are steps, those beyond the last belong to it, and a cut off reply is counted', async () => {
  expect(paragraphSteps('one\n\ntwo\n \nthree\nstill three\n\n\n', 8)).toEqual([
    'one',
    'two',
    'three\nstill three',
  ]);
  expect(paragraphSteps('a\n\nb\n\nc', 2)).toEqual(['a', 'b\n\nc']);
  const found = await reason(recorder('a\n\nbcdef').policy, PROBLEM, mode('chain-of-thought'), {
    ...OPTIONS,
    maxTokens: 4,
  });
  expect([contents(found.trajectory.steps), found.cutOff, found.sampledTokens]).toEqual([
    ['a', 'b'],
    1,
    4,
  ]);
});

test('self-debate: sides alternate, each sees what was said, the seed says who begins', async () => {
  const { policy, asked, seeds } = recorder('wet', 'dry', 'wetter', 'drier');
  const { trajectory } = await reason(policy, PROBLEM, mode('self-debate'), OPTIONS);
  expect(contents(trajectory.steps)).toEqual([
    'For “Yes”: wet',
    'For “No”: dry',
    'For “Yes”: wetter',
    'For “No”: drier',
  ]);
  expect(trajectory.steps.every(({ trainable }) => trainable)).toBe(true);
  expect(asked[0]!.at(-1)!.content).toContain('Argue for “Yes” now');
  expect(asked[2]!.at(-1)!.content).toContain('For “Yes”: wet\n\nFor “No”: dry');
  expect(asked[3]!.at(-1)!.content).toContain('Argue for “No” now');
  expect(new Set(seeds).size).toBe(4);
  const other = await reason(recorder('a', 'b', 'c', 'd').policy, PROBLEM, mode('self-debate'), {
    ...OPTIONS,
    seed: 7n,
  });
  expect(contents(other.trajectory.steps)[0]).toBe('For “No”: a');
  // what is trained on is what was asked, and what was said without the name of its side
  expect(trainingSamples(trajectory, PROBLEM)).toEqual(
    asked.map((history, i) => ({ history, output: ['wet', 'dry', 'wetter', 'drier'][i] })),
  );
  const open = openProblem({ question: 'Why?', reference: null });
  await expect(
    reason(recorder('a', 'b').policy, open, mode('self-debate:turns=2'), OPTIONS),
  ).resolves.toBeDefined();
});

const OTHERS = [
  PROBLEM,
  ...['Is it late?', 'Is it cold?', 'Is it far?'].map((question) =>
    binaryProblem({ question, options: ['Yes', 'No'], correctOption: 1 }),
  ),
];

test('bootstrap interview: questions of the domain come first, never the problem itself, and are not trained on', async () => {
  const { policy, asked } = recorder('aux 1', 'aux 2', 'aux 3', 'main');
  const { trajectory } = await reason(policy, PROBLEM, mode('bootstrap-interview'), {
    ...OPTIONS,
    questions: { iid: OTHERS },
  });
  const questions = contents(trajectory.steps).filter((_, i) => i % 2 === 0 && i < 6);
  expect(new Set(questions).size).toBe(3);
  expect(questions.filter((each) => each.includes(PROBLEM.question))).toEqual([]);
  expect(trajectory.steps.map(({ trainable }) => trainable)).toEqual([
    false,
    false,
    false,
    false,
    false,
    false,
    true,
  ]);
  expect(asked[3]!.map(({ content }) => content)).toEqual([
    questions[0],
    'aux 1',
    questions[1],
    'aux 2',
    questions[2],
    'aux 3',
    trajectory.prompt.at(-1)!.content,
  ]);
  expect(trainingSamples(trajectory, PROBLEM)).toEqual([{ history: asked[3], output: 'main' }]);
  await expect(
    reason(policy, PROBLEM, mode('bootstrap-interview'), {
      ...OPTIONS,
      questions: { iid: [PROBLEM] },
    }),
  ).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});

test('bootstrap interview: preset questions, questions of other domains, and those of a generator', async () => {
  const fixed = await reason(
    recorder('1', '2', 'main').policy,
    PROBLEM,
    mode('bootstrap-interview:questions=2,source=fixed-sequence'),
    OPTIONS,
  );
  expect(contents(fixed.trajectory.steps)).toEqual([
    FIXED_QUESTIONS[0],
    '1',
    FIXED_QUESTIONS[1],
    '2',
    'main',
  ]);
  const ood = mode<'bootstrap-interview'>(
    'bootstrap-interview:questions=1,source=stationary-ood,domains=urns',
  );
  const far = await reason(recorder('1', 'main').policy, PROBLEM, ood, {
    ...OPTIONS,
    questions: { iid: [PROBLEM], 'stationary-ood': [OTHERS[1]!] },
  });
  expect(far.trajectory.steps[0]!.content).toContain('Is it late?');

  const generator = recorder('1. What is rain?\n2) How is it measured?\n\n- What is a cloud?');
  const { policy, asked } = recorder('water', 'a gauge', 'main');
  const preset = await reason(
    policy,
    PROBLEM,
    mode('bootstrap-interview:questions=2,source=generator-preset,instructions=socratic'),
    {
      ...OPTIONS,
      generator: generator.policy,
    },
  );
  expect(contents(preset.trajectory.steps)).toEqual([
    'What is rain?',
    'water',
    'How is it measured?',
    'a gauge',
    'main',
  ]);
  expect([generator.asked.length, asked.length]).toEqual([1, 3]);
  expect(generator.asked[0]![0]!.content).toMatch(/Write 2 questions[^]*teacher/);

  const adaptive = recorder('What is rain?', 'Where is it?', '');
  const found = await reason(
    recorder('water', 'here', 'main').policy,
    PROBLEM,
    mode('bootstrap-interview:source=generator-adaptive'),
    {
      ...OPTIONS,
      generator: adaptive.policy,
    },
  );
  // the generator had no third question
  expect(contents(found.trajectory.steps)).toEqual([
    'What is rain?',
    'water',
    'Where is it?',
    'here',
    'main',
  ]);
  expect(adaptive.asked[1]![0]!.content).toContain('- What is rain?\n  water');
  expect(questionsIn('3 apples?\n\n * x')).toEqual(['3 apples?', 'x']);
});

test('length control: what is short is asked to go on, what is long is cut, and silence ends it', async () => {
  const control = mode('length-control:tokens=8,tolerance=0.25');
  const { policy, asked } = recorder('abc', 'defg', 'never');
  const short = await reason(policy, PROBLEM, control, OPTIONS);
  expect(contents(short.trajectory.steps)).toEqual(['abc', 'defg']);
  expect(asked[1]!.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  const long = await reason(recorder('abcdefghijklmnop').policy, PROBLEM, control, OPTIONS);
  expect([contents(long.trajectory.steps), long.cutOff]).toEqual([['abcdefghij'], 1]);
  expect(
    (await reason(recorder('a', '').policy, PROBLEM, control, OPTIONS)).trajectory.steps,
  ).toHaveLength(1);
});

test('the same seed gives the same trajectory, another one another', async () => {
  const policy = scriptedReasoner({ name: 'seeds', reply: (_, seed) => seed.toString() });
  const of = (seed: bigint): Promise<string> =>
    reason(policy, PROBLEM, mode('direct'), { ...OPTIONS, seed }).then(
      ({ trajectory }) => trajectory.id,
    );
  expect(await of(1n)).toBe(await of(1n));
  expect(await of(1n)).not.toBe(await of(2n));
});

test('together: who waits is sampled with the others, in the order of the work; one that does not fit ends alone', async () => {
  const calls: string[][] = [];
  const answer = (messages: readonly Message[]): string => {
    const { content } = messages.at(-1)!;
    if (content.includes('too long')) throw new IsoproError('CONTEXT_OVERFLOW', 'too long');
    return `(${content})`;
  };
  const alone = scriptedReasoner({ name: 'many', reply: answer });
  const policy: Reasoner = {
    ...alone,
    inferMany: async (requests, options) => {
      calls.push(requests.map(({ messages }) => messages.at(-1)!.content));
      return await Promise.all(
        requests.map(({ messages, seed }) => alone.infer(messages, { ...options, seed })),
      );
    },
  };
  const asks = (of: Reasoner, content: string): Promise<string> =>
    of.infer([{ role: 'user', content }]).then(({ text }) => text);
  // the second has one turn less, the third asks late
  const found = await together(policy, 3, async (own, i) => {
    if (i === 2) await new Promise((resolve) => setImmediate(resolve));
    const first = await asks(own, `${i}`);
    return i === 1 ? first : await asks(own, first);
  });
  expect(found).toEqual(['((0))', '(1)', '((2))']);
  expect(calls).toEqual([
    ['0', '1', '2'],
    ['(0)', '(2)'],
  ]);
  const parted = together(policy, 2, (own, i) =>
    asks(own, i === 0 ? 'short' : 'too long').catch((error: IsoproError) => error.code),
  );
  await expect(parted).resolves.toEqual(['(short)', 'CONTEXT_OVERFLOW']);
  await expect(together(policy, 2, (own) => asks(own, 'too long'))).rejects.toMatchObject({
    code: 'CONTEXT_OVERFLOW',
  });
});
