/**
 * Tokens a second of batched sampling: ours, a bare llama_decode loop at the same batch, and
 * node-llama-cpp doing the same job with its own batching, in one run. Sampled tokens over the
 * whole time, prompts included; end-of-sequence is ignored, so that every sample has exactly
 * `tokens` tokens. All three: same threads, same f16 KV cache, flash attention; ours and
 * node-llama-cpp sample at temperature 0.8, the bare loop takes the argmax.
 */
import type { Matmul } from '../src/engine/addon.js';
import { loadModel } from '../src/engine/model.js';
import { requirePackage } from '../src/optional-package.js';
import { Random } from '../src/random.js';
import { loadBenchAddon } from './addon.js';
import { PEER_CONTEXT } from './peer/node-llama-cpp.js';

export interface RolloutBenchOptions {
  readonly modelPath: string;
  readonly prompts: number;
  readonly samples: number;
  readonly tokens: number;
  readonly promptTokens: number;
  readonly rounds: number;
  readonly seed: bigint;
  /** Our kernels (LoadModelOptions.matmul); the others use ggml's. */
  readonly matmul: Matmul;
  /** Default: the physical cores. */
  readonly threads?: number;
  readonly onRound?: (round: number, of: keyof RolloutBenchResult, tokensPerSecond: number) => void;
}

/** Medians over the rounds, in sampled tokens a second. */
export interface RolloutBenchResult {
  readonly ours: number;
  readonly bareLoop: number;
  readonly nodeLlamaCpp: number;
}

const TEMPERATURE = 0.8;

export async function benchRollout(options: RolloutBenchOptions): Promise<RolloutBenchResult> {
  const { prompts: promptCount, samples, tokens, promptTokens, rounds, seed, onRound } = options;
  requirePackage('node-llama-cpp', 'Measuring against node-llama-cpp');
  const bench = loadBenchAddon();
  const sampled = promptCount * samples * tokens;
  const contextTokens = promptCount * promptTokens + promptCount * samples * tokens;
  const model = await loadModel(options.modelPath, {
    fixedThreads: true,
    contextTokens,
    matmul: options.matmul,
    ...(options.threads === undefined ? {} : { threads: options.threads }),
  });
  const random = new Random(seed);
  const prompts = Array.from({ length: promptCount }, () =>
    Int32Array.from({ length: promptTokens }, () =>
      random.nextInteger(256, model.info.vocabularySize - 1024),
    ),
  );

  const { getLlama, LlamaLogLevel } = await import('node-llama-cpp');
  const appleSilicon = process.platform === 'darwin' && process.arch === 'arm64';
  const llama = await getLlama({
    gpu: appleSilicon ? 'metal' : false,
    build: 'never',
    logLevel: LlamaLogLevel.disabled,
    maxThreads: model.info.threads,
  });
  const peer = await llama.loadModel({ modelPath: options.modelPath });
  const bare = await bench.openModel(
    options.modelPath,
    appleSilicon ? 100_000 : 0,
    model.info.kvType,
  );
  const bareLoop = (samples: number, tokens: number): Promise<number> =>
    bench.bareLoop(bare, prompts, samples, tokens, model.info.threads);

  const ours = async (): Promise<void> => {
    let count = 0;
    for await (const rollout of model.generate({
      prompts: prompts.map((tokenIds) => ({ tokenIds })),
      samples,
      sampling: { temperature: TEMPERATURE, seed },
      maxTokens: tokens,
      ignoreEndOfSequence: true,
    })) {
      count += rollout.tokenIds.length;
    }
    if (count !== sampled) throw new Error(`expected ${sampled} sampled tokens, got ${count}`);
  };

  const nodeLlamaCpp = async (): Promise<number> => {
    const context = await peer.createContext({
      ...PEER_CONTEXT,
      sequences: promptCount * samples,
      contextSize: promptTokens + tokens,
      batchSize: 512,
      threads: model.info.threads,
    });
    const begin = performance.now();
    let count = 0;
    await Promise.all(
      prompts.flatMap((prompt, p) =>
        Array.from({ length: samples }, async (_, s) => {
          const sequence = context.getSequence();
          let own = 0;
          for await (const _token of sequence.evaluate(
            [...prompt] as Parameters<typeof sequence.evaluate>[0],
            {
              temperature: TEMPERATURE,
              topK: 0,
              topP: 1,
              seed: p * samples + s,
              yieldEogToken: true,
            },
          )) {
            count++;
            if (++own === tokens) break;
          }
          sequence.dispose();
        }),
      ),
    );
    const seconds = (performance.now() - begin) / 1000;
    await context.dispose();
    if (count !== sampled)
      throw new Error(`node-llama-cpp sampled ${count} tokens instead of ${sampled}`);
    return seconds;
  };

  const rates: Record<keyof RolloutBenchResult, number[]> = {
    ours: [],
    bareLoop: [],
    nodeLlamaCpp: [],
  };
  const record = (of: keyof RolloutBenchResult, round: number, seconds: number): void => {
    rates[of].push(sampled / seconds);
    onRound?.(round, of, sampled / seconds);
  };
  try {
    // One short pass each, so that no round pays for reading the file or for the first allocation.
    await bareLoop(1, 2);
    for await (const _ of model.generate({
      prompts: prompts.map((tokenIds) => ({ tokenIds })),
      samples,
      maxTokens: 2,
    }));
    for (let round = 1; round <= rounds; round++) {
      record('bareLoop', round, await bareLoop(samples, tokens));
      const begin = performance.now();
      await ours();
      record('ours', round, (performance.now() - begin) / 1000);
      record('nodeLlamaCpp', round, await nodeLlamaCpp());
    }
  } finally {
    await model.dispose();
    await peer.dispose();
    await llama.dispose();
  }
  return {
    ours: median(rates.ours),
    bareLoop: median(rates.bareLoop),
    nodeLlamaCpp: median(rates.nodeLlamaCpp),
  };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
