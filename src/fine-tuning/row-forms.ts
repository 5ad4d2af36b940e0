/**
 * The forms of a row that is an example: by TRL, mlx-lm, OpenAI, Alpaca and ShareGPT, and as `run`
 * takes rows.
 */
import { z } from 'zod';
import { plainIssue, plainWords } from '../wrong-input.js';
import { asTemplatesKnow, message as readMessage, type ReadMessage } from '../engine/messages.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { otherWeight, unlearnedBy } from './row-members.js';

/** As TRL, mlx-lm and ShareGPT name them, by OpenAI's names. */
const ROLES: Readonly<Record<string, string>> = { human: 'user', gpt: 'assistant' };
export const openAiRole = (role: unknown): unknown =>
  typeof role === 'string' ? (ROLES[role] ?? role) : role;
const hasCalls = ({
  tool_calls: calls,
  function_call: call,
}: Readonly<Record<string, unknown>>): boolean =>
  (Array.isArray(calls) && calls.length > 0) || (call ?? null) !== null;
/** A message that may be said not to be learned. */
export interface RowMessage extends ReadMessage {
  readonly learned: boolean;
}
const message = z
  .looseObject({})
  .refine((given) => !hasCalls(given), 'has tool calls, which are not supported in training')
  .transform((given, context): RowMessage => {
    const parsed = readMessage.safeParse(
      { ...given, role: openAiRole(given.role) },
      { error: plainWords },
    );
    if (!parsed.success) {
      for (const issue of parsed.error.issues.map(plainIssue))
        context.addIssue({ code: 'custom', path: issue.path, message: issue.message });
      return z.NEVER;
    }
    const weight = otherWeight(given);
    if (weight !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['weight'],
        message: `must be 0 or 1, not ${JSON.stringify(weight)}`,
      });
    return { ...parsed.data, learned: unlearnedBy(given) === null };
  });
const messages = z.array(message).min(1);
const said = messages
  .length(1, 'must be a string or a list of one message')
  .transform(([one]) => one!.content);
export const reply = z.union([z.string(), said]);

/** What is asked, and what is learned; a plain text is learned from its second token on. */
export type Example =
  | {
      readonly prompt: readonly ChatMessage[];
      readonly answer: string;
      /**
       * Of the assistant's messages in the prompt, by their numbers among them: those that are not
       * to be learned either.
       */
      readonly unlearned?: readonly number[];
    }
  | { readonly text: string };

/** Messages before an answer. */
export interface Asked {
  readonly prompt: readonly ChatMessage[];
  readonly unlearned?: readonly number[];
}

const askedBy = (read: readonly RowMessage[]): Asked => {
  const unlearned = read
    .filter(({ role }) => role === 'assistant')
    .flatMap(({ learned }, i) => (learned ? [] : [i]));
  return { prompt: asTemplatesKnow(read), ...(unlearned.length > 0 && { unlearned }) };
};

export const asked = (content: string, system?: string): ChatMessage[] => [
  ...(system === undefined || system === '' ? [] : [{ role: 'system', content: system } as const]),
  { role: 'user', content },
];
/** As a text that the user says, or as messages. */
export const askedOf = z
  .union([z.string(), messages])
  .transform((given) => (typeof given === 'string' ? { prompt: asked(given) } : askedBy(given)));
/** A conversation, or what is asked. */
export const conversation = messages.transform(askedBy);

const answered = (read: readonly RowMessage[], context: z.RefinementCtx): Example => {
  const last = read.at(-1)!;
  if (read.length < 2 || last.role !== 'assistant') {
    context.addIssue("the last message must be the assistant's and must follow another message");
    return z.NEVER;
  }
  return { ...askedBy(read.slice(0, -1)), answer: last.content };
};

/** As the rows of a data file have it: what is no text is written as JSON. */
const answer = z
  .json()
  .transform((value) => (typeof value === 'string' ? value : JSON.stringify(value)));

/** ShareGPT's. */
const turn = z
  .looseObject({
    from: z.enum(['system', 'developer', 'user', 'human', 'assistant', 'gpt', 'tool']),
    value: z.string(),
  })
  .transform(
    ({ from, value, ...more }): Readonly<Record<string, unknown>> => ({
      ...more,
      role: from,
      content: value,
    }),
  )
  .pipe(message);

export interface Form {
  readonly schema: z.ZodType<Example>;
  /** Members that it reads. */
  readonly members: readonly string[];
  /** Of these, lists of messages or texts. */
  readonly said: readonly string[];
  /** The one whose last message is what is learned. */
  readonly learned?: string;
  /**
   * A row of it may name its class: a label that is a number says nothing of what is to be learned.
   */
  readonly isClassed?: boolean;
}

/** By the member that tells them apart. */
export const FORMS: Readonly<Record<string, Form>> = {
  // TRL and mlx-lm: conversations; or what `run` takes, whose answer stands beside them
  messages: {
    schema: z
      .object({ messages, answer: answer.optional() })
      .transform((row, context) =>
        row.answer !== undefined && row.messages.at(-1)!.role === 'user'
          ? { ...askedBy(row.messages), answer: row.answer }
          : answered(row.messages, context),
      ),
    members: ['messages', 'answer'],
    said: ['messages'],
    learned: 'messages',
  },
  // ShareGPT
  conversations: {
    schema: z
      .object({
        conversations: z.array(turn).min(1),
        system: z.string().optional(),
      })
      .transform(({ conversations, system = '' }, context) => {
        const first: RowMessage[] =
          system === ''
            ? []
            : [{ role: 'system', content: system, calls: [], isResult: false, learned: true }];
        return answered([...first, ...conversations], context);
      }),
    members: ['conversations', 'system'],
    said: ['conversations'],
    learned: 'conversations',
  },
  // TRL and mlx-lm: a prompt and its completion
  completion: {
    schema: z
      .object({ prompt: askedOf, completion: reply })
      .transform(({ prompt, completion }) => ({ ...prompt, answer: completion })),
    members: ['prompt', 'completion'],
    said: ['prompt', 'completion'],
    learned: 'completion',
  },
  // what `run` takes
  answer: {
    schema: z
      .object({ prompt: z.string(), answer })
      .transform(({ prompt, answer }) => ({ prompt: asked(prompt), answer })),
    members: ['prompt', 'answer'],
    said: [],
    isClassed: true,
  },
  // Alpaca
  instruction: {
    schema: z
      .object({
        instruction: z.string(),
        input: z.string().optional(),
        output: z.string(),
        system: z.string().optional(),
      })
      .transform(({ instruction, input = '', output, system }) => ({
        prompt: asked(input === '' ? instruction : `${instruction}\n\n${input}`, system),
        answer: output,
      })),
    members: ['instruction', 'input', 'output', 'system'],
    said: [],
  },
  // TRL and mlx-lm: language modelling
  text: {
    schema: z.object({ text: z.string() }).transform(({ text }) => ({ text })),
    members: ['text'],
    said: [],
    isClassed: true,
  },
};
export const EXPECTED =
  '{"messages"}, {"prompt", "completion"}, {"prompt", "answer"}, {"text"}, ' +
  '{"instruction", "input", "output"} or {"conversations": [{"from", "value"}]}';

/** The member that tells an example's form, of a row without nulls. */
export const formOf = (row: Readonly<Record<string, unknown>>): string | undefined =>
  Object.keys(FORMS).find((form) => Object.hasOwn(row, form));

/** Of a row without nulls. */
export const isPair = (row: Readonly<Record<string, unknown>>): boolean =>
  ('chosen' in row && 'rejected' in row) || 'preferred_output' in row;
