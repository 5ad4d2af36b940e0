/**
 * One row of `bench train`, measured in a process of its own (train.ts starts it): memory that
 * another row touched is not counted, and what it left in the allocator is not found again.
 */
import { readFileSync } from 'node:fs';
import {
  createTrainer,
  type Trainer,
  type TrainerOptions,
  type TrainSequence,
} from '../src/engine/trainer.js';
import type { Precision } from '../src/engine/training-request.js';
import { IsoproError } from '../src/errors.js';
import { given } from '../src/given.js';
import { Random } from '../src/random.js';
import { SHAPES, type ShapeName } from '../test/models/shapes.js';
import { loadBenchAddon } from './addon.js';
import { benchModel } from './models.js';

export interface StepRow {
  readonly shape: string;
  readonly layers: number;
  readonly boundaryCached: boolean;
  /** Of the whole batch, labelled or not. */
  readonly tokensPerSecond: number;
  /**
   * 2 weights tokens for each forward and each dX of the linear maps, recomputed blocks once more,
   * the head on labelled rows.
   */
  readonly usefulGflops: number;
  /** Of the product alone: Y and dX of a Q4_K matrix of 2048 x 11008 at 512 tokens. */
  readonly gemmGflops: number;
  /**
   * Peaks of this process, which maps the model, during its steps; null where the system does not
   * say.
   */
  readonly peakRssBytes: number | null;
  readonly anonymousBytes: number | null;
  /** Threads that the trainer took. */
  readonly threads: number;
  /** Null where the row itself is in f32. */
  readonly beside: BesideF32 | null;
}

/** The same step in f32, measured by turns with the row's own in bf16. */
export interface BesideF32 {
  readonly tokensPerSecond: number;
  /** Processor seconds of a step in f32 over those in bf16. */
  readonly times: number;
}

/** Tokens/s of a step on a group of replies to one prompt, every reply counted with its prompt. */
export interface GroupRow {
  readonly shape: string;
  readonly layers: number;
  readonly shared: number;
  /** The same, with prompts that differ in their first token. */
  readonly unshared: number;
  /** Of the step with the prompt shared; null where the row itself is in f32. */
  readonly beside: BesideF32 | null;
  readonly peakRssBytes: number | null;
  readonly anonymousBytes: number | null;
}

/** Processor seconds of a step of sequences with a prompt each; medians of interleaved rounds. */
export interface PromptsRow {
  readonly shape: string;
  readonly ordinary: number;
  /** Of an adapter that acts from the reply on, with prompts that are new. */
  readonly evaluated: number;
  /** The same with keys and values of the prompts kept from the step before. */
  readonly kept: number;
  readonly peakRssBytes: number | null;
  readonly anonymousBytes: number | null;
}

interface RowRequest {
  readonly shape: ShapeName;
  /** Trained, from the top. */
  readonly layers: number;
  readonly threads: number;
  readonly rounds: number;
  readonly precision: Precision;
}

export interface StepRequest extends RowRequest {
  readonly kind: 'step';
}

export interface GroupRequest extends RowRequest {
  readonly kind: 'group';
  readonly promptTokens: number;
  readonly replyTokens: number;
  readonly group: number;
  readonly memoryBytes: number;
}

export interface PromptsRequest extends Omit<RowRequest, 'precision'> {
  readonly kind: 'prompts';
  readonly promptTokens: number;
  readonly replyTokens: number;
  readonly sequences: number;
  readonly memoryBytes?: number;
}

/** What this process prints. */
export type RowReply =
  | { readonly row: StepRow | GroupRow | PromptsRow }
  | { readonly error: ReturnType<IsoproError['toJSON']> };

const TOKENS = 512;
const SEQUENCES = 2;

async function measureStep({
  shape,
  layers,
  threads,
  rounds,
  precision,
}: StepRequest): Promise<StepRow> {
  const addon = loadBenchAddon();
  const all = SHAPES[shape].layers;
  const memory = watchMemory();
  const options = { threads, lora: { rank: 16, layers: { top: layers } } };
  await using trainer = await createTrainer({ path: benchModel(shape) }, { ...options, precision });
  await using exact = await besideOf(precision, shape, options);
  const random = new Random(1n);
  const length = TOKENS / SEQUENCES;
  let batch: TrainSequence[] = Array.from({ length: SEQUENCES }, () => ({
    tokenIds: tokens(random, shape, length),
    labelMask: Uint8Array.from({ length }, (_, t) => (t >= length / 2 ? 1 : 0)),
  }));
  if (layers < all) {
    const boundaries = await trainer.captureBoundary(batch);
    batch = batch.map((sequence, i) => ({ ...sequence, boundary: boundaries[i]! }));
  }
  const product = async (): Promise<number> => {
    const request = {
      type: 'q4_K',
      rows: 2048,
      columns: 11_008,
      tokens: TOKENS,
      threads,
      rounds: 2,
      peers: false,
    } as const;
    const y = (await addon.productRates({ op: 'Y', ...request })).gflops;
    const dX = (await addon.productRates({ op: 'dX', ...request })).gflops;
    return 2 / (1 / y + 1 / dX);
  };
  const times: Cost[] = [];
  const exactTimes: Cost[] = [];
  const products: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const time = await cost(() => trainer.step(batch));
    const exactTime = exact === undefined ? undefined : await cost(() => exact.step(batch));
    if (round === 0) continue; // memory is touched for the first time
    times.push(time);
    if (exactTime !== undefined) exactTimes.push(exactTime);
    memory.stop(); // the bare product has its own
    products.push(await product());
  }
  const time = median(times.map(({ seconds }) => seconds));
  return {
    shape,
    layers,
    boundaryCached: layers < all,
    tokensPerSecond: TOKENS / time,
    usefulGflops: usefulFlops(shape, layers, trainer.info.keptLayers) / time / 1e9,
    gemmGflops: median(products),
    ...memory.stop(),
    threads: trainer.info.threads,
    beside: beside(times, exactTimes, TOKENS),
  };
}

/** A trainer in f32 to measure by turns, where the first is in another precision. */
const besideOf = async (
  precision: Precision,
  shape: ShapeName,
  options: TrainerOptions,
): Promise<Trainer | undefined> =>
  precision === 'f32' ? undefined : createTrainer({ path: benchModel(shape) }, options);

function beside(
  times: readonly Cost[],
  exact: readonly Cost[],
  tokensOfStep: number,
): BesideF32 | null {
  if (exact.length === 0) return null;
  const processor = (of: readonly Cost[]): number => median(of.map((each) => each.processor));
  return {
    tokensPerSecond: tokensOfStep / median(exact.map(({ seconds }) => seconds)),
    times: processor(exact) / processor(times),
  };
}

async function measureGroup(request: GroupRequest): Promise<GroupRow> {
  const { shape, layers, threads, rounds, promptTokens, replyTokens, group, memoryBytes } = request;
  const memory = watchMemory();
  const options = { threads, memoryBytes, lora: { rank: 16, layers: { top: layers } } };
  await using trainer = await createTrainer(
    { path: benchModel(shape) },
    { ...options, precision: request.precision },
  );
  await using exact = await besideOf(request.precision, shape, options);
  const random = new Random(1n);
  const prompt = tokens(random, shape, promptTokens);
  const replies = Array.from({ length: group }, () => tokens(random, shape, replyTokens));
  const batchOf = (promptOf: (index: number) => Int32Array): Promise<TrainSequence[]> =>
    withBoundaries(
      replies.map((reply, index) => ({
        tokenIds: Int32Array.of(...promptOf(index), ...reply),
        labelMask: Uint8Array.from({ length: promptTokens + replyTokens }, (_, t) =>
          t >= promptTokens ? 1 : 0,
        ),
      })),
    );
  const withBoundaries = async (batch: TrainSequence[]): Promise<TrainSequence[]> => {
    if (layers === SHAPES[shape].layers) return batch;
    const boundaries = await trainer.captureBoundary(batch);
    return batch.map((sequence, i) => ({ ...sequence, boundary: boundaries[i]! }));
  };
  const batches = [
    await batchOf(() => prompt),
    await batchOf((index) => Int32Array.of(index, ...prompt.subarray(1))),
  ];
  await trainer.step(batches[0]!.slice(0, 1)); // the weights are read for the first time
  await exact?.step(batches[0]!.slice(0, 1));
  const times: Cost[][] = [[], []];
  const exactTimes: Cost[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const [which, batch] of batches.entries())
      times[which]!.push(await cost(() => trainer.step(batch)));
    if (exact !== undefined) exactTimes.push(await cost(() => exact.step(batches[0]!)));
  }
  const tokensOfStep = group * (promptTokens + replyTokens);
  const rate = (of: readonly Cost[]): number =>
    tokensOfStep / median(of.map(({ seconds }) => seconds));
  return {
    shape,
    layers,
    shared: rate(times[0]!),
    unshared: rate(times[1]!),
    beside: beside(times[0]!, exactTimes, tokensOfStep),
    ...memory.stop(),
  };
}

/** What chat templates write before a reply has three tokens, or about as many. */
const INVOCATION = Int32Array.of(5, 6, 7);

async function measurePrompts(request: PromptsRequest): Promise<PromptsRow> {
  const { shape, threads, rounds, promptTokens, replyTokens, sequences } = request;
  const memory = watchMemory();
  const options = { threads, lora: { rank: 8 }, ...given(request, 'memoryBytes') };
  const model = { path: benchModel(shape) };
  await using ordinary = await createTrainer(model, options);
  await using activated = await createTrainer(model, { ...options, invocationTokens: INVOCATION });
  const random = new Random(1n);
  const batchOf = (): TrainSequence[] =>
    Array.from({ length: sequences }, () => ({
      tokenIds: Int32Array.of(
        ...tokens(random, shape, promptTokens - INVOCATION.length),
        ...INVOCATION,
        ...tokens(random, shape, replyTokens),
      ),
      labelMask: Uint8Array.from({ length: promptTokens + replyTokens }, (_, t) =>
        t >= promptTokens ? 1 : 0,
      ),
    }));
  const first = batchOf().slice(0, 1); // memory is touched for the first time
  for (const trainer of [ordinary, activated]) await trainer.step(first);
  const times: number[][] = [[], [], []];
  for (let round = 0; round < rounds; round++) {
    const batch = batchOf();
    for (const [which, trainer] of [ordinary, activated, activated].entries())
      times[which]!.push(await processorSeconds(() => trainer.step(batch)));
  }
  const [all, evaluated, kept] = times.map(median) as [number, number, number];
  return { shape, ordinary: all, evaluated, kept, ...memory.stop() };
}

async function processorSeconds(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

const tokens = (random: Random, shape: ShapeName, length: number): Int32Array =>
  Int32Array.from({ length }, () => random.nextInteger(0, SHAPES[shape].vocabularySize - 1));

interface Cost {
  /** By the clock. */
  readonly seconds: number;
  /** Processor seconds of all threads. */
  readonly processor: number;
}

async function cost(work: () => Promise<unknown>): Promise<Cost> {
  const before = process.cpuUsage();
  const started = performance.now();
  await work();
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(before);
  return { seconds, processor: (user + system) / 1e6 };
}

/**
 * Floating-point operations that a step must do, of the products with the model's weights alone.
 */
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

/** Peaks of resident and anonymous memory of this process from now until the first stop(). */
function watchMemory(): { stop(): Pick<StepRow, 'peakRssBytes' | 'anonymousBytes'> } {
  let peaks: Pick<StepRow, 'peakRssBytes' | 'anonymousBytes'> | undefined;
  if (process.platform !== 'linux')
    return { stop: () => ({ peakRssBytes: null, anonymousBytes: null }) };
  const kilobytes = (key: string): number =>
    Number(new RegExp(`${key}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))![1]) *
    1024;
  let anonymousBytes = kilobytes('RssAnon');
  const timer = setInterval(
    () => (anonymousBytes = Math.max(anonymousBytes, kilobytes('RssAnon'))),
    20,
  );
  return {
    stop: () => {
      clearInterval(timer);
      return (peaks ??= { peakRssBytes: kilobytes('VmHWM'), anonymousBytes });
    },
  };
}

const request = JSON.parse(process.argv[2]!) as StepRequest | GroupRequest | PromptsRequest;
const measuring: Promise<StepRow | GroupRow | PromptsRow> =
  request.kind === 'step'
    ? measureStep(request)
    : request.kind === 'group'
      ? measureGroup(request)
      : measurePrompts(request);
const reply = await measuring.then(
  (row): RowReply => ({ row }),
  (error: unknown): RowReply => {
    if (!(error instanceof IsoproError)) throw error;
    return { error: error.toJSON() };
  },
);
process.stdout.write(JSON.stringify(reply));
