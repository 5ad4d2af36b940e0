/** Texts of a terminal by the columns that they take: wide characters take two. */
import { expect, test } from '@jest/globals';
import { failureTable } from '../../src/text/failures.js';
import { labelWithin, length, painted, wrapped } from '../../src/text/terminal-style.js';
import { listTable, table } from '../../src/text/terminal.js';

const style = { width: 100, color: false };

test.each([
  ['plain', 5],
  ['日本語', 6],
  ['한국', 4],
  ['🙂', 2],
  ['👩‍👩‍👧', 2],
  ['é', 1],
  ['−1.5 … α', 8],
])('%s takes %d columns, with a colour or without', (text, columns) => {
  expect(length(text)).toBe(columns);
  expect(length(painted(text, 'good', { color: true }))).toBe(columns);
});

test('columns of a table stay aligned after wide characters', () => {
  const rows = [
    ['name', 'n'],
    ['東京', '1'],
    ['🙂🙂🙂', '20'],
  ];
  expect(table(rows, 80)).toEqual(['name     n', '東京     1', '🙂🙂🙂  20']);
  expect(new Set(table(rows, 80).map(length))).toEqual(new Set([10]));
  // a column that does not fit is left out by its columns, not by its characters
  expect(table(rows, 9)).toEqual(['name', '東京', '🙂🙂🙂']);
});

test('a cell is shortened to the columns that it may take', () => {
  expect(labelWithin('日本語です', 7)).toBe('日本語…');
  expect(labelWithin('日本語です', 10)).toBe('日本語です');
  expect(labelWithin('🙂🙂🙂', 5)).toBe('🙂🙂…');
  const [, row] = listTable(['a'], [['語'.repeat(60)]], style).split('\n');
  expect(length(row!)).toBeLessThanOrEqual(60);
});

test('a sentence is broken where its wide characters reach the width', () => {
  const lines = wrapped('東京 大阪 京都 🙂 福岡', { prose: 10 }).split('\n');
  expect(lines).toEqual(['東京 大阪', '京都 🙂', '福岡']);
  expect(Math.max(...lines.map(length))).toBeLessThanOrEqual(10);
});

test('a table of failures with wide replies keeps to the width', () => {
  const example = { problemId: 'p', text: '回答'.repeat(50), tier: 'a' };
  const row = { kind: 'wrong', count: 3, why: '答えが違います', example } as const;
  const other = { ...row, count: 1, why: 'not a number' };
  const text = failureTable({ replies: 4, passed: 0, rows: [row, other] }, 'rollouts', {
    width: 60,
    prose: 60,
  });
  const lines = text.split('\n');
  expect(Math.max(...lines.map(length))).toBeLessThanOrEqual(60);
  const [first, second] = lines.slice(-2).map((line) => length(line.slice(0, line.indexOf('回'))));
  expect(first).toBe(second);
});
