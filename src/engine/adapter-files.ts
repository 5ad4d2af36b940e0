/** Adapter files apart from training: read in either format, examined, converted. */
import { hash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { requireFile, type Link } from '../files.js';
import { hashFile } from './adapter.js';
import { loadAddon, settled, typed, type AdapterModule, type ModelShape } from './addon.js';
import { sha256, writeFileAtomically, writeFilesAtomically } from './atomic-file.js';
import { checked } from './argument-check.js';
import { isPeft, PEFT_CONFIG, peftConfig, peftTensors, PEFT_WEIGHTS, readPeft } from './peft.js';
import { encodeSafetensors } from './safetensors.js';

/** GGUF for llama.cpp, or PEFT's folder of adapter_model.safetensors and adapter_config.json. */
export const ADAPTER_FORMATS = ['gguf', 'peft'] as const;
export type AdapterFormat = (typeof ADAPTER_FORMATS)[number];

export interface AdapterInspection {
  readonly format: AdapterFormat;
  /** Architecture; empty if the file does not name one, as in PEFT's format. */
  readonly architecture: string;
  /** SHA-256 of the GGUF, or of adapter_model.safetensors. */
  readonly sha256: string;
  readonly parameters: number;
  readonly layers: readonly number[];
  /**
   * Tokens from whose first, at their last occurrence in a prompt, the adapter acts on; null: it
   * acts on every token.
   */
  readonly invocationTokens: readonly number[] | null;
  /** Base model that the adapter names; members are null if it does not. */
  readonly base: { readonly name: string | null; readonly sha256: string | null };
  readonly modules: readonly {
    /** Name as in GGUF: blk.3.attn_k. */
    readonly name: string;
    readonly rank: number;
    /** s r; the adapter adds s B A. */
    readonly alpha: number;
    readonly inputs: number;
    readonly outputs: number;
    /** Frobenius norms of A, of B and of s B A. */
    readonly normA: number;
    readonly normB: number;
    readonly norm: number;
  }[];
}

const conversion = z.strictObject({
  /** Path of a GGUF, or of a folder in PEFT's format. */
  adapter: z.string().min(1),
  /**
   * Path of the base model, a GGUF: the shapes are held against it, and PEFT's order of rows
   * depends on it.
   */
  model: z.string().min(1),
  format: z.enum(ADAPTER_FORMATS),
  /** A file for GGUF, a folder for PEFT. */
  out: z.string().min(1),
  /** base_model_name_or_path of PEFT's configuration. */
  baseModel: z.string().min(1).optional(),
});
export type AdapterConversion = z.input<typeof conversion>;

export interface AdapterSource {
  readonly architecture: string;
  readonly baseName: string;
  readonly baseSha256: string;
  /** Empty: the adapter acts on every token. */
  readonly invocationTokens: Int32Array;
  readonly modules: AdapterModule[];
}

/** Fails where an adapter acts from the reply on, which a sum with the base cannot do. */
export function requireEverywhere(adapter: string, source: AdapterSource, what: string): void {
  if (source.invocationTokens.length === 0) return;
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `${adapter} acts from the reply on (invocation tokens ${source.invocationTokens.join(', ')}): ${what}`,
    {
      remedy:
        'Use the adapter as a file next to its base model, or train one that acts on every token.',
    },
  );
}

/**
 * The factors of an adapter in either format; rows in the order of GGUF where the model's shape is
 * given.
 * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH, NUMERIC_FAILURE
 */
export async function readAdapterFile(
  adapter: string,
  shape: ModelShape | null,
): Promise<AdapterSource> {
  const peft = await isPeft(adapter);
  if (!peft) requireFile(adapter, 'MODEL_NOT_FOUND');
  const source = peft
    ? { architecture: '', baseSha256: '', ...(await readPeft(adapter, shape)) }
    : await settled(loadAddon().addon.readAdapter(adapter));
  if (shape !== null && source.architecture !== '' && source.architecture !== shape.architecture) {
    throw new IsoproError(
      'ADAPTER_MISMATCH',
      `${adapter} is for the architecture ${source.architecture}, but the model is ${shape.architecture}`,
    );
  }
  return source;
}

/**
 * Tokens from which an adapter acts on; empty: it acts on every token.
 * @throws IsoproError as readAdapterFile
 */
export const invocationTokensIn = async (adapter: string): Promise<Int32Array> =>
  (await readAdapterFile(adapter, null)).invocationTokens;

/**
 * Reads the shape of a model without training it.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_CORRUPT, MODEL_UNSUPPORTED, ARCH_UNSUPPORTED,
 *   NUMERIC_FAILURE; so does createTrainer
 */
export async function modelShape(model: string): Promise<ModelShape> {
  requireFile(model, 'MODEL_NOT_FOUND');
  const native = typed(() => new (loadAddon().addon.NativeTrainer)());
  try {
    return await settled(native.open(model));
  } finally {
    await native.dispose();
  }
}

/**
 * Reads what an adapter contains, without its base model.
 * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH, NUMERIC_FAILURE
 */
export async function inspectAdapter(adapter: string): Promise<AdapterInspection> {
  const format = (await isPeft(checked(z.string().min(1), adapter, 'adapter'))) ? 'peft' : 'gguf';
  const { architecture, baseName, baseSha256, invocationTokens, modules } = await readAdapterFile(
    adapter,
    null,
  );
  const measured = modules.map(({ name, rank, scale, inputs, outputs, a, b }) => {
    const [gramA, gramB] = [gram(a, rank, inputs), gram(b, rank, outputs)];
    const trace = (matrix: Float64Array): number =>
      matrix.reduce((sum, value, i) => (i % (rank + 1) === 0 ? sum + value : sum), 0);
    // ||B A||^2 = <B^T B, A A^T>; rounding may leave a tiny negative number for 0.
    const product = gramA.reduce((sum, value, i) => sum + value * gramB[i]!, 0);
    return {
      name,
      rank,
      alpha: scale * rank,
      inputs,
      outputs,
      normA: Math.sqrt(trace(gramA)),
      normB: Math.sqrt(trace(gramB)),
      norm: Math.abs(scale) * Math.sqrt(Math.max(0, product)),
    };
  });
  return {
    format,
    architecture,
    sha256: await hashFile(format === 'peft' ? path.join(adapter, PEFT_WEIGHTS) : adapter),
    parameters: modules.reduce((sum, { a, b }) => sum + a.length + b.length, 0),
    layers: [
      ...new Set(modules.flatMap(({ name }) => /^blk\.(\d+)\./.exec(name)?.[1] ?? []).map(Number)),
    ],
    invocationTokens: invocationTokens.length === 0 ? null : [...invocationTokens],
    base: {
      name: baseName === '' ? null : baseName,
      sha256: baseSha256 === '' ? null : baseSha256,
    },
    modules: measured,
  };
}

/** Inner products of the rows, [rows, rows]. */
function gram(values: Float32Array, rows: number, columns: number): Float64Array {
  const result = new Float64Array(rows * rows);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = 0;
      for (let k = 0; k < columns; k++) sum += values[i * columns + k]! * values[j * columns + k]!;
      result[i * rows + j] = sum;
      result[j * rows + i] = sum;
    }
  }
  return result;
}

/**
 * Writes PEFT's folder. Both files are complete on the disk before either replaces an older one.
 * @returns SHA-256 of adapter_model.safetensors, in hexadecimal
 * @throws IsoproError WRITE_FAILED; older files are untouched
 */
export async function writePeft(
  folder: string,
  { modules, invocationTokens }: Pick<AdapterSource, 'modules' | 'invocationTokens'>,
  shape: ModelShape,
  baseModel: string | null,
): Promise<string> {
  const digest = sha256();
  await writeFilesAtomically([
    {
      file: path.join(folder, PEFT_WEIGHTS),
      parts: digest.through(encodeSafetensors(peftTensors(modules, shape))),
    },
    {
      file: path.join(folder, PEFT_CONFIG),
      parts: [
        Buffer.from(
          `${JSON.stringify(peftConfig(modules, shape, baseModel, invocationTokens), null, 2)}\n`,
        ),
      ],
    },
  ]);
  return digest.digest();
}

/**
 * Converts an adapter between GGUF and PEFT.
 * @returns SHA-256 of the GGUF or of adapter_model.safetensors, in hexadecimal
 * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH (shapes of another model),
 *   NUMERIC_FAILURE, WRITE_FAILED
 */
export async function convertAdapter(request: AdapterConversion): Promise<string> {
  const { adapter, model, format, out, baseModel } = checked(conversion, request, 'request');
  if (path.resolve(adapter) === path.resolve(out))
    throw new IsoproError('INVALID_ARGUMENT', `out would overwrite ${adapter}`);
  const { addon } = loadAddon();
  const shape = await modelShape(model);
  const source = await readAdapterFile(adapter, shape);
  const { modules, baseSha256, baseName, invocationTokens } = source;
  // Holds the shapes against the model's, whichever format is written.
  const bytes = await settled(addon.encodeAdapter(model, modules, baseSha256, invocationTokens));
  if (format === 'peft')
    return writePeft(out, source, shape, baseModel ?? (baseName === '' ? null : baseName));
  return writeHashed(out, bytes, 'follow');
}

/** @returns SHA-256 of the file, in hexadecimal */
async function writeHashed(file: string, bytes: Uint8Array, link?: Link): Promise<string> {
  await writeFileAtomically(file, [bytes], link);
  return hash('sha256', bytes);
}

/**
 * Writes a GGUF adapter of `model` with a part of its strength: what it adds becomes strength s B
 * A.
 * @param options.strength in (0, 1]
 * @returns SHA-256 of the GGUF, in hexadecimal
 * @throws IsoproError MODEL_NOT_FOUND, ADAPTER_CORRUPT, ADAPTER_MISMATCH, NUMERIC_FAILURE,
 *   WRITE_FAILED
 */
export async function weakenAdapter(
  adapter: string,
  options: { readonly model: string; readonly strength: number; readonly out: string },
): Promise<string> {
  const { model, strength, out } = options;
  const { modules, baseSha256, invocationTokens } = await readAdapterFile(adapter, null);
  const weaker = modules.map((module) => ({ ...module, scale: module.scale * strength }));
  const bytes = await settled(
    loadAddon().addon.encodeAdapter(model, weaker, baseSha256, invocationTokens),
  );
  return writeHashed(out, bytes);
}
