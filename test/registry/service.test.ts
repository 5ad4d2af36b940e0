/**
 * A process that serves from a registry: what it hands out, when it follows, and that a name waits
 * until it has loaded what is to come.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { hashFile } from '../../src/engine/adapter.js';
import type { IsoproError } from '../../src/errors.js';
import type { LogSigner } from '../../src/log/signer.js';
import {
  Registry,
  serveAdapters,
  type AdapterService,
  type ServiceOptions,
} from '../../src/registry/index.js';
import { writeThreeAdapters } from '../models/adapter.js';

interface Loaded {
  readonly id: string;
  unloaded: boolean;
}

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-service-'));
const base = { name: 'tiny.gguf', sha256: 'ba'.repeat(32) };
const slot = { scenario: 'sql' };
const coded = (code: string): never =>
  expect.objectContaining({ name: 'IsoproError', code }) as never;
let registry: Registry;
let ids: string[] = [];
const services: AdapterService<Loaded>[] = [];
const live: Loaded[] = [];
beforeAll(() => writeThreeAdapters(folder));
beforeEach(async () => {
  const place = mkdtempSync(path.join(folder, 'case-'));
  registry = new Registry({
    folder: path.join(place, 'registry'),
    signer: witnessInProcess(place),
  });
  ids = [];
  for (const n of [1, 2, 3])
    ids.push((await registry.publish({ file: path.join(folder, `${n}.gguf`), base })).id);
  await registry.move({ slot, id: ids[0]!, force: true });
  live.length = 0;
});
afterEach(async () => {
  for (const service of services.splice(0)) await service.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** It looks only when a test says so, but where a promotion waits for it. */
async function serve(
  options: Partial<ServiceOptions<Loaded>> = {},
  from = registry,
): Promise<AdapterService<Loaded>> {
  const service = await serveAdapters<Loaded>(from, {
    baseSha256: base.sha256,
    load: async ({ file }) => {
      const loaded = { id: await hashFile(file), unloaded: false };
      live.push(loaded);
      return loaded;
    },
    unload: (loaded) => void (loaded.unloaded = true),
    lookMs: 20,
    ...options,
  });
  services.push(service);
  return service;
}
const current = async (): Promise<string | null> =>
  (await registry.read()).state.aliases[0]!.current;

test('A8: with no path, what it serves is what was promoted last; what is held is not unloaded under a reply', async () => {
  const moved: (string | null)[] = [];
  const service = await serve({
    onMoved: (alias, id) => moved.push(alias === 'sql@champion' ? id : alias),
  });
  expect(service.names()).toEqual(['sql@champion']);
  const first = await service.resolve('sql@champion');
  expect(first).toMatchObject({
    id: ids[0],
    name: `tiny#${ids[0]!.slice(0, 12)}`,
    arm: 'current',
    shadow: 'base',
    fallback: null,
  });
  await registry.move({ slot, id: ids[1]!, force: true });
  await registry.move({ slot, id: ids[2]!, force: true });
  await service.look();
  expect(moved.at(-1)).toBe(ids[2]);
  using second = await service.resolve('sql@champion', 'somebody');
  expect([second.id, second.adapter!.id]).toEqual([
    ids[2],
    await hashFile(path.join(folder, '3.gguf')),
  ]);
  expect([first.adapter!.unloaded, second.adapter!.unloaded]).toEqual([false, false]);
  first.release();
  first.release(); // harmless when repeated
  await service.look();
  expect(first.adapter!.unloaded).toBe(true);
  // what a rollback would put back stays loaded, and is what is served after one
  expect(live.filter(({ unloaded }) => !unloaded)).toHaveLength(2);
  await registry.rollback({ slot });
  await service.look();
  using back = await service.resolve('sql@champion');
  expect(back.id).toBe(ids[1]);
  using byId = await service.resolve(ids[0]!.slice(0, 10));
  expect(byId).toMatchObject({ id: ids[0], shadow: null });
});

test('on probation the share of the keys decides, and each is told what to ask in the shadow', async () => {
  const service = await serve();
  await registry.move({ slot, id: ids[1]!, force: true, probation: { share: 0.5, problems: 10 } });
  await service.look();
  const arms = new Map<string, Set<string>>();
  for (let i = 0; i < 60; i++) {
    using version = await service.resolve('sql@champion', `user-${i % 30}`);
    arms.set(version.arm, (arms.get(version.arm) ?? new Set()).add(`user-${i % 30}`));
    expect(version.id).toBe(version.arm === 'current' ? ids[1] : ids[0]);
    using shadow = await service.resolve(version.shadow!);
    expect(shadow.id).toBe(version.arm === 'current' ? ids[0] : ids[1]);
  }
  expect([...arms.keys()].sort()).toEqual(['current', 'previous']);
  // nobody is in both
  expect([...arms.values()].reduce((sum, keys) => sum + keys.size, 0)).toBe(30);
});

test('a name is moved when every running server has loaded the version; what was asked is gone afterwards', async () => {
  const order: string[] = [];
  const load: ServiceOptions<Loaded>['load'] = async ({ file, id }) => {
    order.push(`loads ${ids.indexOf(id)} while ${ids.indexOf((await current())!)} is in use`);
    return { id: await hashFile(file), unloaded: false };
  };
  await serve({ load });
  await serve({ load, names: ['sql@champion'] });
  await serve({ load, names: ['ladder@champion'] }); // is not asked
  await serve({ load, baseSha256: 'cc'.repeat(32) }); // serves another base
  order.length = 0;
  await registry.move({ slot, id: ids[1]!, force: true });
  expect(order).toEqual(['loads 1 while 0 is in use', 'loads 1 while 0 is in use']);
  expect(await current()).toBe(ids[1]);
  expect(readdirSync(registry.paths.servers).filter((name) => /ask|answer/.test(name))).toEqual([]);
});

test('a server that refuses or does not answer leaves the name where it was, and says why', async () => {
  const service = await serve({
    load: () => Promise.reject(new Error('no memory')),
    names: ['sql@champion'],
  });
  const move = (patienceMs = 30_000): Promise<unknown> =>
    registry.move({ slot, id: ids[1]!, force: true, patienceMs });
  await expect(move()).rejects.toMatchObject({
    code: 'SERVER_NOT_READY',
    message: expect.stringContaining('no memory'),
  });
  await service.close();
  const foreign = await serve({ names: ['sql@champion'], baseSha256: 'cc'.repeat(32) });
  await expect(move()).rejects.toMatchObject({
    code: 'SERVER_NOT_READY',
    message: expect.stringContaining('foreign-base'),
  });
  await foreign.close();
  let begin = false;
  await serve({
    names: ['sql@champion'],
    load: async ({ file }) =>
      begin ? new Promise(() => {}) : { id: await hashFile(file), unloaded: false },
  });
  begin = true;
  await expect(move(300)).rejects.toMatchObject({
    code: 'SERVER_NOT_READY',
    message: expect.stringContaining('within 0.3 s'),
  });
  expect(await current()).toBe(ids[0]);
  expect((await registry.read()).state.aliases[0]!.moves).toBe(1);
  services.length = 0; // the last one never ends what it began
});

test('nothing running: moved at once; a server that ended without a word is not waited for', async () => {
  await registry.move({ slot, id: ids[1]!, force: true, patienceMs: 0 });
  const gone = '0123456789abcdef';
  const service = await serve({ names: [] });
  writeFileSync(
    path.join(registry.paths.servers, `${gone}.json`),
    JSON.stringify({ names: null, baseSha256: null }),
  );
  await registry.move({ slot, id: ids[2]!, force: true, patienceMs: 0 });
  expect(await current()).toBe(ids[2]);
  expect(readdirSync(registry.paths.servers).filter((name) => name.startsWith(gone))).toEqual([]);
  // a question that a killed process left: answered, and taken away when nobody can wait for the
  // answer any more
  const [server] = readdirSync(registry.paths.servers)[0]!.split('.');
  const left = path.join(registry.paths.servers, `${server}.${gone}`);
  writeFileSync(
    `${left}.ask`,
    JSON.stringify({ id: ids[0], alias: 'sql@champion', patienceMs: -60_000 }),
  );
  for (let i = 0; i < 3; i++) await service.look();
  expect(readdirSync(registry.paths.servers).filter((name) => name.includes(gone))).toEqual([]);
  await service.close();
  expect(readdirSync(registry.paths.servers)).toEqual([]);
});

test('A7: a flipped byte is not served, nor what changed while it was loaded; a fallback only where configured', async () => {
  const file = registry.paths.adapter(
    (await registry.read()).state.entries.get(ids[0]!)!.record.adapter.sha256,
  );
  const bytes = readFileSync(file);
  const changed = Buffer.from(bytes);
  changed[100]! ^= 1;
  writeFileSync(file, changed);
  const errors: IsoproError[] = [];
  const service = await serve({ onError: (error) => errors.push(error) });
  expect(errors).toMatchObject([{ code: 'ADAPTER_CORRUPT' }]);
  await expect(service.resolve('sql@champion')).rejects.toThrow(coded('ADAPTER_CORRUPT'));
  await expect(service.resolve('ladder@champion')).rejects.toThrow(coded('REGISTRY_UNRESOLVED'));
  await service.close();
  await expect(service.resolve('sql@champion')).rejects.toThrow(coded('OBJECT_DISPOSED'));

  const { records } = await registry.read();
  const lenient = await serve({ fallback: ids[1]! });
  for (let i = 0; i < 3; i++) {
    using version = await lenient.resolve('sql@champion');
    expect(version).toMatchObject({ id: ids[1], fallback: 'bytes-changed' });
  }
  expect((await registry.read()).records).toBe(records + 1); // once, not once a request
  await lenient.close();

  writeFileSync(file, bytes);
  let disturbed: string | null = null;
  const racing = await serve({
    load: async ({ file: loading }) => ({
      id: disturbed ?? (await hashFile(loading)),
      unloaded: false,
    }),
    names: [],
  });
  disturbed = '00'.repeat(32);
  await expect(racing.resolve('sql@champion')).rejects.toThrow(coded('ADAPTER_CORRUPT'));
  disturbed = null;
  using version = await racing.resolve('sql@champion'); // tried again by the next who asks
  expect(version.id).toBe(ids[0]);
});

test('asked a thousand times it reads the log once; a changed log stops nothing that is loaded, and is reported', async () => {
  let heads = 0;
  const signer = registry.options.signer!;
  const counting: LogSigner = {
    ...signer,
    heads: (runId) => {
      heads++;
      return signer.heads(runId);
    },
    key: (runId) => signer.key(runId),
  };
  const errors: string[] = [];
  const service = await serve(
    { lookMs: 3_600_000, onError: ({ code }) => errors.push(code) },
    new Registry({ folder: registry.paths.folder, signer: counting }),
  );
  const before = heads;
  for (let i = 0; i < 1000; i++) (await service.resolve('sql@champion', String(i))).release();
  await service.look();
  expect(heads).toBe(before);
  writeFileSync(registry.paths.log, 'no database');
  await service.look();
  await service.look();
  expect(errors).toEqual(['LOG_UNREADABLE']);
  using version = await service.resolve('sql@champion');
  expect(version.id).toBe(ids[0]);
});

test('what nobody holds and nothing stands for is unloaded; what is held at the end, when it is released', async () => {
  const service = await serve();
  const other = await service.resolve(ids[2]!);
  const again = await service.resolve(ids[2]!);
  expect(again.adapter).toBe(other.adapter); // loaded once
  other.release();
  await service.look();
  expect(other.adapter!.unloaded).toBe(false);
  again.release();
  await service.look();
  expect(other.adapter!.unloaded).toBe(true);
  const held = await service.resolve('sql@champion');
  const kept = live.filter(({ unloaded }) => !unloaded);
  expect(kept).toEqual([held.adapter]);
  await service.close();
  await service.close(); // harmless when repeated
  expect(held.adapter!.unloaded).toBe(false);
  held.release();
  await new Promise(setImmediate);
  expect(live.every(({ unloaded }) => unloaded)).toBe(true);
  expect(readdirSync(registry.paths.servers)).toEqual([]);
});

test('a fallback stands in, or says why it does not; where it cannot be written down nothing is served or held', async () => {
  const base = await serve({ fallback: 'base', names: [] });
  using instead = await base.resolve('ladder@champion');
  expect(instead).toMatchObject({
    id: null,
    name: null,
    adapter: null,
    arm: 'current',
    shadow: null,
    fallback: 'unknown-alias',
  });
  expect((await registry.read()).events.at(-1)!.event).toMatchObject({
    ...{ kind: 'fell_back', slot: { scenario: 'ladder' }, alias: 'champion', to: null },
    reason: 'ladder@champion: unknown-alias: nothing was ever promoted to ladder@champion',
  });
  const lost = await serve({ fallback: 'sql@shadow', names: [] });
  await expect(lost.resolve('ladder@champion')).rejects.toMatchObject({
    code: 'REGISTRY_UNRESOLVED',
    message:
      'nothing was ever promoted to ladder@champion; the fallback failed too: nothing was ever promoted to sql@shadow',
  });
  const signer = {
    ...registry.options.signer!,
    signHead: () => Promise.reject(new Error('no witness')),
  };
  const silent = await serve(
    { fallback: ids[1]!, names: [] },
    new Registry({ folder: registry.paths.folder, signer }),
  );
  live.length = 0;
  for (let i = 0; i < 2; i++)
    await expect(silent.resolve('ladder@champion')).rejects.toThrow('no witness');
  await new Promise(setImmediate);
  expect(live).toHaveLength(2);
  expect(live.every(({ unloaded }) => unloaded)).toBe(true);
});

test('it looks as often as it is told to, within bounds; one that cannot begin leaves nothing of itself', async () => {
  const alone = (lookMs: number): Promise<unknown> => serve({ lookMs, names: [] });
  for (const lookMs of [0.5, 3_600_001])
    await expect(alone(lookMs)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  expect(readdirSync(registry.paths.servers)).toEqual([]);
  for (const lookMs of [1, 3_600_000]) await alone(lookMs);
  expect(readdirSync(registry.paths.servers).filter((name) => name.endsWith('.json'))).toHaveLength(
    2,
  );
});

test('what goes wrong while it loads is reported as what it is, and tried again', async () => {
  const errors: IsoproError[] = [];
  const moved: unknown[] = [];
  let works = false;
  const load: ServiceOptions<Loaded>['load'] = async ({ file }) => {
    if (!works) throw new TypeError('not this time');
    return { id: await hashFile(file), unloaded: false };
  };
  const service = await serve({
    load,
    lookMs: 3_600_000,
    onError: (error) => errors.push(error),
    onMoved: (...of) => moved.push(of),
  });
  expect(errors.map(({ code, message }) => [code, message])).toEqual([
    ['REGISTRY_UNRESOLVED', 'not this time'],
  ]);
  works = true;
  await registry.move({ slot, alias: 'shadow', id: ids[1]!, patienceMs: 0 }).catch(() => undefined);
  await service.look();
  using version = await service.resolve('sql@champion');
  expect(version.id).toBe(ids[0]);
  expect(service.reading.state.entries.size).toBe(3);
  // it stands for what it stood for
  expect(moved.every((of) => (of as unknown[])[0] !== 'sql@champion')).toBe(true);
});
