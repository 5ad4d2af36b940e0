import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { durable } from '../durable.js';
import { IsoproError } from '../errors.js';
import { checkpointText, originOf, parseCheckpoint } from './checkpoint.js';
import { drawText } from './draw.js';
import { verifyConsistency } from './merkle.js';
import { asLogError, sqliteCode, type Db } from './schema.js';
import { formatNote, type NoteSignature } from './signed-note.js';
import { commitToNonce, ticketText } from './ticket.js';
import { WITNESS_KEY_NAME } from './trusted-key.js';
import { witnessFile } from './witness-key.js';
import { witnessProcessFile } from './witness-protocol.js';

/** Head that a run asks the witness to sign. Digests in hex. */
export interface HeadRequest {
  readonly runId: string;
  readonly size: number;
  readonly root: string;
  /** RFC 6962 consistency proof from the last head of this run. */
  readonly proof: readonly string[];
  readonly final: boolean;
  /** Digest of what the records come to; a head that has it also says when it was signed. */
  readonly state?: string | undefined;
}

export type SignText = (text: string, keyName: string, runId: string) => NoteSignature;

interface TicketRow {
  readonly nonce: string;
  readonly revealed_size: number | null;
}

const SCHEMA = `
CREATE TABLE IF NOT EXISTS ticket (
  number INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  note TEXT NOT NULL,
  nonce TEXT NOT NULL,
  secret BLOB NOT NULL,
  revealed_size INTEGER,
  finished INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS head (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES ticket (run_id),
  size INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS head_run ON head (run_id, id);
`;

const HEADS = 'SELECT note FROM head WHERE run_id = ? ORDER BY id';

/** Reads a witness's file without changing it. */
function readStore<T>(path: string, read: (db: Db) => T): T {
  let db: Db | null = null;
  try {
    db = new Database(path, { readonly: true, fileMustExist: true });
    return read(db);
  } catch (error) {
    throw asLogError(error, path);
  } finally {
    db?.close();
  }
}

/** Returns true if a file has a witness's tables. */
const isBegun = (path: string): boolean =>
  (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0 &&
  readStore(
    path,
    (db) =>
      db.prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'ticket'").pluck().get() === 1,
  );

/**
 * Refuses a home whose witness lost its file: a new one would number its tickets from 1 and sign a
 * second history of a run. The process file is written after the tables, so if it exists, they did.
 * @throws IsoproError WITNESS_UNAVAILABLE if the file of a home's witness is empty or missing,
 *   LOG_UNREADABLE if it is not a SQLite file
 */
export function requireKept(home: string): void {
  const file = witnessFile(home);
  if (!existsSync(witnessProcessFile(home)) || isBegun(file)) return;
  throw new IsoproError(
    'WITNESS_UNAVAILABLE',
    `${file} is empty or missing, but ${witnessProcessFile(home)} next to it shows that a witness kept tickets and heads in it`,
    {
      remedy:
        'Restore the file from a copy. If you have none, move the whole folder away: a new witness with a new key then starts there, and ' +
        'you verify earlier runs with the old key.pub (--key FILE).',
    },
  );
}

/**
 * Returns the heads of a run in a witness's file, which stays unchanged; empty if there is no file.
 */
export function readWitnessHeads(path: string, runId: string): string[] {
  try {
    return readStore(path, (db) => db.prepare(HEADS).pluck().all(runId) as string[]);
  } catch (error) {
    const { cause } = error as Error;
    if (sqliteCode(cause)?.startsWith('SQLITE_CANTOPEN') === true) return [];
    throw error;
  }
}

/**
 * Rules of the witness, independent of the transport: numbered tickets, one growing line of heads
 * per run, a nonce that is revealed only for the last signed head, nothing after the final head.
 * Every answer is on disk before it is sent.
 */
export class WitnessStore {
  readonly #db: Db;
  readonly #sign: SignText;

  constructor(path: string, sign: SignText) {
    this.#sign = sign;
    try {
      this.#db = new Database(path);
      this.#db.pragma('journal_mode = WAL');
      this.#db.pragma('synchronous = FULL');
      this.#db.pragma('fullfsync = ON');
      this.#db.exec(SCHEMA);
    } catch (error) {
      throw asLogError(error, path);
    }
  }

  /** Returns the first column of a query's first row. */
  #value<T>(sql: string, ...parameters: unknown[]): T | undefined {
    return this.#db
      .prepare(sql)
      .pluck()
      .get(...parameters) as T | undefined;
  }

  #run(sql: string, ...parameters: unknown[]): void {
    this.#db.prepare(sql).run(...parameters);
  }

  #ticket(runId: string): TicketRow {
    const row = this.#db
      .prepare('SELECT nonce, revealed_size FROM ticket WHERE run_id = ?')
      .get(runId) as TicketRow | undefined;
    if (row === undefined)
      throw new IsoproError('WITNESS_REFUSED', `the witness has issued no ticket for run ${runId}`);
    return row;
  }

  /** The run's ticket; issued on the first call, the same one after that. */
  issueTicket(runId: string): string {
    const ticket = this.#db
      .transaction((): string => {
        const existing = this.#value<string>('SELECT note FROM ticket WHERE run_id = ?', runId);
        if (existing !== undefined) return existing;
        const nonce = randomBytes(32);
        const number = this.#value<number>('SELECT coalesce(max(number), 0) + 1 FROM ticket')!;
        const unfinished = 'SELECT count(*) FROM ticket WHERE finished = 0';
        const unfinishedBefore = this.#value<number>(unfinished)!;
        // k_0 of the single-process fallback; a witness that signs has no use for it
        this.#run(
          "INSERT INTO ticket (number, run_id, note, nonce, secret) VALUES (?, ?, '', ?, ?)",
          ...[number, runId, nonce.toString('hex'), randomBytes(32)],
        );
        const nonceCommitment = commitToNonce(runId, nonce);
        const text = ticketText({ runId, number, unfinishedBefore, nonceCommitment });
        const note = formatNote(text, [this.#sign(text, WITNESS_KEY_NAME, runId)]);
        this.#run('UPDATE ticket SET note = ? WHERE run_id = ?', note, runId);
        return note;
      })
      .immediate();
    durable('witness.ticket');
    return ticket;
  }

  /** Returns the run's own secret, which is made with its ticket. */
  secret(runId: string): Buffer {
    this.#ticket(runId);
    return this.#value<Buffer>('SELECT secret FROM ticket WHERE run_id = ?', runId)!;
  }

  heads(runId: string): string[] {
    return this.#db.prepare(HEADS).pluck().all(runId) as string[];
  }

  /**
   * Signs a head that extends the run's last one.
   * @throws IsoproError WITNESS_REFUSED, and the refusal changes nothing
   */
  signHead({ runId, size, root, proof, final, state }: HeadRequest): string {
    const refuse = (reason: string): never => {
      throw new IsoproError('WITNESS_REFUSED', reason);
    };
    const head = this.#db
      .transaction((): string => {
        const ticket = this.#ticket(runId);
        const lastNote = this.#value<string>(`${HEADS} DESC LIMIT 1`, runId);
        const last = lastNote === undefined ? null : parseCheckpoint(lastNote);
        if (last !== null) {
          const isSame = last.size === size && last.root === root;
          if (isSame && last.final === final) {
            if (state !== undefined && state !== last.stated?.state)
              refuse(`the head of ${last.size} records was signed with a different state`);
            return lastNote!;
          }
          if (last.final)
            refuse(`run ${runId} is closed: its final head of ${last.size} records is signed`);
          if (!isSame && !verifyConsistency(last.size, last.root, size, root, proof))
            refuse(`the head of ${size} records does not extend the signed one of ${last.size}`);
        }
        const { revealed_size: revealedSize, nonce } = ticket;
        // times of one log never go back, whatever is done to the clock
        const timeUs = Math.max(last?.stated?.timeUs ?? 0, Date.now() * 1000);
        const text = checkpointText({
          ...{ runId, size, root, final },
          revealed: revealedSize === null ? null : { size: revealedSize, nonce },
          ...(state !== undefined && { stated: { timeUs, state } }),
        });
        const note = formatNote(text, [this.#sign(text, originOf(runId), runId)]);
        this.#run('INSERT INTO head (run_id, size, note) VALUES (?, ?, ?)', runId, size, note);
        if (final) this.#run('UPDATE ticket SET finished = 1 WHERE run_id = ?', runId);
        return note;
      })
      .immediate();
    durable(final ? 'witness.final_head' : 'witness.head');
    return head;
  }

  /**
   * Returns the nonce in hex if a head of `size` records is the last one signed.
   * @throws IsoproError WITNESS_REFUSED
   */
  reveal(runId: string, size: number): string {
    const nonce = this.#db
      .transaction((): string => {
        const ticket = this.#ticket(runId);
        if (ticket.revealed_size !== null) return ticket.nonce;
        const last = this.#value<number>(
          'SELECT size FROM head WHERE run_id = ? ORDER BY id DESC LIMIT 1',
          runId,
        );
        if (last !== size)
          throw new IsoproError(
            'WITNESS_REFUSED',
            `the nonce is revealed only for the last signed head, which does not cover ${size} records`,
          );
        this.#run('UPDATE ticket SET revealed_size = ? WHERE run_id = ?', size, runId);
        return ticket.nonce;
      })
      .immediate();
    durable('witness.nonce');
    return nonce;
  }

  /**
   * Returns the note of a nonce that belongs to one signed head: the same on every call, and
   * unknown before that head is signed.
   * @throws IsoproError WITNESS_REFUSED
   */
  draw(runId: string, size: number): string {
    const secret = this.secret(runId);
    const head = this.#value<string>(
      'SELECT note FROM head WHERE run_id = ? AND size = ? ORDER BY id LIMIT 1',
      ...[runId, size],
    );
    if (head === undefined)
      throw new IsoproError(
        'WITNESS_REFUSED',
        `no head of ${size} records is signed for run ${runId}, so there is no draw for it`,
      );
    const { root, note } = parseCheckpoint(head);
    const nonce = createHmac('sha256', secret)
      .update('isopro.draw.v1\n')
      .update(note.text)
      .digest('hex');
    const text = drawText({ runId, size, root, nonce });
    return formatNote(text, [this.#sign(text, WITNESS_KEY_NAME, runId)]);
  }

  close(): void {
    this.#db.close();
  }
}
