/**
 * Prompts from JSONL: one object a line with `prompt` (a user message), `messages`, `text` (which
 * the model continues, without its chat template) or `tokenIds`, and optionally `id`. What
 * `tasks generate --json` prints is such a file.
 */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { parseLine } from '../files.js';
import { given as stated } from '../given.js';
import { maybe, members } from '../object-schemas.js';
import { plainIssue, plainWords } from '../wrong-input.js';
import type { Prompt } from './generate-request.js';
import { chatMessages } from './messages.js';
import type { ChatMessage } from './prompt-renderer.js';

const line = members({
  prompt: maybe(z.string()),
  messages: maybe(chatMessages),
  text: maybe(z.string()),
  tokenIds: maybe(z.array(z.int())),
  id: maybe(z.string()),
  problem: z.unknown().optional(),
}).refine(
  ({ prompt, messages, text, tokenIds }) =>
    [prompt, messages, text, tokenIds].filter((field) => field !== undefined).length === 1,
  'a line must have exactly one of prompt, messages, text and tokenIds',
);

/**
 * Form of a `prompt`: a user message, after a system message if one is given, or a text that the
 * model continues.
 */
export interface PromptForm {
  readonly system?: string | undefined;
  readonly raw?: boolean;
  /** Messages between the system message and the user message. */
  readonly before?: readonly ChatMessage[] | undefined;
}

export function promptOf(
  text: string,
  { system, raw = false, before = [] }: PromptForm = {},
): Prompt {
  if (raw) return { text };
  const user = { role: 'user', content: text } as const;
  return {
    messages: [
      ...(system === undefined ? [] : [{ role: 'system', content: system } as const]),
      ...before,
      user,
    ],
  };
}

/** A line of a file of prompts. */
export interface PromptLine {
  readonly prompt: Prompt;
  /** The problem that the prompt asks, as `tasks generate` writes it. */
  readonly problem?: unknown;
}

/**
 * @param form of every `prompt` line
 * @throws IsoproError INVALID_ARGUMENT naming the line, or where there is no prompt
 */
export async function* readPrompts(
  lines: AsyncIterable<string>,
  form: PromptForm = {},
): AsyncGenerator<Prompt, void> {
  for await (const { prompt } of readPromptLines(lines, form)) yield prompt;
}

/** Reads like readPrompts, with the problems that the lines hold. */
export async function* readPromptLines(
  lines: AsyncIterable<string>,
  form: PromptForm = {},
): AsyncGenerator<PromptLine, void> {
  let number = 0;
  let prompts = 0;
  for await (const text of lines) {
    number++;
    if (text.trim() === '') continue;
    const result = line.safeParse(parseLine(text, number), { error: plainWords });
    if (!result.success) {
      const problems = result.error.issues
        .map(plainIssue)
        .map((issue) => [...issue.path, issue.message].join(': '));
      throw new IsoproError('INVALID_ARGUMENT', `line ${number}: ${problems.join('; ')}`);
    }
    const { prompt, id, messages, text: raw, tokenIds, problem } = result.data;
    prompts++;
    const content =
      messages === undefined ? (raw === undefined ? { tokenIds } : { text: raw }) : { messages };
    const read = {
      ...(prompt === undefined ? content : promptOf(prompt, form)),
      ...stated({ id }),
    } as Prompt;
    yield { prompt: read, ...stated({ problem }) };
  }
  if (prompts === 0) throw new IsoproError('INVALID_ARGUMENT', 'the file contains no prompts');
}
