/**
 * Hashes of what models compute with our own kernels: the same on every processor that runs them,
 * whatever ggml's back end. Each change of one is a change of bits, for which `kOwnBits`
 * (native/inference/own_operations.h) is raised.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { loadModel, ModelHost } from '../../src/index.js';
import { writeSyntheticAdapter } from './adapter.js';
import { writeSyntheticModel, type SyntheticModelOptions } from './synthetic.js';

/** One of each form of a graph that is ours throughout. */
const SYNTHETIC: Readonly<Record<string, SyntheticModelOptions>> = {
  // as SmolLM2, with fewer layers and tokens
  'llama-Q4_1': {
    architecture: 'llama',
    type: 'Q4_1',
    layers: 4,
    embedding: 576,
    feedForward: 1536,
    heads: 9,
    keyValueHeads: 3,
    headDimension: 64,
    tiedHead: true,
  },
  // frequency factors, neighbours in pairs
  'llama-Q8_0-factors': { architecture: 'llama', type: 'Q8_0', ropeFactors: true },
  // biases, halves in pairs
  'qwen2-Q5_0': { architecture: 'qwen2', type: 'Q5_0' },
  // norms of heads
  'qwen3-Q6_K': { architecture: 'qwen3', type: 'Q6_K', embedding: 256, feedForward: 512 },
};

/** The real model, where it was downloaded. Its hash is compared where one is known. */
const REAL = path.join(
  homedir(),
  '.cache/isopro-native/models/pypi/SmolLM2-135M-Instruct.Q4_1.gguf',
);

export interface OwnBits {
  /** `info.ownBits`; null where ggml computes some of the model. */
  readonly version: number | null;
  readonly hash: string;
}

const OPTIONS = {
  threads: 2,
  fixedThreads: true,
  contextTokens: 2048,
  kvType: 'f16',
  matmul: 'own',
} as const;

/** Replies, log-probabilities, hidden states and a text's embedding. */
async function bitsOf(file: string, adapter: string | null): Promise<OwnBits> {
  const sum = createHash('sha256');
  const add = (numbers: ArrayBufferView): void => {
    sum.update(new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength));
  };
  await using model = await loadModel(file, OPTIONS);
  const prompt = (seed: number, length: number): number[] =>
    Array.from({ length }, (_, i) => 5 + ((seed * 31 + i * (7 + seed)) % 200));
  const samplings = [
    { temperature: 1 },
    { temperature: 0.7, topP: 0.9, minP: 0.02 },
    { temperature: 0 },
  ];
  const chosen = adapter === null ? [null] : [null, await model.loadAdapter(adapter)];
  for (const [i, sampling] of samplings.entries()) {
    for (const used of chosen) {
      const replies = [];
      const rollouts = model.generate({
        prompts: [3, 20, 130].map((length, seed) => ({ tokenIds: prompt(seed, length) })),
        samples: 2,
        maxTokens: 12,
        adapter: used,
        sampling: { ...sampling, seed: BigInt(i) },
        ignoreEndOfSequence: true,
      });
      for await (const rollout of rollouts) replies.push(rollout);
      replies.sort((a, b) => a.promptIndex - b.promptIndex || a.sampleIndex - b.sampleIndex);
      for (const { tokenIds, logprobs, sampledLogprobs } of replies)
        [tokenIds, logprobs, sampledLogprobs].forEach(add);
    }
  }
  for (const scored of await model.score(prompt(4, 70), [prompt(5, 30), prompt(6, 3)])) add(scored);
  const layers = [0, model.info.layers - 1];
  for (const { rows } of await model.hidden({ tokens: prompt(7, 40), layers, reduce: 'rows' }))
    add(rows);
  await using host = new ModelHost();
  const together = await host.load(file, { ...OPTIONS, maxSequences: 4 });
  const beside = adapter === null ? null : await together.loadAdapter(adapter);
  const rows = await Promise.all(
    [null, beside].map((used, seed) =>
      together.generate({
        tokenIds: prompt(seed, 9),
        id: String(seed),
        sampling: { temperature: 1 },
        maxTokens: 8,
        ignoreEndOfSequence: true,
        ...(used !== null && { adapter: used }),
      }),
    ),
  );
  for (const { tokenIds, logprobs } of rows) [tokenIds, logprobs].forEach(add);
  return { version: model.info.ownBits, hash: sum.digest('hex') };
}

/**
 * @param options `real`: the real model too, where it is there
 * @returns by model
 */
export async function ownBits({ real = false } = {}): Promise<Record<string, OwnBits>> {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-bits-'));
  try {
    const found: Record<string, OwnBits> = { tiny: await bitsOf('tiny', null) };
    for (const [name, options] of Object.entries(SYNTHETIC)) {
      const [file, adapter] = [
        path.join(folder, `${name}.gguf`),
        path.join(folder, 'adapter.gguf'),
      ];
      const shape = writeSyntheticModel(file, { seed: 7n, ...options });
      writeSyntheticAdapter(adapter, shape, { rank: 8, magnitude: 0.05, seed: 3n });
      found[name] = await bitsOf(file, adapter);
    }
    if (real && existsSync(REAL)) found['SmolLM2-135M-Instruct Q4_1'] = await bitsOf(REAL, null);
    return found;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
