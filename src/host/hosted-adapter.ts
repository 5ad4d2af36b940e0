/** A handle on an adapter that a host has loaded. */
import type { Adapter } from '../engine/adapter.js';
import { IsoproError } from '../errors.js';
import type { Held } from './shared-values.js';

export interface LoadedAdapter {
  readonly adapter: Adapter;
  readonly bytes: number;
  readonly giveBack: () => void;
}

export class HostedAdapter {
  /** SHA-256 of the file, in hexadecimal. */
  readonly id: string;
  readonly path: string;
  readonly #held: Held<LoadedAdapter>;
  readonly #onDispose: (adapter: HostedAdapter) => void;
  #disposed = false;

  /** @internal Use HostedModel.loadAdapter. */
  constructor(held: Held<LoadedAdapter>, onDispose: (adapter: HostedAdapter) => void) {
    this.#held = held;
    this.#onDispose = onDispose;
    this.id = held.value.adapter.id;
    this.path = held.value.adapter.path;
  }

  /** @internal @throws IsoproError OBJECT_DISPOSED */
  adapter(): Adapter {
    if (this.#disposed) throw new IsoproError('OBJECT_DISPOSED', 'the adapter has been disposed');
    return this.#held.value.adapter;
  }

  /** Releases the handle; running replies finish with the adapter. Safe to call repeatedly. */
  dispose(): Promise<void> {
    this.#disposed = true;
    this.#onDispose(this);
    return this.#held.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
