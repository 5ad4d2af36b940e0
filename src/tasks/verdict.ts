import type { FinishReason, Problem, Task, Verdict } from './task.js';

export const failed = (category: string, detail: string): Verdict => ({
  kind: 'fail',
  violations: [{ category, jobs: [], amount: 1, detail }],
  metrics: {},
});

export const undecided = (reason: string): Verdict => ({ kind: 'none', violations: [], metrics: {}, reason });

/** The verdict on a whole reply: a reply that did not end by itself fails as `truncated`, one that cannot be parsed as `format`. */
export function judgeReply<P extends Problem, A>(
  task: Pick<Task<P, A>, 'parse' | 'verify'>,
  problem: P,
  text: string,
  finish: FinishReason,
): Verdict {
  if (finish !== 'stop') return failed('truncated', 'The reply was cut off before it ended.');
  const parsed = task.parse(text, problem);
  return parsed.ok ? task.verify(problem, parsed.answer) : failed(parsed.category, parsed.detail);
}
