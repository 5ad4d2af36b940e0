/** What a model thinks of a prompt. */
import type { Served } from './models.js';
import { promptLogprobs, type PromptLogprobs } from './shapes.js';

/** The log-probability of each token after the first, which follows nothing. */
export async function scoresOf({ model, adapter }: Served, ids: Int32Array, signal: AbortSignal): Promise<Float32Array> {
  if (ids.length < 2) return new Float32Array(0);
  const [scores] = await model.score(ids.subarray(0, 1), [ids.subarray(1)], { adapter, signal });
  return scores!;
}

export async function scorePrompt(served: Served, ids: Int32Array, signal: AbortSignal): Promise<PromptLogprobs> {
  return promptLogprobs(served.model, ids, await scoresOf(served, ids, signal));
}
