/**
 * `generate` and `chat` with `--task`: a prompt stands behind what stood before the questions of
 * the adapter's run.
 */
import { copyFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { askedBehind, sentByClients } from '../../src/cli/adapter-notes.js';
import { asTrained, asTrainedHere } from '../../src/cli/training-prompt.js';
import type { RunManifest } from '../../src/run-folder/manifest.js';
import { shellWord } from '../../src/shell-word.js';
import { openTask } from '../../src/tasks/open-task.js';
import { temporaryFolder } from '../models/signed-log.js';

const folder = temporaryFolder();
const file = path.join(folder.path, 'rows.csv');
afterAll(() => folder.remove());

test('the system message and the examples of the run, without a question; of other rows it is refused', async () => {
  const rows = (answer: string) =>
    Array.from({ length: 40 }, (_, i) => `what is item ${i}?,${answer}${i % 2}`);
  writeFileSync(file, `prompt,answer\n${rows('a').join('\n')}\n`);
  const asking = { system: 'Be brief.', examples: 2 };
  await using task = await openTask(file, { check: 'exact', ...asking });
  const sha256 = task.source.kind === 'file' ? task.source.sha256 : null;
  const start = {
    settings: { check: 'exact', sampling: asking },
    task: { id: task.id, version: task.version, file: sha256 },
    evaluation: { style: 'plain' },
  };
  const found = { run: { folder: 'run', manifest: { start } as unknown as RunManifest } };
  // what prints them is named whole; the file is not in this folder
  expect(askedBehind(found, sentByClients(found))).toBe(
    'The adapter was trained with a system message and 2 solved examples before every question; without them its answers differ. ' +
      'Clients must send them; `npx isopro-native tasks generate --task TASK --check exact ' +
      `--system ${shellWord('Be brief.')} --examples 2 --style plain --json\` prints them (TASK: the file of rows).`,
  );
  const named = { file: 'adapter.gguf', ...found };
  expect(await asTrainedHere(named)).toBeNull();
  const before = await asTrained(found, file);
  const elsewhere = process.cwd();
  process.chdir(folder.path);
  expect(await asTrainedHere(named)).toEqual(before);
  process.chdir(elsewhere);
  expect(before.map(({ role }) => role)).toEqual([
    'system',
    'user',
    'assistant',
    'user',
    'assistant',
  ]);
  const problem = await task.generate(task.tiers[0]!.id, 7n);
  const whole = await task.prompt(problem, 'plain');
  expect(whole.slice(0, -1)).toEqual(before);
  // what the file is called is no part of the task
  copyFileSync(file, path.join(folder.path, 'clean.csv'));
  expect(await asTrained(found, path.join(folder.path, 'clean.csv'))).toEqual(before);
  await expect(asTrained({ run: null }, file)).rejects.toThrow('--task needs the adapter of a run');
  writeFileSync(file, `prompt,answer\n${rows('b').join('\n')}\n`);
  await expect(asTrained(found, file)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('SHA-256'),
  });
});
