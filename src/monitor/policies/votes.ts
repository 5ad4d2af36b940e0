/** The choice of a model that answers in text: JSON objects `{choice, why}`, and a majority. */
import { z } from 'zod';
import type { Menu } from '../menu.js';
import type { Question, Reader } from '../question.js';
import type { RuleId } from '../rules.js';
import type { TraineeTypes } from '../trainee.js';
import { renderPrompt } from './prompt.js';

/** Rules on which several votes are cast: their remedies are the gravest. */
export const VOTED_RULES: readonly RuleId[] = ['R6', 'R7'];

const MOST_VOTES = 15;
export const votesCount = z.int().min(1).max(MOST_VOTES);

const reply = z.array(z.string().max(100_000)).max(MOST_VOTES);

/** Schema of an answer, within the subset that every vendor takes. */
export const answerSchema = (menu: Menu): object => ({
  type: 'object',
  properties: {
    choice: { type: 'string', enum: menu.map(({ id }) => id) },
    why: { type: 'string' },
  },
  required: ['choice', 'why'],
  additionalProperties: false,
});

/** The option that a text names; null if it names none. The form of a server is never believed. */
export function choiceIn(text: string, menu: Menu): string | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const parsed = z.strictObject({ choice: z.string(), why: z.string() }).safeParse(value);
  const choice = parsed.success ? parsed.data.choice : null;
  return menu.some(({ id }) => id === choice) ? choice : null;
}

export const votesFor = <T extends TraineeTypes>(
  { context: { rule } }: Pick<Question<T>, 'context'>,
  votes: number,
): number => (VOTED_RULES.includes(rule) ? votes : 1);

export const votesReader = <T extends TraineeTypes>(
  commitment: Reader['commitment'],
  { votes, feedback }: { readonly votes: number; readonly feedback: string | null },
): Reader<T> => ({
  source: 'model',
  commitment,
  render: (context, menu) => renderPrompt(context, menu, { form: 'json', feedback }),
  read(question, value) {
    const parsed = reply.safeParse(value);
    if (!parsed.success || parsed.data.length !== votesFor(question, votes))
      return { choice: null, reason: 'the reply does not have one text for each vote' };
    const cast = parsed.data
      .map((text) => choiceIn(text, question.menu as Menu))
      .filter((choice) => choice !== null);
    if (cast.length === 0)
      return { choice: null, reason: 'no reply is a JSON object that names an option' };
    const count = (choice: string): number => cast.filter((each) => each === choice).length;
    // among equals the first vote counts
    const choice = cast.reduce((a, b) => (count(b) > count(a) ? b : a));
    return { choice, margin: null, agreement: count(choice) / cast.length };
  },
});
