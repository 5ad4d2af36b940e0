import type { ChildProcess } from 'node:child_process';
import { IsoproError } from './errors.js';

/**
 * A process with pipes, begun by `start`. Where no descriptor is free Node gives one without any, and says why in an event of the next
 * turn, which would end this process if nobody heard it.
 * @throws IsoproError SYSTEM_LIMIT
 */
export function startChild<T extends ChildProcess>(start: () => T): T {
  let child: T;
  try {
    child = start();
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    throw new IsoproError('SYSTEM_LIMIT', `the system started no further process: ${(cause as Error).message}`, { cause });
  }
  if ((child.stdout as unknown) != null) return child;
  child.on('error', () => undefined);
  throw new IsoproError('SYSTEM_LIMIT', 'the system started no further process: no file descriptor is free for its pipes');
}
