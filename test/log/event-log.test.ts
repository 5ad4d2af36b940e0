import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { IsoproError } from '../../src/errors.js';
import { EventLog } from '../../src/log/event-log.js';
import { checkExtensionProof, checkRecordProof, LogReader } from '../../src/log/read.js';
import type { LogSigner } from '../../src/log/signer.js';
import { verifyLogFile, type Verification } from '../../src/log/verify.js';
import { Random } from '../../src/random.js';
import { exampleRecord, temporaryFolder, writeLog } from '../models/signed-log.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';

const RUN = 'ab12'.repeat(8);
const folder = temporaryFolder();
let path: string;
let witness: LogSigner;
beforeEach(() => {
  const home = mkdtempSync(join(folder.path, 'case-'));
  path = join(home, 'log.sqlite');
  witness = witnessInProcess(home);
});
afterAll(folder.remove);

const coded = (code: string): never =>
  expect.objectContaining({ name: 'IsoproError', code }) as never;
const create = (): Promise<EventLog> =>
  EventLog.create({
    streams: RUN_STREAMS,
    path,
    runId: RUN,
    signer: witness,
    runConfig: { seed: 42n, maxEpochs: 3 },
    digests: { config: '00'.repeat(32) },
  });
const resume = (abandonedFrom = 1, fromIteration = 0): Promise<EventLog> =>
  EventLog.resume({ streams: RUN_STREAMS, path, signer: witness, fromIteration, abandonedFrom });
const verify = async (): Promise<Verification> =>
  verifyLogFile(path, {
    streams: RUN_STREAMS,
    key: await witness.key(RUN),
    heads: await witness.heads(RUN),
  });
const epoch = (n: number): NewRunRecord => ({
  stream: 'metrics',
  payload: { kind: 'epoch', epoch: n },
});

describe('a session (original cases 12 to 30, 72 to 81 in their new form)', () => {
  test('starts with the run configuration, ends with an end record, and every record links to the one before', async () => {
    const log = await create();
    for (let i = 0; i < 5; i++) log.append([epoch(i)]);
    await log.finish({ reason: 'done' });
    const reader = new LogReader(path, RUN_STREAMS);
    const records = [...reader.records()];
    expect(records.map(({ gseq }) => gseq)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(records.filter(({ stream }) => stream === 'metrics').map(({ sseq }) => sseq)).toEqual([
      0, 1, 2, 3, 4,
    ]);
    expect(records[0]?.payload).toMatchObject({
      kind: 'session_start',
      runConfig: { seed: 42n, maxEpochs: 3 },
    });
    expect(records.at(-1)?.payload).toEqual({ kind: 'session_end', reason: 'done', heads: 0 });
    for (let i = 1; i < records.length; i++)
      expect(records[i]!.timeUs).toBeGreaterThanOrEqual(records[i - 1]!.timeUs);
    expect(Math.abs(records[0]!.timeUs / 1000 - Date.now())).toBeLessThan(60_000);
    reader.close();
    expect(await verify()).toMatchObject({ outcome: 'ok', records: 7, signedRecords: 7 });
    // one plain file that a reader of a read-only folder can open
    expect(existsSync(`${path}-wal`)).toBe(false);
  });

  test('refuses what comes after its end, a second start, a second writer, control records from outside', async () => {
    const log = await create();
    expect(() =>
      log.append([{ stream: 'control', payload: { kind: 'session_end' } } as never]),
    ).toThrow(coded('INVALID_ARGUMENT'));
    expect(() => log.append([{ stream: 'nonsense', payload: { kind: 'x' } } as never])).toThrow(
      coded('INVALID_ARGUMENT'),
    );
    await expect(create()).rejects.toThrow(coded('LOG_EXISTS'));
    const second = await resume();
    // its place is taken: nothing is reordered or overwritten
    expect(() => log.append([epoch(1)])).toThrow(coded('LOG_BUSY'));
    expect(() => log.append([epoch(1)])).toThrow(coded('OBJECT_DISPOSED'));
    second.append([epoch(1)]);
    await second.finish();
    expect(() => second.append([epoch(2)])).toThrow(coded('OBJECT_DISPOSED'));
    await expect(resume()).rejects.toThrow(coded('LOG_FINISHED'));
    expect((await verify()).outcome).toBe('ok');
  });

  test('a bad payload in a batch writes nothing of the batch, and the log goes on', async () => {
    const log = await create();
    expect(() =>
      log.append([
        epoch(0),
        { stream: 'metrics', payload: { kind: 'x', bad: undefined } as never },
      ]),
    ).toThrow(coded('INVALID_ARGUMENT'));
    expect(log.size).toBe(1);
    expect(log.append([epoch(0), epoch(1)])).toEqual({ first: 1, count: 2 });
    expect(log.append([])).toEqual({ first: 3, count: 0 });
    await log.finish();
    expect((await verify()).outcome).toBe('ok');
  });

  test('is unterminated, with nothing amiss, at every moment before its end', async () => {
    const log = await create();
    for (let i = 0; i < 40; i++) {
      log.append([exampleRecord(i)]);
      if (i % 7 === 0) await log.checkpoint();
      expect(await verify()).toMatchObject({
        outcome: 'unterminated',
        disagreement: null,
        records: log.size,
      });
    }
    await log.reveal();
    expect((await verify()).outcome).toBe('unterminated');
    await log.finish();
    expect((await verify()).outcome).toBe('ok');
  });

  test('plain SQL cannot change, delete, replace, reorder or skip records by accident', async () => {
    const log = await create();
    log.append([epoch(0), epoch(1)]);
    log.close();
    const db = new Database(path);
    const before = db.prepare('SELECT * FROM log').all();
    const blob = "x'00'";
    for (const sql of [
      "UPDATE log SET payload = '{}' WHERE gseq = 1",
      'DELETE FROM log WHERE gseq = 2',
      `INSERT OR REPLACE INTO log VALUES (1, 1, 0, 1, ${blob}, '{}', ${blob}, NULL)`,
      `INSERT INTO log VALUES (9, 1, 9, 1, ${blob}, '{}', ${blob}, NULL)`,
      `INSERT INTO log VALUES (3, 1, 2, 1, ${blob}, '{}', 7, NULL)`,
    ])
      expect(() => db.exec(sql)).toThrow();
    expect(db.prepare('SELECT * FROM log').all()).toEqual(before);
    db.close();
  });
});

describe('resume', () => {
  test('keeps abandoned records hashed and leaves them out of views and reads', async () => {
    const log = await create();
    log.append([epoch(0), { stream: 'decisions', payload: { kind: 'decision', n: 0 } }]);
    await log.checkpoint();
    const abandonedFrom = log.size;
    log.append([epoch(1), { stream: 'rule_evals', payload: { kind: 'rule_eval', n: 1 } }]);
    log.close();
    const again = await resume(abandonedFrom, 1);
    again.append([epoch(1), { stream: 'decisions', payload: { kind: 'decision', n: 1 } }]);
    const abandonedAgain = again.size - 1; // a second crash in the same iteration
    again.close();
    const last = await resume(abandonedAgain, 1);
    last.append([{ stream: 'rule_evals', payload: { kind: 'rule_eval', n: 7 } }]);
    await last.finish();

    expect(await verify()).toMatchObject({ outcome: 'ok', resumes: 2, records: 11 });
    const reader = new LogReader(path, RUN_STREAMS);
    expect([...reader.records({ stream: 'metrics' })].map(({ payload }) => payload.epoch)).toEqual([
      0, 1,
    ]);
    expect([...reader.records({ stream: 'decisions' })].map(({ payload }) => payload.n)).toEqual([
      0,
    ]);
    expect([...reader.records({ stream: 'metrics', abandoned: true })]).toHaveLength(3);
    expect([...reader.records({ from: 5 })].map(({ gseq }) => gseq)).toEqual([5, 6, 8, 9, 10]);
    reader.close();
    const db = new Database(path, { readonly: true });
    for (const [view, kinds] of [
      ['metrics_log', ['session_start', 'epoch', 'epoch', 'session_end']],
      ['decision_log', ['session_start', 'decision', 'session_end']],
      ['rule_evaluations', ['session_start', 'rule_eval', 'session_end']],
    ] as const) {
      const rows = db.prepare(`SELECT * FROM ${view}`).all() as {
        seq: number;
        payload: string;
        hash: string;
      }[];
      expect(rows.map(({ payload }) => (JSON.parse(payload) as { kind: string }).kind)).toEqual(
        kinds,
      );
      expect(rows.map(({ seq }) => seq)).toEqual(kinds.map((_, i) => i));
      expect(rows[0]?.hash).toMatch(/^[0-9a-f]{64}$/);
    }
    db.close();
  });

  test('stores heads that a crash kept from the file, and completes an end whose final head was lost', async () => {
    const log = await create();
    log.append([epoch(0)]);
    await log.checkpoint();
    await log.finish();
    // the crash came after the witness had signed and before the file knew
    const db = new Database(path);
    db.exec('DROP TRIGGER checkpoint_delete');
    db.exec('DELETE FROM checkpoint WHERE size = (SELECT max(size) FROM checkpoint)');
    db.exec(
      "CREATE TRIGGER checkpoint_delete BEFORE DELETE ON checkpoint BEGIN SELECT raise(ABORT, 'checkpoints are append-only'); END",
    );
    db.close();
    expect((await verify()).outcome).toBe('ok'); // the witness's list completes it
    expect(
      (await verifyLogFile(path, { streams: RUN_STREAMS, key: await witness.key(RUN) })).outcome,
    ).toBe('unterminated');
    const again = await resume();
    expect(again.ended).toBe(true);
    await again.finish();
    // now a stranger sees it too
    expect(
      (await verifyLogFile(path, { streams: RUN_STREAMS, key: await witness.key(RUN) })).outcome,
    ).toBe('ok');
    await expect(resume()).rejects.toThrow(coded('LOG_FINISHED'));
  });

  test('refuses a log that does not verify', async () => {
    const log = await create();
    log.append([epoch(0), epoch(1)]);
    await log.checkpoint();
    log.close();
    const copy = readFileSync(path);
    const db = new Database(path);
    db.exec('DROP TRIGGER log_delete');
    db.exec('DELETE FROM log WHERE gseq = 2');
    db.close();
    await expect(resume()).rejects.toThrow(coded('LOG_TAMPERED'));
    rmSync(path);
    await expect(resume()).rejects.toThrow(coded('LOG_NOT_FOUND'));
    writeFileSync(path, 'not a database at all, but long enough to look like one'.repeat(100));
    await expect(resume()).rejects.toThrow(coded('LOG_UNREADABLE'));
    writeFileSync(path, copy);
    await expect(resume(0)).rejects.toThrow(coded('INVALID_ARGUMENT'));
    await expect(resume(99)).rejects.toThrow(coded('INVALID_ARGUMENT'));
    (await resume()).close();
  });

  test('a record whose time is none is not read, by an error that names it', async () => {
    const log = await create();
    log.append([epoch(0)]);
    await log.checkpoint();
    log.close();
    const db = new Database(path);
    const { sql } = db.prepare("SELECT sql FROM sqlite_schema WHERE name = 'log_update'").get() as {
      sql: string;
    };
    db.exec('DROP TRIGGER log_update');
    db.exec('UPDATE log SET ts_us = 9000000000000000000 WHERE gseq = 1');
    db.exec(sql);
    db.close();
    const reader = new LogReader(path, RUN_STREAMS);
    expect(() => [...reader.records()]).toThrow(coded('LOG_UNREADABLE'));
    reader.close();
  });

  test('a witness that knows a longer history does not sign a log that was put back', async () => {
    const log = await create();
    log.append([epoch(0)]);
    await log.checkpoint();
    log.close();
    const older = readFileSync(path);
    const longer = await resume(2);
    longer.append([epoch(1)]);
    await longer.checkpoint();
    longer.close();
    writeFileSync(path, older);
    expect((await verify()).outcome).toBe('truncated');
    await expect(resume(2)).rejects.toThrow(coded('LOG_TAMPERED'));
  });
});

describe('a failing disk', () => {
  (process.platform === 'win32' ? test.skip : test)(
    'gives LOG_WRITE_FAILED, and what was acknowledged stays',
    async () => {
      const script = `
      import { EventLog } from ${JSON.stringify(new URL('../../dist/src/log/event-log.js', import.meta.url).href)};
      import { witnessInProcess } from ${JSON.stringify(new URL('../../dist/bench/log.js', import.meta.url).href)};
      import { RUN_STREAMS } from ${JSON.stringify(new URL('../../dist/src/run-folder/streams.js', import.meta.url).href)};
      const [path, home] = process.argv.slice(1);
      const log = await EventLog.create(
        { streams: RUN_STREAMS, path, runId: '${RUN}', signer: witnessInProcess(home), runConfig: null, digests: {} });
      for (;;) {
        try { log.append([{ stream: 'metrics', payload: { kind: 'x', text: 'x'.repeat(3000) } }]); }
        catch (error) { console.log(JSON.stringify({ code: error.code, size: log.size })); break; }
      }`;
      const home = join(path, '..');
      // files may not grow beyond 300 KiB: the write fails as on a full disk
      const child = spawnSync(
        'bash',
        [
          '-c',
          `trap '' XFSZ; ulimit -f 300; exec "$0" "$@"`,
          process.execPath,
          '--input-type=module',
          '-e',
          script,
          '--',
          path,
          home,
        ],
        { encoding: 'utf8' },
      );
      const { code, size } = JSON.parse(child.stdout) as { code: string; size: number };
      expect(code).toBe('LOG_WRITE_FAILED');
      expect(size).toBeGreaterThan(10);
      expect(await verify()).toMatchObject({
        outcome: 'unterminated',
        records: size,
        disagreement: null,
      });
      const log = await resume();
      await log.finish();
      expect((await verify()).outcome).toBe('ok');
    },
  );
});

describe('proofs', () => {
  test('of every record and between all heads hold, and nothing else does', async () => {
    const log = await writeLog({
      folder: join(path, '..'),
      name: 'p.sqlite',
      runId: RUN,
      records: 50,
      headEvery: 9,
    });
    const reader = new LogReader(log.path, RUN_STREAMS);
    for (let gseq = 0; gseq < 50; gseq++) {
      const proof = JSON.parse(JSON.stringify(reader.proveRecord(gseq))) as ReturnType<
        LogReader['proveRecord']
      >;
      expect(checkRecordProof(proof, log.key, RUN_STREAMS)).toBe(true);
      expect(
        checkRecordProof(
          { ...proof, record: { ...proof.record, payload: `${proof.record.payload} ` } },
          log.key,
          RUN_STREAMS,
        ),
      ).toBe(false);
      expect(
        checkRecordProof(
          { ...proof, record: { ...proof.record, gseq: gseq + 1 } },
          log.key,
          RUN_STREAMS,
        ),
      ).toBe(false);
      expect(checkRecordProof({ ...proof, runId: 'ef'.repeat(16) }, log.key, RUN_STREAMS)).toBe(
        false,
      );
      expect(
        checkRecordProof(
          proof,
          { signer: 'single-process', master: Buffer.alloc(32) },
          RUN_STREAMS,
        ),
      ).toBe(false);
    }
    const sizes = reader.checkpoints().map(({ size }) => size);
    expect(sizes).toEqual([9, 18, 27, 36, 45, 48, 50]);
    for (const from of sizes) {
      for (const to of sizes.filter((size) => size >= from)) {
        const proof = reader.proveExtension(from, to);
        expect(checkExtensionProof(proof, log.key)).toBe(true);
        if (from < to)
          expect(checkExtensionProof({ ...proof, from: proof.to, to: proof.from }, log.key)).toBe(
            false,
          );
      }
    }
    expect(() => reader.proveRecord(50)).toThrow(coded('INVALID_ARGUMENT'));
    expect(() => reader.proveRecord(-1)).toThrow(coded('INVALID_ARGUMENT'));
    expect(() => reader.proveExtension(10, 18)).toThrow(coded('INVALID_ARGUMENT'));
    reader.close();
  });
});

describe('damaged files', () => {
  test(
    'fuzz: a log with bytes changed, cut or inserted anywhere gives an outcome or a typed error, and never ok where a record ' +
      'changed',
    async () => {
      const log = await writeLog({
        folder: join(path, '..'),
        name: 'f.sqlite',
        runId: RUN,
        records: 60,
        headEvery: 10,
      });
      const untouched = [...new LogReader(log.path, RUN_STREAMS).records()];
      const random = new Random(17n);
      const trials = process.env.ISOPRO_FULL === '1' ? 20_000 : 1_000;
      const target = join(path, '..', 'fuzzed.sqlite');
      const outcomes: Record<string, number> = {};
      for (let trial = 0; trial < trials; trial++) {
        let bytes = Buffer.from(log.bytes);
        for (let edits = random.nextInteger(1, 3); edits > 0; edits--) {
          // half of the edits in the first page, where the file's structure is
          const at = random.nextInteger(
            0,
            Math.max(
              0,
              (random.nextDouble() < 0.5 ? Math.min(4096, bytes.length) : bytes.length) - 1,
            ),
          );
          const length = random.nextInteger(1, 64);
          switch (random.nextInteger(0, 4)) {
            case 0:
              bytes = bytes.subarray(0, Math.max(1, at));
              break;
            case 1:
              bytes.fill(random.nextInteger(0, 255), at, Math.min(bytes.length, at + length));
              break;
            case 2:
              bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
              break;
            case 3:
              bytes = Buffer.concat([
                bytes.subarray(0, at),
                Buffer.alloc(length, random.nextInteger(0, 255)),
                bytes.subarray(at),
              ]);
              break;
            default:
              if (at < bytes.length)
                bytes[at] = (bytes[at] as number) ^ (1 << random.nextInteger(0, 7));
          }
          bytes = Buffer.from(bytes);
        }
        for (const suffix of ['', '-wal', '-shm', '-journal'])
          rmSync(target + suffix, { force: true });
        writeFileSync(target, bytes);
        const { outcome } = await verifyLogFile(target, {
          streams: RUN_STREAMS,
          key: log.key,
          heads: log.heads,
          runId: RUN,
        });
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        let records: unknown[] | null = null;
        try {
          const reader = new LogReader(target, RUN_STREAMS);
          try {
            records = [...reader.records()];
            reader.checkpoints();
          } finally {
            reader.close();
          }
        } catch (error) {
          if (!(error instanceof IsoproError)) throw error;
        }
        if (outcome === 'ok') expect(records).toEqual(untouched);
      }
      expect(outcomes.tampered).toBeGreaterThan(trials / 4);
    },
  );

  test('a missing WAL file, a deleted page, another database: never ok', async () => {
    const log = await create();
    for (let i = 0; i < 30; i++) log.append([exampleRecord(i)]);
    await log.checkpoint();
    const main = readFileSync(path); // before the WAL was folded in
    log.close();
    writeFileSync(path, main);
    rmSync(`${path}-wal`, { force: true });
    expect(['tampered', 'truncated']).toContain((await verify()).outcome);
    const finished = await writeLog({
      folder: join(path, '..'),
      name: 'x.sqlite',
      runId: 'ee'.repeat(16),
      records: 60,
      headEvery: 10,
    });
    for (let page = 0; page < finished.bytes.length / 4096; page++) {
      const bytes = Buffer.from(finished.bytes);
      bytes.fill(0, page * 4096, (page + 1) * 4096);
      writeFileSync(finished.path, bytes);
      expect(
        (
          await verifyLogFile(finished.path, {
            streams: RUN_STREAMS,
            key: finished.key,
            heads: finished.heads,
          })
        ).outcome,
      ).toBe('tampered');
    }
    const db = new Database(join(path, '..', 'y.sqlite'));
    db.exec('CREATE TABLE log (x)');
    db.close();
    expect(
      (
        await verifyLogFile(join(path, '..', 'y.sqlite'), {
          streams: RUN_STREAMS,
          key: finished.key,
        })
      ).outcome,
    ).toBe('tampered');
  });
});
