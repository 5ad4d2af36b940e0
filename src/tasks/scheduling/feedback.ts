import type { Verdict } from '../task.js';
import type { SchedulingProblem } from './problem.js';

const MAX_LINES = 12;

/**
 * What the next turn of a multi-turn conversation says: each violation in the words of the prompt,
 * and the request to revise.
 */
export function schedulingFeedback(problem: SchedulingProblem, verdict: Verdict): string {
  if (verdict.kind === 'pass') return 'The schedule keeps every rule.';
  if (verdict.kind === 'none')
    return 'The schedule could not be checked. Please give it again in the same form.';
  const lines = verdict.violations.slice(0, MAX_LINES).map((violation) => `- ${violation.detail}`);
  const hidden = verdict.violations.length - lines.length;
  if (hidden > 0) lines.push(`- and ${hidden} more.`);
  const malformed = verdict.violations.some(
    (violation) => violation.category === 'format' || violation.category === 'truncated',
  );
  const form = `<answer>${problem.jobs.map((job) => `${job.label}: ?`).join(', ')}</answer>`;
  return [
    malformed ? 'Your reply could not be read as an answer:' : 'Your schedule breaks these rules:',
    ...lines,
    malformed
      ? `End your reply with exactly one block of the form ${form} and nothing after it.`
      : 'Revise it and give the whole schedule again in the same form.',
  ].join('\n');
}
