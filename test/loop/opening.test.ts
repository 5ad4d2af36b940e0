/** What a run opens is closed again, whatever fails meanwhile; and what it cannot begin with. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Model } from '../../src/engine/model.js';
import { Trainer } from '../../src/engine/trainer.js';
import type { RunOptions, RunProgress } from '../../src/training/hooks.js';
import { OwnerLock } from '../../src/log/owner-lock.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { KeptReplies } from '../../src/training/reply-cache.js';
import { planRun, type RunPlan } from '../../src/training/dry-run.js';
import { openRun, type OpenRun } from '../../src/training/open-run.js';
import { VerifierThreads } from '../../src/tasks/verifier-threads.js';
import { run } from '../../src/training/loop.js';
import { resolveSettings, type RunSettingsInput } from '../../src/training/settings.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { logRecords, rolloutsOf } from '../models/log-records.js';
import { writeDecoder } from '../models/decoders.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-opening-'));
const file = (name: string): string => path.join(folder, name);
const input: RunSettingsInput = {
  task: file('single.mjs'),
  seed: '3',
  iterations: 2,
  signer: 'single-process',
  profile: 'downloaded',
  model: { name: file('letters.gguf'), threads: 1 },
  sampling: { rollouts: 32, samples: 4, maxTokens: 4 },
  optimiser: { stepsPerIteration: 2, batchSize: 8 },
  layers: { rank: 4, topLayers: 1 },
  evaluation: { devSize: 4, testSize: 4 },
};
const ofThreeTiers: RunSettingsInput = { ...input, task: file('letters.mjs') };
const opened = async (
  given: RunSettingsInput = input,
  options: RunOptions = { out: file('run') },
): Promise<OpenRun> => {
  const found = await openRun(resolveSettings(given), options);
  if ('result' in found) throw new Error('the run has ended');
  return found;
};

/** Threads that end, and say that they did not. */
function failingThreads(): void {
  const { dispose } = VerifierThreads.prototype;
  jest.spyOn(VerifierThreads.prototype, 'dispose').mockImplementationOnce(async function (
    this: VerifierThreads,
  ) {
    await dispose.call(this);
    throw new Error('the threads');
  });
}

beforeAll(() => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  writeLetterTask(file('single.mjs'), { members: ONE_TIER });
});
afterEach(() => void jest.restoreAllMocks());
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

test('what cannot be closed keeps nothing else open, and the first failure is told', async () => {
  const begun = await opened();
  const models = jest.spyOn(Model.prototype, 'dispose');
  failingThreads();
  jest.spyOn(begun.context.log, 'close').mockImplementationOnce(() => {
    throw new Error('the log');
  });
  await expect(begun.dispose()).rejects.toThrow('the log');
  expect(models).toHaveBeenCalledTimes(1);
  await (await opened()).dispose(); // nobody is at work on the folder any more
});

test('a model that answers but cannot be trained is refused before it is loaded', async () => {
  writeDecoder(file('decoder.gguf'), 'gpt2');
  const models = jest.spyOn(Model.prototype, 'dispose');
  const model = { ...input.model, name: file('decoder.gguf') };
  await expect(run({ ...input, model }, { out: file('decoder') })).rejects.toMatchObject({
    code: 'ARCH_UNSUPPORTED',
  });
  expect(models).not.toHaveBeenCalled();
  expect(existsSync(file('decoder'))).toBe(false);
});

test('a run that fails says so, whatever closing says', async () => {
  failingThreads();
  const onProgress = ({ stage }: RunProgress): void => {
    if (stage === 'before') throw new Error('the run');
  };
  await expect(run(input, { out: file('run'), onProgress })).rejects.toThrow('the run');
});

test('a trainer that cannot be taken back to its checkpoint is not left behind', async () => {
  const stopped = new AbortController();
  const out = file('trained');
  const running = run(ofThreeTiers, {
    out,
    signal: stopped.signal,
    onIteration: () => stopped.abort(),
  });
  await expect(running).rejects.toMatchObject({ code: 'ABORTED' });
  const disposals = jest.spyOn(Trainer.prototype, 'dispose');
  jest.spyOn(Trainer.prototype, 'setOptimiser').mockRejectedValueOnce(new Error('no memory'));
  await expect(opened(ofThreeTiers, { out })).rejects.toThrow('no memory');
  expect(disposals).toHaveBeenCalledTimes(1);
  const again = await opened(ofThreeTiers, { out });
  expect([again.stage, again.iteration]).toEqual(['iteration', 1]);
  // all that the iteration left, and what is kept of the time before it
  const { state, session, context } = again;
  expect(state).toMatchObject({
    layers: [2],
    batchSize: 8,
    epsilon: 1e-8,
    stop: null,
    settled: false,
    adapterIteration: 1,
  });
  expect(state.learner!.adapter!.id).toBe(state.adapterId);
  expect(state.sound).toMatchObject({ adapterId: state.adapterId, iteration: 1 });
  expect(state.best.verdicts.map(({ verdicts }) => verdicts.length)).toEqual([4, 4, 4]);
  expect(session.history.map(({ iteration }) => iteration)).toEqual([1]);
  const admitted = Object.values(state.buffer.composition()).reduce((a, b) => a + b, 0);
  const { spent } = state;
  const rollouts = rolloutsOf(logRecords(out));
  expect(admitted).toBe(rollouts.filter(({ admission }) => admission === 'admitted').length);
  for (const figure of Object.values(spent)) expect(figure).toBeGreaterThan(0);
  expect(context.kept).toBeDefined();
  await again.dispose();
  cpSync(out, file('lost'), { recursive: true });
  for (const suffix of ['', '-wal', '-shm'])
    rmSync(path.join(file('lost'), `log.sqlite${suffix}`), { force: true });
  await expect(opened(ofThreeTiers, { out: file('lost') })).rejects.toMatchObject({
    code: 'LOG_UNREADABLE',
    message: `${file('lost')} has checkpoints of a run, but no log with its records`,
  });
}, 120_000);

test('a run that has just begun has the state that its settings say', async () => {
  const given = {
    ...input,
    optimiser: { ...input.optimiser, learningRate: 0.003, maxNorm: 0.7 },
  };
  const { state, stage, iteration, dispose } = await opened(given, { out: file('fresh') });
  expect([stage, iteration, state.buffer.composition()]).toEqual(['begun', 0, {}]);
  const { buffer: _, ...rest } = state;
  expect(rest).toEqual({
    learner: null,
    layers: null,
    adapterId: null,
    adapterIteration: 0,
    best: { adapterId: null, iteration: 0, verdicts: [], snapshot: null },
    batchSize: 8,
    learningRate: 0.003,
    maxNorm: 0.7,
    epsilon: 1e-8,
    sound: null,
    executor: null,
    stop: null,
    settled: false,
    spent: { seconds: 0, peakRssBytes: 0, promptTokens: 0, sampledTokens: 0, trainedTokens: 0 },
  });
  await dispose();
});

test.each<[what: string, fail: () => unknown, kept: number]>([
  [
    'what the signer has signed',
    () => jest.spyOn(SingleProcessSigner.prototype, 'heads').mockRejectedValueOnce(new Error('no')),
    0,
  ],
  [
    'the back end',
    () =>
      jest.spyOn(KeptReplies.prototype, 'keeping').mockImplementationOnce(() => {
        throw new Error('no');
      }),
    1,
  ],
])('a run that fails at %s lets go of all that it has opened, once each', async (_, fail, kept) => {
  await (await opened(input, { out: file('failing') })).dispose();
  const closed = [
    jest.spyOn(Model.prototype, 'dispose'),
    jest.spyOn(VerifierThreads.prototype, 'dispose'),
    jest.spyOn(SingleProcessSigner.prototype, 'close'),
    jest.spyOn(OwnerLock.prototype, 'release'),
  ];
  const keeps = jest.spyOn(KeptReplies.prototype, 'keep');
  fail();
  await expect(opened(input, { out: file('failing') })).rejects.toThrow('no');
  expect(closed.map(({ mock }) => mock.calls.length)).toEqual([1, 1, 1, 1]);
  expect(keeps).toHaveBeenCalledTimes(kept);
  jest.restoreAllMocks();
  await (await opened(input, { out: file('failing') })).dispose();
});

test('references are trained on where the task knows some; a limit that is the caller’s own is told to be in vain', async () => {
  const references = { ...input, buffer: { accept: 'references' as const } };
  await expect(opened(references, { out: file('references') })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message:
      'buffer.accept: letters has no referenceReply, or has episodes of several turns, so there is nothing to train on',
  });
  const told = async (name: string, more: RunSettingsInput): Promise<string[]> => {
    const notices: string[] = [];
    const onNotice = (text: string): void => void notices.push(text);
    await (await opened({ ...input, ...more }, { out: file(name), onNotice })).dispose();
    return notices;
  };
  // the profile of a small model has a limit of its own
  expect(await told('small', { profile: 'small' })).toEqual([]);
  const evaluation = { ...input.evaluation, maxForgetting: 0.25 };
  expect(await told('limited', { evaluation })).toEqual([
    'evaluation.maxForgetting has no effect: forgetting is not measured for a model that knows no language',
  ]);
});

test('without a folder the newest unfinished run of the same settings is gone on with', async () => {
  const before = process.cwd();
  mkdirSync(file('cwd'));
  process.chdir(file('cwd'));
  try {
    const folderOf = async (seed = '3'): Promise<string> => {
      const { context, dispose } = await opened({ ...input, seed }, {});
      await dispose();
      expect(context.folder.endsWith(`${path.sep}${context.runId}`)).toBe(true);
      return context.folder;
    };
    const begun = await folderOf();
    expect(path.basename(begun)).toMatch(/^[0-9a-f]{32}$/);
    expect(path.dirname(begun)).toBe(path.resolve('runs'));
    // what is no run, and what cannot be read as one, is passed over
    mkdirSync(path.join('runs', 'none'));
    mkdirSync(path.join('runs', 'damaged'));
    writeFileSync(path.join('runs', 'damaged', 'manifest.json'), '{');
    expect(await folderOf()).toBe(begun);
    const other = await folderOf('4');
    expect(other).not.toBe(begun);
    expect([await folderOf(), await folderOf('4')]).toEqual([begun, other]);
    // the same settings twice: whichever began later
    cpSync(file('cwd/runs'), file('aside'), { recursive: true });
    rmSync(begun, { recursive: true });
    const second = await folderOf();
    cpSync(path.join(file('aside'), path.basename(begun)), begun, { recursive: true });
    const date = (folder: string, seconds: number): void =>
      utimesSync(path.join(folder, 'manifest.json'), seconds, seconds);
    date(begun, 1_000);
    date(second, 2_000);
    expect(await folderOf()).toBe(second);
    date(begun, 3_000);
    expect(await folderOf()).toBe(begun);
  } finally {
    process.chdir(before);
  }
});

test('a task whose problems are all kept for evaluation: the error says how many it needs', async () => {
  writeLetterTask(file('few.mjs'), { numbers: 100 });
  const running = run({ ...input, task: file('few.mjs') }, { out: file('few') });
  const message = expect.stringMatching(
    /more than 120 different problems, since the dev set takes 20 and the test set 100/,
  );
  await expect(running).rejects.toMatchObject({ code: 'TASK_INVALID', message });
  writeLetterTask(file('enough.mjs'), { numbers: 150 });
  const progress: RunProgress[] = [];
  await run(
    {
      ...input,
      task: file('enough.mjs'),
      iterations: 1,
      optimiser: { ...input.optimiser, learningRate: 0.005 },
    },
    { out: file('enough'), onProgress: (at) => progress.push(at) },
  );
  // what it tells of its stages: which iteration, and of how many units; dev is measured twice
  const told = progress.map(({ stage, iteration, total }) => `${stage} ${iteration} ${total}`);
  expect(told.filter((each, i) => each !== told[i - 1])).toEqual([
    'load 0 0',
    'before 0 12',
    'dev 0 12',
    'rollouts 1 32',
    'layers 1 0',
    'training 1 2',
    'dev 1 12',
    'after 1 12',
    'close 1 0',
  ]);
  const [first, second] = progress.filter(({ stage }) => stage === 'training');
  expect(second).toMatchObject({ iterations: 1, done: 2, loss: expect.any(Number) });
  expect(second!.tokens).toBeGreaterThan(first!.tokens);
  const rollouts = progress.filter(({ stage }) => stage === 'rollouts');
  expect(rollouts[0]).toMatchObject({ done: 0, tokens: 0, hits: {} });
  const { done, tokens } = rollouts.at(-1)!;
  expect(done).toBe(32);
  expect(tokens).toBeGreaterThan(32);
}, 120_000);

describe('what is to be known of a task is said before a model is trained on it, by a run and by its plan', () => {
  const told = async (
    task: string,
    members: string,
  ): Promise<{
    readonly run: string[];
    readonly plan: readonly string[];
    readonly whole: RunPlan;
  }> => {
    writeLetterTask(file(`${task}.mjs`), { members });
    const given: RunSettingsInput = { ...input, task: file(`${task}.mjs`), iterations: 1 };
    const notices: string[] = [];
    const stopped = new AbortController();
    const running = run(given, {
      out: file(task),
      signal: stopped.signal,
      onNotice: (text) => notices.push(text),
      onProgress: ({ stage, done }) => void (stage === 'rollouts' && done > 0 && stopped.abort()),
    });
    await expect(running).rejects.toMatchObject({ code: 'ABORTED' });
    const whole = await planRun(given);
    return { run: notices, plan: whole.warnings, whole };
  };

  /** Of one iteration of 32 rollouts and 2 steps of 8, three tiers of 4 dev and 4 test problems. */
  function expectFigures({ predicted, measured, calibration, ...plan }: RunPlan): void {
    const { tokensPerReply, sampledTokensPerSecond, trainedTokensPerSecond, seconds } = measured;
    // a letter and the end of the turn, of a limit of four
    expect(tokensPerReply).toBeGreaterThan(1);
    expect(tokensPerReply).toBeLessThan(4);
    // dev twice and test twice, beside the rollouts
    const sampled = Math.round((32 + 2 * 12 + 2 * 12) * tokensPerReply);
    expect(predicted.sampledTokens).toBe(sampled);
    // as a run counts them: without the prompts
    expect(predicted.trainedTokens).toBe(Math.round(2 * 8 * tokensPerReply));
    expect(predicted.processorSeconds).toBeGreaterThan(0);
    // the forward passes before and after the steps, of eight replies, by which their shift is told
    const passes = predicted.trainedTokens + 0.38 * 2 * 8 * tokensPerReply;
    expect(predicted.minutes).toBeCloseTo(
      sampled / sampledTokensPerSecond / 60 + passes / trainedTokensPerSecond / 60,
      9,
    );
    // 2 adapters of 4 bytes a parameter, 4 states of three such numbers, 12 bytes of log a token
    const numbers = plan.trainableParameters * (2 * 4 + 4 * 12) + 12 * sampled;
    expect(predicted.diskBytes).toBeGreaterThan(numbers);
    expect(predicted.diskBytes).toBeLessThan(numbers + 4 * 2 ** 14); // a state says what it is of
    const resident = process.resourceUsage().maxRSS * 1024;
    expect(predicted.memoryBytes).toBeGreaterThan(2 ** 20);
    expect(predicted.memoryBytes).toBeLessThan(resident + 16 * 64 * 2 ** 12);
    expect(seconds).toBeGreaterThan(4); // that long alone it trains
    expect(seconds).toBeLessThan(120);
    expect([plan.evaluations, plan.layers]).toEqual([{ dev: 12, test: 12 }, [2]]);
    expect([plan.settings.profile, plan.settings.model.threads]).toEqual(['downloaded', 1]);
    expect(plan.rules.map(({ rule }) => rule)).toContain('R3');
    // eight problems of each tier that trains, of four samples
    expect(calibration).toMatchObject({ problems: 8, samples: 4, seconds: 30 });
    expect(calibration!.tiers.map(({ tier, problems }) => [tier, problems])).toEqual([
      ['L0', 8],
      ['L1', 8],
    ]);
  }

  test('a verifier that passes everything', async () => {
    const { run, plan, whole } = await told(
      'anything',
      `  parse: (text) => ({ ok: true, answer: text }), verify: () => ({ kind: 'pass' }),\n`,
    );
    const expected = [
      expect.stringMatching(
        /^The verifier passes everything .*: the empty reply, nonsense and the repeated question all pass/,
      ),
    ];
    expect([run, plan]).toEqual([expected, expected]);
    expectFigures(whole);
  }, 120_000);

  test('a tier of which problems are too few', async () => {
    // L0 has no problem beyond the dev set's
    const { run, plan } = await told(
      'scarce',
      `  generate: (tier, seed) => ({ number: Number(seed % (tier === 'L0' ? 3n : 100000n)) }),\n`,
    );
    const expected = [
      'tier L0 has 3 dev problems instead of 4: its generator gave no further distinct problems',
      'tier L0 has no test problem and is missing from all results: its generator gave no further distinct problems ' +
        'outside the dev set of 20',
      'tier L0 is not trained on: the evaluation sets take 120 different problems of each tier, and it has no others',
    ];
    expect(run.filter((text) => !text.startsWith('tier '))).toEqual([
      'only 4 of 8 different problems could be drawn for an iteration; the task has few others. With 4 samples each, it has ' +
        '16 rollouts instead of 32',
    ]);
    expect(run.filter((text) => text.startsWith('tier '))).toEqual(expected);
    expect(plan).toEqual(expected);
  }, 120_000);
});
