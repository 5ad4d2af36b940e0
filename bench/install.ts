/**
 * What it costs to have this package: a clone built from nothing, and what is published of it,
 * installed into an empty folder with its optional packages and without. Each is fetched with an
 * empty cache of npm's, compiled without a compiler's cache, and must run the README's example; the
 * published ones where no compiler can be started.
 */
import { execFile } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { abortError, IsoproError } from '../src/errors.js';
import { packageRoot } from '../src/engine/addon.js';

export interface InstallCost {
  /** From `npm install` (`npm ci` in a clone) to its end. */
  readonly seconds: number;
  /** Of all files that are there then; what is linked twice counts once. */
  readonly bytes: number;
}

export interface InstallBench {
  readonly full: InstallCost;
  /** With --omit=optional. */
  readonly light: InstallCost;
  readonly source: InstallCost;
}

export interface InstallBenchOptions {
  readonly signal?: AbortSignal;
  readonly onStep?: (name: string, index: number, count: number) => void;
}

const STEPS = ['source', 'package', 'full', 'light'] as const;
const COMPLAINT_LINES = 20;

/** The README's example with the model that comes with the package, so that none is downloaded. */
export function readmeExample(root: string): string {
  const code = /^```ts\n([^]*?)^```$/m.exec(
    readFileSync(path.join(root, 'README.md'), 'utf8'),
  )?.[1];
  if (code === undefined) throw new Error('README.md has no example in TypeScript');
  return code.replace('smollm2-135m', 'tiny');
}

export function bytesBelow(folder: string, seen = new Set<string>()): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) bytes += bytesBelow(file, seen);
    else {
      const { dev, ino, size } = lstatSync(file);
      if (seen.has(`${dev}:${ino}`)) continue;
      seen.add(`${dev}:${ino}`);
      bytes += size;
    }
  }
  return bytes;
}

/**
 * What an npm that started this one says of itself; the npm that is started here would take it for
 * settings.
 */
const OF_NPM =
  /^(npm_(?!config_)|npm_config_(local_prefix|global_prefix|omit|include|ignore_scripts|dry_run|json|cache)$|NODE_OPTIONS$)/i;

export function environment(extra: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !OF_NPM.test(name));
  return { ...Object.fromEntries(own), CCACHE_DISABLE: '1', ...extra };
}

/** @throws IsoproError PACKAGE_MISSING, ABORTED */
async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv,
  signal?: AbortSignal,
): Promise<string> {
  try {
    const options = {
      cwd,
      env,
      maxBuffer: 2 ** 28,
      shell: process.platform === 'win32',
      ...(signal === undefined ? {} : { signal }),
    };
    return (await promisify(execFile)(command, args, options)).stdout;
  } catch (cause) {
    if (signal?.aborted === true) throw abortError('the measurement was cancelled', signal);
    const said = (cause as { stderr?: string }).stderr?.trim() || (cause as Error).message;
    throw new IsoproError(
      'PACKAGE_MISSING',
      `${path.basename(command)} ${args.slice(0, 2).join(' ')} failed: ${said.split('\n').slice(-COMPLAINT_LINES).join('\n')}`,
      {
        cause,
        remedy: 'Check that the registry of packages can be reached, and what the lines above say.',
      },
    );
  }
}

/**
 * @throws IsoproError INVALID_ARGUMENT outside a clone, PACKAGE_MISSING where a package cannot be
 *   installed or does not work, ABORTED
 */
export async function benchInstall({
  signal,
  onStep,
}: InstallBenchOptions = {}): Promise<InstallBench> {
  const root = packageRoot();
  if (!existsSync(path.join(root, '.git')))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${root} is no clone of the project: what is measured is made from one`,
    );
  const place = mkdtempSync(path.join(tmpdir(), 'isopro-install-'));
  const step = (name: (typeof STEPS)[number]): void =>
    onStep?.(name, STEPS.indexOf(name), STEPS.length);
  const example = readmeExample(root);
  const install = async (
    folder: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv,
  ): Promise<InstallCost> => {
    const cache = path.join(place, 'cache');
    const begin = performance.now();
    await run('npm', [...args, '--no-audit', '--no-fund', '--cache', cache], folder, env, signal);
    const seconds = (performance.now() - begin) / 1000;
    const bytes = bytesBelow(folder);
    await run(process.execPath, ['--input-type=module', '-e', example], folder, env, signal);
    rmSync(cache, { recursive: true, force: true });
    return { seconds, bytes };
  };
  try {
    step('source');
    const clone = path.join(place, 'source');
    const env = environment({ ISOPRO_HOME: path.join(place, 'home') });
    const listed = await run(
      'git',
      ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
      root,
      env,
      signal,
    );
    for (const name of listed
      .split('\0')
      .filter((file) => file !== '' && existsSync(path.join(root, file)))) {
      mkdirSync(path.dirname(path.join(clone, name)), { recursive: true });
      copyFileSync(path.join(root, name), path.join(clone, name));
    }
    const source = await install(clone, ['ci'], env);

    step('package');
    await run('npm', ['run', 'prebuild'], clone, env, signal);
    const archive = (await run('npm', ['run', '--silent', 'package'], clone, env, signal))
      .trim()
      .split('\n')
      .at(-1)!;

    const noCompiler = path.join(place, 'no-compiler');
    const published = async (name: 'full' | 'light', ...flags: string[]): Promise<InstallCost> => {
      step(name);
      const app = path.join(place, name);
      mkdirSync(app);
      writeFileSync(
        path.join(app, 'package.json'),
        '{ "name": "app", "private": true, "type": "module" }',
      );
      return install(app, ['install', ...flags, archive], {
        ...env,
        CC: noCompiler,
        CXX: noCompiler,
      });
    };
    return {
      full: await published('full'),
      light: await published('light', '--omit=optional'),
      source,
    };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
