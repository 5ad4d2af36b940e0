/** Every source file is as the formatters write it, and no line of it is long. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

const COLUMNS = 140;
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

(inGit ? test : test.skip)(`no line is longer than ${COLUMNS} columns`, () => {
  const files = execFileSync(
    'git',
    [
      'ls-files',
      '-z',
      'src',
      'test',
      'bench',
      'scripts',
      'examples',
      'assets/report',
      'native',
      '*.js',
    ],
    {
      encoding: 'utf8',
    },
  )
    .split('\0')
    .filter((file) => /\.(tsx?|mjs|js|cpp|h|inl|cmake|css)$/.test(file));
  expect(files.length).toBeGreaterThan(300);
  const long = files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, i) => (line.length > COLUMNS ? [`${file}:${i + 1}: ${line.length}`] : [])),
  );
  expect(long).toEqual([]);
});
