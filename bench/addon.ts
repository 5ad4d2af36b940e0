/**
 * The addon that only benchmarks load: native/bench. `npm run build:native` makes it; `npm install`
 * does not.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { loadAddon, packageRoot } from '../src/engine/addon.js';
import { IsoproError } from '../src/errors.js';

export interface BenchAddon {
  /** A handle of the model, freed when it is collected. gpuLayers -1: all. */
  openModel(path: string, gpuLayers: number, kvType: string): Promise<object>;
  /** Seconds of a bare llama_decode loop. */
  bareLoop(
    model: object,
    prompts: Int32Array[],
    samples: number,
    tokens: number,
    threads: number,
  ): Promise<number>;
  /** GFLOP/s of one product, medians of interleaved rounds; null where a peer is absent. */
  productRates(request: {
    op: 'Y' | 'dX';
    /** ggml's name of the type: q4_K, q8_0, f32 ... */
    type: string;
    rows: number;
    columns: number;
    tokens: number;
    /** 0: the physical cores. */
    threads: number;
    rounds: number;
    /** Measure the others too, everything in processor time then. */
    peers: boolean;
  }): Promise<{
    gflops: number;
    toFloat: number | null;
    openblas: number | null;
    ggmlOutProd: number | null;
  }>;
}

/**
 * The addon of the package in `root`, and with it the engine's own, which registers llama.cpp's
 * back ends.
 * @throws IsoproError NATIVE_ADDON_MISSING where it is not built, and what loadAddon throws
 */
export function loadBenchAddon(root = packageRoot()): BenchAddon {
  const file = path.join(root, 'build', 'Release', 'isopro_bench.node');
  if (!existsSync(file)) {
    throw new IsoproError(
      'NATIVE_ADDON_MISSING',
      `there is no addon of the benchmarks at ${file}`,
      {
        remedy: `Run \`npm run build:native\` in ${root}; it needs a C++ compiler, CMake and git.`,
      },
    );
  }
  loadAddon();
  return createRequire(import.meta.url)(file) as BenchAddon;
}
