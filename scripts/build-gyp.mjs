// `npm run build:gyp`: builds the addon through bindings.gyp. node-gyp itself reads only a file
// called binding.gyp, so this calls the gyp inside it (npm carries one and names it to its
// scripts).
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const nodeGyp = process.env.npm_config_node_gyp;
const gyp =
  nodeGyp === undefined ? '' : path.join(path.dirname(nodeGyp), '..', 'gyp', 'gyp_main.py');
if (!existsSync(gyp)) {
  console.error('isopro-native: no gyp was found; run this as `npm run build:gyp`');
  process.exit(1);
}
const python =
  process.env.npm_config_python ?? (process.platform === 'win32' ? 'python' : 'python3');
const [format, ...build] =
  process.platform === 'win32'
    ? ['msvs', 'msbuild', 'build\\gyp\\bindings.sln']
    : ['make', 'make', '-C', 'build/gyp'];
for (const [command, ...args] of [
  [python, gyp, 'bindings.gyp', '--depth=.', '-f', format, '--generator-output=build/gyp'],
  build,
]) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (error !== undefined)
    console.error(
      `isopro-native: ${command} could not be run (${error.message}); gyp needs Python 3 and ` +
        `${format === 'make' ? 'make' : 'Visual Studio'}`,
    );
  if (status !== 0) process.exit(status ?? 1);
}
