#!/usr/bin/env node
import { existsSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../errors.js';
import { JOB_VARIABLE } from '../jobs/queue/job-variable.js';
import { reportFailure } from './output.js';

/** Node says that a package is not there where the system opened none of its files. */
function asImportError(error: unknown): unknown {
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

/**
 * The program is many files: where the system opens no more of them, that is said as any other
 * failure is.
 */
try {
  if (process.env[JOB_VARIABLE] !== undefined) await (await import('./job-channel.js')).admitted();
  const { commandLine } = await import('./command-line.js');
  await commandLine(process.argv.slice(2));
} catch (error) {
  process.exitCode = reportFailure(asImportError(error), process.argv.includes('--json'));
}
