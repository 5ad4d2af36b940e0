/**
 * The README's commands and snippets, run as they stand there. The alias they name resolves to a synthetic model that
 * already lies in the cache, so that nothing is downloaded.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, test } from '@jest/globals';
import { modelsFolder } from '../../src/engine/model-files.js';
import { locateRemote } from '../../src/engine/model-location.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/^```(\w+)( run)?\n([^]*?)^```$/gm)].map(([, language, run, code]) => ({
  language,
  run: run !== undefined,
  code: code!.trim(),
}));

const home = mkdtempSync(path.join(tmpdir(), 'isopro-readme-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));
const env = { ...process.env, ISOPRO_HOME: home };

function placeModel(alias: string): void {
  process.env.ISOPRO_HOME = home;
  const located = locateRemote(alias) as { path: string };
  expect(located.path.startsWith(modelsFolder())).toBe(true);
  mkdirSync(path.dirname(located.path), { recursive: true });
  writeSyntheticModel(located.path, { architecture: 'qwen2', type: 'Q8_0', seed: 1n });
}

test('the install and test commands are the ones that .ci/run uses', () => {
  const shell = blocks.filter(({ language, run }) => language === 'sh' && !run).map(({ code }) => code);
  expect(shell).toEqual(['npm install', 'npx isopro-native run', 'npm test']);
  const ci = readFileSync(path.join(root, '.ci', 'run'), 'utf8');
  expect(ci).toMatch(/^\s*npm (ci|install)\b/m);
  expect(ci).toMatch(/\bnpm test\b/);
});

test('the loop knows what it would take, without a download', async () => {
  const { stdout } = await promisify(execFile)('bash', ['-c', 'npx isopro-native run --dry-run'], { cwd: root, env });
  expect(stdout).toMatch(/^predicted: [\d.]+ minutes/m);
}, 120_000);

test('the run command answers as it says', async () => {
  placeModel('qwen2.5-0.5b');
  const commands = blocks.filter(({ language, run }) => language === 'sh' && run);
  expect(commands).toHaveLength(1);
  const { stdout } = await promisify(execFile)('bash', ['-c', commands[0]!.code], { cwd: root, env });
  const rollouts = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { sampleIndex: number; tokenIds: number[] });
  expect(rollouts.map(({ sampleIndex }) => sampleIndex).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(Math.max(...rollouts.map(({ tokenIds }) => tokenIds.length))).toBeLessThanOrEqual(64);
});

test('the library example runs, has ten lines, and prints every answer', async () => {
  placeModel('qwen2.5-0.5b');
  const snippets = blocks.filter(({ language, run }) => language === 'js' && run);
  expect(snippets).toHaveLength(1);
  expect(snippets[0]!.code.split('\n').length).toBeLessThanOrEqual(10);
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', snippets[0]!.code], { cwd: root, env });
  expect(stdout.match(/^[01] (stop|length) /gm)).toHaveLength(8);
});
