import { refused } from '../flat-object.js';
import { fenceLanguage } from '../fence.js';
import type { Parsed } from '../task.js';
import type { SqlProblem, Statement } from './problem.js';
import { MAX_STATEMENT_CHARACTERS, refuseStatement } from './statement.js';

/** Reasoning may come before a block; no reply may be longer. */
export const MAX_REPLY_CHARACTERS = 20_000;

const LANGUAGES = ['', 'sql', 'sqlite'];

const tableNames = (problem: SqlProblem): ReadonlySet<string> =>
  new Set(problem.tables.map(({ name }) => name));

/**
 * The statement of a reply that is nothing else, or that ends with the only block of code in it; or
 * the reason why there is none.
 */
export function parseReply(text: string, problem: SqlProblem): Parsed<Statement> {
  if (text.length > MAX_REPLY_CHARACTERS)
    return refused(`The reply has more than ${MAX_REPLY_CHARACTERS} characters.`);
  let [sql, form] = [text.trim(), 'statement'];
  if (text.includes('```')) {
    const lines = sql.split('\n').map((line) => line.replace(/\r$/, ''));
    const fences = lines.flatMap((line, at) => (line.includes('```') ? [at] : []));
    const [open, close] = fences;
    if (fences.length !== 2 || close !== lines.length - 1)
      return refused('The reply does not end with its one block of code.');
    const language = fenceLanguage(lines[open!]!);
    if (language === null || !LANGUAGES.includes(language) || fenceLanguage(lines[close]!) !== '')
      return refused('The block of code is not one of SQL.');
    [sql, form] = [
      lines
        .slice(open! + 1, close)
        .join('\n')
        .trim(),
      'block',
    ];
  }
  const refusal = refuseStatement(sql, tableNames(problem));
  // what has the form of an answer and is not run is the verifier's to refuse
  return refusal?.category === 'format'
    ? { ok: false, ...refusal }
    : { ok: true, answer: sql, form };
}

/** Beginnings of statements in a reply that are tried, and statements in all. */
const MAX_BEGINNINGS = 24;
const MAX_READINGS = 16;

/**
 * Every statement that a reply holds, in the order of their beginnings: from each SELECT or WITH to
 * the first semicolon, fence or quote of code, the first empty line, the end of the line, or the
 * end of the reply, wherever that is a statement that is run.
 */
export function readLeniently(text: string, problem: SqlProblem): readonly Statement[] {
  const tables = tableNames(problem);
  const found = new Set<Statement>();
  for (const { index } of [
    ...text.slice(0, MAX_REPLY_CHARACTERS).matchAll(/\b(?:SELECT|WITH)\b/gi),
  ].slice(0, MAX_BEGINNINGS)) {
    const rest = text.slice(index, index + MAX_STATEMENT_CHARACTERS);
    for (const end of [/;/, /```/, /`/, /\n[ \t\r]*\n/, /\n/, /[.?!]?\s*$/]) {
      const sql = rest.slice(0, end.exec(rest)?.index ?? rest.length).trim();
      if (found.size < MAX_READINGS && refuseStatement(sql, tables) === null) found.add(sql);
    }
  }
  return [...found];
}
