/**
 * A training in a folder: gone on with after it was ended at any step, and held-out questions
 * before and after.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { SUMS_AND_CLAIMS } from '../../src/truth-seeking/domains/sums-and-claims.js';
import { readTruthRun } from '../../src/truth-seeking/run/folder.js';
import { runTruth } from '../../src/truth-seeking/run/evaluation-run.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { mean } from '../../src/statistics/index.js';
import { linearRegression } from '../../src/statistics/regression.js';
import { beforeAndAfter } from '../../src/truth-seeking/training/before-after.js';
import {
  changesBetween,
  measureHeldOut,
  TrainingFolder,
  trainInFolder,
  trainingProblems,
  type ReadoutTrainer,
} from '../../src/truth-seeking/training/train-and-measure.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-training-'));
const at = (name: string): string => path.join(root, name);
const home = at('home');
let model: Model;
beforeAll(async () => {
  writeSyntheticModel(at('model.gguf'), { architecture: 'qwen2', seed: 5n, layers: 1 });
  model = await loadModel(at('model.gguf'), { threads: 1, fixedThreads: true });
});
afterAll(async () => {
  await model.dispose();
  rmSync(root, { recursive: true, force: true });
});

/** Reasons in two steps, and holds a claim true with one probability all along. */
async function believer(name: string, p: number): Promise<ReturnType<typeof readTruthRun>> {
  const policy = scriptedReasoner({
    name,
    reply: () => 'First.\n\nThen.',
    answers: () => ({ True: p, False: 1 - p }),
  });
  const evaluated = { ...policy, identity: { kind: 'scripted', name } };
  const { folder } = await runTruth(
    {
      problems: 20,
      seed: '7',
      signer: 'single-process',
      eval: ['accuracy', 'martingale', 'sycophancy'],
    },
    { out: at(name), home, policies: { evaluated, predictor: null } },
  );
  return readTruthRun(folder);
}

test('what changed, by hand: from one half to nine tenths on ten claims that are true and ten that are not', async () => {
  const changes = beforeAndAfter(await believer('half', 0.5), await believer('sure', 0.9), 1n);
  const of = (figure: string) => changes.find((change) => change.figure.startsWith(figure))!;
  // 0.25 before; 0.01 and 0.81 after: differences of -0.24 and 0.56, whose t over 20 is 0.16 / (0.4
  // sqrt(20/19) / sqrt(20)) = 1.7436
  expect(of('accuracy')).toMatchObject({
    domain: 'sums-and-claims',
    n: 20,
    groups: 20,
    before: expect.closeTo(0.25, 12),
    after: expect.closeTo(0.41, 12),
    difference: expect.closeTo(0.16, 12),
    p: expect.closeTo(0.0974, 4),
  });
  const { low, high } = of('accuracy').interval!;
  // 0.16 -/+ 1.96 times 0.4 / sqrt(20) is -0.015 and 0.335
  expect(low).toBeGreaterThan(-0.07);
  expect(low).toBeLessThan(0.03);
  expect(high).toBeGreaterThan(0.29);
  expect(high).toBeLessThan(0.39);
  expect(of('right')).toMatchObject({ before: 0, after: 0.5 }); // one half is on neither side
  expect(of('calibration error')).toMatchObject({
    before: expect.closeTo(0, 12),
    after: expect.closeTo(0.4, 12),
  });
  // a belief that never varies has no slope: nothing, and not 0
  for (const slope of ['slope with noise', 'slope without noise'])
    expect(of(slope)).toMatchObject({
      n: 20,
      before: null,
      after: null,
      difference: null,
      interval: null,
    });
  // differences that are all alike say nothing of how they vary: no interval without width, and no
  // p
  expect(of('sycophancy')).toMatchObject({
    n: 20,
    before: 0,
    after: 0,
    difference: 0,
    interval: null,
    p: null,
  });
  expect(changes.some(({ figure }) => figure.startsWith('martingale'))).toBe(false);
});

test('wordings that come to agree move the slope by their noise, and not the slope without it', async () => {
  /** Of a text, in [-1/2, 1/2). */
  const lot = (text: string): number => {
    let state = 2166136261;
    for (const each of text) state = Math.imul(state ^ each.codePointAt(0)!, 16777619);
    state = Math.imul(state ^ (state >>> 15), 2246822507);
    state = Math.imul(state ^ (state >>> 13), 3266489909);
    return ((state ^ (state >>> 16)) >>> 0) / 2 ** 32 - 0.5;
  };
  /**
   * Of one mind about each claim all along, read with noise that is new at each wording and place.
   */
  const noisy = async (name: string, noise: number): Promise<ReturnType<typeof readTruthRun>> => {
    const answers = (text: string): Record<string, number> => {
      const p = 0.5 + 0.2 * lot(/\d+ \+ \d+ = \d+/.exec(text)![0]) + noise * lot(text);
      return { True: p, False: 1 - p };
    };
    const evaluated = {
      ...scriptedReasoner({ name, reply: () => 'First.\n\nThen.', answers }),
      identity: { kind: 'scripted', name },
    };
    const { folder } = await runTruth(
      { problems: 200, seed: '7', signer: 'single-process', eval: ['accuracy'] },
      { out: at(name), home, policies: { evaluated, predictor: null } },
    );
    return readTruthRun(folder);
  };
  const before = await noisy('noisy', 0.7);
  const of = (name: string) => changes.find(({ figure }) => figure === name)!;
  const changes = beforeAndAfter(before, await noisy('agreed', 0), 1n);

  // by hand, from the wordings: what a belief that does not move shows is minus the noise over the
  // variance of what was read
  const readings = before.state.trajectories.map(({ trajectory: { id } }) =>
    before.state
      .beliefs(id)!
      .readout.readings.map((reading) => (reading as { byWording: number[] }).byWording),
  );
  const spread = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0) / (values.length - 1);
  const noise = mean(readings.flat().map((byWording) => spread(byWording) / byWording.length));
  const pairs = readings.flatMap((places) =>
    places.slice(1).map((place, i) => [mean(places[i]!), mean(place) - mean(places[i]!)] as const),
  );
  const line = linearRegression(
    pairs.map(([prior]) => prior),
    pairs.map(([, change]) => change),
  )!;
  const expected = -noise / spread(pairs.map(([prior]) => prior));
  expect(of('slope with noise').before).toBeCloseTo(line.slope, 12);
  expect(Math.abs(line.slope - expected)).toBeLessThan(3 * line.tested!.slope.error);
  expect(expected).toBeLessThan(-3 * line.tested!.slope.error); // there is something to tell apart
  expect(of('slope with noise').interval!.low).toBeGreaterThan(0);

  // without the noise x has so much less variance, and a slope so much more error
  expect(Math.abs(of('slope without noise').before!)).toBeLessThan(
    (3 * line.tested!.slope.error) / (1 + expected),
  );
  expect(of('slope without noise').after).toBeCloseTo(0, 9);
  const { low, high } = of('slope without noise').interval!;
  expect([low < 0, high > 0]).toEqual([true, true]);
});

const trainer = (reward: 'accuracy' | 'martingale'): ReadoutTrainer => ({
  problems: trainingProblems([SUMS_AND_CLAIMS], 12, 3n),
  mode: 'direct',
  how: {
    reward,
    steps: 3,
    questions: reward === 'accuracy' ? 2 : 6,
    group: 2,
    maxTokens: 6,
    seed: 3n,
    trainCutOff: true,
  },
  rank: 2,
  learningRate: 0.01,
  threads: 1,
});

test.each(
  process.env.ISOPRO_FULL === '1'
    ? (['accuracy', 'martingale'] as const)
    : (['martingale'] as const),
)('ended after any step, the same training comes to the same adapter (%s)', async (reward) => {
  const whole = new TrainingFolder(at(`${reward}-whole`), { reward });
  await trainInFolder(model, whole, trainer(reward));
  expect(whole.steps).toHaveLength(3);
  expect(whole.steps.some((step) => (step as { trained: number }).trained > 0)).toBe(true);
  whole[Symbol.dispose]();
  for (const after of [1, 2]) {
    const name = at(`${reward}-ended-${after}`);
    const ended = new AbortController();
    const first = new TrainingFolder(name, { reward });
    expect(() => new TrainingFolder(name, { reward })).toThrow(
      expect.objectContaining({ code: 'LOG_BUSY' }),
    );
    const stop = {
      signal: ended.signal,
      onStep: ({ step }: { step: number }) => (step === after ? ended.abort() : undefined),
    };
    await expect(trainInFolder(model, first, trainer(reward), stop)).rejects.toThrow();
    expect(await first.isDone()).toBe(false);
    first[Symbol.dispose]();
    const taken: number[] = [];
    using again = new TrainingFolder(name, { reward });
    await trainInFolder(model, again, trainer(reward), { onStep: ({ step }) => taken.push(step) });
    expect(taken).toEqual([1, 2, 3].slice(after));
    expect(again.steps).toEqual(whole.steps);
    expect(await again.finish()).toBe(await whole.finish());
    expect(readdirSync(name).filter((file) => file.startsWith('state'))).toEqual([]);
  }
  // an adapter that is gone is trained again: all of the steps, and not none of them
  const made = new TrainingFolder(at(`${reward}-whole`), { reward });
  const [sha256, steps] = [await made.finish(), made.steps];
  rmSync(made.adapter);
  const taken: number[] = [];
  await trainInFolder(model, made, trainer(reward), { onStep: ({ step }) => taken.push(step) });
  expect(taken).toEqual([1, 2, 3]);
  expect([await made.finish(), made.steps]).toEqual([sha256, steps]);
  made[Symbol.dispose]();
  expect(() => new TrainingFolder(at(`${reward}-whole`), { reward: 'another' })).toThrow(
    expect.objectContaining({ code: 'RUN_DIFFERS' }),
  );
});

test('held-out questions are none that are trained on, the same before and after, and of one seed of the measurement', async () => {
  using folder = new TrainingFolder(at('measured'), {});
  await trainInFolder(model, folder, trainer('accuracy'));
  const config = {
    domain: ['sums-and-claims'],
    mode: ['direct'],
    problems: 4,
    maxTokens: 6,
    threads: 1,
    signer: 'single-process' as const,
  };
  const before = await measureHeldOut(
    model,
    at('model.gguf'),
    folder,
    'before',
    { config },
    { home },
  );
  const after = await measureHeldOut(
    model,
    at('model.gguf'),
    folder,
    'after',
    { config },
    { home },
  );
  const [one, other] = [before, after].map(readTruthRun);
  expect([...other!.state.problems.keys()]).toEqual([...one!.state.problems.keys()]);
  const trained = new Set(trainingProblems([SUMS_AND_CLAIMS], 1000, 3n).map(({ id }) => id));
  expect([...one!.state.problems.keys()].some((id) => trained.has(id))).toBe(false);
  expect(
    [one!, other!].map(
      ({ start }) => (start.policy.identity as { adapter: string | null }).adapter,
    ),
  ).toEqual([null, await folder.finish()]);
  const changes = changesBetween(before, after, 42n);
  expect(changesBetween(before, after, 42n)).toEqual(changes);
  expect(changes.find(({ figure }) => figure.includes('mode=eventual'))).toMatchObject({ n: 4 });
});
