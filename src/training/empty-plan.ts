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
    `each tier that is trained on needs more than ${dev + test} different problems, since the dev set takes ${dev} and the test ` +
    `set ${test}`;
  throw new IsoproError(
    'TASK_INVALID',
    `${task.id} generated only problems of the evaluation sets: ${needed}`,
  );
}
