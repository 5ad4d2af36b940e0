import type { Verdict } from '../task.js';
import type { ExtractProblem } from './problem.js';

const MAX_LINES = 12;

/**
 * What the next turn of a conversation says: what is wrong under which key, never the right value.
 */
export function extractFeedback(problem: ExtractProblem, verdict: Verdict): string {
  if (verdict.kind === 'pass') return 'Every value is right.';
  if (verdict.kind === 'none') return 'The object could not be checked. Please give it again.';
  const lines = verdict.violations.slice(0, MAX_LINES).map(({ detail }) => `- ${detail}`);
  const hidden = verdict.violations.length - lines.length;
  if (hidden > 0) lines.push(`- and ${hidden} more.`);
  const keys = problem.schema.map(({ key }) => `"${key}"`).join(', ');
  return [
    'This is not right:',
    ...lines,
    `Reply with the whole JSON object only, with exactly the keys ${keys}.`,
  ].join('\n');
}
