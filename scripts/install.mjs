// Runs at `npm install`: takes the prebuilt addon of this platform where there is one that loads, else builds it.
// npm shows the output of a dependency's install script only when it fails (or with --foreground-scripts).
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspectToolchain } from './toolchain.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const fromSource = process.env.ISOPRO_LLAMA_FROM_SOURCE === '1';

/** Whether an addon loads, tried in a process of its own. */
function loads(file) {
  if (!existsSync(file)) return false;
  const trial = spawnSync(process.execPath, ['-e', 'require(process.argv[1])', file], { encoding: 'utf8' });
  if (trial.status === 0) return true;
  const reason = trial.stderr.split('\n').find((line) => line.includes('Error')) ?? trial.signal ?? 'unknown';
  console.error(`isopro-native: ${path.relative(root, file)} does not load here (${reason.trim()})`);
  return false;
}

/** Whether a package is installed where this one would find it. */
function isInstalled(name) {
  return require.resolve.paths(name).some((base) => existsSync(path.join(base, name, 'package.json')));
}

function fail(message) {
  console.error(`isopro-native: ${message}`);
  process.exit(1);
}

const prebuilt = path.join(root, 'prebuilds', `${process.platform}-${process.arch}`, 'isopro_native.node');
if (!fromSource && loads(prebuilt)) {
  console.log(`isopro-native: using the prebuilt addon for ${process.platform}-${process.arch}`);
  process.exit(0);
}

if (!['cmake-js', 'node-addon-api', 'node-llama-cpp'].every(isInstalled))
  fail('the addon is compiled on this machine, with packages that were left out or failed: install again without --omit=optional');
const cmakeJs = require.resolve('cmake-js/bin/cmake-js');

const missing = inspectToolchain().filter(({ found }) => found === null);
for (const { tool, remedy } of missing) {
  console.error(`isopro-native: ${tool} was not found, and the addon is compiled on this machine; get it with: ${remedy}`);
}
if (missing.length > 0) fail('install the above and run npm install again');

const started = Date.now();
const build = spawnSync(process.execPath, [cmakeJs, 'compile', '--directory', root], {
  cwd: root,
  stdio: 'inherit',
  env: {
    ...process.env,
    CMAKE_BUILD_PARALLEL_LEVEL: process.env.CMAKE_BUILD_PARALLEL_LEVEL ?? String(availableParallelism()),
    // CMake calls `node`; it must be this one.
    PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH ?? ''}`,
  },
});
if (build.status !== 0) fail('the addon could not be built; the lines above say why');
if (!loads(path.join(root, 'build', 'Release', 'isopro_native.node')))
  fail('the addon was built but cannot be loaded; please report this with the lines above');
console.log(`isopro-native: built the addon in ${Math.round((Date.now() - started) / 1000)} s`);
