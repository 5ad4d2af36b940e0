import { Worker, type WorkerOptions } from 'node:worker_threads';
import { IsoproError } from './errors.js';
import { childEnvironment } from './keys.js';

/**
 * A thread of this package's own script. Node's own flags, --input-type for one, are the caller's
 * and not that file's, so none is inherited. Its environment is this program's as it is now,
 * without keys: what judges replies runs in one. @throws IsoproError SYSTEM_LIMIT
 */
export function startThread(script: URL, options: WorkerOptions = {}): Worker {
  try {
    return new Worker(script, { env: childEnvironment(), ...options, execArgv: [] });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_WORKER_INIT_FAILED') throw cause;
    throw new IsoproError(
      'SYSTEM_LIMIT',
      `the system could not start a thread: ${(cause as Error).message}`,
      { cause },
    );
  }
}
