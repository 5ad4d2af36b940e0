import type Database from 'better-sqlite3';
import type { Random } from '../../random.js';
import { problemId } from '../problem-id.js';
import type { Tier } from '../task.js';
import { COMPOSED_PATTERNS } from './composed-patterns.js';
import { openDatabase } from './databases.js';
import { JOINED_PATTERNS } from './joined-patterns.js';
import { mutantsOf } from './mutants.js';
import { SINGLE_TABLE_PATTERNS, type Pattern } from './patterns.js';
import type { SqlProblem, Table } from './problem.js';
import { printQuery, type Query } from './query.js';
import { compareResults, runStatement, TooMuch, type Result } from './results.js';
import { Scene } from './scene.js';
import type { Theme } from './theme.js';

export const TASK_ID = 'sql';

export const TIERS: readonly Tier[] = [
  { id: 'T0', title: 'one table, one condition', trains: true },
  { id: 'T1', title: 'aggregates', trains: true },
  { id: 'T2', title: 'order and limit', trains: true },
  { id: 'T3', title: 'groups', trains: true },
  { id: 'T4', title: 'one join', trains: true },
  { id: 'T5', title: 'a query in a query, or two joins', trains: true },
  { id: 'T6', title: 'compositions of the others', trains: false },
];

export const PATTERNS: readonly Pattern[] = [
  ...SINGLE_TABLE_PATTERNS,
  ...JOINED_PATTERNS,
  ...COMPOSED_PATTERNS,
];

/** Wrong queries that the databases of a problem must tell from its reference. */
export const LEAST_MUTANTS = 10;
const LEAST_DATABASES = 5;
const MOST_DATABASES = 10;
/**
 * Databases on which a mutant that was not told from the reference is tried, before it counts as
 * another way to say the same.
 */
const FURTHER_DATABASES = 16;
/** Draws of a database that the question has no clear answer on. */
const MAX_DRAWS = 120;

/** A phrasing with its slots filled. */
const fill = (phrasing: string, words: Readonly<Record<string, string>>): string =>
  phrasing.replace(/\{(\w+)\}/g, (_, slot: string) => words[slot]!);

/**
 * Draws questions of one tier from one stream until databases are found that tell its reference
 * from wrong queries. The themes decide whether a problem is for training or for a frozen set: they
 * share none.
 */
export function drawProblem(
  { id: tier }: Tier,
  themes: readonly Theme[],
  random: Random,
): SqlProblem {
  const patterns = PATTERNS.filter((pattern) => pattern.tier === tier);
  for (;;) {
    const theme = themes[random.nextInteger(0, themes.length - 1)]!;
    const pattern = patterns[random.nextInteger(0, patterns.length - 1)]!;
    const scene = new Scene(random, theme);
    const { query, words } = pattern.draw(scene);
    const question = fill(
      pattern.phrasings[random.nextInteger(0, pattern.phrasings.length - 1)]!,
      words,
    );
    const tables = scene.tables;
    const databases = chooseDatabases(query, tables, random);
    if (databases === null) continue;
    const ordered = query.orderBy.length > 0;
    const content = {
      task: TASK_ID,
      tier,
      theme: theme.id,
      pattern: pattern.id,
      tables,
      question,
      ordered,
      query: printQuery(query),
      databases,
    };
    return { id: problemId(content), ...content };
  }
}

interface Candidate {
  readonly seed: number;
  readonly database: Database.Database;
  readonly expected: Result;
}

/**
 * Seeds of databases on which the question has one clear answer, and on one of which at least every
 * wrong query fails that fails on any of those that were tried; null where there are too few wrong
 * queries.
 */
function chooseDatabases(query: Query, tables: readonly Table[], random: Random): number[] | null {
  const ordered = query.orderBy.length > 0;
  const open: Database.Database[] = [];
  let draws = 0;
  const next = (): Candidate | null => {
    while (draws++ < MAX_DRAWS) {
      const seed = random.nextInteger(0, 2 ** 32 - 1);
      const database = openDatabase(tables, seed);
      open.push(database);
      const expected = clearAnswer(query, database);
      if (expected !== null) return { seed, database, expected };
    }
    return null;
  };
  try {
    const chosen: number[] = [];
    let left = mutantsOf(query, tables);
    let wrong = 0;
    for (let tried = 0; tried < LEAST_DATABASES + FURTHER_DATABASES; tried++) {
      if (left.length === 0 && chosen.length >= LEAST_DATABASES) break;
      const candidate = next();
      if (candidate === null) {
        if (chosen.length < LEAST_DATABASES) return null;
        break;
      }
      const found = left.map((sql) => tell(sql, candidate, ordered));
      const told = found.filter((outcome) => outcome === 'different').length;
      left = left.filter((_, at) => found[at] === 'same');
      wrong += told;
      if (tried >= LEAST_DATABASES && told === 0) continue;
      if (chosen.length === MOST_DATABASES) return null;
      chosen.push(candidate.seed);
    }
    return wrong >= LEAST_MUTANTS ? chosen : null;
  } finally {
    for (const database of open) database.close();
  }
}

/**
 * What the reference returns, where it returns something, and where no two rows stand at one place
 * of the order; else null.
 */
function clearAnswer(query: Query, database: Database.Database): Result | null {
  const result = runStatement(database, printQuery(query));
  if (result.rows.length === 0 || result.rows.some((row) => row.every((cell) => cell === null)))
    return null;
  if (query.orderBy.length === 0) return result;
  const keys = runStatement(
    database,
    printQuery({ ...query, select: query.orderBy.map(({ key }) => key), limit: null }),
  ).rows;
  return new Set(keys.map((row) => JSON.stringify(row))).size === keys.length ? result : null;
}

/**
 * Whether a statement is told from the reference on a database; `broken` where it is no statement.
 */
function tell(
  sql: string,
  { database, expected }: Candidate,
  ordered: boolean,
): 'same' | 'different' | 'broken' {
  try {
    return compareResults(expected, runStatement(database, sql), ordered) === null
      ? 'same'
      : 'different';
  } catch (error) {
    return error instanceof TooMuch ? 'different' : 'broken';
  }
}
