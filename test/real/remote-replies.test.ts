/**
 * Greedy replies of a language model over this project's own server, in OpenAI's dialect, against
 * those of the same model here: with `deterministic` every text is the same; without it the texts
 * that part are counted and reported.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCli } from '../cli/run-cli.js';
import { ServeProcess } from '../models/serve-process.js';
import { REAL_MODEL } from './real-model.js';

/** Of five tiers each; in full 100 texts of the two tasks. */
const PER_TIER = process.env.ISOPRO_FULL === '1' ? '10' : '1';

let folder: string;
let server: ServeProcess;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-remote-replies-'));
  env = { ISOPRO_HOME: path.join(folder, 'home') };
  server = await ServeProcess.start(REAL_MODEL, 'served', { ...process.env, ...env });
}, 120_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

async function textsOf(task: string, name: string, flags: readonly string[]): Promise<string[]> {
  const out = path.join(folder, `${task}-${name}.jsonl`);
  const { code, stderr } = await runCli(
    [
      ...['eval', '--task', task, '--set', 'dev', '--per-tier', PER_TIER, '--max-tokens', '96'],
      ...['--style', 'plain', '--json', '--out', out, ...flags],
    ],
    env,
  );
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
  return readFileSync(out, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: string; text: string; finish: string })
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, text, finish }) => JSON.stringify([id, text, finish]));
}

test.each(['extract', 'sql'])(
  '%s: the texts over `serve` are those of the model here',
  async (task) => {
    const backend = ['--backend', `${server.url}#served`];
    const here = await textsOf(task, 'here', ['--model', REAL_MODEL, '--threads', '1']);
    const there = await textsOf(task, 'there', [
      ...backend,
      ...['--request-body', '{"deterministic": true}'],
    ]);
    expect(there).toEqual(here);
    const company = await textsOf(task, 'company', backend);
    const parted = company.filter((text, i) => text !== here[i]).length;
    console.info(`${task}: ${parted} of ${here.length} texts part in company`);
  },
  3_600_000,
);
