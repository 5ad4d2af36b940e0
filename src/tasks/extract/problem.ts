import { z } from 'zod';
import { readContent, type ProblemOf } from '../built-in.js';
import type { FieldKind } from './document.js';

export type Value = string | number | boolean | null;

/** A flat JSON object, as it was read; any string may be a key. */
export type Extraction = Readonly<Record<string, Value>>;

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d$/;

/** What a value of a kind looks like. */
export const KIND_TESTS: Readonly<Record<FieldKind, (value: Value) => boolean>> = {
  text: (value) => typeof value === 'string',
  integer: (value) => Number.isSafeInteger(value),
  amount: (value) => Number.isFinite(value),
  currency: (value) => typeof value === 'string' && /^[A-Z]{3}$/.test(value),
  date: (value) => typeof value === 'string' && DATE.test(value),
  time: (value) => typeof value === 'string' && TIME.test(value),
  boolean: (value) => typeof value === 'boolean',
};

const schema = z.object({
  id: z.string().optional(),
  task: z.string(),
  tier: z.string(),
  /**
   * The day on which the message was written, where it speaks of days by their distance from it;
   * the prompt states it.
   */
  today: z.string().regex(DATE).nullable(),
  /**
   * Of dates with slashes in the message, whether the day comes before the month; null where there
   * are none.
   */
  dayFirst: z.boolean().nullable(),
  schema: z
    .array(
      z.object({
        key: z.string().regex(/^[a-z][a-z_]{0,31}$/),
        kind: z.enum(['text', 'integer', 'amount', 'currency', 'date', 'time', 'boolean']),
        /** What stands there, in a few words. */
        meaning: z.string().min(1).max(120),
      }),
    )
    .min(1)
    .max(16),
  message: z.string().min(1).max(4_000),
  /** The value of each key of the schema; null: the message does not say. */
  expected: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
});

export type ExtractProblem = ProblemOf<typeof schema>;
/** One key of the answer. */
export type Field = ExtractProblem['schema'][number];

/**
 * Checks a problem that came from outside: shape, one expected value of the right kind for each key
 * and for no other, and that `id`, where given, is the content hash.
 * @throws IsoproError PROBLEM_INVALID
 */
export const readExtractProblem = (task: string, value: unknown): ExtractProblem =>
  readContent(
    `a problem of ${task}`,
    task,
    schema,
    value,
    ({ schema: fields, expected }, invalid) => {
      if (new Set(fields.map(({ key }) => key)).size < fields.length)
        invalid('a key is in its schema twice');
      for (const { key, kind } of fields) {
        const wanted = Object.hasOwn(expected, key) ? expected[key]! : undefined;
        if (wanted === undefined) invalid(`it has no expected value for ${JSON.stringify(key)}`);
        else if (wanted !== null && !KIND_TESTS[kind](wanted))
          invalid(`the expected value of ${JSON.stringify(key)} is not of kind ${kind}`);
      }
      if (Object.keys(expected).length > fields.length)
        invalid('it has expected values for keys that its schema does not have');
    },
  );
