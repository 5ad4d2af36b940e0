/** What the hash of a run's code covers, held against the built modules. */
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { coveredModules, hashModules } from '../../src/run-folder/code-hash.js';
import { CODE, codeVersion } from '../../src/run-folder/machine.js';
import { temporaryFolder } from '../models/signed-log.js';

const BUILT = path.resolve('dist/src');
const folder = temporaryFolder();
afterAll(folder.remove);
const built = (readdirSync(BUILT, { recursive: true, encoding: 'utf8' }) as string[])
  .map((file) => file.replaceAll(path.sep, '/'))
  .filter((file) => file.endsWith('.js'));
const run = coveredModules(BUILT, CODE.run);
const beliefs = coveredModules(BUILT, CODE.beliefs);
const rooms = (modules: ReadonlyMap<string, unknown>): string[] => [
  ...new Set(
    [...modules.keys()].map((file) => (file.includes('/') ? file.split('/')[0]! : 'ground')),
  ),
];

describe('a run covers', () => {
  test('the rooms that it is made of, and none that starts, shows or judges it', () => {
    expect(rooms(run).sort()).toEqual([
      'algorithms',
      'backends',
      'engine',
      'evaluation',
      'fine-tuning',
      'ground',
      'log',
      'monitor',
      'rollouts',
      'run-folder',
      'statistics',
      'tasks',
      'trainees',
      'training',
    ]);
    expect(rooms(beliefs)).toContain('truth-seeking');
    for (const room of ['server', 'web', 'cli', 'jobs', 'operations', 'report', 'judge'])
      expect([...rooms(run), ...rooms(beliefs)]).not.toContain(room);
    expect(run.has('index.js')).toBe(false);
  });

  test('the loop, threads, processes and every built-in task', () => {
    expect([...run.keys()]).toEqual(
      expect.arrayContaining([
        'training/loop.js',
        'training/iteration.js',
        'algorithms/index.js',
        'engine/model.js',
        'engine/trainer.js',
        'log/canonical-worker.js',
        'log/witness-process.js',
        'tasks/task-worker.js',
        'tasks/data/data-task.js',
        'tasks/games/othello-board.js',
        'tasks/games/shipped.js',
        'tasks/games/trader.js',
        'tasks/scheduling/cp-sat-worker.js',
        'tasks/scheduling/scheduling.js',
        'tasks/scheduling-classic/scheduling-classic.js',
        'tasks/extract/extract.js',
        'tasks/ladder/ladder.js',
        'tasks/sql/query-program.js',
        'tasks/sql/query-thread.js',
        'tasks/sql/sql.js',
      ]),
    );
    expect([...run.keys()]).toEqual([...run.keys()].sort());
  });

  test('whatever its modules name by a path: text of no other form leads to one', () => {
    const named = [...beliefs].flatMap(([file, bytes]) =>
      [
        ...bytes
          .toString('utf8')
          .matchAll(/^(?!\s*(?:\/\/|\/\*|\* )).*?['"`](\.[^'"`]*\.js)['"`]/gm),
      ]
        .map(([, target]) => path.posix.join(path.posix.dirname(file), target!))
        .filter((target) => built.includes(target) && !beliefs.has(target))
        .map((target) => `${file}: ${target}`),
    );
    // where a user's task finds the public API
    expect(named).toEqual(['tasks/task-bundle.js: index.js']);
  });

  test('all that is imported, which is there', () => {
    const missing = [...beliefs].flatMap(([file, bytes]) =>
      [...bytes.toString('utf8').matchAll(/^(?:import|export)\b[^;]*?from '(\.[^']*)'/gm)]
        .map(([, target]) => path.posix.join(path.posix.dirname(file), target!))
        .filter((target) => !beliefs.has(target)),
    );
    expect(missing).toEqual([]);
  });
});

test('a byte in a covered module changes the hash, one in another module does not', () => {
  const copy = path.join(folder.path, 'copied');
  cpSync(BUILT, copy, {
    recursive: true,
    filter: (file) => !/\.(?:d\.ts|map)$/.test(file),
  });
  const own = hashModules(copy, CODE.run);
  expect(hashModules(BUILT, CODE.run)).toBe(own); // wherever it is installed
  const changed = (file: string): boolean => {
    const at = path.join(copy, file);
    const bytes = readFileSync(at);
    appendFileSync(at, ' ');
    const hashed = hashModules(copy, CODE.run);
    writeFileSync(at, bytes);
    return hashed !== own;
  };
  const left = built.filter((file) => !run.has(file));
  const sampled = ['server', 'cli', 'truth-seeking', 'operations', 'report', 'judge', 'index'].map(
    (room) => left.find((file) => file.startsWith(room))!,
  );
  expect(sampled.filter(changed)).toEqual([]);
  const covered = rooms(run).map(
    (room) =>
      [...run.keys()].find((file) =>
        room === 'ground' ? !file.includes('/') : file.startsWith(`${room}/`),
      )!,
  );
  for (const file of [
    ...covered,
    'tasks/task-worker.js',
    'tasks/ladder/verify.js',
    'training/loop.js',
  ])
    expect([file, changed(file)]).toEqual([file, true]);
  mkdirSync(path.join(copy, 'web'), { recursive: true });
  writeFileSync(path.join(copy, 'web', 'page.js'), '');
  expect(hashModules(copy, CODE.run)).toBe(own);
  expect(hashModules(copy, CODE.beliefs)).not.toBe(own);
});

describe('modules join by', () => {
  const write = (name: string, files: Readonly<Record<string, string>>): string => {
    for (const [file, text] of Object.entries(files)) {
      const at = path.join(folder.path, name, file);
      mkdirSync(path.dirname(at), { recursive: true });
      writeFileSync(at, text);
    }
    return path.join(folder.path, name);
  };
  const joined = (text: string): string[] => {
    const at = write('joining', { 'a/root.js': text, 'b/more.js': "export * from './deep.js';\n" });
    writeFileSync(path.join(at, 'b/deep.js'), "import '../a/root.js';\n"); // a circle ends
    return [...coveredModules(at, ['a/root.js']).keys()];
  };

  test.each([
    ["import { one } from '../b/more.js';"],
    ["import {\n  one,\n  two,\n} from '../b/more.js';"],
    ['import "../b/more.js";'],
    ["import '../b/more.js';"],
    ["export { one } from '../b/more.js';"],
    ["export * as all from '../b/more.js';"],
    ["const one = await import('../b/more.js');"],
    ["const one = await import(\n  '../b/more.js'\n);"],
    ["startThread(new URL('../b/more.js', import.meta.url));"],
    ["const PROGRAM = fileURLToPath(new URL('../b/more.js', import.meta.url));"],
  ])('%s', (text) => expect(joined(text)).toEqual(['a/root.js', 'b/deep.js', 'b/more.js']));

  test.each([
    ["// import '../b/more.js';"],
    ["/**\n * import '../b/more.js';\n */"],
    ["import 'b/more.js';"],
    ["import '../b/none.js';"],
    ["new URL('../b/more.js', import.meta.url).href;"],
  ])('and not by %s', (text) => expect(joined(text)).toEqual(['a/root.js']));

  test('an import that is new: what it leads to is covered from then on', () => {
    const at = write('grown', { 'root.js': '', 'more.js': '' });
    const hashed = (): string => hashModules(at, ['root.js']);
    const before = hashed();
    writeFileSync(path.join(at, 'more.js'), '// changed');
    expect(hashed()).toBe(before);
    writeFileSync(path.join(at, 'root.js'), "import './more.js';");
    const imported = hashed();
    writeFileSync(path.join(at, 'more.js'), '// changed again');
    expect(new Set([before, imported, hashed()]).size).toBe(3);
  });
});

test('it is computed once a process, quickly', async () => {
  hashModules(BUILT, CODE.beliefs); // files are read from the disk once
  const started = performance.now();
  const hashed = hashModules(BUILT, CODE.run);
  // 50 ms are meant; another process may hold the processor
  expect(performance.now() - started).toBeLessThan(1000);
  const { javascript } = await codeVersion();
  expect(javascript).toBe(hashed);
  expect((await codeVersion('beliefs')).javascript).not.toBe(javascript);
});
