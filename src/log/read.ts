import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ownValue } from '../dictionary.js';
import { abortError, IsoproError } from '../errors.js';
import { isRunId, originOf, parseCheckpoint, type SignedCheckpoint } from './checkpoint.js';
import { LeafHasher } from './leaf.js';
import {
  consistencyProof,
  inclusionProof,
  rootOf,
  verifyConsistency,
  verifyInclusion,
} from './merkle.js';
import { decodePayload, type LogPayload } from './payload.js';
import { asLogError, hasExpectedSchema, openLogFile, type Db } from './schema.js';
import { parseSessionStart } from './session.js';
import { isSignedBy } from './signed-note.js';
import { streamNames, type LogStreams } from './streams.js';
import type { TrustedKey } from './trusted-key.js';

/** A record as it was appended. */
export interface LogRecord<Name extends string = string> {
  readonly gseq: number;
  readonly stream: Name | 'control';
  readonly sseq: number;
  readonly timeUs: number;
  readonly payload: LogPayload;
}

export interface ReadOptions<Name extends string = string> {
  readonly stream?: Name | 'control';
  /** First record to read. */
  readonly from?: number;
  /** Also records of iterations that were interrupted and begun again. */
  readonly abandoned?: boolean;
}

/**
 * One record's proof: everything that a stranger with the witness's public key needs to check it.
 * Digests in hex.
 */
export interface RecordProof {
  readonly runId: string;
  readonly record: {
    readonly gseq: number;
    readonly stream: string;
    readonly sseq: number;
    readonly timeUs: number;
    readonly prev: string;
    readonly payload: string;
  };
  readonly path: readonly string[];
  readonly checkpoint: string;
}

/** Proof that the log behind one head begins with the log behind an earlier one. Digests in hex. */
export interface ExtensionProof {
  readonly runId: string;
  readonly path: readonly string[];
  readonly from: string;
  readonly to: string;
}

/** Returns the log of a run folder, or the path itself if it is a log file. */
export function logFileOf(path: string): string {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    ? join(path, 'log.sqlite')
    : path;
}

/**
 * Returns true if the writer was killed before its first record: the file has no tables, or empty
 * ones.
 * @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE
 */
export function isUnbegun(path: string, streams: LogStreams): boolean {
  const db = openLogFile(path, 'read');
  try {
    if (db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() === 0) return true;
  } catch (error) {
    throw asLogError(error, path);
  } finally {
    db.close();
  }
  using reader = new LogReader(path, streams);
  return reader.size === 0;
}

/** Records [from, until). */
interface Range {
  readonly from: number;
  readonly until: number;
}

/** Milliseconds of reading between two turns of the event loop. */
const TURN = 20;

/**
 * Yields the records with a turn of the event loop every few milliseconds: a foreign log may be
 * long, and its reader must still react to Ctrl-C.
 * @throws IsoproError ABORTED
 */
export async function* inTurns<T>(records: Iterable<T>, signal?: AbortSignal): AsyncGenerator<T> {
  let since = performance.now();
  for (const record of records) {
    if (performance.now() - since > TURN) {
      await nextTurn();
      if (signal?.aborted === true) throw abortError('reading the log was cancelled', signal);
      since = performance.now();
    }
    yield record;
  }
}

/**
 * Reads a log, changing nothing. Reading proves nothing: verify first.
 */
export class LogReader<Name extends string = string> {
  readonly #db: Db;
  readonly #path: string;
  readonly #streams: LogStreams<Name>;
  readonly #names;

  /** @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE */
  constructor(path: string, streams: LogStreams<Name>) {
    this.#path = path;
    this.#streams = streams;
    this.#names = streamNames(streams);
    this.#db = openLogFile(path, 'read');
    if (!hasExpectedSchema(this.#db, streams)) {
      this.#db.close();
      throw new IsoproError('LOG_UNREADABLE', `${path} does not have the tables of a log`);
    }
  }

  #guard<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw asLogError(error, this.#path);
    }
  }

  /** Records in the file, abandoned ones too. */
  get size(): number {
    return this.#guard(() => this.#db.prepare('SELECT count(*) FROM log').pluck().get() as number);
  }

  /** Run id; null if the file has no session start. @throws IsoproError LOG_UNREADABLE */
  get runId(): string | null {
    const text = this.#guard(() =>
      this.#db.prepare('SELECT CAST(payload AS TEXT) FROM log WHERE gseq = 0').pluck().get(),
    );
    return typeof text === 'string' ? parseSessionStart(text).runId : null;
  }

  /** Records in order, one at a time. The reader can do nothing else while they are read. */
  *records(options: ReadOptions<Name> = {}): Generator<LogRecord<Name>, void> {
    const filter =
      options.stream === undefined ? '' : `AND stream = ${this.#streams.codes[options.stream]}`;
    try {
      const abandoned = options.abandoned === true ? [] : this.#abandoned();
      const { control } = this.#streams.codes;
      let next = 0;
      const rows = this.#db
        .prepare(
          `SELECT gseq, stream, sseq, ts_us, CAST(payload AS TEXT) FROM log WHERE gseq >= ? ${filter} ORDER BY gseq`,
        )
        .raw();
      for (const [gseq, code, sseq, timeUs, payload] of rows.iterate(
        options.from ?? 0,
      ) as IterableIterator<[number, number, number, number, string]>) {
        while (next < abandoned.length && abandoned[next]!.until <= gseq) next++;
        if (code !== control && next < abandoned.length && abandoned[next]!.from <= gseq) continue;
        const stream = this.#names.get(code);
        if (stream === undefined)
          throw new IsoproError('LOG_UNREADABLE', `record ${gseq} belongs to an unknown stream`);
        if (!Number.isSafeInteger(timeUs))
          throw new IsoproError('LOG_UNREADABLE', `record ${gseq} has an invalid time`);
        yield { gseq, stream, sseq, timeUs, payload: decodePayload(payload) };
      }
    } catch (error) {
      throw asLogError(error, this.#path);
    }
  }

  /**
   * Returns the ranges that interrupted iterations left behind, ascending and disjoint: each resume
   * record abandons the records between the one that it names and itself, except control records.
   * The view `live` gives the same to SQL readers; its time grows with the number of resumes times
   * the number of records, and a foreign log can make both large.
   */
  #abandoned(): Range[] {
    const rows = this.#db
      .prepare('SELECT gseq, CAST(payload AS TEXT) FROM log WHERE stream = ? ORDER BY gseq')
      .raw()
      .iterate(this.#streams.codes.control) as IterableIterator<[number, string]>;
    const ranges: Range[] = [];
    for (const [gseq, payload] of rows) {
      const { kind, abandonedFrom: from } = decodePayload(payload);
      if (kind !== 'resume' || typeof from !== 'number' || !(from < gseq)) continue;
      let first = from;
      for (
        let last = ranges.at(-1);
        last !== undefined && last.until >= first;
        last = ranges.at(-1)
      ) {
        first = Math.min(first, last.from);
        ranges.pop();
      }
      ranges.push({ from: first, until: gseq });
    }
    return ranges;
  }

  /** The stored heads, ascending. @throws IsoproError CHECKPOINT_INVALID */
  checkpoints(): SignedCheckpoint[] {
    return this.checkpointNotes().map(parseCheckpoint);
  }

  checkpointNotes(): string[] {
    const notes = 'SELECT CAST(note AS TEXT) FROM checkpoint ORDER BY size';
    return this.#guard(() => this.#db.prepare(notes).pluck().all() as string[]);
  }

  #rangeRoot(low: number, high: number): string {
    const leaves = this.#db
      .prepare('SELECT lower(hex(leaf)) FROM log WHERE gseq >= ? AND gseq < ? ORDER BY gseq')
      .pluck();
    return rootOf(leaves.iterate(low, high) as IterableIterator<string>);
  }

  /**
   * Proves that a record is under a stored head.
   * @throws IsoproError INVALID_ARGUMENT if no stored head covers the record
   */
  proveRecord(gseq: number): RecordProof {
    return this.#guard(() => {
      const head = this.checkpoints().find(({ size }) => size > gseq);
      if (!Number.isSafeInteger(gseq) || gseq < 0 || head === undefined)
        throw new IsoproError('INVALID_ARGUMENT', `no signed head covers record ${gseq}`);
      const row = this.#db
        .prepare(
          'SELECT stream, sseq, ts_us, lower(hex(prev)), CAST(payload AS TEXT) FROM log WHERE gseq = ?',
        )
        .raw()
        .get(gseq) as [number, number, number, string, string] | undefined;
      const stream = row === undefined ? undefined : this.#names.get(row[0]);
      if (row === undefined || stream === undefined)
        throw new IsoproError('INVALID_ARGUMENT', `there is no record ${gseq}`);
      const [, sseq, timeUs, prev, payload] = row;
      const path = inclusionProof(gseq, head.size, (low, high) => this.#rangeRoot(low, high));
      return {
        runId: head.runId,
        record: { gseq, stream, sseq, timeUs, prev, payload },
        path,
        checkpoint: head.text,
      };
    });
  }

  /**
   * Proves that one stored head extends another.
   * @throws IsoproError INVALID_ARGUMENT if there is no head of such a size
   */
  proveExtension(from: number, to: number): ExtensionProof {
    return this.#guard(() => {
      const heads = new Map(this.checkpoints().map((head) => [head.size, head]));
      const [first, last] = [heads.get(from), heads.get(to)];
      if (first === undefined || last === undefined || from > to)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `a proof needs an earlier and a later signed head, not ${from} and ${to}; there are heads of ` +
            `${[...heads.keys()].join(', ') || 'no'} records`,
        );
      const path = consistencyProof(from, to, (low, high) => this.#rangeRoot(low, high));
      return { runId: last.runId, path, from: first.text, to: last.text };
    });
  }

  close(): void {
    this.#db.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

const isDigest = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);

function signedHead(note: string, runId: string, key: TrustedKey): SignedCheckpoint | null {
  const head = parseCheckpoint(note);
  return key.signer === 'witness' &&
    head.runId === runId &&
    isSignedBy(head.note, originOf(runId), key.publicKey)
    ? head
    : null;
}

/**
 * Returns true if the proof shows that the record is in a log whose head the key's owner signed. A
 * run without a witness cannot prove single records.
 */
export function checkRecordProof(
  proof: RecordProof,
  key: TrustedKey,
  { codes }: LogStreams,
): boolean {
  const code = ownValue(codes, proof.record.stream);
  if (
    !isRunId(proof.runId) ||
    !isDigest(proof.record.prev) ||
    !proof.path.every(isDigest) ||
    code === undefined
  )
    return false;
  const head = signedHead(proof.checkpoint, proof.runId, key);
  if (head === null) return false;
  const { gseq, sseq, timeUs, prev, payload } = proof.record;
  const leaf = new LeafHasher(Buffer.from(proof.runId, 'hex')).ofText(
    { stream: code, gseq, sseq, timeUs },
    prev,
    payload,
  );
  return verifyInclusion(leaf, gseq, head.size, head.root, proof.path);
}

/** Returns true if the key's owner signed both heads and the later one extends the earlier one. */
export function checkExtensionProof(proof: ExtensionProof, key: TrustedKey): boolean {
  if (!isRunId(proof.runId) || !proof.path.every(isDigest)) return false;
  const from = signedHead(proof.from, proof.runId, key);
  const to = signedHead(proof.to, proof.runId, key);
  return (
    from !== null &&
    to !== null &&
    verifyConsistency(from.size, from.root, to.size, to.root, proof.path)
  );
}
