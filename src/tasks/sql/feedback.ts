import type { Verdict } from '../task.js';

/**
 * What the next turn of a multi-turn conversation says: which kind of difference there is, and not
 * what the right result is.
 */
export function sqlFeedback(verdict: Verdict): string {
  if (verdict.kind === 'pass') return 'The query answers the question.';
  if (verdict.kind === 'none')
    return 'The query could not be checked. Please give it again in the same form.';
  return [
    ...verdict.violations.map(({ detail }) => detail),
    'Correct the query and give the whole statement again in the same form.',
  ].join('\n');
}
