import type { ChildProcess } from 'node:child_process';
import { IsoproError } from './errors.js';

/**
 * A process with pipes, begun by `start`. Where no descriptor is free Node gives one without any,
 * and says why in an event of the next turn, which would end this process if nobody heard it.
 * @throws IsoproError SYSTEM_LIMIT; INVALID_ARGUMENT for arguments that no process can be given
 */
export function startChild<T extends ChildProcess>(start: () => T): T {
  let child: T;
  try {
    child = start();
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException;
    if (['ERR_INVALID_ARG_VALUE', 'E2BIG'].includes(code))
      throw new IsoproError('INVALID_ARGUMENT', `invalid arguments for a process: ${message}`, {
        cause,
      });
    throw new IsoproError('SYSTEM_LIMIT', `the system could not start a process: ${message}`, {
      cause,
    });
  }
  if ((child.stdout as unknown) != null) return child;
  child.on('error', () => undefined);
  throw new IsoproError(
    'SYSTEM_LIMIT',
    'the system could not start a process: no file descriptor is free for its pipes',
  );
}
