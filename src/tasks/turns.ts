/** Episodes of several replies: how many a task allows, and what stands between them. */
import { IsoproError } from '../errors.js';
import type { OpenTask, Problem } from './task.js';

/** What decides on the turns of a task that is opened. */
interface Turning {
  readonly id: string;
  /** It has turns of its own: so many at most. */
  readonly own: number | null;
  readonly feedback: boolean;
}

/**
 * Returns the most replies of an episode. A task has as many turns as it declares, or fewer on
 * request; a task without turns of its own may have several attempts with its feedback between
 * them.
 * @throws IsoproError INVALID_ARGUMENT
 */
export function turnsOf({ id, own, feedback }: Turning, asked: number | undefined): number {
  const turns = asked ?? own ?? 1;
  if (own !== null && turns > own)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `turns: an episode of ${id} has at most ${own} turns, not ${turns}`,
    );
  if (own === null && turns > 1 && !feedback)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `turns: ${id} has no turns of its own and no feedback to give between attempts`,
    );
  return turns;
}

/**
 * Returns the feedback on a reply that failed; null after any other. A missing verdict is asked for
 * once more.
 */
export async function nextAttempt(
  task: Pick<OpenTask, 'judge' | 'feedback'>,
  problem: Problem,
  replies: readonly string[],
): Promise<string | null> {
  const judged = async () => (await task.judge(problem, replies.at(-1)!, 'stop')).verdict;
  const first = await judged();
  const verdict = first.kind === 'none' ? await judged() : first;
  return verdict.kind === 'fail' ? task.feedback(problem, verdict) : null;
}
