/** Every suite of tests belongs to one project of jest (jest.config.js), or it would never run. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const folder = fileURLToPath(new URL('..', import.meta.url));
const suites = JSON.parse(readFileSync(path.join(folder, 'suites.json'), 'utf8')) as Record<
  'unit' | 'loop' | 'campaign' | 'real',
  string[]
>;
const source = (suite: string): string =>
  readFileSync(path.join(folder, `${suite}.test.ts`), 'utf8');

test('each suite stands in one list, and each list names suites that are there', () => {
  const found = (readdirSync(folder, { recursive: true }) as string[])
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) =>
      file
        .split(path.sep)
        .join('/')
        .replace(/\.test\.ts$/, ''),
    );
  expect(Object.values(suites).flat().sort()).toEqual(found.sort());
});

test('a unit starts no process and loads no model', () => {
  const heavy = /node:child_process|run-cli\.js|\b(loadModel|createTrainer)\(/;
  expect(
    suites.unit.filter((suite) => suite !== 'package/suites' && heavy.test(source(suite))),
  ).toEqual([]);
});
