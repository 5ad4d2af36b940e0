import type { FinishReason, Problem, Task, Verdict } from './task.js';

export const failed = (category: string, detail: string): Verdict => ({
  kind: 'fail',
  violations: [{ category, jobs: [], amount: 1, detail }],
  metrics: {},
});

export const TRUNCATED = failed('truncated', 'The reply was cut off before it ended.');

export const undecided = (reason: string): Verdict => ({ kind: 'none', violations: [], metrics: {}, reason });

/**
 * The verdict on a whole reply and the surface form of its answer: a reply that did not end by itself fails as
 * `truncated`, one that cannot be parsed with the parser's category, usually `format`.
 */
export function judgeReply<P extends Problem, A>(
  task: Pick<Task<P, A>, 'parse' | 'verify' | 'judgesTruncated'>,
  problem: P,
  text: string,
  finish: FinishReason,
): { readonly verdict: Verdict; readonly form: string | null } {
  if (finish !== 'stop' && task.judgesTruncated !== true) return { verdict: TRUNCATED, form: null };
  const parsed = task.parse(text, problem);
  return parsed.ok
    ? { verdict: task.verify(problem, parsed.answer), form: parsed.form }
    : { verdict: failed(parsed.category, parsed.detail), form: null };
}
