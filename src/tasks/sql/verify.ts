import type { Verdict, VerifyContext } from '../task.js';
import { failed, lost, undecided } from '../verdict.js';
import type { SqlProblem, Statement } from './problem.js';
import type { Outcome, QueryProcesses } from './query-processes.js';
import type { Difference } from './results.js';
import { refuseStatement } from './statement.js';

const PASS: Verdict = { kind: 'pass', violations: [], metrics: {} };

/**
 * One category, `limit`: which of them an endless query meets first depends on the machine, and a
 * judge elsewhere compares categories.
 */
const LIMITS = {
  time: 'The query takes too long.',
  memory: 'The query takes too much memory.',
  rows: 'The query returns too many rows.',
} as const;

const of = (amount: number, thing: string): string =>
  `${amount} ${thing}${amount === 1 ? '' : 's'}`;

/**
 * Runs a statement on every hidden database of a problem; it passes where each result is the
 * reference's.
 */
export async function verifyStatement(
  processes: QueryProcesses,
  problem: SqlProblem,
  statement: Statement,
  context: VerifyContext,
): Promise<Verdict> {
  const refusal = refuseStatement(statement, new Set(problem.tables.map(({ name }) => name)));
  if (refusal !== null) return failed(refusal.category, refusal.detail);
  const { id, tables, databases, query, ordered } = problem;
  const outcome = await processes.run(
    { problem: { id, tables, databases, query, ordered }, statement },
    context.signal,
  );
  if ('lost' in outcome) return lost(outcome.lost);
  if ('broken' in outcome)
    return undecided(`the problem's own query does not run: ${outcome.broken}`);
  if ('limit' in outcome) return failed('limit', LIMITS[outcome.limit]);
  const { results } = outcome;
  if ('same' in outcome) return { ...PASS, results };
  if ('error' in outcome)
    return { ...failed('error', `SQLite does not run the query: ${outcome.error}.`), results };
  return { ...differs(outcome), results };
}

function differs({
  difference,
  found,
  expected,
}: Extract<Outcome, { readonly difference: Difference }>): Verdict {
  switch (difference) {
    case 'columns':
      return failed(
        'columns',
        `The query returns ${of(found, 'column')}, the question asks for ${expected}.`,
      );
    case 'rows':
      return failed(
        'result',
        `The query returns ${found > expected ? 'more' : 'fewer'} rows than the question asks for.`,
      );
    case 'values':
      return failed('result', 'The query returns other values than the question asks for.');
    case 'order':
      return failed(
        'order',
        'The query returns the right rows in another order than the question asks for.',
      );
  }
}
