/**
 * Finds the modules that decide results by their imports. It reads the built files, so the result
 * is the same in a clone and in an installed package.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { canonicalJson } from '../canonical-json.js';

/** Lines of comments, which may show an import. */
const COMMENTS = /^\s*(?:\/\/|\/\*|\* ).*$/gm;
/**
 * Imports and exports with a source, side effects; dynamic imports; modules that are started as
 * threads or processes. The URL of a module that is not started is not an import: it tells a user's
 * task where the public API is.
 */
const REFERENCES = [
  /\b(?:from|import)\s*(['"])(\.[^'"]*)\1/g,
  /\bimport\(\s*(['"])(\.[^'"]*)\1\s*\)/g,
  /\b(?:startThread|fileURLToPath)\(\s*new URL\(\s*(['"])(\.[^'"]*\.js)\1/g,
];

/** Reads a file; null if it does not exist, since text may look like an import. */
function read(file: string): Buffer | null {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/**
 * The modules and all that they import or start, directly or not, with their bytes; in the order of
 * their paths, which are relative to the folder and have slashes.
 * @param folder of built modules
 * @param roots paths in it
 */
export function coveredModules(folder: string, roots: readonly string[]): Map<string, Buffer> {
  const covered = new Map<string, Buffer>();
  const open = [...roots];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (covered.has(file)) continue;
    const bytes = read(path.join(folder, file));
    if (bytes === null) continue;
    covered.set(file, bytes);
    const text = bytes.toString('utf8').replace(COMMENTS, '');
    for (const pattern of REFERENCES)
      for (const [, , target] of text.matchAll(pattern))
        open.push(path.posix.join(path.posix.dirname(file), target!));
  }
  return new Map([...covered].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Returns the SHA-256 over paths and contents of the covered modules.
 * @param roots as coveredModules
 */
export const hashModules = (folder: string, roots: readonly string[]): string =>
  hash(
    'sha256',
    canonicalJson(
      [...coveredModules(folder, roots)].map(([file, bytes]) => [file, hash('sha256', bytes)]),
    ),
  );
