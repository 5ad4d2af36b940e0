import { offAbort, onAbort } from '../abort.js';
import { abortError } from '../errors.js';
import type { VerifyContext } from './task.js';

/** Time limit of a task that declares none, in seconds. */
export const VERIFY_SECONDS = 5;

/**
 * Context of `verify`. The signal is created on first use: most verifiers never read it, and
 * creating it takes longer than the fastest of them.
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
 * Returns what a verifier finds, or null if it takes too long. Its watch stops when the time is
 * over or `signal` fires; the call still waits until the verifier ends. An untrusted verifier runs
 * in a thread that can be ended (`TaskThread`).
 * @param signal cancels the call
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
