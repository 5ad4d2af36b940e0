/**
 * Models differ in what ends a turn; a run and its judge read the same text from the same tokens
 * whatever it is.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { judgeRun } from '../../src/judge/judge.js';
import { LogReader } from '../../src/log/read.js';
import { run } from '../../src/training/loop.js';
import { ONE_TIER_TASK, writeLetterModel } from '../models/letters.js';
import { synthesizeModel } from '../models/synthetic.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-end-'));
  writeFileSync(file('letters.mjs'), ONE_TIER_TASK);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/**
 * The letter model whose end token has another name and is no control token, as in files that say
 * no more of it than its id.
 */
function writeOrdinaryEnd(to: string): void {
  writeLetterModel(to);
  const end = synthesizeModel({
    architecture: 'qwen2',
    seed: 1n,
    contextLength: 1024,
    layers: 3,
  }).vocabulary.tokens.indexOf('<|im_end|>');
  const bytes = Buffer.from(
    readFileSync(to).toString('latin1').replaceAll('<|im_end|>', '[__STOP__]'),
    'latin1',
  );
  const key = 'tokenizer.ggml.token_type';
  // kind, kind of the elements, their number
  const values = bytes.indexOf(key) + key.length + 4 + 4 + 8;
  bytes.writeInt32LE(1, values + 4 * end);
  writeFileSync(to, bytes);
}

test('an honest run of a model whose end token is an ordinary one passes the judge', async () => {
  writeOrdinaryEnd(file('letters.gguf'));
  await run(
    {
      task: file('letters.mjs'),
      iterations: 1,
      signer: 'single-process',
      profile: 'downloaded',
      model: { name: file('letters.gguf'), threads: 1 },
      sampling: { rollouts: 8, samples: 4, maxTokens: 4 },
      optimiser: { stepsPerIteration: 1, batchSize: 4 },
      layers: { rank: 2, topLayers: 1 },
      evaluation: { devSize: 2, testSize: 2 },
    },
    { out: file('run') },
  );
  const reader = new LogReader(path.join(file('run'), 'log.sqlite'), RUN_STREAMS);
  const rollouts = [...reader.records({ stream: 'rollouts' })]
    .filter(({ payload }) => payload.kind === 'rollout')
    .map(({ payload }) => payload);
  reader.close();
  expect(rollouts).toContainEqual(
    expect.objectContaining({ finish: 'stop', text: expect.stringMatching(/^[a-h]$/) }),
  );
  const { steps } = await judgeRun({
    folder: file('run'),
    model: file('letters.gguf'),
    task: file('letters.mjs'),
  });
  expect(steps.filter(({ status }) => status === 'hard_fail')).toEqual([]);
}, 60_000);
