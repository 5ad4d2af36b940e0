/**
 * Controls: runs that train on something else than verified successes, each held to it by log and
 * judge; and ablations of them.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { openTask, run, type OpenTask } from '../../src/index.js';
import { ablationText } from '../../src/cli/run/ablate-table.js';
import { ablate } from '../../src/operations/ablation.js';
import { checkFigures } from '../../src/judge/figures.js';
import { judgeRun } from '../../src/judge/judge.js';
import { ReplyReader } from '../../src/judge/replies.js';
import { checkIds, verifyRollouts } from '../../src/judge/rollouts.js';
import type { LogReader, LogRecord } from '../../src/log/read.js';
import { readManifest, type RunStart } from '../../src/run-folder/manifest.js';
import type {
  ProblemRecord,
  ReferenceRecord,
  RolloutRecord,
} from '../../src/run-folder/rollout-records.js';
import type { RunResult } from '../../src/training/result.js';
import { logRecords, payloadsOf } from '../models/log-records.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-controls-'));
const file = (name: string): string => path.join(folder, name);
process.env.ISOPRO_HOME = file('home');
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

const SETTINGS = {
  task: file('letters.mjs'),
  seed: '1',
  iterations: 3,
  signer: 'single-process',
  profile: 'downloaded',
  model: { name: file('letters.gguf'), threads: 1 },
  sampling: { rollouts: 32, samples: 4, maxTokens: 4 },
  optimiser: { stepsPerIteration: 8, batchSize: 8, learningRate: 0.005, warmupSteps: 2 },
  layers: { rank: 4, topLayers: 2 },
  evaluation: { devSize: 5, testSize: 20 },
  monitor: { patience: 9 },
} as const;
/** What a run and its judge ask of each tier is most of what they take. */
const TIER = "  tiers: [{ id: 'L0' }],\n";
const REFERENCES = { ...SETTINGS, buffer: { accept: 'references' } } as const;

beforeAll(() => {
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { members: `${TIER}  referenceReply: () => 'c',\n` });
});

const recordsOf = (name: string): LogRecord[] => logRecords(file(name));

describe('references: an upper line', () => {
  let result: RunResult;
  let records: LogRecord[];
  let model: Model;
  let task: OpenTask;
  beforeAll(async () => {
    result = await run(REFERENCES, { out: file('references') });
    records = recordsOf('references');
    model = await loadModel(file('letters.gguf'), { threads: 1 });
    task = await openTask(file('letters.mjs'));
  }, 300_000);
  afterAll(async () => {
    await task.dispose();
    await model.dispose();
  });

  test('one to each problem that was sampled, and nothing else is trained on: the model gives these replies afterwards', () => {
    const references = payloadsOf<ReferenceRecord>(records, 'reference');
    const problems = payloadsOf<ProblemRecord>(records, 'problem');
    expect(problems).toHaveLength(24);
    expect(references.map(({ problemId, tier, text }) => [problemId, tier, text])).toEqual(
      problems.map(({ problemId, tier }) => [problemId, tier, 'c']),
    );
    expect(
      payloadsOf<RolloutRecord>(records, 'rollout').filter(
        ({ admission }) => admission === 'admitted',
      ),
    ).toEqual([]);
    expect(result.accepted).toBe(24);
    // a trace is used four times an iteration
    expect(result.iterations.map(({ steps }) => steps)).toEqual([4, 8, 8]);
    expect(result.test.after.byTier.L0!.mean).toBe(1);
    // of what was sampled, which the references are no part of
    expect(result.iterations[0]!.hitRate).toBeLessThan(0.6);
  });

  test('are judged as such: tokens and verdict of each are found again', async () => {
    const { verdict, steps } = await judgeRun({
      folder: file('references'),
      model: file('letters.gguf'),
      task: file('letters.mjs'),
    });
    expect([
      verdict,
      steps.filter(({ step, status }) => [12, 13].includes(step) && status === 'pass').length,
    ]).toEqual(['pass', 2]);
  }, 120_000);

  const readerOf = (changed: readonly LogRecord[]): LogReader =>
    ({
      records: ({ stream }: { stream?: string } = {}) =>
        changed.filter((record) => stream === undefined || record.stream === stream),
    }) as unknown as LogReader;
  const start = (): RunStart => readManifest(file('references')).start;
  const replies = (): ReplyReader => new ReplyReader(model, start().evaluation.maxTokens);
  const verify = async (changed: readonly LogRecord[]): Promise<unknown> => {
    const figures = await checkFigures(readerOf(changed), start().settings);
    await checkIds(readerOf(changed), figures, replies());
    return verifyRollouts({
      reader: readerOf(changed),
      start: start(),
      task,
      model,
      replies: replies(),
      figures: { ...figures, policies: null },
    });
  };
  const at = (): number => records.findIndex(({ payload }) => payload.kind === 'reference');
  const withFirst = (change: object): LogRecord[] =>
    records.map((record, i) =>
      i === at() ? { ...record, payload: { ...record.payload, ...change } as never } : record,
    );
  const tokensOf = (text: string): number[] => [...model.tokenize(text), model.info.eot];

  test('as they stand they are verified', async () => {
    expect(await verify(records)).toMatchObject({ undecided: 0, unverified: 0 });
  });

  test.each<[string, () => LogRecord[], RegExp]>([
    [
      'a reply that fails',
      () => withFirst({ text: 'h', tokenIds: tokensOf('h') }),
      /the verifier says fail/,
    ],
    [
      'other tokens than those of its text',
      () => withFirst({ tokenIds: tokensOf('h') }),
      /do not match its text/,
    ],
    [
      'one without its end',
      () => withFirst({ tokenIds: tokensOf('c').slice(0, -1) }),
      /do not match its text/,
    ],
    [
      'one of another problem',
      () => withFirst({ problemId: 'f'.repeat(64) }),
      /does not follow the samples of its problem/,
    ],
    [
      'one of another iteration',
      () => withFirst({ iteration: 2 }),
      /does not follow the samples of its problem/,
    ],
    [
      'two to one problem',
      () => records.toSpliced(at(), 0, records[at()]!),
      /does not follow the samples of its problem/,
    ],
    [
      'one before the samples of its problem',
      () => records.toSpliced(at(), 1).toSpliced(at() - 4, 0, records[at()]!),
      /does not follow the samples of its problem/,
    ],
    [
      'a rollout that is trained on beside them',
      () => {
        const passed = records.findIndex(
          ({ payload }) => payload.kind === 'rollout' && payload.admission === 'failed',
        );
        return records.map((record, i) =>
          i === passed
            ? { ...record, payload: { ...record.payload, admission: 'admitted' } }
            : record,
        );
      },
      /states that training uses its rollout as/,
    ],
  ])('%s is a hard fail', async (_, changed, message) => {
    await expect(verify(changed())).rejects.toThrow(message);
  });

  test('a run that accepts what passes may hold none', async () => {
    const settings = { ...start().settings, buffer: { kind: 'balanced', accept: 'passing' } };
    await expect(checkFigures(readerOf(records), settings)).rejects.toThrow(
      /is a reference to train on, but the run accepts passing/,
    );
  });

  test('a run that is stopped and goes on ends with the adapter that it would have ended with', async () => {
    const stop = new AbortController();
    const stopped = run(REFERENCES, {
      out: file('stopped'),
      signal: stop.signal,
      onIteration: () => stop.abort(),
    });
    await expect(stopped).rejects.toMatchObject({ code: 'ABORTED' });
    expect((await run(REFERENCES, { out: file('stopped') })).adapter.sha256).toBe(
      result.adapter.sha256,
    );
  }, 300_000);
});

describe('references are refused', () => {
  const refusal = async (name: string, members: string): Promise<unknown> => {
    writeLetterTask(file(`${name}.mjs`), { members: `${TIER}${members}` });
    return run({ ...REFERENCES, task: file(`${name}.mjs`) }, { out: file(name) }).catch(
      (error: unknown) => error,
    );
  };

  test('where the task has none', async () => {
    expect(await refusal('without', '')).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/has no referenceReply/),
    });
  }, 120_000);

  test('where one reply is no episode', async () => {
    const turns = `  referenceReply: () => 'c', limits: { turns: 2 }, step: (_, replies) => (replies.length < 2 ? 'Another?' : null),\n`;
    expect(await refusal('turns', turns)).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/several turns/),
    });
  }, 120_000);

  test('where its own verifier fails them', async () => {
    expect(await refusal('wrong', `  referenceReply: () => 'h',\n`)).toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringMatching(/the reference reply to problem [0-9a-f]{64} fails: "h"/),
    });
  }, 120_000);

  test('where they are no text', async () => {
    expect(await refusal('strange', '  referenceReply: () => 7,\n')).toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringMatching(/"referenceReply"/),
    });
  }, 120_000);
});

describe('an ablation on a model and a task of one’s own', () => {
  const conditions = ['random-verdicts', 'references'] as const;
  const { seed: _, ...settings } = { ...SETTINGS, iterations: 1 };

  test('goes on where it was cut off, repeats no run that has ended, and tells the controls from the full run', async () => {
    const out = file('ablation');
    const stop = new AbortController();
    const begun: string[] = [];
    const onRun = (condition: string): void => {
      begun.push(condition);
      if (begun.length === 2) stop.abort();
    };
    const first = ablate(settings, { out, conditions, seeds: ['1'], signal: stop.signal, onRun });
    await expect(first).rejects.toMatchObject({ code: 'ABORTED' });
    expect(begun).toEqual(['full', 'random-verdicts']);
    const log = path.join(out, 'full-1', 'log.sqlite');
    const ended = readFileSync(log);
    const result = await ablate(settings, { out, conditions, seeds: ['1'] });
    expect(readFileSync(log).equals(ended)).toBe(true);
    expect(result.conditions.map(({ condition, changes }) => [condition, changes])).toEqual([
      ['full', {}],
      ['random-verdicts', { buffer: { accept: 'random' } }],
      ['references', { buffer: { accept: 'references' } }],
    ]);
    const [full, random, references] = result.conditions.map(({ runs }) => runs[0]!);
    expect(new Set([full, random, references].map((each) => each!.fingerprint)).size).toBe(3);
    expect(references!.accepted).toBe(8); // problems
    expect(readManifest(path.join(out, 'random-verdicts-1')).start.settings.buffer).toMatchObject({
      accept: 'random',
    });
    expect(result.model).toBe('letters.gguf');
  }, 300_000);

  test('a condition that changes nothing under the settings is refused before any run', async () => {
    const begun: string[] = [];
    const options = {
      out: file('equal'),
      seeds: ['1'],
      onRun: (condition: string) => void begun.push(condition),
    };
    await expect(
      ablate(settings, { ...options, conditions: ['no-accumulation'] }),
    ).rejects.toMatchObject({
      code: 'CONDITIONS_EQUAL',
      message: expect.stringMatching(/no-accumulation is the same as full/),
      remedy: expect.stringMatching(/--conditions, or use more than one iteration/),
    });
    const plain = { ...settings, profile: 'small' as const }; // which asks for no reasoning
    await expect(ablate(plain, { ...options, conditions: ['no-cot'] })).rejects.toMatchObject({
      code: 'CONDITIONS_EQUAL',
      remedy: expect.stringContaining('--style cot'),
    });
    expect([begun, existsSync(file('equal'))]).toEqual([[], false]);
  });

  test('runs in which nothing was accepted are told by what they were to train on, and are no error', async () => {
    const out = file('barren');
    writeFileSync(
      file('never.mjs'),
      readFileSync(file('letters.mjs'), 'utf8').replace(
        /verify: .*/,
        "verify: () => ({ kind: 'fail' }),",
      ),
    );
    const ablation = await ablate(
      { ...settings, task: file('never.mjs') },
      { out, conditions: ['shuffled-verdicts', 'random-verdicts'], seeds: ['1'] },
    );
    const { conditions: found } = ablation;
    expect(found.map(({ runs }) => runs[0]!.accepted)).toEqual([0, 0, 0]);
    const failing = found[1]!.runs[0]!.failures!;
    expect(failing).toMatchObject({ passed: 0, replies: found[1]!.runs[0]!.after.n });
    const table = ablationText(ablation, null);
    for (const { condition } of found)
      expect(table).toMatch(
        new RegExp(
          `why ${failing.replies} of ${failing.replies} test replies after the run \\(${condition}\\) did`,
        ),
      );
    const toFull = { difference: -0.405, low: -0.428, high: -0.38, problems: 8 };
    const wide = ablationText(
      { ...ablation, conditions: found.map((each) => ({ ...each, toFull })) },
      null,
    );
    expect(wide.match(/−40\.5 {2,}−42\.8 to −38\.0$/gm)).toHaveLength(found.length);
  }, 300_000);
});
