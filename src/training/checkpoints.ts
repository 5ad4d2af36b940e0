/**
 * Checkpoints of a run: folders that exist whole or not at all, each named by its digest in the
 * log. The newest two are kept.
 */
import { createHash } from 'node:crypto';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { canonicalJson } from '../canonical-json.js';
import { durable } from '../durable.js';
import { IsoproError } from '../errors.js';
import { makeFolder, refusal, unreadable } from '../files.js';
import { hashFile } from '../engine/adapter.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import type { RunPaths } from '../run-folder/paths.js';
import type { RefusedCheckpoint } from '../run-folder/course-records.js';

const digest = z.string().regex(/^[0-9a-f]{64}$/);

/** Everything that the next iteration depends on besides manifest, log and model. */
const checkpointState = z.strictObject({
  version: z.literal(2),
  /**
   * `submitted`: the final adapter is exported and named in the log; only the end of the session is
   * missing.
   */
  stage: z.enum(['prepared', 'iteration', 'submitted']),
  /** The last one that is complete; 0 before the first. */
  iteration: z.int().min(0),
  /**
   * Records of the log that belong to it, the last of them the one that names it; later ones are
   * abandoned on resumption.
   */
  logSize: z.int().min(1),
  layers: z.array(z.int()).nullable(),
  learningRate: z.number(),
  maxNorm: z.number(),
  epsilon: z.number(),
  batchSize: z.int(),
  /**
   * The adapter with the highest dev accuracy so far, by its file's SHA-256; null is the base
   * model.
   */
  best: z.strictObject({ adapterId: digest.nullable(), iteration: z.int() }),
  /** State that a rollback restores; null before a trainer exists. */
  sound: z.strictObject({ adapterId: digest, iteration: z.int() }).nullable(),
  /** SHA-256 of the current adapter. */
  adapterId: digest.nullable(),
  adapterIteration: z.int(),
  /** Why no further iteration begins. */
  stop: z.string().nullable(),
  /** The present adapter is the final one. */
  settled: z.boolean(),
  /** Interrupted attempts are not counted. */
  spent: z.strictObject({
    seconds: z.number(),
    peakRssBytes: z.number(),
    promptTokens: z.number(),
    sampledTokens: z.number(),
    trainedTokens: z.number(),
  }),
});
export type CheckpointState = z.infer<typeof checkpointState>;

export interface Checkpoint {
  readonly state: CheckpointState;
  /** Snapshot of the trainer; null before it exists. */
  readonly trainer: Uint8Array | null;
  /**
   * Snapshots of the best adapter and of the last sound one; null where that is the present state,
   * or nothing was trained yet.
   */
  readonly best: Uint8Array | null;
  readonly sound: Uint8Array | null;
}

const PARTIAL = '.partial-';
const KEPT = 2;
const nameOf = ({ stage, iteration }: CheckpointState): string =>
  `${String(iteration).padStart(4, '0')}-${stage}`;
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const manifest = z.strictObject({ state: checkpointState, files: z.record(z.string(), digest) });
type Manifest = z.infer<typeof manifest>;

/** A checkpoint with the digest over all of it, by which the log names it before it is written. */
export interface SealedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly manifest: Manifest;
  readonly digest: string;
}

const FILES = ['trainer', 'best', 'sound'] as const;
const filesOf = (checkpoint: Checkpoint): Record<string, Uint8Array> =>
  Object.fromEntries(
    FILES.flatMap((name) => (checkpoint[name] === null ? [] : [[name, checkpoint[name]]])),
  );
const digestOf = (content: Manifest): string => sha256(Buffer.from(canonicalJson(content)));

export function sealCheckpoint(checkpoint: Checkpoint): SealedCheckpoint {
  const files = Object.fromEntries(
    Object.entries(filesOf(checkpoint)).map(([file, bytes]) => [file, sha256(bytes)]),
  );
  const content = { state: checkpoint.state, files };
  return { checkpoint, manifest: content, digest: digestOf(content) };
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined); // Windows has no fsync of folders
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

/** @throws IsoproError WRITE_FAILED; older checkpoints are untouched */
export async function writeCheckpoint(
  folder: string,
  { checkpoint, manifest: content }: SealedCheckpoint,
): Promise<void> {
  const name = nameOf(checkpoint.state);
  const partial = path.join(folder, PARTIAL + name);
  try {
    await rm(partial, { recursive: true, force: true });
    makeFolder(partial);
    for (const [file, bytes] of Object.entries(filesOf(checkpoint)))
      await writeFileAtomically(path.join(partial, file), [bytes]);
    await writeFileAtomically(path.join(partial, 'state.json'), [
      Buffer.from(`${JSON.stringify(content, null, 2)}\n`),
    ]);
    await syncFolder(partial);
    durable('checkpoint.partial');
    await rm(path.join(folder, name), { recursive: true, force: true });
    await rename(partial, path.join(folder, name));
    await syncFolder(folder);
    durable('checkpoint.complete');
    // newer ones that were refused do not count
    const upToThis = (await complete(folder)).filter(
      (each, _, all) => all.indexOf(each) <= all.indexOf(name),
    );
    for (const old of upToThis.slice(0, -KEPT))
      await rm(path.join(folder, old), { recursive: true, force: true });
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    throw new IsoproError(
      'WRITE_FAILED',
      `the checkpoint ${path.join(folder, name)} could not be written: ${(cause as Error).message}`,
      { cause },
    );
  }
}

/** Names of complete checkpoints, oldest first. */
async function complete(folder: string): Promise<string[]> {
  const order = { prepared: 0, iteration: 1, submitted: 2 } as const;
  const entries = await readdir(folder).catch(() => []);
  const parse = (name: string): number[] | null => {
    const match = /^(\d+)-(prepared|iteration|submitted)$/.exec(name);
    return match === null ? null : [Number(match[1]), order[match[2] as keyof typeof order]];
  };
  return entries
    .flatMap((name) => {
      const key = parse(name);
      return key === null ? [] : [{ name, key }];
    })
    .sort((a, b) => a.key[0]! - b.key[0]! || a.key[1]! - b.key[1]!)
    .map(({ name }) => name);
}

export async function hasCheckpoints(folder: string): Promise<boolean> {
  return (await complete(folder)).length > 0;
}

/**
 * The newest checkpoint that is whole and the one that the log names at its place; null where there
 * is none.
 * @throws IsoproError SYSTEM_LIMIT, OUT_OF_MEMORY
 * @param named digests of the checkpoints that the log names under a signed head, by the number of
 *   records up to and with the one that does
 */
export async function readCheckpoint(
  { checkpoints, adapter }: Pick<RunPaths, 'checkpoints' | 'adapter'>,
  named: ReadonlyMap<number, string>,
): Promise<{ checkpoint: Checkpoint | null; refused: Refused[] }> {
  const refused: Refused[] = [];
  for (const name of (await complete(checkpoints)).reverse()) {
    try {
      return { checkpoint: await readOne(path.join(checkpoints, name), named, adapter), refused };
    } catch (error) {
      const code = error instanceof IsoproError ? error.code : refusal(error, 'FILE_UNREADABLE');
      if (code === 'SYSTEM_LIMIT' || code === 'OUT_OF_MEMORY')
        throw unreadable(path.join(checkpoints, name), error); // it may be sound
      refused.push({ name, reason: error instanceof Refusal ? error.message : 'it is damaged' });
    }
  }
  return { checkpoint: null, refused };
}

type Refused = Omit<RefusedCheckpoint, 'kind'>;

class Refusal extends Error {}

/** Returns null for an unreadable file; rethrows system limits. */
function absent(error: unknown): null {
  if (error instanceof IsoproError && error.code === 'FILE_UNREADABLE') return null;
  throw error;
}

async function readOne(
  folder: string,
  named: ReadonlyMap<number, string>,
  adapterFile: RunPaths['adapter'],
): Promise<Checkpoint> {
  const content = manifest.parse(
    JSON.parse(await readFile(path.join(folder, 'state.json'), 'utf8')),
  );
  const { state, files } = content;
  if (named.get(state.logSize) !== digestOf(content))
    throw new Refusal('it is not the one that the log names');
  const read = async (file: (typeof FILES)[number]): Promise<Uint8Array | null> => {
    if (files[file] === undefined) return null;
    const bytes = await readFile(path.join(folder, file));
    if (sha256(bytes) !== files[file])
      throw new Refusal(`its file ${file} is not the one that the log names`);
    return bytes;
  };
  const isExported = async (id: string): Promise<boolean> =>
    (await hashFile(adapterFile(id)).catch(absent)) === id;
  if (
    state.stage === 'submitted' &&
    (state.adapterId === null || !(await isExported(state.adapterId)))
  ) {
    throw new Refusal('the adapter that it submitted is missing or changed');
  }
  return {
    state,
    trainer: await read('trainer'),
    best: await read('best'),
    sound: await read('sound'),
  };
}

/** Removes what an interrupted writing left. */
export async function cleanCheckpoints(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => []))
    if (name.startsWith(PARTIAL))
      await rm(path.join(folder, name), { recursive: true, force: true });
}
