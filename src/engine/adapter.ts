import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { requireFile, unreadable } from '../files.js';
import type { NativeAdapter } from './addon.js';
import { checked } from './argument-check.js';

/**
 * @throws IsoproError INVALID_ARGUMENT, MODEL_NOT_FOUND where there is no file to load as an
 *   adapter
 */
export const requireAdapter = (path: string): void =>
  requireFile(checked(z.string().min(1), path, 'path'), 'MODEL_NOT_FOUND', false, {
    what: 'the adapter',
    remedy:
      'Give an adapter in GGUF. For a run, that is the file in its folder adapters/; `serve` and the commands also take the run itself.',
  });

/** State that the handles of one loaded adapter share. */
interface Loaded {
  readonly native: NativeAdapter;
  handles: number;
}

/**
 * A handle of a LoRA adapter loaded onto a model, which is freed with its last handle; garbage
 * collection disposes of one, too.
 */
export class Adapter {
  /** SHA-256 of the file, in hexadecimal. */
  readonly id: string;
  readonly path: string;
  /** True if it acts from the reply on, and not on the prompt before it. */
  readonly actsFromReply: boolean;
  readonly #loaded: Loaded;
  #disposed = false;

  /** @internal Use Model.loadAdapter. */
  constructor(loaded: Loaded, path: string, id: string) {
    this.#loaded = loaded;
    loaded.handles++;
    this.path = path;
    this.id = id;
    this.actsFromReply = loaded.native.activated;
  }

  /** @internal @throws IsoproError OBJECT_DISPOSED */
  get native(): NativeAdapter {
    return this.#usable().native;
  }

  /**
   * @internal Another handle, of work that takes several calls.
   * @throws IsoproError OBJECT_DISPOSED
   */
  again(): Adapter {
    return new Adapter(this.#usable(), this.path, this.id);
  }

  #usable(): Loaded {
    if (this.#disposed) throw new IsoproError('OBJECT_DISPOSED', 'the adapter has been disposed');
    return this.#loaded;
  }

  /** Frees the adapter's memory once nothing uses it. Safe to call repeatedly. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    if (--this.#loaded.handles === 0) this.#loaded.native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Adapter of one call; null: the bare base model. Default: the model's own adapter. */
export const adapterOption = z
  .custom<Adapter | null>(
    (value) => value === null || typeof (value as Adapter).id === 'string',
    'expected an Adapter or null',
  )
  .optional();

/**
 * Returns the SHA-256 of a file's content, in hexadecimal.
 * @throws IsoproError FILE_UNREADABLE, SYSTEM_LIMIT
 */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }))
      hash.update(chunk as Buffer);
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return hash.digest('hex');
}
