// `npm run prebuild`: builds the addon and puts it, with the llama.cpp libraries beside it, into
// prebuilds/<platform>-<arch>/, where the loader and `npm install` look first. Ship that folder in the package.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
const build = spawnSync(process.execPath, [cmakeJs, 'compile', '--directory', root], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, ISOPRO_PREBUILD: '1' },
});
if (build.status !== 0) process.exit(build.status ?? 1);

const from = path.join(root, 'build', 'Release');
const to = path.join(root, 'prebuilds', `${process.platform}-${process.arch}`);
rmSync(to, { recursive: true, force: true });
mkdirSync(to, { recursive: true });
for (const name of readdirSync(from)) {
  if (name === 'isopro_native.node' || /\.(so|dylib|dll|metal|metallib)$/.test(name))
    copyFileSync(path.join(from, name), path.join(to, name));
}
console.log(`isopro-native: wrote ${path.relative(root, to)}`);
