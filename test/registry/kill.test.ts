/**
 * A7: a registry that is killed between any two writes has exactly one champion, one of the two
 * that it may be; of two that promote at once one wins.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { IsoproError } from '../../src/errors.js';
import { Registry, repairRegistry, validateRegistry } from '../../src/registry/index.js';
import { writeThreeAdapters } from '../models/adapter.js';

const KILLS = process.env.ISOPRO_FULL === '1' ? 200 : 8;
/**
 * Kills of one registry: what was signed is checked again by every call, so a long life makes a
 * long test.
 */
const LIFE = 25;
/** Each ends a gap between two writes of a move. */
const GAPS = ['log.records', 'witness.head', 'log.head', 'file.temporary'];
const mover = fileURLToPath(new URL('./mover.mjs', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-registry-kill-'));
const home = path.join(folder, 'home');
const base = { name: 'tiny.gguf', sha256: 'ba'.repeat(32) };
const slot = { scenario: 'sql' };
beforeAll(() => {
  mkdirSync(home);
  writeThreeAdapters(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test(`SIGKILL ${KILLS} times: one champion, the one that was said to be done or the one under way; what is left is put right`, async () => {
  let place = '';
  let registry = new Registry({ folder: place, home });
  const at = new Set<string>();
  /** What was acknowledged last, and what was under way. */
  let done: string | null = null;
  for (let kill = 0; kill < KILLS; kill++) {
    if (kill % LIFE === 0) {
      place = path.join(folder, `killed-${kill}`);
      registry = new Registry({ folder: place, home, signer: witnessInProcess(home) });
      done = null;
    }
    // the first kills walk through the making of a registry, later ones through every gap of moves
    // and rollbacks
    const states =
      kill % LIFE < 4
        ? 1 + 3 * (kill % LIFE)
        : `${GAPS[kill % GAPS.length]}:${1 + (Math.floor(kill / GAPS.length) % 10)}`;
    const child = spawnSync(
      process.execPath,
      [mover, 'move', place, home, folder, String(states)],
      { encoding: 'utf8' },
    );
    expect([child.signal, child.stderr]).toEqual(['SIGKILL', '']);
    let next: string | null = done;
    for (const line of child.stdout.split('\n')) {
      const [word, what] = line.split(' ');
      if (word === 'next') next = what!;
      if (word === 'done') done = next = what!;
      if (word === 'killed') at.add(what!);
    }
    let state: Awaited<ReturnType<Registry['read']>>['state'];
    try {
      ({ state } = await registry.read());
    } catch (error) {
      expect([(error as IsoproError).code, done]).toEqual(['REGISTRY_NOT_FOUND', null]);
      continue;
    }
    const champions = state.aliases.filter(({ alias }) => alias === 'champion');
    expect(champions.length).toBeLessThanOrEqual(1);
    expect([done, next]).toContain(champions[0]?.current ?? null);
    const { defects } = await validateRegistry(registry);
    expect(defects.filter(({ repairable }) => !repairable)).toEqual([]);
    if (kill % 3 === 0) {
      await repairRegistry(registry);
      expect((await validateRegistry(registry)).defects).toEqual([]);
      expect([done, next]).toContain((await registry.read()).state.aliases[0]?.current ?? null);
    }
    done = (await registry.read()).state.aliases[0]?.current ?? null;
    // a move that a head does not cover yet counts from the next write on
    done = await registry.write(async ({ reading }) => reading.state.aliases[0]?.current ?? null);
    expect(
      next === null ? [null] : [next, (await registry.read()).state.aliases[0]?.current ?? null],
    ).toContain(done);
  }
  expect([...at]).toEqual(expect.arrayContaining(GAPS));
}, 1_800_000);

test('two processes that promote at once: one wins, the other gets CONFLICT', async () => {
  const place = path.join(folder, 'raced');
  const registry = new Registry({ folder: place, home, signer: witnessInProcess(home) });
  const ids: string[] = [];
  for (const n of [1, 2, 3])
    ids.push((await registry.publish({ file: path.join(folder, `${n}.gguf`), base })).id);
  await registry.move({ slot, id: ids[0]!, force: true });
  const racers = ids.slice(1).map((id) =>
    spawn(process.execPath, [mover, 'race', place, home, folder, id], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  );
  const said = racers.map(() => '');
  const ready = racers.map(
    (child, i) =>
      new Promise<void>((resolve) =>
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          said[i] += text;
          if (said[i]!.startsWith('ready\n')) resolve();
        }),
      ),
  );
  const ended = racers.map((child) => new Promise((resolve) => child.on('close', resolve)));
  await Promise.all(ready); // both have seen the first one
  for (const child of racers) child.stdin.end('go\n');
  await Promise.all(ended);
  expect(said.map((text) => text.split('\n')[1]).sort()).toEqual(['CONFLICT', 'moved']);
  const winner = said.findIndex((text) => text.includes('moved'));
  expect((await registry.read()).state.aliases[0]!.current).toBe(ids[winner + 1]);
});

const disk = path.join(folder, 'disk');
mkdirSync(disk);
const mounted =
  process.platform === 'linux' &&
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]).status === 0;
if (!mounted)
  console.warn('skipped: a file system of 2 MB cannot be mounted here (that needs root on Linux)');

(mounted ? describe : describe.skip)('on a file system that is full', () => {
  afterAll(() => void spawnSync('umount', [disk]));

  test('whatever is written fails by name, and nothing is lost', async () => {
    const registry = new Registry({
      folder: path.join(disk, 'registry'),
      home,
      signer: witnessInProcess(home),
    });
    const { id } = await registry.publish({ file: path.join(folder, '1.gguf'), base });
    await registry.move({ slot, id, force: true });
    const before = await registry.read();
    for (const leave of [0, 4096, 16_384, 65_536]) {
      const { bavail, bsize } = statfsSync(disk);
      writeFileSync(path.join(disk, 'filler'), Buffer.alloc(Math.max(0, bavail * bsize - leave)));
      const outcomes = await Promise.allSettled([
        registry.publish({ file: path.join(folder, '2.gguf'), base }),
        registry.rollback({ slot }),
      ]);
      for (const each of outcomes) {
        if (each.status === 'fulfilled') continue;
        expect(each.reason).toBeInstanceOf(IsoproError);
        expect(['WRITE_FAILED', 'LOG_WRITE_FAILED']).toContain((each.reason as IsoproError).code);
      }
      rmSync(path.join(disk, 'filler'));
      const current = (await registry.read()).state.aliases[0]!.current;
      if (leave === 0)
        expect([...outcomes.map(({ status }) => status), current]).toEqual([
          'rejected',
          'rejected',
          id,
        ]);
      else expect([id, null]).toContain(current);
      if (current === null) break; // there was room enough
    }
    await repairRegistry(registry);
    expect((await validateRegistry(registry)).defects).toEqual([]);
    expect((await registry.read()).records).toBeGreaterThanOrEqual(before.records);
    await registry.publish({ file: path.join(folder, '2.gguf'), base });
    expect(
      readdirSync(registry.paths.adapters).filter((name) => name.endsWith('.partial')),
    ).toEqual([]);
  });
});
