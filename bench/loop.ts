/**
 * Time and memory of the loop's parts in the 3B shape: two iterations of rollouts and steps on the
 * top layers with cached boundaries, the adapter put to use in between. Weights are random, so no
 * reply could pass a verifier: every rollout is trained on, which costs what an accepted one costs.
 */
import { readFileSync } from 'node:fs';
import type { Matmul } from '../src/engine/addon.js';
import { loadModel } from '../src/engine/model.js';
import { Random } from '../src/random.js';
import { Learner } from '../src/training/learner.js';
import { exchange, type Episode } from '../src/rollouts/episode.js';
import { chunks } from '../src/algorithms/steps.js';
import { resolveSettings } from '../src/training/settings.js';

export interface LoopBenchOptions {
  readonly modelPath: string;
  readonly iterations: number;
  readonly rollouts: number;
  readonly samples: number;
  readonly tokens: number;
  readonly promptTokens: number;
  readonly topLayers: number;
  readonly batchSize: number;
  readonly seed: bigint;
  /** 0: the physical cores. */
  readonly threads: number;
  /** LoadModelOptions.matmul */
  readonly matmul: Matmul;
  readonly onIteration?: (iteration: LoopBenchIteration) => void;
  readonly onStage?: (stage: LoopBenchStage) => void;
}

/** Resident now. Mapped pages of the model file can be dropped by the system at any time. */
export interface Resident {
  /** Mapped and anonymous: a page that llama.cpp and the trainer both map counts twice. */
  readonly total: number;
  readonly mapped: number;
  readonly anonymous: number;
  /**
   * Proportional set: a page that is mapped twice counts once, which is what the machine has to
   * hold.
   */
  readonly proportional: number;
}

export interface LoopBenchStage {
  readonly iteration: number;
  readonly stage: string;
  readonly seconds: number;
  /** Null where the system does not say. */
  readonly resident: Resident | null;
}

export interface LoopBenchIteration {
  readonly iteration: number;
  readonly samplingSeconds: number;
  readonly trainingSeconds: number;
  readonly sampledTokensPerSecond: number;
  /** Prompt tokens included. */
  readonly trainedTokensPerSecond: number;
  readonly resident: Resident | null;
  /** Kept activations below the trained layers, which grow up to their limit. */
  readonly boundaryBytes: number;
}

export interface LoopBenchResult {
  readonly iterations: readonly LoopBenchIteration[];
  readonly stages: readonly LoopBenchStage[];
  /** The most that the system ever counted, loading included. */
  readonly peakRssBytes: number;
  /**
   * Where the resident total was largest once the model was loaded, looked at every second and
   * after each stage.
   */
  readonly peak: Resident | null;
  /**
   * Anonymous memory after the last iteration over that after the first, without the kept
   * activations.
   */
  readonly growth: number | null;
}

export function resident(): Resident | null {
  try {
    const status = readFileSync('/proc/self/status', 'utf8');
    const kilobytes = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)![1]) * 1024;
    const rollup = /^Pss:\s+(\d+) kB/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'));
    return {
      total: kilobytes('VmRSS'),
      mapped: kilobytes('RssFile') + kilobytes('RssShmem'),
      anonymous: kilobytes('RssAnon'),
      proportional: Number(rollup![1]) * 1024,
    };
  } catch {
    return null;
  }
}

export async function benchLoop(options: LoopBenchOptions): Promise<LoopBenchResult> {
  const {
    modelPath,
    iterations,
    rollouts,
    samples,
    tokens,
    promptTokens,
    topLayers,
    batchSize,
    seed,
    threads,
    matmul,
  } = options;
  const settings = resolveSettings({
    seed: String(seed),
    model: { name: modelPath, threads, matmul },
    layers: { choice: 'last', topLayers },
  });
  await using model = await loadModel(modelPath, {
    fixedThreads: true,
    matmul,
    ...(threads === 0 ? {} : { threads }),
    contextTokens: (rollouts / samples) * promptTokens + rollouts * tokens + 1024,
  });
  const { layers, vocabularySize } = model.info;
  const random = new Random(seed);
  const learner = await Learner.create({
    model,
    settings: { ...settings, model: { ...settings.model, threads: model.info.threads } },
    layers: Array.from(
      { length: Math.min(topLayers, layers) },
      (_, i) => layers - Math.min(topLayers, layers) + i,
    ),
  });
  const results: LoopBenchIteration[] = [];
  const stages: LoopBenchStage[] = [];
  let peak: Resident | null = null;
  const seenNow = (): Resident | null => {
    const now = resident();
    if (now !== null && (peak === null || now.total > peak.total)) peak = now;
    return now;
  };
  const watch = setInterval(seenNow, 1000);
  let since = performance.now();
  const look = (iteration: number, stage: string): Resident | null => {
    const now = performance.now();
    const seen = { iteration, stage, seconds: (now - since) / 1000, resident: seenNow() };
    since = now;
    stages.push(seen);
    options.onStage?.(seen);
    return seen.resident;
  };
  look(0, 'loaded');
  try {
    for (let iteration = 1; iteration <= iterations; iteration++) {
      const prompts = Array.from({ length: rollouts / samples }, () => ({
        tokenIds: Int32Array.from({ length: promptTokens }, () =>
          random.nextInteger(256, vocabularySize - 1024),
        ),
      }));
      const traces: { key: string; episode: Episode }[] = [];
      const begin = performance.now();
      for await (const { promptIds, tokenIds, promptIndex, sampleIndex } of model.generate({
        prompts,
        samples,
        sampling: { temperature: 0.8, seed: seed + BigInt(iteration) },
        maxTokens: tokens,
        ignoreEndOfSequence: true,
      })) {
        traces.push({
          key: `${iteration}/${promptIndex}/${sampleIndex}`,
          episode: exchange(promptIds, tokenIds),
        });
      }
      const sampled = performance.now();
      look(iteration, 'sampled');
      await model.releaseContext();
      for (const [index, batch] of chunks(traces, batchSize).entries()) {
        const sequences = await learner.boundaries.sequences(batch);
        look(iteration, `boundaries ${index + 1}`);
        await learner.trainer.step(sequences);
        look(iteration, `step ${index + 1}`);
      }
      await learner.apply();
      const trained = performance.now();
      const result = {
        iteration,
        samplingSeconds: (sampled - begin) / 1000,
        trainingSeconds: (trained - sampled) / 1000,
        sampledTokensPerSecond: (1000 * rollouts * tokens) / (sampled - begin),
        trainedTokensPerSecond: (1000 * rollouts * (promptTokens + tokens)) / (trained - sampled),
        resident: look(iteration, 'adapter applied'),
        boundaryBytes: learner.boundaries.bytes,
      };
      results.push(result);
      options.onIteration?.(result);
    }
  } finally {
    clearInterval(watch);
    await learner.dispose();
  }
  const kept = ({ resident, boundaryBytes }: LoopBenchIteration): number | null =>
    resident === null ? null : resident.anonymous - boundaryBytes;
  const [first, last] = [results[0], results.at(-1)].map((result) =>
    result === undefined ? null : kept(result),
  );
  return {
    iterations: results,
    stages,
    peakRssBytes: process.resourceUsage().maxRSS * 1024,
    peak,
    growth: first == null || last == null ? null : last - first,
  };
}
