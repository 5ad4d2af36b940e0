/** The folder of a run: its settings in truth.json, and its signed log. */
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { canonicalJson, type Json } from '../../canonical-json.js';
import { dictionaryOf } from '../../dictionary-schema.js';
import { durable } from '../../durable.js';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { isFile, isFolder, readText } from '../../files.js';
import { Domains, isOwnDomain } from '../domains/user-domain.js';
import { isRunId } from '../../log/checkpoint.js';
import { LogReader } from '../../log/read.js';
import { machine } from '../../run-folder/manifest.js';
import { sha256 } from '../../run-folder/record.js';
import { truthConfig } from './config.js';
import { readTruthRecord, TRUTH_STREAMS } from './records.js';
import { TruthState } from './state.js';

const FORMAT = 'isopro.truth.v1';

const json: z.ZodType<Json> = z.lazy(() =>
  z.union([z.null(), z.boolean(), z.number(), z.string(), z.array(json), dictionaryOf(json)]),
);
/**
 * A reasoner: its id, and everything that determines it (model file, adapter, renderer, threads,
 * seed).
 */
const policy = z.strictObject({ id: sha256, identity: dictionaryOf(json) });

const start = z.strictObject({
  code: z.strictObject({ version: z.string(), javascript: sha256, addon: sha256 }),
  machine,
  policy,
  predictor: policy.nullable(),
  /** Judge that states beliefs, rates and grades, if there is one. */
  judge: policy.optional(),
  /** SHA-256 of the ratings before a judge. */
  examples: sha256.optional(),
  domains: z.array(z.strictObject({ id: z.string(), sha256 })),
  config: truthConfig,
});
/** Everything that determines a run. */
export type TruthStart = z.output<typeof start>;

const manifest = z.strictObject({
  format: z.literal(FORMAT),
  runId: z.string().refine(isRunId, 'expected 32 hex digits'),
  start,
});
export type TruthManifest = z.output<typeof manifest>;

export const truthPaths = (folder: string) => ({
  manifest: join(folder, 'truth.json'),
  log: join(folder, 'log.sqlite'),
  /** Copies of the domains that are files. */
  domains: join(folder, 'domains'),
  /** Held by the process that is at work on the run. */
  lock: join(folder, 'lock.sqlite'),
});

export const isTruthRun = (folder: string): boolean =>
  isFolder(folder) && isFile(truthPaths(folder).manifest);

/** The same for the same run on every machine. */
export const startDigest = (of: TruthStart): string =>
  hash('sha256', canonicalJson(of as unknown as Json));

/** @throws IsoproError WRITE_FAILED */
export async function writeTruthManifest(
  folder: string,
  runId: string,
  of: TruthStart,
): Promise<void> {
  const value = manifest.parse({ format: FORMAT, runId, start: of });
  await writeFileAtomically(truthPaths(folder).manifest, [
    Buffer.from(`${JSON.stringify(value, null, 2)}\n`),
  ]);
  durable('run.manifest');
}

/** @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID */
export function readTruthManifest(folder: string): TruthManifest {
  const { manifest: file } = truthPaths(folder);
  if (!isTruthRun(folder))
    throw new IsoproError('RUN_NOT_FOUND', `${folder} has no truth.json`, {
      remedy: 'Give the folder of a `truth run`.',
    });
  let value: unknown;
  try {
    value = JSON.parse(readText(file));
  } catch (cause) {
    throw new IsoproError(
      'RUN_MANIFEST_INVALID',
      `${file} is not valid JSON: ${(cause as Error).message}`,
      { cause },
    );
  }
  const parsed = manifest.safeParse(value);
  if (!parsed.success)
    throw new IsoproError('RUN_MANIFEST_INVALID', `${file}: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/** The domains that a run asks about, by its own copies. @throws IsoproError as readOwnDomain */
export const domainsOf = (folder: string, { config }: TruthStart): Domains =>
  new Domains(
    config.domain.map((id) => (isOwnDomain(id) ? join(truthPaths(folder).domains, id) : id)),
  );

export interface TruthRun {
  readonly folder: string;
  readonly runId: string;
  readonly start: TruthStart;
  readonly state: TruthState;
}

/**
 * Reads a run with all its records. Reading proves nothing: verify or judge the run first.
 * @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE
 */
export function readTruthRun(folder: string): TruthRun {
  const { runId, start: begun } = readTruthManifest(folder);
  const reader = new LogReader(truthPaths(folder).log, TRUTH_STREAMS);
  try {
    const state = new TruthState();
    for (const each of reader.records()) {
      const record = readTruthRecord(each);
      if (record !== null) state.apply(record);
    }
    return { folder, runId, start: begun, state };
  } finally {
    reader.close();
  }
}
