/** Checks of arguments, made once on entry. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { plainIssue, plainWords, strangeKeys } from '../wrong-input.js';

/** An array in the place of an object has a problem an element. */
const MOST_SAID = 8;

/** Parses a value with a schema. @throws IsoproError INVALID_ARGUMENT naming the field */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const result = schema.safeParse(value, { error: plainWords });
  if (result.success) return result.data;
  const problems = result.error.issues.map(plainIssue).flatMap((issue) => {
    const said =
      issue.code === 'unrecognized_keys'
        ? strangeKeys(schema, issue.path, issue.keys.slice(0, MOST_SAID + 1))
        : [issue.message];
    return said.map((words) => `${[what, ...issue.path].join('.')}: ${words}`);
  });
  const more = problems.length > MOST_SAID ? '; and more' : '';
  throw new IsoproError('INVALID_ARGUMENT', `${problems.slice(0, MOST_SAID).join('; ')}${more}`, {
    cause: result.error,
  });
}

/** An AbortSignal of any realm. */
export const abortSignal = z.custom<AbortSignal>(
  (value) => typeof (value as AbortSignal | null)?.addEventListener === 'function',
  'expected an AbortSignal',
);

export const callback = <Call extends (...all: never[]) => void>(): z.ZodCustom<Call, Call> =>
  z.custom<Call>((value) => typeof value === 'function', 'expected a function');
