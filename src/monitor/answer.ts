/** Waits for foreign code to answer: for as long as it may take, and whatever it throws. */
import { offAbort, onAbort } from '../abort.js';
import { abortError, IsoproError } from '../errors.js';
import type { DecideOptions } from './context.js';

/** Default of the milliseconds that a policy may take. */
export const DEFAULT_POLICY_TIMEOUT = 60_000;

export interface AnswerLimits {
  readonly signal?: AbortSignal;
  /** Milliseconds. Default 60,000. */
  readonly timeout?: number;
}

const REASON_LENGTH = 1000;

/** Returns text for the log from a value that foreign code threw. */
export function wordsOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown)
      .slice(0, REASON_LENGTH)
      .toWellFormed();
  } catch {
    return 'a value that cannot be converted to text';
  }
}

const cancelled = (signal: AbortSignal | undefined): IsoproError =>
  abortError('the run was cancelled while its policy decided', signal);

/**
 * @param name of the policy
 * @throws IsoproError ABORTED, POLICY_FAILED, POLICY_TIMEOUT
 */
export async function answerWithin<A>(
  name: string,
  answerer: (options: DecideOptions) => A | Promise<A>,
  { signal, timeout = DEFAULT_POLICY_TIMEOUT }: AnswerLimits,
): Promise<A> {
  if (signal?.aborted === true) throw cancelled(signal);
  const late = (): IsoproError =>
    new IsoproError('POLICY_TIMEOUT', `the policy ${name} did not answer within ${timeout} ms`);
  const over = new AbortController();
  const asked = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let abort: (() => void) | undefined;
  const ending = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), timeout);
    abort = (): void => reject(cancelled(signal));
    onAbort(signal, abort);
  });
  try {
    const answer = await Promise.race([
      (async () => answerer({ signal: over.signal, timeout }))().catch((cause: unknown) => {
        throw new IsoproError('POLICY_FAILED', `the policy ${name} threw: ${wordsOf(cause)}`, {
          cause,
        });
      }),
      ending,
    ]);
    // a policy that blocked the event loop also delayed its timer
    if (performance.now() - asked > timeout) throw late();
    return answer;
  } finally {
    clearTimeout(timer);
    if (abort !== undefined) offAbort(signal, abort);
    over.abort();
  }
}
