/**
 * Memory of a job as an upper bound for admission: weights, keys and values, and training memory.
 * --dry-run measures it.
 */
import { inspectModel } from '../engine/inspect.js';
import { estimateMemory } from '../engine/memory-estimate.js';
import { MODEL_ALIASES } from '../engine/model-aliases.js';
import { IsoproError } from '../errors.js';
import { ownValue } from '../dictionary.js';
import { GRADER_CONTEXT } from '../tasks/data/grader-models.js';
import { readGrader } from '../tasks/data/named-check.js';
import { resolveSettings } from '../training/settings.js';

/** Node, the addon, buffers of a batch. */
export const PROCESS_BYTES = 200 * 2 ** 20;
/** Default memory of the engine's `Trainer`. */
export const TRAINER_BYTES = 600 * 2 ** 20;
const GIBIBYTE = 2 ** 30;
const LEAST_CONTEXT = 4096;

/**
 * Memory of a grader model, which is loaded next to the model that replies; 0 for other checks.
 * @param check as --check takes it
 */
export async function memoryOfGrader(check: string | undefined): Promise<number> {
  if (check?.startsWith('model:') !== true) return 0;
  const { model } = readGrader(check.slice('model:'.length)).grader;
  return (await memoryOf(model, GRADER_CONTEXT)) - PROCESS_BYTES;
}

/** Context of a model as `eval` and `judge` load it. */
export const contextOf = (model: string): number | undefined =>
  resolveSettings({ model: { name: model } }).model.contextTokens;

/**
 * @param model as --model takes it; one that is not here yet counts with the size of its download
 * @param trainingBytes activations, gradients, moments
 */
export async function memoryOf(
  model: string,
  contextTokens: number | undefined,
  trainingBytes = 0,
): Promise<number> {
  try {
    const one = await estimateMemory(model, await inspectModel(model), 1);
    const perToken = Math.max(1, one?.kvBytesPerToken ?? 1);
    const tokens = contextTokens ?? Math.max(LEAST_CONTEXT, Math.floor(GIBIBYTE / perToken));
    const modelBytes = (one?.weightsBytes ?? 0) + tokens * perToken + (one?.stateBytes ?? 0);
    return Math.ceil(modelBytes) + trainingBytes + PROCESS_BYTES;
  } catch (error) {
    if (!(error instanceof IsoproError)) throw error; // the job says what is wrong with the file
    return (
      (ownValue(MODEL_ALIASES, model)?.approximateBytes ?? 0) +
      GIBIBYTE +
      trainingBytes +
      PROCESS_BYTES
    );
  }
}
