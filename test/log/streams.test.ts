/** A log that is no run's: its streams are data of whoever opens it. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { EventLog } from '../../src/log/event-log.js';
import { checkRecordProof, LogReader } from '../../src/log/read.js';
import type { LogSigner } from '../../src/log/signer.js';
import type { LogStreams } from '../../src/log/streams.js';
import { verifyLogFile, type Verification } from '../../src/log/verify.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { temporaryFolder } from '../models/signed-log.js';

const ID = 'ce11'.repeat(8);
/** As a registry of models may have them. */
const REGISTRY: LogStreams<'models' | 'events'> = {
  codes: { control: 1, models: 2, events: 200 },
  views: { model_log: 'models' },
};

const folder = temporaryFolder();
afterAll(folder.remove);
let home: string;
let path: string;
let witness: LogSigner;
beforeEach(() => {
  home = mkdtempSync(join(folder.path, 'case-'));
  path = join(home, 'registry.sqlite');
  witness = witnessInProcess(home);
});

const create = (streams: LogStreams = REGISTRY): Promise<EventLog> =>
  EventLog.create({ path, streams, runId: ID, signer: witness, runConfig: null, digests: {} });
const verify = async (streams: LogStreams = REGISTRY): Promise<Verification> =>
  verifyLogFile(path, { streams, key: await witness.key(ID), heads: await witness.heads(ID) });
/** Two models and what happened to them, under three heads and over a crash. */
async function write(): Promise<void> {
  const log = await create();
  log.append([
    { stream: 'models', payload: { kind: 'registered', name: 'a', sha256: 'ab'.repeat(32) } },
  ]);
  log.append([{ stream: 'events', payload: { kind: 'promoted', name: 'a' } }]);
  await log.checkpoint();
  log.append([{ stream: 'models', payload: { kind: 'registered', name: 'lost' } }]);
  log.close();
  const resumed = await EventLog.resume({
    path,
    streams: REGISTRY,
    signer: witness,
    fromIteration: 0,
    abandonedFrom: 3,
  });
  resumed.append([
    { stream: 'models', payload: { kind: 'registered', name: 'b', sha256: 'cd'.repeat(32) } },
  ]);
  await resumed.checkpoint();
  await resumed.finish();
}

describe('a log with streams of its own', () => {
  test('is appended to, resumed, read by stream and view, proved and verified', async () => {
    await write();
    expect(await verify()).toMatchObject({
      outcome: 'ok',
      records: 7,
      signedRecords: 7,
      resumes: 1,
      runId: ID,
    });
    const reader = new LogReader(path, REGISTRY);
    const names = [...reader.records()].map(({ stream, sseq, payload }) => [
      stream,
      sseq,
      payload.kind,
    ]);
    expect(names).toEqual([
      ['control', 0, 'session_start'],
      ['models', 0, 'registered'],
      ['events', 0, 'promoted'],
      ['control', 1, 'resume'],
      ['models', 2, 'registered'],
      ['control', 2, 'session_end'],
    ]);
    expect(
      [...reader.records({ stream: 'models', abandoned: true })].map(({ payload }) => payload.name),
    ).toEqual(['a', 'lost', 'b']);
    const proof = reader.proveRecord(2);
    const key = await witness.key(ID);
    expect(proof.record.stream).toBe('events');
    expect(checkRecordProof(proof, key, REGISTRY)).toBe(true);
    expect(
      checkRecordProof({ ...proof, record: { ...proof.record, stream: 'models' } }, key, REGISTRY),
    ).toBe(false);
    expect(checkRecordProof(proof, key, RUN_STREAMS)).toBe(false);
    reader.close();
    const db = new Database(path, { readonly: true });
    const shown = db
      .prepare(`SELECT json_extract(payload, '$.kind') FROM model_log ORDER BY seq`)
      .pluck()
      .all();
    expect(shown).toEqual(['session_start', 'registered', 'registered', 'session_end']);
    db.close();
  });

  /** As who can write the file would: the triggers are no hindrance. */
  const tamper = (sql: string): void => {
    const db = new Database(path);
    const triggers = db
      .prepare(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`)
      .all() as { name: string; sql: string }[];
    for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
    db.exec(sql);
    for (const trigger of triggers) db.exec(trigger.sql);
    db.close();
  };
  test.each([
    [
      'a payload that was changed',
      `UPDATE log SET payload = replace(payload, '"a"', '"x"') WHERE gseq = 1`,
      1,
    ],
    ['a record of another stream', 'UPDATE log SET stream = 2, sseq = 9 WHERE gseq = 2', 2],
    ['a stream that is not there', 'UPDATE log SET stream = 3 WHERE gseq = 2', 2],
    ['a record that was taken out', 'DELETE FROM log WHERE gseq = 5', 5],
  ])('%s is found', async (_, sql, at) => {
    await write();
    tamper(sql);
    expect(await verify()).toMatchObject({
      outcome: 'tampered',
      disagreement: { table: 'log', at },
    });
  });

  test('an end that was cut off is found, and an older copy', async () => {
    const log = await create();
    log.append([{ stream: 'models', payload: { kind: 'registered', name: 'a' } }]);
    log.close();
    const older = readFileSync(path);
    const resumed = await EventLog.resume({
      path,
      streams: REGISTRY,
      signer: witness,
      fromIteration: 0,
      abandonedFrom: 2,
    });
    await resumed.finish();
    writeFileSync(path, older);
    expect(await verify()).toMatchObject({ outcome: 'truncated' });
  });

  test("is no run's log, nor a run's log one of it; a stream of neither is refused", async () => {
    const log = await create();
    expect(() => log.append([{ stream: 'metrics', payload: { kind: 'step' } }])).toThrow(
      'no stream "metrics"',
    );
    expect(() => log.append([{ stream: 'control', payload: { kind: 'session_end' } }])).toThrow(
      'no stream "control"',
    );
    await log.finish();
    expect(await verify(RUN_STREAMS)).toMatchObject({
      outcome: 'tampered',
      disagreement: { table: 'file' },
    });
    expect(() => new LogReader(path, RUN_STREAMS)).toThrow(
      expect.objectContaining({ code: 'LOG_UNREADABLE' }) as never,
    );
    await expect(
      EventLog.resume({
        path,
        streams: RUN_STREAMS,
        signer: witness,
        fromIteration: 0,
        abandonedFrom: 1,
      }),
    ).rejects.toMatchObject({
      code: 'LOG_TAMPERED',
    });
  });

  test.each<[string, unknown]>([
    ['no control', { codes: { models: 1 } }],
    ['one number twice', { codes: { control: 1, models: 1 } }],
    ['a number that has no byte', { codes: { control: 1, models: 256 } }],
    [
      'a name that is SQL',
      { codes: { control: 1, models: 2 }, views: { 'v AS SELECT 1; --': 'models' } },
    ],
    [
      "a view by the name of the file's own table",
      { codes: { control: 1, models: 2 }, views: { checkpoint: 'models' } },
    ],
    ['a view of no stream', { codes: { control: 1, models: 2 }, views: { shown: 'toString' } }],
  ])('%s: no streams', async (_, streams) => {
    await expect(create(streams as LogStreams)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(await witness.heads(ID)).toEqual([]);
  });
});
