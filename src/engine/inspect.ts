/** Metadata and tensor table of a GGUF file, read without loading it. */
import { z } from 'zod';
import { loadAddon, settled, type NativeInspection } from './addon.js';
import { dictionary, type Dictionary } from '../dictionary.js';
import { checked } from './argument-check.js';
import { resolveModel } from './model-files.js';
import { trialProblem } from './model-trial.js';

export interface ModelInspection extends Omit<NativeInspection, 'metadata'> {
  /** Scalars as text, arrays as their type and length, in the file's order. */
  readonly metadata: Dictionary<string>;
}

/**
 * Reads header, metadata and tensor table of a model or an adapter: a GGUF file, or an alias or URI
 * that is in the cache.
 * @throws IsoproError MODEL_NOT_FOUND; MODEL_CORRUPT where the structure itself cannot be read
 */
export async function inspectModel(pathOrAlias: string): Promise<ModelInspection> {
  const { path } = await resolveModel(checked(z.string().min(1), pathOrAlias, 'pathOrAlias'), {
    download: false,
  });
  const failed = await trialProblem(path);
  const { metadata, ...inspection } = await settled(
    loadAddon().addon.inspectModel(path, failed === null),
  );
  const described = { ...inspection, metadata: dictionary(metadata) };
  if (failed === null || inspection.problem !== null || inspection.kind === 'adapter')
    return described;
  const problem = { code: failed.code, message: failed.message };
  return { ...described, problem, trainingProblem: problem };
}
