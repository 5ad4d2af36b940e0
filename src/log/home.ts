import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/**
 * Returns the folder of keys and heads: `$ISOPRO_HOME`, else `~/.isopro`. It is not the cache
 * folder that holds models without ISOPRO_HOME: caches are emptied, and a missing key leaves its
 * runs without an owner.
 */
export function isoproHome(): string {
  const home = process.env.ISOPRO_HOME;
  return home === undefined || home === '' ? join(homedir(), '.isopro') : resolve(home);
}

/** Returns the folder of the local witness's key, heads and tickets. */
export const witnessFolder = (home = isoproHome()): string => join(home, 'witness');
