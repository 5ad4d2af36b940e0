import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  getLlama,
  LlamaLogLevel,
  type Llama,
  type LlamaContextSequence,
  type LlamaModel,
} from 'node-llama-cpp';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { planTensors } from '../../src/embedded/architecture.js';
import { writeAtomically } from '../models/write-atomically.js';
import { fromHalf, toHalf, type TensorType } from '../models/quantise.js';
import { q4KMType, shapeFile, SHAPES } from '../models/shapes.js';
import {
  ARCHITECTURES,
  writeSyntheticModel,
  type Architecture,
  type SyntheticModelOptions,
} from '../models/synthetic.js';

// llama.cpp, through node-llama-cpp, is the oracle: it parses the file, dequantises it and runs the
// model.

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-synthetic-'));
const FULL = process.env.ISOPRO_FULL === '1';
const TEXT = 'The judge reads the answer: прувет 12 ☃\n';
let llama: Llama;

beforeAll(async () => {
  llama = await getLlama({
    gpu: false,
    build: 'never',
    maxThreads: 1,
    logLevel: LlamaLogLevel.error,
  });
});
afterAll(async () => {
  await llama.dispose();
  rmSync(folder, { recursive: true, force: true });
});

async function withSequence<T>(
  file: string,
  lora: string | undefined,
  run: (model: LlamaModel, sequence: LlamaContextSequence) => Promise<T>,
): Promise<T> {
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  try {
    const context = await model.createContext({
      contextSize: 256,
      threads: 1,
      ...(lora === undefined ? {} : { lora: { adapters: [{ filePath: lora }] } }),
    });
    return await run(model, context.getSequence());
  } finally {
    await model.dispose();
  }
}

const greedy = (
  file: string,
  count: number,
  lora?: string,
): Promise<{ tokens: number[]; roundTrip: string }> =>
  withSequence(file, lora, async (model, sequence) => {
    const prompt = model.tokenize(TEXT);
    const tokens: number[] = [];
    for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
      tokens.push(token);
      if (tokens.length === count) break;
    }
    return { tokens, roundTrip: model.detokenize(prompt) };
  });

/** The model's distribution after the prompt, by token id. */
const distribution = (file: string): Promise<Map<number, number>> =>
  withSequence(file, undefined, async (model, sequence) => {
    const prompt = model.tokenize(TEXT);
    const last = prompt.pop()!;
    const options = { temperature: 1, topK: 0, topP: 1, minP: 0 };
    const results = await sequence.controlledEvaluate([
      ...prompt,
      [last, { generateNext: { probabilities: true, options } }],
    ]);
    return new Map<number, number>(results.at(-1)!.next.probabilities);
  });

function write(name: string, options: SyntheticModelOptions): string {
  const file = path.join(folder, name);
  writeSyntheticModel(file, options);
  return file;
}

/** Half the L1 distance of two distributions over token ids. */
const totalVariation = (p: Map<number, number>, q: Map<number, number>): number =>
  [...new Set([...p.keys(), ...q.keys()])].reduce(
    (sum, id) => sum + Math.abs((p.get(id) ?? 0) - (q.get(id) ?? 0)),
    0,
  ) / 2;

describe('synthetic models', () => {
  const types: readonly TensorType[] = ['F32', 'F16', 'Q8_0', 'Q4_0', 'Q4_1', 'Q4_K', 'Q6_K'];
  test.each(
    ARCHITECTURES.flatMap((architecture, i) =>
      // kernels know types, not architectures: after the first, they take turns
      (i < 4 || FULL ? types : [types[i % types.length]!]).map(
        (type) => [architecture, type] as const,
      ),
    ),
  )(
    '%s in %s loads, tokenises any text and generates without repeating itself',
    async (architecture: Architecture, type: TensorType) => {
      const { tokens, roundTrip } = await greedy(
        write(`${architecture}-${type}.gguf`, {
          architecture,
          type,
          ropeFactors: architecture === 'llama',
        }),
        24,
      );
      expect(roundTrip).toBe(TEXT);
      expect(tokens).toHaveLength(24);
      expect(new Set(tokens).size).toBeGreaterThan(6);
    },
  );

  test.each(ARCHITECTURES)(
    '%s with a tied head and a score-based vocabulary generates too',
    async (architecture) => {
      const { tokens } = await greedy(
        write(`${architecture}-spm.gguf`, { architecture, tiedHead: true, vocabulary: 'spm' }),
        24,
      );
      expect(new Set(tokens).size).toBeGreaterThan(4);
    },
  );

  // Distances that the rounding of each type explains; another seed's model is about 1 away.
  test.each([
    ['F16', 0.01],
    ['Q8_0', 0.05],
    ['Q6_K', 0.2],
    ['Q5_K', 0.5],
    ['Q4_K', 0.7],
    ['IQ4_XS', 0.7],
    ['MXFP4', 0.8],
    ['Q4_0', 0.7],
    ['Q4_1', 0.7],
  ] as const)('%s stores the weights of the same seed', async (type, tolerance) => {
    const wide = { architecture: 'llama', embedding: 256, feedForward: 256, layers: 1 } as const;
    const exact = await distribution(write('exact.gguf', { ...wide, type: 'F32' }));
    const rounded = await distribution(write('rounded.gguf', { ...wide, type }));
    const other = await distribution(write('other.gguf', { ...wide, type, seed: 2n }));
    expect(totalVariation(exact, rounded)).toBeLessThan(tolerance);
    expect(totalVariation(exact, other)).toBeGreaterThan(0.8);
  });

  test('the same options give the same bytes, another seed other ones', () => {
    const bytes = (seed: bigint): Buffer =>
      readFileSync(write('bytes.gguf', { architecture: 'qwen2', type: 'Q4_0', seed }));
    expect(bytes(5n).equals(bytes(5n))).toBe(true);
    expect(bytes(5n).equals(bytes(6n))).toBe(false);
  });

  test.each(ARCHITECTURES)(
    'an adapter for %s loads and changes what the model says; one of magnitude 0 does not',
    async (architecture) => {
      const file = path.join(folder, `${architecture}-base.gguf`);
      const shape = writeSyntheticModel(file, { architecture });
      const adapter = path.join(folder, `${architecture}-lora.gguf`);
      const plain = await greedy(file, 12);
      writeSyntheticAdapter(adapter, shape, { magnitude: 0 });
      expect((await greedy(file, 12, adapter)).tokens).toEqual(plain.tokens);
      writeSyntheticAdapter(adapter, shape, { magnitude: 0.5 });
      expect((await greedy(file, 12, adapter)).tokens).not.toEqual(plain.tokens);
    },
  );

  test('options that cannot be stored are refused', () => {
    expect(() => write('x.gguf', { architecture: 'llama', type: 'Q4_K', embedding: 64 })).toThrow(
      RangeError,
    );
    expect(() => write('x.gguf', { architecture: 'llama', heads: 3 })).toThrow(RangeError);
    expect(() => write('x.gguf', { architecture: 'llama', vocabularySize: 100 })).toThrow(
      RangeError,
    );
  });
});

describe('files in the shape of published models', () => {
  // What llama.cpp prints when it loads the published Q4_K_M files of Qwen2.5-0.5B-Instruct and
  // 3B-Instruct.
  test.each([
    ['qwen2.5-0.5b', { F32: 121, Q5_0: 132, Q8_0: 13, Q4_K: 12, Q6_K: 12 }],
    ['qwen2.5-3b', { F32: 181, Q4_K: 216, Q6_K: 37 }],
  ] as const)('%s has as many tensors of each type as the published file', (name, published) => {
    const counts: Record<string, number> = {};
    for (const plan of planTensors(SHAPES[name])) {
      const type = q4KMType(plan, SHAPES[name].layers);
      counts[type] = (counts[type] ?? 0) + 1;
    }
    expect(counts).toEqual(published);
  });

  (FULL ? test : test.skip)('the 0.5B shape is written once, loads and generates', async () => {
    const file = shapeFile(folder, 'qwen2.5-0.5b');
    const { size, mtimeMs } = statSync(file);
    expect(size).toBeGreaterThan(390e6);
    expect(size).toBeLessThan(400e6);
    expect(statSync(shapeFile(folder, 'qwen2.5-0.5b')).mtimeMs).toBe(mtimeMs);
    const { tokens, roundTrip } = await greedy(file, 8);
    expect(roundTrip).toBe(TEXT);
    expect(new Set(tokens).size).toBeGreaterThan(4);
  });
});

describe('writing', () => {
  test('a write that fails leaves neither a file nor a temporary one', () => {
    const target = path.join(folder, 'atomic', 'model.gguf');
    expect(() => writeAtomically(target, [new Uint8Array(3)])).toThrow(/ENOENT/);
    const existing = path.join(folder, 'kept.gguf');
    writeFileSync(existing, 'before');
    const failing = function* (): Generator<Uint8Array> {
      yield new Uint8Array(3);
      throw new Error('interrupted');
    };
    expect(() => writeAtomically(existing, failing())).toThrow('interrupted');
    expect(readFileSync(existing, 'utf8')).toBe('before');
    expect(readdirSync(folder).filter((name) => name.includes('partial'))).toEqual([]);
  });

  test('halves round to nearest even and decode exactly', () => {
    expect([0, -0, 1, -2, 65504, 2 ** -24, 2 ** -14].map((x) => fromHalf(toHalf(x)))).toEqual([
      0,
      -0,
      1,
      -2,
      65504,
      2 ** -24,
      2 ** -14,
    ]);
    expect(fromHalf(toHalf(1 + 2 ** -11))).toBe(1);
    expect(fromHalf(toHalf(1 + 3 * 2 ** -11))).toBe(1 + 2 ** -9);
    expect(fromHalf(toHalf(65520))).toBe(Infinity);
    expect(toHalf(2 ** -25)).toBe(0);
    for (let half = 0; half < 0x7c00; half++)
      if (toHalf(fromHalf(half)) !== half) throw new Error(`half ${half}`);
  });
});
