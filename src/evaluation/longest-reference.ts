import { IsoproError } from '../errors.js';
import type { Model } from '../engine/model.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';

/**
 * Tokens of the longest right reply that the task knows to these problems, the token that ends it included; null where it knows none.
 * What its code does not say, because it fails or takes too long, is not known.
 */
export async function longestReference(
  model: Pick<Model, 'tokenize'>,
  task: OpenTask,
  problems: readonly Problem[],
  style: PromptStyle,
): Promise<number | null> {
  if (!task.hasReferences) return null;
  let longest: number | null = null;
  for (const problem of problems)
    try {
      const text = await task.referenceReply(problem, style);
      if (text !== null) longest = Math.max(longest ?? 0, model.tokenize(text).length + 1);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      return longest;
    }
  return longest;
}
