// `npm run package`: the published form of this package, in build/package/, out of prebuilds/ (`npm
// run prebuild`): installing it compiles nothing, downloads nothing but packages, and runs no
// script. Compared with `npm pack` of a clone it is without what only a build needs; SQLite's
// binding lies in it, where its package would compile or fetch one at the install; and of ECharts
// the one file that is used.
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const prebuilds = path.join(root, 'prebuilds');
const place = path.join(root, 'build', 'package');
const stage = path.join(place, 'stage');
const BUILD_ONLY = /^(native|scripts)\/|^(CMakeLists\.txt|bindings\.gyp)$/;
/** NODE_MODULE_VERSION of the release lines that are meant to be used for long. */
const NODE_OF_ABI = { 115: 20, 127: 22, 137: 24 };

function npm(args, cwd) {
  const result = spawnSync('npm', args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    shell: process.platform === 'win32',
  });
  if (result.status !== 0)
    throw new Error(`npm ${args.join(' ')} failed: ${result.error?.message ?? result.stderr}`);
  return result.stdout;
}

/**
 * A package's manifest as it is where nothing of it is left to be built and all that it imports
 * lies beside it.
 */
function bundle(name, files, { dependencies = {} } = {}) {
  const from = path.dirname(require.resolve(`${name}/package.json`));
  const to = path.join(stage, 'node_modules', name);
  for (const file of files) cpSync(path.join(from, file), path.join(to, file), { recursive: true });
  const { version, description, license, main, type, exports } = JSON.parse(
    readFileSync(path.join(from, 'package.json'), 'utf8'),
  );
  writeFileSync(
    path.join(to, 'package.json'),
    JSON.stringify(
      { name, version, description, license, main, type, exports, dependencies },
      null,
      2,
    ),
  );
  return to;
}

const platforms = existsSync(prebuilds) ? readdirSync(prebuilds) : [];
const bindings = platforms.flatMap((platform) =>
  readdirSync(path.join(prebuilds, platform)).flatMap((file) => {
    const abi = /^better_sqlite3-node-v(\d+)\.node$/.exec(file)?.[1];
    return abi === undefined ? [] : [{ platform, file, abi }];
  }),
);
if (
  !platforms.every((platform) => bindings.some((binding) => binding.platform === platform)) ||
  platforms.length === 0
) {
  console.error(
    'isopro-native: prebuilds/ lacks the addon or the binding of SQLite: run npm run prebuild first',
  );
  process.exit(1);
}

rmSync(place, { recursive: true, force: true });
const [{ files }] = JSON.parse(npm(['pack', '--dry-run', '--json', '--ignore-scripts'], root));
for (const { path: file } of files) {
  if (
    file === 'package.json' ||
    BUILD_ONLY.test(file) ||
    /^prebuilds\/.*\/better_sqlite3-/.test(file)
  )
    continue;
  mkdirSync(path.dirname(path.join(stage, file)), { recursive: true });
  cpSync(path.join(root, file), path.join(stage, file));
}

bundle('echarts', ['dist/echarts.esm.min.mjs', 'LICENSE', 'NOTICE', 'licenses']);
bundle('file-uri-to-path', ['index.js', 'LICENSE']);
bundle('bindings', ['bindings.js', 'LICENSE.md'], { dependencies: { 'file-uri-to-path': '*' } });
const sqlite = bundle('better-sqlite3', ['lib', 'LICENSE'], { dependencies: { bindings: '*' } });
// Where `bindings` looks last.
for (const { platform, file, abi } of bindings)
  cpSync(
    path.join(prebuilds, platform, file),
    path.join(sqlite, 'lib', 'binding', `node-v${abi}-${platform}`, 'better_sqlite3.node'),
  );

const {
  scripts,
  files: _,
  devDependencies,
  allowScripts,
  binary,
  optionalDependencies,
  ...manifest
} = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const releases = [...new Set(bindings.map(({ abi }) => NODE_OF_ABI[abi]))]
  .filter(Boolean)
  .sort((a, b) => a - b);
const parts = platforms.map((platform) => platform.split('-'));
writeFileSync(
  path.join(stage, 'package.json'),
  JSON.stringify(
    {
      ...manifest,
      engines: {
        node: releases.map((release) => (release === 20 ? '^20.17' : `${release}.x`)).join(' || '),
      },
      os: [...new Set(parts.map(([os]) => os))],
      cpu: [...new Set(parts.map(([, cpu]) => cpu))],
      bundleDependencies: ['better-sqlite3', 'bindings', 'echarts', 'file-uri-to-path'],
      optionalDependencies: { 'or-tools-wasm': optionalDependencies['or-tools-wasm'] },
      // What `doctor --selftest` and `bench rollout` compare with; nothing else asks for it.
      peerDependencies: {
        ...manifest.peerDependencies,
        'node-llama-cpp': optionalDependencies['node-llama-cpp'],
      },
      peerDependenciesMeta: {
        ...manifest.peerDependenciesMeta,
        'node-llama-cpp': { optional: true },
      },
    },
    null,
    2,
  ),
);
const [packed] = JSON.parse(
  npm(['pack', '--json', '--ignore-scripts', '--pack-destination', place], stage),
);
rmSync(stage, { recursive: true, force: true });
console.log(path.join(place, packed.filename));
