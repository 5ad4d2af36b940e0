import type { Table } from './problem.js';
import {
  printQuery,
  type Aggregate,
  type ColumnName,
  type Condition,
  type Operand,
  type Query,
} from './query.js';

const COMPARISONS = ['=', '<>', '<', '<=', '>', '>='] as const;
const AGGREGATES = ['COUNT', 'SUM', 'AVG', 'MIN', 'MAX'] as const;

const same = (one: ColumnName, other: ColumnName): boolean =>
  one.table === other.table && one.column === other.column;
const isColumn = (operand: Operand): operand is ColumnName => 'column' in operand;

/** A list with each of its items replaced by each of the item's variants, one at a time. */
const replacing = <T>(items: readonly T[], variants: (item: T) => readonly T[]): T[][] =>
  items.flatMap((item, at) => variants(item).map((variant) => items.with(at, variant)));
/** A list without each of its items, one at a time. */
const dropping = <T>(items: readonly T[]): T[][] => items.map((_, at) => items.toSpliced(at, 1));

class Mutator {
  readonly #tables: readonly Table[];

  constructor(tables: readonly Table[]) {
    this.#tables = tables;
  }

  /** Every query that differs from this one in one place. */
  queries(query: Query): Query[] {
    const { distinct, select, joins, where, groupBy, having, orderBy, limit } = query;
    const scope = [query.from, ...joins.map(({ table }) => table)];
    const columns = this.#tables
      .filter(({ name }) => scope.includes(name))
      .flatMap((table) =>
        table.columns.map(({ name }): ColumnName => ({ table: table.name, column: name })),
      );
    const others = (name: ColumnName): ColumnName[] =>
      columns.filter((column) => !same(column, name));
    const selectable = (item: ColumnName | Aggregate): (ColumnName | Aggregate)[] =>
      isColumn(item) ? others(item) : this.#aggregates(item, columns);
    const changed: Partial<Query>[] = [
      { distinct: !distinct },
      ...(select === '*'
        ? [
            { select: columns },
            { select: columns.slice(1) },
            { select: columns.slice(0, -1) },
            ...columns.map((column) => ({ select: [column] })),
          ]
        : [
            { select: '*' as const },
            ...replacing(select, selectable).map((items) => ({ select: items })),
            ...(select.length > 1
              ? [...dropping(select), [...select].reverse()].map((items) => ({ select: items }))
              : []),
            ...columns.map((column) => ({ select: [...select, column] })),
          ]),
      ...this.#conditions(where, columns).map((conditions) => ({ where: conditions })),
      ...this.#conditions(having, columns).map((conditions) => ({ having: conditions })),
      // what holds for rows asked of groups
      ...(groupBy.length > 0 && where.length > 0
        ? [{ where: [], having: [...having, ...where] }]
        : []),
      ...replacing(joins, (join) => [
        { ...join, kind: join.kind === 'JOIN' ? ('LEFT JOIN' as const) : ('JOIN' as const) },
        { ...join, on: null },
        ...(join.on === null
          ? []
          : columns
              .filter(
                ({ table, column }) =>
                  table === join.on![0].table &&
                  (column === 'id' || column.endsWith('_id')) &&
                  column !== join.on![0].column,
              )
              .map((column) => ({ ...join, on: [column, join.on![1]] as const }))),
      ]).map((changedJoins) => ({ joins: changedJoins })),
      ...(groupBy.length > 0 ? [{ groupBy: [] }] : []),
      ...replacing(groupBy, others).map((keys) => ({ groupBy: keys })),
      ...dropping(orderBy).map((keys) => ({ orderBy: keys })),
      ...replacing(orderBy, ({ key, descending }) => [
        { key, descending: !descending },
        ...(isColumn(key) ? others(key) : this.#aggregates(key, columns)).map((other) => ({
          key: other,
          descending,
        })),
      ]).map((keys) => ({ orderBy: keys })),
      ...(limit === null
        ? []
        : [{ limit: limit + 1 }, { limit: null }, ...(limit > 1 ? [{ limit: limit - 1 }] : [])]),
    ];
    return changed.map((part) => ({ ...query, ...part }));
  }

  #aggregates(given: Aggregate, columns: readonly ColumnName[]): Aggregate[] {
    const { aggregate, of, distinct } = given;
    if (of === '*')
      return columns.flatMap((column) => [
        { ...given, of: column, distinct: true },
        { ...given, aggregate: 'SUM', of: column },
      ]);
    return [
      ...AGGREGATES.filter((other) => other !== aggregate).map((other) => ({
        ...given,
        aggregate: other,
      })),
      ...columns.filter((column) => !same(column, of)).map((column) => ({ ...given, of: column })),
      { ...given, distinct: !distinct },
      { aggregate: 'COUNT', of: '*', distinct: false },
    ];
  }

  #conditions(conditions: readonly Condition[], columns: readonly ColumnName[]): Condition[][] {
    return [
      ...dropping(conditions),
      ...replacing(conditions, (condition) => this.#condition(condition, columns)),
    ];
  }

  #condition(condition: Condition, columns: readonly ColumnName[]): Condition[] {
    const { left, operator, right } = condition;
    const negated = {
      IN: 'NOT IN',
      'NOT IN': 'IN',
      'IS NULL': 'IS NOT NULL',
      'IS NOT NULL': 'IS NULL',
    } as const;
    const operators =
      operator in negated
        ? [negated[operator as keyof typeof negated]]
        : COMPARISONS.filter((comparison) => comparison !== operator);
    const lefts = isColumn(left)
      ? columns.filter((column) => !same(column, left))
      : this.#aggregates(left, columns);
    return [
      ...operators.map((other) => ({ ...condition, operator: other })),
      ...lefts.map((other) => ({ ...condition, left: other })),
      ...(right === undefined
        ? []
        : this.#operands(right).map((other) => ({ ...condition, right: other }))),
    ];
  }

  #operands(operand: Operand): Operand[] {
    if ('query' in operand) return this.queries(operand.query).map((query) => ({ query }));
    if (!('value' in operand)) return [];
    const { value } = operand;
    if (typeof value === 'string') return [{ value: value.toUpperCase() }, { value: '' }];
    return [{ value: value + 1 }, { value: value - 1 }, { value: 0 }];
  }
}

/**
 * Statements that differ from a query in one place, none of them twice; some say the same in other
 * words.
 */
export function mutantsOf(query: Query, tables: readonly Table[]): string[] {
  const own = printQuery(query);
  return [...new Set(new Mutator(tables).queries(query).map(printQuery))].filter(
    (sql) => sql !== own,
  );
}
