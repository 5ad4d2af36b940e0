/** Preference pairs in the forms in which TRL and OpenAI read them: one JSON object a line, or one array of them. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { plainWords } from '../wrong-input.js';
import type { Model } from './model.js';
import type { ChatMessage } from './prompt-renderer.js';
import type { TrainSequence } from './trainer.js';
import {
  answeredTokens,
  asked,
  formOf,
  isPair,
  malformed,
  messages,
  refusedRow,
  reply,
  rowsOf,
  sequenceOf,
  TOO_LONG,
  type Row,
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
  /** Pairs with a side longer than `maxTokens`: left out. */
  readonly tooLong: number;
}

interface Compared {
  readonly prompt: readonly ChatMessage[];
  readonly chosen: string;
  readonly rejected: string;
}

const explicit = z
  .object({ prompt: z.union([z.string(), messages]), chosen: reply, rejected: reply })
  .transform(({ prompt, ...replies }): Compared => ({ prompt: typeof prompt === 'string' ? asked(prompt) : prompt, ...replies }));

/** Whole conversations, equal up to the last message of each, which is the assistant's. */
const implicit = z.object({ chosen: messages, rejected: messages }).transform(({ chosen, rejected }, context): Compared => {
  const [good, bad] = [chosen.at(-1)!, rejected.at(-1)!];
  const prompt = chosen.slice(0, -1);
  if (prompt.length === 0 || good.role !== 'assistant' || bad.role !== 'assistant') {
    context.addIssue("the last message of both must be the assistant's, after another");
    return z.NEVER;
  }
  if (JSON.stringify(prompt) !== JSON.stringify(rejected.slice(0, -1))) {
    context.addIssue('the two conversations differ before their last messages');
    return z.NEVER;
  }
  return { prompt, chosen: good.content, rejected: bad.content };
});

/** OpenAI's. */
export const preference = z
  .object({ input: z.object({ messages }), preferred_output: reply, non_preferred_output: reply })
  .transform(
    ({ input, preferred_output: chosen, non_preferred_output: rejected }): Compared => ({ prompt: input.messages, chosen, rejected }),
  );

function comparedOf({ value, name }: Row): Compared {
  if (!isPair(value))
    throw refusedRow(
      name,
      formOf(value) === undefined
        ? 'expected {"prompt", "chosen", "rejected"} or two conversations, {"chosen", "rejected"}'
        : 'this is an example, and no preference pair: leave out --objective dpo',
    );
  const form = 'preferred_output' in value ? preference : 'prompt' in value ? explicit : implicit;
  const parsed = form.safeParse(value, { error: plainWords });
  if (!parsed.success) throw malformed(name, parsed.error);
  return parsed.data;
}

/**
 * Rows `{prompt, chosen, rejected}` of texts or messages, two conversations that part in their last message, or OpenAI's. Prompts are
 * rendered by the model's template exactly as for generation.
 * @throws IsoproError INVALID_ARGUMENT naming the line, or the row of an array, TEMPLATE_INVALID
 */
export const readPairs = (lines: AsyncIterable<string>, model: Model, maxTokens: number): Promise<PreferencePairs> =>
  tokenisedPairs(rowsOf(lines), model, maxTokens);

/** @throws as readPairs */
export async function tokenisedPairs(rows: AsyncIterable<Row> | Iterable<Row>, model: Model, maxTokens: number): Promise<PreferencePairs> {
  const pairs: PreferencePair[] = [];
  let tooLong = 0;
  for await (const row of rows) {
    const { prompt, chosen, rejected } = comparedOf(row);
    const sides = [chosen, rejected].map((answer) => answeredTokens(prompt, answer, model, row.name));
    if (sides.some(({ tokenIds }) => tokenIds.length > maxTokens)) tooLong++;
    else {
      const [good, bad] = [sides[0]!, sides[1]!];
      pairs.push({ prompt: good.tokenIds.slice(0, good.labelled), chosen: sequenceOf(good), rejected: sequenceOf(bad) });
    }
  }
  if (pairs.length === 0)
    throw new IsoproError('INVALID_ARGUMENT', `there is no pair of at most ${maxTokens} tokens a side`, { remedy: TOO_LONG });
  return { pairs, tooLong };
}
