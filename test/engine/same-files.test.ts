/**
 * loadModel, createTrainer and inspectModel take the same names and are of one opinion about a
 * file.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspectModel } from '../../src/engine/inspect.js';
import { loadModel } from '../../src/engine/model.js';
import { createTrainer } from '../../src/engine/trainer.js';
import type { MetadataEntry } from '../../src/embedded/gguf.js';
import { writeAtomically } from '../models/write-atomically.js';
import { writeDecoder } from '../models/decoders.js';
import { encodeModel, synthesizeModel, type SyntheticModel } from '../models/synthetic.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
const write = (
  name: string,
  change: (model: SyntheticModel) => Pick<SyntheticModel, 'metadata' | 'tensors'>,
): void =>
  writeAtomically(file(name), encodeModel(change(synthesizeModel({ architecture: 'qwen2' }))));
const named = (
  metadata: readonly MetadataEntry[],
  key: string,
  value: MetadataEntry['value'] | null,
): MetadataEntry[] => [
  ...metadata.filter((entry) => entry.key !== key),
  ...(value === null ? [] : [{ key, value }]),
];
const text = (value: string): MetadataEntry['value'] => ({ type: 'string', value });

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-same-'));
  write('sound.gguf', (model) => model);
  write('extra-tensor.gguf', ({ metadata, tensors }) => {
    const last = tensors.at(-1)!;
    const end = last.info.offset + Math.ceil(last.data.byteLength / 32) * 32;
    return {
      metadata,
      tensors: [
        ...tensors,
        { info: { ...last.info, name: 'blk.0.surplus.weight', offset: end }, data: last.data },
      ],
    };
  });
  write('tokenizer.gguf', ({ metadata, tensors }) => ({
    metadata: named(metadata, 'tokenizer.ggml.model', text('bert')),
    tensors,
  }));
  write('architecture.gguf', ({ metadata, tensors }) => ({
    metadata: named(metadata, 'general.architecture', text('bert')),
    tensors,
  }));
  write('missing-tensor.gguf', ({ metadata, tensors }) => ({
    metadata,
    tensors: tensors.slice(0, -1),
  }));
  writeDecoder(file('decoder.gguf'), 'gpt2');
  writeFileSync(file('empty.gguf'), '');
  writeFileSync(file('cut.gguf'), readFileSync(file('sound.gguf')).subarray(0, 5000));
  mkdirSync(file('folder.gguf'));
  await using trainer = await createTrainer({ path: file('sound.gguf') }, { threads: 1 });
  await trainer.exportAdapter(file('adapter.gguf'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Code and message; null where nothing is refused. */
const refusal = (attempt: Promise<AsyncDisposable>): Promise<string | null> =>
  attempt.then(
    async (made) => {
      await made[Symbol.asyncDispose]();
      return null;
    },
    ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
  );

test.each([
  'sound.gguf',
  'extra-tensor.gguf',
  'tokenizer.gguf',
  'architecture.gguf',
  'missing-tensor.gguf',
  'empty.gguf',
  'cut.gguf',
  'folder.gguf',
  'absent.gguf',
])('%s', async (name) => {
  const loading = await refusal(loadModel(file(name), { threads: 1 }));
  const training = await refusal(createTrainer({ path: file(name) }, { threads: 1 }));
  const inspected = await inspectModel(file(name)).then(
    ({ problem, trainingProblem }) =>
      [problem, trainingProblem].map((each) =>
        each === null ? null : `${each.code}: ${each.message}`,
      ),
    ({ code, message }) => [`${code}: ${message}`, `${code}: ${message}`],
  );
  expect([training, ...inspected]).toEqual([loading, loading, loading]);
  expect(loading === null).toBe(name === 'sound.gguf');
});

test('what inference runs and the trainer cannot is told by inspectModel before it is tried', async () => {
  expect(await refusal(loadModel(file('decoder.gguf'), { threads: 1 }))).toBeNull();
  const { problem, trainingProblem } = await inspectModel(file('decoder.gguf'));
  expect([problem, trainingProblem?.code]).toEqual([null, 'ARCH_UNSUPPORTED']);
  expect(await refusal(createTrainer({ path: file('decoder.gguf') }, { threads: 1 }))).toBe(
    `ARCH_UNSUPPORTED: ${trainingProblem!.message}`,
  );
});

test('an adapter is no model; inspectModel reads it all the same', async () => {
  for (const attempt of [
    loadModel(file('adapter.gguf')),
    createTrainer({ path: file('adapter.gguf') }),
  ])
    expect(await refusal(attempt)).toMatch(/^MODEL_UNSUPPORTED: .*LoRA adapter/);
  expect(await inspectModel(file('adapter.gguf'))).toMatchObject({
    kind: 'adapter',
    problem: null,
    trainingProblem: null,
  });
});

test('names are the same for all three: an alias, or one that nothing has', async () => {
  expect((await inspectModel('tiny')).problem).toBeNull();
  expect(
    await refusal(
      createTrainer({ path: 'tiny' }, { threads: 1, lora: { rank: 1, layers: { top: 1 } } }),
    ),
  ).toBeNull();
  const said = await Promise.all([
    refusal(loadModel('qwen9')),
    refusal(createTrainer({ path: 'qwen9' })),
    inspectModel('qwen9').then(
      () => null,
      ({ code, message }) => `${code}: ${message}`,
    ),
  ]);
  expect(new Set(said).size).toBe(1);
  expect(said[0]).toMatch(/^MODEL_NOT_FOUND: "qwen9" is neither a file nor an alias/);
});
