// Runs at `npm install`: takes the prebuilt addon of this platform where there is one that loads,
// else builds it, and beside it SQLite's binding: package.json keeps npm from running that
// package's own script (`allowScripts`), which would compile it before this one begins. npm shows
// the output of a dependency's install script only when it fails (or with --foreground-scripts).
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, constants, setPriority } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspectToolchain } from './toolchain.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const fromSource = process.env.ISOPRO_LLAMA_FROM_SOURCE === '1';

/** What a program says on stderr when it fails; null where it does not. */
function failureOf(program, ...args) {
  const { status, stderr, signal } = spawnSync(process.execPath, ['-e', program, ...args], {
    encoding: 'utf8',
    cwd: root,
  });
  return status === 0 ? null : stderr || signal || 'unknown';
}

/** Whether an addon loads, tried in a process of its own. */
function loads(file) {
  if (!existsSync(file)) return false;
  const said = failureOf('require(process.argv[1])', file);
  if (said === null) return true;
  const reason = said.split('\n').find((line) => line.includes('Error')) ?? said;
  console.error(
    `isopro-native: ${path.relative(root, file)} does not load here (${reason.trim()})`,
  );
  return false;
}

/** Whether a package is installed where this one would find it. */
function isInstalled(name) {
  return require.resolve
    .paths(name)
    .some((base) => existsSync(path.join(base, name, 'package.json')));
}

function fail(message) {
  console.error(`isopro-native: ${message}`);
  process.exit(1);
}

/** Resolves to the exit code and, unless it was inherited, the output. */
function run(command, args, options, onSpawn) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, options);
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (data) => (output += data));
    child.once('error', reject);
    child.once('spawn', () => onSpawn?.(child.pid));
    child.once('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

/**
 * By the package's own script, which takes a published binding or compiles one. Resolves to what
 * went wrong, or null.
 */
async function installSqlite() {
  const opens = "new (require('better-sqlite3'))(':memory:')";
  if (failureOf(opens) === null) return null;
  const npm = process.env.npm_execpath; // of the npm that runs this
  const [command, ...args] = npm === undefined ? ['npm'] : [process.execPath, npm];
  const { code, output } = await run(command, [...args, 'run', 'install'], {
    cwd: path.dirname(require.resolve('better-sqlite3/package.json')),
    // as SQLite itself is built; node-gyp's -O3 takes a quarter longer
    env: { ...process.env, CFLAGS: process.env.CFLAGS ?? '-O2' },
    shell: npm === undefined && process.platform === 'win32',
  });
  const said = code === 0 ? failureOf(opens) : output;
  return said === null
    ? null
    : `SQLite's binding could not be built:\n${said.trim().split('\n').slice(-40).join('\n')}`;
}

/** Resolves to what went wrong, or null. */
async function buildAddon() {
  const started = Date.now();
  const cmakeJs = require.resolve('cmake-js/bin/cmake-js');
  const options = {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      CMAKE_BUILD_PARALLEL_LEVEL:
        process.env.CMAKE_BUILD_PARALLEL_LEVEL ?? String(availableParallelism()),
      // CMake calls `node`; it must be this one.
      PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH ?? ''}`,
    },
  };
  // SQLite is one long compilation, which decides when both have ended: it has a processor for
  // itself.
  const last = (pid) => setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL);
  const { code } = await run(
    process.execPath,
    [cmakeJs, 'compile', '--directory', root],
    options,
    last,
  );
  if (code !== 0) return 'the addon could not be built; the lines above say why';
  if (!loads(path.join(root, 'build', 'Release', 'isopro_native.node')))
    return 'the addon was built but cannot be loaded; please report this with the lines above';
  console.log(`isopro-native: built the addon in ${Math.round((Date.now() - started) / 1000)} s`);
  return null;
}

const prebuilt = path.join(
  root,
  'prebuilds',
  `${process.platform}-${process.arch}`,
  'isopro_native.node',
);
if (!fromSource && loads(prebuilt)) {
  console.log(`isopro-native: using the prebuilt addon for ${process.platform}-${process.arch}`);
  const wrong = await installSqlite();
  if (wrong !== null) fail(wrong);
  process.exit(0);
}

if (!['cmake-js', 'node-addon-api', 'node-llama-cpp'].every(isInstalled))
  fail(
    'the addon is compiled on this machine, with packages that were left out or failed: install again without --omit=optional',
  );

const missing = inspectToolchain().filter(({ found }) => found === null);
for (const { tool, remedy } of missing) {
  console.error(
    `isopro-native: ${tool} was not found, and the addon is compiled on this machine; get it with: ${remedy}`,
  );
}
if (missing.length > 0) fail('install the above and run npm install again');

// both to their ends: a compiler that is left alone would go on behind npm's back
const ended = await Promise.allSettled([buildAddon(), installSqlite()]);
const wrong = ended
  .map(({ value, reason }) => value ?? reason?.message ?? null)
  .filter((each) => each !== null);
if (wrong.length > 0) fail(wrong.join('\nisopro-native: '));
