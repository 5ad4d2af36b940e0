/**
 * A run folder may come from a stranger: whatever in it is a link, no command that is given it
 * writes anything outside of it.
 */
import { hash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { writeFileAtomically } from '../../src/engine/atomic-file.js';
import { openRunTask } from '../../src/judge/held-out.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { runLines, runLinesMeanwhile, type CliResult } from '../cli/run-cli.js';
import { writeRunFolder } from '../models/run-folder.js';

let root: string;
const at = (name: string): string => path.join(root, name);

beforeAll(async () => {
  root = mkdtempSync(path.join(tmpdir(), 'isopro-foreign-'));
  await writeRunFolder({
    folder: at('run'),
    home: at('home'),
    runId: 'ab'.repeat(16),
    rollouts: 4,
    skill: 0.5,
  });
}, 120_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** The user's own files, by name: what they hold. */
const own = (): Record<string, string> =>
  Object.fromEntries(
    readdirSync(at('own')).map((name) => [name, hash('sha256', readFileSync(at(`own/${name}`)))]),
  );

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
const NAMES = [
  'report.html',
  'lock.sqlite',
  'log.sqlite-wal',
  'judge-trace.json',
  'log.sqlite-shm',
  'log.sqlite-journal',
  'manifest.json',
];
const TARGETS = ['own/thesis.txt', 'own/empty', 'own/mail.sqlite', 'own/new.txt'];

describe('links in the folder of a stranger', () => {
  test.each(
    NAMES.map((name, i) => [name, FULL ? TARGETS : [TARGETS[i % TARGETS.length]!]] as const),
  )(
    '%s: what it leads to stays as it is',
    (name, targets) => {
      for (const target of targets) {
        // a folder for each command: what one has put in the place of the link is no other's link
        const lines = COMMANDS.map(([command, ...rest]) => {
          const folder = at(`strangers-${command}-${rest[0] ?? ''}`);
          rmSync(folder, { recursive: true, force: true });
          cpSync(at('run'), folder, { recursive: true });
          rmSync(path.join(folder, name), { force: true });
          symlinkSync(path.join('..', target), path.join(folder, name));
          return [command, ...rest, folder];
        });
        const before = own();
        runLines(lines, undefined, { ISOPRO_HOME: at('home'), NO_COLOR: '1' });
        expect([target, own()]).toEqual([target, before]);
      }
    },
    240_000,
  );
});

/** A copy of the run whose manifest says something else of it. */
function claiming(
  folder: string,
  change: (start: { model: { name: string }; task: { id: string; file: string | null } }) => void,
): string {
  cpSync(at('run'), folder, { recursive: true });
  const file = path.join(folder, 'manifest.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as {
    start: Parameters<typeof change>[0];
  };
  change(manifest.start);
  writeFileSync(file, JSON.stringify(manifest));
  return folder;
}

describe('names of models in the folder of a stranger', () => {
  const MODELS = [
    'smollm2-135m',
    'hf:someone/something:Q8_0',
    'hf:someone/something/m.gguf#branch',
    'HTTP://HOST/m.gguf',
    'http://HOST/a-00001-of-00002.gguf?x=1',
    '//HOST/share/m.gguf',
  ];
  const asked: string[] = [];
  const ofModels = new Map<string, CliResult[]>();
  beforeAll(async () => {
    const server = createServer((request, response) => {
      asked.push(String(request.url));
      response.end('GGUF');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const lines = MODELS.map((name, i) => {
      const folder = claiming(
        at(`model-${i}`),
        ({ model }) => (model.name = name.replace('HOST', host)),
      );
      return [
        ['generate', '--adapter', folder, '--prompt', 'x'],
        ['chat', '--adapter', folder],
        ['eval', '--adapter', folder, '--per-tier', '1'],
        ['adapters', 'use', folder, '--for', 'ollama', '--out', at('out')],
      ];
    });
    const env = { ISOPRO_HOME: at('empty-home'), HF_ENDPOINT: `http://${host}/` };
    const said = await runLinesMeanwhile(lines.flat(), undefined, env);
    for (const [i, name] of MODELS.entries()) ofModels.set(name, said.slice(4 * i, 4 * i + 4));
    server.close();
  }, 120_000);
  test.each(MODELS)('the model %s is looked up here, and no server is asked', (name) => {
    expect(ofModels.get(name)).toHaveLength(4);
    for (const { code, stderr } of ofModels.get(name)!) {
      expect(stderr).toMatch(
        /^error MODEL_NOT_FOUND: the folder refers to the model .*, which is not on this machine/,
      );
      expect(stderr.replaceAll(/\s+/g, ' ')).toContain('pass it with --model');
      expect(code).toBe(1);
    }
    expect(asked).toEqual([]);
  });
});

describe('names of tasks in the folder of a stranger', () => {
  const TASKS = [
    'evil.mjs',
    './evil.mjs',
    'python:evil.py',
    '/tmp/evil.js',
    'a/b',
    '..',
    'rows.jsonl',
  ];
  const RAN = 'ran-of-a-stranger';
  const ofTasks = new Map<string, CliResult[]>();
  const nameOf = (id: string): string => id.replace('/tmp/', `${at('task-here')}/`);
  beforeAll(() => {
    // programs by these names, in each of the folders and in the one where the commands run
    const folders = TASKS.map((id, i) =>
      claiming(at(`task-${i}`), ({ task }) => ([task.id, task.file] = [nameOf(id), null])),
    );
    mkdirSync(at('task-here'));
    for (const folder of [at('task-here'), ...folders]) {
      const program = `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(at(RAN))}, '');`;
      for (const name of ['evil.mjs', 'evil.js']) writeFileSync(path.join(folder, name), program);
      writeFileSync(path.join(folder, 'evil.py'), `open(${JSON.stringify(at(RAN))}, 'w')`);
    }
    const lines = folders.map((folder) => [
      ['judge', folder],
      ['adapters', 'use', '--for', 'ollama', '--out', at('out'), folder],
      ['chat', '--adapter', folder],
    ]);
    const said = runLines(lines.flat(), at('task-here'), { ISOPRO_HOME: at('home') });
    for (const [i, id] of TASKS.entries()) ofTasks.set(id, said.slice(3 * i, 3 * i + 3));
  }, 120_000);
  test.each(TASKS)('a built-in task called %s is none: nothing of that name is run', async (id) => {
    const [judged, ...others] = ofTasks.get(id)!;
    expect([judged!.code, others.length]).toEqual([4, 2]);
    for (const { stderr } of others) expect(stderr).toMatch(/^error RUN_MANIFEST_INVALID: /);
    const { start } = readManifest(at('run'));
    expect(
      await openRunTask(
        { ...start, task: { ...start.task, id: nameOf(id), file: null } },
        undefined,
      ),
    ).toMatchObject({
      task: null,
      reason: expect.stringContaining('this version has no built-in task') as never,
    });
    expect(existsSync(at(RAN))).toBe(false);
  });
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
    for (let i = 0; i < 20; i++)
      symlinkSync(at('own/thesis.txt'), at(`strangers/x.json.${process.pid}.${i}.partial`));
    const before = own();
    await writeFileAtomically(at('strangers/x.json'), [Buffer.from('{}')]);
    expect(own()).toEqual(before);
    expect(readFileSync(at('strangers/x.json'), 'utf8')).toBe('{}');
  });
});
