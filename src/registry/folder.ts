/** Contents of a registry's folder, and the lock of its writers. */
import { createReadStream, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { hashFile } from '../engine/adapter.js';
import { sha256 as sha256Of, writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { isFolder, makeFolder, unwritable } from '../files.js';
import { isoproHome } from '../log/home.js';
import { OwnerLock } from '../log/owner-lock.js';
import type { AliasMap } from './state.js';

export interface RegistryPaths {
  readonly folder: string;
  readonly log: string;
  /** Held by the process that writes. */
  readonly lock: string;
  readonly adapters: string;
  readonly evidence: string;
  /** Running servers of this registry and the questions to them. */
  readonly servers: string;
  /** Versions by alias, for other programs; no code here decides by it. */
  readonly pointer: string;
  /** File of an adapter by the SHA-256 of its bytes. */
  adapter(sha256: string): string;
  trials(sha256: string): string;
}

export const defaultRegistry = (home = isoproHome()): string => join(home, 'registry');

export function registryPaths(folder: string): RegistryPaths {
  const [adapters, evidence, servers] = ['adapters', 'evidence', 'servers'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  return {
    folder,
    log: join(folder, 'log.sqlite'),
    lock: join(folder, 'lock.sqlite'),
    adapters,
    evidence,
    servers,
    pointer: join(folder, 'aliases.json'),
    adapter: (sha256) => join(adapters, `${sha256}.gguf`),
    trials: (sha256) => join(evidence, `${sha256}.json`),
  };
}

const filesIn = (folder: string): string[] => (isFolder(folder) ? readdirSync(folder) : []);

/**
 * Returns a file that only a registry with a log can have left (a kept adapter, evidence or the
 * pointer); null if there is none.
 */
export function tracesOf({ folder, adapters, evidence, pointer }: RegistryPaths): string | null {
  for (const each of [adapters, evidence]) {
    const [file] = filesIn(each);
    if (file !== undefined) return relative(folder, join(each, file));
  }
  return existsSync(pointer) ? relative(folder, pointer) : null;
}

/** Creates the folders of a registry. @throws IsoproError WRITE_FAILED */
export function makeRegistryFolder({ folder, adapters, evidence }: RegistryPaths): void {
  try {
    for (const each of [adapters, evidence]) makeFolder(each);
  } catch (cause) {
    throw unwritable(folder, cause);
  }
}

/** Writers take turns of milliseconds; one that has waited for so long has met one that hangs. */
const PATIENCE_MS = 20_000;

/**
 * Runs work under the lock of a file.
 * @throws IsoproError CONFLICT if another process keeps writing, WRITE_FAILED
 */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  let lock = OwnerLock.take(file);
  while (lock === null) {
    if (performance.now() > deadline)
      throw new IsoproError(
        'CONFLICT',
        `another process has been writing to ${file} for ${PATIENCE_MS / 1000} s`,
        { remedy: 'Let it finish or end it. Then run the same command again.' },
      );
    await delay(20);
    lock = OwnerLock.take(file);
  }
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/**
 * Yields the bytes of a file and opens it only on reading: a stream that fails before it has a
 * listener would end the process.
 */
async function* bytesOf(file: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(file) as AsyncIterable<Uint8Array>;
}

/**
 * Stores a file under the SHA-256 of its bytes.
 * @throws IsoproError ADAPTER_CORRUPT if the bytes differ from the examined ones; WRITE_FAILED,
 *   SYSTEM_LIMIT
 */
export async function keepBytes(source: string, sha256: string, target: string): Promise<void> {
  if (existsSync(target) && (await hashFile(target)) === sha256) return;
  const { through, digest } = sha256Of();
  await writeFileAtomically(target, through(bytesOf(source)));
  if (digest() === sha256) return;
  rmSync(target, { force: true });
  throw new IsoproError('ADAPTER_CORRUPT', `${source} changed while it was copied`);
}

const POINTER_FORMAT = 'isopro.aliases.v1';
const pointer = z.object({
  format: z.literal(POINTER_FORMAT),
  records: z.number(),
  aliases: z.record(z.string(), z.string().nullable()),
});

const pointerText = (records: number, map: AliasMap): string =>
  `${JSON.stringify({ format: POINTER_FORMAT, records, aliases: Object.fromEntries(map) }, null, 2)}\n`;

/** Writes the pointer. @throws IsoproError WRITE_FAILED; the earlier one stays */
export const writePointer = (file: string, records: number, map: AliasMap): Promise<void> =>
  writeFileAtomically(file, [Buffer.from(pointerText(records, map))]);

/** Returns true if the file matches the log. */
export function pointerAgrees(file: string, map: AliasMap): boolean {
  try {
    const parsed = pointer.parse(JSON.parse(readFileSync(file, 'utf8')));
    return (
      pointerText(parsed.records, map) ===
      pointerText(parsed.records, Object.entries(parsed.aliases))
    );
  } catch {
    return false;
  }
}
