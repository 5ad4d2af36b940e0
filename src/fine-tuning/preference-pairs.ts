/**
 * Preference pairs in the forms in which TRL and OpenAI read them: one JSON object a line, or one
 * array of them.
 */
import { z } from 'zod';
import { plainWords } from '../wrong-input.js';
import type { Model } from '../engine/model.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import type { TrainSequence } from '../engine/trainer.js';
import { askedOf, conversation, formOf, isPair, reply } from './row-forms.js';
import {
  isObject,
  unreadNote,
  unreadOfMessages,
  unreadOfRow,
  withoutNulls,
} from './row-members.js';
import {
  answeredTokens,
  invalid,
  malformed,
  refusedRow,
  refuseUnlearned,
  sequenceOf,
  TOO_LONG,
  type Row,
  type Rows,
} from './training-examples.js';

/** Two replies to one prompt; the labelled tokens are the reply and its end. */
export interface PreferencePair {
  /** Tokens before the replies. */
  readonly prompt: Int32Array;
  readonly chosen: TrainSequence;
  readonly rejected: TrainSequence;
}

export interface PreferencePairs {
  readonly pairs: readonly PreferencePair[];
  /** Number of skipped pairs with a reply longer than `maxTokens`. */
  readonly tooLong: number;
  /** Number of skipped pairs with two identical replies, which teach nothing. */
  readonly equal: number;
  /** Notes on what is not trained on. */
  readonly notes: readonly string[];
}

interface Compared {
  readonly prompt: readonly ChatMessage[];
  readonly chosen: string;
  readonly rejected: string;
}

/** One side of a pair. */
interface Side {
  /** What stands before the reply in a whole conversation. */
  readonly before: readonly ChatMessage[] | null;
  readonly text: string;
  /** Whether it is the assistant's, where there is a conversation. */
  readonly isReply: boolean;
}
const whole = conversation.transform(({ prompt }): Side => {
  const { role, content: text } = prompt.at(-1)!;
  return prompt.length === 1
    ? { before: null, text, isReply: true }
    : { before: prompt.slice(0, -1), text, isReply: role === 'assistant' };
});
/** A reply as a text or as its message, or a whole conversation that ends with it. */
const side = z.union([
  z.string().transform((text): Side => ({ before: null, text, isReply: true })),
  whole,
]);

const isSame = (a: readonly ChatMessage[], b: readonly ChatMessage[]): boolean =>
  JSON.stringify(a) === JSON.stringify(b);
const isSystem = ({ role }: ChatMessage): boolean => role === 'system';

/** What both sides answer; null where they are replies alone. */
function commonPrompt(
  chosen: Side,
  rejected: Side,
  { addIssue }: z.RefinementCtx,
): readonly ChatMessage[] | null {
  const [good, bad] = [chosen.before, rejected.before];
  if (good !== null && bad !== null && !isSame(good, bad))
    addIssue('the two conversations differ before their last messages');
  if ((good === null) !== (bad === null))
    addIssue({
      code: 'custom',
      path: [good === null ? 'rejected' : 'chosen'],
      message:
        'must be a string or a list of one message, unless both sides are whole conversations',
    });
  return good;
}

/** Whether a conversation begins with what is asked, or ends with it, whatever the system says. */
function isAsked(before: readonly ChatMessage[], prompt: readonly ChatMessage[]): boolean {
  const trimmed = (said: readonly ChatMessage[]): ChatMessage[] =>
    said
      .filter((each) => !isSystem(each))
      .map(({ role, content }) => ({ role, content: content.trim() }));
  const [whole, part] = [trimmed(before), trimmed(prompt)];
  return (
    isSame(whole.slice(0, part.length), part) ||
    isSame(whole.slice(whole.length - part.length), part)
  );
}

/**
 * TRL's, and as UltraFeedback is published: the prompt beside two whole conversations that have it.
 */
const explicit = z
  .object({ prompt: askedOf, chosen: side, rejected: side })
  .transform((row, context): Compared => {
    const { prompt } = row.prompt;
    const replies = { chosen: row.chosen.text, rejected: row.rejected.text };
    for (const name of ['chosen', 'rejected'] as const)
      if (!row[name].isReply)
        context.addIssue({
          code: 'custom',
          path: [name],
          message: "the last message must be the assistant's",
        });
    const before = commonPrompt(row.chosen, row.rejected, context);
    if (before === null) return { prompt, ...replies };
    if (!isAsked(before, prompt))
      context.addIssue(
        'the two conversations do not contain the prompt before their last messages',
      );
    return {
      prompt: before.some(isSystem) ? before : [...prompt.filter(isSystem), ...before],
      ...replies,
    };
  });

/** Whole conversations, equal up to the last message of each, which is the assistant's. */
const implicit = z
  .object({ chosen: whole, rejected: whole })
  .transform(({ chosen, rejected }, context): Compared => {
    if ([chosen, rejected].some(({ before, isReply }) => before === null || !isReply)) {
      context.addIssue(
        "the last message of both must be the assistant's and must follow another message",
      );
      return z.NEVER;
    }
    return {
      prompt: commonPrompt(chosen, rejected, context) ?? [],
      chosen: chosen.text,
      rejected: rejected.text,
    };
  });

/** OpenAI's. */
export const preference = z
  .object({
    input: z.object({ messages: conversation }),
    preferred_output: reply,
    non_preferred_output: reply,
  })
  .transform(
    ({ input, preferred_output: chosen, non_preferred_output: rejected }): Compared => ({
      prompt: input.messages.prompt,
      chosen,
      rejected,
    }),
  );

/** By the member that tells them apart. */
const FORMS = [
  {
    by: 'preferred_output',
    schema: preference,
    members: ['input', 'preferred_output', 'non_preferred_output'],
  },
  { by: 'prompt', schema: explicit, members: ['prompt', 'chosen', 'rejected'] },
  { by: 'chosen', schema: implicit, members: ['chosen', 'rejected'] },
] as const;

interface ComparedRow extends Compared {
  /** Members of the row, and of its messages, that no form reads. */
  readonly unread: readonly string[];
}

function comparedOf({ value, name }: Row): ComparedRow {
  const row = isObject(value) ? withoutNulls(value) : {};
  const form = isPair(row) ? FORMS.find(({ by }) => by in row) : undefined;
  if (form === undefined)
    throw refusedRow(
      name,
      formOf(row) === undefined
        ? 'expected {"prompt", "chosen", "rejected"} or two conversations, {"chosen", "rejected"}'
        : 'this is an example, not a preference pair; omit --objective dpo',
    );
  refuseUnlearned(row, name, 'the row');
  for (const member of form.members) {
    const list = row[member];
    if (member !== 'prompt' && Array.isArray(list))
      refuseUnlearned(list.at(-1), name, `the last message of ${member}`);
  }
  const parsed = form.schema.safeParse(row, { error: plainWords });
  if (!parsed.success) throw malformed(name, parsed.error);
  const { input } = row;
  const unread = [
    ...unreadOfRow(row, form.members),
    ...form.members.flatMap((member) => unreadOfMessages(row[member])),
    ...(form.by === 'preferred_output' && isObject(input)
      ? [...unreadOfRow(input, ['messages']), ...unreadOfMessages(input.messages)]
      : []),
  ];
  return { ...parsed.data, unread };
}

/**
 * Rows `{prompt, chosen, rejected}` of texts or messages, two conversations that part in their last
 * message, or OpenAI's. Prompts are rendered by the model's template exactly as for generation.
 * @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID naming the row
 */
export async function tokenisedPairs(
  rows: Rows,
  model: Model,
  maxTokens: number,
): Promise<PreferencePairs> {
  const pairs: PreferencePair[] = [];
  const read: Pick<ComparedRow, 'unread'>[] = [];
  let [tooLong, equal] = [0, 0];
  for await (const row of rows) {
    const { prompt, chosen, rejected, unread } = comparedOf(row);
    read.push({ unread });
    const sides = [chosen, rejected].map((answer) =>
      answeredTokens(prompt, answer, model, row.name),
    );
    if (chosen === rejected) equal++;
    else if (sides.some(({ tokenIds }) => tokenIds.length > maxTokens)) tooLong++;
    else {
      const [good, bad] = [sides[0]!, sides[1]!];
      pairs.push({
        prompt: good.tokenIds.slice(0, good.labelled),
        chosen: sequenceOf(good),
        rejected: sequenceOf(bad),
      });
    }
  }
  if (pairs.length === 0)
    throw equal > 0 && tooLong === 0
      ? invalid(`all ${equal} pairs have two identical replies`, { remedy: EQUAL })
      : invalid(`no pair has two different replies of at most ${maxTokens} tokens each`, {
          remedy: TOO_LONG,
        });
  const left =
    equal === 0
      ? []
      : [
          `${equal} ${equal === 1 ? 'pair has' : 'pairs have'} two identical replies and ${equal === 1 ? 'is' : 'are'} skipped`,
        ];
  return { pairs, tooLong, equal, notes: [...left, ...unreadNote(read)] };
}

const EQUAL =
  'Give pairs of a better and a worse reply; two identical replies do not show a preference.';
