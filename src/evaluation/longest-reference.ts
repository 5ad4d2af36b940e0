import { abortError, IsoproError } from '../errors.js';
import type { Model } from '../engine/model.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';

/** For all references together: a task may take seconds for each. */
const BUDGET_MS = 5_000;

export interface LongestReference {
  /**
   * Of those that were read, the token that ends a reply included; null where the task knows none.
   */
  readonly tokens: number | null;
  /** Problems whose reply was not read because time ran out or the code of the task failed. */
  readonly unread: number;
}

/**
 * Measures the longest correct reply that the task knows for these problems.
 * @throws IsoproError ABORTED
 */
export async function longestReference(
  model: Pick<Model, 'tokenize'>,
  task: OpenTask,
  problems: readonly Problem[],
  style: PromptStyle,
  signal?: AbortSignal,
): Promise<LongestReference> {
  if (!task.hasReferences) return { tokens: null, unread: 0 };
  const started = performance.now();
  let tokens: number | null = null;
  let failed = 0;
  for (const [i, problem] of problems.entries()) {
    if (signal?.aborted === true)
      throw abortError('reading the reference replies was cancelled', signal);
    if (performance.now() - started > BUDGET_MS)
      return { tokens, unread: failed + problems.length - i };
    try {
      const text = await task.referenceReply(problem, style);
      if (text !== null) tokens = Math.max(tokens ?? 0, model.tokenize(text).length + 1);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      failed++;
    }
  }
  return { tokens, unread: failed };
}
