// `npm run prebuild`: builds the addon and puts it into prebuilds/<platform>-<arch>/, where the
// loader and `npm install` look first, with the llama.cpp libraries and the binding of SQLite
// beside it. That binding is of one Node release line, unlike the addon:
// `npm run prebuild -- --headers DIR...` compiles it for those too whose headers DIR/include/node
// holds. `npm run package` makes of it what is published.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const { headers = [] } = parseArgs({
  options: { headers: { type: 'string', multiple: true } },
}).values;

function run(script, args, options = {}) {
  const { status, error } = spawnSync(process.execPath, [script, ...args], {
    stdio: 'inherit',
    ...options,
  });
  if (error !== undefined) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

/**
 * SQLite's binding for the Node release whose headers these are; npm names its own node-gyp to its
 * scripts.
 */
function compileBinding(folder, to) {
  const version = readFileSync(path.join(folder, 'include', 'node', 'node_version.h'), 'utf8');
  const abi = /^#define NODE_MODULE_VERSION (\d+)$/m.exec(version)?.[1];
  const nodeGyp = process.env.npm_config_node_gyp;
  if (abi === undefined || nodeGyp === undefined)
    throw new Error('run this as `npm run prebuild`, with the headers of a Node release');
  const copy = mkdtempSync(path.join(tmpdir(), 'isopro-sqlite-'));
  try {
    const source = path.dirname(require.resolve('better-sqlite3/package.json'));
    for (const name of ['binding.gyp', 'deps', 'src', 'package.json'])
      cpSync(path.join(source, name), path.join(copy, name), { recursive: true });
    // node-gyp takes what npm was configured with before what it is told.
    const { npm_config_nodedir: _, npm_config_target: __, ...env } = process.env;
    run(nodeGyp, ['rebuild', '--release', `--nodedir=${path.resolve(folder)}`], { cwd: copy, env });
    copyFileSync(
      path.join(copy, 'build', 'Release', 'better_sqlite3.node'),
      path.join(to, `better_sqlite3-node-v${abi}.node`),
    );
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

run(require.resolve('cmake-js/bin/cmake-js'), ['compile', '--directory', root], {
  cwd: root,
  env: { ...process.env, ISOPRO_PREBUILD: '1' },
});

const from = path.join(root, 'build', 'Release');
const to = path.join(root, 'prebuilds', `${process.platform}-${process.arch}`);
rmSync(to, { recursive: true, force: true });
mkdirSync(to, { recursive: true });
for (const name of readdirSync(from)) {
  if (name === 'isopro_native.node' || /\.(so|dylib|dll|metal|metallib)$/.test(name))
    copyFileSync(path.join(from, name), path.join(to, name));
}
const binding = path.join(
  path.dirname(require.resolve('better-sqlite3/package.json')),
  'build',
  'Release',
  'better_sqlite3.node',
);
if (existsSync(binding))
  copyFileSync(binding, path.join(to, `better_sqlite3-node-v${process.versions.modules}.node`));
for (const folder of headers) compileBinding(folder, to);
console.log(`isopro-native: wrote ${path.relative(root, to)}`);
