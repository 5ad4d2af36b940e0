/**
 * Nothing that a user could name is lost: commands with their flags, routes and kinds of job with
 * their members, error codes, exported names. surfaces.json has what there was; what went is in
 * GONE with its reason, which CHANGELOG.md tells too.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { closeAll, send, start } from '../models/server.js';

type Lists = Readonly<Record<string, readonly string[]>>;
interface Surfaces {
  readonly commands: Lists;
  readonly routes: Lists;
  readonly jobs: Lists;
  readonly errors: readonly string[];
  readonly exports: readonly string[];
}

/** `surface: name` or `surface: name: member`, with why it went. */
const GONE: Readonly<Record<string, string>> = {
  'jobs: ablate: settings':
    'the settings of the runs are members of the job itself; the earlier form is still read',
};

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-surfaces-'));
afterAll(async () => {
  await closeAll();
  rmSync(folder, { recursive: true, force: true });
});

test('no command, flag, route, member, error code or export is lost', async () => {
  const { surfaces } = (await import(path.resolve('test/package/surfaces.mjs'))) as {
    surfaces: (dist: string, openapi: unknown) => Promise<Surfaces>;
  };
  const jobs = { runs: folder, models: [], tasks: [], atOnce: 1 };
  const server = await start({ jobs, runs: folder });
  const now = await surfaces(path.resolve('dist'), (await send(server, '/openapi.json')).body);
  const before = JSON.parse(readFileSync('test/package/surfaces.json', 'utf8')) as Surfaces;
  const missing: string[] = [];
  const look = (what: string, was: readonly string[], is: readonly string[] = []): void => {
    for (const name of was) if (!is.includes(name)) missing.push(`${what}: ${name}`);
  };
  for (const what of ['errors', 'exports'] as const) look(what, before[what], now[what]);
  for (const what of ['commands', 'routes', 'jobs'] as const)
    for (const [name, members] of Object.entries(before[what])) {
      look(what, [name], Object.keys(now[what]));
      look(`${what}: ${name}`, members, now[what][name]);
    }
  expect(missing.sort()).toEqual(Object.keys(GONE).sort());
});
