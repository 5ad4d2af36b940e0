/** Checkpoints of a run: folders that exist whole or not at all. The newest two are kept. */
import { createHash } from 'node:crypto';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';
import { writeFileAtomically } from '../engine/atomic-file.js';

const digest = z.string().regex(/^[0-9a-f]{64}$/);

/** Everything that the next iteration depends on besides manifest, log and model. */
const checkpointState = z.strictObject({
  version: z.literal(2),
  /** `submitted`: the final adapter is exported and named in the log; only the end of the session is missing. */
  stage: z.enum(['prepared', 'iteration', 'submitted']),
  /** The last one that is complete; 0 before the first. */
  iteration: z.int().min(0),
  /** Records of the log that belong to it; later ones are abandoned on resumption. */
  logSize: z.int().min(1),
  layers: z.array(z.int()).nullable(),
  learningRate: z.number(),
  maxNorm: z.number(),
  epsilon: z.number(),
  batchSize: z.int(),
  /** The adapter with the highest dev accuracy so far, by its file's SHA-256; null is the base model. */
  best: z.strictObject({ adapterId: digest.nullable(), iteration: z.int() }),
  /** What a rollback goes back to; null before a trainer exists. */
  sound: z.strictObject({ adapterId: digest, iteration: z.int() }).nullable(),
  /** Of the present one. */
  adapterId: digest.nullable(),
  adapterIteration: z.int(),
  /** Why no further iteration begins. */
  stop: z.string().nullable(),
  /** The present adapter is the final one. */
  settled: z.boolean(),
  /** Interrupted attempts are not counted. */
  spent: z.strictObject({ seconds: z.number(), peakRssBytes: z.number(), promptTokens: z.number(), sampledTokens: z.number(), trainedTokens: z.number() }),
});
export type CheckpointState = z.infer<typeof checkpointState>;

export interface Checkpoint {
  readonly state: CheckpointState;
  /** Snapshot of the trainer; null before it exists. */
  readonly trainer: Uint8Array | null;
  /** Snapshots of the best adapter and of the last sound one; null where that is the present state, or nothing was trained yet. */
  readonly best: Uint8Array | null;
  readonly sound: Uint8Array | null;
}

const PARTIAL = '.partial-';
const KEPT = 2;
const nameOf = ({ stage, iteration }: CheckpointState): string => `${String(iteration).padStart(4, '0')}-${stage}`;
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const manifest = z.strictObject({ state: checkpointState, files: z.record(z.string(), digest) });

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined); // Windows has no fsync of folders
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

/** @throws IsoproError WRITE_FAILED; older checkpoints are untouched */
export async function writeCheckpoint(folder: string, { state, trainer, best, sound }: Checkpoint): Promise<void> {
  const name = nameOf(state);
  const partial = path.join(folder, PARTIAL + name);
  const files = { ...(trainer === null ? {} : { trainer }), ...(best === null ? {} : { best }), ...(sound === null ? {} : { sound }) };
  try {
    await rm(partial, { recursive: true, force: true });
    makeFolder(partial);
    for (const [file, bytes] of Object.entries(files)) await writeFileAtomically(path.join(partial, file), [bytes]);
    const content = { state, files: Object.fromEntries(Object.entries(files).map(([file, bytes]) => [file, sha256(bytes)])) };
    await writeFileAtomically(path.join(partial, 'state.json'), [Buffer.from(`${JSON.stringify(content, null, 2)}\n`)]);
    await syncFolder(partial);
    await rm(path.join(folder, name), { recursive: true, force: true });
    await rename(partial, path.join(folder, name));
    await syncFolder(folder);
    for (const old of (await complete(folder)).slice(0, -KEPT)) await rm(path.join(folder, old), { recursive: true, force: true });
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    throw new IsoproError('WRITE_FAILED', `the checkpoint ${path.join(folder, name)} could not be written: ${(cause as Error).message}`, { cause });
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

/** The newest checkpoint whose files have their hashes and whose records are in the log; null where there is none. */
export async function readCheckpoint(folder: string, logSize: number): Promise<Checkpoint | null> {
  for (const name of (await complete(folder)).reverse()) {
    const found = await readOne(path.join(folder, name)).catch(() => null);
    if (found !== null && found.state.logSize <= logSize) return found;
  }
  return null;
}

async function readOne(folder: string): Promise<Checkpoint> {
  const { state, files } = manifest.parse(JSON.parse(await readFile(path.join(folder, 'state.json'), 'utf8')));
  const read = async (file: 'trainer' | 'best' | 'sound'): Promise<Uint8Array | null> => {
    if (files[file] === undefined) return null;
    const bytes = await readFile(path.join(folder, file));
    if (sha256(bytes) !== files[file]) throw new IsoproError('ADAPTER_CORRUPT', `${path.join(folder, file)} does not match its hash`);
    return bytes;
  };
  return { state, trainer: await read('trainer'), best: await read('best'), sound: await read('sound') };
}

/** Removes what an interrupted writing left. */
export async function cleanCheckpoints(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) if (name.startsWith(PARTIAL)) await rm(path.join(folder, name), { recursive: true, force: true });
}
