import { durable, type DurableState } from '../durable.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { parseCheckpoint, isRunId, type SignedCheckpoint } from './checkpoint.js';
import { LeafHasher, type RunDigests } from './leaf.js';
import { consistencyProof, MerkleFrontier, rootOf } from './merkle.js';
import { encodePayload, type LogPayload, type LogValue } from './payload.js';
import { asLogError, createLogFile, makePlain, openLogFile, type Db } from './schema.js';
import { parseSessionStart, type SessionStart } from './session.js';
import type { LogSigner } from './signer.js';
import { checkStreams, type LogStreams } from './streams.js';
import { scanLog, type LogState } from './verify.js';

export interface NewRecord<Name extends string = string> {
  readonly stream: Name;
  readonly payload: LogPayload;
}

export interface CreateOptions<Name extends string = string> {
  readonly path: string;
  readonly streams: LogStreams<Name>;
  /** 32 hex digits, new for each run. */
  readonly runId: string;
  readonly signer: LogSigner;
  /** The settings that determine the run; the judge compares them. */
  readonly runConfig: LogValue;
  /**
   * SHA-256 in hex of what the run depends on: configuration, playbook, addon, model, evaluation
   * sets.
   */
  readonly digests: RunDigests;
}

/** The streams are those that it was created with. */
export interface ResumeOptions<Name extends string = string>
  extends Pick<CreateOptions<Name>, 'path' | 'streams' | 'signer'> {
  readonly runId?: string;
  /**
   * Iteration that restarts, and the first record of its interrupted attempt. Null: nothing was
   * interrupted, so no record is abandoned and no resume record is written.
   */
  readonly fromIteration: number | null;
  readonly abandonedFrom: number | null;
}

const CONTROL_STATES: ReadonlyMap<string, DurableState> = new Map([
  ['session_start', 'log.begun'],
  ['resume', 'log.resumed'],
  ['nonce', 'log.nonce'],
  ['session_end', 'log.ended'],
]);

/** Microseconds since 1970 that never go back, whatever is done to the system's clock. */
class Clock {
  readonly #origin = BigInt(Date.now()) * 1000n - process.hrtime.bigint() / 1000n;
  #last: number;

  constructor(last: number) {
    this.#last = last;
  }

  now(): number {
    this.#last = Math.max(this.#last, Number(this.#origin + process.hrtime.bigint() / 1000n));
    return this.#last;
  }
}

/**
 * The only writer of a run's log. When `append` returns, its records are on disk. After a failed
 * write the object is unusable and the file is as it was before that write; resume it.
 */
export class EventLog<Name extends string = string> {
  readonly path: string;
  readonly session: SessionStart;
  readonly #streams: LogStreams<Name>;
  readonly #db: Db;
  readonly #signer: LogSigner;
  readonly #hasher: LeafHasher;
  readonly #clock: Clock;
  readonly #insert;
  readonly #streamSizes: Map<number, number>;
  #frontier: MerkleFrontier;
  #headFrontier: MerkleFrontier;
  #lastLeaf: string;
  #state: 'open' | 'ended' | 'closed' = 'open';

  private constructor(
    { path, streams, signer }: Pick<CreateOptions<Name>, 'path' | 'streams' | 'signer'>,
    db: Db,
    session: SessionStart,
    state: LogState | null,
  ) {
    this.path = path;
    this.#streams = streams;
    this.session = session;
    this.#db = db;
    this.#signer = signer;
    this.#hasher = new LeafHasher(Buffer.from(session.runId, 'hex'));
    this.#clock = new Clock(state?.lastTimeUs ?? 0);
    this.#frontier = state?.frontier ?? new MerkleFrontier();
    this.#headFrontier = state?.headFrontier ?? new MerkleFrontier();
    this.#lastLeaf = state?.lastLeaf ?? session.genesis;
    this.#streamSizes = new Map(state?.streamSizes ?? []);
    if (state?.ended === true) this.#state = 'ended';
    this.#insert = db.prepare(
      'INSERT INTO log (gseq, stream, sseq, ts_us, prev, payload, leaf, tag) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    );
    signer.tags?.begin(session.runId, this.#frontier.size);
  }

  /**
   * Starts a log: takes a ticket and writes the session start.
   * @throws IsoproError LOG_TAMPERED if the run already had one, LOG_EXISTS, LOG_WRITE_FAILED,
   *   WITNESS_UNAVAILABLE, INVALID_ARGUMENT
   */
  static async create<Name extends string>(options: CreateOptions<Name>): Promise<EventLog<Name>> {
    const { path, streams, runId, signer, runConfig, digests } = options;
    if (!isRunId(runId))
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `a run id must have 32 hex digits, not ${JSON.stringify(runId)}`,
      );
    checkStreams(streams); // before a ticket is taken
    const signed = (await signer.heads(runId)).length;
    if (signed > 0)
      throw new IsoproError(
        'LOG_TAMPERED',
        `the run ${runId} has ${signed} signed heads, but ${path} is empty or missing`,
      );
    const ticket = await signer.ticket(runId);
    const payload: LogPayload = {
      kind: 'session_start',
      format: 'isopro.log.v1',
      runId,
      signer: signer.kind,
      ticket,
      digests,
      runConfig,
    };
    const session = parseSessionStart(encodePayload(payload));
    const log = new EventLog(options, createLogFile(path, streams), session, null);
    log.#control(payload);
    return log;
  }

  /**
   * Continues a log after a crash: verifies all of it against the signer's heads, stores heads that
   * the crash kept from the file, then writes a resume record. A log whose session had ended, with
   * or without a signed final head, can only be finished.
   * @throws IsoproError LOG_TAMPERED if the log does not verify, LOG_FINISHED, LOG_NOT_FOUND,
   *   LOG_UNREADABLE, LOG_BUSY
   */
  static async resume<Name extends string>(options: ResumeOptions<Name>): Promise<EventLog<Name>> {
    const { path, streams, signer } = options;
    const db = openLogFile(path, 'append');
    try {
      const first = db
        .prepare('SELECT CAST(payload AS TEXT) FROM log WHERE gseq = 0')
        .pluck()
        .get();
      if (typeof first !== 'string')
        throw new IsoproError(
          'LOG_UNREADABLE',
          `${path} has no session start and nothing was acknowledged; start the run again`,
        );
      const { runId } = parseSessionStart(first);
      const heads = await signer.heads(runId);
      const key = await signer.key(runId);
      const scanned = { streams, key, heads, ...given(options, 'runId') };
      const { verification, state } = await scanLog(db, scanned);
      const { outcome, disagreement } = verification;
      if ((outcome !== 'ok' && outcome !== 'unterminated') || state.session === null)
        throw new IsoproError(
          'LOG_TAMPERED',
          `${path} is ${outcome} at record ${disagreement?.at ?? 0}: ${disagreement?.reason ?? ''}`,
        );
      const head = db.prepare('SELECT 1 FROM checkpoint WHERE size = ?').get(state.frontier.size);
      if (outcome === 'ok' && head !== undefined)
        throw new IsoproError('LOG_FINISHED', `the log of run ${runId} is complete`);
      const log = new EventLog(options, db, state.session, state);
      for (const note of heads) log.#storeHead(note);
      const { fromIteration, abandonedFrom } = options;
      if (!state.ended && fromIteration !== null && abandonedFrom !== null) {
        if (!Number.isSafeInteger(fromIteration) || fromIteration < 0)
          throw new IsoproError('INVALID_ARGUMENT', 'fromIteration must be a whole number');
        if (!Number.isSafeInteger(abandonedFrom) || abandonedFrom < 1 || abandonedFrom > log.size)
          throw new IsoproError(
            'INVALID_ARGUMENT',
            `abandonedFrom must be between 1 and ${log.size}, the number of records in the log`,
          );
        log.#control({ kind: 'resume', fromIteration, abandonedFrom });
      }
      return log;
    } catch (error) {
      db.close();
      throw asLogError(error, path);
    }
  }

  /** Records so far; the next one has this number. */
  get size(): number {
    return this.#frontier.size;
  }

  get ended(): boolean {
    return this.#state !== 'open';
  }

  #write(records: readonly NewRecord<Name | 'control'>[]): { first: number; count: number } {
    if (this.#state === 'closed')
      throw new IsoproError('OBJECT_DISPOSED', `the log ${this.path} is closed`);
    if (this.#state === 'ended')
      throw new IsoproError('LOG_FINISHED', `the session in ${this.path} has ended`);
    const texts = records.map(({ payload }) => encodePayload(payload));
    const first = this.size;
    const frontier = this.#frontier.clone();
    const streamSizes = new Map<number, number>();
    let leaf = this.#lastLeaf;
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      for (const [i, { stream: name }] of records.entries()) {
        const stream = this.#streams.codes[name];
        const sseq = streamSizes.get(stream) ?? this.#streamSizes.get(stream) ?? 0;
        const position = { stream, gseq: first + i, sseq, timeUs: this.#clock.now() };
        const prev = leaf;
        leaf = this.#hasher.ofText(position, prev, texts[i] as string);
        const tag = this.#signer.tags?.tag(leaf) ?? null;
        this.#insert.run(
          position.gseq,
          stream,
          sseq,
          position.timeUs,
          Buffer.from(prev, 'hex'),
          texts[i],
          Buffer.from(leaf, 'hex'),
          tag,
        );
        frontier.append(leaf);
        streamSizes.set(stream, sseq + 1);
      }
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#state = 'closed';
      // rolls back; after a failed fsync nothing more may be trusted to this handle
      this.#db.close();
      throw asLogError(error, this.path);
    }
    this.#frontier = frontier;
    this.#lastLeaf = leaf;
    for (const [stream, size] of streamSizes) this.#streamSizes.set(stream, size);
    durable(CONTROL_STATES.get(records.at(-1)?.payload.kind ?? '') ?? 'log.records');
    return { first, count: records.length };
  }

  #control(payload: LogPayload): void {
    this.#write([{ stream: 'control', payload }]);
  }

  /**
   * Appends records in the given order in one transaction. They are durable when this returns.
   * @throws IsoproError INVALID_ARGUMENT for a payload without canonical form (nothing is written,
   *   the log stays usable); LOG_WRITE_FAILED, LOG_BUSY (the log must be resumed); LOG_FINISHED,
   *   OBJECT_DISPOSED
   */
  append(records: readonly NewRecord<Name>[]): { readonly first: number; readonly count: number } {
    for (const { stream } of records) {
      if (!Object.hasOwn(this.#streams.codes, stream) || stream === 'control')
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `there is no stream ${JSON.stringify(stream)} to append to`,
        );
    }
    return this.#write(records);
  }

  #storeHead(note: string): SignedCheckpoint {
    const head = parseCheckpoint(note);
    try {
      this.#db
        .prepare('INSERT INTO checkpoint (size, note) VALUES (?, ?) ON CONFLICT (size) DO NOTHING')
        .run(head.size, note);
    } catch (error) {
      throw asLogError(error, this.path);
    }
    durable(head.final ? 'log.final_head' : 'log.head');
    return head;
  }

  async #sign(final: boolean, state?: string): Promise<SignedCheckpoint> {
    const { size } = this;
    const old = this.#headFrontier;
    const leaves = this.#db
      .prepare('SELECT lower(hex(leaf)) FROM log WHERE gseq >= ? AND gseq < ? ORDER BY gseq')
      .pluck();
    const rangeRoot = (low: number, high: number): string => {
      // what lies before the last head is a complete subtree of its tree (RFC 6962 §2.1.2), so only
      // newer leaves are read
      const known = old.subtrees.find(({ start, width }) => start === low && width === high - low);
      return known?.digest ?? rootOf(leaves.iterate(low, high) as IterableIterator<string>);
    };
    const frontier = this.#frontier.clone();
    const proof = consistencyProof(old.size, size, rangeRoot);
    const { runId } = this.session;
    const note = await this.#signer.signHead({
      ...{ runId, size, root: frontier.root(), proof, final },
      ...given({ state }),
    });
    this.#headFrontier = frontier;
    return this.#storeHead(note);
  }

  /**
   * Has the current head signed and stores it.
   * @param state digest in hex of the state that the records lead to, for a log that keeps one;
   *   such a head also states its time of signing
   * @throws IsoproError WITNESS_REFUSED, WITNESS_UNAVAILABLE
   */
  async checkpoint(state?: string): Promise<SignedCheckpoint> {
    if (this.#state !== 'open')
      throw new IsoproError(
        this.#state === 'closed' ? 'OBJECT_DISPOSED' : 'LOG_FINISHED',
        `the log ${this.path} is ${this.#state}`,
      );
    return this.#sign(false, state);
  }

  /**
   * Returns the ticket's nonce in hex. Append everything that must not depend on it first, above
   * all the submitted adapter: this call signs the current head, and the witness records its size
   * with the nonce.
   */
  async reveal(): Promise<string> {
    const head = await this.checkpoint();
    const nonce = await this.#signer.reveal(this.session.runId, head.size);
    this.#control({ kind: 'nonce', nonce });
    return nonce;
  }

  /**
   * Returns the witness's note with the nonce of the signed head of `size` records.
   * @throws IsoproError WITNESS_REFUSED
   */
  draw(size: number): Promise<string> {
    return this.#signer.draw(this.session.runId, size);
  }

  /**
   * Ends the session, or completes an end that a crash interrupted: last record, final head, one
   * plain file without WAL. Closes the log.
   */
  async finish(payload: { readonly [key: string]: LogValue } = {}): Promise<SignedCheckpoint> {
    if (this.#state === 'open') {
      // so that a removed head is noticed
      const heads = this.#db.prepare('SELECT count(*) FROM checkpoint').pluck().get() as number;
      this.#control({ ...payload, heads, kind: 'session_end' });
      this.#state = 'ended';
    }
    if (this.#state === 'closed')
      throw new IsoproError('OBJECT_DISPOSED', `the log ${this.path} is closed`);
    const head = await this.#sign(true);
    makePlain(this.#db, this.path);
    this.close();
    durable('log.plain');
    return head;
  }

  /** Closes the file. Without `finish` the log stays unterminated and can be resumed. */
  close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#db.close();
  }
}
