/** Write lock that the kernel releases when its process ends for any reason. */
import Database from 'better-sqlite3';
import { IsoproError } from '../errors.js';
import { refuseLink } from '../files.js';
import { sqliteCode } from './schema.js';

/** Milliseconds in which two simultaneous requests settle who gets the lock. */
const SETTLE_MS = 500;

/** SQLite's binding is of one Node release line, and may not be there for this one. */
const doesNotLoad = (cause: unknown): boolean =>
  (cause as { code?: unknown }).code === 'ERR_DLOPEN_FAILED' ||
  (cause as Error).message.startsWith('Could not locate the bindings file');

const DOES_NOT_LOAD =
  'SQLite does not load in this release of Node. Run `isopro-native doctor` to see what to do.';

/**
 * An exclusive SQLite transaction on an empty file. A process id in a file could belong to another
 * process later; a transaction belongs to the living process, stopped or not, and leaves nothing
 * behind when that is killed. The file stays, since removing it could make two owners.
 */
export class OwnerLock {
  readonly #db: Database.Database;

  private constructor(db: Database.Database) {
    this.#db = db;
  }

  /** Takes the lock; null if a living process holds it. @throws IsoproError WRITE_FAILED */
  static take(file: string, settleMs = SETTLE_MS): OwnerLock | null {
    refuseLink(file);
    let db: Database.Database | undefined;
    try {
      db = new Database(file, { timeout: settleMs });
      db.exec('BEGIN EXCLUSIVE');
      return new OwnerLock(db);
    } catch (cause) {
      db?.close();
      if (sqliteCode(cause)?.startsWith('SQLITE_BUSY') === true) return null;
      throw new IsoproError(
        'WRITE_FAILED',
        `cannot take the lock ${file}: ${(cause as Error).message}`,
        { cause, ...(doesNotLoad(cause) && { remedy: DOES_NOT_LOAD }) },
      );
    }
  }

  release(): void {
    this.#db.close();
  }
}
