/** Beliefs that are said, by judges whose beliefs, noise and bias a program gives. */
import { expect, test } from '@jest/globals';
import {
  askBeliefs,
  statedBeliefs,
  type AskedOptions,
} from '../../src/truth-seeking/beliefs/verbal-belief.js';
import { beliefPath } from '../../src/truth-seeking/beliefs/readout.js';
import type { Message, Reasoner } from '../../src/truth-seeking/reasoner.js';
import { binaryProblem } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { trajectory, type Trajectory } from '../../src/truth-seeking/trajectory.js';

const PROBLEM = binaryProblem({
  question: 'Is 7 + 5 twelve?',
  options: ['Yes', 'No'],
  correctOption: 0,
});
const REASONER = scriptedReasoner({ name: 'reasoner' });
const SYSTEM: Message = { role: 'system', content: 'Doubt all.' };

const reasoned = (contents: readonly string[], steps: { trainable?: boolean } = {}): Trajectory =>
  trajectory({
    problemId: PROBLEM.id,
    policyId: REASONER.id,
    modeId: 'given',
    seed: '0',
    prompt: [SYSTEM, { role: 'user', content: PROBLEM.question }],
    steps: contents.map((content) => ({ content, trainable: steps.trainable ?? true })),
  });

const STEPS = reasoned(['Seven, then five.', 'Twelve.']);
const TRUE_BELIEFS = [0.5, 0.6, 0.9];

/** Whether the option that the question names first is the problem's own first. */
const inOrder = (messages: readonly Message[]): boolean =>
  messages.at(-1)!.content.includes('The answer is “Yes” or “No”');

/** Says P(the option named first) at each place, each number changed. */
const judge = (
  name: string,
  change: (belief: number, seed: bigint) => number = (belief) => belief,
): Reasoner =>
  scriptedReasoner({
    name,
    reply: (messages, seed) => {
      const beliefs = TRUE_BELIEFS.map((belief) =>
        change(inOrder(messages) ? belief : 1 - belief, seed),
      );
      return `I have read it. \\beliefs{${beliefs.map((belief) => belief.toFixed(6)).join(', ')}}`;
    },
  });

const ask = (by: Reasoner, options: Partial<AskedOptions> = {}, of = STEPS) =>
  askBeliefs(by, PROBLEM, of, { seed: 5n, ...options });

test('a judge without noise says what it believes, at each place, with the options in both orders', async () => {
  const read = await ask(judge('exact'));
  expect(read).toMatchObject({
    source: 'judge',
    policyId: judge('exact').id,
    trajectoryId: STEPS.id,
    failed: {},
  });
  expect(read.readings.map(({ belief }) => belief!.p0)).toEqual(
    TRUE_BELIEFS.map((belief) => expect.closeTo(belief, 6)),
  );
  expect(read.noiseVariance).toBeCloseTo(0, 12);
  expect(beliefPath(read)).toMatchObject({
    problemId: PROBLEM.id,
    beliefs: [0.5, expect.any(Number), expect.any(Number)],
  });
});

test('a leaning towards the option that is named first falls out', async () => {
  const read = await ask(judge('leaning', (belief) => belief + 0.08));
  expect(read.readings.map(({ belief }) => belief!.p0)).toEqual(
    TRUE_BELIEFS.map((belief) => expect.closeTo(belief, 6)),
  );
});

test('the noise is what is left of the spread between measurements', async () => {
  const noise = (seed: bigint): number => Number(seed % 21n) / 100 - 0.1;
  const read = await ask(
    judge('noisy', (belief, seed) => Math.min(1, Math.max(0, belief + noise(seed)))),
    { measurements: 4 },
  );
  const variances = read.readings.map((reading) => {
    const values = reading.belief === null ? [] : reading.measured;
    expect(values).toHaveLength(4);
    expect(new Set(values).size).toBeGreaterThan(1); // seeds of their own
    const mean = values.reduce((a, b) => a + b, 0) / 4;
    expect(reading.belief!.p0).toBeCloseTo(mean, 12);
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 3 / 4;
    expect(reading.belief!.error).toBeCloseTo(Math.sqrt(variance), 12);
    return variance;
  });
  expect(read.noiseVariance).toBeCloseTo(variances.reduce((a, b) => a + b, 0) / 3, 12);
  expect(
    await ask(
      judge('noisy', (belief, seed) => belief + noise(seed) / 10),
      { measurements: 1 },
    ),
  ).toMatchObject({ noiseVariance: null });
});

test('the same seed asks the same, and the policy that reasoned judges itself', async () => {
  const saying = (name: string): Reasoner =>
    judge(name, (belief, seed) => Math.abs(belief - Number(seed % 100n) / 1000));
  expect(await ask(saying('a'))).toEqual(await ask(saying('a')));
  expect((await ask(saying('a'), { seed: 6n })).readings).not.toEqual(
    (await ask(saying('a'))).readings,
  );
  expect((await ask({ ...judge('exact'), id: REASONER.id })).source).toBe('self');
});

test('the question names the places, the standpoint, and the system message where it is kept', async () => {
  const asked: (readonly Message[])[] = [];
  const listening = scriptedReasoner({
    name: 'listening',
    reply: (messages) => {
      asked.push(messages);
      return '';
    },
  });
  await ask(listening, { measurements: 1 });
  await ask(listening, { measurements: 1, standpoint: 'own', beliefSystem: 'keep' });
  expect(asked.map((messages) => messages.map(({ role }) => role).join())).toEqual([
    'user',
    'user',
    'system,user',
    'system,user',
  ]);
  const [policy, , own] = asked.map((messages) => messages.at(-1)!.content);
  for (const text of [
    '[0] (nothing yet)',
    '[1] Seven, then five.',
    '[2] Twelve.',
    'holds 3 numbers',
  ])
    expect(policy).toContain(text);
  expect(policy).toContain('the writer holds “Yes”');
  expect(own).toContain('you hold “Yes”');
});

test.each([
  ['I am sure.', 'no belief'],
  ['\\beliefs{0.5, 0.6}', 'another number of beliefs'],
  ['\\beliefs{0.5, 0.6, 75}', 'out of range'],
  ['\\beliefs{0.5, 0.6, 75%}', 'not a number'],
  ['\\beliefs{0.5, 0.6, 0.7', 'not a number'],
  ['\\beliefs{0.5, 0.6, 0.7} or \\beliefs{high}', 'another number of beliefs'],
])('%j is no belief, but %s', async (reply, reason) => {
  const read = await ask(scriptedReasoner({ name: reply, reply: () => reply }), {
    measurements: 2,
  });
  expect(read.readings).toEqual(Array(3).fill({ belief: null, reason }));
  expect(read).toMatchObject({ failed: { [reason]: 4 }, noiseVariance: null });
  expect(beliefPath(read)).toBe(reason);
});

test('a measurement of which one order cannot be read is none', async () => {
  let calls = 0;
  const every = judge('exact');
  const stumbling: Reasoner = {
    ...every,
    infer: (...args) => (calls++ === 1 ? REASONER : every).infer(...args),
  };
  const read = await ask(stumbling);
  expect(read.failed).toEqual({ 'no belief': 1 });
  for (const reading of read.readings)
    expect(reading.belief === null ? [] : reading.measured).toHaveLength(2);
});

test('what a reasoning states itself counts from there on, until it is taken back', () => {
  const of = reasoned([
    'Let me see.',
    'So \\finalBeliefProb{0.7}.',
    'Wait.',
    'No: \\finalBeliefProb{75}',
    '\\finalBeliefProb{0.2}',
  ]);
  const read = statedBeliefs(PROBLEM, of);
  expect(read.readings.map(({ belief, reason }) => belief?.p0 ?? reason)).toEqual([
    'no belief',
    'no belief',
    0.7,
    0.7,
    'out of range',
    0.2,
  ]);
  expect(read).toMatchObject({
    source: 'stated',
    policyId: REASONER.id,
    failed: { 'out of range': 1 },
    noiseVariance: null,
  });
  // what others wrote is no belief of the policy
  expect(
    beliefPath(statedBeliefs(PROBLEM, reasoned(['\\finalBeliefProb{0.7}'], { trainable: false }))),
  ).toBe('no belief');
});

test('a trajectory of another problem, and no measurement at all, are errors', async () => {
  const other = { ...STEPS, problemId: 'other' };
  await expect(ask(judge('exact'), {}, other)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  expect(() => statedBeliefs(PROBLEM, other)).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  );
  await expect(ask(judge('exact'), { measurements: 0 })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});
