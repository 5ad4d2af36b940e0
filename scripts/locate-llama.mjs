// Prints three lines for native/llama.cmake: the llama.cpp git bundle, its release, and the folder
// of the shared libraries that node-llama-cpp ships for this platform (an empty line where it ships
// none).
import { existsSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Folder of a package as a module in `from` would find it: nested, beside it or hoisted above; null
 * where absent.
 */
function packageFolder(name, from) {
  for (const base of createRequire(from).resolve.paths(name) ?? []) {
    const folder = path.join(base, ...name.split('/'));
    if (existsSync(path.join(folder, 'package.json'))) return realpathSync(folder);
  }
  return null;
}

export function locateLlama(platform = process.platform, arch = process.arch) {
  const nodeLlamaCpp = packageFolder('node-llama-cpp', import.meta.url);
  if (nodeLlamaCpp === null) throw new Error('node-llama-cpp is not installed: run npm install');
  const llama = path.join(nodeLlamaCpp, 'llama');
  const release = JSON.parse(readFileSync(path.join(llama, 'llama.cpp.info.json'), 'utf8')).tag;
  const candidates =
    {
      'darwin-arm64': ['mac-arm64-metal'],
      'darwin-x64': ['mac-x64'],
      'linux-x64': ['linux-x64'],
      'linux-arm64': ['linux-arm64'],
      'linux-arm': ['linux-armv7l'],
      'win32-x64': ['win-x64'],
      'win32-arm64': ['win-arm64'],
    }[`${platform}-${arch}`] ?? [];
  for (const candidate of candidates) {
    // The platform's package depends on node-llama-cpp's place, not on ours (pnpm keeps it beside
    // node-llama-cpp only).
    const folder = packageFolder(
      `@node-llama-cpp/${candidate}`,
      path.join(nodeLlamaCpp, 'package.json'),
    );
    if (folder === null) continue;
    const libraries = path.join(folder, 'bins', candidate);
    if (existsSync(libraries) && readdirSync(libraries).some((name) => name.includes('llama'))) {
      return { bundle: path.join(llama, 'gitRelease.bundle'), release, libraries };
    }
  }
  return { bundle: path.join(llama, 'gitRelease.bundle'), release, libraries: '' };
}

if (
  process.argv[1] !== undefined &&
  realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)
) {
  const { bundle, release, libraries } = locateLlama();
  process.stdout.write(`${bundle}\n${release}\n${libraries}\n`);
}
