/**
 * Code is compiled within ten calls of a few milliseconds, and a loaded machine takes its part of
 * them.
 */
const REPEATS = 25;

/**
 * What a call returns and how long it takes, in milliseconds. Another process may take the core
 * away for longer than the limit, and code that ran seldom is not compiled yet: where the first
 * call reaches it, its own cost is the best of several.
 */
export function ownCost<T>(call: () => T, limit: number): { result: T; elapsed: number } {
  const started = performance.now();
  const result = call();
  let elapsed = performance.now() - started;
  for (let repeat = 0; repeat < REPEATS && elapsed >= limit; repeat++) {
    const again = performance.now();
    call();
    elapsed = Math.min(elapsed, performance.now() - again);
  }
  return { result, elapsed };
}
