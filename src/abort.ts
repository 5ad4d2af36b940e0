/**
 * One listener a signal, however many wait for it: from the eleventh on Node warns of a leak, and a
 * caller may give one to any number.
 */
const waiting = new WeakMap<
  AbortSignal,
  { readonly all: Set<() => void>; readonly tell: () => void }
>();

/** Harmless without a signal, and for one that was aborted before. */
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

/** Harmless where it does not wait. */
export function offAbort(signal: AbortSignal | undefined, hear: () => void): void {
  const entry = signal && waiting.get(signal);
  if (entry?.all.delete(hear) !== true || entry.all.size > 0) return;
  signal!.removeEventListener('abort', entry.tell);
  waiting.delete(signal!);
}
