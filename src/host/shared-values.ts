/**
 * Values under keys: each is opened once, whoever asks for it, and closed when the last of them
 * lets go.
 */
import { offAbort, onAbort } from '../abort.js';
import { abortError } from '../errors.js';

/** Functions that open and close a value. */
export interface Opening<T> {
  /** @param signal aborted when nobody wants the value any more */
  open(signal: AbortSignal): Promise<T>;
  close(value: T): Promise<void>;
}

export interface Held<T> {
  readonly value: T;
  /** Resolves when the value is closed, or at once where others hold it; harmless when repeated. */
  release(): Promise<void>;
}

interface Entry<T> {
  references: number;
  readonly value: Promise<T>;
  readonly abandon: AbortController;
  opened?: T;
}

export class SharedValues<T> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #closing = new Map<string, Promise<void>>();

  /** Returns the open values. */
  values(): { readonly value: T; readonly references: number }[] {
    return [...this.#entries.values()].flatMap(({ opened, references }) =>
      opened === undefined ? [] : [{ value: opened, references }],
    );
  }

  /** @throws IsoproError ABORTED, and what `open` throws */
  async hold(key: string, opening: Opening<T>, signal?: AbortSignal): Promise<Held<T>> {
    if (signal?.aborted === true) throw abortError('the operation was cancelled', signal);
    const entry = this.#entries.get(key) ?? this.#open(key, opening);
    entry.references++;
    let released: Promise<void> | undefined;
    const release = (): Promise<void> => (released ??= this.#release(key, entry, opening));
    let abort = (): void => {};
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(abortError('the load was cancelled', signal));
    });
    onAbort(signal, abort);
    try {
      return { value: await Promise.race([entry.value, aborted]), release };
    } catch (error) {
      void release();
      throw error;
    } finally {
      offAbort(signal, abort);
    }
  }

  #open(key: string, opening: Opening<T>): Entry<T> {
    const abandon = new AbortController();
    const opened = Promise.resolve(this.#closing.get(key)).then(() => opening.open(abandon.signal));
    const entry: Entry<T> = { references: 0, value: opened, abandon };
    this.#entries.set(key, entry);
    opened.then(
      (value) => (entry.opened = value),
      () => this.#forget(key, entry),
    );
    return entry;
  }

  async #release(key: string, entry: Entry<T>, opening: Opening<T>): Promise<void> {
    if (--entry.references > 0) return;
    this.#forget(key, entry);
    entry.abandon.abort();
    // Whoever asks for it again waits until this one is gone.
    const closing = entry.value.then((value) => opening.close(value)).catch(() => undefined);
    this.#closing.set(key, closing);
    await closing;
    if (this.#closing.get(key) === closing) this.#closing.delete(key);
  }

  #forget(key: string, entry: Entry<T>): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
  }
}
