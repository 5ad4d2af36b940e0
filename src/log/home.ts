import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** Where this program keeps what outlives a run: `$ISOPRO_HOME`, else `~/.isopro`. */
export function isoproHome(): string {
  const home = process.env.ISOPRO_HOME;
  return home === undefined || home === '' ? join(homedir(), '.isopro') : resolve(home);
}

/** Key, heads and tickets of the local witness. */
export const witnessFolder = (home = isoproHome()): string => join(home, 'witness');
