/** How an argument that a caller hands in is checked, once, where it enters. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';

/** Parses with a schema. @throws IsoproError INVALID_ARGUMENT naming the field */
export function checked<Schema extends z.ZodType>(schema: Schema, value: unknown, what: string): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => `${[what, ...issue.path].join('.')}: ${issue.message}`);
  throw new IsoproError('INVALID_ARGUMENT', problems.join('; '), { cause: result.error });
}

/** An AbortSignal of any realm. */
export const abortSignal = z.custom<AbortSignal>(
  (value) => typeof (value as AbortSignal | null)?.addEventListener === 'function',
  'expected an AbortSignal',
);

export function callback<T>(): z.ZodType<(argument: T) => void> {
  return z.custom<(argument: T) => void>((value) => typeof value === 'function', 'expected a function');
}
