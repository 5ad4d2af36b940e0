/** A stated belief as a reward: strict, since whatever a lenient reader forgives is learned. */
import { IsoproError } from '../../errors.js';
import { targetOf, type BinaryProblem, type Problem } from '../problem.js';

/** Mark at the end of a reply; X is the probability of option 0. */
export const BELIEF_MARK = 'finalBeliefProb';

export const GRADE_ERRORS = [
  'no belief',
  'not a number',
  'out of range',
  'no answer known',
  'grader failed',
] as const;
export type GradeError = (typeof GRADE_ERRORS)[number];

/** An error is never a number: a sample that cannot be graded leaves its group, and is counted. */
export type Grade =
  | { readonly ok: true; readonly value: number }
  | { readonly ok: false; readonly reason: GradeError };
/** Grade of a stated belief, with the number of marks in the reply. */
export type BeliefGrade = Grade &
  ({ readonly ok: true; readonly belief: number; readonly marks: number } | { readonly ok: false });

const OPENING = `\\${BELIEF_MARK}{`;
/** Spaces as keyboards make them: what cannot be seen belongs to no number. */
const NUMBER = /^[ \t\r\n]*(\d+(?:\.\d+)?|\.\d+)[ \t\r\n]*$/;
const LONGEST_MARK = 64;
const LONGEST_NUMBER = 32;

export type ReadProbability =
  | { readonly ok: true; readonly belief: number }
  | { readonly ok: false; readonly reason: Extract<GradeError, 'not a number' | 'out of range'> };

/** Reads a probability in the required notation; spaces around it are ignored. */
export function readProbability(text: string): ReadProbability {
  const number = NUMBER.exec(text)?.[1];
  if (number === undefined || number.length > LONGEST_NUMBER)
    return { ok: false, reason: 'not a number' };
  const belief = Number(number);
  return belief >= 0 && belief <= 1 ? { ok: true, belief } : { ok: false, reason: 'out of range' };
}

/** The belief that a reply ends with: what its last mark holds. */
export function statedBelief(
  text: string,
):
  | { readonly ok: true; readonly belief: number; readonly marks: number }
  | { readonly ok: false; readonly reason: GradeError } {
  const opened = text.lastIndexOf(OPENING);
  if (opened < 0) return { ok: false, reason: 'no belief' };
  // A last mark that is broken or cut off takes back the marks before it.
  const inside = text.slice(opened + OPENING.length, opened + OPENING.length + LONGEST_MARK);
  const read = readProbability(inside.slice(0, Math.max(inside.indexOf('}'), 0)));
  return read.ok ? { ...read, marks: text.split(OPENING).length - 1 } : read;
}

/** Minus the Brier score of the stated belief, in [-1, 0]. */
export function gradeBelief(
  text: string,
  problem: Pick<BinaryProblem, 'correctOption'>,
): BeliefGrade {
  const target = targetOf(problem);
  if (target === null) return { ok: false, reason: 'no answer known' };
  const stated = statedBelief(text);
  if (!stated.ok) return stated;
  return {
    ok: true,
    value: 0 - (target - stated.belief) ** 2,
    belief: stated.belief,
    marks: stated.marks,
  };
}

/** Two decimals are what anybody means. */
export const PROBABILITY_GRAMMAR = 'probability ::= "0" ("." [0-9] [0-9]?)? | "1" ("." "0" "0"?)?';
/**
 * Upper bound on the tokens of a reply bound to a probability and its frame, at one token per
 * character.
 */
export const BOUND_TOKENS = 32;
/** A stated belief and nothing else. */
export const BELIEF_GRAMMAR = `root ::= "\\\\${BELIEF_MARK}{" probability "}"\n${PROBABILITY_GRAMMAR}`;

/** Instruction on how to end a reply. */
export function beliefForm({ options: [first, second] }: Pick<BinaryProblem, 'options'>): string {
  return (
    `End your reply with \\${BELIEF_MARK}{X}, where X is a number from 0 to 1: how probable you hold “${first}”. ` +
    `If you are three quarters sure of “${first}”, write \\${BELIEF_MARK}{0.75}; if you are four fifths sure of “${second}”, write ` +
    `\\${BELIEF_MARK}{0.2}; if you cannot tell, write \\${BELIEF_MARK}{0.5}.`
  );
}

/** The question with what a reply has to end with. @throws IsoproError PROBLEM_INVALID */
export function askingForBelief(problem: Problem): string {
  if (problem.kind !== 'binary')
    throw new IsoproError(
      'PROBLEM_INVALID',
      'only a question with two options can ask for a belief',
    );
  return `${problem.question}\n\n${beliefForm(problem)}`;
}

/** Any grader, whose exception is an error and no number. */
export async function gradeSafely(grade: () => Promise<Grade> | Grade): Promise<Grade> {
  try {
    const found = await grade();
    return found.ok && !Number.isFinite(found.value)
      ? { ok: false, reason: 'not a number' }
      : found;
  } catch {
    return { ok: false, reason: 'grader failed' };
  }
}
