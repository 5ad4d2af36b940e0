import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { inspectModel } from '../../src/engine/inspect.js';
import { loadModel, type LoadModelOptions } from '../../src/engine/model.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-inspect-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string): string => path.join(folder, name);

describe('inspectModel', () => {
  test('counts types, parameters and bytes, and finds nothing against a good model', async () => {
    const shape = writeSyntheticModel(file('model.gguf'), { architecture: 'qwen3', type: 'Q4_K' });
    const inspection = await inspectModel(file('model.gguf'));
    expect(inspection).toMatchObject({
      version: 3,
      kind: 'model',
      architecture: 'qwen3',
      name: 'synthetic qwen3 Q4_K seed 1',
      problem: null,
    });
    expect(inspection.vocabularySize).toBe(shape.vocabularySize);
    expect(inspection.metadata).toMatchObject({
      'qwen3.block_count': '2',
      'qwen3.rope.freq_base': '10000',
      'tokenizer.ggml.token_type': `array of i32, ${shape.vocabularySize}`,
    });
    // Two heads (embedding and output); per layer q and o, k and v, three of the feed-forward.
    const matrices =
      2 * 256 * shape.vocabularySize + 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 256);
    const vectors = 256 + 2 * (2 * 256 + 2 * 64);
    expect(inspection.types).toEqual([
      {
        type: 'q4_K',
        tensors: 16,
        parameters: matrices,
        bytes: (matrices / 256) * 144,
        kernels: expect.stringMatching(/^(own|ggml)$/), // which of them: the test below
        why: expect.any(String),
      },
      {
        type: 'f32',
        tensors: 9,
        parameters: vectors,
        bytes: vectors * 4,
        kernels: null,
        why: null,
      },
    ]);
    expect(inspection.parameters).toBe(matrices + vectors);
    expect(inspection.bytes).toBe(readFileSync(file('model.gguf')).length);
    expect(inspection.tensors.find(({ name }) => name === 'blk.1.attn_k.weight')).toEqual({
      name: 'blk.1.attn_k.weight',
      type: 'q4_K',
      dimensions: [256, 128],
      bytes: 128 * 144,
    });
  });

  test('names the kernels of each format, as a loaded model does, and the reason', async () => {
    writeSyntheticModel(file('kernels.gguf'), { architecture: 'qwen2', type: 'Q8_0' });
    const { types, kvType } = await inspectModel(file('kernels.gguf'));
    const { kernels, why } = types.find(({ type }) => type === 'q8_0')!;
    await using model = await loadModel(file('kernels.gguf'), { threads: 1, matmul: 'auto' });
    expect([kernels, kvType]).toEqual([model.info.matmul, model.info.kvType]);
    expect(why).toMatch(kernels === 'own' ? /^avx/ : /neither AVX2 nor/);
  });

  test('the cache is f16 where attention is our own, and otherwise as the file says', async () => {
    const { kvType, types } = await inspectModel('tiny');
    const own = types.some(({ kernels }) => kernels === 'own');
    expect(kvType).toBe(own ? 'f16' : 'q8_0');
    const typeOf = async (options: LoadModelOptions): Promise<string> => {
      await using model = await loadModel('tiny', { threads: 1, ...options });
      return model.info.kvType;
    };
    expect(await typeOf({})).toBe('q8_0');
    expect(await typeOf({ matmul: 'auto' })).toBe(kvType);
    expect(await typeOf({ matmul: 'auto', kvType: 'q8_0' })).toBe('q8_0');
  });

  test('describes an adapter', async () => {
    const shape = writeSyntheticModel(file('base.gguf'), { architecture: 'llama' });
    writeSyntheticAdapter(file('adapter.gguf'), shape, { alpha: 16 });
    const inspection = await inspectModel(file('adapter.gguf'));
    expect(inspection).toMatchObject({ kind: 'adapter', architecture: 'llama', problem: null });
    expect(inspection.metadata['adapter.lora.alpha']).toBe('16');
    // a pair for each of the seven matrices of a layer
    expect(inspection.tensors).toHaveLength(2 * 7 * shape.layers);
  });

  test('shows what can be read of a model that would be refused, with the reason', async () => {
    writeSyntheticModel(file('strange.gguf'), { architecture: 'llama' });
    const bytes = readFileSync(file('strange.gguf'));
    // the value of general.architecture, the first entry
    bytes.write('dream', bytes.indexOf('llama'));
    writeFileSync(file('strange.gguf'), bytes);
    const inspection = await inspectModel(file('strange.gguf'));
    expect(inspection.architecture).toBe('dream');
    expect(inspection.tensors.length).toBeGreaterThan(0);
    expect(inspection.problem?.code).toBe('ARCH_UNSUPPORTED');
  });

  test('files without readable structure are typed errors', async () => {
    await expect(inspectModel(file('absent.gguf'))).rejects.toMatchObject({
      name: 'IsoproError',
      code: 'MODEL_NOT_FOUND',
    });
    await expect(inspectModel(folder)).rejects.toMatchObject({ code: 'MODEL_NOT_FOUND' });
    writeFileSync(file('empty.gguf'), '');
    await expect(inspectModel(file('empty.gguf'))).rejects.toMatchObject({ code: 'MODEL_CORRUPT' });
    writeFileSync(file('text.gguf'), 'not a model');
    await expect(inspectModel(file('text.gguf'))).rejects.toMatchObject({
      code: 'MODEL_CORRUPT',
      message: expect.stringContaining('text.gguf'),
    });
  });
});

describe('real vocabularies', () => {
  const bundle = fileURLToPath(
    new URL('../../node_modules/node-llama-cpp/llama/gitRelease.bundle', import.meta.url),
  );
  if (!existsSync(bundle)) console.warn(`skipped: no ${bundle}`);

  (existsSync(bundle) ? test : test.skip)(
    'of llama and qwen2 models pass, up to the tensors that those files lack',
    async () => {
      const checkout = file('llama.cpp');
      const git = (...args: string[]): void => void execFileSync('git', args, { stdio: 'ignore' });
      git('clone', '--quiet', '--no-checkout', bundle, checkout);
      git('-C', checkout, 'checkout', '--quiet', 'HEAD', '--', 'models');
      const checked: string[] = [];
      for (const name of readdirSync(path.join(checkout, 'models')).filter((entry) =>
        entry.endsWith('.gguf'),
      )) {
        const inspection = await inspectModel(path.join(checkout, 'models', name));
        if (!['llama', 'qwen2'].includes(inspection.architecture)) {
          expect(['ARCH_UNSUPPORTED', 'MODEL_CORRUPT', 'MODEL_UNSUPPORTED']).toContain(
            inspection.problem?.code,
          );
          continue;
        }
        expect(inspection.problem).toMatchObject({
          code: 'MODEL_CORRUPT',
          message: expect.stringContaining('tensor token_embd.weight is missing'),
        });
        checked.push(name);
      }
      expect(checked).toEqual(
        expect.arrayContaining([
          'ggml-vocab-llama-bpe.gguf',
          'ggml-vocab-llama-spm.gguf',
          'ggml-vocab-qwen2.gguf',
        ]),
      );
    },
  );
});
