import type Database from 'better-sqlite3';

/** What a query returned: the number of its columns, and its rows in order. */
export interface Result {
  readonly columns: number;
  readonly rows: readonly (readonly unknown[])[];
}

export type Difference = 'columns' | 'rows' | 'values' | 'order';

/** A statement that returned more than anybody may ask for. */
export class TooMuch extends Error {
  readonly what: 'rows' | 'memory';
  constructor(what: 'rows' | 'memory') {
    super(what);
    this.what = what;
  }
}

/** Said of a problem's own query. */
export const TOO_MUCH = {
  time: 'it takes too long',
  memory: 'it takes too much memory',
  rows: 'it returns too many rows',
} as const;

/** Rows that are read of a result, and characters or bytes of its texts and blobs. */
export const MAX_ROWS = 1000;
const MAX_SIZE = 1_000_000;

/** Runs a statement that returns rows. @throws TooMuch, what SQLite throws */
export function runStatement(database: Database.Database, sql: string): Result {
  const statement = database.prepare(sql);
  if (!statement.reader || !statement.readonly) throw new Error('the statement does not only read');
  const rows: unknown[][] = [];
  let size = 0;
  for (const row of statement.raw().iterate() as IterableIterator<unknown[]>) {
    if (rows.length === MAX_ROWS) throw new TooMuch('rows');
    for (const cell of row)
      if (typeof cell === 'string' || Buffer.isBuffer(cell)) size += cell.length;
    if (size > MAX_SIZE) throw new TooMuch('memory');
    rows.push(row);
  }
  return { columns: statement.columns().length, rows };
}

/** Relative difference of two numbers that are one: sums are added up in another order. */
const TOLERANCE = 1e-9;

/** NULL is NULL, 1 is 1.0, texts are equal to the letter. */
function equal(one: unknown, other: unknown): boolean {
  if (
    typeof one === 'number' &&
    typeof other === 'number' &&
    Number.isFinite(one) &&
    Number.isFinite(other)
  )
    return Math.abs(one - other) <= TOLERANCE * Math.max(Math.abs(one), Math.abs(other));
  if (Buffer.isBuffer(one) && Buffer.isBuffer(other)) return one.equals(other);
  return one === other;
}

const equalRows = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.every((cell, at) => equal(cell, other[at]));

/**
 * In what a result is not the expected one; null where it is. Rows are a multiset unless they are
 * ordered.
 */
export function compareResults(
  expected: Result,
  found: Result,
  ordered: boolean,
): Difference | null {
  if (found.columns !== expected.columns) return 'columns';
  if (found.rows.length !== expected.rows.length) return 'rows';
  if (expected.rows.every((row, at) => equalRows(row, found.rows[at]!))) return null;
  const left = [...found.rows];
  for (const row of expected.rows) {
    const at = left.findIndex((candidate) => equalRows(row, candidate));
    if (at < 0) return 'values';
    left.splice(at, 1);
  }
  return ordered ? 'order' : null;
}
