/**
 * Beliefs read from a model's log-probabilities, against the same computed by hand from
 * Model.score.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { benchTruth } from '../../bench/truth.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import type { BeliefPath } from '../../src/truth-seeking/beliefs/belief.js';
import {
  beliefPath,
  formsOf,
  readBeliefs,
  WORDINGS,
  type Wording,
} from '../../src/truth-seeking/beliefs/readout.js';
import { localReasoner } from '../../src/truth-seeking/local-reasoner.js';
import { asBranch, type Message, type Reasoner } from '../../src/truth-seeking/reasoner.js';
import { binaryProblem, swapped } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { trajectory, type Trajectory } from '../../src/truth-seeking/trajectory.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const PROBLEM = binaryProblem({
  question: 'Is 7 + 5 twelve (A) or eleven (B)?',
  options: ['A', 'B'],
  correctOption: 0,
});
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-readout-'));
const file = path.join(folder, 'model.gguf');
let model: Model;
let policy: Reasoner;

beforeAll(async () => {
  writeSyntheticModel(file, { architecture: 'qwen2', seed: 5n });
  model = await loadModel(file, { threads: 1, fixedThreads: true });
  policy = await localReasoner(model);
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const SYSTEM: Message = { role: 'system', content: 'Doubt all.' };
const USER: Message = { role: 'user', content: PROBLEM.question };

const withSteps = (
  steps: readonly string[],
  prompt: readonly Message[] = [USER],
  problemId = PROBLEM.id,
): Trajectory =>
  trajectory({
    problemId,
    policyId: policy.id,
    modeId: 'given',
    seed: '0',
    prompt,
    steps: steps.map((content) => ({ content, trainable: true })),
  });

/**
 * P(A) after the ids: a sequence at a time, each from its first token to its last, and plain sums
 * of probabilities.
 */
async function byHand(before: readonly number[], probe: string): Promise<number> {
  const mass = async (forms: readonly string[]): Promise<number> => {
    let sum = 0;
    for (const form of forms) {
      const [scores] = await model.score(
        [...before, ...model.tokenize(probe)],
        [model.tokenize(form)],
      );
      sum += Math.exp(scores!.reduce((a, b) => a + b, 0));
    }
    return sum;
  };
  const first = await mass(['A', ' A', 'a', ' a']);
  return first / (first + (await mass(['B', ' B', 'b', ' b'])));
}

const WORDS: Wording = (a, b) => `Now: ${a} or ${b}?`;

test('a belief is what the probabilities of all forms say after the same ids, both orders of the probe averaged', async () => {
  const read = await readBeliefs(policy, PROBLEM, withSteps(['Seven, then five.', 'Twelve.']), {
    wordings: [WORDS],
  });
  const ids = [...model.renderChat([USER]).tokenIds];
  const places = [ids, [...ids, ...model.tokenize('Seven, then five.\n\n')]];
  places.push([...places[1]!, ...model.tokenize('Twelve.\n\n')]);
  expect(read.readings).toHaveLength(3);
  for (const [i, place] of places.entries()) {
    const [inOrder, exchanged] = [
      await byHand(place, 'Now: A or B?'),
      await byHand(place, 'Now: B or A?'),
    ];
    // of random weights the order matters, or this shows nothing
    expect(Math.abs(inOrder - exchanged)).toBeGreaterThan(1e-4);
    expect(read.readings[i]!.belief).toEqual({
      p0: expect.closeTo((inOrder + exchanged) / 2, 5),
      source: 'logprob',
    });
  }
});

test('exchanged options are read as the other side of the same belief', async () => {
  const turned = swapped(PROBLEM);
  const read = await readBeliefs(policy, PROBLEM, withSteps(['Seven.']));
  const other = await readBeliefs(policy, turned, withSteps(['Seven.'], [USER], turned.id));
  for (const [i, { belief }] of read.readings.entries())
    expect(other.readings[i]!.belief!.p0).toBeCloseTo(1 - belief!.p0, 6);
});

test('the error of a belief is the spread over the wordings', async () => {
  const read = await readBeliefs(policy, PROBLEM, withSteps([]));
  const single = await Promise.all(
    WORDINGS.map((wording) => readBeliefs(policy, PROBLEM, withSteps([]), { wordings: [wording] })),
  );
  const values = single.map(({ readings }) => readings[0]!.belief!.p0);
  const mean = values.reduce((a, b) => a + b, 0) / 3;
  const error = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 2 / 3);
  expect(error).toBeGreaterThan(0);
  expect(read.readings[0]!.belief).toEqual({
    p0: expect.closeTo(mean, 6),
    error: expect.closeTo(error, 6),
    source: 'logprob',
  });
});

test('without the system message a belief is that of a trajectory that never had one', async () => {
  const asked = withSteps(['Seven.'], [SYSTEM, USER]);
  const [kept, dropped, never] = [
    await readBeliefs(policy, PROBLEM, asked),
    await readBeliefs(policy, PROBLEM, asked, { beliefSystem: 'drop' }),
    await readBeliefs(policy, PROBLEM, withSteps(['Seven.'])),
  ];
  expect(dropped.readings).toEqual(never.readings);
  expect(kept.readings).not.toEqual(never.readings);
  expect(dropped.trajectoryId).toBe(asked.id);
  expect([kept.tokens.reread, never.tokens.reread]).toEqual([0, 0]);
  // Dropping reads again all behind the place where its text is another.
  const [whole, without] = [[SYSTEM, USER], [USER]].map((messages) => [
    ...model.renderChat(messages).tokenIds,
    ...model.tokenize('Seven.\n\n'),
  ]);
  const same = without!.findIndex((id, i) => whole![i] !== id);
  expect(dropped.tokens).toEqual({
    prefix: without!.length,
    reread: without!.length - same,
    probes: kept.tokens.probes,
  });
});

test('all places of a trajectory are one call of the policy, with its text once', async () => {
  const calls: [prefix: number, places: number[]][] = [];
  const watched: Reasoner = {
    ...policy,
    score(prefix, targets, options) {
      calls.push([
        prefix.length,
        [...new Set(targets.map((target) => asBranch(target, prefix).at))],
      ]);
      return policy.score(prefix, targets, options);
    },
  };
  const read = await readBeliefs(watched, PROBLEM, withSteps(['Seven.', 'Then five.']));
  const first = model.renderChat([USER]).tokenIds.length;
  const second = first + model.tokenize('Seven.\n\n').length;
  const third = second + model.tokenize('Then five.\n\n').length;
  expect(calls).toEqual([[third, [first, second, third]]]);
  expect(read.tokens.prefix).toBe(third);
});

test.each([2, 8])('one thread and %i read the same', async (threads) => {
  await using other = await loadModel(file, { threads, fixedThreads: true });
  const asked = withSteps(['Seven.', 'Then five more.', 'Twelve.']);
  const several = await localReasoner(other);
  const paths = [
    await readBeliefs(policy, PROBLEM, asked),
    await readBeliefs(several, PROBLEM, asked),
  ].map(beliefPath) as BeliefPath[];
  expect(paths[0]!.beliefs).toHaveLength(4);
  for (const [i, belief] of paths[0]!.beliefs.entries())
    expect(Math.abs(paths[1]!.beliefs[i]! - belief)).toBeLessThan(1e-6);
  expect(several.id).not.toBe(policy.id); // the threads are part of who answered
});

test('another seed is another policy; the same policy says the same', async () => {
  const again = await localReasoner(model);
  expect(again.id).toBe(policy.id);
  expect((await localReasoner(model, { seed: 3n })).id).not.toBe(policy.id);
  const said = await policy.infer([USER], { seed: 4n, maxTokens: 5, temperature: 1 });
  expect(said.tokenIds.length).toBeGreaterThan(0);
  expect(await again.infer([USER], { seed: 4n, maxTokens: 5, temperature: 1 })).toEqual(said);
});

test('a policy without log-probabilities is an error, never a number', async () => {
  const mute = scriptedReasoner({ name: 'mute' });
  await expect(readBeliefs(mute, PROBLEM, withSteps([]))).rejects.toMatchObject({
    code: 'BACKEND_INCAPABLE',
  });
  await expect(mute.score([1], [[2]])).rejects.toMatchObject({ code: 'BACKEND_INCAPABLE' });
});

test('where nothing can be read there is a reason instead of a belief', async () => {
  const reasonOf = async (
    asked: Reasoner,
    options: [string, string] = ['Yes', 'No'],
    steps: string[] = [],
  ): Promise<unknown> => {
    const problem = binaryProblem({ question: 'Which?', options, correctOption: null });
    const read = await readBeliefs(asked, problem, withSteps(steps, [USER], problem.id));
    expect(read.readings).toHaveLength(steps.length + 1);
    return beliefPath(read);
  };
  expect(await reasonOf(policy, ['Yes', 'Yes, but'])).toBe('options begin alike');
  expect(await reasonOf(scriptedReasoner({ name: 'other', answers: () => ({ Perhaps: 1 }) }))).toBe(
    'no probability for either option',
  );
  expect(await reasonOf(policy, ['Yes', 'No'], ['on and on '.repeat(3000)])).toBe(
    'context overflow',
  );
  const long = await readBeliefs(
    policy,
    PROBLEM,
    withSteps(['Seven.', 'on and on '.repeat(3000), 'Twelve.']),
  );
  expect(long.readings.map(({ reason }) => reason)).toEqual([
    undefined,
    undefined,
    'context overflow',
    'context overflow',
  ]);
  expect(long.readings.slice(0, 2)).toEqual(
    (await readBeliefs(policy, PROBLEM, withSteps(['Seven.']))).readings,
  );
  const broken: Reasoner = {
    ...policy,
    score: () => Promise.reject(new Error('the cable is out')),
  };
  await expect(reasonOf(broken)).rejects.toThrow('the cable is out');
  await expect(
    readBeliefs(policy, PROBLEM, withSteps([], [USER], 'another')),
  ).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  await expect(readBeliefs(policy, PROBLEM, withSteps([]), { wordings: [] })).rejects.toMatchObject(
    { code: 'INVALID_ARGUMENT' },
  );
});

test('a form that both options may have belongs to the one that is given so', () => {
  const [country, pronoun] = formsOf(['US', 'us']);
  expect(country).toEqual(['US', ' US']);
  expect(pronoun).toEqual(['us', ' us']);
  expect(formsOf(['Yes', 'No'])[0]).toEqual(['Yes', ' Yes', 'yes', ' yes', 'YES', ' YES']);
});

test('the bench of readouts counts each text once, and each probe at each place', async () => {
  const measure = (readouts: number) =>
    benchTruth({ modelPath: file, problems: 2, tokens: 8, readouts, seed: 1n, threads: 1 });
  const [two, three] = [await measure(2), await measure(3)];
  const times = {
    seconds: expect.any(Number),
    processorSeconds: expect.any(Number),
    samplingSeconds: expect.any(Number),
  };
  expect(two).toMatchObject({ problems: 2, readouts: 4, ...times });
  expect(three.readouts).toBe(6);
  expect(three.probeTokens / two.probeTokens).toBeCloseTo(3 / 2, 1);
  expect(three.trajectoryTokens / two.trajectoryTokens).toBeLessThan(1.2);
  for (const each of [two.costOfReadouts, two.costOfReadoutsInProcessorTime, two.readoutsPerSecond])
    expect(each).toBeGreaterThan(0);
});
