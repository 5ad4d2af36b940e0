/**
 * Examples to fine-tune on, in the forms in which others write them: one JSON object a line, or one
 * array of them.
 */
import type { z } from 'zod';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { plainIssue, plainWords } from '../wrong-input.js';
import type { Model } from '../engine/model.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import {
  EXPECTED,
  formOf,
  FORMS,
  isPair,
  openAiRole,
  type Example,
  type Form,
} from './row-forms.js';
import {
  isObject,
  undesirableBy,
  unlearnedBy,
  unreadOfMessages,
  unreadOfRow,
  withoutNulls,
} from './row-members.js';
import { readRowJson } from './row-json.js';
import type { TrainSequence } from '../engine/trainer.js';

const PAGE = 'see `docs/commands/train.md` for the members of a row.';
export const TOO_LONG =
  'Allow more tokens (--max-tokens), up to the context that the model was trained for, or shorten the examples.';

export interface TrainingExamples {
  readonly sequences: readonly TrainSequence[];
  /** Row of the conversation, for sequences that are answers of one. */
  readonly conversations: ReadonlyMap<TrainSequence, string>;
  /**
   * Number of skipped examples longer than `maxTokens`: a truncated answer would teach the model to
   * stop anywhere.
   */
  readonly tooLong: number;
  /** Notes on examples that are trained on differently than written. */
  readonly notes: readonly string[];
}

/**
 * A reply as the model would have said it: the tokens of its text, and the one that ends the turn.
 * @param end -1: it has none
 */
export function replyTokens(
  model: Pick<Model, 'endOfAnswer' | 'tokenize'>,
  text: string,
  end = model.endOfAnswer,
): Int32Array {
  return Int32Array.from([...model.tokenize(text), ...(end >= 0 ? [end] : [])]);
}

/** An example with the name of its row. */
export interface NamedExample {
  readonly example: Example;
  readonly name: string;
  /** Score as the row has it, unchecked. */
  readonly score: unknown;
  /** Members of the row, and of its messages, that no form reads. */
  readonly unread?: readonly string[];
  /** Name of the row whose conversation it is an answer of, where each of them is an example. */
  readonly conversation?: string;
}

/**
 * The rows of TRL, mlx-lm, Alpaca and ShareGPT, and those of `run`, also mixed.
 * @throws IsoproError INVALID_ARGUMENT naming the row
 */
export async function parseExamples(rows: Rows): Promise<NamedExample[]> {
  const examples: NamedExample[] = [];
  for await (const row of rows) examples.push(exampleOf(row));
  return examples;
}

/** @throws IsoproError INVALID_ARGUMENT with the row's name */
function exampleOf({ value, name }: Row): NamedExample {
  const row = isObject(value) ? withoutNulls(value) : {};
  const form = FORMS[formOf(row) ?? ''];
  if (form === undefined)
    throw refusedRow(
      name,
      isPair(row) ? 'these are preference pairs; use --objective dpo' : `expected ${EXPECTED}`,
    );
  refuseUnwanted(row, form, name);
  const parsed = form.schema.safeParse(row, { error: plainWords });
  if (!parsed.success) throw malformed(name, parsed.error);
  const unread = [
    ...unreadOfRow(row, form.members),
    ...form.said.flatMap((member) => unreadOfMessages(row[member])),
  ];
  return { example: parsed.data, name, score: row.score, unread };
}

/**
 * A row once for each answer of its conversation that is to be learned, each behind what was said
 * before it.
 */
export function eachAnswer(row: NamedExample): NamedExample[] {
  const { example, name } = row;
  if ('text' in example) return [row];
  const { prompt, answer, unlearned = [] } = example;
  let said = 0;
  const earlier = prompt.flatMap(({ role, content }, i): NamedExample[] => {
    const isLearned = role === 'assistant' && !unlearned.includes(said++);
    return isLearned && i > 0 && content !== ''
      ? [
          {
            ...row,
            name: `${name}, message ${i + 1}`,
            conversation: name,
            example: { prompt: prompt.slice(0, i), answer: content },
          },
        ]
      : [];
  });
  return [
    ...earlier,
    { ...row, ...(earlier.length > 0 && { conversation: name }), example: { prompt, answer } },
  ];
}

/**
 * The prompt is rendered by the model's template exactly as for generation; only the answer (of a
 * conversation the last one) and its end-of-turn token are labelled. A plain text begins with BOS
 * where the vocabulary asks for one, ends with the end of the sequence, and is labelled whole; a
 * control token that it names is that token, as where a template has written the text.
 * @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID naming the row
 */
export function tokenisedExamples(
  examples: readonly (Pick<NamedExample, 'example' | 'name' | 'conversation'> &
    Pick<TrainSequence, 'weight'>)[],
  model: Model,
  maxTokens: number,
): TrainingExamples {
  const sequences: TrainSequence[] = [];
  const controls = new Map<string, number>();
  const conversations = new Map<TrainSequence, string>();
  let tooLong = 0;
  for (const { example, name, conversation, weight } of examples) {
    if ('text' in example)
      for (const token of model.controlTokensIn(example.text))
        controls.set(token, (controls.get(token) ?? 0) + 1);
    const tokens = tokensOf(example, model, name);
    if (tokens.tokenIds.length > maxTokens) tooLong++;
    else if (tokens.labelled > 0 && tokens.tokenIds.length > tokens.labelled) {
      const sequence = { ...sequenceOf(tokens), ...given({ weight }) };
      sequences.push(sequence);
      if (conversation !== undefined) conversations.set(sequence, conversation);
    }
  }
  if (sequences.length === 0)
    throw invalid(`no example has at most ${maxTokens} tokens`, { remedy: TOO_LONG });
  return { sequences, conversations, tooLong, notes: controlNote(controls) };
}

/** @param controls of each control token, the texts that name it */
function controlNote(controls: ReadonlyMap<string, number>): string[] {
  const named = [...controls].map(
    ([token, count]) => `${token} (${count} ${count === 1 ? 'text' : 'texts'})`,
  );
  return named.length === 0
    ? []
    : [`control tokens in texts are trained as control tokens: ${named.join(', ')}`];
}

/** Value of a row, and its name for messages. */
export interface Row {
  readonly value: unknown;
  readonly name: string;
}

export type Rows = AsyncIterable<Row> | Iterable<Row>;

/** @throws IsoproError INVALID_ARGUMENT naming the line, or the row of an array */
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
    throw invalid('the file is empty: it has no rows', {
      remedy: `Write one row per example; ${PAGE}`,
    });
}

function arrayOf(text: string): readonly unknown[] {
  try {
    return readRowJson(text, (index, what) => {
      throw refusedRow(`row ${index! + 1}`, what);
    }) as unknown[];
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    throw invalid(`the file starts like an array but is not JSON: ${(cause as Error).message}`, {
      cause,
      remedy: 'Close the array and put commas between its rows, or write one row per line.',
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
    throw refusedRow(name, `not JSON: ${(cause as Error).message}`, { cause });
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
  if (!('text' in example)) return answeredTokens(example.prompt, example.answer, model, name);
  const { text } = example;
  if (text === '') throw refusedRow(name, 'the text is empty');
  const { addBos, bos, eos } = model.info;
  const ids = model.tokenize(text, { parseControl: true });
  const begins = addBos && bos >= 0 && ids[0] !== bos ? [bos] : [];
  const ends = eos >= 0 && ids.at(-1) !== eos ? [eos] : [];
  return { tokenIds: Int32Array.from([...begins, ...ids, ...ends]), labelled: 1 };
}

/** @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID, naming the row */
export function answeredTokens(
  prompt: readonly ChatMessage[],
  answer: string,
  model: Model,
  name: string,
): Labelled {
  if (answer === '')
    throw refusedRow(name, 'the answer is empty; the model would learn to say nothing');
  const ids = renderedTokens(prompt, model, name);
  return {
    tokenIds: Int32Array.from([...ids, ...replyTokens(model, answer)]),
    labelled: ids.length,
  };
}

function renderedTokens(prompt: readonly ChatMessage[], model: Model, name: string): Int32Array {
  try {
    return model.renderChat(prompt).tokenIds;
  } catch (cause) {
    if (!(cause instanceof IsoproError)) throw cause;
    const remedy =
      "Remove that row, or write its messages in the roles and the order that the model's template supports.";
    throw new IsoproError(cause.code, `${name}: ${cause.message}`, {
      cause,
      ...(cause.code === 'TEMPLATE_INVALID' && { remedy }),
    });
  }
}

/** Rows that say what is not to be learned. @throws IsoproError INVALID_ARGUMENT */
function refuseUnwanted(
  row: Readonly<Record<string, unknown>>,
  { learned, isClassed = false }: Form,
  name: string,
): void {
  const label = undesirableBy(row, isClassed);
  if (label !== null)
    throw refusedRow(
      name,
      `its ${label} is false: KTO learns to avoid such an answer, but sft would learn to give it`,
      { remedy: UNWANTED },
    );
  refuseUnlearned(row, name, 'the row');
  const list = learned === undefined ? undefined : row[learned];
  const last: unknown = Array.isArray(list) ? list.at(-1) : undefined;
  if (isObject(last) && openAiRole(last.role ?? last.from) !== 'user')
    refuseUnlearned(
      last,
      name,
      'the last message',
      ', but it is the only part of a row that sft trains on',
    );
}

const UNWANTED =
  'Remove such rows, or combine a good and a bad reply to the same prompt into a pair for `train --objective dpo`.';

/**
 * @throws IsoproError INVALID_ARGUMENT where a row, or a message of it, says that it is not to be
 *   learned
 */
export function refuseUnlearned(of: unknown, name: string, what: string, more = ''): void {
  const member = unlearnedBy(of);
  if (member === null) return;
  const said = member === 'weight' ? 'weight 0' : 'train: false';
  throw refusedRow(name, `${what} has ${said}, which excludes it from training${more}`, {
    remedy: UNWANTED,
  });
}

export const invalid = (
  message: string,
  options: { remedy?: string; cause?: unknown },
): IsoproError => new IsoproError('INVALID_ARGUMENT', message, options);

export const refusedRow = (
  name: string,
  what: string,
  options: { remedy?: string; cause?: unknown } = {},
): IsoproError => invalid(`${name}: ${what}`, { remedy: `Correct that row; ${PAGE}`, ...options });

export function malformed(name: string, error: z.ZodError): IsoproError {
  const problems = error.issues
    .map(plainIssue)
    .map((issue) => [...issue.path, issue.message].join(': '));
  return refusedRow(name, problems.join('; '), { cause: error });
}
