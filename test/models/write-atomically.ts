import { randomUUID } from 'node:crypto';
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

/**
 * Writes the chunks one after the other under a temporary name, then renames: never a half file
 * under `path`.
 */
export function writeAtomically(path: string, chunks: Iterable<Uint8Array>): void {
  const temporary = `${path}.${randomUUID()}.partial`;
  const file = openSync(temporary, 'wx');
  try {
    try {
      for (const chunk of chunks) {
        for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at);
      }
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
