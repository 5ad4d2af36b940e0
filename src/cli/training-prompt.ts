/** Training prompts of a run: its system message and solved examples, rebuilt from its task. */
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { openRunTask } from '../judge/held-out.js';
import type { FoundAdapter } from '../lookup/adapters.js';
import { text } from './option.js';
import { UsageError } from './output.js';
import { taskHere } from './tasks/task-flags.js';

export const asTrainedOption = text(
  "task of the adapter's run: adds its system message and solved examples before each prompt",
);

/**
 * The messages before a question of the first tier that is trained on.
 * @throws UsageError where no run is known; as openTask; IsoproError INVALID_ARGUMENT where it is
 *   another task, or its rows are others
 */
export async function asTrained(
  found: Pick<FoundAdapter, 'run'> | null,
  specifier: string,
): Promise<readonly ChatMessage[]> {
  if (found?.run == null) throw new UsageError('--task needs the adapter of a run: --adapter RUN');
  const { start } = found.run.manifest;
  const opened = await openRunTask(start, specifier);
  if (opened.task === null)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `cannot rebuild the prompts of the run: ${opened.reason}`,
      { remedy: "Give the run's own task as --task." },
    );
  await using task = opened.task;
  const { style } = start.evaluation;
  const { id } = task.tiers.find(({ trains }) => trains) ?? task.tiers[0]!;
  const problem = await task.generate(id, 0n);
  const whole = await task.prompt(problem, style);
  const asked = await (task.question?.(problem, style) ?? whole);
  return whole.slice(0, whole.length - asked.filter(({ role }) => role !== 'system').length);
}

/**
 * The same of the run's task where it is built in, or its rows are in this folder under their name;
 * null where it cannot be had so.
 */
export async function asTrainedHere(found: FoundAdapter): Promise<readonly ChatMessage[] | null> {
  const task = found.run === null ? null : taskHere(found.run.manifest.start);
  return task === null
    ? null
    : asTrained(found, task).catch((error: unknown) => {
        if (error instanceof IsoproError) return null;
        throw error;
      });
}
