import type { Column, SqlProblem, Statement, Table } from './problem.js';
import { quoteName, quoteText } from './query.js';

const first = ({ tables }: SqlProblem): Table => tables[0]!;
const column = (table: Table, ...types: Column['type'][]): string =>
  quoteName((table.columns.find(({ type }) => types.includes(type)) ?? table.columns[0]!).name);

/**
 * The table that the question names first; in a question about several that is often the one to
 * select from.
 */
function namedFirst(problem: SqlProblem): Table {
  const place = ({ name }: Table): number =>
    (problem.question.indexOf(name) + problem.question.length + 1) % (problem.question.length + 1);
  return [...problem.tables].sort((one, other) => place(one) - place(other))[0]!;
}

/** Statements that look at little or nothing of the question. */
export const POLICIES: Readonly<Record<string, (problem: SqlProblem) => Statement>> = {
  'all-rows': (problem) => `SELECT * FROM ${quoteName(first(problem).name)}`,
  'count-rows': (problem) => `SELECT COUNT(*) FROM ${quoteName(first(problem).name)}`,
  'first-text': (problem) =>
    `SELECT ${column(first(problem), 'TEXT')} FROM ${quoteName(first(problem).name)}`,
  'highest-number': (problem) =>
    `SELECT MAX(${column(first(problem), 'INTEGER', 'REAL')}) FROM ${quoteName(first(problem).name)}`,
  'names-by-number': (problem) => {
    const table = first(problem);
    return `SELECT ${column(table, 'TEXT')} FROM ${quoteName(table.name)} ORDER BY ${column(table, 'INTEGER', 'REAL')} DESC LIMIT 3`;
  },
  /** Everything of the rows in which some text is the one that the question quotes. */
  'quoted-text': (problem) => {
    const table = namedFirst(problem);
    const quoted = /'([^']*)'/.exec(problem.question)?.[1] ?? '';
    const texts = table.columns
      .filter(({ type }) => type === 'TEXT')
      .map(({ name }) => `${quoteName(name)} = ${quoteText(quoted)}`);
    return `SELECT * FROM ${quoteName(table.name)} WHERE ${texts.join(' OR ') || '1'}`;
  },
};
