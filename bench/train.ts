/**
 * One LoRA step (rank 16, seven targets) on the shapes of Qwen2.5 0.5B and 3B. Either 512 tokens of
 * which half are labelled, all layers and the top ones with a cached boundary, beside the rate of
 * the bare product with the same threads, so that the ratio holds on a busy machine too; or a group
 * of replies to one prompt, which they share and do not share by turns. Each row is measured in a
 * process of its own.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { requirePrecision } from '../src/engine/precision.js';
import type { Precision } from '../src/engine/training-request.js';
import { IsoproError } from '../src/errors.js';
import { SHAPES, type ShapeName } from '../test/models/shapes.js';
import type {
  GroupRequest,
  GroupRow,
  PromptsRequest,
  PromptsRow,
  RowReply,
  StepRequest,
  StepRow,
} from './train-row.js';

export interface TrainRow extends StepRow {
  /** The same step in PyTorch, f32, right after; null where it was not asked for. */
  readonly torch: { readonly tokensPerSecond: number; readonly peakRssBytes: number } | null;
}

interface RowOptions {
  readonly shapes: readonly ShapeName[];
  /** 0: all layers. */
  readonly top: readonly number[];
  readonly threads: number;
  readonly rounds: number;
  /** With bf16, the same step in f32 is measured by turns. */
  readonly precision: Precision;
}

export interface TrainBenchOptions extends RowOptions {
  /** A Python that has PyTorch, to measure bench/peer/lora_step.py beside. */
  readonly torch?: string;
  readonly onRow?: (row: TrainRow) => void;
}

export interface GroupBenchOptions extends RowOptions {
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** Replies. */
  readonly group: number;
  /** Of the trainer. Default: GROUP_MEMORY. */
  readonly memoryBytes?: number;
  readonly onRow?: (row: GroupRow) => void;
}

export interface PromptsBenchOptions extends Omit<RowOptions, 'top' | 'precision'> {
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** Sequences of a step, each with a prompt of its own. */
  readonly sequences: number;
  /** Of the trainer. Default: the trainer's. */
  readonly memoryBytes?: number;
  readonly onRow?: (row: PromptsRow) => void;
}

/**
 * Of eight replies of 100 tokens to a prompt of 300 it holds all activations in the smaller shape,
 * the inputs of the blocks in the larger.
 */
const GROUP_MEMORY: Readonly<Record<ShapeName, number>> = {
  'qwen2.5-0.5b': 1_600_000_000,
  'qwen2.5-3b': 1_000_000_000,
  'smollm2-135m': 600_000_000,
};

/** @throws IsoproError as createTrainer and step do; NATIVE_ADDON_MISSING */
export async function benchTrain({
  torch,
  onRow,
  ...options
}: TrainBenchOptions): Promise<{ rows: TrainRow[] }> {
  requirePrecision(options.precision, 'precision');
  const rows: TrainRow[] = [];
  for (const request of rowsOf(options)) {
    const row = await measured<StepRow>({ kind: 'step', ...request });
    const peer =
      torch === undefined
        ? null
        : await torchStep(torch, request.shape, request.layers, row.threads, options.rounds);
    rows.push({ ...row, torch: peer });
    onRow?.(rows.at(-1)!);
  }
  return { rows };
}

/** @throws IsoproError as benchTrain */
export async function benchGroup({
  onRow,
  ...options
}: GroupBenchOptions): Promise<{ rows: GroupRow[] }> {
  const { promptTokens, replyTokens, group } = options;
  requirePrecision(options.precision, 'precision');
  const rows: GroupRow[] = [];
  for (const request of rowsOf(options)) {
    const memoryBytes = options.memoryBytes ?? GROUP_MEMORY[request.shape];
    rows.push(
      await measured<GroupRow>({
        kind: 'group',
        ...request,
        promptTokens,
        replyTokens,
        group,
        memoryBytes,
      }),
    );
    onRow?.(rows.at(-1)!);
  }
  return { rows };
}

/** A step of an adapter that acts from the reply on beside one of an ordinary adapter. */
export async function benchPrompts({
  onRow,
  ...options
}: PromptsBenchOptions): Promise<{ rows: PromptsRow[] }> {
  const { shapes, ...rest } = options;
  const rows: PromptsRow[] = [];
  for (const shape of shapes) {
    rows.push(await measured<PromptsRow>({ kind: 'prompts', shape, layers: 0, ...rest }));
    onRow?.(rows.at(-1)!);
  }
  return { rows };
}

const rowsOf = ({
  shapes,
  top,
  threads,
  rounds,
  precision,
}: RowOptions): Omit<StepRequest, 'kind'>[] =>
  shapes.flatMap((shape) =>
    top.map((count) => ({
      shape,
      layers: count === 0 ? SHAPES[shape].layers : Math.min(count, SHAPES[shape].layers),
      threads,
      rounds,
      precision,
    })),
  );

async function measured<Row extends StepRow | GroupRow | PromptsRow>(
  request: StepRequest | GroupRequest | PromptsRequest,
): Promise<Row> {
  const script = fileURLToPath(new URL('train-row.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(request)]);
  const reply = JSON.parse(stdout) as RowReply;
  if ('error' in reply)
    throw new IsoproError(reply.error.code, reply.error.message, { remedy: reply.error.remedy });
  return reply.row as Row;
}

const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

/**
 * bench/peer/lora_step.py lies in the repository, two folders above the compiled file, and is not
 * part of the package.
 */
async function torchStep(
  python: string,
  shape: ShapeName,
  layers: number,
  threads: number,
  rounds: number,
): Promise<TrainRow['torch']> {
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
  const { seconds, peakRssBytes } = JSON.parse(stdout) as {
    seconds: number[];
    peakRssBytes: number;
  };
  return { tokensPerSecond: 512 / median(seconds), peakRssBytes };
}
