import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { checkpointText, originOf } from '../../src/log/checkpoint.js';
import { EventLog } from '../../src/log/event-log.js';
import { MerkleFrontier } from '../../src/log/merkle.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { Ed25519Signer, formatNote } from '../../src/log/signed-note.js';
import { scanLog, verifyLogFile, type Verification } from '../../src/log/verify.js';
import { Random } from '../../src/random.js';
import { exampleRecord, temporaryFolder, writeLog, type SignedLog } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

/**
 * Every change that somebody with the file alone can make, through plain SQL with the triggers
 * dropped and put back, so that the schema gives nothing away. Flips touch one random bit of each
 * byte of logs of FLIPPED records; ISOPRO_FULL=1 flips three, and all columns of the single-process
 * log too.
 */
const FULL = process.env.ISOPRO_FULL === '1';
/** The cost grows with the square: each flip verifies the whole log. */
const [FLIPPED, HEADS] = FULL ? [200, 5] : [20, 2];
/**
 * Rows that are deleted, copied, swapped, replaced or cut at, one at a time: all, or each third
 * with both ends and both sides of each head.
 */
const AT = Array.from({ length: 200 }, (_, i) => i).filter(
  (i) => FULL || i % 3 === 0 || i < 3 || i > 196 || i % 40 === 39,
);
/** Neighbours that change places, and pairs of rows at random beside them. */
const PAIRS = FULL ? 201 : 67;
const RUN = '5eed'.repeat(8);
const folder = temporaryFolder();
let log: SignedLog;
let single: SignedLog;
let other: SignedLog;
/** The same with a witness and by a single process, whose every byte is flipped. */
let flipped: { readonly witnessed: SignedLog; readonly single: SignedLog };

beforeAll(async () => {
  log = await writeLog({
    folder: folder.path,
    name: 'a.sqlite',
    runId: RUN,
    records: 200,
    headEvery: 40,
  });
  other = await writeLog({
    folder: folder.path,
    name: 'b.sqlite',
    runId: '0ddba115'.repeat(4),
    records: 200,
    headEvery: 40,
    variant: 4,
  });
  const signer = new SingleProcessSigner(folder.path);
  single = await writeLog({
    folder: folder.path,
    name: 'c.sqlite',
    runId: RUN,
    records: 200,
    headEvery: 40,
    signer,
  });
  const shorter = { folder: folder.path, records: FLIPPED, headEvery: FLIPPED / HEADS };
  flipped = {
    witnessed: await writeLog({ ...shorter, name: 'd.sqlite', runId: 'd1ce'.repeat(8) }),
    single: await writeLog({ ...shorter, name: 'e.sqlite', runId: 'e66e'.repeat(8), signer }),
  };
  await signer.close();
});
afterAll(folder.remove);

type Db = Database.Database;
type Row = Record<'gseq' | 'stream' | 'sseq' | 'ts_us', bigint> & {
  prev: Buffer;
  payload: Buffer;
  leaf: Buffer;
  tag: Buffer | null;
};

/** An editable copy, with its triggers aside. */
class Forgery {
  readonly db: Db;
  readonly #triggers: string[];

  constructor(readonly from: SignedLog) {
    this.db = new Database(from.bytes);
    const triggers = this.db
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
      .all() as { name: string; sql: string }[];
    this.#triggers = triggers.map(({ sql }) => sql);
    for (const { name } of triggers) this.db.exec(`DROP TRIGGER ${name}`);
  }

  rows(): Row[] {
    const rows = this.db
      .prepare(
        'SELECT gseq, stream, sseq, ts_us, prev, CAST(payload AS BLOB) AS payload, leaf, tag FROM log ORDER BY gseq',
      )
      .safeIntegers();
    return rows.all() as Row[];
  }

  replace(rows: readonly Row[]): void {
    this.db.exec('DELETE FROM log');
    const insert = this.db.prepare(
      'INSERT INTO log VALUES (@gseq, @stream, @sseq, @ts_us, @prev, CAST(@payload AS TEXT), @leaf, @tag)',
    );
    for (const row of rows) insert.run(row);
  }

  /** Makes a change, verifies, and takes the change back. */
  async attempt(
    change: () => void,
    heads: readonly string[] = this.from.heads,
  ): Promise<Verification> {
    this.db.exec('BEGIN');
    try {
      change();
      for (const sql of this.#triggers) this.db.exec(sql);
      return (
        await scanLog(this.db, {
          streams: RUN_STREAMS,
          key: this.from.key,
          runId: this.from.runId,
          heads,
        })
      ).verification;
    } finally {
      this.db.exec('ROLLBACK');
    }
  }
}

/** Expectations that are cheap enough for tens of thousands of attempts. */
class Tally {
  readonly wrong: string[] = [];
  attempts = 0;

  note(what: string, verification: Verification, outcome: string, at?: number): void {
    this.attempts++;
    const first = verification.disagreement;
    if (verification.outcome !== outcome)
      this.wrong.push(`${what}: ${verification.outcome} instead of ${outcome}`);
    else if (
      at !== undefined &&
      (first === null || first.at > at || (first.until ?? first.at + 1) <= at)
    )
      this.wrong.push(`${what}: disagrees at ${first?.at}, not ${at}`);
  }
}

const ALL = ['gseq', 'stream', 'sseq', 'ts_us', 'prev', 'payload', 'leaf', 'tag'];
const bits = (random: Random): number[] =>
  random.shuffle([0, 1, 2, 3, 4, 5, 6, 7]).slice(0, FULL ? 3 : 1);
const flip64 = (value: bigint, byte: number, bit: number): bigint =>
  BigInt.asIntN(64, value ^ (1n << BigInt(8 * byte + bit)));

async function flipEveryByte(source: SignedLog, columns: readonly string[]): Promise<Tally> {
  const forgery = new Forgery(source);
  const tally = new Tally();
  const random = new Random(11n);
  const { db } = forgery;
  for (const row of forgery.rows()) {
    const at = Number(row.gseq);
    for (const column of (['gseq', 'stream', 'sseq', 'ts_us'] as const).filter((each) =>
      columns.includes(each),
    )) {
      for (let byte = 0; byte < 8; byte++) {
        for (const bit of bits(random)) {
          const value = flip64(row[column], byte, bit);
          const verification = await forgery.attempt(() => {
            // where the flipped number is taken, the two rows change places
            const scope = column === 'sseq' ? 'sseq = ? AND stream = ?' : 'gseq = ?';
            const own = column === 'sseq' ? [row.sseq, row.stream] : [row.gseq];
            if (column === 'gseq' || column === 'sseq') {
              const taken = column === 'sseq' ? [value, row.stream] : [value];
              db.prepare(`UPDATE log SET ${column} = -7777777 WHERE ${scope}`).run(...taken);
              db.prepare(`UPDATE log SET ${column} = ? WHERE ${scope}`).run(value, ...own);
              db.prepare(`UPDATE log SET ${column} = ? WHERE ${column} = -7777777`).run(
                row[column],
              );
            } else if (column === 'stream') {
              // its number within the other stream may be taken too
              const free =
                db
                  .prepare('SELECT 1 FROM log WHERE stream = ? AND sseq = ?')
                  .get(value, row.sseq) === undefined;
              db.prepare('UPDATE log SET stream = ?, sseq = ? WHERE gseq = ?').run(
                value,
                free ? row.sseq : 100_000n,
                row.gseq,
              );
            } else db.prepare('UPDATE log SET ts_us = ? WHERE gseq = ?').run(value, row.gseq);
          });
          tally.note(`${column} of ${at}, bit ${bit} of byte ${byte}`, verification, 'tampered');
        }
      }
    }
    for (const column of (['prev', 'payload', 'leaf', 'tag'] as const).filter((each) =>
      columns.includes(each),
    )) {
      const content = row[column];
      const update = db.prepare(
        `UPDATE log SET ${column} = ${column === 'payload' ? 'CAST(? AS TEXT)' : '?'} WHERE gseq = ?`,
      );
      for (let byte = 0; content !== null && byte < content.length; byte++) {
        for (const bit of bits(random)) {
          const flipped = Buffer.from(content);
          flipped[byte] = (flipped[byte] as number) ^ (1 << bit);
          tally.note(
            `${column} of ${at}, bit ${bit} of byte ${byte}`,
            await forgery.attempt(() => update.run(flipped, row.gseq)),
            'tampered',
            at,
          );
        }
      }
    }
  }
  for (const { size, note } of db
    .prepare('SELECT size, CAST(note AS BLOB) AS note FROM checkpoint')
    .all() as {
    size: number;
    note: Buffer;
  }[]) {
    for (let byte = 0; byte < note.length; byte++) {
      for (const bit of bits(random)) {
        const flipped = Buffer.from(note);
        flipped[byte] = (flipped[byte] as number) ^ (1 << bit);
        const verification = await forgery.attempt(() =>
          db
            .prepare('UPDATE checkpoint SET note = CAST(? AS TEXT) WHERE size = ?')
            .run(flipped, size),
        );
        tally.note(`note of head ${size}, bit ${bit} of byte ${byte}`, verification, 'tampered');
      }
    }
    for (let byte = 0; byte < 8; byte++) {
      const verification = await forgery.attempt(() => {
        const value = flip64(BigInt(size), byte, byte === 0 ? 7 : 3);
        db.prepare('DELETE FROM checkpoint WHERE size = ?').run(value);
        db.prepare('UPDATE checkpoint SET size = ? WHERE size = ?').run(value, size);
      });
      tally.note(`size of head ${size}, byte ${byte}`, verification, 'tampered');
    }
  }
  return tally;
}

/** SHA-256 of a record as env_rl.md §8.2 writes it, built here from its fields. */
function leafOf(row: Row, runId: string): Buffer {
  const fixed = Buffer.alloc(8 * 3);
  fixed.writeBigUInt64BE(row.gseq, 0);
  fixed.writeBigUInt64BE(row.sseq, 8);
  fixed.writeBigUInt64BE(row.ts_us, 16);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(row.payload.length);
  const parts = [
    Buffer.of(0),
    Buffer.from('isopro.log.v1'),
    Buffer.from(runId, 'hex'),
    Buffer.of(Number(row.stream)),
    fixed,
    row.prev,
    length,
    row.payload,
  ];
  return createHash('sha256').update(Buffer.concat(parts)).digest();
}

/** Renumbers and links rows from `start` on, so that the chain alone is without fault. */
function relink(rows: Row[], runId: string, start: number): Row[] {
  const sizes = new Map<bigint, bigint>();
  let prev = (rows[0] as Row).prev;
  return rows.map((row, i) => {
    const sseq = sizes.get(row.stream) ?? 0n;
    sizes.set(row.stream, sseq + 1n);
    const linked = i < start ? row : { ...row, gseq: BigInt(i), sseq, prev };
    const leaf = i < start ? row.leaf : leafOf(linked, runId);
    prev = leaf;
    return { ...linked, leaf };
  });
}

const edit = (row: Row): Row => ({
  ...row,
  payload: Buffer.from(row.payload.toString().replace('"kind":"', '"kind":"x')),
});

describe('a log that nobody touched', () => {
  test("verifies, with and without the witness's own heads", async () => {
    for (const source of [log, single, other]) {
      const forgery = new Forgery(source);
      expect(await forgery.attempt(() => undefined)).toMatchObject({
        outcome: 'ok',
        records: 200,
        signedRecords: 200,
        disagreement: null,
      });
      expect(await forgery.attempt(() => undefined, [])).toMatchObject({
        outcome: 'ok',
        records: 200,
        signedRecords: 200,
        disagreement: null,
      });
    }
  });

  test('its leaf hashes are those of the written format, computed here from the fields', () => {
    const rows = new Forgery(log).rows();
    expect(rows.map((row) => leafOf(row, RUN).toString('hex'))).toEqual(
      rows.map(({ leaf }) => leaf.toString('hex')),
    );
    for (let i = 1; i < rows.length; i++) expect(rows[i]?.prev).toEqual(rows[i - 1]?.leaf);
  });
});

describe(`one flipped bit in every byte of every column of ${FLIPPED} records and their heads`, () => {
  test('is tampering, at that record: a log with a witness', async () => {
    const tally = await flipEveryByte(flipped.witnessed, ALL);
    expect(tally.wrong).toEqual([]);
    expect(tally.attempts).toBeGreaterThan(FLIPPED * 175);
  }, 1_800_000);

  test('is tampering, at that record: a log of a single process, whose MACs are a column too', async () => {
    const tally = await flipEveryByte(flipped.single, FULL ? ALL : ['tag']);
    expect(tally.wrong).toEqual([]);
    expect(tally.attempts).toBeGreaterThan(FLIPPED * 32);
  }, 1_800_000);
});

describe('rows', () => {
  test('deleting a row is reported there; the last one as truncation', async () => {
    const forgery = new Forgery(log);
    const tally = new Tally();
    for (const i of AT) {
      const verification = await forgery.attempt(() =>
        forgery.db.prepare('DELETE FROM log WHERE gseq = ?').run(i),
      );
      tally.note(`row ${i} deleted`, verification, i === 199 ? 'truncated' : 'tampered', i);
      const closed = await forgery.attempt(() =>
        forgery.replace(
          relink(
            forgery.rows().filter((_, k) => k !== i),
            RUN,
            0,
          ),
        ),
      );
      tally.note(
        `row ${i} deleted and the rest linked anew`,
        closed,
        i === 0 || i < 198 ? 'tampered' : closed.outcome === 'truncated' ? 'truncated' : 'tampered',
      );
    }
    expect(tally.wrong).toEqual([]);
  });

  test('two rows changing places is tampering, with their numbers or linked anew', async () => {
    const forgery = new Forgery(log);
    const tally = new Tally();
    const random = new Random(2n);
    const neighbours = AT.filter((i) => i < 199).map((i) => [i, i + 1] as const);
    const pairs = Array.from({ length: PAIRS }, () => random.nextInteger(0, 198)).map(
      (i) => [i, random.nextInteger(i + 1, 199)] as const,
    );
    for (const [i, j] of [...neighbours, ...pairs]) {
      const rows = forgery.rows();
      const [a, b] = [rows[i] as Row, rows[j] as Row];
      rows[i] = { ...b, gseq: a.gseq };
      rows[j] = { ...a, gseq: b.gseq };
      tally.note(
        `rows ${i} and ${j} swapped`,
        await forgery.attempt(() => forgery.replace(rows)),
        'tampered',
        i,
      );
      tally.note(
        `rows ${i} and ${j} swapped, linked anew`,
        await forgery.attempt(() => forgery.replace(relink(rows, RUN, i))),
        'tampered',
      );
    }
    expect(tally.wrong).toEqual([]);
  });

  test('a second copy of a row is tampering, in its place or at the end', async () => {
    const forgery = new Forgery(log);
    const tally = new Tally();
    for (const i of AT) {
      const rows = forgery.rows();
      const copy = rows[i] as Row;
      const sseq = BigInt(rows.filter(({ stream }) => stream === copy.stream).length);
      tally.note(
        `row ${i} again at the end`,
        await forgery.attempt(() => forgery.replace([...rows, { ...copy, gseq: 200n, sseq }])),
        'tampered',
        200,
      );
      tally.note(
        `row ${i} twice, linked anew`,
        await forgery.attempt(() =>
          forgery.replace(relink([...rows.slice(0, i), copy, ...rows.slice(i)], RUN, i)),
        ),
        'tampered',
      );
    }
    expect(tally.wrong).toEqual([]);
  });

  test('a row of another run is tampering, as it is or linked in', async () => {
    const forgery = new Forgery(log);
    const foreign = new Forgery(other).rows();
    const tally = new Tally();
    for (const i of AT) {
      const rows = forgery.rows();
      rows[i] = foreign[i] as Row;
      tally.note(
        `row ${i} of another run`,
        await forgery.attempt(() => forgery.replace(rows)),
        'tampered',
        i,
      );
      tally.note(
        `row ${i} of another run, linked anew`,
        await forgery.attempt(() => forgery.replace(relink(rows, RUN, i))),
        'tampered',
        i === 0 ? 0 : undefined,
      );
    }
    expect(tally.wrong).toEqual([]);
    // one stream's rows for another's (X4): all decisions as rule evaluations
    const swapped = forgery.rows().map((row) => ({
      ...row,
      stream: row.stream === 2n ? 3n : row.stream === 3n ? 2n : row.stream,
    }));
    expect((await forgery.attempt(() => forgery.replace(swapped))).outcome).toBe('tampered');
    expect((await forgery.attempt(() => forgery.replace(relink(swapped, RUN, 0)))).outcome).toBe(
      'tampered',
    );
  });

  test("the whole log of another run is not this run's, though it is in order by itself", async () => {
    const db = new Database(other.bytes);
    expect((await scanLog(db, { streams: RUN_STREAMS, key: log.key })).verification.outcome).toBe(
      'ok',
    );
    expect(
      (await scanLog(db, { streams: RUN_STREAMS, key: log.key, runId: RUN })).verification,
    ).toMatchObject({
      outcome: 'tampered',
      disagreement: { at: 0 },
    });
    expect(
      (await scanLog(db, { streams: RUN_STREAMS, key: log.key, heads: log.heads })).verification
        .outcome,
    ).toBe('tampered');
  });
});

describe(`truncation to ${FULL ? 'every length' : `${AT.length} lengths`}`, () => {
  test.each(['as it is', 'with its later heads deleted too'])(
    "%s is told from the witness's heads",
    async (how) => {
      const forgery = new Forgery(log);
      const tally = new Tally();
      for (const length of AT) {
        const cut = (): void => {
          forgery.db.prepare('DELETE FROM log WHERE gseq >= ?').run(length);
          if (how !== 'as it is')
            forgery.db.prepare('DELETE FROM checkpoint WHERE size > ?').run(length);
        };
        tally.note(`cut to ${length}`, await forgery.attempt(cut), 'truncated', length);
        // without the witness's list: the heads in the file tell, and without those it looks like a
        // crash, never like a complete run
        tally.note(
          `cut to ${length}, no other heads`,
          await forgery.attempt(cut, []),
          how === 'as it is' ? 'truncated' : 'unterminated',
        );
      }
      expect(tally.wrong).toEqual([]);
    },
  );

  test('a forged end after the cut does not hide it (X2)', async () => {
    const forgery = new Forgery(log);
    for (const length of [1, 40, 57, 120, 197]) {
      const rows = forgery.rows();
      const forged = relink([...rows.slice(0, length), ...rows.slice(198)], RUN, length);
      // a head before the nonce counts 198 records, and from 197 on the forged end falls under it
      expect((await forgery.attempt(() => forgery.replace(forged))).outcome).toBe(
        length === 197 ? 'tampered' : 'truncated',
      );
      const alone = await forgery.attempt(() => {
        forgery.replace(forged);
        forgery.db.prepare('DELETE FROM checkpoint WHERE size > ?').run(length);
      }, []);
      expect(alone.outcome).toBe('unterminated'); // never ok: the final head cannot be forged
    }
  });

  test('an older copy is truncation', async () => {
    const forgery = new Forgery(log);
    for (const { size } of forgery.db
      .prepare('SELECT size FROM checkpoint WHERE size < 200')
      .all() as { size: number }[]) {
      const verification = await forgery.attempt(() => {
        forgery.db.prepare('DELETE FROM log WHERE gseq >= ?').run(size);
        forgery.db.prepare('DELETE FROM checkpoint WHERE size > ?').run(size);
      });
      expect(verification).toMatchObject({
        outcome: 'truncated',
        signedRecords: size,
        disagreement: { at: size },
      });
    }
  });

  test('emptying one stream is tampering (X3)', async () => {
    const forgery = new Forgery(log);
    for (const stream of [1n, 2n, 3n, 5n]) {
      const rows = forgery.rows().filter((row) => row.stream !== stream);
      expect((await forgery.attempt(() => forgery.replace(rows))).outcome).toBe('tampered');
      expect((await forgery.attempt(() => forgery.replace(relink(rows, RUN, 0)))).outcome).toMatch(
        /tampered|truncated/,
      );
    }
  });
});

describe('a full rewrite with valid hashes (X1)', () => {
  /** Signs all heads of rewritten rows with a key of the forger's. */
  function sign(rows: Row[], sizes: number[], signer: Ed25519Signer): Map<number, string> {
    const frontier = new MerkleFrontier();
    const notes = new Map<number, string>();
    for (const row of rows) {
      frontier.append(row.leaf.toString('hex'));
      if (!sizes.includes(frontier.size)) continue;
      const text = checkpointText({
        runId: RUN,
        size: frontier.size,
        root: frontier.root(),
        final: frontier.size === 200,
        revealed: null,
      });
      notes.set(frontier.size, formatNote(text, [signer.sign(text, originOf(RUN))]));
    }
    return notes;
  }

  test.each([0, 1, 39, 40, 100, 199])('from record %i on is tampering', async (start) => {
    const forgery = new Forgery(log);
    const rewritten = relink(
      forgery.rows().map((row, i) => (i >= Math.max(1, start) ? edit(row) : row)),
      RUN,
      Math.max(1, start),
    );
    const withHeads = await forgery.attempt(() => forgery.replace(rewritten));
    expect(withHeads.outcome).toBe('tampered');
    const { at, until } = withHeads.disagreement as { at: number; until: number };
    expect(at).toBeLessThanOrEqual(Math.max(1, start));
    expect(until).toBeGreaterThan(Math.max(1, start));

    const sizes = forgery.db.prepare('SELECT size FROM checkpoint').pluck().all() as number[];
    const forgedHeads = sign(rewritten, sizes, new Ed25519Signer(Buffer.alloc(32, 99)));
    const resigned = await forgery.attempt(() => {
      forgery.replace(rewritten);
      forgery.db.exec('DELETE FROM checkpoint');
      for (const [size, note] of forgedHeads)
        forgery.db.prepare('INSERT INTO checkpoint VALUES (?, ?)').run(size, note);
    });
    expect(resigned).toMatchObject({ outcome: 'tampered', disagreement: { table: 'checkpoint' } });
  });

  test("even the witness's own key gives equivocation, where its earlier heads are known", async () => {
    const forgery = new Forgery(log);
    const rewritten = relink(
      forgery.rows().map((row, i) => (i >= 30 ? edit(row) : row)),
      RUN,
      30,
    );
    const heads = sign(rewritten, [40, 200], new Ed25519Signer(Buffer.alloc(32, 7)));
    const verification = await forgery.attempt(() => {
      forgery.replace(rewritten);
      forgery.db.exec('DELETE FROM checkpoint');
      for (const [size, note] of heads)
        forgery.db.prepare('INSERT INTO checkpoint VALUES (?, ?)').run(size, note);
    });
    expect(verification).toMatchObject({ outcome: 'equivocation', disagreement: { at: 40 } });
  });

  test('a payload in another spelling is tampering, although it means the same', async () => {
    const forgery = new Forgery(log);
    const rows = forgery.rows();
    const respelled = rows.map((row, i) =>
      i === 50 ? { ...row, payload: Buffer.from(row.payload.toString().replace(':', ': ')) } : row,
    );
    expect(await forgery.attempt(() => forgery.replace(respelled))).toMatchObject({
      outcome: 'tampered',
      disagreement: { at: 50 },
    });
    // also before anything is signed, where only the spelling itself is wrong
    const unsigned = await forgery.attempt(() => {
      forgery.replace(relink(respelled, RUN, 50));
      forgery.db.exec('DELETE FROM checkpoint');
    }, []);
    expect(unsigned).toMatchObject({
      outcome: 'tampered',
      disagreement: { at: 50, reason: expect.stringContaining('canonical') },
    });
  });

  test(
    'time running backwards, a second start, a record after the end, a false nonce: tampering even with valid links and no ' +
      'head',
    async () => {
      const forgery = new Forgery(log);
      const cases: [string, (rows: Row[]) => Row[], number][] = [
        [
          'time',
          (rows) =>
            rows.map((row, i) => (i === 70 ? { ...row, ts_us: row.ts_us - 10_000_000n } : row)),
          70,
        ],
        ['start', (rows) => [...rows.slice(0, 70), rows[0] as Row, ...rows.slice(70)], 70],
        [
          'end',
          (rows) =>
            [...rows, rows[50] as Row].map((row, i) =>
              i === 200 ? { ...row, ts_us: (rows[199] as Row).ts_us } : row,
            ),
          200,
        ],
        [
          'nonce',
          (rows) =>
            rows.map((row) => ({
              ...row,
              payload: Buffer.from(
                row.payload
                  .toString()
                  .replace(/"nonce":"[0-9a-f]{64}"/, `"nonce":"${'f'.repeat(64)}"`),
              ),
            })),
          198,
        ],
        ['stream', (rows) => rows.map((row, i) => (i === 70 ? { ...row, stream: 9n } : row)), 70],
        [
          'genesis',
          (rows) =>
            rows.map((row, i) =>
              i === 0
                ? { ...row, payload: Buffer.from(row.payload.toString().replace('abab', 'abac')) }
                : row,
            ),
          0,
        ],
      ];
      for (const [what, change, at] of cases) {
        const rows = forgery.rows();
        const late = rows.map((row, i) => (what === 'start' && i === 0 ? row : row));
        const changed = change(late).map((row, i) =>
          what === 'start' && i === 70 ? { ...row, ts_us: (rows[70] as Row).ts_us } : row,
        );
        const verification = await forgery.attempt(() => {
          forgery.replace(relink(changed, RUN, 0));
          forgery.db.exec('DELETE FROM checkpoint');
        }, []);
        expect([what, verification.outcome, verification.disagreement?.at]).toEqual([
          what,
          'tampered',
          at,
        ]);
      }
    },
  );
});

/** Long enough for a second thread. */
const LENGTH = 21_000;
let long: SignedLog;
beforeAll(async () => {
  const signer = new SingleProcessSigner(folder.path);
  const path = join(folder.path, 'long.sqlite');
  const file = await EventLog.create({
    streams: RUN_STREAMS,
    path,
    runId: '10ad'.repeat(8),
    signer,
    runConfig: null,
    digests: {},
  });
  while (file.size < LENGTH)
    file.append(Array.from({ length: 1000 }, (_, i) => exampleRecord(file.size + i)));
  await file.checkpoint();
  file.close();
  const db = new Database(path);
  db.pragma('journal_mode = DELETE'); // a copy in memory has no WAL
  long = {
    path,
    bytes: db.serialize(),
    runId: file.session.runId,
    key: await signer.key(file.session.runId),
    heads: await signer.heads(file.session.runId),
    records: file.size,
  };
  db.close();
  await signer.close();
});

describe('a log that is long enough for a second thread', () => {
  test('is judged as in one thread: healthy, respelled, both respelled and changed', async () => {
    const forgery = new Forgery(long);
    expect(await forgery.attempt(() => undefined)).toMatchObject({
      outcome: 'unterminated',
      records: long.records,
      signedRecords: long.records,
    });
    const rows = forgery.rows();
    const respell = (at: number): Row[] =>
      rows.map((row, i) =>
        i === at
          ? { ...row, payload: Buffer.from(row.payload.toString().replace(':', ': ')) }
          : row,
      );
    const unsigned = async (changed: Row[]): Promise<Verification> =>
      forgery.attempt(() => {
        forgery.replace(changed);
        forgery.db.exec('DELETE FROM checkpoint');
      }, []);
    const found = (at: number): object => ({
      outcome: 'tampered',
      records: at,
      disagreement: { table: 'log', at, reason: 'its payload is not canonical JSON of a record' },
    });
    expect(await unsigned(relink(respell(7), long.runId, 7))).toMatchObject(found(7));
    // what disagrees later does not matter, what disagrees earlier does
    const late = relink(respell(20_500), long.runId, 20_500);
    expect(await unsigned(late.map((row, i) => (i === 20_900 ? edit(row) : row)))).toMatchObject(
      found(20_500),
    );
    expect(await unsigned(late.map((row, i) => (i === 30 ? edit(row) : row)))).toMatchObject({
      outcome: 'tampered',
      records: 30,
      disagreement: { at: 30, reason: 'its hash does not match its content' },
    });
  });
});

describe('the file around the records', () => {
  test('an index that hides records from readers is found, whichever thread checks the pages', async () => {
    for (const { bytes, key } of [log, long]) {
      const path = join(folder.path, 'hiding.sqlite');
      writeFileSync(path, bytes);
      const db = new Database(path);
      db.unsafeMode();
      db.exec(
        'CREATE INDEX less ON log (stream, sseq) WHERE stream <> 1; PRAGMA writable_schema = ON',
      );
      db.exec(
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'less') WHERE name = 'log_stream'",
      );
      db.exec("DELETE FROM sqlite_schema WHERE name = 'less'");
      db.close();
      const verification = await verifyLogFile(path, { streams: RUN_STREAMS, key });
      expect(verification).toMatchObject({
        outcome: 'tampered',
        disagreement: { table: 'file', reason: expect.stringContaining('damaged') },
      });
    }
  });

  test('a dropped trigger, a changed view, another table: tampering', async () => {
    for (const sql of [
      'DROP TRIGGER log_update',
      'CREATE TABLE more (x)',
      'DROP INDEX log_stream',
      'DROP VIEW live; CREATE VIEW live AS SELECT * FROM log',
    ]) {
      const db = new Database(log.bytes);
      db.exec(sql);
      expect(
        (await scanLog(db, { streams: RUN_STREAMS, key: log.key })).verification,
      ).toMatchObject({
        outcome: 'tampered',
        disagreement: { table: 'file' },
      });
    }
  });

  test("a mark in the file's header that no log has: tampering", async () => {
    for (const field of ['user_version', 'application_id']) {
      const db = new Database(log.bytes);
      db.pragma(`${field} = 7`);
      expect(
        (await scanLog(db, { streams: RUN_STREAMS, key: log.key, heads: log.heads })).verification,
      ).toMatchObject({
        outcome: 'tampered',
        disagreement: { table: 'file' },
      });
    }
  });

  test('any head taken out of the file is missed, but for the final one where it is known from elsewhere', async () => {
    const forgery = new Forgery(log);
    const sizes = forgery.db
      .prepare('SELECT size FROM checkpoint ORDER BY size')
      .pluck()
      .all() as number[];
    expect(sizes.length).toBeGreaterThan(4);
    for (const size of sizes) {
      const taken = (heads: readonly string[]): Promise<Verification> =>
        forgery.attempt(
          () => forgery.db.prepare('DELETE FROM checkpoint WHERE size = ?').run(size),
          heads,
        );
      const isFinal = size === 200;
      expect((await taken([])).outcome).toBe(isFinal ? 'unterminated' : 'tampered');
      expect((await taken(log.heads)).outcome).toBe(isFinal ? 'ok' : 'tampered');
    }
  });

  test('the key of another witness, or of another kind, verifies nothing', async () => {
    const stranger = {
      signer: 'witness' as const,
      publicKey: new Ed25519Signer(Buffer.alloc(32, 8)).publicKey,
    };
    expect(
      (await scanLog(new Database(log.bytes), { streams: RUN_STREAMS, key: stranger })).verification
        .outcome,
    ).toBe('tampered');
    expect(
      (await scanLog(new Database(log.bytes), { streams: RUN_STREAMS, key: single.key }))
        .verification.outcome,
    ).toBe('tampered');
    expect(
      (await scanLog(new Database(single.bytes), { streams: RUN_STREAMS, key: log.key }))
        .verification.outcome,
    ).toBe('tampered');
    expect(
      (
        await scanLog(new Database(single.bytes), {
          streams: RUN_STREAMS,
          key: { signer: 'single-process', master: Buffer.alloc(32) },
        })
      ).verification.outcome,
    ).toBe('tampered');
  });
});
