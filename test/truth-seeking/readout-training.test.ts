/** Training on what is read of a model, and the task as the loop opens it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { openTask } from '../../src/tasks/open-task.js';
import { readBeliefs } from '../../src/truth-seeking/beliefs/readout.js';
import { deriveSeed } from '../../src/random.js';
import { localReasoner } from '../../src/truth-seeking/local-reasoner.js';
import type { TokenIds } from '../../src/engine/generate-request.js';
import type { Reasoner } from '../../src/truth-seeking/reasoner.js';
import { opening } from '../../src/truth-seeking/modes/asking.js';
import { REASONING_MODES } from '../../src/truth-seeking/modes/mode.js';
import { binaryProblem } from '../../src/truth-seeking/problem.js';
import { trajectory } from '../../src/truth-seeking/trajectory.js';
import { BELIEF_TASK } from '../../src/truth-seeking/training/belief-task-file.js';
import {
  trainOnReadout,
  type ReadoutStep,
} from '../../src/truth-seeking/training/readout-training.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-readout-training-'));
const PROBLEM = binaryProblem({ question: 'A or B?', options: ['A', 'B'], correctOption: 0 });
const MODE = REASONING_MODES.parse('direct');
let model: Model;

beforeAll(async () => {
  const file = path.join(folder, 'model.gguf');
  writeSyntheticModel(file, { architecture: 'qwen2', seed: 5n });
  model = await loadModel(file, { threads: 1, fixedThreads: true });
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const HOW = {
  steps: 2,
  questions: 1,
  group: 2,
  maxTokens: 6,
  seed: 3n,
  trainCutOff: true,
} as const;

async function trained(
  name: string,
): Promise<{ readonly steps: ReadoutStep[]; readonly sha256: string }> {
  await using trainer = await createTrainer(model, {
    seed: 1n,
    threads: 1,
    lora: { rank: 2 },
    optimiser: { learningRate: 0.01 },
  });
  const steps: ReadoutStep[] = [];
  for await (const step of trainOnReadout(model, trainer, [PROBLEM], MODE, HOW)) steps.push(step);
  return { steps, sha256: await trainer.exportAdapter(path.join(folder, name)) };
}

test('the same seed trains the same adapter; the first reward is that of the base model’s own beliefs', async () => {
  const [once, again] = [await trained('a.gguf'), await trained('b.gguf')];
  expect(again.steps).toEqual(once.steps);
  expect(once.steps).toHaveLength(2);
  for (const { replies, failed, reward } of once.steps) {
    expect(replies).toBe(2);
    expect(failed).toEqual({});
    expect(reward).toBeGreaterThan(0);
    expect(reward).toBeLessThan(1);
  }
  expect(once.steps.some(({ trained: replies }) => replies > 0)).toBe(true);
  // the first step's replies, asked for and read again without a trainer
  const policy = await localReasoner(model);
  const replies = await repliesOf(policy);
  expect(once.steps[0]!.reward).toBeCloseTo(
    replies.reduce((sum, { reward }) => sum + reward, 0) / HOW.group,
    6,
  );
});

/** What the first step samples, with its rewards by hand. */
async function repliesOf(
  policy: Reasoner,
): Promise<{ readonly tokenIds: TokenIds; readonly reward: number }[]> {
  const prompt = opening(PROBLEM, MODE, null);
  const replies = [];
  for (let sample = 0; sample < HOW.group; sample++) {
    const seed = deriveSeed({
      runSeed: HOW.seed,
      purpose: 'readout training',
      iteration: 1,
      problemId: PROBLEM.id,
      sample,
    });
    const { text, tokenIds } = await policy.infer(prompt, {
      seed,
      maxTokens: HOW.maxTokens,
      temperature: 1,
    });
    const steps = [{ content: text, trainable: true }];
    const said = trajectory({
      problemId: PROBLEM.id,
      policyId: policy.id,
      modeId: 'direct',
      seed: '0',
      prompt,
      steps,
    });
    const { readings } = await readBeliefs(policy, PROBLEM, said);
    replies.push({ tokenIds, reward: 1 - (1 - readings.at(-1)!.belief!.p0) ** 2 });
  }
  return replies;
}

test('a step makes the reply with the better belief likelier beside the other', async () => {
  const base = await localReasoner(model);
  const [first, second] = (await repliesOf(base)) as [
    { tokenIds: TokenIds; reward: number },
    { tokenIds: TokenIds; reward: number },
  ];
  expect(Math.abs(first.reward - second.reward)).toBeGreaterThan(1e-4);
  await using trainer = await createTrainer(model, {
    seed: 1n,
    threads: 1,
    lora: { rank: 2 },
    optimiser: { learningRate: 0.01 },
  });
  for await (const _ of trainOnReadout(model, trainer, [PROBLEM], MODE, { ...HOW, steps: 1 }));
  const trained = await localReasoner(model, { adapter: await trainer.applyTo(model) });
  const ahead = async (policy: Reasoner): Promise<number> => {
    const scores = await policy.score(policy.promptIds(opening(PROBLEM, MODE, null)), [
      first.tokenIds,
      second.tokenIds,
    ]);
    const [one, other] = scores.map((each) => each.reduce((a, b) => a + b, 0)) as [number, number];
    return one - other;
  };
  const gained = (await ahead(trained)) - (await ahead(base));
  expect(Math.sign(gained)).toBe(Math.sign(first.reward - second.reward));
});

test('a question without an answer earns nothing, and is refused', async () => {
  await using trainer = await createTrainer(model, { seed: 1n, threads: 1, lora: { rank: 2 } });
  const open = binaryProblem({ question: 'A or B?', options: ['A', 'B'], correctOption: null });
  await expect(trainOnReadout(model, trainer, [open], MODE, HOW).next()).rejects.toMatchObject({
    code: 'PROBLEM_INVALID',
  });
});

test('the task opens by its path, judges beliefs and lets no exploit pass', async () => {
  await using task = await openTask(BELIEF_TASK);
  expect(task).toMatchObject({
    id: 'beliefs',
    policies: ['one half', 'always the first', 'always the second'],
  });
  const problem = await task.generate('sums-and-claims', 1n);
  const { correctOption } = problem as unknown as { correctOption: number };
  const { verdict } = await task.judge(
    problem,
    `\\finalBeliefProb{${correctOption === 0 ? 1 : 0}}`,
    'stop',
  );
  expect(verdict).toMatchObject({ kind: 'pass', score: 1 });
  expect((await task.applyPolicy('one half', problem)).score).toBe(0.75);
  for (const { text, finish, problem: of } of task.exploits.slice(0, 5))
    expect((await task.judge(of, text, finish)).verdict.kind).toBe('fail');
});
