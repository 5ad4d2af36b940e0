/**
 * Which statements are run at all. What is not on these lists does not reach SQLite: `ATTACH` and
 * `PRAGMA` count as reading for it, and a statement that runs cannot be stopped from outside but by
 * ending its process (`query-processes.ts`).
 */
import { LexError, lex, type Token } from './lexer.js';

export const MAX_STATEMENT_CHARACTERS = 2000;
/**
 * Mentions of tables in one statement, and signs `||`: each of both multiplies what a statement can
 * make.
 */
const MAX_TABLES = 8;
const MAX_CONCATENATIONS = 8;
const MAX_DEPTH = 32;

const set = (words: string): ReadonlySet<string> => new Set(words.split(/\s+/));

/** Keywords of a SELECT. */
const ALLOWED = set(
  `ALL AND AS ASC BETWEEN BY CASE CAST COLLATE CROSS CURRENT DESC DISTINCT ELSE END ESCAPE EXCEPT EXCLUDE EXISTS FILTER FIRST
  FOLLOWING FROM FULL GLOB GROUP GROUPS HAVING IN INNER INTERSECT IS ISNULL JOIN LAST LEFT LIKE LIMIT MATERIALIZED NATURAL NO NOT
  NOTNULL NULL NULLS OFFSET ON OR ORDER OTHERS OUTER OVER PARTITION PRECEDING RANGE RIGHT ROW ROWS SELECT THEN TIES UNBOUNDED UNION
  USING VALUES WHEN WHERE WINDOW WITH`,
);
/** The other keywords of SQLite. */
const REFUSED = set(
  `ABORT ACTION ADD AFTER ALTER ALWAYS ANALYZE ATTACH AUTOINCREMENT BEFORE BEGIN CASCADE CHECK COLUMN COMMIT CONFLICT CONSTRAINT
  CREATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEFAULT DEFERRABLE DEFERRED DELETE DETACH DO DROP EACH EXCLUSIVE
  EXPLAIN FAIL FOR FOREIGN GENERATED IF IGNORE IMMEDIATE INDEX INDEXED INITIALLY INSERT INSTEAD INTO KEY MATCH NOTHING OF PLAN
  PRAGMA PRIMARY QUERY RAISE RECURSIVE REFERENCES REGEXP REINDEX RELEASE RENAME REPLACE RESTRICT RETURNING ROLLBACK SAVEPOINT SET
  TABLE TEMP TEMPORARY TO TRANSACTION TRIGGER UPDATE VACUUM VIEW VIRTUAL WITHOUT`,
);
/** Keywords that an opening parenthesis may follow without being called. */
const BEFORE_PARENTHESIS = set(
  `ALL AND AS BETWEEN BY CASE DISTINCT ELSE ESCAPE EXCEPT EXISTS FILTER FROM GLOB HAVING IN INTERSECT JOIN LIKE LIMIT MATERIALIZED
  IS NOT OFFSET ON OR OVER SELECT THEN UNION USING VALUES WHEN WHERE`,
);
/**
 * Functions that give the same for the same arguments, read nothing else, and make nothing large.
 */
const FUNCTIONS = set(
  `abs avg cast ceil ceiling coalesce count cume_dist dense_rank first_value floor group_concat ifnull iif instr lag last_value lead
  length lower ltrim max min mod nth_value ntile nullif percent_rank pow power rank round row_number rtrim sign sqrt string_agg
  substr substring sum total trim trunc typeof unicode upper`,
);

export interface Refusal {
  readonly category: 'format' | 'forbidden';
  readonly detail: string;
}

const isWord = (token: Token | undefined, word: string): boolean =>
  token?.kind === 'word' && token.value.toUpperCase() === word;
const isSign = (token: Token | undefined, sign: string): boolean =>
  token?.kind === 'operator' && token.value === sign;
/** Whether a word is one of SQL, and a name only in quotes. */
export const isReserved = (word: string): boolean =>
  ALLOWED.has(word.toUpperCase()) || REFUSED.has(word.toUpperCase());
const isKeyword = (token: Token): boolean => token.kind === 'word' && isReserved(token.value);
const isName = (token: Token | undefined): boolean =>
  token !== undefined &&
  (token.kind === 'quoted' ||
    token.kind === 'text' ||
    (token.kind === 'word' && !isKeyword(token)));
/** SQLite folds ASCII letters only. */
const fold = (name: string): string => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

const forbidden = (detail: string): Refusal => ({ category: 'forbidden', detail });
const malformed = (detail: string): Refusal => ({ category: 'format', detail });

/** Why a text is not run as a statement on these tables; null where it is. */
export function refuseStatement(sql: string, tables: ReadonlySet<string>): Refusal | null {
  if (sql.length > MAX_STATEMENT_CHARACTERS)
    return malformed(`The statement has more than ${MAX_STATEMENT_CHARACTERS} characters.`);
  if (!sql.isWellFormed()) return malformed('The statement holds half a character.');
  let tokens: Token[];
  try {
    tokens = lex(sql);
  } catch (error) {
    if (error instanceof LexError)
      return malformed(`The statement cannot be read: ${error.message}.`);
    throw error;
  }
  if (isSign(tokens.at(-1), ';')) tokens.pop();
  if (!isWord(tokens[0], 'SELECT') && !isWord(tokens[0], 'WITH'))
    return malformed('The reply is not a statement that begins with SELECT.');
  if (tokens.some((token) => isSign(token, ';')))
    return malformed('The reply holds more than one statement.');
  const known = new Set([...tables].map(fold));
  const common = commonTables(tokens);
  return refuseWords(tokens, common) ?? refuseTables(tokens, known, common);
}

function refuseWords(tokens: readonly Token[], common: readonly CommonTable[]): Refusal | null {
  let depth = 0;
  let concatenations = 0;
  for (const [at, token] of tokens.entries()) {
    const { kind, value } = token;
    const word = value.toUpperCase();
    if (isSign(token, '(') && ++depth > MAX_DEPTH)
      return forbidden(`The statement is nested more than ${MAX_DEPTH} deep.`);
    if (isSign(token, ')') && --depth < 0)
      return malformed('A parenthesis is closed that was not opened.');
    if (isSign(token, '||') && ++concatenations > MAX_CONCATENATIONS)
      return forbidden(`The statement has the operator || more than ${MAX_CONCATENATIONS} times.`);
    if (kind === 'word' && REFUSED.has(word)) return forbidden(`The word ${word} is not allowed.`);
    if (!isSign(tokens[at + 1], '(') || kind === 'operator' || kind === 'number' || kind === 'blob')
      continue;
    if (kind === 'word' && BEFORE_PARENTHESIS.has(word)) continue;
    const called = fold(value);
    // `t(a, b) AS (` names the columns of a common table
    if (common.some(({ place }) => place === at)) continue;
    if (!FUNCTIONS.has(called)) return forbidden(`The function ${value} is not allowed.`);
  }
  return depth === 0 ? null : malformed('A parenthesis is not closed.');
}

/** The place after the parenthesis that closes the one at `open`. */
function closing(tokens: readonly Token[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at++) {
    if (isSign(tokens[at], '(')) depth++;
    if (isSign(tokens[at], ')') && --depth === 0) return at + 1;
  }
  return tokens.length;
}

/**
 * A name that WITH gives: where the name stands, where its body begins and ends, and where what it
 * is known in begins and ends.
 */
interface CommonTable {
  readonly name: string;
  readonly place: number;
  readonly body: Span;
  readonly scope: Span;
}
type Span = readonly [begin: number, end: number];
const within = (at: number, [begin, end]: Span): boolean => begin < at && at < end;

function commonTables(tokens: readonly Token[]): CommonTable[] {
  const found: CommonTable[] = [];
  const opened: number[] = [];
  for (const [start, token] of tokens.entries()) {
    if (isSign(token, '(')) opened.push(start);
    if (isSign(token, ')')) opened.pop();
    if (!isWord(token, 'WITH')) continue;
    const inside = opened.at(-1);
    const scope: Span = [start, inside === undefined ? tokens.length : closing(tokens, inside)];
    for (let at = start + 1; isName(tokens[at]); ) {
      const [name, place] = [fold(tokens[at]!.value), at];
      at++;
      if (isSign(tokens[at], '(')) at = closing(tokens, at);
      if (!isWord(tokens[at], 'AS')) break;
      while (at < tokens.length && !isSign(tokens[at], '(')) at++;
      const end = closing(tokens, at);
      found.push({ name, place, body: [at, end], scope });
      if (!isSign(tokens[end], ',')) break;
      at = end + 1;
    }
  }
  return found;
}

/** Words after which the tables of a FROM are over. */
const AFTER_FROM = set(
  'WHERE GROUP HAVING WINDOW ORDER LIMIT UNION EXCEPT INTERSECT SELECT VALUES',
);

/**
 * Everything that stands where a table stands must be one of the problem's or the statement's own.
 */
function refuseTables(
  tokens: readonly Token[],
  tables: ReadonlySet<string>,
  common: readonly CommonTable[],
): Refusal | null {
  /** For each open parenthesis whether it is among the tables of a FROM. */
  const from: boolean[] = [false];
  let expected = false;
  let mentions = 0;
  for (const [at, token] of tokens.entries()) {
    const inside = from.at(-1)!;
    if (isSign(token, '(')) {
      // a subquery, which SELECT takes out of it again, or tables in parentheses
      from.push(expected);
      continue;
    }
    if (isSign(token, ')')) {
      from.pop();
      expected = false;
      continue;
    }
    if (isWord(token, 'SELECT') || isWord(token, 'WITH') || isWord(token, 'VALUES'))
      expected = false;
    if (token.kind === 'word' && AFTER_FROM.has(token.value.toUpperCase()))
      from[from.length - 1] = false;
    if (expected && !isSign(token, ',')) {
      if (!isName(token)) return forbidden(`A table should stand where ${token.value} stands.`);
      if (isSign(tokens[at + 1], '.')) return forbidden('A table is named without its database.');
      const name = fold(token.value);
      const named = common.filter(
        (candidate) => candidate.name === name && within(at, candidate.scope),
      );
      // SQLite recurses with and without the word RECURSIVE
      if (named.some(({ body }) => within(at, body)))
        return forbidden('Recursive queries are not allowed.');
      if (named.length === 0 && !tables.has(name))
        return forbidden(`There is no table ${token.value}.`);
      mentions++;
      expected = false;
    } else if (isWord(token, 'FROM') && !isDistinctFrom(tokens, at)) {
      from[from.length - 1] = true;
      expected = true;
    } else if ((inside && isSign(token, ',')) || isWord(token, 'JOIN')) {
      expected = true;
    } else if (isWord(token, 'IN') && isName(tokens[at + 1])) expected = true; // x IN table
  }
  return mentions > MAX_TABLES
    ? forbidden(`The statement names more than ${MAX_TABLES} tables.`)
    : null;
}

/** `a IS DISTINCT FROM b` and `a IS NOT DISTINCT FROM b` compare. */
const isDistinctFrom = (tokens: readonly Token[], at: number): boolean =>
  isWord(tokens[at - 1], 'DISTINCT') &&
  (isWord(tokens[at - 2], 'IS') || isWord(tokens[at - 2], 'NOT'));
