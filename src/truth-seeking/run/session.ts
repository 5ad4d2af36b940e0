/**
 * A run open for writing: one process at a time, and each record is durable before the next one.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Json } from '../../canonical-json.js';
import { Closers } from '../../closers.js';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { EventLog } from '../../log/event-log.js';
import { isoproHome } from '../../log/home.js';
import type { LogValue } from '../../log/payload.js';
import { OwnerLock } from '../../log/owner-lock.js';
import { isUnbegun } from '../../log/read.js';
import { SingleProcessSigner, type LogSigner } from '../../log/signer.js';
import { WitnessClient } from '../../log/witness-client.js';
import { jsonDifferences, runDiffers } from '../../run-folder/manifest.js';
import {
  isTruthRun,
  readTruthManifest,
  readTruthRun,
  startDigest,
  truthPaths,
  writeTruthManifest,
  type TruthStart,
} from './folder.js';
import { newRecord, TRUTH_STREAMS, type TruthRecord, type TruthStream } from './records.js';
import { TruthState } from './state.js';
import { makeFolder, readText } from '../../files.js';
import { given } from '../../given.js';

const RUNS = 'runs';
/** Records between two signed heads. */
const RECORDS_PER_HEAD = 64;

export interface SessionOptions {
  /** Folder of the keys. Default `$ISOPRO_HOME`. */
  readonly home?: string;
  readonly signal?: AbortSignal;
  readonly onNotice?: (text: string) => void;
}

export class TruthSession {
  readonly #log: EventLog<TruthStream>;
  readonly #closers: Closers;
  #unsigned = 0;

  private constructor(
    readonly folder: string,
    readonly runId: string,
    readonly start: TruthStart,
    readonly state: TruthState,
    log: EventLog<TruthStream>,
    closers: Closers,
  ) {
    this.#log = log;
    this.#closers = closers;
  }

  /**
   * Starts a run, or continues an existing one.
   * @param start null: the folder's own, which has to be there
   * @param out default: a folder below `runs` that follows from what determines the run, so that
   *   the same command continues it
   * @param domains files that a run keeps a copy of, by the names of these
   * @throws IsoproError RUN_DIFFERS, RUN_NOT_FOUND, RUN_MANIFEST_INVALID, LOG_BUSY, LOG_TAMPERED,
   *   WRITE_FAILED, WITNESS_UNAVAILABLE
   */
  static async open(
    start: TruthStart | null,
    out: string | undefined,
    options: SessionOptions = {},
    domains: ReadonlyMap<string, string> = new Map(),
  ): Promise<TruthSession> {
    const { home = isoproHome(), signal, onNotice } = options;
    const folder = path.resolve(
      out ?? path.join(RUNS, `truth-${startDigest(start!).slice(0, 12)}`),
    );
    const paths = truthPaths(folder);
    const closers = new Closers();
    try {
      if (start === null) readTruthManifest(folder);
      else {
        const begun = begunAs(start, folder); // before anything is written
        if (begun === null && existsSync(paths.log))
          throw new IsoproError('RUN_DIFFERS', `${folder} contains a run of another kind`, {
            remedy: 'Choose another folder with --out.',
          });
      }
      makeRoom(folder);
      const lock = OwnerLock.take(paths.lock);
      if (lock === null)
        throw new IsoproError('LOG_BUSY', `another process is using the run in ${folder}`);
      closers.add(() => lock.release());
      if (start !== null && begunAs(start, folder) === null) {
        for (const [name, file] of domains) await copied(file, path.join(paths.domains, name));
        await writeTruthManifest(folder, randomBytes(16).toString('hex'), start);
      }
      const { runId, start: begun } = readTruthManifest(folder);
      const signer: LogSigner =
        begun.config.signer === 'witness'
          ? await WitnessClient.open(home, given({ onNotice, signal }))
          : new SingleProcessSigner(home);
      closers.add(() => signer.close());
      const isThere = existsSync(paths.log) && !isUnbegun(paths.log, TRUTH_STREAMS);
      const common = { path: paths.log, streams: TRUTH_STREAMS, runId, signer };
      if (!isThere)
        for (const ending of ['', '-wal', '-shm', '-journal'])
          rmSync(paths.log + ending, { force: true });
      const log = isThere
        ? await EventLog.resume({ ...common, fromIteration: null, abandonedFrom: null })
        : await EventLog.create({
            ...common,
            runConfig: begun as unknown as LogValue,
            digests: { start: startDigest(begun) },
          });
      closers.add(() => log.close());
      const state = isThere ? readTruthRun(folder).state : new TruthState();
      return new TruthSession(folder, runId, begun, state, log, closers);
    } catch (error) {
      // what went wrong first is what the caller has to know
      await closers.close().catch(() => undefined);
      throw error;
    }
  }

  /**
   * Durable when this returns.
   * @throws IsoproError LOG_WRITE_FAILED, WITNESS_REFUSED, WITNESS_UNAVAILABLE
   */
  async write(...records: readonly TruthRecord[]): Promise<void> {
    if (records.length === 0) return;
    this.#log.append(records.map(newRecord));
    for (const record of records) this.state.apply(record);
    this.#unsigned += records.length;
    if (this.#unsigned >= RECORDS_PER_HEAD) await this.sign();
  }

  /** Signs all records so far. */
  async sign(): Promise<void> {
    await this.#log.checkpoint();
    this.#unsigned = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#closers.close();
  }
}

async function copied(file: string, to: string): Promise<void> {
  makeFolder(path.dirname(to));
  await writeFileAtomically(to, [Buffer.from(readText(file))]);
}

function makeRoom(folder: string): void {
  try {
    makeFolder(folder);
  } catch (cause) {
    throw new IsoproError(
      'WRITE_FAILED',
      `cannot create the run folder ${folder}: ${(cause as Error).message}`,
      { cause },
    );
  }
}

/** Null where no run began here. @throws IsoproError RUN_DIFFERS, RUN_MANIFEST_INVALID */
function begunAs(start: TruthStart, folder: string): TruthStart | null {
  if (!isTruthRun(folder)) return null;
  const { start: begun } = readTruthManifest(folder);
  const differences = jsonDifferences(begun as unknown as Json, start as unknown as Json);
  if (differences.length > 0)
    throw runDiffers(
      `the run in ${folder} was started with different values of ${differences.join(', ')}`,
      differences,
    );
  return begun;
}
