/**
 * A verifier that decides nothing of what it is given teaches nothing, and a run with it would only
 * look like one that failed.
 */
import { IsoproError } from '../errors.js';
import { commonestReason, FIRST_VERDICTS } from '../evaluation/first-verdicts.js';
import { MAX_NONE_FRACTION } from '../statistics/index.js';
import type { Reason } from '../tasks/failures.js';
import type { OpenTask } from '../tasks/task.js';

/**
 * Replies that were cut off or hold no answer say nothing of it: it did not see them.
 * @throws IsoproError VERIFIER_UNDECIDED with the commonest reason
 */
export function refuseUndecided({ id }: Pick<OpenTask, 'id'>, replies: readonly Reason[]): void {
  const undecided = replies.filter(({ kind }) => kind === 'none');
  const decided = replies.some(
    ({ kind, formed }) => kind === 'pass' || (kind === 'fail' && formed === true),
  );
  const first = replies.slice(0, FIRST_VERDICTS);
  const begun = first.length === FIRST_VERDICTS && first.every(({ kind }) => kind === 'none');
  const few =
    undecided.length < replies.length &&
    undecided.length <= Math.max(1, MAX_NONE_FRACTION * replies.length);
  if (!begun && (decided || undecided.length === 0 || few)) return;
  const others = replies.length - undecided.length;
  throw new IsoproError(
    'VERIFIER_UNDECIDED',
    `the verifier of ${id} could not decide any of ${undecided.length} ` +
      `replies${others === 0 ? '' : `; ${others} more contained no answer`}: ` +
      commonestReason(undecided),
  );
}
