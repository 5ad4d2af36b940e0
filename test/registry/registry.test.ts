/**
 * A registry on the disk: what is published stays, names move by evidence or by force, and what was
 * damaged is refused by name.
 */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { witnessInProcess } from '../../bench/log.js';
import type { GateEvidence } from '../../src/gate/index.js';
import { LogReader } from '../../src/log/read.js';
import type { LogSigner } from '../../src/log/signer.js';
import { verifyLogFile } from '../../src/log/verify.js';
import { REGISTRY_STREAMS } from '../../src/registry/events.js';
import {
  checkHistory,
  collectGarbage,
  decideGate,
  drawGate,
  openGate,
  proveAt,
  Registry,
  repairRegistry,
  rollbackByEvidence,
  resolveAdapter,
  validateRegistry,
  type HistoryProof,
  type Published,
} from '../../src/registry/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-registry-'));
const base = { name: 'tiny.gguf', sha256: 'ba'.repeat(32) };
const rendererId = 'fe'.repeat(32);
const adapterFile = (n: number): string => path.join(folder, `adapter-${n}.gguf`);
const sql = { scenario: 'sql' };
const coded = (code: string): never =>
  expect.objectContaining({ name: 'IsoproError', code }) as never;

let registry: Registry;
let signer: LogSigner;
let place: string;
beforeAll(() => {
  const shape = writeSyntheticModel(path.join(folder, 'model.gguf'), { architecture: 'llama' });
  for (const n of [1, 2, 3])
    writeSyntheticAdapter(adapterFile(n), shape, { seed: BigInt(n), rank: 2, targets: ['attn_q'] });
});
beforeEach(() => {
  place = mkdtempSync(path.join(folder, 'case-'));
  signer = witnessInProcess(place);
  registry = new Registry({ folder: path.join(place, 'registry'), signer });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const publish = (n: number): Promise<Published> =>
  registry.publish({ file: adapterFile(n), base, rendererId, settings: { seed: String(n) } });
const force = async (n: number): Promise<string> => {
  const { id } = await publish(n);
  await registry.move({ slot: sql, id, force: true, reason: 'test' });
  return id;
};
const current = async (): Promise<string | null | undefined> =>
  (await registry.read()).state.aliases.find(({ alias }) => alias === 'champion')?.current;
const trialsOf = (challenger: string, incumbent: string, wins: number): GateEvidence['trials'] =>
  Array.from({ length: wins }, (_, i) =>
    [challenger, incumbent].map((version, side) => ({
      version,
      task: 'sql',
      epoch: '1',
      verifier: 'v',
      problem: `p${i}`,
      score: 1 - side,
    })),
  ).flat();

describe('publish', () => {
  test('the record is for ever: the same adapter again is the same one, other bytes at the same path are another (A7)', async () => {
    const first = await publish(1);
    expect(first).toMatchObject({ isNew: true, name: `tiny#${first.id.slice(0, 12)}` });
    expect(await publish(1)).toMatchObject({ id: first.id, isNew: false });
    const file = path.join(place, 'same-path.gguf');
    writeFileSync(file, readFileSync(adapterFile(1)));
    expect((await registry.publish({ file, base, rendererId, settings: { seed: '1' } })).id).toBe(
      first.id,
    );
    writeFileSync(file, readFileSync(adapterFile(2)));
    expect(
      (await registry.publish({ file, base, rendererId, settings: { seed: '1' } })).id,
    ).not.toBe(first.id);
    expect((await registry.read()).state.entries.size).toBe(2);
    expect(first.record).toMatchObject({
      base,
      rendererId,
      adapter: { rank: 2, targets: ['attn_q'], layers: [0, 1] },
    });
  });

  test('bad input is a typed error, and nothing is lost', async () => {
    for (const work of [
      () => registry.read(),
      () => openGate(registry, { slot: sql, challenger: 'cd'.repeat(32) }),
      () => registry.rollback({ slot: sql }),
      () => collectGarbage(registry),
    ])
      await expect(work()).rejects.toThrow(coded('REGISTRY_NOT_FOUND'));
    expect(existsSync(registry.paths.folder)).toBe(false); // what fails begins none
    await expect(registry.publish({ file: path.join(folder, 'model.gguf'), base })).rejects.toThrow(
      coded('ADAPTER_MISMATCH'),
    );
    await expect(registry.publish({ file: path.join(folder, 'none.gguf'), base })).rejects.toThrow(
      coded('MODEL_NOT_FOUND'),
    );
    await expect(
      registry.publish({ file: adapterFile(1), base: { ...base, sha256: 'x' } }),
    ).rejects.toThrow(coded('INVALID_ARGUMENT'));
    const lineage = { parent: 'cd'.repeat(32), producedBy: [] };
    await expect(registry.publish({ file: adapterFile(1), base, lineage })).rejects.toThrow(
      coded('REGISTRY_REFUSED'),
    );
    const id = await force(1);
    await expect(registry.move({ slot: sql, id: 'cd'.repeat(32), force: true })).rejects.toThrow(
      coded('REGISTRY_REFUSED'),
    );
    await expect(registry.move({ slot: { scenario: '../x' }, id, force: true })).rejects.toThrow(
      coded('INVALID_ARGUMENT'),
    );
    expect(await current()).toBe(id);
  });

  test('a foreign base: the adapter says what it was trained on', async () => {
    const { createTrainer } = await import('../../src/index.js');
    const file = path.join(place, 'trained.gguf');
    await using trainer = await createTrainer(
      { path: path.join(folder, 'model.gguf') },
      { lora: { rank: 2, layers: { top: 1 } }, threads: 1 },
    );
    await trainer.exportAdapter(file);
    await expect(registry.publish({ file, base })).rejects.toThrow(coded('ADAPTER_MISMATCH'));
  });

  test('a clock that goes back is a typed error; nothing is written, and it may be accepted', async () => {
    await publish(1);
    const records = (await registry.read()).records;
    const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() - 3_600_000);
    try {
      await expect(publish(2)).rejects.toThrow(coded('REGISTRY_CLOCK'));
      expect((await registry.read()).records).toBe(records);
      await new Registry({ folder: registry.paths.folder, signer, acceptClock: true }).publish({
        file: adapterFile(2),
        base,
      });
    } finally {
      clock.mockRestore();
    }
    const { heads, records: after } = await registry.read();
    expect(after).toBe(records + 1);
    const times = heads.map(({ stated }) => stated!.timeUs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });
});

describe('names are moved', () => {
  test('A7: activating B demotes A; only force or a gate moves the champion, and which it was is on record', async () => {
    const a = await force(1);
    const { id: b } = await publish(2);
    await expect(registry.move({ slot: sql, id: b })).rejects.toThrow(coded('REGISTRY_REFUSED'));
    await registry.move({ slot: sql, alias: 'challenger', id: b });
    await registry.move({ slot: sql, id: b, force: true, reason: 'I know better' });
    const { state, events } = await registry.read();
    expect(
      state.alias({ scenario: 'sql', role: 'default', environment: 'default' }, 'champion'),
    ).toMatchObject({
      current: b,
      previous: [null, a],
    });
    expect(events.at(-1)!.event).toMatchObject({
      kind: 'moved',
      from: a,
      to: b,
      forced: true,
      gate: null,
      reason: 'I know better',
    });
    expect(JSON.parse(readFileSync(registry.paths.pointer, 'utf8'))).toMatchObject({
      aliases: { 'sql@champion': b, 'sql@challenger': b },
    });
  });

  test('of two that promote at once one wins and the other gets CONFLICT', async () => {
    await force(1);
    const [b, c] = [(await publish(2)).id, (await publish(3)).id];
    const seen = await current();
    const move = (id: string): Promise<unknown> =>
      registry.move({ slot: sql, id, force: true, expected: seen! });
    const outcomes = await Promise.allSettled([move(b), move(c)]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const lost = outcomes.find((each) => each.status === 'rejected')!;
    expect(lost.reason).toMatchObject({ code: 'CONFLICT' });
    expect(await current()).toBe(outcomes[0]!.status === 'fulfilled' ? b : c);
  });

  test('a transaction is done once', async () => {
    await force(1);
    const [b, c] = [(await publish(2)).id, (await publish(3)).id];
    const first = await registry.move({ slot: sql, id: b, force: true, transaction: 't1' });
    const { records } = await registry.read();
    expect(await registry.move({ slot: sql, id: b, force: true, transaction: 't1' })).toEqual(
      first,
    );
    await expect(
      registry.move({ slot: sql, id: c, force: true, transaction: 't1' }),
    ).rejects.toThrow(coded('CONFLICT'));
    expect((await registry.read()).records).toBe(records);
  });

  test('rollback by hand puts back what was there before, in one call, and further back each time', async () => {
    const a = await force(1);
    const b = await force(2);
    expect(await registry.rollback({ slot: sql, reason: 'scores 0 on the canaries' })).toEqual({
      alias: 'sql@champion',
      from: b,
      to: a,
    });
    expect((await registry.read()).events.at(-1)!.event).toMatchObject({
      cause: 'rollback',
      reason: 'scores 0 on the canaries',
    });
    expect(await registry.rollback({ slot: sql })).toMatchObject({ from: a, to: null });
    await expect(registry.rollback({ slot: sql })).rejects.toThrow(coded('REGISTRY_REFUSED'));
    await registry.withdraw(b, 'leaks');
    await expect(registry.move({ slot: sql, id: b, force: true })).rejects.toThrow(
      coded('REGISTRY_REFUSED'),
    );
  });
});

describe('rollback by evidence', () => {
  /** A canary problem after the other: the version in use and, in the shadow, the one before. */
  const canaries = (
    now: string,
    before: string,
    scores: readonly (readonly [number, number])[],
  ): GateEvidence['trials'] =>
    scores.flatMap((pair, i) =>
      [now, before].map((version, side) => ({
        version,
        task: 'sql',
        epoch: '1',
        verifier: 'v',
        problem: `c${i}`,
        score: pair[side]!,
      })),
    );

  test('A12: a forced regression after a promotion restores the adapter before within one cycle, and the evidence is kept', async () => {
    const a = await force(1);
    const b = await force(2);
    const well = Array.from({ length: 12 }, (_, i) => [1, i % 3 === 0 ? 0 : 1] as const);
    const kept = await rollbackByEvidence(registry, { slot: sql, trials: canaries(b, a, well) });
    expect(kept).toMatchObject({ decision: { decision: 'keep' }, moved: null });
    expect(await current()).toBe(b);
    const fallen = Array.from({ length: 10 }, () => [0, 1] as const);
    const { decision, moved } = await rollbackByEvidence(registry, {
      slot: sql,
      trials: canaries(b, a, fallen),
    });
    expect(decision).toMatchObject({ decision: 'rollback' });
    expect(decision.at).toBeLessThanOrEqual(10);
    expect(moved).toEqual({ alias: 'sql@champion', from: b, to: a });
    expect(await current()).toBe(a);
    const { event } = (await registry.read()).events.at(-1)!;
    expect(event).toMatchObject({
      cause: 'rollback',
      reason: expect.stringContaining('E reached'),
      evidence: expect.any(String),
    });
    expect((await validateRegistry(registry)).defects).toEqual([]);
    expect(await collectGarbage(registry)).toMatchObject({ files: [] });
    for (const name of readdirSync(registry.paths.evidence))
      rmSync(path.join(registry.paths.evidence, name));
    expect((await validateRegistry(registry)).defects).toMatchObject([{ kind: 'evidence' }]);
  });
});

describe('resolve (A8)', () => {
  test('with no path: what the alias names, by its id, by base#hash; its bytes are hashed, and a flipped one is refused', async () => {
    const a = await force(1);
    const { id: b, name } = await publish(2);
    for (const text of ['sql@champion', a, a.slice(0, 8)])
      expect(await resolveAdapter(registry, text)).toMatchObject({
        ok: true,
        id: a,
        fallback: null,
      });
    const found = await resolveAdapter(registry, name);
    expect(found).toMatchObject({ ok: true, id: b });
    const file = registry.paths.adapter((await publish(2)).record.adapter.sha256);
    expect(found).toMatchObject({ file });
    const bytes = readFileSync(file);
    bytes[100]! ^= 1;
    writeFileSync(file, bytes);
    expect(await resolveAdapter(registry, name)).toMatchObject({
      ok: false,
      reason: 'bytes-changed',
    });
    await expect(registry.move({ slot: sql, id: b, force: true })).rejects.toThrow(
      coded('ADAPTER_CORRUPT'),
    );
    rmSync(file);
    expect(await resolveAdapter(registry, name)).toMatchObject({
      ok: false,
      reason: 'bytes-missing',
    });
    expect((await validateRegistry(registry)).defects).toMatchObject([
      { kind: 'adapter', repairable: false },
    ]);
    await publish(2); // its bytes are put back
    expect(await resolveAdapter(registry, name)).toMatchObject({ ok: true });
  });

  test('a typed reason where nothing fits; a fallback only where asked for, and then it is on record', async () => {
    const a = await force(1);
    const reason = async (text: string, options = {}): Promise<unknown> => {
      const found = await resolveAdapter(registry, text, options);
      return found.ok ? null : found.reason;
    };
    expect(await reason('ladder@champion')).toBe('unknown-alias');
    expect(await reason('123456')).toBe('unknown-id');
    expect(await reason('not a name')).toBe('not-a-name');
    expect(await reason('sql@champion', { baseSha256: 'cc'.repeat(32) })).toBe('foreign-base');
    expect(
      await reason('sql@champion', { baseSha256: base.sha256, rendererId: 'cc'.repeat(32) }),
    ).toBe('renderer-mismatch');
    expect(await reason('sql@champion', { baseSha256: base.sha256, rendererId })).toBe(null);
    // the renderer was corrected since: another template or the same one, which is told apart by
    // the id of before
    for (const [formerRendererId, remedy] of [
      [
        rendererId,
        'Train the adapter again with this version, or use it with the version of isopro-native that trained it.',
      ],
      [null, undefined],
      ['dd'.repeat(32), undefined],
    ] as const) {
      const found = await resolveAdapter(registry, 'sql@champion', {
        rendererId: 'cc'.repeat(32),
        formerRendererId,
      });
      expect(found).toMatchObject({ ok: false, reason: 'renderer-mismatch' });
      expect(found).toHaveProperty(
        'message',
        expect.stringMatching(
          remedy === undefined
            ? /but the model's renderer is cccc/
            : /which has since been corrected/,
        ),
      );
      expect((found as { remedy?: string }).remedy).toBe(remedy);
    }
    const { records } = await registry.read();
    expect(
      await resolveAdapter(registry, 'ladder@champion', { fallback: 'sql@champion' }),
    ).toMatchObject({
      id: a,
      fallback: 'unknown-alias',
    });
    expect(await resolveAdapter(registry, 'ladder@champion', { fallback: 'base' })).toEqual({
      ok: true,
      id: null,
      fallback: 'unknown-alias',
    });
    expect(await reason('ladder@champion', { fallback: 'sql@shadow' })).toBe('unknown-alias');
    const { events, records: after } = await registry.read();
    expect(after).toBe(records + 2);
    expect(events.slice(-2).map(({ event }) => event)).toMatchObject([
      { kind: 'fell_back', to: a },
      { kind: 'fell_back', to: null },
    ]);
    await registry.rollback({ slot: sql });
    expect(await reason('sql@champion')).toBe('base-model');
  });
});

describe('a gate on record', () => {
  test('opening one spends an attempt; its seed is drawn after that is signed, and evidence under another seed is refused', async () => {
    const a = await force(1);
    const { id: b } = await publish(2);
    const abandoned = await openGate(registry, { slot: sql, challenger: b });
    const gate = await openGate(registry, { slot: sql, challenger: b });
    expect([abandoned.attempt, gate.attempt]).toEqual([1, 2]);
    expect(gate.alpha).toBeCloseTo((0.05 * 6) / (Math.PI * 2) ** 2, 12);
    expect(gate.seed).not.toBe(abandoned.seed);
    expect(await drawGate(registry, 2)).toBe(gate.seed); // nobody draws again
    await expect(
      decideGate(registry, 2, { seed: abandoned.seed!, trials: trialsOf(b, a, 12) }),
    ).rejects.toThrow(coded('REGISTRY_REFUSED'));
    await expect(registry.move({ slot: sql, id: b, gate: 2 })).rejects.toThrow(
      coded('REGISTRY_REFUSED'),
    );
    // 8-0 is enough for a first attempt (E 56.8 against 32.9), not for a second
    expect(
      (await decideGate(registry, 2, { seed: gate.seed!, trials: trialsOf(b, a, 8) })).decision,
    ).toBe('needs-more-trials');
    const decision = await decideGate(registry, 2, {
      seed: gate.seed!,
      trials: trialsOf(b, a, 12),
    });
    expect(decision).toMatchObject({ decision: 'accepted', attempt: 2 });
    await expect(
      decideGate(registry, 2, { seed: gate.seed!, trials: trialsOf(b, a, 12) }),
    ).rejects.toThrow(coded('REGISTRY_REFUSED'));
    await registry.move({ slot: sql, id: b, gate: 2 });
    expect(await current()).toBe(b);
    expect((await registry.read()).events.at(-1)!.event).toMatchObject({ gate: 2, forced: false });
    await registry.rollback({ slot: sql });
    await expect(registry.move({ slot: sql, id: b, gate: 2 })).rejects.toThrow(
      coded('REGISTRY_REFUSED'),
    ); // once
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });

  test('a gate that accepted against another incumbent is a CONFLICT; changed trials are found', async () => {
    const { id: b } = await publish(2);
    const gate = await openGate(registry, { slot: sql, challenger: b });
    await decideGate(registry, 1, { seed: gate.seed!, trials: trialsOf(b, 'base', 8) });
    await force(1);
    await expect(registry.move({ slot: sql, id: b, gate: 1 })).rejects.toThrow(coded('CONFLICT'));
    const [kept] = readdirSync(registry.paths.evidence);
    const file = path.join(registry.paths.evidence, kept!);
    writeFileSync(file, readFileSync(file, 'utf8').replace('"score":1', '"score":0'));
    expect((await validateRegistry(registry)).defects).toMatchObject([
      { kind: 'evidence', repairable: false },
    ]);
  });

  test('an opening that a crash cut short has the seed that it would have had', async () => {
    const { id: b } = await publish(2);
    const failing: LogSigner = {
      ...signer,
      draw: () => Promise.reject(new Error('the power went')),
    };
    const cut = new Registry({ folder: registry.paths.folder, signer: failing });
    await expect(openGate(cut, { slot: sql, challenger: b })).rejects.toThrow('the power went');
    expect((await validateRegistry(registry)).defects).toMatchObject([
      { kind: 'gate', repairable: true },
    ]);
    await publish(3); // a later head does not count
    expect(await repairRegistry(registry)).toHaveLength(1);
    const { state } = await registry.read();
    expect(state.gates).toMatchObject([{ gate: 1, attempt: 1, decision: null }]);
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });
});

describe('history', () => {
  const dates: number[] = [];
  const nextDate = async (): Promise<number> => {
    const now = Date.now() * 1000;
    while (Date.now() * 1000 <= now + 1000) await new Promise((resolve) => setTimeout(resolve, 1));
    dates.push(now + 1000);
    return now + 1000;
  };

  test('which was live on a date, proved with the public key alone; an omitted move fails', async () => {
    const early = await nextDate();
    await nextDate();
    const a = await force(1);
    const first = await nextDate();
    await nextDate();
    const b = await force(2);
    const second = await nextDate();
    const key = await signer.key('');
    const prove = async (at: number): Promise<HistoryProof> =>
      JSON.parse(JSON.stringify(await proveAt(registry, at))) as HistoryProof;
    const live = async (at: number): Promise<unknown> => {
      const { aliases, moves } = checkHistory(await prove(at), key);
      return [Object.fromEntries(aliases)['sql@champion'] ?? null, moves.length];
    };
    expect(await live(early)).toEqual([null, 0]);
    expect(await live(first)).toEqual([a, 0]);
    expect(await live(second)).toEqual([b, 0]);
    await expect(proveAt(registry, Date.now() * 1000 + 1e9)).rejects.toThrow(
      coded('INVALID_ARGUMENT'),
    );

    // two moves between two heads, as a crash leaves them: both are shown, and neither can be left
    // out
    await expect(
      new Registry({
        folder: registry.paths.folder,
        signer: { ...signer, signHead: () => Promise.reject(new Error('gone')) },
      }).rollback({
        slot: sql,
      }),
    ).rejects.toThrow('gone');
    const at = await nextDate();
    expect(await current()).toBe(b); // nobody has vouched for it yet
    await registry.move({ slot: sql, alias: 'shadow', id: b });
    const proof = await prove(at);
    expect(checkHistory(proof, key).moves.map(({ to }) => to)).toEqual([a, b]);
    const broken: [string, (proof: HistoryProof) => unknown][] = [
      ['a record left out', (given) => ({ ...given, records: given.records.slice(1) })],
      [
        'one in the place of another',
        (given) => ({ ...given, records: [given.records[1], given.records[1]] }),
      ],
      [
        'another alias before',
        (given) => ({ ...given, before: { ...given.before!, aliases: [['sql@champion', a]] } }),
      ],
      [
        'an alias left out before',
        (given) => ({ ...given, before: { ...given.before!, aliases: [] } }),
      ],
      ['another date', (given) => ({ ...given, atUs: early })],
      ['heads of another time', (given) => ({ ...given, after: given.before!.head })],
      ['a changed payload', (given) => JSON.parse(JSON.stringify(given).replace(a, b)) as unknown],
      [
        'a time made up',
        (given) => ({
          ...given,
          after: given.after.replace(/(?<=time \d+)\d(?=\n)/, (digit) =>
            String((Number(digit) + 1) % 10),
          ),
        }),
      ],
      ['no extension', (given) => ({ ...given, extension: null })],
    ];
    for (const [what, change] of broken) {
      let error: unknown = null;
      try {
        checkHistory(change(proof), key);
      } catch (thrown) {
        error = thrown;
      }
      expect([what, error]).toEqual([what, coded('INVALID_ARGUMENT')]);
    }
    const stranger = witnessInProcess(mkdtempSync(path.join(place, 'other-')), Buffer.alloc(32, 9));
    const other = await stranger.key('');
    expect(() => checkHistory(proof, other)).toThrow('not signed by this key');
  });
});

describe('upkeep', () => {
  test('a damaged log is refused by name, whatever is asked; a rewritten pointer decides nothing and is repaired', async () => {
    const a = await force(1);
    writeFileSync(registry.paths.pointer, '{"aliases":{"sql@champion":"evil"}}');
    expect(await resolveAdapter(registry, 'sql@champion')).toMatchObject({ id: a });
    expect((await validateRegistry(registry)).defects).toMatchObject([
      { kind: 'pointer', repairable: true },
    ]);
    expect(await repairRegistry(registry)).toHaveLength(1);
    expect((await validateRegistry(registry)).defects).toEqual([]);
    // of a whole registry nothing is written
    const { ino } = statSync(registry.paths.pointer);
    expect(await repairRegistry(registry)).toEqual([]);
    expect(statSync(registry.paths.pointer).ino).toBe(ino);

    const db = new Database(registry.paths.log);
    const trigger = db
      .prepare("SELECT sql FROM sqlite_schema WHERE name = 'log_update'")
      .pluck()
      .get() as string;
    db.exec(
      `DROP TRIGGER log_update; UPDATE log SET payload = replace(payload, '"forced":true', '"forced":false'); ${trigger}`,
    );
    db.close();
    await expect(resolveAdapter(registry, 'sql@champion')).rejects.toThrow(coded('LOG_TAMPERED'));
    await expect(publish(2)).rejects.toThrow(coded('LOG_TAMPERED'));
    await expect(repairRegistry(registry)).rejects.toThrow(coded('LOG_TAMPERED'));
    expect((await validateRegistry(registry)).defects).toMatchObject([
      { kind: 'log', repairable: false },
    ]);
    writeFileSync(registry.paths.log, 'no database');
    await expect(registry.read()).rejects.toThrow(coded('LOG_UNREADABLE'));
    expect((await validateRegistry(registry)).defects).toMatchObject([
      { kind: 'log', repairable: false },
    ]);
  });

  test('gc deletes what no record knows, with --unused what nothing names, and never what a rollback would put back', async () => {
    const a = await force(1);
    const b = await force(2);
    const { id: c, record } = await publish(3);
    const stray = path.join(registry.paths.adapters, `${'0'.repeat(64)}.gguf`);
    writeFileSync(stray, 'left by a kill between two writes');
    expect(await collectGarbage(registry, { dryRun: true, unused: true })).toMatchObject({
      files: [path.basename(stray)],
      ids: [c],
    });
    expect(existsSync(stray)).toBe(true);
    expect(await collectGarbage(registry)).toMatchObject({
      files: [path.basename(stray)],
      ids: [],
    });
    expect(await collectGarbage(registry, { unused: true })).toMatchObject({
      files: [],
      ids: [c],
      bytes: record.adapter.bytes,
    });
    expect(await resolveAdapter(registry, c)).toMatchObject({ ok: false, reason: 'bytes-missing' });
    expect((await validateRegistry(registry)).defects).toEqual([]);
    expect(await registry.rollback({ slot: sql })).toMatchObject({ from: b, to: a });
    expect((await publish(3)).isNew).toBe(true); // again
    expect(await resolveAdapter(registry, c)).toMatchObject({ ok: true });
  });

  test('the log is one of the project: its verifier reads it, and every record has a proof', async () => {
    await force(1);
    const reader = new LogReader(registry.paths.log, REGISTRY_STREAMS);
    const runId = reader.runId!;
    expect(reader.proveRecord(2).record.payload).toContain('"kind":"moved"');
    reader.close();
    const verified = await verifyLogFile(registry.paths.log, {
      streams: REGISTRY_STREAMS,
      key: await signer.key(runId),
      heads: await signer.heads(runId),
    });
    expect(verified).toMatchObject({
      outcome: 'unterminated',
      disagreement: null,
      records: 3,
      signedRecords: 3,
      resumes: 0,
    });
  });
});

describe('a log that is empty or gone beside what it recorded is no new registry', () => {
  test.each([
    ['gone', (log: string) => rmSync(log)],
    ['of no bytes', (log: string) => writeFileSync(log, '')],
    [
      'of no tables',
      (log: string) => {
        rmSync(log);
        new Database(log).exec('VACUUM').close();
      },
    ],
  ])('%s', async (_, damage) => {
    await force(1);
    const { log, adapters, evidence, pointer } = registry.paths;
    for (const end of ['-wal', '-shm']) rmSync(log + end, { force: true });
    damage(log);
    const refused = async (): Promise<void> => {
      await expect(registry.read()).rejects.toEqual(coded('LOG_TAMPERED'));
      await expect(publish(2)).rejects.toEqual(coded('LOG_TAMPERED'));
    };
    await refused();
    rmSync(adapters, { recursive: true });
    await refused(); // the pointer says so, too
    rmSync(pointer);
    writeFileSync(path.join(evidence, `${'ab'.repeat(32)}.json`), '{}');
    await refused();
    rmSync(evidence, { recursive: true });
    await expect(registry.read()).rejects.toEqual(coded('REGISTRY_NOT_FOUND'));
    expect((await publish(2)).isNew).toBe(true);
  });
});
