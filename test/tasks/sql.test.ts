import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, test } from '@jest/globals';
import { deriveSeed, Random } from '../../src/random.js';
import { frozenSet, SET_NAMES, SET_SIZE } from '../../src/tasks/frozen-sets.js';
import { openTask } from '../../src/tasks/open-task.js';
import { problemId } from '../../src/tasks/problem-id.js';
import { databaseScript } from '../../src/tasks/sql/databases.js';
import { FROZEN_THEMES } from '../../src/tasks/sql/frozen-themes.js';
import { drawProblem, PATTERNS, TIERS } from '../../src/tasks/sql/generate.js';
import { readSqlProblem, type SqlProblem } from '../../src/tasks/sql/problem.js';
import { QueryProcesses } from '../../src/tasks/sql/query-processes.js';
import { sql } from '../../src/tasks/sql/sql.js';
import { refuseStatement } from '../../src/tasks/sql/statement.js';
import { THEMES } from '../../src/tasks/sql/themes.js';
import type { Judgement } from '../../src/tasks/task.js';
import { judgeReply } from '../../src/tasks/verdict.js';

const FULL = process.env.ISOPRO_FULL === '1';

afterAll(() => sql.dispose!());

const generate = (tier: string, seed: bigint): SqlProblem => sql.generate(tier, seed) as SqlProblem;
const judge = async (problem: SqlProblem, text: string): Promise<Judgement> =>
  judgeReply(sql, problem, text, 'stop');
const kindOf = async (problem: SqlProblem, text: string): Promise<string> => {
  const { kind, violations, reason } = (await judge(problem, text)).verdict;
  return reason ?? violations[0]?.category ?? kind;
};

/**
 * A problem of our own: numbers 1 to 5 with a name each, in every database the same but for their
 * order.
 */
const OWN = readSqlProblem('sql', {
  task: 'sql',
  tier: 'T0',
  theme: 'own',
  pattern: 'own',
  tables: [
    {
      name: 'items',
      rows: [5, 5],
      columns: [
        { name: 'id', type: 'INTEGER', values: { kind: 'serial' } },
        {
          name: 'name',
          type: 'TEXT',
          values: { kind: 'text', of: ['a', 'b', 'c', 'd', 'e'], distinct: true, nulls: false },
        },
        {
          name: 'size',
          type: 'REAL',
          values: {
            kind: 'number',
            low: 1,
            high: 1,
            decimals: 1,
            distinct: false,
            nulls: false,
            near: [],
          },
        },
      ],
    },
  ],
  question: 'Show the id and the size of all items.',
  ordered: false,
  query: 'SELECT id, size FROM items',
  databases: [1, 2, 3, 4, 5],
});
const own = (changes: Partial<SqlProblem>): SqlProblem => {
  const { id: _, ...content } = { ...OWN, ...changes };
  return readSqlProblem('sql', content);
};

describe('problems', () => {
  test('a seed determines a problem, whose id is its content hash and which is one when read again', () => {
    for (const { id } of sql.tiers) {
      const [one, again, other] = [generate(id, 7n), generate(id, 7n), generate(id, 8n)];
      expect(again).toEqual(one);
      expect(other.id).not.toBe(one.id);
      expect(one.id).toBe(problemId(one));
      expect(readSqlProblem('sql', JSON.parse(JSON.stringify(one)))).toEqual(one);
    }
    expect(() => generate('T9', 1n)).toThrow(expect.objectContaining({ code: 'TIER_UNKNOWN' }));
  });

  test('every pattern has at least four phrasings, all of them are drawn, and no slot is left open', () => {
    for (const { phrasings } of PATTERNS) expect(new Set(phrasings).size).toBeGreaterThanOrEqual(4);
    const drawn = new Set<string>();
    for (const tier of sql.tiers) {
      for (let seed = 0n; seed < 25n; seed++) {
        const { pattern, question } = generate(tier.id, seed);
        expect(question).not.toMatch(/[{}]|undefined|NaN/);
        drawn.add(pattern);
      }
    }
    expect([...drawn].sort()).toEqual(PATTERNS.map(({ id }) => id).sort());
  });

  test('one tier is never trained on', () => {
    expect(TIERS.filter(({ trains }) => !trains).map(({ id }) => id)).toEqual(['T6']);
  });

  test('the themes of the frozen sets are seen nowhere in training: neither their tables nor the names of their things', () => {
    const words = (themes: typeof THEMES) =>
      themes.flatMap(({ id, main, first, second }) => [
        id,
        ...[main, first, second].flatMap(({ many, names }) => [many, ...names]),
      ]);
    const [training, tests, dev] = [
      words(THEMES),
      words(FROZEN_THEMES.test),
      words(FROZEN_THEMES.dev),
    ];
    expect(tests.filter((word) => training.includes(word) || dev.includes(word))).toEqual([]);
    expect(dev.filter((word) => training.includes(word))).toEqual([]);
    for (const tier of sql.tiers)
      expect(THEMES.map(({ id }) => id)).toContain(generate(tier.id, 3n).theme);
  });

  test('an id, a reference or a schema that cannot be is a typed error', () => {
    const refused = (value: unknown): void =>
      expect(() => readSqlProblem('sql', value)).toThrow(
        expect.objectContaining({ code: 'PROBLEM_INVALID' }),
      );
    const [table] = OWN.tables;
    const [id, name, size] = table!.columns;
    const { id: _, ...content } = OWN;
    const withColumns = (...columns: unknown[]): unknown => ({
      ...content,
      tables: [{ ...table, columns }],
    });
    refused(null);
    refused({ ...OWN, id: '0'.repeat(64) });
    refused({ ...content, task: 'scheduling' });
    refused({ ...content, query: 'PRAGMA query_only = OFF' });
    refused({ ...content, query: 'SELECT * FROM sqlite_master' });
    refused({ ...content, databases: [1, 2, 3, 4] });
    refused({ ...content, tables: [table, { ...table, name: 'ITEMS' }] });
    refused({ ...content, tables: [{ ...table, name: 'sqlite_items' }] });
    refused({ ...content, tables: [{ ...table, rows: [5, 4] }] });
    refused({ ...content, tables: [{ ...table, rows: [5, 1000] }] });
    refused(withColumns());
    refused(withColumns(id, { ...name, name: 'ID' }));
    refused(withColumns({ ...id, name: 'a\0b' }));
    refused(withColumns(id, { ...size, values: { ...size!.values, distinct: true } }));
    refused(withColumns(id, { ...size, values: { ...size!.values, low: 2 } }));
    refused(withColumns(id, { ...name, values: { ...name!.values, of: ['a', 'b'] } }));
    refused(
      withColumns(id, { ...name, values: { kind: 'reference', table: 'items', nulls: false } }),
    );
    refused(withColumns(id, { ...name, values: { kind: 'oracle' } }));
  });
});

/**
 * Changes of a statement's text, made without the generator's trees: what somebody who nearly
 * understood the question would write.
 */
function nearMisses({ query, tables }: SqlProblem): string[] {
  const columns = tables.flatMap((table) => table.columns.map(({ name }) => name));
  const texts = tables.flatMap((table) =>
    table.columns.flatMap(({ values }) => (values.kind === 'text' ? values.of.slice(0, 4) : [])),
  );
  const found = new Set<string>();
  const each = (pattern: RegExp, others: (found: string) => readonly string[]): void => {
    for (const match of query.matchAll(pattern))
      for (const other of others(match[0]))
        found.add(query.slice(0, match.index) + other + query.slice(match.index + match[0].length));
  };
  each(/ (?:=|<>|<=|>=|<|>) (?=['(\d])/g, () => [' = ', ' <> ', ' < ', ' <= ', ' > ', ' >= ']);
  each(/'[^']*'/g, () => texts.map((text) => `'${text}'`));
  each(/(?<= )\d+(?:\.\d+)?/g, (number) =>
    [-2, -1, 1, 2].map((step) => String(Number(number) + step)),
  );
  each(/\b[a-z_]+\b(?![.'( ]* ?(?:JOIN|ON))/g, (word) => (columns.includes(word) ? columns : []));
  each(/COUNT|SUM|AVG|MIN|MAX/g, () => ['COUNT', 'SUM', 'AVG', 'MIN', 'MAX']);
  each(/COUNT\(\*\)/g, () => columns.map((column) => `COUNT(DISTINCT ${column})`));
  each(/ DESC|(?<=ORDER BY [\w.()*]+)(?! DESC)/g, (word) => [word === '' ? ' DESC' : '']);
  each(/LEFT JOIN|(?<!LEFT )JOIN/g, (word) => [word === 'JOIN' ? 'LEFT JOIN' : 'JOIN']);
  each(
    / (?:WHERE|HAVING) (?:(?! GROUP| ORDER| LIMIT| HAVING)[^)])*| (?:GROUP|ORDER) BY [\w.()*]+(?: DESC)?| LIMIT \d+/g,
    () => [''],
  );
  each(/NOT IN|IS NULL|IS NOT NULL/g, (word) => [
    { 'NOT IN': 'IN', 'IS NULL': 'IS NOT NULL' }[word] ?? 'IS NULL',
  ]);
  each(/^SELECT (?!\*)/g, () => [
    'SELECT DISTINCT ',
    ...columns.map((column) => `SELECT ${column}, `),
  ]);
  each(/^SELECT \*/g, () =>
    columns.flatMap((column) => [`SELECT ${column}`, `SELECT *, ${column}`]),
  );
  found.delete(query);
  return [...found];
}

/** Of what a statement returns all that counts, or its error. */
function outcome(script: Database.Database, statement: string, ordered: boolean): string {
  try {
    const prepared = script.prepare(statement).raw();
    const rows = (prepared.all() as unknown[][]).map((row) =>
      JSON.stringify(
        row.map((cell) => (typeof cell === 'number' ? Number(cell.toPrecision(12)) : cell)),
      ),
    );
    return JSON.stringify([prepared.columns().length, ordered ? rows : rows.sort()]);
  } catch (error) {
    return `error ${(error as Error).message}`;
  }
}

test('the databases of every problem tell its reference from at least ten wrong queries, and leave hardly any near miss', () => {
  const each = FULL ? 143 : 12;
  let [tried, missed] = [0, 0];
  for (const tier of sql.tiers) {
    for (let seed = 0n; seed < BigInt(each); seed++) {
      const problem = generate(tier.id, seed);
      const open = (from: readonly number[]): Database.Database[] =>
        from.map((databaseSeed) => {
          const database = new Database(':memory:');
          database.exec(databaseScript(problem.tables, databaseSeed));
          return database;
        });
      const [own, others] = [
        open(problem.databases),
        open(Array.from({ length: 12 }, (_, at) => at + 1)),
      ];
      expect(own.length).toBeGreaterThanOrEqual(5);
      const differs = (databases: readonly Database.Database[], statement: string): boolean =>
        databases.some(
          (database) =>
            outcome(database, statement, problem.ordered) !==
            outcome(database, problem.query, problem.ordered),
        );
      const runs = nearMisses(problem).filter(
        (statement) => !outcome(own[0]!, statement, false).startsWith('error'),
      );
      const told = runs.filter((statement) => differs(own, statement));
      expect([problem.query, told.length >= 10]).toEqual([problem.query, true]);
      // where rows stand at one place of an order, or in no order under a limit, a near miss may be
      // the reference in other words
      if (!problem.ordered)
        missed += runs.filter(
          (statement) => !told.includes(statement) && differs(others, statement),
        ).length;
      tried += runs.length;
      for (const database of [...own, ...others]) database.close();
    }
  }
  expect(missed / tried).toBeLessThan(0.01);
}, 600_000);

describe('the frozen sets', () => {
  const problems = (name: 'test' | 'dev') =>
    frozenSet<SqlProblem, null>('sql', name).problems.map(({ problem }) => problem);

  test.each(SET_NAMES)(
    '%s: the committed file has its checksum, its size, its themes, and problems that are read as they are',
    (name) => {
      const folder = new URL('../../assets/evaluation/', import.meta.url);
      const sha256 = createHash('sha256')
        .update(readFileSync(new URL(`sql/${name}.json`, folder)))
        .digest('hex');
      expect(readFileSync(new URL('SHA256SUMS', folder), 'utf8')).toContain(
        `${sha256}  sql/${name}.json\n`,
      );
      for (const { id } of sql.tiers)
        expect(problems(name).filter(({ tier }) => tier === id)).toHaveLength(SET_SIZE[name]);
      for (const problem of problems(name)) {
        expect(readSqlProblem('sql', problem)).toEqual(problem);
        expect(FROZEN_THEMES[name].map(({ id }) => id)).toContain(problem.theme);
      }
    },
  );

  test('no problem is there twice, and the first of each tier is what its seed gives', () => {
    const all = SET_NAMES.flatMap((name) => problems(name).map(({ id }) => id));
    expect(new Set(all).size).toBe(all.length);
    for (const tier of TIERS) {
      const seed = deriveSeed({
        runSeed: 0n,
        purpose: 'frozen test',
        iteration: 0,
        problemId: `sql/${tier.id}`,
        sample: 0,
      });
      expect(drawProblem(tier, FROZEN_THEMES.test, new Random(seed))).toEqual(
        problems('test').find((problem) => problem.tier === tier.id),
      );
    }
  });

  test('every reference passes, and the trivial policies hardly ever do', async () => {
    const passed: Record<string, number> = {};
    for (const problem of problems('dev')) {
      expect([problem.query, await kindOf(problem, problem.query)]).toEqual([
        problem.query,
        'pass',
      ]);
      for (const [name, policy] of Object.entries(sql.trivialPolicies)) {
        const { verdict } = await judge(problem, policy(problem));
        passed[name] = (passed[name] ?? 0) + (verdict.kind === 'pass' ? 1 : 0);
      }
    }
    for (const count of Object.values(passed))
      expect(count).toBeLessThan(0.1 * problems('dev').length);
  }, 300_000);
});

describe('replies', () => {
  test('a statement alone is read, or reasoning that ends with the one block of SQL; case and comments do not matter', async () => {
    const problem = generate('T0', 2n);
    const { query } = problem;
    for (const text of [
      query,
      `${query};`,
      `  ${query} ;\n`,
      `${query} -- done`,
      `/* all */ ${query}`,
      query.replace('SELECT', 'select'),
    ])
      expect(await judge(problem, text)).toMatchObject({
        verdict: { kind: 'pass' },
        form: 'statement',
      });
    for (const text of [
      `\`\`\`sql\n${query};\n\`\`\``,
      `\`\`\`\n${query}\n\`\`\`\n`,
      `First, SELECT.\n\n\`\`\`SQLite\r\n${query}\r\n\`\`\``,
    ])
      expect(await judge(problem, text)).toMatchObject({
        verdict: { kind: 'pass' },
        form: 'block',
      });
    for (const style of ['plain', 'cot'] as const) {
      const shots = await sql.fewShot!(problem, style, 2, 1n);
      expect(shots.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
      expect(sql.parse(shots[1]!.content, problem)).toMatchObject({
        ok: true,
        form: style === 'plain' ? 'statement' : 'block',
      });
    }
  });

  test('results count as multisets of rows without names; 1 is 1.0, NULL is NULL, and order counts where it is asked for', async () => {
    const same = [
      'SELECT id AS x, 1 AS y FROM items',
      'SELECT id, size FROM items ORDER BY id DESC',
      'SELECT id + 0.0, size + 1e-12 FROM items',
    ];
    for (const statement of same) expect(await kindOf(OWN, statement)).toBe('pass');
    expect(await kindOf(OWN, 'SELECT size, id FROM items')).toBe('result');
    expect(await kindOf(OWN, "SELECT id, '1.0' FROM items")).toBe('result');
    expect(await kindOf(OWN, 'SELECT id, size + 1e-6 FROM items')).toBe('result');
    expect(await kindOf(OWN, 'SELECT id, NULL FROM items')).toBe('result');
    expect(await kindOf(OWN, 'SELECT id, size FROM items UNION ALL SELECT 1, 1')).toBe('result');
    expect(await kindOf(OWN, 'SELECT id FROM items')).toBe('columns');
    // a number without end is no other number
    for (const infinite of ['9e999', '-9e999', '9e999 * id'])
      expect(await kindOf(OWN, `SELECT id, ${infinite} FROM items`)).toBe('result');
    const nulls = own({ query: 'SELECT NULL FROM items' });
    expect([
      await kindOf(nulls, 'SELECT NULL FROM items'),
      await kindOf(nulls, 'SELECT 0 FROM items'),
    ]).toEqual(['pass', 'result']);
    const ordered = own({ query: 'SELECT id FROM items ORDER BY id', ordered: true });
    expect(await kindOf(ordered, 'SELECT id FROM items ORDER BY name')).toBe('order');
    expect(await kindOf(ordered, 'SELECT id FROM items ORDER BY id ASC')).toBe('pass');
  });

  test('queries that a reader of the prompt may write are run: other words for the same', async () => {
    const alike = [
      'WITH all_items AS (SELECT id, size FROM items) SELECT * FROM all_items',
      'WITH id AS (SELECT id, size FROM items), more(a, b) AS (SELECT * FROM id) SELECT a, b FROM more',
      'SELECT i.id, i.size FROM items AS i JOIN items j ON i.id = j.id',
      'SELECT i.id, i.size FROM (SELECT * FROM items) i, (items) k WHERE i.id = k.id',
      'SELECT id, CASE WHEN size IS NULL THEN 0 ELSE coalesce(size, 1) END FROM "items" WHERE id IN (SELECT id FROM items) OR id IN items',
      'SELECT id, max(size) OVER (PARTITION BY id) FROM items',
      'SELECT id, size FROM items WHERE EXISTS (SELECT 1) AND size IS NOT DISTINCT FROM 1 GROUP BY id, size HAVING count(*) >= 1',
      'SELECT id, size FROM items WHERE (size >= 1) IS (1)',
      'SELECT id, \ufeffsize FROM items',
      'SELECT id, CAST(size AS INTEGER) FROM items NATURAL JOIN items AS other USING (id)'.replace(
        ' NATURAL',
        '',
      ),
    ];
    for (const statement of alike)
      expect([statement, refuseStatement(statement, new Set(['items']))]).toEqual([
        statement,
        null,
      ]);
    for (const statement of alike.filter((one) => !one.includes('IN items')))
      expect([statement, await kindOf(OWN, statement)]).toEqual([statement, 'pass']);
  });

  test('feedback names the kind of difference alone; a problem whose reference does not run has no verdict', async () => {
    const problem = generate('T2', 1n);
    const { verdict } = await judge(problem, `SELECT * FROM ${problem.tables[0]!.name}`);
    expect(sql.feedback!(problem, verdict)).toMatch(/columns?, the question asks for 1|rows/);
    expect(verdict.results!.found).not.toBe(verdict.results!.expected);
    expect(sql.feedback!(problem, verdict)).not.toContain(verdict.results!.expected);
    const broken = own({ query: 'SELECT colour FROM items' });
    expect((await judge(broken, 'SELECT 1')).verdict).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('no such column: colour'),
    });
  });

  test('what the frozen problems do not tell is as docs/tasks.md says', async () => {
    const problems = frozenSet('sql', 'test').problems.map(({ problem }) => problem as SqlProblem);
    let unconditioned = 0;
    for (const problem of problems.filter(({ tier }) => tier === 'T1'))
      unconditioned += Number(
        (await kindOf(problem, problem.query.replace(/ WHERE .*$/, ''))) === 'pass',
      );
    const lowest = problems.filter(
      ({ pattern, query }) => pattern === 'join-group-first' && !query.includes(' DESC'),
    );
    const text = readFileSync('docs/tasks.md', 'utf8');
    expect(text).toContain(`In ${unconditioned} of 100 test problems of T1`);
    expect(text).toContain(`fails (${lowest.length} problems of T6)`);
  });

  test('a problem whose reference is beyond the limits has no verdict, and the next reply to another has one', async () => {
    const all = (count: number): string =>
      Array.from({ length: count }, (_, at) => `items AS j${at}`).join(', ');
    const rows = [30, 30] as const;
    const tables = [{ ...OWN.tables[0]!, rows, columns: OWN.tables[0]!.columns.slice(0, 1) }];
    const slow = own({ tables, query: `SELECT count(*) FROM ${all(8)}` });
    const large = own({ tables, query: `SELECT 1 FROM ${all(4)}` });
    expect(await kindOf(slow, 'SELECT 1')).toBe(
      "the problem's own query does not run: it takes too long",
    );
    expect(await kindOf(large, 'SELECT 1')).toBe(
      "the problem's own query does not run: it returns too many rows",
    );
    expect(await kindOf(OWN, OWN.query)).toBe('pass');
  });

  test('a column whose name is a word of SQL is shown in quotes, as it is read', async () => {
    const columns = ['order', 'key', 'first'].map(
      (name) => ({ name, type: 'INTEGER', values: { kind: 'serial' } }) as const,
    );
    const named = own({
      tables: [{ ...OWN.tables[0]!, columns }],
      query: 'SELECT "order", "key" FROM items WHERE "first" > 2',
    });
    expect(sql.prompt(named, 'plain').at(-1)!.content).toContain(
      'items("order" INTEGER, "key" INTEGER, "first" INTEGER)',
    );
    expect(await kindOf(named, 'SELECT "order", "key" FROM items WHERE "first" >= 3')).toBe('pass');
  });

  test('a verdict shows a reader what the statement returned beside what it should have, shortened', async () => {
    const ordered = own({ query: 'SELECT id, size FROM items ORDER BY id', ordered: true });
    const shown = async (statement: string) => (await judge(ordered, statement)).verdict.results;
    const rows = (size: string): string =>
      [1, 2, 3, 4, 5].map((id) => `${id} | ${size}`).join('\n');
    expect(await shown('SELECT id, size FROM items ORDER BY id')).toEqual({
      found: rows('1'),
      expected: rows('1'),
    });
    expect(await shown("SELECT id, 'it''s \n' || size FROM items ORDER BY id")).toEqual({
      found: rows("'it''s \\n1.0'"),
      expected: rows('1'),
    });
    expect(await shown('SELECT 1 WHERE 0')).toMatchObject({ found: 'no rows of 1 column' });
    expect(await shown('SELECT colour FROM items')).toEqual({
      found: 'no such column: colour',
      expected: rows('1'),
    });
    const wide = `SELECT ${Array.from({ length: 12 }, () => `NULL, x'00ff', '${'w'.repeat(50)}'`).join(', ')} FROM items`;
    const { found } = (await shown(`${wide} UNION ALL ${wide}`))!;
    expect(found.split('\n')).toHaveLength(9);
    expect(found).toMatch(/^NULL \| x'00ff' \| 'w{40}…' .* … 36 columns\n[^]*… 10 rows$/);
    expect(await shown('not a statement')).toBeUndefined();
  });

  test('a schema with quotes and Unicode is drawn, shown and asked like any other', async () => {
    const odd = own({
      tables: [
        {
          name: `o"dd 'täble`,
          rows: [5, 9],
          columns: [
            {
              name: '", x',
              type: 'TEXT',
              values: { kind: 'text', of: [`it's`, '💥 "', ';--'], distinct: false, nulls: true },
            },
            { name: 'ключ', type: 'INTEGER', values: { kind: 'serial' } },
          ],
        },
      ],
      query: `SELECT """, x" FROM "o""dd 'täble" WHERE "ключ" < 4`,
    });
    expect(sql.prompt(odd, 'plain').at(-1)!.content).toContain(
      `"o""dd 'täble"(""", x" TEXT, "ключ" INTEGER)`,
    );
    expect(await kindOf(odd, `select [", x] from \`o"dd 'täble\` where ключ <= 3;`)).toBe('pass');
    expect(await kindOf(odd, `select 'it''s' from "o""dd 'täble"`)).toBe('result');
    for (const policy of Object.values(sql.trivialPolicies))
      expect(await kindOf(odd, policy(odd))).not.toMatch(/format|forbidden|none/);
  });

  test('the most lenient reading finds a statement anywhere, and passes where any does', async () => {
    await using task = await openTask('sql');
    const { query } = OWN;
    const kind = async (text: string) => (await task.judgeLeniently(OWN, text))!.verdict.kind;
    for (const text of [
      `Sure! Here is the query: ${query}; It returns all items.`,
      `You can SELECT rows like this:\n\n${query}\n\nThat selects everything`,
      `\`${query}\``,
      `SELECT 1; or ${query}.`,
      `\`\`\`python\nrun("x")\n\`\`\`\n\`\`\`sql\n${query}\n\`\`\`\nand\n\`\`\`sql\nSELECT 2\n\`\`\``,
      `${query}; SELECT id FROM items WHERE`,
    ])
      expect([text, await kind(text)]).toEqual([text, 'pass']);
    for (const text of [
      '',
      'no statement',
      'SELECT',
      `${query.slice(0, -2)}`,
      'SELECT 1; SELECT 2',
    ])
      expect([text, await kind(text)]).toEqual([text, 'fail']);
  });

  test('the prompt is short, names every table and column, and gives neither the reference nor a seed away', () => {
    for (const tier of sql.tiers) {
      const problem = generate(tier.id, 5n);
      const messages = sql.prompt(problem, 'plain');
      const message = messages.at(-1);
      for (const { name, columns } of problem.tables) {
        expect(message!.content).toContain(`${name}(`);
        for (const column of columns)
          expect(message!.content).toContain(`${column.name} ${column.type}`);
      }
      expect(message!.content).toContain(problem.question);
      const text = messages.map(({ content }) => content).join('\n');
      expect(text).not.toContain(problem.query);
      for (const seed of problem.databases) expect(text).not.toContain(String(seed));
      expect(text.length).toBeLessThan(1100);
      expect(sql.prompt(problem, 'cot')[0]!.content).toContain('step by step');
    }
  });

  test('the grammar names nothing of any problem', () => {
    const words = [...THEMES, ...FROZEN_THEMES.test, ...FROZEN_THEMES.dev].flatMap(
      ({ main, first, second }) =>
        [main, first, second].flatMap(({ many, name, category, categories, figures }) => [
          many,
          name,
          category,
          ...categories,
          ...figures.map(({ column }) => column),
        ]),
    );
    const literals = [...sql.answerGrammar!.matchAll(/"([^"]*)"/g)].flatMap(([, literal]) =>
      literal!.toLowerCase().split(/\W+/),
    );
    expect(words.filter((word) => literals.includes(word.toLowerCase()))).toEqual([]);
  });
});

describe('exploits', () => {
  test('there are at least 80, all different, and none passes; what runs without end is stopped', async () => {
    const { exploits } = sql;
    expect(exploits.length).toBeGreaterThanOrEqual(80);
    expect(new Set(exploits.map(({ text, finish }) => `${finish} ${text}`)).size).toBe(
      exploits.length,
    );
    const passing: string[] = [];
    const categories = new Map<string, string>();
    const limits = new Map<string, string>();
    for (const { name, problem, text, finish } of exploits) {
      const { verdict } = await judgeReply(sql, problem, text, finish);
      if (verdict.kind !== 'fail') passing.push(`${name}: ${verdict.kind} ${verdict.reason ?? ''}`);
      categories.set(name, verdict.violations[0]?.category ?? '');
      if (verdict.violations[0]?.category === 'limit')
        limits.set(name, verdict.violations[0].detail);
    }
    expect(passing).toEqual([]);
    for (const category of [
      'format',
      'forbidden',
      'truncated',
      'error',
      'columns',
      'result',
      'order',
      'limit',
    ])
      expect([...categories.values()]).toContain(category);
    const elsewhere = [...categories].filter(([name]) =>
      name.endsWith('known in a subquery alone'),
    );
    expect(elsewhere.map(([, category]) => category)).toEqual([
      'forbidden',
      'forbidden',
      'forbidden',
    ]);
    expect(Object.fromEntries(limits)).toMatchObject({
      'a cross join of eight tables': 'The query takes too long.',
      'more rows than are read': 'The query returns too many rows.',
      'a text longer than is read': 'The query takes too much memory.',
    });
    const [{ problem }] = exploits as unknown as [{ problem: SqlProblem }];
    expect(await kindOf(problem, problem.query)).toBe('pass');
  }, 600_000);
});

describe('the processes that run statements', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isopro-sql-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const asked = (statement: string) => ({ problem: OWN, statement });
  const program = (name: string, source: string): string => {
    const file = join(folder, `${name}.mjs`);
    writeFileSync(file, source);
    return file;
  };
  const alive = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  /** Ended, and this process was told so. */
  const gone = async (pid: number): Promise<void> => {
    while (alive(pid)) await new Promise((resume) => setTimeout(resume, 20));
  };

  test('one that is killed while a statement runs has no verdict, and the next statement has one', async () => {
    const processes = new QueryProcesses({ processes: 1 });
    expect(await processes.run(asked(OWN.query))).toMatchObject({ same: true });
    const [pid] = processes.pids;
    const endless = `SELECT count(*) FROM ${Array.from({ length: 8 }, (_, at) => `items a${at}`).join(', ')}, (SELECT 1) b`;
    const running = processes.run(
      asked(endless.replaceAll('items', '(SELECT * FROM items UNION ALL SELECT * FROM items)')),
    );
    setTimeout(() => process.kill(pid!, 'SIGKILL'), 50);
    expect(await running).toMatchObject({ lost: expect.stringContaining('ended') });
    expect(await processes.run(asked(OWN.query))).toMatchObject({ same: true });
    const [next] = processes.pids;
    process.kill(next!, 'SIGKILL'); // while nothing runs
    await gone(next!);
    expect(await processes.run(asked(OWN.query))).toMatchObject({ same: true });
    const [last] = processes.pids;
    processes.dispose();
    await gone(last!);
    expect(processes.pids).toEqual([]);
  });

  test.each([
    ['says what is no reply', `process.stdin.once('data', () => console.log('passed')); `],
    [
      'answers another request',
      `process.stdin.once('data', () => console.log('{"request":7,"same":true,"results":{"found":"1","expected":"1"}}'));`,
    ],
    [
      'floods',
      `const { stdout } = process;
      stdout.on('error', () => {});
      for (;;) if (!stdout.write('x'.repeat(65536))) await new Promise((go) => stdout.once('drain', go));`,
    ],
    ['ends', `process.stdin.once('data', () => process.exit(0));`],
    ['cannot be started', `throw new Error('no');`],
    ['says nothing', `process.stdin.resume();`],
  ])('a process that %s has no verdict', async (name, source) => {
    const processes = new QueryProcesses({
      processes: 1,
      seconds: 2,
      program: program(name.replaceAll(' ', '-'), source),
    });
    expect(await processes.run(asked(OWN.query))).toHaveProperty('lost');
    processes.dispose();
  });

  test('who waits no longer is not waited for', async () => {
    const processes = new QueryProcesses({ processes: 1 });
    const controller = new AbortController();
    const first = processes.run(asked(OWN.query), controller.signal);
    const second = processes.run(asked(OWN.query));
    controller.abort();
    expect(await first).toHaveProperty('lost');
    expect(await second).toMatchObject({ same: true });
    processes.dispose();
  });

  test('a process that uses a task and goes leaves none behind; it does not wait for them either', async () => {
    const module = new URL('../../dist/src/tasks/open-task.js', import.meta.url).href;
    const script = `
      import { openTask } from ${JSON.stringify(module)};
      import { readdirSync } from 'node:fs';
      const task = await openTask('sql', { verifierThreads: 2 });
      const direct = await openTask('sql');
      const problem = await task.generate('T0', 1n);
      const verdicts = await Promise.all([task, direct, task].map((one) => one.judge(problem, problem.query, 'stop')));
      console.log(verdicts.map(({ verdict }) => verdict.kind).join(' '));
      await task.dispose();`;
    const { stdout, stderr, status } = spawnSync(
      process.execPath,
      ['--input-type=module', '-e', script],
      {
        encoding: 'utf8',
        timeout: 100_000,
      },
    );
    expect([stdout, stderr, status]).toEqual(['pass pass pass\n', '', 0]);
  });
});

test('on the command line problems are generated, replies judged and baselines measured', () => {
  const run = (input: string, ...flags: string[]): string => {
    const { stdout, stderr, status } = spawnSync(
      process.execPath,
      ['dist/program/main.js', 'tasks', ...flags],
      {
        input,
        encoding: 'utf8',
      },
    );
    expect([stderr, status]).toEqual(['', 0]);
    return stdout;
  };
  const lines = run(
    '',
    'generate',
    '--task',
    'sql',
    '--tier',
    'T4',
    '--count',
    '2',
    '--style',
    'plain',
    '--json',
  )
    .trim()
    .split('\n');
  const problems = lines.map((line) => (JSON.parse(line) as { problem: SqlProblem }).problem);
  const replies = problems.flatMap((problem) =>
    [problem.query, 'SELECT 1'].map((text) => JSON.stringify({ problem, text })),
  );
  const frozen = frozenSet<SqlProblem, null>('sql', 'test').problems[0]!.problem;
  replies.push(JSON.stringify({ problemId: frozen.id, text: frozen.query }));
  const verdicts = run(`${replies.join('\n')}\n`, 'verify', '--task', 'sql', '--json')
    .trim()
    .split('\n');
  expect(verdicts.map((line) => (JSON.parse(line) as { kind: string }).kind)).toEqual([
    'pass',
    'fail',
    'pass',
    'fail',
    'pass',
  ]);
}, 100_000);
