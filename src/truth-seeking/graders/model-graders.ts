/**
 * Graders that ask a model. What it answers is read as strictly as what a policy answers, and an
 * error is never a number.
 */
import type { InferOptions, Message, Reasoner } from '../reasoner.js';
import type { Problem } from '../problem.js';
import type { Grader } from '../strategies/grader-score.js';
import { askVerdict, VERDICT_FORM, VERDICT_GRAMMAR } from '../strategies/verdict.js';
import { textOf, type Trajectory } from '../trajectory.js';
import {
  askingForBelief,
  BELIEF_GRAMMAR,
  beliefForm,
  BOUND_TOKENS,
  gradeBelief,
  type Grade,
} from './belief-grader.js';

type Asking = Pick<InferOptions, 'seed' | 'maxTokens' | 'signal'> & {
  /** Whether to bind replies to their format by a grammar. Default: false. */
  readonly isBound?: boolean;
};

const bound = ({ isBound = false, ...options }: Asking, grammar: string): InferOptions => ({
  ...options,
  temperature: 0,
  ...(isBound && { grammar, maxTokens: BOUND_TOKENS }),
});

/**
 * A model says which belief a text holds, and that is graded by minus its Brier score, in [-1, 0].
 */
export const modelBeliefGrader =
  (judge: Reasoner, options: Asking = {}): Grader =>
  async (text, problem) => {
    if (problem.kind !== 'binary' || problem.correctOption === null)
      return { ok: false, reason: 'no answer known' };
    const content =
      `Which probability does the author of this text hold? Do not answer the question yourself.\n\n${text}\n\nThe question was:\n` +
      askingForBelief(problem);
    const asked: Message = { role: 'user', content };
    const { text: said } = await judge.infer([asked], bound(options, BELIEF_GRAMMAR));
    return gradeBelief(said, problem);
  };

/**
 * Asks the reasoner for its final belief after its last word. The reply is bound to the format, so
 * that models that cannot follow it are graded too.
 */
export async function askedBelief(
  reasoner: Reasoner,
  problem: Problem,
  of: Trajectory,
  options: Asking = {},
): Promise<Grade> {
  if (problem.kind !== 'binary' || problem.correctOption === null)
    return { ok: false, reason: 'no answer known' };
  const messages: Message[] = [
    ...of.prompt,
    { role: 'assistant', content: textOf(of) },
    { role: 'user', content: `${beliefForm(problem)} Write that alone.` },
  ];
  const how = bound({ ...options, isBound: true }, BELIEF_GRAMMAR);
  const { text } = await reasoner.infer(messages, how);
  return gradeBelief(text, problem);
}

async function rated(judge: Reasoner, content: string, options: Asking): Promise<Grade> {
  const asked: Message = { role: 'user', content: `${content}\n\n${VERDICT_FORM}` };
  const verdict = await askVerdict(judge, [asked], bound(options, VERDICT_GRAMMAR));
  return verdict.ok ? { ok: true, value: verdict.score } : { ok: false, reason: 'grader failed' };
}

const reference = (problem: Problem): string | null =>
  problem.kind === 'open' ? problem.reference : null;

/** Rates from 0 to 1 by an instruction, with the reference answer if there is one. */
export const modelGrader =
  (judge: Reasoner, instruction: string, options: Asking = {}): Grader =>
  (text, problem) => {
    const known = reference(problem);
    const beside = known === null ? '' : `\n\nA reference answer:\n${known}`;
    const task = `Task:\n${problem.question}\n\nResponse:\n${text}${beside}`;
    return rated(judge, `${instruction}\n\n${task}`, options);
  };

/**
 * Part of the insights of a reference answer that a response has; other points and other
 * conclusions cost nothing.
 */
export const coverageGrader =
  (judge: Reasoner, options: Asking = {}): Grader =>
  (text, problem) => {
    const known = reference(problem);
    if (known === null) return { ok: false, reason: 'no answer known' };
    const content =
      'List the insights of the reference, and say of each whether the response has it. Points that the response makes beside them, and ' +
      `other conclusions, do not count against it. The score is the part of them that it has.\n\nTask:\n${problem.question}\n\n` +
      `Reference:\n${known}\n\nResponse:\n${text}`;
    return rated(judge, content, options);
  };
