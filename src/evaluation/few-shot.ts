/** Solved examples before the question, to measure a model without training. */
import { IsoproError } from '../errors.js';
import type { ChatMessage, OpenTask, Problem, PromptStyle } from '../tasks/task.js';
import { seedOf } from '../tasks/seed.js';

export interface FewShot {
  /** Number of examples, each a question with its answer. */
  readonly count: number;
  /** Seed of the draws, combined with the id of the problem. */
  readonly seed: bigint;
}

/**
 * Returns a function that makes the prompt of a problem.
 * @throws IsoproError INVALID_ARGUMENT, at the first problem, if the task has no solved examples
 */
export function promptsOf(
  task: Pick<OpenTask, 'id' | 'prompt' | 'fewShot'>,
  style: PromptStyle,
  fewShot?: FewShot,
): (problem: Problem) => Promise<readonly ChatMessage[]> {
  if (fewShot === undefined) return (problem) => task.prompt(problem, style);
  const { count, seed: runSeed } = fewShot;
  return async (problem) => {
    const seed = seedOf(runSeed, 'few-shot', problem.id);
    const examples = await task.fewShot(problem, style, count, seed);
    if (examples === null)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `${task.id} has no solved examples, so few-shot cannot be measured`,
      );
    return [...examples, ...(await task.prompt(problem, style))];
  };
}
