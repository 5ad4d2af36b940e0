import { offAbort, onAbort } from '../abort.js';
import { abortError } from '../errors.js';
import type { VerifyContext } from './task.js';

/** Of a task that declares no limit. */
export const VERIFY_SECONDS = 5;

/**
 * What `verify` is given. The signal is made when it is asked for: most verifiers never do, and the
 * fastest would wait longer for it.
 */
export class Watch implements VerifyContext {
  #controller: AbortController | undefined;
  #stopped = false;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#stopped) this.#controller.abort();
    return this.#controller.signal;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  stop(): void {
    this.#stopped = true;
    this.#controller?.abort();
  }
}

/**
 * What a verifier finds, or null where it does not find it in time. It is told by its watch when
 * its time is over or nobody waits any more, and is waited for until it ends: a verifier that is
 * not to be trusted with that runs in a thread that can be ended (`TaskThread`).
 * @param signal of who waits
 * @throws IsoproError ABORTED, and what `found` is rejected with
 */
export async function inTime<T>(
  found: Promise<T>,
  watch: Watch,
  seconds: number,
  signal?: AbortSignal,
): Promise<T | null> {
  const stop = (): void => watch.stop();
  const started = performance.now();
  const timer = setTimeout(stop, 1000 * seconds);
  onAbort(signal, stop);
  if (signal?.aborted === true) stop();
  let result: T | undefined;
  let failure: unknown;
  try {
    result = await found;
  } catch (error) {
    failure = error ?? new Error('rejected without a reason');
  } finally {
    clearTimeout(timer);
    offAbort(signal, stop);
  }
  if (signal?.aborted === true) throw abortError('judging a reply was cancelled', signal);
  // a verifier that holds its thread lets no timer run
  if (watch.stopped || performance.now() - started > 1000 * seconds) return null;
  if (failure !== undefined) throw failure;
  return result as T;
}

export const tooLate = (seconds: number): string => `it took longer than ${seconds} seconds`;
