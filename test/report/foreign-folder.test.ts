/** A run folder may come from a stranger: nothing outside of it is written or made, whatever in it is a link, by any command that is given it. */
import { hash } from 'node:crypto';
import { cpSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { writeFileAtomically } from '../../src/engine/atomic-file.js';
import { runCli } from '../cli/run-cli.js';
import { writeRunFolder } from '../models/run-folder.js';

let root: string;
const at = (name: string): string => path.join(root, name);
const cli = (...args: string[]): ReturnType<typeof runCli> => runCli(args, { ISOPRO_HOME: at('home'), NO_COLOR: '1' });

beforeAll(async () => {
  root = mkdtempSync(path.join(tmpdir(), 'isopro-foreign-'));
  await writeRunFolder({ folder: at('run'), home: at('home'), runId: 'ab'.repeat(16), rollouts: 4, skill: 0.5 });
}, 120_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** The user's own files, by name: what they hold. */
const own = (): Record<string, string> =>
  Object.fromEntries(readdirSync(at('own')).map((name) => [name, hash('sha256', readFileSync(at(`own/${name}`)))]));

beforeEach(() => {
  for (const name of ['own', 'strangers']) rmSync(at(name), { recursive: true, force: true });
  mkdirSync(at('own'));
  writeFileSync(at('own/thesis.txt'), 'three years of work\n');
  writeFileSync(at('own/empty'), '');
  const database = new Database(at('own/mail.sqlite'));
  database.exec('CREATE TABLE mail (text TEXT); INSERT INTO mail VALUES (1)');
  database.close();
  cpSync(at('run'), at('strangers'), { recursive: true });
});

const COMMANDS = [
  ['judge', '--held-out', 'none'],
  ['report'],
  ['runs', 'show'],
  ['log', 'verify'],
  ['log', 'show'],
  ['run', '--out'],
] as const;

const FULL = process.env.ISOPRO_FULL === '1';
const NAMES = ['report.html', 'lock.sqlite', 'log.sqlite-wal', 'judge-trace.json', 'log.sqlite-shm', 'log.sqlite-journal', 'manifest.json'];
const TARGETS = ['own/thesis.txt', 'own/empty', 'own/mail.sqlite', 'own/new.txt'];

describe('links in the folder of a stranger', () => {
  test.each(NAMES.map((name, i) => [name, FULL ? TARGETS : [TARGETS[i % TARGETS.length]!]] as const))(
    '%s: what it leads to stays as it is',
    async (name, targets) => {
      for (const target of targets) {
        rmSync(at(`strangers/${name}`), { force: true });
        symlinkSync(path.join('..', target), at(`strangers/${name}`));
        const before = own();
        await Promise.all(COMMANDS.map(([command, ...rest]) => cli(command, ...rest, at('strangers'))));
        expect([target, own()]).toEqual([target, before]);
      }
    },
    240_000,
  );
});

describe('a file of the product', () => {
  test('takes the place of a link; a file that the user names is written where the link leads', async () => {
    for (const [target, link] of [
      ['own/thesis.txt', 'strangers/a'],
      ['own/new.txt', 'strangers/b'],
    ] as const) {
      symlinkSync(at(target), at(link));
      const before = own();
      await writeFileAtomically(at(link), [Buffer.from('product')]);
      expect(own()).toEqual(before);
      expect(lstatSync(at(link)).isFile()).toBe(true);
    }
    symlinkSync(at('own/thesis.txt'), at('strangers/c'));
    await writeFileAtomically(at('strangers/c'), [Buffer.from('named')], 'follow');
    expect(lstatSync(at('strangers/c')).isSymbolicLink()).toBe(true);
    expect(readFileSync(at('own/thesis.txt'), 'utf8')).toBe('named');
  });

  test('leaves no temporary file, and follows none that was put there', async () => {
    for (let i = 0; i < 20; i++) symlinkSync(at('own/thesis.txt'), at(`strangers/x.json.${process.pid}.${i}.partial`));
    const before = own();
    await writeFileAtomically(at('strangers/x.json'), [Buffer.from('{}')]);
    expect(own()).toEqual(before);
    expect(readFileSync(at('strangers/x.json'), 'utf8')).toBe('{}');
  });
});
