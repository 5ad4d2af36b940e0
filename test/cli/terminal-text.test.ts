/** Texts from outside on a screen, and in commands that are shown to be copied. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { jsonText } from '../../src/cli/output.js';
import { Progress } from '../../src/cli/progress.js';
import { Random } from '../../src/random.js';
import { painted, screened } from '../../src/text/terminal-style.js';
import { shellWord } from '../../src/shell-word.js';
import { writeRunFolder } from '../models/run-folder.js';
import { runLinesMeanwhile } from './run-cli.js';

/**
 * What steers a terminal, or the direction of reading: all of C0 but tab and line feed, DEL, C1,
 * and what has no width.
 */
const STEERING =
  /(?![\t\n])[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/u;
const ALPHABET = [
  'a',
  'B',
  ' ',
  '7',
  '-',
  "'",
  '"',
  '\\',
  '$',
  '(',
  ')',
  '`',
  '%',
  '&',
  '|',
  ';',
  '!',
  '*',
  '~',
  '#',
  '<',
  '>',
  '^',
  '{',
  '=',
];
const CONTROLS = [
  '\u001b[2J',
  '\u001b]0;x\u0007',
  '\u009b31m',
  '\u0000',
  '\b',
  '\r',
  '\u007f',
  '\u202e',
  '\u2066',
  '\u200b',
  '\ufeff',
  '\u{e0041}',
];

function texts(count: number, alphabet: readonly string[], seed: bigint): string[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () =>
    Array.from(
      { length: 1 + random.nextInteger(0, 11) },
      () => alphabet[random.nextInteger(0, alphabet.length - 1)]!,
    ).join(''),
  );
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-terminal-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a text on a screen', () => {
  test('steers nothing, and only our own colours are left where there are colours', () => {
    for (const text of texts(500, [...ALPHABET, ...CONTROLS, '\u001b[32m', '\n'], 1n)) {
      expect(screened(text, { color: false })).not.toMatch(STEERING);
      const shown = screened(`${painted('own', 'good', { color: true })}${text}`, { color: true });
      // biome-ignore lint/suspicious/noControlCharactersInRegex: our own colours
      expect(shown.replaceAll(/\u001b\[(?:0|1|2|31|32|33)m/g, '')).not.toMatch(STEERING);
      expect(shown.startsWith('\u001b[32mown\u001b[0m')).toBe(true);
    }
  });

  test('is the same value in JSON, in characters that steer nothing', () => {
    for (const text of texts(
      500,
      [...ALPHABET, ...CONTROLS, '\u00ad', '\u{e007f}', '\u2028', 'é', '漢', '😀'],
      2n,
    )) {
      const json = jsonText({ [text]: [text] });
      expect(json).not.toMatch(STEERING);
      expect(JSON.parse(json)).toEqual({ [text]: [text] });
    }
    expect(jsonText(['é漢😀'])).toBe('["é漢😀"]');
  });

  test('of progress is no exception', () => {
    let said = '';
    const stream = { write: (text: string) => (said += text), isTTY: true, columns: 200 };
    for (const text of texts(50, CONTROLS, 3n)) {
      const progress = new Progress({
        label: text,
        unit: 'rows',
        stream,
        now: () => (said.length + 1) * 1e6,
      });
      progress.update(1, { note: text });
      progress[Symbol.dispose]();
    }
    expect(said.replaceAll('\r', '').replaceAll('\u001b[K', '')).not.toMatch(STEERING);
    expect(said).toContain('␛');
  });

  test.each(['\u001b[31mred', 'bell\u0007\u009b2J', 'turned\u202eround\u2066'])(
    'rows, tasks, replies and folders that hold %j, by the commands that show them',
    async (hostile) => {
      const place = mkdtempSync(path.join(folder, 'place-'));
      const at = (name: string): string => path.join(place, name);
      writeFileSync(
        at('rows.jsonl'),
        Array.from({ length: 12 }, (_, i) =>
          JSON.stringify({
            prompt: `q${i}${hostile}`,
            answer: `a${i % 2}${hostile}`,
            tier: hostile,
          }),
        ).join('\n'),
      );
      writeFileSync(
        at('task.mjs'),
        `export default { id: 't', version: '1', tiers: [{ id: ${JSON.stringify(`a${hostile}`)} }], generate: (t, s) => ({ n: String(s) }),
          prompt: (p) => [{ role: 'user', content: p.n + ${JSON.stringify(hostile)} }],
          parse: (text) => ({ ok: true, answer: text, form: 'text' }),
          verify: () => { throw new Error(${JSON.stringify(hostile)}); }, trivialPolicies: {} };`,
      );
      writeFileSync(
        at('replies.jsonl'),
        `${JSON.stringify({ problemId: hostile, text: hostile })}\n${hostile}\n`,
      );
      const run = at(`run${hostile}`);
      mkdirSync(path.dirname(run), { recursive: true });
      await writeRunFolder({
        folder: run,
        home: at('home'),
        runId: 'ab'.repeat(16),
        rollouts: 2,
        reply: () => hostile,
        names: { model: hostile },
      });
      const commands = [
        ['tasks', 'generate', '--task', at('rows.jsonl'), '--count', '1'],
        ['tasks', 'check', at('rows.jsonl'), '--json'],
        ['tasks', 'baselines', '--task', at('rows.jsonl')],
        ['tasks', 'check', at('task.mjs'), '--count', '2'],
        ['tasks', 'verify', at('replies.jsonl')],
        ['tasks', 'verify', at('replies.jsonl'), '--json'],
        ['tasks', hostile],
        ['report', run],
        ['judge', run, '--held-out', 'none', '--trace', at(`trace${hostile}.json`)],
        ['generate', '--model', at(hostile)],
        ['train', '--data', at(`none${hostile}`)],
      ];
      for (const { stdout, stderr } of await runLinesMeanwhile(commands, undefined, {
        ISOPRO_HOME: at('home'),
      }))
        for (const line of [...stdout.split('\n'), ...stderr.split('\n')])
          expect(line).not.toMatch(STEERING);
    },
    120_000,
  );
});

describe('a word of a command', () => {
  const platform = Object.getOwnPropertyDescriptor(process, 'platform')!;
  afterEach(() => void Object.defineProperty(process, 'platform', platform));
  const words = [
    ...texts(200, [...ALPHABET, '\n', '\t', 'é', '\u001b'], 4n),
    '',
    '-',
    '--',
    '=',
    "'",
    '\\',
    'C:\\x',
  ];

  (process.platform === 'win32' ? test.skip : test)(
    'is what the shell of the system takes for one word, whatever is in it',
    () => {
      const script = words.map((word) => `printf '%s\\0' ${shellWord(word)}`).join('\n');
      expect(
        spawnSync('sh', ['-c', script], { encoding: 'utf8' }).stdout.split('\0').slice(0, -1),
      ).toEqual(words);
    },
  );

  test('is inert on Windows: between single quotes, which are doubled, or of nothing that cmd.exe or PowerShell reads', () => {
    Object.defineProperty(process, 'platform', { value: 'win32' });
    for (const word of [
      ...words,
      'it\u2019s',
      '\u2018$(x)\u2019',
      'a b\\',
      '@x',
      'C:\\Program Files\\x.gguf',
      'Grüße 1',
    ]) {
      const quoted = shellWord(word);
      const single = /^'((?:[^'\u2018-\u201b]|(['\u2018-\u201b])\2)*)'$/s.exec(quoted);
      const double = /^"([^"%$`&|<>^!()\u201c-\u201e;{}*]*)"$/s.exec(quoted);
      const bare = /^[\w+:./\\-]+$/.test(quoted) ? quoted : null;
      expect([
        word,
        single?.[1]?.replace(/(['\u2018-\u201b])\1/g, '$1') ?? double?.[1] ?? bare,
      ]).toEqual([word, word]);
    }
    expect(shellWord('C:\\Program Files\\x.gguf')).toBe('"C:\\Program Files\\x.gguf"');
  });
});
