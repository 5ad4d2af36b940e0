/** Examples to fine-tune on, in the forms in which others write them: one JSON object a line, or one array of them. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { plainIssue, plainWords } from '../wrong-input.js';
import type { Model } from './model.js';
import type { ChatMessage } from './prompt-renderer.js';
import { readRowJson } from './row-json.js';
import type { TrainSequence } from './trainer.js';

const ROLES = {
  system: 'system',
  user: 'user',
  human: 'user',
  assistant: 'assistant',
  gpt: 'assistant',
  tool: 'tool',
} as const;
const role = z.enum(Object.keys(ROLES) as [keyof typeof ROLES]).transform((name) => ROLES[name]);
/** Or parts, as OpenAI has them. */
const content = z.union([
  z.string(),
  z
    .array(z.object({ type: z.literal('text'), text: z.string() }))
    .min(1)
    .transform((parts) => parts.map(({ text }) => text).join('')),
]);
const hasCalls = ({ tool_calls: calls, function_call: call }: Readonly<Record<string, unknown>>): boolean =>
  (Array.isArray(calls) && calls.length > 0) || (call ?? null) !== null;
const message = z
  .looseObject({})
  .refine((given) => !hasCalls(given), 'has tool calls, which are not trained on')
  .pipe(z.object({ role, content }));
export const messages = z.array(message).min(1);
export const reply = z.union([
  z.string(),
  messages.length(1, 'takes a text or a list of one message').transform(([said]) => said!.content),
]);

/** What is asked, and what is learned; a plain text is learned from its second token on. */
export type Example = { readonly prompt: readonly ChatMessage[]; readonly answer: string } | { readonly text: string };

const answered = (said: readonly ChatMessage[], context: z.RefinementCtx): Example => {
  const last = said.at(-1)!;
  if (said.length < 2 || last.role !== 'assistant') {
    context.addIssue("the last message must be the assistant's, after another");
    return z.NEVER;
  }
  return { prompt: said.slice(0, -1), answer: last.content };
};
export const asked = (content: string, system?: string): ChatMessage[] => [
  ...(system === undefined || system === '' ? [] : [{ role: 'system', content: system } as const]),
  { role: 'user', content },
];

/** As the rows of a data file have it: what is no text is written as JSON. */
const answer = z.json().transform((value) => (typeof value === 'string' ? value : JSON.stringify(value)));

/** By the member that tells them apart. */
const FORMS: Readonly<Record<string, z.ZodType<Example>>> = {
  // TRL and mlx-lm: conversations; or what `run` takes, whose answer stands beside them
  messages: z
    .object({ messages, answer: answer.optional() })
    .transform((row, context) =>
      row.answer !== undefined && row.messages.at(-1)!.role === 'user'
        ? { prompt: row.messages, answer: row.answer }
        : answered(row.messages, context),
    ),
  // ShareGPT
  conversations: z
    .object({ conversations: z.array(z.object({ from: role, value: z.string() })).min(1), system: z.string().optional() })
    .transform(({ conversations, system }, context) => {
      const said = conversations.map(({ from, value }): ChatMessage => ({ role: from, content: value }));
      return answered(system === undefined || system === '' ? said : [{ role: 'system', content: system }, ...said], context);
    }),
  // TRL and mlx-lm: a prompt and its completion
  completion: z.object({ prompt: z.union([z.string(), messages]), completion: reply }).transform(({ prompt, completion }) => ({
    prompt: typeof prompt === 'string' ? asked(prompt) : prompt,
    answer: completion,
  })),
  // what `run` takes
  answer: z.object({ prompt: z.string(), answer }).transform(({ prompt, answer }) => ({ prompt: asked(prompt), answer })),
  // Alpaca
  instruction: z
    .object({ instruction: z.string(), input: z.string().optional(), output: z.string(), system: z.string().optional() })
    .transform(({ instruction, input = '', output, system }) => ({
      prompt: asked(input === '' ? instruction : `${instruction}\n\n${input}`, system),
      answer: output,
    })),
  // TRL and mlx-lm: language modelling
  text: z.object({ text: z.string() }).transform(({ text }) => ({ text })),
};
const EXPECTED =
  '{"messages"}, {"prompt", "completion"}, {"prompt", "answer"}, {"text"}, ' +
  '{"instruction", "input", "output"} or {"conversations": [{"from", "value"}]}';

const PAGE = '`docs/commands/train.md` says what a row holds.';
export const TOO_LONG = 'Allow more tokens (--max-tokens), as far as the model was trained for them, or shorten the examples.';

export interface TrainingExamples {
  readonly sequences: readonly TrainSequence[];
  /** Of sequences that are answers of one conversation, its row. */
  readonly conversations: ReadonlyMap<TrainSequence, string>;
  /** Examples longer than `maxTokens`: left out, since a truncated answer would teach to stop anywhere. */
  readonly tooLong: number;
}

/** A reply as the model would have said it: the tokens of its text, and the one that ends the turn. */
export function replyTokens(model: Pick<Model, 'info' | 'tokenize'>, text: string): Int32Array {
  const { eot, eos } = model.info;
  const end = eot >= 0 ? eot : eos;
  return Int32Array.from([...model.tokenize(text), ...(end >= 0 ? [end] : [])]);
}

/** An example with what its row is called. */
export interface NamedExample {
  readonly example: Example;
  readonly name: string;
  /** As the row has it: what is read of it says what it must be. */
  readonly score: unknown;
  /** Name of the row whose conversation it is an answer of, where each of them is an example. */
  readonly conversation?: string;
}

/**
 * The rows of TRL, mlx-lm, Alpaca and ShareGPT, and those of `run`, also mixed.
 * @throws IsoproError INVALID_ARGUMENT naming the line, or the row of an array
 */
export async function parseExamples(lines: AsyncIterable<string>): Promise<NamedExample[]> {
  const examples: NamedExample[] = [];
  for await (const row of rowsOf(lines)) examples.push(exampleOf(row));
  return examples;
}

/** @throws IsoproError INVALID_ARGUMENT with the row's name */
export function exampleOf({ value, name }: Row): NamedExample {
  const example = parseExample(value, name);
  return { example, name, score: (value as { readonly score?: unknown }).score };
}

/** A row once for each answer of its conversation, each behind what was said before it. */
export function eachAnswer(row: NamedExample): NamedExample[] {
  const { example, name } = row;
  if ('text' in example) return [row];
  const earlier = example.prompt.flatMap(({ role, content }, i): NamedExample[] =>
    role === 'assistant' && i > 0 && content !== ''
      ? [
          {
            ...row,
            name: `${name}, message ${i + 1}`,
            conversation: name,
            example: { prompt: example.prompt.slice(0, i), answer: content },
          },
        ]
      : [],
  );
  return earlier.length === 0 ? [row] : [...earlier, { ...row, conversation: name }];
}

/**
 * The prompt is rendered by the model's template exactly as for generation; only the answer (of a conversation the last one) and its
 * end-of-turn token are labelled. A plain text begins with BOS where the vocabulary asks for one, ends with the end of the sequence, and is
 * labelled whole.
 * @throws IsoproError INVALID_ARGUMENT naming the row, TEMPLATE_INVALID
 */
export function tokenisedExamples(
  examples: readonly (Pick<NamedExample, 'example' | 'name' | 'conversation'> & Pick<TrainSequence, 'weight'>)[],
  model: Model,
  maxTokens: number,
): TrainingExamples {
  const sequences: TrainSequence[] = [];
  const conversations = new Map<TrainSequence, string>();
  let tooLong = 0;
  for (const { example, name, conversation, weight } of examples) {
    const tokens = tokensOf(example, model, name);
    if (tokens.tokenIds.length > maxTokens) tooLong++;
    else if (tokens.labelled > 0 && tokens.tokenIds.length > tokens.labelled) {
      const sequence = { ...sequenceOf(tokens), ...(weight === undefined ? {} : { weight }) };
      sequences.push(sequence);
      if (conversation !== undefined) conversations.set(sequence, conversation);
    }
  }
  if (sequences.length === 0)
    throw new IsoproError('INVALID_ARGUMENT', `there is no example of at most ${maxTokens} tokens`, { remedy: TOO_LONG });
  return { sequences, conversations, tooLong };
}

/** What a row holds, and what to call it. */
export interface Row {
  readonly value: unknown;
  readonly name: string;
}

export async function* rowsOf(lines: AsyncIterable<string>): AsyncGenerator<Row> {
  let number = 0;
  let rows = 0;
  let array: string[] | null = null;
  for await (const line of lines) {
    number++;
    if (array === null && line.trim() === '') continue;
    if (array === null && number === 1 && line.trimStart().startsWith('[')) array = [];
    if (array === null) yield { value: parseRow(line, `line ${number}`), name: `line ${number}` };
    else array.push(line);
    rows++;
  }
  const values = array === null ? [] : arrayOf(array.join('\n'));
  for (const [index, value] of values.entries()) yield { value, name: `row ${index + 1}` };
  if (array === null ? rows === 0 : values.length === 0)
    throw new IsoproError('INVALID_ARGUMENT', 'the file is empty: it has no rows', {
      remedy: `Put a row for each example into it; ${PAGE}`,
    });
}

function arrayOf(text: string): readonly unknown[] {
  try {
    return readRowJson(text, (index, what) => {
      throw refusedRow(`row ${index! + 1}`, what);
    }) as unknown[];
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    throw new IsoproError('INVALID_ARGUMENT', `the file begins as an array and is not JSON: ${(cause as Error).message}`, {
      cause,
      remedy: 'Close the array and put commas between its rows, or write one row a line.',
    });
  }
}

function parseRow(line: string, name: string): unknown {
  try {
    return readRowJson(line, (_, what) => {
      throw refusedRow(name, what);
    });
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    throw refusedRow(name, `is not JSON: ${(cause as Error).message}`, { cause });
  }
}

export interface Labelled {
  readonly tokenIds: Int32Array;
  /** The first token that is learned. */
  readonly labelled: number;
}

export const sequenceOf = ({ tokenIds, labelled }: Labelled): TrainSequence => ({
  tokenIds,
  labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= labelled ? 1 : 0)),
});

function tokensOf(example: Example, model: Model, name: string): Labelled {
  if ('text' in example) {
    const { addBos, bos, eos } = model.info;
    const tokenIds = [...(addBos && bos >= 0 ? [bos] : []), ...model.tokenize(example.text), ...(eos >= 0 ? [eos] : [])];
    if (example.text === '') throw refusedRow(name, 'the text is empty');
    return { tokenIds: Int32Array.from(tokenIds), labelled: 1 };
  }
  return answeredTokens(example.prompt, example.answer, model, name);
}

/** @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID */
export function answeredTokens(prompt: readonly ChatMessage[], answer: string, model: Model, name: string): Labelled {
  if (answer === '') throw refusedRow(name, 'the answer is empty; it would teach to say nothing');
  const ids = model.renderChat(prompt).tokenIds;
  return { tokenIds: Int32Array.from([...ids, ...replyTokens(model, answer)]), labelled: ids.length };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null;

/** The member that tells an example's form. */
export const formOf = (row: unknown): string | undefined => Object.keys(FORMS).find((form) => isObject(row) && Object.hasOwn(row, form));

export const isPair = (row: unknown): row is Readonly<Record<string, unknown>> =>
  isObject(row) && (('chosen' in row && 'rejected' in row) || 'preferred_output' in row);

/** Rows that say what is not to be learned. @throws IsoproError INVALID_ARGUMENT */
function refuseUnwanted(row: Readonly<Record<string, unknown>>, form: string, name: string): void {
  const { label, messages: said } = row;
  const remedy = 'Leave such rows out; of a good and a bad reply to one prompt make a pair for `train --objective dpo`.';
  if (form === 'completion' && /^false$/i.test(String(label)))
    throw refusedRow(name, 'its label is false: KTO learns from it what not to say, and sft would learn to say it', { remedy });
  const last: unknown = Array.isArray(said) ? said.at(-1) : undefined;
  if (form === 'messages' && isObject(last) && last['role'] !== 'user' && last['weight'] === 0)
    throw refusedRow(name, 'the last message has weight 0: it is not to be learned, and it is all that sft learns of a row', { remedy });
}

function parseExample(row: unknown, name: string): Example {
  const member = formOf(row);
  if (member === undefined && isPair(row)) throw refusedRow(name, 'these are preference pairs: --objective dpo');
  if (member === undefined || !isObject(row)) throw refusedRow(name, `expected ${EXPECTED}`);
  refuseUnwanted(row, member, name);
  const parsed = FORMS[member]!.safeParse(row, { error: plainWords });
  if (parsed.success) return parsed.data;
  throw malformed(name, parsed.error);
}

export const refusedRow = (name: string, what: string, { remedy, cause }: { remedy?: string; cause?: unknown } = {}): IsoproError =>
  new IsoproError('INVALID_ARGUMENT', `${name}: ${what}`, {
    cause,
    remedy: remedy ?? `Correct that row; ${PAGE}`,
  });

export function malformed(name: string, error: z.ZodError): IsoproError {
  const problems = error.issues.map(plainIssue).map((issue) => [...issue.path, issue.message].join(': '));
  return refusedRow(name, problems.join('; '), { cause: error });
}
