/**
 * On-policy distillation: the divergence and its gradient, the teacher's reading of a reply, what
 * is refused, and a whole run.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  advantagesOf,
  centred,
  distill,
  margins,
  pressureOf,
  sampledDivergence,
} from '../../src/algorithms/distill.js';
import { hashFile } from '../../src/engine/adapter.js';
import {
  createTrainer,
  loadModel,
  openTask,
  resolveSettings,
  run,
  type Model,
  type Trainer,
} from '../../src/index.js';
import { judgeRun } from '../../src/judge/judge.js';
import { LogReader } from '../../src/log/read.js';
import { exchange } from '../../src/rollouts/episode.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { readRun } from '../../src/run-folder/read-run.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { TeacherModel } from '../../src/training/teacher.js';
import {
  shortestRun,
  writeLetterModel,
  writeLetterTask,
  writeLetterTeacher,
} from '../models/letters.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-distill-'));
const file = (name: string): string => path.join(folder, name);

beforeAll(async () => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  await writeLetterTeacher(file('teacher.gguf'), file('letters.gguf'));
}, 240_000);
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

const mappings = (of: string): number =>
  readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .filter((line) => line.endsWith(of)).length;

const settings = (teacher: string) => {
  const short = shortestRun(file('letters.mjs'), file('letters.gguf'));
  return {
    ...short,
    iterations: 2,
    sampling: { rollouts: 96, samples: 4, maxTokens: 4, temperature: 1 },
    optimiser: { stepsPerIteration: 12, batchSize: 8, learningRate: 0.01, warmupSteps: 2 },
    layers: { rank: 4, topLayers: 2 },
    evaluation: { devSize: 5, testSize: 5 },
    algorithm: { id: 'distill' as const, teacher: file(teacher) },
  };
};

describe('A6: the divergence', () => {
  test('is the mean of -margin under the student: 0.5108256 for [.5, .5] against [.9, .1], and not the forward 0.3680642', () => {
    const [student, teacher] = [Float32Array.of(0.5, 0.5), Float32Array.of(0.9, 0.1)];
    const margin = margins(student.map(Math.log), teacher.map(Math.log));
    const mean = (weights: Float32Array) =>
      weights.reduce((sum, weight, v) => sum - weight * margin[v]!, 0);
    expect(mean(student)).toBeCloseTo(0.5108256, 6);
    expect(-mean(teacher)).toBeCloseTo(0.3680642, 6);
    // half of the samples are either token
    expect(sampledDivergence([margin.slice(0, 1), margin.slice(1)])).toBeCloseTo(0.5108256, 6);
  });

  test('has a baseline by place: what is left of the margins has mean 0 there, and replies of other lengths do not mix', () => {
    const rows = centred([Float32Array.of(-1, 2), Float32Array.of(-3, 4), Float32Array.of(-8)]);
    expect(rows.map((row) => [...row])).toEqual([[3, -1], [1, 1], [-4]]);
    expect(centred([])).toEqual([]);
  });

  test('of nothing is 0', () => {
    expect([sampledDivergence([]), sampledDivergence([new Float32Array(0)])]).toEqual([0, 0]);
    for (const pressure of ['reverse-kl', 'positive', 'absolute'] as const)
      expect([pressureOf([], pressure), pressureOf([new Float32Array(2)], pressure) + 0]).toEqual([
        0, 0,
      ]);
    expect([...advantagesOf([Float32Array.of(-1, -2)], 'positive')[0]!]).toEqual([0, 0]);
  });

  test('as pressure on single tokens: the mean over those that the teacher likes better, or all that differ, each pulled alike', () => {
    const rows = [Float32Array.of(2, -1, 0), Float32Array.of(-3)];
    expect(pressureOf(rows, 'reverse-kl')).toBe(0.5);
    expect(pressureOf(rows, 'positive')).toBe(2);
    expect(pressureOf(rows, 'absolute')).toBe(2);
    expect(advantagesOf(rows, 'reverse-kl')).toEqual(centred(rows));
    // the slope of the mean over what counts: 1 over its number, where the trainer divides by all 4
    // tokens
    expect(advantagesOf(rows, 'positive').map((row) => [...row])).toEqual([[4, 0, 0], [0]]);
    const third = Math.fround(4 / 3);
    expect(advantagesOf(rows, 'absolute').map((row) => [...row])).toEqual([
      [third, -third, 0],
      [-third],
    ]);
  });

  test('falls along a step as its gradient says: its slope, exact over the vocabulary, is the squared norm of the gradient', async () => {
    writeSyntheticModel(file('small.gguf'), { architecture: 'qwen2', layers: 2 });
    writeSyntheticModel(file('other.gguf'), { architecture: 'qwen2', layers: 2, seed: 9n });
    // a step of Adam with an epsilon beyond every gradient is one of plain descent, by learningRate
    // / epsilon
    const EPSILON = 1000;
    const optimiser = { learningRate: 10, beta1: 0, beta2: 0, epsilon: EPSILON, maxNorm: 0 };
    const open = (name: string): Promise<Trainer> =>
      createTrainer({ path: file(name) }, { lora: { rank: 2 }, optimiser, threads: 1, seed: 2n });
    await using student = await open('small.gguf');
    await using other = await open('other.gguf');
    const prompt = [5, 9, 7];
    const every = Array.from({ length: student.info.vocabulary }, (_, token) => ({
      tokenIds: Int32Array.from([...prompt, token]),
      labelMask: Uint8Array.of(0, 0, 0, 1),
    }));
    const logprobsOf = async (trainer: Trainer): Promise<Float32Array> =>
      Float32Array.from((await trainer.evaluate(every)).sequences, ({ logprobs }) => logprobs[3]!);
    // away from where the gradient of A is zero
    for (let i = 0; i < 6; i++) await student.step([every[3]!]);
    const taught = await logprobsOf(other);
    const exact = (own: Float32Array): number =>
      own.reduce((sum, value, v) => sum + Math.exp(value) * (value - taught[v]!), 0);
    const own = await logprobsOf(student);
    // each token as often as the student says it
    const margin = margins(own, taught);
    const batch = every.map((sequence, v) => ({
      ...sequence,
      weight: every.length * Math.exp(own[v]!),
      advantages: Float32Array.of(0, 0, 0, margin[v]!),
      oldLogprobs: Float32Array.of(0, 0, 0, own[v]!),
    }));
    const before = exact(own);
    expect(before).toBeGreaterThan(0.01);
    const start = await student.snapshot();
    const slopes: number[] = [];
    let squared = 0;
    for (const learningRate of [10, 5]) {
      await student.rollbackTo(start);
      await student.setOptimiser({ learningRate, maxNorm: 0 });
      const { gradNorm } = await student.step(batch, { objective: { kind: 'policy' } });
      squared = gradNorm ** 2;
      slopes.push((exact(await logprobsOf(student)) - before) / (learningRate / EPSILON));
    }
    expect(squared).toBeGreaterThan(1e-3);
    // the second order of the step taken out
    expect((2 * slopes[1]! - slopes[0]!) / -squared).toBeCloseTo(1, 1);
  });
});

test('the teacher reads the very tokens that were said: as llama.cpp scores them after the teacher’s own prompt', async () => {
  await using student = await loadModel(file('letters.gguf'), { threads: 1 });
  await using task = await openTask(file('letters.mjs'));
  const teacher = (await TeacherModel.open(
    resolveSettings(settings('teacher.gguf')),
    student,
    task,
  ))!;
  try {
    await using scoring: Model = await loadModel(file('teacher.gguf'), { threads: 1 });
    const problem = await task.generate('L0', 7n);
    const { tokenIds: asked } = student.renderChat(await task.prompt(problem, 'cot'));
    const said = ['c', 'f'].map((text) =>
      Int32Array.of(...student.tokenize(text), student.info.eot),
    );
    const samples = said.map((ids) => ({
      key: '',
      problem,
      episode: exchange(asked, ids),
      rollout: null as never,
    }));
    const scored = await scoring.score(asked, said);
    for (const [i, row] of (await teacher.logprobs(samples, { temperature: 1 })).entries()) {
      expect(row).toHaveLength(2); // the letter, and the end of the turn
      for (const [t, value] of row.entries()) expect(value).toBeCloseTo(scored[i]![t]!, 1);
    }
    const [cold] = await teacher.logprobs(samples, { temperature: 0.5 });
    expect(cold![0]!).toBeGreaterThan(
      (await teacher.logprobs(samples, { temperature: 1 }))[0]![0]!,
    );
  } finally {
    await teacher.dispose();
  }
});

test('a teacher that is disposed of has nothing left; the student’s own file as teacher leaves the student be', async () => {
  await using student = await loadModel(file('letters.gguf'), { threads: 1 });
  await using task = await openTask(file('letters.mjs'));
  const problem = await task.generate('L0', 7n);
  const { tokenIds: asked } = student.renderChat(await task.prompt(problem, 'cot'));
  const samples = [
    {
      key: '',
      problem,
      episode: exchange(asked, Int32Array.of(student.info.eot)),
      rollout: null as never,
    },
  ];
  const own = (await TeacherModel.open(resolveSettings(settings('letters.gguf')), student, task))!;
  expect(await own.logprobs(samples, { temperature: 1 })).toHaveLength(1);
  await own.dispose();
  await expect(own.logprobs(samples, { temperature: 1 })).rejects.toMatchObject({
    code: 'OBJECT_DISPOSED',
  });
  expect(student.renderChat(await task.prompt(problem, 'cot')).tokenIds).toEqual(asked);
});

describe('a run', () => {
  test('brings the student to what the teacher does, the judge follows, and the teacher’s file is as it was', async () => {
    const teacherSha256 = await hashFile(file('teacher.gguf'));
    const result = await run(settings('teacher.gguf'), { out: file('run') });
    const { byTier } = result.test.after;
    expect(byTier.L0!.mean! - result.test.before.byTier.L0!.mean!).toBeGreaterThan(0.5);
    const { iterations, rolloutCount, rollouts } = readRun(result.folder);
    expect(iterations[1]!.loss!).toBeLessThan(iterations[0]!.loss!);
    expect(result.accepted).toBe(
      [...rollouts.values()]
        .flatMap((tiers) => [...tiers.values()])
        .reduce((sum, of) => sum + of.admitted, 0),
    );
    expect(rolloutCount).toBe(192);
    const { settings: written } = readManifest(result.folder).start;
    expect(written.algorithm).toMatchObject({
      id: 'distill',
      teacher: 'teacher.gguf',
      teacherSha256,
    });
    expect(await hashFile(file('teacher.gguf'))).toBe(teacherSha256);
    const reader = new LogReader(runPaths(result.folder).log, RUN_STREAMS);
    const records = [...reader.records()].map(({ payload }) => payload);
    reader.close();
    expect(records.filter(({ kind }) => kind === 'teacher')).toMatchObject([
      { model: teacherSha256, outcomes: { length: 15 } },
    ]);
    for (const { finish, admission } of records.filter(({ kind }) => kind === 'rollout'))
      expect(admission).toBe(finish === 'stop' ? 'distilled' : 'incomplete');
    const { verdict, failure } = await judgeRun({
      folder: result.folder,
      model: file('letters.gguf'),
      task: file('letters.mjs'),
    });
    expect([verdict, failure]).toEqual(['pass', null]);
  }, 240_000);

  test('A6: is refused where the teacher is no better, or says other tokens', async () => {
    copyFileSync(file('letters.gguf'), file('same.gguf'));
    await expect(run(settings('same.gguf'), { out: file('same') })).rejects.toMatchObject({
      code: 'TEACHER_NO_BETTER',
      message: expect.stringMatching(
        /^the teacher reaches (\d+\.\d) % on the \d+ dev problems and the student \1 %; --headroom requires \d+\.\d % more$/,
      ),
    });
    writeSyntheticModel(file('foreign.gguf'), {
      architecture: 'qwen2',
      vocabularySize: 512,
    } as never);
    await expect(run(settings('foreign.gguf'), { out: file('foreign') })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(
        /^algorithm\.teacher: the teacher has 512 tokens and the student \d+, so they cannot be compared$/,
      ),
    });
  }, 240_000);

  test('that learns from its own file, with solved examples, loads it once', async () => {
    await using student = await loadModel(file('letters.gguf'), { threads: 1 });
    await using task = await openTask(file('letters.mjs'));
    const before = process.platform === 'linux' ? mappings(student.path) : 0;
    const own = (await TeacherModel.open(
      resolveSettings(settings('letters.gguf')),
      student,
      task,
    ))!;
    expect(await own.hash()).toBe(await student.hash());
    if (process.platform === 'linux') expect(mappings(student.path)).toBe(before);
    await own.dispose();
    // the student's model is still there
    expect((await student.score(student.tokenize('a'), [student.tokenize('c')]))[0]).toHaveLength(
      1,
    );
  });

  test('needs a teacher, the whole distribution and all verdicts', () => {
    expect(
      distill.startsAnew({
        algorithm: { id: 'distill' },
        buffer: { kind: 'balanced', accept: 'passing' },
      }),
    ).toBe(false);
    const wrong = {
      ...settings('teacher.gguf'),
      sampling: { topP: 0.9 },
      buffer: { accept: 'failing' },
      algorithm: { id: 'distill' },
    } as const;
    expect(() => resolveSettings(wrong)).toThrow(
      /algorithm\.teacher: .*sampling\.topP: .*buffer\.accept: /s,
    );
    expect(() => resolveSettings({ algorithm: { teacher: 'x' } })).toThrow(
      'algorithm.teacher: a setting of distill',
    );
  });
});
