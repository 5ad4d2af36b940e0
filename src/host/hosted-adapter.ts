/** A handle on an adapter that a host has loaded. */
import type { Adapter } from '../engine/adapter.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
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
  /** True if it acts from the reply on, and not on the prompt before it. */
  readonly actsFromReply: boolean;
  readonly #held: Held<LoadedAdapter>;
  readonly #onDispose: (adapter: HostedAdapter) => void;
  #disposed = false;

  /** @internal Use HostedModel.loadAdapter. */
  constructor(held: Held<LoadedAdapter>, onDispose: (adapter: HostedAdapter) => void) {
    this.#held = held;
    this.#onDispose = onDispose;
    this.id = held.value.adapter.id;
    this.path = held.value.adapter.path;
    this.actsFromReply = held.value.adapter.actsFromReply;
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

/**
 * Checks that a conversation has no earlier reply, if the adapter acts from the reply on: it acts
 * from the last one on, so that the earlier ones would be read without it.
 * @throws IsoproError INVALID_ARGUMENT
 */
export function requireFirstTurn(
  adapter: Pick<HostedAdapter, 'actsFromReply'> | null | undefined,
  messages: readonly Pick<ChatMessage, 'role'>[],
): void {
  if (adapter?.actsFromReply !== true || !messages.some(({ role }) => role === 'assistant')) return;
  throw new IsoproError(
    'INVALID_ARGUMENT',
    'the adapter acts from the reply on, so it answers the first turn of a conversation only',
    {
      remedy:
        'Start a new conversation for each question, or use an adapter that acts on every token.',
    },
  );
}
