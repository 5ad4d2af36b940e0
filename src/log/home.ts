import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/**
 * Where keys and heads are kept: `$ISOPRO_HOME`, else `~/.isopro`. Not the cache folder, where
 * models lie without ISOPRO_HOME: caches are emptied, and a key that is gone leaves its runs
 * without an owner.
 */
export function isoproHome(): string {
  const home = process.env.ISOPRO_HOME;
  return home === undefined || home === '' ? join(homedir(), '.isopro') : resolve(home);
}

/** Key, heads and tickets of the local witness. */
export const witnessFolder = (home = isoproHome()): string => join(home, 'witness');
