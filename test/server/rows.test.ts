/**
 * Files of callers, read line by line in a thread: what is written, what is wrong, and the bound.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import type { RowForm } from '../../src/server/fine-tuning/row-forms.js';
import { readRows } from '../../src/server/fine-tuning/rows.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-rows-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const [file, out] = [path.join(folder, 'given.jsonl'), path.join(folder, 'made.jsonl')];
const row = (content: string): string => JSON.stringify({ messages: [{ role: 'user', content }] });
const MESSAGES = { kind: 'messages' } as const;

const wrong = (words: string) => ({
  status: 400,
  param: 'training_file',
  code: 'invalid_training_file',
  message: `file-1: ${words}`,
});

test('rows are written in their order, blank lines aside, up to the last byte that they may have', async () => {
  const made = `${row('a')}\n${row('é')}\n`;
  writeFileSync(file, `${row('a')}\n\n  \n${JSON.stringify({ more: 1, ...JSON.parse(row('é')) })}`);
  const task = { file, form: MESSAGES, out };
  const bytes = Buffer.byteLength(made);
  await readRows({ ...task, mostBytes: bytes }, 'file-1');
  expect(readFileSync(out, 'utf8')).toBe(made);
  rmSync(out);
  await expect(readRows({ ...task, mostBytes: bytes - 1 }, 'file-1')).rejects.toMatchObject({
    code: 'WRITE_FAILED',
    message: `the copy of the file exceeds the ${bytes - 1} bytes that are left`,
  });
  expect(readdirSync(folder)).toEqual(['given.jsonl']); // nothing is left of it
  await readRows({ ...task, out: null, mostBytes: Infinity }, 'file-1');
  expect(existsSync(out)).toBe(false);
});

test('the first line that is wrong is told with its number, once, and nothing stays', async () => {
  const read = async (form: RowForm, ...lines: string[]): Promise<unknown> => {
    writeFileSync(file, lines.join('\n'));
    return readRows({ file, form, out, mostBytes: 1e6 }, 'file-1').catch((error: unknown) => error);
  };
  const said = (...lines: string[]): Promise<unknown> => read(MESSAGES, ...lines);
  expect(await said(row('a'), '', '{"messages":[]}', '{')).toMatchObject(
    wrong('line 3: messages: is empty'),
  );
  const broken = (await said(row('a'), '{')) as Error;
  expect(broken).toMatchObject({ status: 400, param: 'training_file' });
  expect(broken.message).toMatch(/^file-1: line 2 (?!.*line 2)/);
  const deep = `{"a":${'['.repeat(128)}${']'.repeat(128)}}`;
  expect(await said(deep)).toMatchObject(wrong('line 1: it is nested more than 128 levels deep'));
  const reference = `{{item.${'k'.repeat(3000)}}}`;
  const cut = (await read({ kind: 'answered', reference }, row('a'))) as Error;
  expect(cut.message).toBe(
    `file-1: line 1: there is no value for {{item.${'k'.repeat(1000)}`.slice(0, 1008),
  );
  expect(existsSync(out)).toBe(false);
});

test('those who come at once are read one after the other, whatever becomes of the others', async () => {
  const absent = path.join(folder, 'absent.jsonl');
  writeFileSync(file, row('a'));
  const [first, second, third] = await Promise.allSettled([
    readRows({ file: absent, form: MESSAGES, out: null, mostBytes: 9 }, 'file-0'),
    readRows({ file, form: MESSAGES, out, mostBytes: 1e6 }, 'file-1'),
    readRows({ file, form: { kind: 'pair' }, out: null, mostBytes: 9 }, 'file-1'),
  ]);
  expect(first).toMatchObject({ reason: { code: 'FILE_UNREADABLE' } });
  expect(second).toMatchObject({ status: 'fulfilled' });
  expect(third).toMatchObject({
    reason: { status: 400, message: expect.stringMatching(/^file-1: line 1: /) },
  });
  expect(readFileSync(out, 'utf8')).toBe(`${row('a')}\n`);
});
