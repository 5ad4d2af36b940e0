/** The words in which a policy is asked, mode by mode. */
import { beliefForm } from '../graders/belief-grader.js';
import type { Message } from '../reasoner.js';
import type { Problem } from '../problem.js';
import type { Instruction, ReasoningMode, ReasoningModeOf } from './mode.js';

/** A question with its options. */
export const questionText = (problem: Problem): string =>
  problem.kind === 'open'
    ? problem.question
    : `${problem.question}\n\nThe answer is “${problem.options[0]}” or “${problem.options[1]}”.`;

/** A token of English is three quarters of a word. */
const WORDS_PER_TOKEN = 0.75;

/** The two sides of a debate. */
export const sidesOf = (problem: Problem): readonly [string, string] =>
  problem.kind === 'binary'
    ? [`“${problem.options[0]}”`, `“${problem.options[1]}”`]
    : ['the answer that suggests itself', 'another answer than that'];

function howToReason(problem: Problem, mode: ReasoningMode): string {
  switch (mode.name) {
    case 'chain-of-thought':
      return '\n\nThink step by step. Leave a blank line between two steps, and give your answer in the last one.';
    case 'self-debate': {
      const [first, second] = sidesOf(problem);
      return `\n\nTwo speakers take turns: one argues for ${first}, the other for ${second}.`;
    }
    case 'length-control':
      return `\n\nWrite about ${Math.max(1, Math.round(mode.tokens * WORDS_PER_TOKEN))} words.`;
    case 'direct':
    case 'bootstrap-interview':
      return '';
  }
}

/**
 * Messages that a trajectory answers.
 * @param stated whether the reasoning is to state its belief at its end
 */
export const opening = (
  problem: Problem,
  mode: ReasoningMode,
  system: string | null,
  stated = false,
): Message[] => [
  ...(system === null ? [] : [{ role: 'system', content: system } as const]),
  {
    role: 'user',
    content:
      questionText(problem) +
      howToReason(problem, mode) +
      (stated && problem.kind === 'binary' ? `\n\n${beliefForm(problem)}` : ''),
  },
];

/** Text of a turn of a debate. */
export const speech = (side: string, words: string): string => `For ${side}: ${words}`;

/**
 * Messages for a turn of a debate. Earlier turns are quoted in the question, because one model
 * speaks for both sides.
 */
export function debateTurn(
  prompt: readonly Message[],
  said: readonly string[],
  side: string,
): Message[] {
  const asked = prompt.at(-1)!.content;
  const before = said.length === 0 ? '' : `\n\nSo far:\n\n${said.join('\n\n')}`;
  const task =
    said.length === 0 ? 'in one paragraph' : 'in one paragraph, and answer what was said last';
  return [
    ...prompt.slice(0, -1),
    { role: 'user', content: `${asked}${before}\n\nArgue for ${side} now, ${task}.` },
  ];
}

export const GO_ON = 'Go on.';

/** Questions that help to find out what is true, whatever the matter. */
export const FIXED_QUESTIONS = [
  'When people disagree about a question, how can one find out who is right?',
  'What is a common way in which a careful person still comes to a wrong conclusion?',
  'How should one change one’s mind when a new piece of evidence points the other way?',
  'What would you want to know before you trusted your first impression of a question?',
  'How can one tell a good reason from one that only sounds good?',
  'When is it right to say that one does not know?',
  'How do you notice that you are looking only for what supports you?',
  'What makes one piece of evidence stronger than another?',
] as const;

const INSTRUCTION_TEXTS: Readonly<Record<Instruction, string>> = {
  curriculum:
    'They should lead up to it: begin with something easy that it rests on, and let each be a little harder than the one before.',
  'contradiction-seeking':
    'They should bring out contradictions: each asks about something that cannot hold together with a hasty answer to it.',
  synergistic:
    'They should each light up another side of it, so that their answers together say more than any of them alone.',
  socratic:
    'They should be those of a patient teacher who gives nothing away: each asks for a definition, a ground or a consequence.',
};

/** Earlier questions with their answers. */
export interface Answered {
  readonly question: string;
  readonly answer: string;
}

/** Messages that ask a generator for all questions, one per line, or for the next one. */
export function generatorPrompt(
  problem: Problem,
  mode: ReasoningModeOf<'bootstrap-interview'>,
  how: { readonly count: number } | { readonly after: readonly Answered[] },
): Message[] {
  const task =
    'count' in how
      ? `Write ${how.count} questions, one a line and nothing else`
      : 'Write the next question, in one line and nothing else';
  const before =
    'after' in how && how.after.length > 0
      ? `\n\nAsked so far:\n${how.after.map(({ question, answer }) => `- ${question}\n  ${answer}`).join('\n')}`
      : '';
  const content =
    `Somebody is going to be asked this:\n\n${questionText(problem)}${before}\n\n${task}, that should be asked first. ` +
    `${INSTRUCTION_TEXTS[mode.instructions]} None of them may be the question itself.`;
  return [{ role: 'user', content }];
}

/** The questions in what a generator wrote: lines without their numbers or dashes. */
export const questionsIn = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.replace(/^[\s>*#-]*(?:\d{1,3}[.):]\s*)?/, '').trim())
    .filter((line) => line !== '');
