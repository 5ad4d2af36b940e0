/** The linter is on, takes every level for an error, and finds nothing. */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';

const CONFIGURATION = 'biome.jsonc';
const inGit = existsSync('.git');
if (!inGit) console.warn('skipping the linter: it is checked in a git checkout');
const inCheckout = inGit ? test : test.skip;
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-lint-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const lint = (cwd: string): { status: number | null; stdout: string; stderr: string } =>
  spawnSync(process.execPath, [path.resolve('scripts/lint.mjs')], { cwd, encoding: 'utf8' });

inCheckout(
  'npm run lint finds nothing',
  () => {
    const { status, stdout, stderr } = lint(process.cwd());
    expect([status, stderr]).toEqual([0, '']);
    expect(Number(/^(\d+) files, 0 places to mend\n$/.exec(stdout)?.[1])).toBeGreaterThan(1000);
  },
  120_000,
);

inCheckout.each([
  ['an error', 'export const same = (a: string, b: string) => a == b;', 'noDoubleEquals'],
  ['a warning', 'export const first = (list: any): unknown => list[0];', 'noExplicitAny'],
  ['an information', "export const told = (what: string) => 'told: ' + what;", 'useTemplate'],
  [
    'what is passed over without a reason',
    '// biome-ignore lint/suspicious/noDoubleEquals\nexport const same = (a: string, b: string) => a == b;',
    'suppressions',
  ],
  [
    'what is passed over and is not there',
    '// biome-ignore lint/suspicious/noDoubleEquals: a reason\nexport const one = 1;',
    'suppressions',
  ],
])('%s is told and fails', (_, text, rule) => {
  mkdirSync(path.join(folder, 'src'), { recursive: true });
  copyFileSync(CONFIGURATION, path.join(folder, CONFIGURATION));
  writeFileSync(path.join(folder, 'src', 'faulty.ts'), `${text}\n`);
  const { status, stderr } = lint(folder);
  expect([status, stderr]).toEqual([1, expect.stringMatching(`^src/faulty.ts:[12]: \\S*${rule}`)]);
});

inCheckout('a rule that is off has its reason in the line above', () => {
  const lines = readFileSync(CONFIGURATION, 'utf8').split('\n');
  const off = lines.flatMap((line, i) => (/: "off",?$/.test(line) ? [lines[i - 1]!.trim()] : []));
  expect(off).toEqual([
    expect.stringMatching(/^\/\/ 52 places: /),
    expect.stringMatching(/^\/\/ numeric loops under noUncheckedIndexedAccess/),
    expect.stringMatching(/^\/\/ 56 places: /),
  ]);
});
