/**
 * The thread of `query-program.ts` in which statements run on the hidden databases of a problem.
 */
import { parentPort } from 'node:worker_threads';
import type Database from 'better-sqlite3';
import { openDatabase } from './databases.js';
import type { SqlProblem } from './problem.js';
import {
  compareResults,
  runStatement,
  TOO_MUCH,
  TooMuch,
  type Difference,
  type Result,
} from './results.js';
import { writtenResult } from './written-result.js';

export interface QueryRequest {
  readonly problem: Pick<SqlProblem, 'id' | 'tables' | 'databases' | 'query' | 'ordered'>;
  readonly statement: string;
}

/**
 * On the first database on which they differ, or on the first one: what the statement returned and
 * what it should have.
 */
interface Written {
  readonly results: { readonly found: string; readonly expected: string };
}

export type QueryReply =
  /** On every database what the reference returns. */
  | ({ readonly same: true } & Written)
  | ({
      readonly difference: Difference;
      readonly found: number;
      readonly expected: number;
    } & Written)
  /** SQLite's own words. */
  | ({ readonly error: string } & Written)
  | { readonly limit: 'rows' | 'memory' }
  /** The problem's own databases or reference cannot be used. */
  | { readonly broken: string };

/** Whose statement runs from here on: the problem's own, the reply's. */
export type Stage = 'preparing' | 'running';

interface Hidden {
  readonly database: Database.Database;
  readonly expected: Result;
}

/** Several replies to one problem come one after another. */
const KEPT = 8;
const kept = new Map<string, readonly Hidden[]>();

function hiddenOf({ id, tables, databases, query }: QueryRequest['problem']): readonly Hidden[] {
  const known = kept.get(id);
  if (known !== undefined) return known;
  const hidden = databases.map((seed) => {
    const database = openDatabase(tables, seed);
    return { database, expected: runStatement(database, query) };
  });
  kept.set(id, hidden);
  if (kept.size > KEPT) {
    const [oldest] = kept.keys();
    for (const { database } of kept.get(oldest!)!) database.close();
    kept.delete(oldest!);
  }
  return hidden;
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

function run({ problem, statement }: QueryRequest): QueryReply {
  let hidden: readonly Hidden[];
  parentPort!.postMessage('preparing' satisfies Stage);
  try {
    hidden = hiddenOf(problem);
  } catch (error) {
    return { broken: error instanceof TooMuch ? TOO_MUCH[error.what] : messageOf(error) };
  }
  parentPort!.postMessage('running' satisfies Stage);
  let first: Result | undefined;
  for (const { database, expected } of hidden) {
    let result: Result;
    try {
      result = runStatement(database, statement);
    } catch (error) {
      if (error instanceof TooMuch) return { limit: error.what };
      const message = messageOf(error).slice(0, 300).toWellFormed();
      return { error: message, results: { found: message, expected: writtenResult(expected) } };
    }
    first ??= result;
    const difference = compareResults(expected, result, problem.ordered);
    if (difference === null) continue;
    const [found, wanted] =
      difference === 'columns'
        ? [result.columns, expected.columns]
        : [result.rows.length, expected.rows.length];
    return {
      difference,
      found,
      expected: wanted,
      results: { found: writtenResult(result), expected: writtenResult(expected) },
    };
  }
  return {
    same: true,
    results: { found: writtenResult(first!), expected: writtenResult(hidden[0]!.expected) },
  };
}

parentPort!.on('message', (request: QueryRequest) => parentPort!.postMessage(run(request)));
