import { withContextRemedy } from '../engine/context-overflow.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { Undrawn } from '../evaluation/exclusions.js';
import type { PlannedProblem } from '../rollouts/plan.js';
import { SET_SIZE } from '../tasks/frozen-sets.js';
import type { OpenTask } from '../tasks/task.js';

interface Drawn {
  readonly task: Pick<OpenTask, 'id'>;
  readonly model: Pick<Model, 'limits'>;
  readonly undrawn: Undrawn;
}

/**
 * @throws IsoproError where no problem was drawn: CONTEXT_OVERFLOW where one had no room in the
 *   context, else TASK_INVALID
 */
export function refuseEmptyPlan(
  plan: readonly PlannedProblem[],
  { task, model, undrawn }: Drawn,
): void {
  if (plan.length > 0) return;
  const [tooLong] = undrawn.tooLong.values();
  if (tooLong !== undefined)
    throw withContextRemedy(
      new IsoproError('CONTEXT_OVERFLOW', `there is nothing to train on: ${tooLong}`),
      model.limits,
    );
  const { dev, test } = SET_SIZE;
  const needed =
    `${dev} problems of each tier are the dev set's and ${test} others the test set's; one that is trained on needs more ` +
    `than these ${dev + test}`;
  throw new IsoproError(
    'TASK_INVALID',
    `${task.id} generated no problem that is not in an evaluation set: ${needed}, and with other prompts`,
  );
}
