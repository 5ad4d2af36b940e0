/**
 * The embedded model taught by a wider one, both in this process: what it answers before and after,
 * and what both take.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  createTrainer,
  inspectModel,
  loadModel,
  run,
  type TrainSequence,
} from '../../src/index.js';
import { schedulingPrompt } from '../../src/tasks/scheduling/prompt.js';
import { drawExample } from '../../src/embedded/corpus.js';
import { readRun } from '../../src/run-folder/read-run.js';
import { writeWider, writeWiderTeacher } from '../models/wider.js';

const FULL = process.env.ISOPRO_FULL === '1';
const SIZES = FULL
  ? { steps: 60, rollouts: 400, dev: 20, test: 100 }
  : { steps: 30, rollouts: 128, dev: 2, test: 4 };

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-wider-'));
const file = (name: string): string => path.join(folder, name);
beforeAll(() => writeWider(file('wider.gguf')), 60_000);
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

test('twice the units of each block say what the embedded model says', async () => {
  const [wider, tiny] = await Promise.all([
    inspectModel(file('wider.gguf')),
    loadModel('tiny', { threads: 1 }),
  ]);
  expect(wider.parameters - 5 * 3 * 128 * 256).toBe((await inspectModel(tiny.path)).parameters);
  const sequences = Array.from({ length: 3 }, (_, i): TrainSequence => {
    const { problem, reply } = drawExample(3n, i, 1);
    const prompt = tiny.renderChat(schedulingPrompt(problem, 'cot')).tokenIds;
    const tokenIds = Int32Array.from([...prompt, ...tiny.tokenize(reply)]);
    return {
      tokenIds,
      labelMask: Uint8Array.from(tokenIds, (_token, at) => Number(at >= prompt.length)),
    };
  });
  const logprobs: number[][] = [];
  for (const name of [file('wider.gguf'), tiny.path]) {
    await using trainer = await createTrainer({ path: name }, { lora: { rank: 1 }, threads: 1 });
    logprobs.push((await trainer.evaluate(sequences)).sequences.flatMap((of) => [...of.logprobs]));
  }
  expect(
    Math.max(...logprobs[0]!.map((value, i) => Math.abs(value - logprobs[1]![i]!))),
  ).toBeLessThan(1e-3);
  await tiny.dispose();
}, 240_000);

test('A6: the embedded model learns on its own replies what a wider one makes of them', async () => {
  process.env.ISOPRO_HOME = file('home');
  const started = performance.now();
  await writeWiderTeacher(
    file('teacher.gguf'),
    file('wider.gguf'),
    'side by side, earliest deadline first',
    SIZES.steps,
  );
  const taught = performance.now();
  const result = await run(
    {
      task: 'scheduling',
      seed: '42',
      iterations: 2,
      signer: 'single-process',
      model: { name: 'tiny', threads: 1 },
      sampling: { rollouts: SIZES.rollouts, temperature: 1, topP: 1 },
      evaluation: { devSize: SIZES.dev, testSize: SIZES.test },
      algorithm: { id: 'distill', teacher: file('teacher.gguf') },
    },
    { out: file('run') },
  );
  const { before, after } = result.test;
  const { iterations } = readRun(result.folder);
  console.info(
    `teacher ${((taught - started) / 1000).toFixed(0)} s, run ${((performance.now() - taught) / 1000).toFixed(0)} s, ` +
      `test ${before.mean} to ${after.mean}, divergence ${iterations.map(({ loss }) => loss).join(', ')}, ${result.peakRssBytes / 1e6} MB`,
  );
  expect(after.mean! - before.mean!).toBeGreaterThan(0.15);
  expect(iterations[1]!.loss!).toBeLessThan(iterations[0]!.loss!);
}, 1_200_000);
