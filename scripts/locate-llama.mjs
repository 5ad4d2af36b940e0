// Prints three lines for native/llama.cmake: the llama.cpp git bundle, its release, and the folder of the shared
// libraries that node-llama-cpp ships for this platform (an empty line where it ships none).
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(import.meta.url);

/** Folder of an installed package, found through its entry point, or null. */
function packageFolder(name) {
  const parts = name.split('/');
  for (const base of require.resolve.paths(name) ?? []) {
    const folder = path.join(base, ...parts);
    if (existsSync(path.join(folder, 'package.json'))) return folder;
  }
  return null;
}

export function locateLlama(platform = process.platform, arch = process.arch) {
  const nodeLlamaCpp = packageFolder('node-llama-cpp');
  if (nodeLlamaCpp === null) throw new Error('node-llama-cpp is not installed: run npm install');
  const llama = path.join(nodeLlamaCpp, 'llama');
  const release = JSON.parse(readFileSync(path.join(llama, 'llama.cpp.info.json'), 'utf8')).tag;
  const candidates = {
    'darwin-arm64': ['mac-arm64-metal'],
    'darwin-x64': ['mac-x64'],
    'linux-x64': ['linux-x64'],
    'linux-arm64': ['linux-arm64'],
    'linux-arm': ['linux-armv7l'],
    'win32-x64': ['win-x64'],
    'win32-arm64': ['win-arm64'],
  }[`${platform}-${arch}`] ?? [];
  for (const candidate of candidates) {
    const folder = packageFolder(`@node-llama-cpp/${candidate}`);
    if (folder === null) continue;
    const libraries = path.join(folder, 'bins', candidate);
    if (existsSync(libraries) && readdirSync(libraries).some((name) => name.includes('llama'))) {
      return { bundle: path.join(llama, 'gitRelease.bundle'), release, libraries };
    }
  }
  return { bundle: path.join(llama, 'gitRelease.bundle'), release, libraries: '' };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { bundle, release, libraries } = locateLlama();
  process.stdout.write(`${bundle}\n${release}\n${libraries}\n`);
}
