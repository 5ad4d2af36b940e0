/** Files that exist whole or not at all. */
import { createHash, randomBytes } from 'node:crypto';
import { open, readdir, rename, rm, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { durable } from '../durable.js';
import { hasEnded, makeFolder, requireTarget, targetOf, unwritable, type Link } from '../files.js';

type Parts = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * Writes a file so that a crash or a full disk at any moment leaves the old file or the new one: a
 * temporary file beside it, fsync, rename, fsync of the folder. A folder or a device is never
 * replaced. What `parts` throws is thrown on.
 * @param link what becomes of a link in the file's place
 * @throws IsoproError WRITE_FAILED, SYSTEM_LIMIT; the old file is untouched
 */
export async function writeFileAtomically(
  file: string,
  parts: Parts,
  link: Link = 'replace',
): Promise<void> {
  requireTarget(file, link);
  const target = targetOf(file, link);
  await sweep(target);
  await replace(target, await writeTemporary(target, parts));
}

/**
 * Writes files that belong together into one folder, which is made where it is missing: all of them
 * are complete on the disk before the first replaces an older one.
 * @throws IsoproError WRITE_FAILED, SYSTEM_LIMIT; the old files are untouched
 */
export async function writeFilesAtomically(
  together: readonly { readonly file: string; readonly parts: Parts }[],
  link: Link = 'replace',
): Promise<void> {
  const written: { file: string; temporary: string }[] = [];
  try {
    for (const { file, parts } of together) {
      await attempt(file, (async () => makeFolder(path.dirname(file)))());
      requireTarget(file, link);
      const target = targetOf(file, link);
      await sweep(target);
      written.push({ file: target, temporary: await writeTemporary(target, parts) });
    }
  } catch (failure) {
    for (const { temporary } of written)
      await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  for (const { file, temporary } of written) await replace(file, temporary);
}

/** Hashes what passes through. */
export function sha256(): {
  through: (parts: Parts) => AsyncGenerator<Uint8Array>;
  digest: () => string;
} {
  const hash = createHash('sha256');
  async function* through(parts: Parts): AsyncGenerator<Uint8Array> {
    for await (const part of parts) {
      hash.update(part);
      yield part;
    }
  }
  return { through, digest: () => hash.digest('hex') };
}

function attempt<T>(file: string, operation: Promise<T>): Promise<T> {
  return operation.catch((cause: unknown) => {
    throw unwritable(file, cause);
  });
}

/** Removes what a killed process has left of the same file. */
async function sweep(target: string): Promise<void> {
  const folder = path.dirname(target);
  const begin = `${path.basename(target)}.`;
  for (const name of await readdir(folder).catch(() => [])) {
    const pid = name.startsWith(begin)
      ? /^(\d+)\.[\da-f]+\.partial$/.exec(name.slice(begin.length))?.[1]
      : undefined;
    if (pid !== undefined && hasEnded(Number(pid)))
      await rm(path.join(folder, name), { force: true }).catch(() => undefined);
  }
}

async function writeTemporary(file: string, parts: Parts): Promise<string> {
  const temporary = `${file}.${process.pid}.${randomBytes(8).toString('hex')}.partial`;
  let handle: FileHandle | undefined;
  try {
    handle = await attempt(file, open(temporary, 'wx'));
    for await (const part of parts) {
      for (let at = 0; at < part.length; )
        at += (await attempt(file, handle.write(part, at, part.length - at))).bytesWritten;
    }
    await attempt(file, handle.sync());
    await attempt(file, handle.close());
    handle = undefined;
    durable('file.temporary');
    return temporary;
  } catch (failure) {
    await handle?.close().catch(() => undefined);
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
}

async function replace(file: string, temporary: string): Promise<void> {
  try {
    await attempt(file, rename(temporary, file));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  // Windows has no fsync of folders.
  const folder = await open(path.dirname(file), 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
