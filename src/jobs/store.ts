/**
 * Jobs on the disk: one SQLite file, of one process at a time, from which no acknowledged job is
 * lost when that is killed.
 */
import { statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { unwritable } from '../files.js';
import { sqliteCode } from '../log/schema.js';
import {
  EVENT_TYPES,
  JOB_STATES,
  type EventType,
  type Job,
  type JobError,
  type JobEvent,
  type JobState,
} from './job.js';

const SCHEMA = `
CREATE TABLE IF NOT EXISTS job (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  name TEXT,
  owner TEXT NOT NULL,
  of_admin INTEGER NOT NULL,
  settings TEXT NOT NULL,
  state TEXT NOT NULL,
  waiting_for TEXT,
  progress TEXT NOT NULL DEFAULT 'null',
  command TEXT NOT NULL,
  run TEXT,
  memory_bytes INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  pid INTEGER,
  created_at TEXT NOT NULL,
  started_at TEXT,
  ended_at TEXT,
  result TEXT NOT NULL DEFAULT 'null',
  error TEXT NOT NULL DEFAULT 'null',
  note TEXT NOT NULL DEFAULT 'null',
  idempotency_key TEXT,
  asked TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS job_key ON job (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_state ON job (state);
CREATE TABLE IF NOT EXISTS event (
  job INTEGER NOT NULL REFERENCES job (seq),
  id INTEGER NOT NULL,
  at TEXT NOT NULL,
  type TEXT NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (job, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS upload (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  filename TEXT NOT NULL,
  purpose TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  file TEXT NOT NULL
) STRICT;
PRAGMA user_version = 1;
`;
const VERSION = 1;

/** The process that was killed a moment ago may not have let go yet. */
const BUSY_MS = 3000;

const json = z.string().transform((text, context) => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    context.addIssue('not JSON');
    return z.NEVER;
  }
});
/** A schema of rows, whose columns become members in camel case. */
const rowOf = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.preprocess(
    (row) =>
      Object.fromEntries(
        Object.entries(row as object).map(([column, value]) => [
          column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
          value,
        ]),
      ),
    z.object(shape),
  );
const columnOf = (member: string): string =>
  member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const jobRow: z.ZodType<Job> = rowOf({
  id: z.string(),
  kind: z.string(),
  name: z.string().nullable(),
  owner: z.string(),
  settings: json,
  state: z.enum(JOB_STATES),
  waitingFor: z.enum(['turn', 'memory']).nullable(),
  progress: json,
  command: z.string(),
  run: z.string().nullable(),
  memoryBytes: z.number(),
  attempts: z.number(),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
  result: json,
  error: json.transform((error) => error as JobError | null),
});
const eventRow = rowOf({ id: z.number(), at: z.string(), type: z.enum(EVENT_TYPES), data: json });

const uploadRow = rowOf({
  id: z.string(),
  owner: z.string(),
  filename: z.string(),
  purpose: z.string(),
  bytes: z.number(),
  createdAt: z.string(),
  /** Path below the folder of files; older files have the name only. */
  file: z.string().regex(/^(?:file-[0-9a-f]+\/)?file-[0-9a-f]+\.\w+$/),
});
/** A file that a caller has sent. */
export type Upload = z.output<typeof uploadRow>;

export interface NewJob
  extends Pick<
    Job,
    'id' | 'kind' | 'name' | 'owner' | 'settings' | 'command' | 'run' | 'memoryBytes'
  > {
  /** Whether the job may use the names of all owners. */
  readonly isOfAdmin: boolean;
  readonly idempotencyKey: string | null;
  /** Digest of what was asked for; a key of another one is refused. */
  readonly asked: string;
  /** Data of the creator of the job. */
  readonly note: unknown;
}

/** Members of a job that change. */
export type JobChange = Partial<
  Pick<
    Job,
    'state' | 'waitingFor' | 'progress' | 'attempts' | 'startedAt' | 'endedAt' | 'result' | 'error'
  > & { readonly pid: number | null }
>;
const AS_JSON: ReadonlySet<string> = new Set(['progress', 'result', 'error']);

export interface JobFilter {
  readonly owner?: string | undefined;
  readonly kind?: string | undefined;
  readonly state?: JobState | undefined;
  /** Whether the job has a note. */
  readonly isNoted?: boolean;
  /** Older than this one. */
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface StoreOptions {
  /** Milliseconds to wait while another process holds the file. */
  readonly busyMs?: number;
  /** Name of a file or folder next to the database that its jobs left; null: none. */
  readonly traces?: string | null;
}

/**
 * File next to the database, written before the first job or upload is acknowledged. It shows that
 * an empty database has lost them.
 */
export const MARK = 'jobs.acknowledged';

const begunAnew = (file: string, traces: string): IsoproError =>
  new IsoproError(
    'JOBS_UNREADABLE',
    `${file} is empty or missing, but ${traces} next to it shows that there were jobs`,
    {
      remedy:
        'Restore the file from a copy. To start without those jobs and files, move the whole folder away.',
    },
  );

export interface Events {
  readonly events: readonly JobEvent[];
  readonly hasMore: boolean;
}

/** The first items of rows, of which there may be one more than the limit. */
const firstOf = <T>(
  rows: readonly unknown[],
  limit: number,
  form: z.ZodType<T>,
): { readonly items: T[]; readonly hasMore: boolean } => ({
  items: rows.slice(0, limit).map((each) => form.parse(each)),
  hasMore: rows.length > limit,
});

type Written = { readonly id: number; readonly at: string };

export class JobStore {
  readonly file: string;
  readonly #db: Database.Database;
  readonly #identity: string | null;
  #isMarked = false;

  private constructor(file: string, db: Database.Database) {
    this.file = file;
    this.#db = db;
    this.#identity = identityOf(file);
  }

  /**
   * @throws IsoproError JOBS_UNREADABLE where the file is damaged or none of ours, JOBS_BUSY where
   *   another process has it, WRITE_FAILED
   */
  static open(file: string, { busyMs = BUSY_MS, traces = null }: StoreOptions = {}): JobStore {
    let db: Database.Database | undefined;
    try {
      if (traces !== null && !(statSync(file, { throwIfNoEntry: false })?.size ?? 0))
        throw begunAnew(file, traces);
      db = new Database(file, { timeout: busyMs });
      // held as long as this process lives, and taken from it by the kernel when it is killed
      db.pragma('locking_mode = EXCLUSIVE');
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = FULL');
      db.pragma('trusted_schema = OFF');
      db.exec('BEGIN EXCLUSIVE; COMMIT');
      const version = db.pragma('user_version', { simple: true }) as number;
      if (version !== 0 && version !== VERSION)
        throw new IsoproError(
          'JOBS_UNREADABLE',
          `${file} has version ${version}, expected ${VERSION}`,
        );
      if (version === 0 && traces !== null) throw begunAnew(file, traces);
      db.exec(SCHEMA);
      const [sound] = db.pragma('quick_check(1)') as { quick_check: string }[];
      if (sound?.quick_check !== 'ok')
        throw new IsoproError('JOBS_UNREADABLE', `${file} is damaged: ${sound?.quick_check}`);
      const store = new JobStore(file, db);
      store.unended();
      return store;
    } catch (error) {
      db?.close();
      throw asJobsError(error, file);
    }
  }

  close(): void {
    this.#db.close();
  }

  /**
   * @throws IsoproError INVALID_ARGUMENT where the key was given for something else,
   *   JOBS_UNREADABLE, WRITE_FAILED
   */
  add(job: NewJob, at: string): { readonly job: Job; readonly isNew: boolean } {
    this.#requireFile();
    return this.#do(() => {
      const known =
        job.idempotencyKey === null
          ? undefined
          : this.#row(
              'SELECT * FROM job WHERE owner = ? AND idempotency_key = ?',
              job.owner,
              job.idempotencyKey,
            );
      if (known !== undefined) {
        if (known.asked !== job.asked)
          throw new IsoproError(
            'CONFLICT',
            `the key ${job.idempotencyKey} was already used for a different request`,
            { remedy: 'Use a new Idempotency-Key for a new request.' },
          );
        return { job: jobRow.parse(known), isNew: false };
      }
      this.#mark();
      this.#db.transaction(() => {
        const { lastInsertRowid } = this.#db
          .prepare(
            `INSERT INTO job (id, kind, name, owner, of_admin, settings, state, waiting_for, command, run, memory_bytes, created_at, note,
               idempotency_key, asked)
             VALUES (@id, @kind, @name, @owner, @isOfAdmin, @settings, 'queued', 'turn', @command, @run, @memoryBytes, @at, @note,
               @idempotencyKey, @asked)`,
          )
          .run({
            ...job,
            at,
            isOfAdmin: Number(job.isOfAdmin),
            settings: JSON.stringify(job.settings),
            note: JSON.stringify(job.note),
          });
        this.#event(
          lastInsertRowid,
          'state',
          { state: 'queued', waitingFor: 'turn', error: null },
          at,
        );
      })();
      return { job: this.#get(job.id)!, isNew: true };
    });
  }

  get(id: string): Job | undefined {
    return this.#do(() => this.#get(id));
  }

  /** Note of a job; null for none. */
  note(id: string): unknown {
    return this.#do(() => {
      const found = this.#row('SELECT note FROM job WHERE id = ?', id);
      return found === undefined ? null : json.parse(found.note);
    });
  }

  isOfAdmin(id: string): boolean {
    return this.#do(() => this.#row('SELECT of_admin FROM job WHERE id = ?', id)?.of_admin === 1);
  }

  /** Newest first. */
  list({ owner, kind, state, isNoted, after, limit }: JobFilter): {
    readonly jobs: Job[];
    readonly hasMore: boolean;
  } {
    return this.#do(() => {
      const where: [string, unknown][] = [];
      if (owner !== undefined) where.push(['owner = ?', owner]);
      if (kind !== undefined) where.push(['kind = ?', kind]);
      if (state !== undefined) where.push(['state = ?', state]);
      if (after !== undefined) where.push(['seq < (SELECT seq FROM job WHERE id = ?)', after]);
      if (isNoted !== undefined) where.push([`(note <> 'null') = ?`, Number(isNoted)]);
      const condition =
        where.length === 0 ? '' : `WHERE ${where.map(([sql]) => sql).join(' AND ')}`;
      const rows = this.#rows(
        `SELECT * FROM job ${condition} ORDER BY seq DESC LIMIT ?`,
        ...where.map(([, value]) => value),
        limit + 1,
      );
      const { items: jobs, hasMore } = firstOf(rows, limit, jobRow);
      return { jobs, hasMore };
    });
  }

  /** Oldest first, with the process that each ran in. */
  unended(): { readonly job: Job; readonly pid: number | null }[] {
    return this.#do(() =>
      this.#rows(
        `SELECT * FROM job WHERE state IN ('queued', 'running', 'paused') ORDER BY seq`,
      ).map((each) => ({
        job: jobRow.parse(each),
        pid: typeof each.pid === 'number' ? each.pid : null,
      })),
    );
  }

  /** A change and the event that tells of it, both or neither. */
  change(
    id: string,
    change: JobChange,
    type?: EventType,
    data?: unknown,
    at = new Date().toISOString(),
  ): Written | null {
    return this.#do(() =>
      this.#db.transaction(() => {
        const entries = Object.entries(change) as [keyof JobChange, unknown][];
        if (entries.length > 0)
          this.#db
            .prepare(
              `UPDATE job SET ${entries.map(([name]) => `${columnOf(name)} = ?`).join(', ')} WHERE id = ?`,
            )
            .run(
              ...entries.map(([name, value]) =>
                AS_JSON.has(name) ? JSON.stringify(value ?? null) : value,
              ),
              id,
            );
        const found =
          type === undefined ? undefined : this.#row('SELECT seq FROM job WHERE id = ?', id);
        return found === undefined ? null : this.#event(found.seq as number, type!, data, at);
      })(),
    );
  }

  /** Events in order, from the one after `after` on. */
  events(id: string, after: number, limit: number): Events {
    return this.#events('j.id = ? AND e.id > ? ORDER BY e.id LIMIT ?', limit, id, after);
  }

  /** The newest of some types first, before the event `before`. */
  latest(id: string, types: readonly EventType[], before: number, limit: number): Events {
    return this.#events(
      'j.id = ? AND e.id < ? AND e.type IN (SELECT value FROM json_each(?)) ORDER BY e.id DESC LIMIT ?',
      limit,
      id,
      before,
      JSON.stringify(types),
    );
  }

  #events(where: string, limit: number, ...values: unknown[]): Events {
    return this.#do(() => {
      const rows = this.#rows(
        `SELECT e.id, e.at, e.type, e.data FROM event e JOIN job j ON j.seq = e.job WHERE ${where}`,
        ...values,
        limit + 1,
      );
      const { items: events, hasMore } = firstOf(rows, limit, eventRow);
      return { events, hasMore };
    });
  }

  addUpload(upload: Upload): void {
    this.#requireFile();
    this.#mark();
    this.#do(() =>
      this.#db
        .prepare(
          `INSERT INTO upload (id, owner, filename, purpose, bytes, created_at, file)
           VALUES (@id, @owner, @filename, @purpose, @bytes, @createdAt, @file)`,
        )
        .run(upload),
    );
  }

  upload(id: string): Upload | undefined {
    return this.#do(() => {
      const found = this.#row('SELECT * FROM upload WHERE id = ?', id);
      return found === undefined ? undefined : uploadRow.parse(found);
    });
  }

  /** Newest first. */
  uploads(owner: string): Upload[] {
    return this.#do(() =>
      this.#rows('SELECT * FROM upload WHERE owner = ? ORDER BY seq DESC', owner).map((each) =>
        uploadRow.parse(each),
      ),
    );
  }

  /** Uploads of all owners. */
  uploadsOfPurpose(purpose: string): Upload[] {
    return this.#do(() =>
      this.#rows('SELECT * FROM upload WHERE purpose = ?', purpose).map((each) =>
        uploadRow.parse(each),
      ),
    );
  }

  /** Returns true if settings of a job that has not failed name the upload. */
  isInUse(uploadId: string): boolean {
    const sql = `SELECT 1 FROM job WHERE state NOT IN ('failed', 'cancelled') AND instr(settings, ?) > 0 LIMIT 1`;
    return this.#do(() => this.#row(sql, uploadId) !== undefined);
  }

  uploadedBytes(owner: string): number {
    return this.#do(() =>
      Number(
        this.#row('SELECT coalesce(sum(bytes), 0) AS bytes FROM upload WHERE owner = ?', owner)
          ?.bytes,
      ),
    );
  }

  removeUpload(id: string): void {
    this.#do(() => this.#db.prepare('DELETE FROM upload WHERE id = ?').run(id));
  }

  /**
   * Refuses to acknowledge anything once the file was removed: what is written into it is lost with
   * this process.
   * @throws IsoproError WRITE_FAILED
   */
  #requireFile(): void {
    if (this.#identity === null || identityOf(this.file) !== this.#identity)
      throw new IsoproError(
        'WRITE_FAILED',
        `${this.file} was removed or replaced while it was in use`,
        { remedy: 'Move the folder back, or restart the server.' },
      );
  }

  #get(id: string): Job | undefined {
    const found = this.#row('SELECT * FROM job WHERE id = ?', id);
    return found === undefined ? undefined : jobRow.parse(found);
  }

  #event(seq: number | bigint, type: EventType, data: unknown, at: string): Written {
    const { id } = this.#row(
      'SELECT coalesce(max(id), 0) + 1 AS id FROM event WHERE job = ?',
      seq,
    ) as { id: number };
    this.#db
      .prepare('INSERT INTO event (job, id, at, type, data) VALUES (?, ?, ?, ?, ?)')
      .run(seq, id, at, type, JSON.stringify(data ?? null));
    return { id, at };
  }

  #row(sql: string, ...values: unknown[]): Record<string, unknown> | undefined {
    return this.#db.prepare(sql).get(...values) as Record<string, unknown> | undefined;
  }

  #rows(sql: string, ...values: unknown[]): Record<string, unknown>[] {
    return this.#db.prepare(sql).all(...values) as Record<string, unknown>[];
  }

  /** @throws IsoproError WRITE_FAILED */
  #mark(): void {
    if (this.#isMarked) return;
    const mark = path.join(path.dirname(this.file), MARK);
    try {
      writeFileSync(mark, '', { flag: 'a', mode: 0o600 });
    } catch (cause) {
      throw unwritable(mark, cause);
    }
    this.#isMarked = true;
  }

  #do<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw asJobsError(error, this.file);
    }
  }
}

/** Device and inode of a file; null if there is none. */
function identityOf(file: string): string | null {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev}:${found.ino}`;
}

/** Turns an error of SQLite, or of a record in an unknown form, into an IsoproError. */
function asJobsError(error: unknown, file: string): unknown {
  if (error instanceof z.ZodError)
    return new IsoproError(
      'JOBS_UNREADABLE',
      `${file} contains a record that is not a job: ${z.prettifyError(error)}`,
    );
  const code = sqliteCode(error);
  if (code === null) return error;
  const { message } = error as Error;
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED'))
    return new IsoproError('JOBS_BUSY', `${file} is in use by another process`, { cause: error });
  const isWriting = ['SQLITE_FULL', 'SQLITE_IOERR', 'SQLITE_READONLY', 'SQLITE_CANTOPEN'].some(
    (each) => code.startsWith(each),
  );
  return new IsoproError(isWriting ? 'WRITE_FAILED' : 'JOBS_UNREADABLE', `${file}: ${message}`, {
    cause: error,
  });
}
