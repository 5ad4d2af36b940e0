/** Prompts from JSONL: one object a line with `prompt` (a user message), `messages` or `tokenIds`, and optionally `id`. What `tasks generate --json` prints is such a file. */
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { chatMessages, type Prompt } from './generate-request.js';

const line = z
  .strictObject({
    prompt: z.string().optional(),
    messages: chatMessages.optional(),
    tokenIds: z.array(z.int()).optional(),
    id: z.string().optional(),
    problem: z.unknown().optional(),
  })
  .refine(
    ({ prompt, messages, tokenIds }) => [prompt, messages, tokenIds].filter((field) => field !== undefined).length === 1,
    'a line has exactly one of prompt, messages and tokenIds',
  );

/** A user message, after a system message where one is given. */
export function promptOf(text: string, system?: string): Prompt {
  const user = { role: 'user', content: text } as const;
  return { messages: system === undefined ? [user] : [{ role: 'system', content: system }, user] };
}

/**
 * @param system put before every `prompt` line
 * @throws IsoproError INVALID_ARGUMENT naming the line
 */
export async function readPrompts(input: NodeJS.ReadableStream, system?: string): Promise<Prompt[]> {
  const prompts: Prompt[] = [];
  let number = 0;
  for await (const text of createInterface({ input, crlfDelay: Infinity })) {
    number++;
    if (text.trim() === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw new IsoproError('INVALID_ARGUMENT', `line ${number} of the prompts is not JSON: ${(cause as Error).message}`, { cause });
    }
    const result = line.safeParse(value);
    if (!result.success) {
      const problems = result.error.issues.map((issue) => [...issue.path, issue.message].join(': '));
      throw new IsoproError('INVALID_ARGUMENT', `line ${number} of the prompts: ${problems.join('; ')}`);
    }
    const { prompt, id, problem: _, ...rest } = result.data;
    prompts.push({ ...(prompt === undefined ? rest : promptOf(prompt, system)), ...(id === undefined ? {} : { id }) } as Prompt);
  }
  return prompts;
}
