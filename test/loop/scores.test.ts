/**
 * A task whose verdicts have a score and a forecast: through a run, its log, its judge, eval and
 * the report.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { judgeRun } from '../../src/judge/judge.js';
import { run } from '../../src/operations/tracked-run.js';
import {
  parseExamples,
  rowsOf,
  tokenisedExamples,
} from '../../src/fine-tuning/training-examples.js';
import { loadModel } from '../../src/index.js';
import type { TrainingRow } from '../../src/operations/training-data.js';
import { LogReader } from '../../src/log/read.js';
import { measureTable } from '../../src/text/terminal.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { readRun } from '../../src/run-folder/read-run.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { brierScore } from '../../src/statistics/index.js';
import type { RunResult } from '../../src/training/result.js';
import type { ProblemRecord, RolloutRecord } from '../../src/run-folder/rollout-records.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-scores-'));
const file = (name: string): string => path.join(folder, name);
const scoreOf = (letter: string): number => (letter.charCodeAt(0) - 97) / 7;

/** The later a letter, the better, and the surer that it rains; it rains in L1. */
const VERIFIER = `(async () => {
  await null;
  const value = (answer.charCodeAt(0) - 97) / 7;
  return { kind: value >= 0.5 ? 'pass' : 'fail', score: value, forecast: { probability: value, outcome: problem.tier === 'L1' } };
})()`;
let result: RunResult;

beforeAll(async () => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('scored.mjs'), { verifier: VERIFIER });
  result = await run(
    {
      task: file('scored.mjs'),
      seed: '5',
      iterations: 1,
      signer: 'single-process',
      profile: 'downloaded',
      model: { name: file('letters.gguf'), threads: 1 },
      sampling: { rollouts: 48, samples: 4, maxTokens: 4 },
      optimiser: { stepsPerIteration: 2, batchSize: 8 },
      layers: { rank: 4, topLayers: 1 },
      evaluation: { devSize: 4, testSize: 4 },
    },
    { out: file('run') },
  );
}, 120_000);
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

test('the log holds what each verdict says beside its kind', () => {
  const reader = new LogReader(runPaths(result.folder).log, RUN_STREAMS);
  const records = [...reader.records()].map(({ payload }) => payload);
  reader.close();
  const rollouts = records.filter(({ kind }) => kind === 'rollout') as unknown as {
    text: string;
    tier: string;
    form: string | null;
    verdict: object;
  }[];
  expect(rollouts.length).toBe(48);
  for (const { text, tier, form, verdict } of rollouts.filter((each) => each.form !== null))
    expect([form, verdict]).toEqual([
      'answer',
      expect.objectContaining({
        score: scoreOf(text),
        forecast: { probability: scoreOf(text), outcome: tier === 'L1' },
      }),
    ]);
  const policies = records.find(({ kind }) => kind === 'policies') as unknown as {
    figures: Record<string, { score: number }[]>;
  };
  expect(policies.figures.always_c).toHaveLength(12);
  expect(policies.figures.always_c![0]!.score).toBe(2 / 7);
  for (const { outcomes, figures } of records.filter(
    ({ kind }) => kind === 'held_out',
  ) as unknown as { outcomes: []; figures: [] }[])
    expect(figures).toHaveLength(outcomes.length);
});

test('the result has the mean score and the proper scores, of the policies too', () => {
  const { always_c: policy } = result.trivialPolicies;
  expect(policy!.measures!.score).toMatchObject({
    mean: expect.closeTo(2 / 7, 12),
    n: 12,
    valid: 1,
  });
  const [rain, none] = [
    brierScore({ probability: 2 / 7, outcome: true }),
    brierScore({ probability: 2 / 7, outcome: false }),
  ];
  expect(policy!.measures!.brier!.mean).toBeCloseTo((none + rain + none) / 3, 12);
  expect(policy!.measures!.brier!.byTier.L1!.mean).toBeCloseTo(rain, 12);
  for (const { measures } of [result.test.before, result.test.after]) {
    const { mean, low, high, n } = measures!.score!;
    expect(n).toBe(12);
    expect(mean).toBeGreaterThanOrEqual(low);
    expect(mean).toBeLessThanOrEqual(high);
  }
});

test('the judge finds them again', async () => {
  const { verdict, steps, heldOut } = await judgeRun({
    folder: result.folder,
    model: file('letters.gguf'),
    task: file('scored.mjs'),
  });
  expect([verdict, steps.find(({ name }) => name === 'rollout_verification')?.status]).toEqual([
    'pass',
    'pass',
  ]);
  expect(heldOut!.after.measured.measures).toEqual(result.test.after.measures);
  expect(heldOut!.after.figures).toEqual([
    { figure: 'score', differing: 0, better: { more: 0, less: 0 }, p: 1 },
    { figure: 'forecast', differing: 0, better: { more: 0, less: 0 }, p: 1 },
  ]);
});

test('end screen, report and eval print them', () => {
  const { before, after } = result.test;
  const screen = measureTable(before, after, { width: 100, color: false });
  for (const words of [/^mean score +\d\.\d{3}/m, /^Brier score /m, /^log score /m])
    expect(screen).toMatch(words);
  const html = readFileSync(runPaths(result.folder).report, 'utf8');
  for (const title of ['<h3>mean score</h3>', '<h3>Brier score</h3>', '<h3>log score</h3>'])
    expect(html).toContain(title);
  const cli = (...args: string[]): string =>
    spawnSync(process.execPath, [path.join(root, 'dist/program/main.js'), ...args], {
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1' },
    }).stdout;
  const args = [
    'eval',
    '--model',
    file('letters.gguf'),
    '--task',
    file('scored.mjs'),
    '--per-tier',
    '4',
    '--max-tokens',
    '4',
    '--threads',
    '1',
  ];
  const batch = ['--batch', String(readRun(result.folder).manifest.start.evaluation.maxSequences)];
  expect((JSON.parse(cli(...args, ...batch, '--json')) as { accuracy: object }).accuracy).toEqual(
    before,
  );
  expect(cli(...args)).toMatch(
    /mean score: [\s\S]*always_c +0\.286 +0\.286 +0\.286 +0\.286[\s\S]*Brier score: /,
  );
  expect(JSON.parse(cli(...args, '--samples', '2', '--json'))).toMatchObject({
    measures: { score: { n: 24 } },
  });
}, 60_000);

test('the log’s rows are what train reads: the tokens that were sampled, the scores, and the record of each', async () => {
  const { code, stdout, stderr } = await runCli(
    ['log', 'training-data', result.folder, '--task', file('scored.mjs'), '--verdict', 'all'],
    {},
  );
  expect([code, stderr]).toEqual([0, expect.stringMatching(/: \d+ rows/)]);
  const lines = stdout.trim().split('\n');
  const reader = new LogReader(runPaths(result.folder).log, RUN_STREAMS);
  const records = new Map([...reader.records()].map(({ gseq, payload }) => [gseq, payload]));
  reader.close();
  const complete = [...records.values()].filter(
    ({ kind, finish }) => kind === 'rollout' && finish === 'stop',
  );
  expect(lines.length).toBe(complete.length);
  await using model = await loadModel(file('letters.gguf'), { threads: 1 });
  async function* each(): AsyncGenerator<string> {
    yield* lines;
  }
  const examples = await parseExamples(rowsOf(each()));
  const { sequences } = tokenisedExamples(examples, model, 1000);
  for (const [i, line] of lines.entries()) {
    const { source, score } = JSON.parse(line) as TrainingRow;
    const { tokenIds, problemId, verdict } = records.get(
      source.record,
    )! as unknown as RolloutRecord;
    const asked = [...records.values()].find(
      (payload) => payload.kind === 'problem' && payload.problemId === problemId,
    );
    const { promptIds } = asked as unknown as ProblemRecord;
    // whichever of its end tokens the model said: what is trained on is the one that ends a turn
    expect([...sequences[i]!.tokenIds].slice(0, -1)).toEqual(
      [...promptIds, ...tokenIds].slice(0, -1),
    );
    expect(sequences[i]!.tokenIds.at(-1)).toBe(model.info.eot);
    expect(sequences[i]!.labelMask.indexOf(1)).toBe(promptIds.length);
    expect([source.run, examples[i]!.score]).toEqual([result.runId, score]);
    expect(score).toBe(verdict.score ?? (verdict.kind === 'pass' ? 1 : 0));
  }
  expect(await runCli(['log', 'training-data', result.folder], {})).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--task'),
  });
}, 60_000);

test('a task without figures has none of it', () => {
  const { measures: _, ...before } = result.test.before;
  expect(measureTable(before, before, { width: 100, color: false })).toBe('');
});
