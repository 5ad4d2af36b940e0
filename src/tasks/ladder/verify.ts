import type { Verdict } from '../task.js';
import { failed } from '../verdict.js';
import type { LadderProblem } from './problem.js';
import { ABSTAIN, solve } from './solve.js';

const SHOWN = 60;

/**
 * Compares with the one right answer, letter by letter. Of a question the category tells a wrong
 * answer from one that should not be.
 */
export function verifyAnswer(problem: LadderProblem, answer: string): Verdict {
  const wanted = solve(problem);
  if (answer === wanted) return { kind: 'pass', violations: [], metrics: {} };
  const category =
    problem.operation !== 'ask'
      ? 'value'
      : wanted === ABSTAIN
        ? 'invented'
        : answer === ABSTAIN
          ? 'abstained'
          : 'value';
  const shown = JSON.stringify(answer.length > SHOWN ? `${answer.slice(0, SHOWN)}…` : answer);
  const detail = {
    value: `${shown} is not right.`,
    invented: `The text does not say ${shown}.`,
    abstained: 'The text does say it.',
  }[category];
  return failed(category, detail);
}

/** What the next turn of a conversation says; never the answer. */
export function ladderFeedback(_problem: LadderProblem, { kind, violations }: Verdict): string {
  if (kind === 'pass') return 'That is right.';
  if (kind === 'none') return 'The reply could not be checked. Please give it again.';
  return `${violations[0]!.detail} Reply with the answer only.`;
}
