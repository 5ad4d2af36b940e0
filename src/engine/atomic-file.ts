/** Files that exist whole or not at all. */
import { open, rename, rm, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { IsoproError } from '../errors.js';

/**
 * Writes a file so that a crash or a full disk at any moment leaves the old file or the new one: a temporary file beside
 * it, fsync, rename, fsync of the folder.
 * @throws IsoproError WRITE_FAILED; the old file is untouched
 */
export async function writeFileAtomically(file: string, parts: readonly Uint8Array[]): Promise<void> {
  const temporary = `${file}.${process.pid}.partial`;
  let handle: FileHandle | undefined;
  try {
    handle = await open(temporary, 'w');
    for (const part of parts) {
      for (let at = 0; at < part.length; ) at += (await handle.write(part, at, part.length - at)).bytesWritten;
    }
    await handle.sync();
    await handle.close();
    handle = undefined;
    await rename(temporary, file);
  } catch (cause) {
    await handle?.close().catch(() => undefined);
    await rm(temporary, { force: true }).catch(() => undefined);
    throw new IsoproError('WRITE_FAILED', `${file} could not be written: ${(cause as Error).message}`, { cause });
  }
  // Windows has no fsync of folders.
  const folder = await open(path.dirname(path.resolve(file)), 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
