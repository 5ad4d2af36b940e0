import { z } from 'zod';
import { readContent, type ProblemOf } from '../built-in.js';
import { refuseStatement } from './statement.js';

/** SQL of an answer, as the parser cut it out. */
export type Statement = string;

const name = z
  .string()
  .min(1)
  .max(64)
  .refine(
    (text) => !text.includes('\0') && !/^sqlite_/i.test(text) && text.isWellFormed(),
    'is not a valid name of a table or column',
  );
const text = z
  .string()
  .max(200)
  .refine(
    (value) => !value.includes('\0') && value.isWellFormed(),
    'contains a NUL or half of a surrogate pair',
  );
const number = z.number().min(-1e9).max(1e9);
const MAX_ROWS = 30;

/** Where the values of a column are drawn from. `nulls`: some rows have none. */
const values = z.discriminatedUnion('kind', [
  /** 1, 2, 3, … by row: the key of a table. */
  z.object({ kind: z.literal('serial') }),
  /**
   * Multiples of 10^-decimals from low to high; `distinct`: no two are the same; `near`: drawn more
   * often, and what is next to them.
   */
  z.object({
    kind: z.literal('number'),
    low: number,
    high: number,
    decimals: z.int().min(0).max(3),
    distinct: z.boolean(),
    nulls: z.boolean(),
    near: z.array(number).max(8),
  }),
  z.object({
    kind: z.literal('text'),
    of: z.array(text).min(1).max(64),
    distinct: z.boolean(),
    nulls: z.boolean(),
  }),
  /** The key of some row of an earlier table. */
  z.object({ kind: z.literal('reference'), table: name, nulls: z.boolean() }),
]);

const databaseSeed = z
  .int()
  .min(0)
  .max(2 ** 32 - 1);
const schema = z.object({
  id: z.string().optional(),
  task: z.string(),
  tier: z.string(),
  theme: z.string().max(200),
  pattern: z.string().max(200),
  tables: z
    .array(
      z.object({
        name,
        /** Fewest and most rows of a hidden database. */
        rows: z.tuple([z.int().min(0).max(MAX_ROWS), z.int().min(0).max(MAX_ROWS)]),
        columns: z
          .array(z.object({ name, type: z.enum(['INTEGER', 'REAL', 'TEXT']), values }))
          .min(1)
          .max(12),
      }),
    )
    .min(1)
    .max(3),
  question: z.string().min(1).max(2000),
  /** The question asks for an order. */
  ordered: z.boolean(),
  /** The reference, never shown. */
  query: z.string().min(1),
  databases: z.array(databaseSeed).min(5).max(16),
});

/**
 * A question about tables whose rows nobody sees: they are drawn from the seeds in `databases`, by
 * the verifier alone.
 */
export type SqlProblem = ProblemOf<typeof schema>;
export type Table = SqlProblem['tables'][number];
export type Column = Table['columns'][number];
export type Values = Column['values'];

/** SQLite folds the case of ASCII letters. */
const folded = (all: readonly { readonly name: string }[]): Set<string> =>
  new Set(all.map(({ name: one }) => one.toLowerCase()));

/**
 * Checks a problem that came from outside: shape, names, values that can be drawn, a reference that
 * is a statement as an answer must be, and that `id`, where given, is the content hash. That the
 * reference runs is found when it is run.
 * @throws IsoproError PROBLEM_INVALID
 */
export const readSqlProblem = (task: string, value: unknown): SqlProblem =>
  readContent('an SQL problem', task, schema, value, (content, invalid) => {
    if (folded(content.tables).size < content.tables.length)
      invalid('two tables have the same name');
    content.tables.forEach((table, at) => {
      const { name: called, rows, columns } = table;
      const where = `table ${JSON.stringify(called)}`;
      if (rows[0] > rows[1])
        invalid(`${where} has a minimum of ${rows[0]} rows, above its maximum of ${rows[1]}`);
      if (folded(columns).size < columns.length)
        invalid(`${where} has two columns of the same name`);
      for (const { name: column, values: drawn } of columns) {
        const place = `${where}, column ${JSON.stringify(column)}`;
        if (drawn.kind === 'reference') {
          const target = content.tables.slice(0, at).find((other) => other.name === drawn.table);
          if (target?.columns.some((other) => other.values.kind === 'serial') !== true)
            invalid(`${place} must refer to an earlier table that has a key`);
          else if (target.rows[0] === 0) invalid(`${place} refers to a table that may be empty`);
        }
        if (drawn.kind === 'number') {
          const scale = 10 ** drawn.decimals;
          const [low, high] = [Math.round(drawn.low * scale), Math.round(drawn.high * scale)];
          if (high < low) invalid(`${place} has no values, because its high is below its low`);
          if (drawn.distinct && high - low + 1 < rows[1])
            invalid(`${place} has fewer values than rows`);
        }
        if (
          drawn.kind === 'text' &&
          drawn.distinct &&
          new Set(drawn.of).size < Math.max(rows[1], drawn.of.length)
        )
          invalid(`${place} has fewer values than rows, or repeats a value`);
      }
    });
    const refusal = refuseStatement(
      content.query,
      new Set(content.tables.map((table) => table.name)),
    );
    if (refusal !== null) invalid(`its query is not allowed: ${refusal.detail}`);
  });
