/**
 * One listener a signal, however many wait for it: from the eleventh on Node warns of a leak, and a
 * caller may give one to any number.
 */
const waiting = new WeakMap<
  AbortSignal,
  { readonly all: Set<() => void>; readonly tell: () => void }
>();

/** Adds a listener; does nothing without a signal, or for one that was already aborted. */
export function onAbort(signal: AbortSignal | undefined, hear: () => void): void {
  if (signal === undefined) return;
  let entry = waiting.get(signal);
  if (entry === undefined) {
    const all = new Set<() => void>();
    entry = {
      all,
      tell: () => {
        for (const each of [...all]) each();
      },
    };
    waiting.set(signal, entry);
    signal.addEventListener('abort', entry.tell, { once: true });
  }
  entry.all.add(hear);
}

/** Removes a listener; does nothing if it is not registered. */
export function offAbort(signal: AbortSignal | undefined, hear: () => void): void {
  const entry = signal && waiting.get(signal);
  if (entry?.all.delete(hear) !== true || entry.all.size > 0) return;
  signal!.removeEventListener('abort', entry.tell);
  waiting.delete(signal!);
}
