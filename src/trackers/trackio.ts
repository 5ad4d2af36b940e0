/**
 * Trackio's database of a project: SQLite, a row a call with the metrics as JSON. Trackio adds what
 * later versions of it want.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import type { TrackedRun, Tracker } from './tracker.js';

/** Trackio itself writes there too: how long a training may wait for it. */
const BUSY_MS = 1000;

const TABLES = `
  CREATE TABLE IF NOT EXISTS metrics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL,
    metrics TEXT NOT NULL
  );
  CREATE TABLE IF NOT EXISTS configs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL,
    UNIQUE(run_id)
  );
`;

export function trackioTracker(run: TrackedRun): Tracker {
  const { folder, project, name, id, config, resumed, now } = run;
  mkdirSync(folder, { recursive: true });
  const file = `${project.replace(/[^\w-]/g, '') || 'default'}.db`;
  const database = new Database(path.join(folder, file), { timeout: BUSY_MS });
  database.pragma('journal_mode = WAL');
  database.exec(TABLES);
  const time = (): string => new Date(now()).toISOString();
  if (!resumed) database.prepare('DELETE FROM metrics WHERE run_id = ?').run(id);
  database
    .prepare(
      'INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)',
    )
    .run(id, name, JSON.stringify(config), time());
  const insert = database.prepare(
    'INSERT INTO metrics (timestamp, run_id, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)',
  );
  return {
    log: (step, metrics) => void insert.run(time(), id, name, step, JSON.stringify(metrics)),
    end: () => void database.close(),
  };
}
