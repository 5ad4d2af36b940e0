import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import { requireFile, unreadable } from '../files.js';
import type { NativeAdapter } from './addon.js';
import { checked } from './checked.js';

/** @throws IsoproError INVALID_ARGUMENT, MODEL_NOT_FOUND where there is no file to load as an adapter */
export const requireAdapter = (path: string): void =>
  requireFile(checked(z.string().min(1), path, 'path'), 'MODEL_NOT_FOUND', false, {
    what: 'the adapter',
    remedy: 'Give an adapter in GGUF: of a run, the file in its folder adapters/; `serve` and the commands take the run itself too.',
  });

/** A LoRA adapter loaded onto a model; freed by dispose() or when it is garbage collected. */
export class Adapter {
  /** SHA-256 of the file, in hexadecimal. */
  readonly id: string;
  readonly path: string;
  /** @internal */
  readonly native: NativeAdapter;

  /** @internal Use Model.loadAdapter. */
  constructor(native: NativeAdapter, path: string, id: string) {
    this.native = native;
    this.path = path;
    this.id = id;
  }

  /** Frees the adapter's memory once nothing uses it; harmless when repeated. */
  dispose(): void {
    this.native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** SHA-256 of a file's content, in hexadecimal. @throws IsoproError FILE_UNREADABLE, SYSTEM_LIMIT */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return hash.digest('hex');
}
