/**
 * A server started with a registry: its names answer, and follow what is promoted, which waits
 * until the server has loaded the version.
 */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { ModelHost, type HostedModel } from '../../src/index.js';
import { Registry } from '../../src/registry/index.js';
import type { Server } from '../../src/server/server.js';
import {
  adapterFile,
  asAdmin,
  file,
  folder,
  reported,
  send,
  start,
  UNDISTURBED,
} from '../models/server.js';

const files = [adapterFile('one', 21n), adapterFile('two', 22n)];
const slot = { scenario: 'sql' };
let registry: Registry;
let host: ModelHost;
let direct: HostedModel;
let ids: string[];
let server: Server;
beforeAll(async () => {
  host = new ModelHost();
  direct = await host.load(file, { ...UNDISTURBED, contextTokens: 4096 });
  registry = new Registry({
    folder: path.join(folder, 'registry'),
    signer: witnessInProcess(folder),
  });
  const base = { name: 'base.gguf', sha256: await direct.hash() };
  ids = [];
  for (const each of files) ids.push((await registry.publish({ file: each, base })).id);
  await registry.move({ slot, id: ids[0]!, force: true });
  server = await start({ registry });
});
afterAll(async () => {
  await server.close(0);
  await host.dispose();
  expect(reported).toEqual([]);
});

const messages = [{ role: 'user' as const, content: 'Name a river.' }];
const answer = async (
  model: string,
  more = {},
): Promise<{ content: string; fingerprint: string }> => {
  const { body } = await send(server, '/v1/chat/completions', {
    body: { model, messages, max_tokens: 12, seed: 5, ...more },
  });
  return { content: body.choices[0].message.content, fingerprint: body.system_fingerprint };
};
const expected = async (adapter: string): Promise<string> => {
  const loaded = await direct.loadAdapter(adapter);
  const { text } = await direct.generate({
    messages,
    maxTokens: 12,
    sampling: { seed: 5 },
    id: '0',
    adapter: loaded,
  });
  await loaded.dispose();
  return text;
};

test('a name answers with what it stands for; ids answer too; the list has the names with their ids', async () => {
  expect((await answer('sql@champion')).content).toBe(await expected(files[0]!));
  expect((await answer(ids[1]!.slice(0, 12))).content).toBe(await expected(files[1]!));
  const { body } = await send(server, '/v1/models');
  expect(body.data.map(({ id, root, parent }: never) => [id, root, parent])).toEqual([
    ['base', 'base', null],
    ['sql@champion', ids[0], 'base'],
  ]);
  expect((await send(server, '/v1/models/sql%40champion')).body.root).toBe(ids[0]);
});

test('a promotion waits for the server, which answers with the new version from the next request on', async () => {
  const before = await answer('sql@champion');
  await registry.move({ slot, id: ids[1]!, force: true });
  for (let after = before; after.content === before.content; ) after = await answer('sql@champion');
  expect((await answer('sql@champion')).content).toBe(await expected(files[1]!));
  await registry.rollback({ slot });
  while ((await answer('sql@champion')).content !== before.content);
});

test('on probation a user keeps one version, and the fingerprint says which', async () => {
  await registry.move({
    slot,
    id: ids[1]!,
    force: true,
    probation: { share: 0.5, problems: 1000 },
  });
  const seen = async (): Promise<string[]> => {
    const all = [];
    for (let i = 0; i < 16; i++)
      all.push((await answer('sql@champion', { user: `user-${i}`, max_tokens: 1 })).fingerprint);
    return all;
  };
  while (new Set(await seen()).size < 2); // until the server has seen the log
  const first = await seen();
  expect(new Set(first).size).toBe(2);
  expect(await seen()).toEqual(first);
});

test('a version under which no request could be answered is refused by the server, and the name stays where it is', async () => {
  const overflowing = adapterFile('overflowing', 23n, { magnitude: 1e30 });
  const { id } = await registry.publish({
    file: overflowing,
    base: { name: 'base.gguf', sha256: await direct.hash() },
  });
  const other = { scenario: 'extract' };
  await registry.move({ slot: other, id: ids[0]!, force: true });
  await expect(registry.move({ slot: other, id, force: true })).rejects.toMatchObject({
    code: 'SERVER_NOT_READY',
    message: expect.stringContaining('not finite'),
  });
  expect((await answer('extract@champion')).content).toBe(await expected(files[0]!));
});

test('a name that is none is 404, and says why', async () => {
  const asked = { body: { model: 'sql@shadow', messages } };
  const { status, body } = await send(server, '/v1/chat/completions', asked);
  expect([status, body.error.code, body.error.param]).toEqual([404, 'model_not_found', 'model']);
  expect(body.error.message).toContain('nothing was ever promoted to sql@shadow');
});

test('names stay what they were where the registry is damaged, and then gone, under the server', async () => {
  const own = path.join(folder, 'damaged');
  const damaged = new Registry({ folder: own, signer: witnessInProcess(folder) });
  const { id } = await damaged.publish({
    file: files[0]!,
    base: { name: 'base.gguf', sha256: await direct.hash() },
  });
  await damaged.move({ slot, id, force: true });
  const serving = await start({ registry: damaged });
  const ask = async (): Promise<string> => {
    const asked = { body: { model: 'sql@champion', messages, max_tokens: 12, seed: 5 } };
    return (await send(serving, '/v1/chat/completions', asked)).body.choices[0].message.content;
  };
  const refused = async (): Promise<unknown[]> => {
    const { status, body } = await send(serving, '/api/adapters', { headers: asAdmin });
    return [status, body.error.code];
  };
  const before = await ask();
  expect(before).toBe(await expected(files[0]!));
  for (const journal of ['log.sqlite-wal', 'log.sqlite-shm'])
    rmSync(path.join(own, journal), { force: true });
  writeFileSync(
    path.join(own, 'log.sqlite'),
    'no database, but long enough to be read as one'.repeat(20),
  );
  while (reported.length < 1) await ask();
  expect(await refused()).toEqual([409, 'log_unreadable']);
  expect(await ask()).toBe(before);
  rmSync(own, { recursive: true });
  while (reported.length < 2) await ask();
  expect(await refused()).toEqual([404, 'registry_not_found']);
  expect(await ask()).toBe(before);
  await serving.close(0);
  // each once, however often it is looked for
  expect(reported.splice(0).map((error) => (error as { code: string }).code)).toEqual([
    'LOG_UNREADABLE',
    'REGISTRY_NOT_FOUND',
  ]);
});
