/** Files that exist whole or not at all. */
import { open, rename, rm, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { IsoproError } from '../errors.js';

/** Written so far by this process: two writers of one file have a temporary file each. */
let files = 0;

/**
 * Writes a file so that a crash or a full disk at any moment leaves the old file or the new one: a temporary file beside
 * it, fsync, rename, fsync of the folder. What `parts` throws is thrown on.
 * @throws IsoproError WRITE_FAILED; the old file is untouched
 */
export async function writeFileAtomically(file: string, parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void> {
  const temporary = `${file}.${process.pid}.${(files += 1)}.partial`;
  const done = <T>(operation: Promise<T>): Promise<T> =>
    operation.catch((cause: unknown) => {
      throw new IsoproError('WRITE_FAILED', `${file} could not be written: ${(cause as Error).message}`, { cause });
    });
  let handle: FileHandle | undefined;
  try {
    handle = await done(open(temporary, 'w'));
    for await (const part of parts) {
      for (let at = 0; at < part.length; ) at += (await done(handle.write(part, at, part.length - at))).bytesWritten;
    }
    await done(handle.sync());
    await done(handle.close());
    handle = undefined;
    await done(rename(temporary, file));
  } catch (failure) {
    await handle?.close().catch(() => undefined);
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  // Windows has no fsync of folders.
  const folder = await open(path.dirname(path.resolve(file)), 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
