/** Diagnosis of this machine and installation: one finding per check, with its remedy. */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { cpus, freemem, loadavg, release, totalmem } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { IsoproError } from '../errors.js';
import { installedVersion, OPTIONAL_PACKAGES } from '../optional-package.js';
import { addonCandidates, isSource, loadAddon, packageRoot } from './addon.js';
import { homeFolder } from './model-location.js';

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** Finding in words. */
  readonly detail: string;
  /** Remedy, or null if there is nothing to do. */
  readonly remedy: string | null;
  /** The figures behind the detail. Sizes in bytes. */
  readonly facts: Readonly<Record<string, unknown>>;
}

const MINIMUM_NODE = [20, 17] as const;
/** Below this, a 3B model in Q4_K_M (2.1 GB) and its training state do not fit. */
const COMFORTABLE_MEMORY = 8e9;
const MINIMUM_MEMORY = 2e9;
/** A 7B model in Q4_K_M. */
const COMFORTABLE_DISK = 6e9;
const MINIMUM_DISK = 1e9;

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;

interface Tool {
  readonly tool: string;
  readonly found: string | null;
  readonly remedy: string;
}

export async function diagnose(): Promise<Finding[]> {
  return [
    nodeVersion(),
    processor(),
    installation(),
    ...nativeAddon(),
    memory(),
    await disk(),
    sqlite(),
    ...(await toolchain()),
    load(),
  ];
}

const ok = (check: string, detail: string, facts: Finding['facts']): Finding => ({
  check,
  status: 'ok',
  detail,
  remedy: null,
  facts,
});

const ownManifest = (): { version: string; engines: { node: string } } =>
  JSON.parse(readFileSync(path.join(packageRoot(), 'package.json'), 'utf8')) as {
    version: string;
    engines: { node: string };
  };

const packageVersion = (name: string): string => installedVersion(name) ?? 'not installed';

function nodeVersion(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const enough = major > MINIMUM_NODE[0] || (major === MINIMUM_NODE[0] && minor >= MINIMUM_NODE[1]);
  return {
    check: 'Node.js',
    status: enough ? 'ok' : 'fail',
    detail: `${process.version} on ${process.platform} ${release()} ${process.arch}`,
    remedy: enough ? null : `Install Node.js ${MINIMUM_NODE.join('.')} or newer.`,
    facts: {
      node: process.versions.node,
      platform: process.platform,
      arch: process.arch,
      napi: process.versions.napi,
    },
  };
}

function processor(): Finding {
  const list = cpus();
  const model = list[0]?.model.trim() ?? null;
  const facts = { model, logicalCores: list.length };
  return ok('processor', `${model ?? 'unknown'}, ${list.length} logical cores`, facts);
}

/**
 * Full and light are what npm installs of a published package, light without its optional
 * dependencies; else it was built here.
 */
function installation(): Finding {
  const candidate = addonCandidates().find((file) => existsSync(file));
  const missing = Object.entries(OPTIONAL_PACKAGES).filter(
    ([name]) => installedVersion(name) === null,
  );
  const prebuilt = candidate?.includes(`${path.sep}prebuilds${path.sep}`) === true;
  const form = !prebuilt
    ? 'source'
    : missing.some(([name]) => name === 'or-tools-wasm')
      ? 'light'
      : 'full';
  const made = {
    source: 'from source: the addon is compiled on this machine',
    light: 'light: with a prebuilt addon, without optional packages',
    full: 'full: with a prebuilt addon and the solver',
  }[form];
  const absent = missing.map(([name, version]) => `${name}@${version}`);
  const without =
    absent.length === 0 ? '' : `; missing, install with \`npm install\`: ${absent.join(', ')}`;
  const facts = { form, folder: packageRoot(), absent };
  return ok('installation', `${made}${without} (${packageRoot()})`, facts);
}

function nativeAddon(): Finding[] {
  try {
    const { addon, file } = loadAddon();
    const { version } = ownManifest();
    const { llamaRelease } = addon;
    const backends = addon.backends();
    const features = Object.keys(addon.processorFeatures());
    const cores = addon.physicalCores();
    const speed = addon.bf16Speed();
    const metalExpected = process.platform === 'darwin' && process.arch === 'arm64';
    const metalMissing = metalExpected && !backends.some(({ type }) => type === 'gpu');
    return [
      ok(
        'native addon',
        `isopro-native ${version}, llama.cpp ${llamaRelease}, ${path.relative(packageRoot(), file)}`,
        {
          version,
          llamaRelease,
          nodeLlamaCpp: packageVersion('node-llama-cpp'),
          prebuilt: file.includes(`${path.sep}prebuilds${path.sep}`),
        },
      ),
      {
        check: 'back ends',
        status: metalMissing ? 'warn' : 'ok',
        detail: backends.map(({ name, description }) => `${name} (${description})`).join(', '),
        remedy: metalMissing
          ? 'Metal was not found. Reinstall with `npm install` to get @node-llama-cpp/mac-arm64-metal.'
          : null,
        facts: { backends },
      },
      ok(
        'threads',
        `${cores} by default (physical cores); CPU back end for ${features.join(', ') || 'the base instruction set'}`,
        { physicalCores: cores, features },
      ),
      ok(
        'training precision',
        speed === null
          ? 'f32; bf16 needs AVX512-BF16, which this processor does not have'
          : `f32, and bf16 at ${speed.toFixed(1)} times the rate of f32${speed < 1 ? ': here --precision bf16 saves no time' : ''}`,
        { bf16Speed: speed },
      ),
    ];
  } catch (error) {
    if (!(error instanceof IsoproError)) throw error;
    return [
      {
        check: 'native addon',
        status: 'fail',
        detail: error.message,
        remedy: error.remedy,
        facts: { code: error.code },
      },
    ];
  }
}

function memory(): Finding {
  // In a container the cgroup's limit counts; without one Node reports 0 or more than there is.
  const limit = process.constrainedMemory();
  const total = limit > 0 && limit < totalmem() ? limit : totalmem();
  const free = Math.min(availableMemory(), total);
  const status = free < MINIMUM_MEMORY ? 'fail' : free < COMFORTABLE_MEMORY ? 'warn' : 'ok';
  return {
    check: 'memory',
    status,
    detail: `${gigabytes(free)} available of ${gigabytes(total)}`,
    remedy:
      status === 'ok'
        ? null
        : 'Close other programs or use a smaller model. `isopro-native models inspect MODEL` estimates how much memory a model needs.',
    facts: { totalBytes: total, availableBytes: free },
  };
}

/**
 * Returns the memory in bytes that a program could still get. freemem counts the page cache as
 * used; Linux reports what is available.
 */
export function availableMemory(): number {
  try {
    const kilobytes = /^MemAvailable:\s+(\d+) kB$/m.exec(
      readFileSync('/proc/meminfo', 'utf8'),
    )?.[1];
    if (kilobytes !== undefined) return Number(kilobytes) * 1024;
  } catch {
    // Not Linux.
  }
  return freemem();
}

async function disk(): Promise<Finding> {
  const home = homeFolder();
  let existing = home;
  while (!existsSync(existing)) existing = path.dirname(existing);
  const { bavail, bsize } = await statfs(existing);
  const free = bavail * bsize;
  let writable = true;
  try {
    accessSync(existing, constants.W_OK);
  } catch {
    writable = false;
  }
  const status =
    !writable || free < MINIMUM_DISK ? 'fail' : free < COMFORTABLE_DISK ? 'warn' : 'ok';
  return {
    check: 'cache folder',
    status,
    detail: `${home}: ${writable ? `${gigabytes(free)} free` : 'not writable'}`,
    remedy:
      status === 'ok'
        ? null
        : 'Set ISOPRO_HOME to a writable folder on a disk with room for models.',
    facts: { folder: home, freeBytes: free, writable },
  };
}

function sqlite(): Finding {
  const version = packageVersion('better-sqlite3');
  try {
    const require = createRequire(import.meta.url);
    const Database = require('better-sqlite3') as typeof import('better-sqlite3');
    const database = new Database(':memory:');
    const row = database.prepare('SELECT sqlite_version() AS version').get() as { version: string };
    database.close();
    return ok('event log', `SQLite ${row.version} (better-sqlite3 ${version})`, {
      sqlite: row.version,
      betterSqlite3: version,
    });
  } catch (error) {
    return {
      check: 'event log',
      status: 'fail',
      detail: `better-sqlite3 ${version} could not be loaded: ${(error as Error).message.split('\n', 1)[0]}`,
      remedy: isSource(packageRoot())
        ? 'Run `npm rebuild better-sqlite3`.'
        : `This package has SQLite for Node ${ownManifest().engines.node}. Use one of these versions, or install from ` +
          `a clone of the project.`,
      facts: { betterSqlite3: version },
    };
  }
}

async function toolchain(): Promise<Finding[]> {
  if (!isSource(packageRoot())) return [];
  const module = pathToFileURL(path.join(packageRoot(), 'scripts', 'toolchain.mjs')).href;
  const { inspectToolchain } = (await import(module)) as { inspectToolchain: () => Tool[] };
  return inspectToolchain().map(({ tool, found, remedy }) => ({
    check: `build tool: ${tool}`,
    // Needed only to build the addon again.
    status: found === null ? 'warn' : 'ok',
    detail: found ?? 'not found',
    remedy: found === null ? `Only needed to build from source: ${remedy}` : null,
    facts: { found },
  }));
}

function load(): Finding {
  const [oneMinute = 0] = loadavg();
  const cores = cpus().length;
  const busy = oneMinute > cores * 0.5;
  return {
    check: 'load',
    status: busy ? 'warn' : 'ok',
    detail:
      process.platform === 'win32'
        ? 'not measured on Windows'
        : `load average of ${oneMinute.toFixed(1)} over the last minute, on ${cores} cores`,
    remedy: busy
      ? 'Other programs keep the cores busy: decoding is slower and timings are unreliable.'
      : null,
    facts: { loadAverage: oneMinute },
  };
}
