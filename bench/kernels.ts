/**
 * GFLOP/s of the trainer's products over quantised weights, dequantisation included, beside
 * OpenBLAS sgemm on f32 copies of the same weights and ggml's out_prod, in interleaved rounds with
 * the same number of threads; by processor time, so that it matters little what else runs.
 */
import { loadBenchAddon } from './addon.js';

export interface KernelRow {
  readonly op: 'Y' | 'dX';
  readonly type: string;
  readonly tokens: number;
  readonly gflops: number;
  /** The same products with operands rounded to bf16; null where this processor has none. */
  readonly bf16: number | null;
  /**
   * The same products, their tiles dequantised by ggml's to_float: what the code of our own for a
   * type gains.
   */
  readonly toFloat: number | null;
  /** null where libopenblas is absent. */
  readonly openblas: number | null;
  /** null for Y. */
  readonly ggmlOutProd: number | null;
}

export interface KernelBenchOptions {
  readonly rows: number;
  readonly columns: number;
  readonly tokens: readonly number[];
  readonly types: readonly string[];
  readonly threads: number;
  readonly rounds: number;
  readonly onRow?: (row: KernelRow) => void;
}

export async function benchKernels(options: KernelBenchOptions): Promise<{ rows: KernelRow[] }> {
  const addon = loadBenchAddon();
  const rows: KernelRow[] = [];
  for (const type of options.types) {
    for (const tokens of options.tokens) {
      for (const op of ['Y', 'dX'] as const) {
        const { rows: matrixRows, columns, threads, rounds } = options;
        const row = {
          op,
          type,
          tokens,
          ...(await addon.productRates({
            op,
            type,
            tokens,
            rows: matrixRows,
            columns,
            threads,
            rounds,
            peers: true,
          })),
        };
        rows.push(row);
        options.onRow?.(row);
      }
    }
  }
  return { rows };
}
