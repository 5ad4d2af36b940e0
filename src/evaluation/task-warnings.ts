/** Quick warnings about a task before a model is trained on it. */
import { given } from '../given.js';
import type { OpenTask, PromptStyle } from '../tasks/task.js';
import { shortTiers, type EvaluationSet } from './evaluation-set.js';
import { NONSENSE } from './examined-verdicts.js';

/** Problems tried per tier. */
const TRIED = 3;

export const PASSES_EVERYTHING =
  'the empty reply, nonsense and the repeated question all pass on every problem';

export interface WarnedOptions {
  readonly style: PromptStyle;
  readonly sets: readonly EvaluationSet[];
  readonly signal?: AbortSignal | undefined;
}

/** @throws IsoproError TASK_*, ABORTED */
export async function taskWarnings(
  task: OpenTask,
  { style, sets, signal }: WarnedOptions,
): Promise<string[]> {
  const everything = await passesEverything(task, sets[0]!, { style, signal });
  return [
    ...(everything
      ? [
          `The verifier passes everything that was tried: ${PASSES_EVERYTHING}. A run cannot learn from it, and its figures mean nothing`,
        ]
      : []),
    ...sets.flatMap((set) => shortTiers(task, set)),
  ];
}

/**
 * Stops at the first reply that does not pass, so that a sound verifier runs once and a hanging one
 * delays once.
 */
async function passesEverything(
  task: OpenTask,
  { problems }: EvaluationSet,
  { style, signal }: Pick<WarnedOptions, 'style' | 'signal'>,
): Promise<boolean> {
  const tried = task.tiers.flatMap(({ id }) =>
    problems.filter(({ tier }) => tier === id).slice(0, TRIED),
  );
  for (const problem of tried) {
    const question = (await task.prompt(problem, style)).at(-1)!.content;
    for (const text of ['', NONSENSE, question]) {
      const { verdict } = await task.judge(problem, text, 'stop', given({ signal }));
      if (verdict.kind !== 'pass') return false;
    }
  }
  return tried.length > 0;
}
