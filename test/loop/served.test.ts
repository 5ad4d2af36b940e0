/**
 * What can be trained can be served: an adapter of every objective of `train` and of every
 * algorithm of `run`, those to come included, goes through a host as a server holds it, and through
 * a registry by name, and says there what the trainer itself makes of it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ALGORITHM_IDS } from '../../src/algorithms/index.js';
import { NO_CURATION } from '../../src/operations/train/curation.js';
import { readTrainData } from '../../src/operations/train/data.js';
import { OBJECTIVES } from '../../src/operations/train/settings.js';
import {
  createTrainer,
  loadModel,
  ModelHost,
  registry,
  run,
  type HostRequest,
  type Trainer,
} from '../../src/index.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { runPaths } from '../../src/run-folder/paths.js';
import {
  shortestRun,
  writeLetterModel,
  writeLetterTask,
  writeLetterTeacher,
} from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-served-'));
const file = (name: string): string => path.join(folder, name);
const PROMPT: HostRequest = { prompt: 'say a letter', maxTokens: 3, sampling: { temperature: 0 } };

beforeAll(async () => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  await writeLetterTeacher(file('teacher.gguf'), file('letters.gguf'));
}, 120_000);
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

/** An adapter by one of the objectives of `train`. */
async function trained(objective: (typeof OBJECTIVES)[number]): Promise<string> {
  await using model = await loadModel(file('letters.gguf'), { threads: 1 });
  const options = {
    objective,
    beta: 0.1,
    validation: 0,
    maxTokens: 200,
    curation: NO_CURATION,
  } as const;
  const rows = [1, 2, 3, 4].map((i) => ({
    prompt: `tier L0 ${i}: say a letter`,
    completion: 'g',
    chosen: 'g',
    rejected: 'a',
  }));
  const data = await readTrainData(model, {
    ...options,
    references: file(`${objective}.json`),
    rows: rows.map((value, i) => ({ value, name: `row ${i}` })),
  });
  await using trainer: Trainer = await createTrainer(model, {
    lora: { rank: 2 },
    optimiser: { learningRate: 0.005 },
    threads: 1,
  });
  const plan = { batchSize: 4, steps: 2, seed: 1n, validation: { every: 9, patience: 0 } };
  for await (const _ of data.train(trainer, plan, new AbortController().signal));
  await trainer.exportAdapter(file(`${objective}.gguf`));
  return file(`${objective}.gguf`);
}

/** An adapter by one of the algorithms of `run`. */
async function learned(id: (typeof ALGORITHM_IDS)[number]): Promise<string> {
  const teacher = id === 'distill' ? { teacher: file('teacher.gguf') } : {};
  const settings = shortestRun(file('letters.mjs'), file('letters.gguf'));
  const result = await run(
    {
      ...settings,
      algorithm: { id, ...teacher },
      evaluation: { devSize: 2, testSize: 2, gate: false },
    },
    { out: file(id) },
  );
  return runPaths(result.folder).adapter(result.adapter!.sha256);
}

const BACKENDS: readonly (readonly [name: string, adapter: () => Promise<string>])[] = [
  ...OBJECTIVES.map(
    (objective) => [`train --objective ${objective}`, () => trained(objective)] as const,
  ),
  ...ALGORITHM_IDS.map((id) => [`run --algorithm ${id}`, () => learned(id)] as const),
];

describe('an adapter of', () => {
  test.each(BACKENDS)(
    '%s',
    async (_name, adapterOf) => {
      const adapter = await adapterOf();
      await using model = await loadModel(file('letters.gguf'), { threads: 1 });
      const [baseSha256, rendererId] = [await model.hash(), model.rendererId];
      const published = new registry.Registry({
        folder: file('registry'),
        signer: new SingleProcessSigner(file('home')),
      });
      const { id } = await published.publish({
        file: adapter,
        base: { name: 'letters', sha256: baseSha256 },
        rendererId,
      });
      await published.move({ slot: { scenario: 'letters' }, alias: 'challenger', id });
      const found = await registry.resolveAdapter(published, 'letters@challenger', {
        baseSha256,
        rendererId,
      });
      expect(found).toMatchObject({ ok: true, id });

      await using host = new ModelHost();
      const hosted = await host.load(file('letters.gguf'), { threads: 1, fixedThreads: true });
      const served = await hosted.loadAdapter((found as { readonly file: string }).file);
      const reply = await hosted.generate({ ...PROMPT, adapter: served });
      const plain = await hosted.generate(PROMPT);
      expect([reply.adapterId, plain.adapterId]).toEqual([served.id, null]);
      // it was trained: it says something else of the same tokens
      expect([...reply.logprobs]).not.toEqual([...plain.logprobs]);

      // what the trainer's own forward pass makes of the very reply
      await using trainer = await createTrainer(model, { lora: { rank: 2 }, threads: 1 });
      await trainer.importAdapter(adapter);
      const tokenIds = Int32Array.from([...reply.promptIds, ...reply.tokenIds]);
      const labelMask = Uint8Array.from(tokenIds, (_, t) => (t >= reply.promptIds.length ? 1 : 0));
      const { sequences } = await trainer.evaluate([{ tokenIds, labelMask }]);
      const own = sequences[0]!.logprobs.slice(reply.promptIds.length);
      for (const [t, value] of reply.logprobs.entries())
        expect(Math.abs(value - own[t]!)).toBeLessThan(0.05);
    },
    120_000,
  );
});
