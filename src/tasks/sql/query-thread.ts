/** The thread of `query-program.ts` in which statements run on the hidden databases of a problem. */
import { parentPort } from 'node:worker_threads';
import type Database from 'better-sqlite3';
import { openDatabase } from './databases.js';
import type { SqlProblem } from './problem.js';
import { compareResults, runStatement, TooMuch, type Difference, type Result } from './results.js';

export interface QueryRequest {
  readonly problem: Pick<SqlProblem, 'id' | 'tables' | 'databases' | 'query' | 'ordered'>;
  readonly statement: string;
}

export type QueryReply =
  /** On every database what the reference returns. */
  | { readonly same: true }
  | { readonly difference: Difference; readonly found: number; readonly expected: number }
  /** SQLite's own words. */
  | { readonly error: string }
  | { readonly limit: 'rows' | 'memory' }
  /** The problem's own databases or reference cannot be used. */
  | { readonly broken: string };

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

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function run({ problem, statement }: QueryRequest): QueryReply {
  let hidden: readonly Hidden[];
  try {
    hidden = hiddenOf(problem);
  } catch (error) {
    return { broken: messageOf(error) };
  }
  for (const { database, expected } of hidden) {
    let result: Result;
    try {
      result = runStatement(database, statement);
    } catch (error) {
      return error instanceof TooMuch ? { limit: error.what } : { error: messageOf(error).slice(0, 300) };
    }
    const difference = compareResults(expected, result, problem.ordered);
    if (difference === null) continue;
    const [found, wanted] = difference === 'columns' ? [result.columns, expected.columns] : [result.rows.length, expected.rows.length];
    return { difference, found, expected: wanted };
  }
  return { same: true };
}

parentPort!.on('message', (request: QueryRequest) => {
  parentPort!.postMessage('running');
  parentPort!.postMessage(run(request));
});
