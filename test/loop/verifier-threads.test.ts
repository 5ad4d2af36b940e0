/**
 * A verifier that takes its time, by reply: how many threads judge changes nothing but how long it
 * takes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { judgeRun } from '../../src/judge/judge.js';
import { LogReader } from '../../src/log/read.js';
import { run } from '../../src/training/loop.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-threads-'));
const file = (name: string): string => path.join(folder, name);

/**
 * The later a letter, the sooner its verdict, so that a reply is often overtaken by those after it.
 */
const SLOW = `new Promise((resume) => setTimeout(() => resume({
  kind: ({ L0: 'cd', L1: 'cdef', L2: 'b' })[problem.tier].includes(answer) ? 'pass' : 'fail',
  score: (answer.charCodeAt(0) - 97) / 8,
}), 2 * (104 - answer.charCodeAt(0))))`;

beforeAll(() => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('slow.mjs'), { verifier: SLOW });
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

/**
 * What a run's own id, its signer's nonce and a clock have no part in; a checkpoint counts seconds.
 */
function recordsOf(out: string): unknown[] {
  const reader = new LogReader(runPaths(out).log, RUN_STREAMS);
  try {
    return [...reader.records()]
      .filter(
        ({ stream, payload }) =>
          stream !== 'control' && !['checkpoint', 'probe'].includes(payload.kind),
      )
      .map(({ stream, payload: { seconds: _, ...payload } }) => ({ stream, ...payload }));
  } finally {
    reader.close();
  }
}

test('a run by one thread and by three leaves the same records and the same adapter, and three judge it like one', async () => {
  const results = [];
  for (const verifierThreads of [1, 3])
    results.push(
      await run(
        {
          task: file('slow.mjs'),
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
        // how long sampling takes says how often finished replies are named
        { out: file(`by-${verifierThreads}`), verifierThreads, keepSeconds: 3600 },
      ),
    );
  const [one, three] = results as [(typeof results)[0], (typeof results)[0]];
  expect(one.accepted).toBeGreaterThan(0);
  expect(three.adapter.sha256).toBe(one.adapter.sha256);
  expect(recordsOf(three.folder)).toEqual(recordsOf(one.folder));
  for (const verifierThreads of [1, 3]) {
    const { verdict, steps } = await judgeRun({
      folder: three.folder,
      model: file('letters.gguf'),
      task: file('slow.mjs'),
      verifierThreads,
    });
    expect(verdict).toBe('pass');
    expect(steps.find(({ name }) => name === 'rollout_verification')?.detail).toMatch(
      /^48 rollouts judged again/,
    );
  }
}, 120_000);
