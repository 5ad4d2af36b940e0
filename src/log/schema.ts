import { existsSync, lstatSync } from 'node:fs';
import Database from 'better-sqlite3';
import { durable } from '../durable.js';
import { IsoproError } from '../errors.js';
import { refuseLink } from '../files.js';
import { checkStreams, type LogStreams } from './streams.js';

export type Db = Database.Database;

/**
 * The file. `log` is the evidence, `checkpoint` the signed heads. Triggers and the order check
 * guard against accidents only: who can write the file can drop them, and that is what the hashes
 * and the witness are for. `live` leaves out what an interrupted iteration left behind; the other
 * views are those that the streams name.
 */
const envelope = (stream: number, control: number): string => `
  SELECT row_number() OVER (ORDER BY gseq) - 1 AS seq, ts_us, lower(hex(prev)) AS prev_hash, payload, lower(hex(leaf)) AS hash
  FROM live
  WHERE stream = ${stream} OR (stream = ${control} AND json_extract(payload, '$.kind') IN ('session_start', 'session_end'))`;

function schemaOf(streams: LogStreams): string {
  checkStreams(streams);
  const { codes, views = {} } = streams;
  const control = codes.control as number;
  return `
CREATE TABLE log (
  gseq INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL,
  sseq INTEGER NOT NULL,
  ts_us INTEGER NOT NULL,
  prev BLOB NOT NULL,
  payload TEXT NOT NULL,
  leaf BLOB NOT NULL,
  tag BLOB
) STRICT;
CREATE UNIQUE INDEX log_stream ON log (stream, sseq);
CREATE TABLE checkpoint (size INTEGER PRIMARY KEY, note TEXT NOT NULL) STRICT;
CREATE TRIGGER log_insert BEFORE INSERT ON log WHEN NEW.gseq IS NOT (SELECT coalesce(max(gseq) + 1, 0) FROM log)
  BEGIN SELECT raise(ABORT, 'records are appended in order'); END;
CREATE TRIGGER log_update BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_delete BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
CREATE TRIGGER checkpoint_update BEFORE UPDATE ON checkpoint BEGIN SELECT raise(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoint_delete BEFORE DELETE ON checkpoint BEGIN SELECT raise(ABORT, 'checkpoints are append-only'); END;
CREATE VIEW live AS
  SELECT * FROM log AS record
  WHERE stream = ${control} OR NOT EXISTS (
    SELECT 1 FROM log AS resume
    WHERE resume.stream = ${control} AND resume.gseq > record.gseq
      AND json_extract(resume.payload, '$.kind') = 'resume' AND json_extract(resume.payload, '$.abandonedFrom') <= record.gseq);
${Object.entries(views)
  .map(
    ([view, stream]) => `CREATE VIEW ${view} AS ${envelope(codes[stream] as number, control)};\n`,
  )
  .join('')}`;
}

/** Every object of the file with its SQL, in one text. */
function describeSchema(db: Db): string {
  const rows = db
    .prepare('SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name')
    .raw()
    .all();
  return JSON.stringify(rows);
}

const expectations = new WeakMap<LogStreams, string>();

/**
 * Returns true if the file has exactly the tables, triggers and views above.
 * @throws IsoproError INVALID_ARGUMENT if the streams are not valid
 */
export function hasExpectedSchema(db: Db, streams: LogStreams): boolean {
  let expected = expectations.get(streams);
  if (expected === undefined) {
    const reference = new Database(':memory:');
    reference.exec(schemaOf(streams));
    expected = describeSchema(reference);
    expectations.set(streams, expected);
    reference.close();
  }
  return describeSchema(db) === expected;
}

/** Returns SQLite's code of a failure (`SQLITE_BUSY`, …), or null for any other failure. */
export function sqliteCode(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : null;
}

const ERROR_CODES = [
  ['LOG_WRITE_FAILED', ['SQLITE_FULL', 'SQLITE_IOERR', 'SQLITE_READONLY']],
  ['LOG_BUSY', ['SQLITE_BUSY', 'SQLITE_LOCKED', 'SQLITE_CONSTRAINT']],
] as const;

/** Converts SQLite's failures to errors of this project; any other failure passes through. */
export function asLogError(failure: unknown, path: string): unknown {
  const code = sqliteCode(failure);
  if (code === null) return failure;
  const kind = ERROR_CODES.find(([, prefixes]) => prefixes.some((each) => code.startsWith(each)));
  const { message } = failure as Error;
  return new IsoproError(kind?.[0] ?? 'LOG_UNREADABLE', `${path}: ${message}`, { cause: failure });
}

/**
 * An append-only file for one writer: WAL, synchronous=FULL, and on macOS F_FULLFSYNC, without
 * which fsync does not reach the disk.
 */
function configure(db: Db): void {
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  db.pragma('fullfsync = ON');
  db.pragma('checkpoint_fullfsync = ON');
  db.pragma('recursive_triggers = ON');
  db.pragma('trusted_schema = OFF');
}

/**
 * Creates the file.
 * @throws IsoproError LOG_EXISTS, LOG_WRITE_FAILED, INVALID_ARGUMENT for what are no streams
 */
export function createLogFile(path: string, streams: LogStreams): Db {
  const schema = schemaOf(streams);
  if (path !== ':memory:' && lstatSync(path, { throwIfNoEntry: false }) !== undefined)
    throw new IsoproError('LOG_EXISTS', `${path} already exists`);
  try {
    const db = new Database(path);
    configure(db);
    db.transaction(() => db.exec(schema))();
    durable('log.created');
    return db;
  } catch (error) {
    if (error instanceof TypeError)
      throw new IsoproError('LOG_WRITE_FAILED', `${path}: ${error.message}`, { cause: error });
    throw asLogError(error, path);
  }
}

/**
 * Merges the WAL into the file. If there is a reader, the WAL stays, which is durable too.
 * @throws IsoproError LOG_WRITE_FAILED
 */
export function makePlain(db: Db, path: string): void {
  try {
    db.pragma('journal_mode = DELETE');
  } catch (error) {
    if (sqliteCode(error)?.startsWith('SQLITE_BUSY') !== true) throw asLogError(error, path);
  }
}

/** Finishes what a crash skipped after the final head: `makePlain` on a log without a writer. */
export function settleLogFile(path: string): void {
  if (!existsSync(`${path}-wal`)) return;
  const db = openLogFile(path, 'append');
  try {
    makePlain(db, path);
  } finally {
    db.close();
  }
}

/** File name endings of what SQLite keeps next to a database. */
const BESIDE = ['-wal', '-shm', '-journal'] as const;

/**
 * Opens a log. A reader changes nothing in it.
 * @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE, WRITE_FAILED for a link if SQLite would
 *   write
 */
export function openLogFile(path: string, mode: 'read' | 'append'): Db {
  if (!existsSync(path)) throw new IsoproError('LOG_NOT_FOUND', `there is no log at ${path}`);
  // SQLite creates and writes the files next to a log even if the log is only read
  for (const file of [...(mode === 'append' ? [path] : []), ...BESIDE.map((end) => path + end)])
    refuseLink(file);
  try {
    const db = new Database(path, { readonly: mode === 'read', fileMustExist: true });
    if (mode === 'append') configure(db);
    else {
      db.pragma('trusted_schema = OFF');
      db.pragma('cell_size_check = ON');
    }
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    return db;
  } catch (error) {
    throw asLogError(error, path);
  }
}

/**
 * Damage that SQLite reports in the pages of a file, including indexes that disagree with rows;
 * null if there is none.
 */
export type PageCheck = string | null;

export function checkPages(db: Db): PageCheck {
  const found = String(db.pragma('integrity_check(1)', { simple: true }));
  return found === 'ok' ? null : found;
}
