import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { ERRORS } from '../../src/errors.js';
import { OPTIONAL_PACKAGES, SERVICE_PACKAGES } from '../../src/optional-package.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

function command(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(name, args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    env: { ...process.env, ...env },
    shell: process.platform === 'win32',
  });
}

function read(file: string): string {
  return readFileSync(path.join(root, file), 'utf8');
}

interface Manifest {
  bin: Record<string, string>;
  exports: Record<string, string | Record<string, string>>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  scripts: Record<string, string>;
}
const manifest = JSON.parse(read('package.json')) as Manifest;
const tracked = existsSync(path.join(root, '.git'))
  ? command('git', ['ls-files', '-z'])
      .stdout.split('\0')
      .filter((name) => name !== '' && existsSync(path.join(root, name)))
  : [];

describe('package.json', () => {
  test('pins every dependency to one version', () => {
    const ranges = Object.entries({
      ...manifest.dependencies,
      ...manifest.optionalDependencies,
      ...manifest.devDependencies,
    }).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version));
    expect(ranges).toEqual([]);
  });

  test('pins what errors say is to be installed, and leaves no more to be left out than that and what builds', () => {
    const { 'cmake-js': _, 'node-addon-api': __, ...optional } = manifest.optionalDependencies;
    expect({ ...optional, ...SERVICE_PACKAGES }).toEqual(OPTIONAL_PACKAGES);
    // not installed with this package, and tried here in the same version
    const { dependencies, optionalDependencies, devDependencies } = manifest;
    for (const [name, version] of Object.entries(SERVICE_PACKAGES)) {
      expect(devDependencies[name]).toBe(version);
      expect({ ...dependencies, ...optionalDependencies }).not.toHaveProperty([name]);
    }
  });

  test('names scripts that exist', () => {
    const files = Object.values(manifest.scripts).flatMap(
      (script) => script.match(/scripts\/[\w-]+\.mjs/g) ?? [],
    );
    expect(files.length).toBeGreaterThan(4);
    expect(files.filter((file) => !existsSync(path.join(root, file)))).toEqual([]);
  });

  test('has no fault that publint knows', async () => {
    const { publint } = await import('publint');
    const { formatMessage } = await import('publint/utils');
    const { messages } = await publint({ pkgDir: root, strict: true });
    expect(messages.map((message) => formatMessage(message, manifest as never))).toEqual([]);
  });

  test('is matched by a lock that npm ci accepts on every platform', async () => {
    const { missingOptionalPackages } = (await import(
      path.join(root, 'scripts', 'complete-lock.mjs')
    )) as {
      missingOptionalPackages: (lock: unknown) => { name: string }[];
    };
    const lock = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { dependencies?: object; devDependencies?: object }>;
    };
    expect(missingOptionalPackages(lock).map(({ name }) => name)).toEqual([]);
    expect(lock.packages['']).toMatchObject({
      dependencies: manifest.dependencies,
      devDependencies: manifest.devDependencies,
      optionalDependencies: manifest.optionalDependencies,
    });
  });
});

test('the command can be executed after a build, whoever linked it before', () => {
  expect(
    process.platform === 'win32' ||
      (statSync(path.join(root, Object.values(manifest.bin)[0]!)).mode & 0o111) === 0o111,
  ).toBe(true);
});

describe('what npm publishes', () => {
  const packed = (
    JSON.parse(command('npm', ['pack', '--dry-run', '--json', '--ignore-scripts']).stdout) as {
      files: { path: string; mode: number }[];
    }[]
  )[0]!.files.map(({ path }) => path);

  test('is enough to build, load and run', () => {
    const needed = [
      'LICENSE',
      'README.md',
      'CMakeLists.txt',
      'bindings.gyp',
      'native/addon.cpp',
      'native/llama.cmake',
      'scripts/install.mjs',
      'scripts/toolchain.mjs',
      'scripts/locate-llama.mjs',
      'scripts/copy-libraries.mjs',
      'dist/src/index.js',
      'dist/src/index.d.ts',
      'dist/program/main.js',
      'dist/src/log/witness-process.js',
    ];
    expect(needed.filter((file) => !packed.includes(file))).toEqual([]);
    expect(Object.values(manifest.bin).filter((file) => !packed.includes(file))).toEqual([]);
  });

  test('holds no test, build folder or model but the embedded one and that of scenarios', () => {
    expect(
      packed.filter((file) =>
        /^(test|build|dev|results|node_modules|\.ci|\.github)\/|\.test\.|\.gguf$|\.log$/.test(file),
      ),
    ).toEqual(['assets/deciders/model.gguf', 'assets/models/tiny.gguf']);
  });

  test('holds the scripts that build the addon, and none that measures or writes documents', () => {
    expect(packed.filter((file) => file.startsWith('scripts/')).sort()).toEqual([
      'scripts/copy-libraries.mjs',
      'scripts/install.mjs',
      'scripts/locate-llama.mjs',
      'scripts/toolchain.mjs',
    ]);
    expect(packed.filter((file) => /^(bench|dist\/examples)\//.test(file))).toEqual([]);
  });

  test('holds every module that one of its modules imports, and of the tests none else', () => {
    const modules = packed.filter((file) => /^dist\/(src|bench|test)\/.*\.js$/.test(file));
    const imported = modules.flatMap((file) =>
      [...read(file).matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]+)['"]/g)].map(
        ([, target]) => path.posix.join(path.posix.dirname(file), target!),
      ),
    );
    expect(imported.length).toBeGreaterThan(1000);
    expect(imported.filter((file) => !packed.includes(file))).toEqual([]);
    expect(
      modules.filter((file) => file.startsWith('dist/test/') && !imported.includes(file)),
    ).toEqual([]);
  });
});

(tracked.length > 0 ? describe : describe.skip)('tracked files', () => {
  const texts = tracked
    .filter((name) => statSync(path.join(root, name)).size < 4e6)
    .map((name) => ({ name, text: read(name) }));

  test('hold no path of this machine', () => {
    // A checkout in /src or /app would match anything; the home folder is asked for with its slash.
    const places = [root, process.env.npm_config_cache ?? '']
      .filter((place) => place.split(/[\\/]+/).filter(Boolean).length > 1)
      .concat(homedir())
      .map((place) => `${place.replace(/[\\/]+$/, '')}${path.sep}`);
    // A short name such as `localhost` says nothing.
    const host = hostname().length > 8 && hostname() !== 'localhost' ? [hostname()] : [];
    const leaks = texts.flatMap(({ name, text }) =>
      [...places, ...host]
        .filter((place) => text.includes(place))
        .map((place) => `${name}: ${place}`),
    );
    expect(leaks).toEqual([]);
  });

  test('hold no host of a package registry', () => {
    const configured = command('npm', ['config', 'get', 'registry']).stdout.trim();
    const hosts = [
      URL.canParse(configured) ? new URL(configured).host : '',
      ['registry', 'npmjs', 'org'].join('.'),
    ].filter((host) => host !== '');
    expect(
      texts.filter(({ text }) => hosts.some((host) => text.includes(host))).map(({ name }) => name),
    ).toEqual([]);
    expect(JSON.stringify(JSON.parse(read('package-lock.json')))).not.toContain('"resolved":"http');
  });
});

describe('errors', () => {
  test('docs/errors.md is the table in src/errors.ts (npm run docs:errors)', async () => {
    const { errorsPage } = (await import(path.join(root, 'scripts', 'document-errors.mjs'))) as {
      errorsPage: (errors: object) => string;
    };
    expect(read('docs/errors.md')).toBe(errorsPage(ERRORS));
    expect(Object.keys(ERRORS)).toEqual(Object.keys(ERRORS).sort());
  });

  test('every code is raised somewhere', () => {
    const sources = tracked
      .filter((name) => /^(src|native)\//.test(name) && name !== 'src/errors.ts')
      .map(read)
      .join('\n');
    const unused = Object.keys(ERRORS).filter((code) => !new RegExp(`\\b${code}\\b`).test(sources));
    expect(tracked.length === 0 ? [] : unused).toEqual([]);
  });
});

describe('bindings.gyp', () => {
  const python =
    command(process.platform === 'win32' ? 'python' : 'python3', ['--version']).status === 0;
  if (!python) console.warn('skipped: bindings.gyp needs Python 3, which is not here');
  (python ? test : test.skip)('builds the addon', () => {
    const { status, stdout, stderr } = command('npm', ['run', 'build:gyp']);
    expect(status === 0 ? '' : `${stdout}\n${stderr}`).toBe('');
    expect(stdout).toContain('Building the addon with CMake');
    expect(existsSync(path.join(root, 'build', 'Release', 'isopro_native.node'))).toBe(true);
  });
});
