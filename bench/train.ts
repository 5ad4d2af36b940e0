/**
 * One LoRA step (rank 16, seven targets, 512 tokens of which half are labelled) on the shapes of Qwen2.5 0.5B and 3B:
 * all layers, and the top layers with a cached boundary. The rate of the bare product is measured in between, with the
 * same threads, so that the ratio holds on a busy machine too.
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createTrainer, type TrainSequence } from '../src/engine/trainer.js';
import { Random } from '../src/random.js';
import { SHAPES, type ShapeName } from '../test/models/shapes.js';
import { loadBenchAddon } from './addon.js';
import { benchModel } from './models.js';

export interface TrainRow {
  readonly shape: string;
  readonly layers: number;
  readonly boundaryCached: boolean;
  /** Of the whole batch, labelled or not. */
  readonly tokensPerSecond: number;
  /** 2 weights tokens for each forward and each dX of the linear maps, recomputed blocks once more, the head on labelled rows. */
  readonly usefulGflops: number;
  /** Of the product alone: Y and dX of a Q4_K matrix of 2048 x 11008 at 512 tokens. */
  readonly gemmGflops: number;
  /** Peaks of this process, which maps the model, during its steps; null where the system does not say. */
  readonly peakRssBytes: number | null;
  readonly anonymousBytes: number | null;
  /** The same step in PyTorch, f32, right after; null where it was not asked for. */
  readonly torch: { readonly tokensPerSecond: number; readonly peakRssBytes: number } | null;
}

export interface TrainBenchOptions {
  readonly shapes: readonly ShapeName[];
  /** 0: all layers. */
  readonly top: readonly number[];
  readonly threads: number;
  readonly rounds: number;
  /** A Python that has PyTorch, to measure bench/peer/lora_step.py beside. */
  readonly torch?: string;
  readonly onRow?: (row: TrainRow) => void;
}

const TOKENS = 512;
const SEQUENCES = 2;

export async function benchTrain(options: TrainBenchOptions): Promise<{ rows: TrainRow[] }> {
  const rows: TrainRow[] = [];
  for (const shape of options.shapes) {
    for (const top of options.top) {
      const row = await benchOne(shape, top, options);
      rows.push(row);
      options.onRow?.(row);
    }
  }
  return { rows };
}

async function benchOne(shape: ShapeName, top: number, { threads, rounds, torch }: TrainBenchOptions): Promise<TrainRow> {
  const addon = loadBenchAddon();
  const all = SHAPES[shape].layers;
  const layers = top === 0 ? all : Math.min(top, all);
  const memory = watchMemory();
  const trainer = await createTrainer({ path: benchModel(shape) }, { threads, lora: { rank: 16, layers: { top: layers } } });
  const random = new Random(1n);
  const length = TOKENS / SEQUENCES;
  let batch: TrainSequence[] = Array.from({ length: SEQUENCES }, () => ({
    tokenIds: Int32Array.from({ length }, () => random.nextInteger(0, SHAPES[shape].vocabularySize - 1)),
    labelMask: Uint8Array.from({ length }, (_, t) => (t >= length / 2 ? 1 : 0)),
  }));
  if (layers < all) {
    const boundaries = await trainer.captureBoundary(batch);
    batch = batch.map((sequence, i) => ({ ...sequence, boundary: boundaries[i]! }));
  }
  const product = async (): Promise<number> => {
    const request = { type: 'q4_K', rows: 2048, columns: 11_008, tokens: TOKENS, threads, rounds: 2, peers: false } as const;
    const y = (await addon.productRates({ op: 'Y', ...request })).gflops;
    const dX = (await addon.productRates({ op: 'dX', ...request })).gflops;
    return 2 / (1 / y + 1 / dX);
  };
  const times: number[] = [];
  const products: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const started = performance.now();
    await trainer.step(batch);
    times.push((performance.now() - started) / 1000);
    if (round === 0) continue; // memory is touched for the first time
    memory.stop(); // the bare product has its own
    products.push(await product());
  }
  const time = median(times.slice(1));
  const useful = usefulFlops(shape, layers, trainer.info.keptLayers);
  await trainer.dispose();
  return {
    shape,
    layers,
    boundaryCached: layers < all,
    tokensPerSecond: TOKENS / time,
    usefulGflops: useful / time / 1e9,
    gemmGflops: median(products),
    ...memory.stop(),
    torch: torch === undefined ? null : await torchStep(torch, shape, layers, trainer.info.threads, rounds),
  };
}

/** Floating-point operations that a step must do, of the products with the model's weights alone. */
function usefulFlops(shape: ShapeName, layers: number, kept: number): number {
  const s = SHAPES[shape];
  const queries = s.heads * s.headDimension;
  const keys = s.keyValueHeads * s.headDimension;
  const block = s.embedding * (2 * queries + 2 * keys) + 3 * s.embedding * s.feedForward;
  const head = s.embedding * s.vocabularySize;
  return 2 * TOKENS * block * (2 * layers + (layers - kept)) + 2 * 2 * (TOKENS / 2) * head;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

/** bench/peer/lora_step.py lies in the repository, two folders above the compiled file, and is not part of the package. */
async function torchStep(python: string, shape: ShapeName, layers: number, threads: number, rounds: number): Promise<TrainRow['torch']> {
  const script = fileURLToPath(new URL('../../bench/peer/lora_step.py', import.meta.url));
  const { stdout } = await promisify(execFile)(python, [
    script,
    JSON.stringify(SHAPES[shape]),
    '--train',
    String(layers),
    '--threads',
    String(threads),
    '--steps',
    String(rounds),
  ]);
  const { seconds, peakRssBytes } = JSON.parse(stdout) as { seconds: number[]; peakRssBytes: number };
  return { tokensPerSecond: TOKENS / median(seconds), peakRssBytes };
}

/** Peaks of resident and anonymous memory of this process from now until the first stop(). */
function watchMemory(): { stop(): Pick<TrainRow, 'peakRssBytes' | 'anonymousBytes'> } {
  let peaks: Pick<TrainRow, 'peakRssBytes' | 'anonymousBytes'> | undefined;
  if (process.platform !== 'linux') return { stop: () => ({ peakRssBytes: null, anonymousBytes: null }) };
  const kilobytes = (key: string): number =>
    Number(new RegExp(`${key}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1024;
  writeFileSync('/proc/self/clear_refs', '5'); // the peak so far may be another row's (proc(5))
  let anonymousBytes = kilobytes('RssAnon');
  const timer = setInterval(() => (anonymousBytes = Math.max(anonymousBytes, kilobytes('RssAnon'))), 20);
  return {
    stop: () => {
      clearInterval(timer);
      return (peaks ??= { peakRssBytes: kilobytes('VmHWM'), anonymousBytes });
    },
  };
}
