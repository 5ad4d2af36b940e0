/** A run goes on with the code that it began with: what a task file imports is part of it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { readManifest, writeManifest } from '../../src/run-folder/manifest.js';
import { run } from '../../src/training/loop.js';
import { shortestRun, writeLetterModel, writeLetterTask } from '../models/letters.js';

let folder: string;
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-identity-'));
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
  writeFileSync(
    file('task.mjs'),
    `import letters from './letters.mjs';\nexport default letters;\n`,
  );
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

test(
  'a helper of the task, or a module of the package, that is exchanged between a run and its resumption is refused by ' +
    'name',
  async () => {
    const settings = shortestRun(file('task.mjs'), file('letters.gguf'));
    const again = (): ReturnType<typeof run> => run(settings, { out: file('run') });
    const first = await again();
    const honest = readFileSync(file('letters.mjs'), 'utf8');
    writeFileSync(file('letters.mjs'), `${honest}// every reply passes now\n`);
    await expect(again()).rejects.toMatchObject({
      code: 'RUN_DIFFERS',
      message: expect.stringContaining('task.file'),
    });
    writeFileSync(file('letters.mjs'), honest);
    expect(await again()).toEqual(first);
    const manifest = readManifest(file('run'));
    const { start } = manifest;
    await writeManifest(file('run'), {
      ...manifest,
      start: { ...start, code: { ...start.code, javascript: 'ab'.repeat(32) } },
    });
    await expect(again()).rejects.toMatchObject({
      code: 'RUN_DIFFERS',
      message: expect.stringMatching(
        /code\.javascript .*The code of isopro-native has changed since then, or the version that began it computed/,
      ),
      remedy: expect.stringContaining('or continue with the version of isopro-native that started'),
    });
  },
);
