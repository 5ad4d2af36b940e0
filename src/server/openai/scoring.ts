/** Log-probabilities of a prompt. */
import type { TokenAlternatives } from '../../engine/model.js';
import type { Served } from './models.js';
import type { Asking } from './replying.js';
import { promptLogprobs, type PromptLogprobs } from './shapes.js';

/**
 * Alternatives of each token after the first, which follows nothing.
 * @param count of the likeliest tokens at each place
 */
export async function alternativesOf(
  { model, adapter }: Served,
  ids: Int32Array,
  count: number,
  signal: AbortSignal,
): Promise<TokenAlternatives[]> {
  return ids.length < 2 ? [] : model.alternatives(ids, { count, adapter, signal });
}

export async function scorePrompt(
  served: Served,
  ids: Int32Array,
  count: number,
  { slices, signal }: Asking,
): Promise<PromptLogprobs> {
  return promptLogprobs(
    slices,
    served.model,
    await alternativesOf(served, ids, count, signal),
    count,
  );
}
