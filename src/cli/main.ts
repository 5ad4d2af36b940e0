#!/usr/bin/env node
import { asImportError } from '../import-error.js';
import { reportFailure } from './output.js';

/**
 * The program is many files: where the system opens no more of them, that is said as any other
 * failure is.
 */
try {
  const { commandLine } = await import('./command-line.js');
  await commandLine(process.argv.slice(2));
} catch (error) {
  process.exitCode = reportFailure(asImportError(error), process.argv.includes('--json'));
}
