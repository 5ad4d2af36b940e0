/**
 * Estimate of a model's memory before it is loaded: weights and KV cache. Working buffers take
 * about 5 to 10 % more.
 */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { ModelInspection } from './inspect.js';
import { splitParts } from './model-location.js';

export interface MemoryEstimate {
  /** All tensors, of every part. */
  readonly weightsBytes: number;
  /**
   * Keys and values of one token in all layers, in f16. Models with sliding-window layers take
   * less.
   */
  readonly kvBytesPerToken: number;
  readonly contextTokens: number;
  readonly kvBytes: number;
  /** State of one sequence, whatever its length: of a recurrent model, else 0. */
  readonly stateBytes: number;
  /** With the state of one sequence. */
  readonly totalBytes: number;
}

const F16_BYTES = 2;
/** As in native/inference/context.h. */
const MOST_STATE_BYTES = 2 ** 30;

/** States of the replies that a running batch has at once, of a model that keeps one for each. */
export const batchStateBytes = (stateBytes: number, maxSequences: number): number =>
  stateBytes *
  Math.min(maxSequences, Math.max(1, Math.floor(MOST_STATE_BYTES / Math.max(1, stateBytes))));

/** Estimates the memory of a model; null for a file without dimensions, such as an adapter. */
export async function estimateMemory(
  file: string,
  inspection: ModelInspection,
  contextTokens: number,
): Promise<MemoryEstimate | null> {
  const { architecture, metadata, cache } = inspection;
  const dimension = (name: string): number => Number(metadata[`${architecture}.${name}`] ?? NaN);
  const heads = dimension('attention.head_count');
  const keyValueHeads =
    `${architecture}.attention.head_count_kv` in metadata
      ? dimension('attention.head_count_kv')
      : heads;
  const headDimension = dimension('embedding_length') / heads;
  const orDefault = (value: number): number => (Number.isNaN(value) ? headDimension : value);
  // The formula: of files that do not load, such as the first part of several.
  const valuesPerToken =
    cache?.valuesPerToken ??
    dimension('block_count') *
      keyValueHeads *
      (orDefault(dimension('attention.key_length')) +
        orDefault(dimension('attention.value_length')));
  const kvBytesPerToken = F16_BYTES * valuesPerToken;
  if (!Number.isFinite(kvBytesPerToken)) return null;
  const weightsBytes =
    inspection.types.reduce((sum, { bytes }) => sum + bytes, 0) + (await furtherPartsBytes(file));
  const kvBytes = kvBytesPerToken * contextTokens;
  const stateBytes = cache?.stateBytes ?? 0;
  return {
    weightsBytes,
    kvBytesPerToken,
    contextTokens,
    kvBytes,
    stateBytes,
    totalBytes: weightsBytes + kvBytes + stateBytes,
  };
}

/** The parts after the first hold almost nothing but tensors. */
async function furtherPartsBytes(file: string): Promise<number> {
  let bytes = 0;
  for (const part of splitParts(path.basename(file)).slice(1)) {
    bytes += await stat(path.join(path.dirname(file), part)).then(
      ({ size }) => size,
      () => 0,
    );
  }
  return bytes;
}
