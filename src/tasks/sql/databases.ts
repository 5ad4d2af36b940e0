import Database from 'better-sqlite3';
import { Random } from '../../random.js';
import type { Column, Table } from './problem.js';
import { quoteText } from './query.js';

type Cell = number | string | null;

const always = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** One in so many rows of a column with nulls has none. */
const NULL_EVERY = 5;
/** So many of ten numbers are drawn near what the question names. */
const NEAR_OF_TEN = 5;

/** The values of a column, one a row. */
function drawColumn(
  random: Random,
  column: Column,
  rows: number,
  drawn: ReadonlyMap<string, number>,
): Cell[] {
  const { values } = column;
  const each = (draw: (row: number) => Cell): Cell[] =>
    Array.from({ length: rows }, (_, row) =>
      'nulls' in values && values.nulls && random.nextInteger(1, NULL_EVERY) === 1
        ? null
        : draw(row),
    );
  switch (values.kind) {
    case 'serial':
      return each((row) => row + 1);
    case 'reference': {
      const most = drawn.get(values.table)!;
      return each(() => random.nextInteger(1, most));
    }
    case 'text': {
      const order = values.distinct ? random.shuffle(values.of) : values.of;
      return each((row) =>
        values.distinct ? order[row]! : order[random.nextInteger(0, order.length - 1)]!,
      );
    }
    case 'number': {
      const scale = 10 ** values.decimals;
      const [low, high] = [Math.round(values.low * scale), Math.round(values.high * scale)];
      const near = values.near.flatMap((value) =>
        [-1, 0, 0, 1].map((step) => Math.round(value * scale) + step),
      );
      const inside = near.filter((value) => value >= low && value <= high);
      const taken = new Set<number>();
      return each(() => {
        let value: number;
        do
          value =
            inside.length > 0 &&
            !(values.distinct && inside.every((one) => taken.has(one))) &&
            random.nextInteger(1, 10) <= NEAR_OF_TEN
              ? inside[random.nextInteger(0, inside.length - 1)]!
              : random.nextInteger(low, high);
        while (values.distinct && taken.has(value));
        taken.add(value);
        return value / scale;
      });
    }
  }
}

/** The statements that make a hidden database: the same for the same tables and seed. */
export function databaseScript(tables: readonly Table[], seed: number): string {
  const random = new Random(BigInt(seed));
  const statements: string[] = [];
  const drawn = new Map<string, number>();
  for (const table of tables) {
    const rows = random.nextInteger(...table.rows);
    drawn.set(table.name, rows);
    statements.push(
      `CREATE TABLE ${always(table.name)} (${table.columns.map(({ name, type }) => `${always(name)} ${type}`).join(', ')});`,
    );
    const columns = table.columns.map((column) => drawColumn(random, column, rows, drawn));
    if (rows === 0) continue;
    const print = (cell: Cell): string =>
      cell === null ? 'NULL' : typeof cell === 'number' ? String(cell) : quoteText(cell);
    // keys in no order, so that none comes for nothing
    const order = random.shuffle(Array.from({ length: rows }, (_, row) => row));
    const tuples = order.map(
      (row) => `(${columns.map((column) => print(column[row]!)).join(',')})`,
    );
    statements.push(`INSERT INTO ${always(table.name)} VALUES ${tuples.join(',')};`);
  }
  return statements.join('\n');
}

/** A hidden database, opened for reading only. */
export function openDatabase(tables: readonly Table[], seed: number): Database.Database {
  const writable = new Database(':memory:');
  let bytes: Buffer;
  try {
    writable.exec(databaseScript(tables, seed));
    bytes = writable.serialize();
  } finally {
    writable.close();
  }
  const database = new Database(bytes, { readonly: true });
  database.pragma('query_only = ON');
  database.pragma('trusted_schema = OFF');
  database.pragma('temp_store = MEMORY');
  return database;
}
