/**
 * Model files with other weights: trained ones, or those of an adapter merged. Encoded in C++,
 * written piece by piece.
 */
import path from 'node:path';
import { z } from 'zod';
import { abortError, IsoproError } from '../errors.js';
import { loadAddon, settled, typed, type Addon, type NativeModelFile } from './addon.js';
import { modelShape, readAdapterFile, requireEverywhere } from './adapter-files.js';
import { sha256, writeFileAtomically } from './atomic-file.js';
import { abortSignal, callback, checked } from './argument-check.js';

/**
 * Types of the written matrices. Norms and biases are not converted; rows that are not whole blocks
 * of the type become f16.
 */
export const MODEL_TYPES = [
  'f32',
  'f16',
  'bf16',
  'q8_0',
  'q4_0',
  'q5_0',
  'q4_k',
  'q5_k',
  'q6_k',
] as const;
export type ModelType = (typeof MODEL_TYPES)[number];

export interface WrittenModel {
  /** SHA-256 of the file, in hexadecimal. */
  readonly sha256: string;
  readonly bytes: number;
  /** Number of tensors of each type, by ggml's names. */
  readonly types: Readonly<Record<string, number>>;
}

export const exportModelOptions = z.strictObject({
  /** Type of the matrices. Default 'f16'. */
  type: z.enum(MODEL_TYPES).default('f16'),
  signal: abortSignal.optional(),
  /** Called with the bytes written so far and in total. */
  onProgress: callback<(written: number, total: number) => void>().optional(),
});
export type ExportModelOptions = z.input<typeof exportModelOptions>;

const mergeRequest = exportModelOptions.extend({
  /** Path of the base model, a GGUF. */
  model: z.string().min(1),
  /** Path of the adapter, a GGUF or a folder in PEFT's format. */
  adapter: z.string().min(1),
  out: z.string().min(1),
});
export type MergeRequest = z.input<typeof mergeRequest>;

/**
 * Merges a LoRA adapter into a model: W + s B A, computed in f32 whatever the type of W, then
 * stored as `type`. Memory holds the adapter and a piece of a tensor, never the model.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_CORRUPT, MODEL_UNSUPPORTED, ARCH_UNSUPPORTED,
 *   ADAPTER_CORRUPT, ADAPTER_MISMATCH (shapes of another model), NUMERIC_FAILURE, WRITE_FAILED,
 *   INVALID_ARGUMENT, ABORTED; an older file is untouched
 */
export async function mergeAdapter(request: MergeRequest): Promise<WrittenModel> {
  const { model, adapter, out, type, ...control } = checked(mergeRequest, request, 'request');
  for (const source of [model, adapter]) {
    if (path.resolve(source) === path.resolve(out))
      throw new IsoproError('INVALID_ARGUMENT', `out would overwrite ${source}`);
  }
  const source = await readAdapterFile(adapter, await modelShape(model));
  requireEverywhere(adapter, source, 'it cannot be merged into its base model');
  const { modules } = source;
  return writeModel(loadAddon().addon, out, control, (native) =>
    native.merge(model, modules, type),
  );
}

/** Fills a model file and writes it. */
export async function writeModel(
  addon: Addon,
  file: string,
  { signal, onProgress }: Pick<z.output<typeof exportModelOptions>, 'signal' | 'onProgress'>,
  fill: (native: NativeModelFile) => Promise<void>,
): Promise<WrittenModel> {
  const native = typed(() => new addon.NativeModelFile());
  try {
    await settled(fill(native));
    const { bytes, types } = await settled(native.describe());
    const hash = sha256();
    async function* pieces(): AsyncGenerator<Uint8Array> {
      let written = 0;
      for (;;) {
        if (signal?.aborted === true) throw abortError(`writing ${file} was cancelled`, signal);
        const piece = await settled(native.next());
        if (piece === null) return;
        yield piece;
        written += piece.length;
        onProgress?.(written, bytes);
      }
    }
    await writeFileAtomically(file, hash.through(pieces()), 'follow');
    return { sha256: hash.digest(), bytes, types };
  } finally {
    await native.dispose();
  }
}
