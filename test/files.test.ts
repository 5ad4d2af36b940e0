/**
 * Files of text as they are: whatever ends their lines, packed or not, and nothing that is no text.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readLines, readRowText, readText } from '../src/files.js';
import { Random } from '../src/random.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-files-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const write = (content: string | Uint8Array, ending = '.jsonl'): string => {
  const file = path.join(folder, `file-${++files}${ending}`);
  writeFileSync(file, content);
  return file;
};
async function lines(file: string): Promise<string[]> {
  const found = [];
  for await (const line of readLines(file)) found.push(line);
  return found;
}

describe('lines', () => {
  test('end with LF, CRLF and CR in any mixture', async () => {
    expect(await lines(write('a\nb\r\nc\rd\n\r\ne\r\rf'))).toEqual([
      'a',
      'b',
      'c',
      'd',
      '',
      'e',
      '',
      'f',
    ]);
    expect(readRowText(write('a\r\nb\rc\n'), 'DATA_INVALID')).toBe('a\nb\nc\n');
  });

  test('wherever a chunk of the file ends', async () => {
    const random = new Random(10n);
    const ends = ['\n', '\r\n', '\r'];
    const all = Array.from(
      { length: 20_000 },
      (_, i) => `${i}${'ä€𝄞'.repeat(random.nextInteger(0, 4))}`,
    );
    const text = all.map((line) => `${line}${ends[random.nextInteger(0, 2)]!}`).join('');
    expect(await lines(write(text))).toEqual(all);
    expect(await lines(write(gzipSync(text), '.jsonl.gz'))).toEqual(all);
  });
});

describe('bytes that are no UTF-8', () => {
  const latin = (text: string): Buffer => Buffer.from(text, 'latin1');
  test.each<[string, Buffer, RegExp]>([
    ['of Latin-1', latin('{"a": 1}\n{"b": "caf\xe9"}\n'), /byte 19, in line 2/],
    ['cut off', latin('a\nb\xe2\x82'), /byte 3, in line 2/],
    ['of a lone surrogate', latin('a\r\nb\rc\xed\xa0\x80'), /in line 3/],
    [
      'behind a long beginning',
      Buffer.concat([Buffer.from('ä\n'.repeat(100_000)), latin('x\xff')]),
      /byte 300001, in line 100001/,
    ],
    ['of UTF-16 that is cut off', latin('\xff\xfea\0b'), /UTF-16LE/],
  ])('%s', async (_, bytes, message) => {
    const refused = (code: string) =>
      expect.objectContaining({ code, message: expect.stringMatching(message) as unknown });
    const file = write(bytes);
    await expect(lines(file)).rejects.toEqual(refused('INVALID_ARGUMENT'));
    expect(() => readText(file)).toThrow(refused('FILE_UNREADABLE'));
    expect(() => readRowText(file, 'DATA_INVALID')).toThrow(refused('DATA_INVALID'));
  });

  test('of UTF-16 without a mark', async () => {
    const file = write(Buffer.from('{"a": 1}\n', 'utf16le'));
    await expect(lines(file)).rejects.toThrow(/zero bytes/);
    expect(() => readRowText(file, 'DATA_INVALID')).toThrow(/zero bytes/);
  });
});

describe('packed files', () => {
  test('of several members are one text', async () => {
    const file = write(Buffer.concat([gzipSync('a\nb'), gzipSync('c\n')]), '.ndjson.gz');
    expect(await lines(file)).toEqual(['a', 'bc']);
    expect(readText(file)).toBe('a\nbc\n');
  });

  test('that are cut off, are none, or were made to fill the memory are refused', async () => {
    const whole = gzipSync('{"a": 1}\n'.repeat(1000));
    const bomb = gzipSync(Buffer.alloc(2 ** 26, 97), { level: 9 });
    for (const [bytes, message] of [
      [whole.subarray(0, -20), /unexpected end of file/],
      [Buffer.from('no gzip'), /incorrect header/],
      [bomb, /unpacks to more than|more than 67108864 characters/],
    ] as const) {
      const file = write(bytes, '.csv.gz');
      await expect(lines(file)).rejects.toThrow(message);
      expect(() => readText(file)).toThrow(message);
    }
  });
});
