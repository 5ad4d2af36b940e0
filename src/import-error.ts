import { existsSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from './errors.js';

/** Node says that a package is not there where the system opened none of its files. */
export function asImportError(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  const named =
    code === 'ERR_MODULE_NOT_FOUND' ? /^Cannot find \w+ '([^']+)'/.exec(message)?.[1] : undefined;
  if (named === undefined || !path.isAbsolute(named) || !existsSync(path.dirname(named)))
    return error;
  return new IsoproError(
    'SYSTEM_LIMIT',
    `${path.dirname(named)} cannot be read: too many open files`,
    { cause: error },
  );
}
