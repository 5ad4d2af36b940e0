/** Forms that a method of fine-tuning requires of the rows of a file, and their conversion. */
import { z } from 'zod';
import type { Json } from '../../canonical-json.js';
import { dictionary } from '../../dictionary.js';
import { asTemplatesKnow, message } from '../../engine/messages.js';
import { preference } from '../../fine-tuning/preference-pairs.js';
import type { ChatMessage } from '../../engine/prompt-renderer.js';
import { isObject, withoutNulls } from '../../fine-tuning/row-members.js';
import { maybe } from '../../object-schemas.js';
import { askedOf, filledIn, gradingOf, type ScoreModel } from '../../tasks/data/score-model.js';
import { plainIssue, plainWords } from '../../wrong-input.js';

/** Form of rows as data, so that it can be sent to a thread. */
export type RowForm =
  /** OpenAI's pairs or TRL's, as they are. */
  | { readonly kind: 'pair' }
  /** The messages alone. */
  | { readonly kind: 'messages' }
  /** The messages, and an answer from a template. */
  | { readonly kind: 'answered'; readonly reference: string }
  /** A row as it is, since any member may be one that the grader names. */
  | { readonly kind: 'scored'; readonly grader: ScoreModel };

const MOST_MESSAGES = 2048;
const messages = z.array(message).min(1).max(MOST_MESSAGES).transform(asTemplatesKnow);
const row = z.looseObject({ messages });
const scored = z.looseObject({
  messages: messages.transform((read, { addIssue }) => {
    const said = read.filter((each) => each.role !== 'tool');
    if (said.length < read.length)
      addIssue('a message with the role tool does not answer a tool call');
    return said as (ChatMessage & { role: Exclude<ChatMessage['role'], 'tool'> })[];
  }),
  answer: (z.unknown() as z.ZodType<Json>).optional(), // of a line of JSON
  tier: maybe(z.union([z.string(), z.number()])),
});

/** @throws Error naming what is wrong first */
function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value, { error: plainWords });
  if (result.success) return result.data;
  const { path, message: words } = plainIssue(result.error.issues[0]!);
  throw new Error(path.length === 0 ? words : `${path.join('.')}: ${words}`);
}

/** A row in the form that a job reads. @throws Error */
export function inForm(form: RowForm): (value: unknown) => object {
  switch (form.kind) {
    case 'pair':
      return (given) => {
        const value = isObject(given) ? withoutNulls(given) : {};
        return 'chosen' in value ? value : parsed(preference, value);
      };
    case 'messages':
      return (value) => ({ messages: parsed(row, value).messages });
    case 'answered':
      return (value) => {
        const found = parsed(row, value);
        return { messages: found.messages, answer: filledIn(form.reference, found) };
      };
    case 'scored': {
      const grading = gradingOf(form.grader);
      return (value) => {
        const found = parsed(scored, value);
        const { messages, answer = null, tier = '', ...fields } = found;
        if ((fields.prompt ?? null) !== null) throw new Error('it has both messages and prompt');
        const others = dictionary(Object.entries(fields) as [string, Json][]);
        askedOf(grading, { messages, answer, tier: String(tier), fields: others }, '');
        return found;
      };
    }
  }
}
