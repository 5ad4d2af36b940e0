import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { writeSyntheticModel } from '../models/synthetic.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const full = process.env.ISOPRO_FULL === '1';
const HOUR = 3_600_000;

let place: string;
beforeEach(() => {
  // A space, which a path on a Mac or on Windows may well have.
  place = path.join(mkdtempSync(path.join(tmpdir(), 'isopro package ')), 'isopro native');
  mkdirSync(place);
  for (const name of ['package.json', 'CMakeLists.txt', 'native', 'scripts', 'dist'])
    cpSync(path.join(root, name), path.join(place, name), { recursive: true });
  symlinkSync(path.join(root, 'node_modules'), path.join(place, 'node_modules'), 'dir');
});
afterEach(() => rmSync(path.dirname(place), { recursive: true, force: true }));

function node(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): { status: number | null; stdout: string; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: place,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    env: { ...process.env, ...env },
  });
  return { status, stdout, output: `${stdout}${stderr}` };
}

const install = (env: NodeJS.ProcessEnv = {}) => node(['scripts/install.mjs'], env);

/** Which addon the loader takes, or the code of its error. */
function loaded(): string {
  const program =
    `import('./dist/src/engine/addon.js').then(({ loadAddon }) => console.log(require('node:path').relative('.', ` +
    `loadAddon().file))).catch((error) => console.log(error.code))`;
  return node(['-e', program]).output.trim().split('\n').at(-1)!;
}

const built = path.join(root, 'build', 'Release');
const prebuilds = () => path.join(place, 'prebuilds', `${process.platform}-${process.arch}`);

function provide(folder: string, wanted: (name: string) => boolean = () => true): void {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(built)) {
    if (!wanted(name)) continue;
    try {
      linkSync(path.join(built, name), path.join(folder, name));
    } catch {
      cpSync(path.join(built, name), path.join(folder, name));
    }
  }
}

describe('npm install', () => {
  test('says in one line each what is missing and how to get it', () => {
    const { status, output } = install({ PATH: path.join(place, 'nowhere'), CXX: '' });
    expect(status).toBe(1);
    const lines = output.trim().split('\n');
    expect(lines).toHaveLength(4);
    for (const [index, tool] of ['git', 'CMake', 'a C++ compiler'].entries())
      expect(lines[index]).toMatch(
        new RegExp(
          `^isopro-native: ${tool.replaceAll('+', '\\+')}.* was not found.*get it with: \\S+`,
        ),
      );
  });

  test('takes a prebuilt addon that loads, without any tool', () => {
    provide(prebuilds());
    const { status, output } = install({ PATH: path.join(place, 'nowhere'), CXX: '' });
    expect(output).toContain('using the prebuilt addon');
    expect(status).toBe(0);
    expect(existsSync(path.join(place, 'build'))).toBe(false);
  });
});

test('what `npm run package` makes of a prebuilt addon runs no script, needs nothing for a build, and holds SQLite and ECharts', () => {
  provide(prebuilds(), (name) => name === 'isopro_native.node');
  const binding = createRequire(import.meta.url).resolve(
    'better-sqlite3/build/Release/better_sqlite3.node',
  );
  cpSync(binding, path.join(prebuilds(), `better_sqlite3-node-v${process.versions.modules}.node`));
  const { status, output } = node(['scripts/package.mjs']);
  expect(status === 0 ? '' : output).toBe('');
  // Elsewhere, so that nothing is found in the node_modules above.
  const elsewhere = path.join(path.dirname(place), 'elsewhere');
  mkdirSync(elsewhere);
  expect(
    spawnSync('tar', ['-xzf', output.trim().split('\n').at(-1)!, '-C', elsewhere]).status,
  ).toBe(0);
  const unpacked = path.join(elsewhere, 'package');
  const manifest = JSON.parse(readFileSync(path.join(unpacked, 'package.json'), 'utf8')) as Record<
    string,
    Record<string, string>
  >;
  expect(manifest.scripts).toBeUndefined();
  expect(Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })).not.toContain(
    'cmake-js',
  );
  expect(manifest.engines!.node).toContain(process.versions.node.split('.')[0]);
  expect(
    ['native', 'scripts', 'CMakeLists.txt'].filter((name) => existsSync(path.join(unpacked, name))),
  ).toEqual([]);
  const program =
    "const Database = require('better-sqlite3'); console.log(new Database(':memory:').prepare('SELECT 6 * 7').pluck().get());" +
    "import('echarts/dist/echarts.esm.min.mjs').then(({ init }) => console.log(typeof init))";
  expect(
    spawnSync(process.execPath, ['-e', program], { cwd: unpacked, encoding: 'utf8' }).stdout,
  ).toBe('42\nfunction\n');
});

test('what was installed without its optional packages says what it lacks, and how to get it', () => {
  provide(prebuilds());
  rmSync(path.join(place, 'node_modules'));
  mkdirSync(path.join(place, 'node_modules'));
  for (const name of ['zod', 'canonicalize', 'better-sqlite3'])
    symlinkSync(
      path.join(root, 'node_modules', name),
      path.join(place, 'node_modules', name),
      'junction',
    );
  // Its program is an optional package of its own, which it looks for beside itself.
  cpSync(path.join(root, 'node_modules', 'esbuild'), path.join(place, 'node_modules', 'esbuild'), {
    recursive: true,
  });
  writeFileSync(path.join(place, 'task.mjs'), 'export default {};');
  const { output } = node([
    '--input-type=module',
    '-e',
    `const failure = (work) => work.then(() => null, ({ code, remedy }) => ({ code, remedy }));
     const { diagnose } = await import('./dist/src/engine/diagnosis.js');
     const { GroundTruthSolver } = await import('./dist/src/tasks/scheduling/ground-truth.js');
     const { bundleTask } = await import('./dist/src/tasks/task-bundle.js');
     console.log(JSON.stringify({
       installation: (await diagnose()).find(({ check }) => check === 'installation').facts,
       solver: await failure(new GroundTruthSolver().solve({ id: 'x' })),
       bundler: await failure(bundleTask('task.mjs')),
     }));`,
  ]);
  const { installation, solver, bundler } = JSON.parse(output.trim().split('\n').at(-1)!) as Record<
    string,
    Record<string, unknown>
  >;
  expect(installation).toMatchObject({
    form: 'light',
    absent: expect.arrayContaining([expect.stringMatching(/^or-tools-wasm@\d/)]),
  });
  expect(solver).toMatchObject({
    code: 'PACKAGE_MISSING',
    remedy: expect.stringMatching(/`npm install or-tools-wasm@\d+\.\d+\.\d+`/),
  });
  expect(bundler).toMatchObject({
    code: 'PACKAGE_MISSING',
    remedy: expect.stringMatching(/`npm install @esbuild\/[\w-]+@\d+\.\d+\.\d+`/),
  });
});

describe('the loader', () => {
  test('looks for the local build first, so that a clone that has packed itself goes on being built, then for a prebuilt addon', () => {
    provide(prebuilds());
    expect(loaded()).toBe(path.join(path.relative(place, prebuilds()), 'isopro_native.node'));
    provide(path.join(place, 'build', 'Release'));
    expect(loaded()).toBe(path.join('build', 'Release', 'isopro_native.node'));
  });

  test('passes over an addon that does not load here', () => {
    const local = path.join(place, 'build', 'Release');
    mkdirSync(local, { recursive: true });
    writeFileSync(path.join(local, 'isopro_native.node'), 'of another machine');
    provide(prebuilds());
    expect(loaded()).toBe(path.join(path.relative(place, prebuilds()), 'isopro_native.node'));
  });

  test('without any addon: NATIVE_ADDON_MISSING; without a back end beside it: BACKEND_UNAVAILABLE', () => {
    expect(loaded()).toBe('NATIVE_ADDON_MISSING');
    provide(path.join(place, 'build', 'Release'), (name) => !/ggml-(cpu|metal)/.test(name));
    expect(loaded()).toBe('BACKEND_UNAVAILABLE');
  });
});

// Minutes each: npm run test:full.
(full ? describe : describe.skip)('a build from nothing', () => {
  function generates(folder: string): void {
    const model = path.join(place, 'model.gguf');
    writeSyntheticModel(model, { architecture: 'llama', seed: 9n });
    mkdirSync(path.join(folder, 'test', 'package'), { recursive: true });
    cpSync(
      path.join(root, 'test', 'package', 'coexistence.mjs'),
      path.join(folder, 'test', 'package', 'coexistence.mjs'),
    );
    const { status, output } = node([
      path.join(folder, 'test', 'package', 'coexistence.mjs'),
      'isopro',
      model,
    ]);
    expect(status === 0 ? '' : output).toBe('');
  }

  test(
    'of the addon alone takes under 3 minutes',
    () => {
      const begin = Date.now();
      const { status, output } = install();
      expect(status === 0 ? '' : output).toBe('');
      expect(Date.now() - begin).toBeLessThan(180_000);
      // Only the headers come out of the bundle.
      const source = readdirSync(path.join(place, 'build')).find((name) =>
        name.startsWith('llama.cpp-'),
      )!;
      expect(readdirSync(path.join(place, 'build', source)).sort()).toEqual([
        '.headers-complete',
        'ggml',
        'include',
      ]);
      generates(place);
    },
    HOUR,
  );

  test(
    'of llama.cpp too (ISOPRO_LLAMA_FROM_SOURCE=1) generates the same',
    () => {
      const { status, output } = install({ ISOPRO_LLAMA_FROM_SOURCE: '1' });
      expect(status === 0 ? '' : output).toBe('');
      generates(place);
    },
    HOUR,
  );

  test(
    '`npm run prebuild` makes a folder that works where nothing was compiled',
    () => {
      expect(node(['scripts/prebuild.mjs']).status).toBe(0);
      rmSync(path.join(place, 'build'), { recursive: true });
      expect(loaded()).toBe(path.join(path.relative(place, prebuilds()), 'isopro_native.node'));
      generates(place);
    },
    HOUR,
  );

  test(
    'what `npm run package` makes needs no compiler and, without optional packages, less than 150 MB',
    () => {
      const { status, stdout, output } = node([
        path.join(root, 'dist', 'program', 'main.js'),
        'bench',
        'install',
        '--json',
      ]);
      expect(status === 0 ? '' : output).toBe('');
      const { full, light, source } = JSON.parse(stdout) as Record<
        string,
        { seconds: number; bytes: number }
      >;
      expect(light!.bytes).toBeLessThan(150e6);
      expect(full!.bytes).toBeGreaterThan(light!.bytes);
      expect(source!.seconds).toBeGreaterThan(0);
    },
    HOUR,
  );

  test(
    'of the packed package, installed into another folder',
    () => {
      const npm = (args: readonly string[], cwd: string) =>
        spawnSync('npm', args, { cwd, encoding: 'utf8', shell: process.platform === 'win32' });
      const packed = npm(
        ['pack', '--ignore-scripts', '--pack-destination', path.dirname(place)],
        root,
      );
      expect(packed.status).toBe(0);
      const app = path.join(path.dirname(place), 'app');
      mkdirSync(app);
      writeFileSync(path.join(app, 'package.json'), '{"name":"app","private":true}');
      const installed = npm(
        [
          'install',
          '--no-audit',
          '--no-fund',
          path.join(path.dirname(place), packed.stdout.trim().split('\n').at(-1)!),
        ],
        app,
      );
      expect(installed.status === 0 ? '' : installed.stderr).toBe('');
      const bin = spawnSync(
        path.join(app, 'node_modules', '.bin', 'isopro-native'),
        ['doctor', '--json'],
        {
          cwd: app,
          encoding: 'utf8',
          shell: process.platform === 'win32',
        },
      );
      expect(
        JSON.parse(bin.stdout).findings.find(
          ({ check }: { check: string }) => check === 'native addon',
        ).status,
      ).toBe('ok');
    },
    HOUR,
  );
});
