/** What only benchmarks call of the addon: native/bindings/bench.cpp. */
import { loadAddon } from '../src/engine/addon.js';

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
    bf16: number | null;
    toFloat: number | null;
    openblas: number | null;
    ggmlOutProd: number | null;
  }>;
}

/**
 * Returns the functions of the engine's addon that only benchmarks call.
 * @throws IsoproError as loadAddon
 */
export const loadBenchAddon = (): BenchAddon => loadAddon().addon as unknown as BenchAddon;
