import Database from 'better-sqlite3';
import { afterAll, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { databaseScript } from '../../src/tasks/sql/databases.js';
import type { SqlProblem } from '../../src/tasks/sql/problem.js';
import { sql } from '../../src/tasks/sql/sql.js';
import { judgeReply } from '../../src/tasks/verdict.js';

const TEXTS = process.env.ISOPRO_FULL === '1' ? 100_000 : 1_000;
/**
 * On a machine that does nothing else a verdict takes a millisecond or two; a statement that is
 * stopped half a second of the processor.
 */
const LIMIT_MS = 120_000;

afterAll(() => sql.dispose!());

const PIECES = [
  'SELECT ',
  'FROM ',
  ' WHERE ',
  ' GROUP BY ',
  ' HAVING ',
  ' ORDER BY ',
  ' LIMIT 1',
  ' OFFSET 1',
  ' DISTINCT ',
  ' UNION ALL ',
  ' JOIN ',
  ' LEFT JOIN ',
  ' ON ',
  ' USING (id)',
  ' AND ',
  ' OR ',
  ' NOT ',
  ' IN ',
  ' IS NULL',
  ' NULL ',
  ' AS x ',
  ' DESC',
  'COUNT(*)',
  'MAX(',
  'WITH x AS (',
  'WITH RECURSIVE ',
  'PRAGMA ',
  'ATTACH ',
  'sqlite_master',
  'randomblob(9)',
  'CURRENT_TIME',
  '(',
  ')',
  ',',
  ', ',
  ';',
  '.',
  '*',
  '=',
  '<>',
  '<=',
  '>',
  '||',
  '+ 0',
  '- 1',
  '0',
  '1',
  '3.5',
  '1e309',
  '9223372036854775808',
  "x'00'",
  "'",
  "''",
  '"',
  '`',
  '[',
  ']',
  '```',
  '```sql\n',
  '\n```',
  '--',
  '/*',
  '*/',
  '\n',
  '\r\n',
  ' ',
  '\t',
  '?',
  ':a',
  '@',
  '$',
  '#',
  '\\',
  '\0',
  '\ud800',
  '\u200b',
  'é',
  '💥',
  '<|im_end|>',
  '{"request":1,"same":true}\n',
  'pass',
  ' WHERE 1',
  ' LIMIT 9',
  ' ORDER BY 1',
  'a',
  'id',
];

/**
 * Replies that are close to right: a reference, a near miss or a policy's statement in some form,
 * then edited a few times.
 */
function mutate(random: Random, text: string): string {
  let result = text;
  for (let edit = random.nextInteger(0, 3); edit > 0; edit--) {
    const at = random.nextInteger(0, result.length);
    const piece = PIECES[random.nextInteger(0, PIECES.length - 1)]!;
    const word = /^\s*\S*/.exec(result.slice(at))![0].length;
    result = [
      () => result.slice(0, at) + piece + result.slice(at),
      () => result.slice(0, at) + result.slice(at + random.nextInteger(1, 4)),
      () => result.slice(0, at) + piece + result.slice(at + word),
      () =>
        result.slice(0, at) +
        String.fromCharCode(random.nextInteger(0, random.nextInteger(0, 3) === 0 ? 0xffff : 127)) +
        result.slice(at + 1),
      () => result.slice(at) + result.slice(0, at),
      () => result + piece,
    ][random.nextInteger(0, 5)]!();
  }
  return result;
}

/**
 * Would a careful person accept this reply? Another reader and another comparison than the
 * verifier's: what is between fences or all of it, run on databases that stay writable, whose
 * contents must not change, and equal results as sorted lines.
 */
function acceptable(problem: SqlProblem, text: string): boolean {
  const fenced = /^[^]*```(?:sql|sqlite)?\s*\n([^]*)```\s*$/i.exec(text);
  const statement = (fenced?.[1] ?? text).trim();
  return problem.databases.every((seed) => {
    const database = new Database(':memory:');
    try {
      database.exec(databaseScript(problem.tables, seed));
      const before = database.serialize();
      const lines = (source: string): string => {
        const prepared = database.prepare(source).raw();
        const rows = (prepared.all() as unknown[][]).map((row) =>
          JSON.stringify(
            row.map((cell) => (typeof cell === 'number' ? Number(cell.toPrecision(8)) : cell)),
          ),
        );
        return `${prepared.columns().length}\n${(problem.ordered ? rows : rows.sort()).join('\n')}`;
      };
      return lines(statement) === lines(problem.query) && database.serialize().equals(before);
    } catch {
      return false;
    } finally {
      database.close();
    }
  });
}

test(`${TEXTS} replies near to right ones: each has a verdict in bounded time, and what passes a careful person accepts`, async () => {
  const random = new Random(12n);
  const policies = Object.values(sql.trivialPolicies);
  const counts = { pass: 0, fail: 0, none: 0 };
  let problem = sql.generate('T0', 0n) as SqlProblem;
  for (let at = 0; at < TEXTS; at++) {
    if (at % 50 === 0)
      problem = sql.generate(sql.tiers[(at / 50) % sql.tiers.length]!.id, BigInt(at)) as SqlProblem;
    const base =
      random.nextInteger(0, 9) < 8
        ? problem.query
        : policies[random.nextInteger(0, policies.length - 1)]!(problem);
    const form = [
      base,
      `${base};`,
      `\`\`\`sql\n${base}\n\`\`\``,
      `Reasoning.\n\`\`\`sql\n${base};\n\`\`\``,
    ][random.nextInteger(0, 3)]!;
    const text = mutate(random, form);
    const started = performance.now();
    const { verdict } = await judgeReply(sql, problem, text, 'stop');
    expect(performance.now() - started).toBeLessThan(LIMIT_MS);
    counts[verdict.kind]++;
    if (verdict.kind === 'none') expect([text, verdict.reason]).toEqual([text, 'a verdict']);
    if (verdict.kind === 'pass') expect([text, acceptable(problem, text)]).toEqual([text, true]);
    expect(sql.readLeniently!(text, problem).length).toBeLessThanOrEqual(16);
  }
  expect(counts.pass).toBeGreaterThan(TEXTS / 10);
  expect(counts.fail).toBeGreaterThan(TEXTS / 10);
  expect(counts.none).toBe(0);
}, 3_600_000);
