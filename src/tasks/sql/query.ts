/**
 * The queries that problems are made of, as trees: so that a reference can be printed, and changed
 * in one place to give a wrong one.
 */
import { isReserved } from './statement.js';

export interface ColumnName {
  readonly table: string;
  readonly column: string;
}

export type AggregateFunction = 'COUNT' | 'SUM' | 'AVG' | 'MIN' | 'MAX';

export interface Aggregate {
  readonly aggregate: AggregateFunction;
  readonly of: ColumnName | '*';
  readonly distinct: boolean;
}

export type Operand =
  | ColumnName
  | Aggregate
  | { readonly value: string | number }
  | { readonly query: Query };

export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>=';

export interface Condition {
  readonly left: ColumnName | Aggregate;
  readonly operator: Comparison | 'IN' | 'NOT IN' | 'IS NULL' | 'IS NOT NULL';
  /** Absent with the last two. */
  readonly right?: Operand;
}

export interface Join {
  readonly kind: 'JOIN' | 'LEFT JOIN';
  readonly table: string;
  /** Two columns that are equal; null joins every row with every row. */
  readonly on: readonly [ColumnName, ColumnName] | null;
}

/** A SELECT; its conditions hold all together. */
export interface Query {
  readonly distinct: boolean;
  readonly select: '*' | readonly (ColumnName | Aggregate)[];
  readonly from: string;
  readonly joins: readonly Join[];
  readonly where: readonly Condition[];
  readonly groupBy: readonly ColumnName[];
  readonly having: readonly Condition[];
  readonly orderBy: readonly {
    readonly key: ColumnName | Aggregate;
    readonly descending: boolean;
  }[];
  readonly limit: number | null;
}

/** Everything of a table; what a query is more than that is given. */
export const queryOf = (from: string, parts: Partial<Query> = {}): Query => ({
  distinct: false,
  select: '*',
  from,
  joins: [],
  where: [],
  groupBy: [],
  having: [],
  orderBy: [],
  limit: null,
  ...parts,
});

export const count: Aggregate = { aggregate: 'COUNT', of: '*', distinct: false };
export const aggregateOf = (
  aggregate: AggregateFunction,
  of: ColumnName,
  distinct = false,
): Aggregate => ({ aggregate, of, distinct });

export const quoteText = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** A name as it stands in a statement: as it is where it is read so, else in quotes. */
export const quoteName = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/i.test(name) && !isReserved(name) ? name : `"${name.replaceAll('"', '""')}"`;

/** The statement's text. A column is named with its table where there are several. */
export function printQuery(query: Query): string {
  const several = query.joins.length > 0;
  const column = (name: ColumnName): string =>
    several ? `${quoteName(name.table)}.${quoteName(name.column)}` : quoteName(name.column);
  const operand = (given: Operand): string => {
    if ('query' in given) return `(${printQuery(given.query)})`;
    if ('value' in given)
      return typeof given.value === 'number' ? String(given.value) : quoteText(given.value);
    if (!('aggregate' in given)) return column(given);
    return `${given.aggregate}(${given.distinct ? 'DISTINCT ' : ''}${given.of === '*' ? '*' : column(given.of)})`;
  };
  const conditions = (all: readonly Condition[]): string =>
    all
      .map(
        ({ left, operator, right }) =>
          `${operand(left)} ${operator}${right === undefined ? '' : ` ${operand(right)}`}`,
      )
      .join(' AND ');
  const parts = [
    `SELECT ${query.distinct ? 'DISTINCT ' : ''}${query.select === '*' ? '*' : query.select.map(operand).join(', ')}`,
    `FROM ${quoteName(query.from)}`,
    ...query.joins.map(
      ({ kind, table, on }) =>
        `${kind} ${quoteName(table)}${on === null ? '' : ` ON ${column(on[0])} = ${column(on[1])}`}`,
    ),
  ];
  if (query.where.length > 0) parts.push(`WHERE ${conditions(query.where)}`);
  if (query.groupBy.length > 0) parts.push(`GROUP BY ${query.groupBy.map(column).join(', ')}`);
  if (query.having.length > 0) parts.push(`HAVING ${conditions(query.having)}`);
  if (query.orderBy.length > 0)
    parts.push(
      `ORDER BY ${query.orderBy.map(({ key, descending }) => `${operand(key)}${descending ? ' DESC' : ''}`).join(', ')}`,
    );
  if (query.limit !== null) parts.push(`LIMIT ${query.limit}`);
  return parts.join(' ');
}
