/** What a GGUF file says about itself, without loading it. */
import { z } from 'zod';
import { loadAddon, settled } from './addon.js';
import { dictionary, type Dictionary } from '../dictionary.js';
import { checked } from './generate-request.js';
import { resolveModel } from './model-files.js';
import type { ErrorCode } from '../errors.js';

export interface TensorSummary {
  readonly name: string;
  /** ggml's name: f32, q4_K, … */
  readonly type: string;
  /** `dimensions[0]` is the length of a row. */
  readonly dimensions: readonly number[];
  readonly bytes: number;
}

export interface ModelInspection {
  /** GGUF version. */
  readonly version: number;
  /** Size of the file. */
  readonly bytes: number;
  /** `general.type`; `model` where the file does not say. */
  readonly kind: string;
  /** Empty where the file names none. */
  readonly architecture: string;
  readonly name: string;
  readonly parameters: number;
  readonly vocabularySize: number;
  /** By tensor type, most bytes first. */
  readonly types: readonly { readonly type: string; readonly tensors: number; readonly parameters: number; readonly bytes: number }[];
  /** Scalars as text, arrays as their type and length, in the file's order. */
  readonly metadata: Dictionary<string>;
  readonly tensors: readonly TensorSummary[];
  /**
   * Why `loadModel` would refuse the file; null where nothing is known against it. Adapters are held against a base only when they are
   * loaded.
   */
  readonly problem: { readonly code: ErrorCode; readonly message: string } | null;
  /** Why `createTrainer` would refuse it: for `problem`, or since the trainer has no backward for what inference runs. */
  readonly trainingProblem: { readonly code: ErrorCode; readonly message: string } | null;
}

/**
 * Reads header, metadata and tensor table of a model or an adapter: a GGUF file, or an alias or URI that is in the cache.
 * @throws IsoproError MODEL_NOT_FOUND; MODEL_CORRUPT where the structure itself cannot be read
 */
export async function inspectModel(pathOrAlias: string): Promise<ModelInspection> {
  const { path } = await resolveModel(checked(z.string().min(1), pathOrAlias, 'pathOrAlias'), { download: false });
  const { metadata, ...inspection } = await settled(loadAddon().addon.inspectModel(path));
  return { ...inspection, metadata: dictionary(metadata) };
}
