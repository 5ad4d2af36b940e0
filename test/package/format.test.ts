/** Every source file is as the formatters write it, and no line of it is long. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

/** Of comments, of which no formatter of TypeScript takes care. */
const COLUMNS = 100;
/** Of all else: texts and expressions are as long as they are. */
const LONGEST = 140;
/** A page whose bytes a model reads. */
const PROMPT = 'assets/playbook.md';
const inGit = existsSync('.git');
if (!inGit) console.warn('skipping the format: it is checked in a git checkout');

(inGit ? test : test.skip)(
  'npm run format changes nothing',
  () => {
    const { status, stderr } = spawnSync(
      process.execPath,
      [path.resolve('scripts/format.mjs'), '--check'],
      { encoding: 'utf8' },
    );
    expect([status, stderr]).toEqual([0, '']);
  },
  60_000,
);

const FOLDERS = ['src', 'test', 'bench', 'scripts', 'examples', 'assets/report', 'native'];
const isComment = (line: string): boolean => /^\s*(?:\/[/*]|\*|#)/.test(line);
/** An address or a row of a table cannot be wrapped, nor what a tool reads. */
const isWhole = (line: string): boolean => /https?:|[|]|(?:biome|eslint)-/.test(line);

(inGit ? test : test.skip)(
  `no comment is wider than ${COLUMNS} columns, and no line than ${LONGEST}`,
  () => {
    const listed = execFileSync('git', ['ls-files', '-z', ...FOLDERS, '*.js'], {
      encoding: 'utf8',
    });
    const files = listed
      .split('\0')
      .filter((file) => /\.(tsx?|mjs|js|cpp|h|inl|cmake|css)$/.test(file));
    expect(files.length).toBeGreaterThan(300);
    const long = files.flatMap((file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .flatMap((line, i) => {
          const most = isComment(line) && !isWhole(line) ? COLUMNS : LONGEST;
          return line.length > most ? [`${file}:${i + 1}: ${line.length}`] : [];
        }),
    );
    expect(long).toEqual([]);
  },
);

(inGit ? test : test.skip)(`no line of a page is wider than ${COLUMNS} columns`, () => {
  const pages = execFileSync('git', ['ls-files', '-z', '*.md'], { encoding: 'utf8' })
    .split('\0')
    .filter((file) => file.endsWith('.md') && file !== PROMPT);
  expect(pages.length).toBeGreaterThan(50);
  // generated parts stand between two comments; a table, a link or an image cannot be wrapped
  const prose = (text: string): string =>
    text
      .replaceAll(/^```[^]*?^```/gm, (code) => code.replaceAll(/.+/g, ''))
      .replaceAll(/^<!-- ([\w ]+) -->$[^]*?^<!-- (?:\/|end of )\1 -->$/gm, (part) =>
        part.replaceAll(/.+/g, ''),
      )
      .replaceAll(/\]\([^)]*\)/g, ']')
      .replaceAll(/^(?:\||#|!\[).*$/gm, '');
  const long = pages.flatMap((file) =>
    prose(readFileSync(file, 'utf8'))
      .split('\n')
      .flatMap((line, i) => (line.length > COLUMNS ? [`${file}:${i + 1}: ${line.length}`] : [])),
  );
  expect(long).toEqual([]);
});
