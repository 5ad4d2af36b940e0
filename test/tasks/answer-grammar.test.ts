/**
 * The grammars of answers in the engine: what they let through is read, and every right answer is
 * let through.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { extract } from '../../src/tasks/extract/extract.js';
import { solvedReply } from '../../src/tasks/extract/prompt.js';
import type { ExtractProblem } from '../../src/tasks/extract/problem.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { type ScenarioProblem, taskOf } from '../../src/tasks/games/scenario-task.js';
import { shippedScenario } from '../../src/tasks/games/shipped.js';
import { ladder } from '../../src/tasks/ladder/ladder.js';
import type { Problem, Task } from '../../src/tasks/task.js';
import type { SqlProblem } from '../../src/tasks/sql/problem.js';
import { sql } from '../../src/tasks/sql/sql.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const grid = taskOf(shippedScenario('grid_ctf'));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-answer-grammar-'));
let model: Model;
beforeAll(async () => {
  const file = path.join(folder, 'model.gguf');
  writeSyntheticModel(file, { architecture: 'llama' });
  model = await loadModel(file, { threads: 1, contextTokens: 512 });
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * A grammar whose rules do not come back to themselves is a regular expression: each name is
 * replaced by its rule.
 */
function regularExpression(grammar: string): RegExp {
  const rules = new Map(
    grammar
      .trim()
      .split('\n')
      .map((line) => line.split(/ ::= (.*)/s, 2) as [string, string]),
  );
  const expand = (rule: string): string =>
    `(?:${rules
      .get(rule)!
      .replace(
        /"((?:[^"\\]|\\.)*)"|\[(?:[^\]\\]|\\.)*\]|[a-z]+| /g,
        (part, literal: string | undefined) => {
          if (literal !== undefined)
            return `(?:${literal.replace(/\\"/g, '"').replace(/[{}[\]().*+?^$|]/g, '\\$&')})`;
          if (part === ' ') return '';
          return part.startsWith('[') ? part : expand(part);
        },
      )})`;
  return new RegExp(`^${expand('root')}$`);
}

const cases: [
  string,
  Pick<Task<Problem, unknown>, 'parse' | 'answerGrammar'>,
  (row: { problem: Problem; reference: unknown }) => string,
][] = [
  ['extract', extract as never, ({ problem }) => solvedReply(problem as ExtractProblem)],
  ['ladder', ladder as never, ({ reference }) => reference as string],
  [
    'grid_ctf',
    grid as never,
    ({ problem }) => grid.referenceReply!(problem as ScenarioProblem, 'plain') as string,
  ],
  ['sql', sql as never, ({ problem }) => `${(problem as SqlProblem).query};`],
];

describe.each(cases)('the grammar of %s', (id, task, reply) => {
  const rows = frozenSet<Problem, unknown>(id, 'test').problems;

  test('every right answer follows it, and it names nothing of a problem', () => {
    const form = regularExpression(task.answerGrammar!);
    expect(rows.filter((row) => !form.test(reply(row))).map(reply)).toEqual([]);
    for (const text of ['The answer is {}.', '{"a": [1]}', '```', 'a  b', ''])
      expect(form.test(text)).toBe(false);
    expect(task.answerGrammar).not.toMatch(/unknown|due|price|name|date|YYYY|customer/);
  });

  test('what a model without any skill says under it is read', async () => {
    const replies: string[] = [];
    const failed: string[] = [];
    for await (const { text, finish } of model.generate({
      prompts: Array.from({ length: 80 }, () => ({ tokenIds: [1, 5, 7] })),
      sampling: { temperature: 1, seed: 5n },
      maxTokens: 120,
      grammar: task.answerGrammar!,
    })) {
      if (finish !== 'stop') continue;
      replies.push(text);
      const parsed = task.parse(text, rows[0]!.problem);
      // that a key comes twice is all that no grammar can forbid
      if (!parsed.ok && !parsed.detail.includes('stands there twice'))
        failed.push(`${parsed.detail} ${text}`);
    }
    expect(failed).toEqual([]);
    expect(new Set(replies).size).toBeGreaterThan(3);
  });
});
