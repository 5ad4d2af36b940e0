// npm writes only those optional packages of other platforms into package-lock.json that its
// registry serves; a mirror that holds one platform's leaves a lock that `npm ci` refuses and that
// lacks the Mac's llama.cpp. This adds what is missing, from the exact versions that the packages
// themselves name. Run it after `npm install` has changed the lock.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** npm's `os`, `cpu` and `libc` of a package that names its platform at the end of its name. */
function platformOf(name) {
  const words = name.split('/').at(-1).split('-');
  const os = {
    mac: 'darwin',
    darwin: 'darwin',
    win: 'win32',
    win32: 'win32',
    linux: 'linux',
    freebsd: 'freebsd',
    android: 'android',
    openharmony: 'openharmony',
  };
  const cpu = {
    arm64: 'arm64',
    x64: 'x64',
    ia32: 'ia32',
    arm: 'arm',
    armv7l: 'arm',
    ppc64: 'ppc64',
    s390x: 's390x',
    riscv64: 'riscv64',
    loong64: 'loong64',
    wasm32: 'wasm32',
  };
  const libc = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl', musleabihf: 'musl' };
  const pick = (table) =>
    words.filter((word) => Object.hasOwn(table, word)).map((word) => table[word]);
  const platform = { cpu: pick(cpu), libc: pick(libc), os: pick(os) };
  if (platform.cpu.length !== 1 || platform.os.length > 1)
    throw new Error(`${name} does not name its platform`);
  return Object.fromEntries(Object.entries(platform).filter(([, values]) => values.length > 0));
}

/**
 * Names and exact versions of optional dependencies that the lock has no entry for, with the
 * package that wants them.
 */
export function missingOptionalPackages(lock) {
  const missing = [];
  for (const [place, entry] of Object.entries(lock.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      // Where node would look from `place`: nested, then in each node_modules above.
      const parts = place === '' ? [] : place.split('/node_modules/');
      const candidates = parts
        .map(
          (_, depth) => `${parts.slice(0, depth + 1).join('/node_modules/')}/node_modules/${name}`,
        )
        .concat(`node_modules/${name}`);
      if (!candidates.some((candidate) => candidate in lock.packages))
        missing.push({ name, version, dev: entry.dev === true });
    }
  }
  return missing;
}

function completeLock(file) {
  const lock = JSON.parse(readFileSync(file, 'utf8'));
  const missing = missingOptionalPackages(lock);
  for (const { name, version, dev } of missing) {
    if (!/^\d/.test(version))
      throw new Error(`${name} is wanted as ${version}, which is not one version`);
    lock.packages[`node_modules/${name}`] = {
      version,
      ...(dev ? { dev } : {}),
      optional: true,
      ...platformOf(name),
    };
  }
  const sorted = Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en'));
  lock.packages = Object.fromEntries(sorted);
  writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
  console.log(`added ${missing.length} packages of other platforms`);
}

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
if (process.argv[1] === fileURLToPath(import.meta.url))
  completeLock(path.join(root, 'package-lock.json'));
