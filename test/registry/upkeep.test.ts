/**
 * What validate says of records that say more than was measured, what gc counts and spares, what
 * the clock may do, and each reason for which a proof of a date is refused.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import type { GateEvidence } from '../../src/gate/index.js';
import { parseCheckpoint } from '../../src/log/checkpoint.js';
import { drawnSeed, parseDraw } from '../../src/log/draw.js';
import type { LogSigner } from '../../src/log/signer.js';
import type { EventOf, RegistryEvent } from '../../src/registry/events.js';
import { keepTrials, trialsText } from '../../src/registry/gates.js';
import {
  checkHistory,
  collectGarbage,
  decideGate,
  drawGate,
  observe,
  openGate,
  proveAt,
  Registry,
  repairRegistry,
  rollbackByEvidence,
  setProbation,
  validateRegistry,
  type HistoryProof,
} from '../../src/registry/index.js';
import { slot as slotForm } from '../../src/registry/names.js';
import { writeThreeAdapters } from '../models/adapter.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-upkeep-'));
const base = { name: 'tiny.gguf', sha256: 'ba'.repeat(32) };
const slot = slotForm.parse({ scenario: 'sql' });
const coded = (code: string, message: string): never =>
  expect.objectContaining({ name: 'IsoproError', code, message }) as never;

let registry: Registry;
let signer: LogSigner;
let [a, b, c] = ['', '', ''];
beforeAll(() => writeThreeAdapters(folder));
const publish = async (n: number): Promise<string> =>
  (await registry.publish({ file: path.join(folder, `${n}.gguf`), base })).id;
beforeEach(async () => {
  const place = mkdtempSync(path.join(folder, 'case-'));
  signer = witnessInProcess(place);
  registry = new Registry({ folder: path.join(place, 'registry'), signer });
  [a, b, c] = [await publish(1), await publish(2), await publish(3)];
  await registry.move({ slot, id: a, force: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const trials = (
  versions: readonly [string, string],
  count: number,
  now = 1,
  before = 0,
  from = 0,
): GateEvidence['trials'] =>
  Array.from({ length: count }, (_, i) =>
    versions.map((version, side) => ({
      version,
      task: 'sql',
      epoch: '1',
      verifier: 'v',
      problem: `p${from + i}`,
      score: side === 0 ? now : before,
    })),
  ).flat();
const write = (...events: readonly RegistryEvent[]): Promise<unknown> =>
  registry.write((ledger) => ledger.write(events));
const records = async (): Promise<number> => (await registry.read()).records;
const defects = async (): Promise<[string, string, boolean][]> =>
  (await validateRegistry(registry)).defects.map(({ kind, message, repairable }) => [
    kind,
    message,
    repairable,
  ]);
/** The events of a whole registry of a life: a gate, a promotion, looks, a rollback. */
async function life(): Promise<void> {
  const gate = await openGate(registry, { slot, challenger: b });
  await decideGate(registry, 1, { seed: gate.seed!, trials: trials([b, a], 8) });
  await registry.move({ slot, id: b, gate: 1, probation: { share: 0.5, problems: 10 } });
  await observe(registry, { slot, trials: trials([b, a], 4, 1, 1, 100) });
  const fallen = trials([b, a], 20, 0, 1, 200);
  expect((await rollbackByEvidence(registry, { slot, trials: fallen })).moved).toEqual({
    alias: 'sql@champion',
    from: b,
    to: a,
  });
  await registry.move({ slot, alias: 'shadow', id: c });
}

describe('validate', () => {
  test('counts records, adapters, names and gates, and finds nothing where nothing is', async () => {
    await life();
    const found = await validateRegistry(registry);
    expect(found).toEqual({
      records: (await registry.read()).records,
      adapters: 3,
      aliases: 2,
      gates: 1,
      defects: [],
    });
    // the start, three adapters, four moves, a gate's three events, a probation, a look
    expect(found.records).toBe(1 + 3 + 4 + 3 + 1 + 1);
    expect(await repairRegistry(registry)).toEqual([]);
  });

  test('names each file that is gone, and says of which record', async () => {
    await life();
    const { events } = await registry.read();
    const placeOf = (kind: string, cause?: string): number =>
      events.find(
        ({ event }) =>
          event.kind === kind &&
          (cause === undefined || ('cause' in event && event.cause === cause)),
      )!.gseq;
    const evidence = (kind: string, cause?: string): string =>
      `${(events.find(({ gseq }) => gseq === placeOf(kind, cause))!.event as { evidence: string }).evidence}.json`;
    const [decided, seen, back] = [
      evidence('gate_decided'),
      evidence('observed'),
      evidence('moved', 'rollback'),
    ];
    for (const name of readdirSync(registry.paths.evidence))
      rmSync(path.join(registry.paths.evidence, name));
    const { adapter } = (await registry.read()).state.entries.get(c)!.record;
    writeFileSync(registry.paths.adapter(adapter.sha256), 'other bytes');
    expect(await defects()).toEqual([
      [
        'adapter',
        `tiny#${c.slice(0, 12)}: ${adapter.sha256}.gguf does not have the published bytes`,
        false,
      ],
      ['evidence', `gate 1: its trials (${decided}) are missing or changed`, false],
      [
        'evidence',
        `the trials of the rollback in record ${placeOf('moved', 'rollback')} (${back}) are missing or changed`,
        false,
      ],
      [
        'evidence',
        `record ${placeOf('observed')}: the trials ${registry.paths.trials(seen.slice(0, 64))} are missing or changed`,
        false,
      ],
    ]);
    expect(await repairRegistry(registry)).toEqual([]);
  });

  test('decides again what a record says of its trials', async () => {
    const gate = await openGate(registry, { slot, challenger: b });
    const given = { seed: gate.seed!, trials: trials([b, a], 3) };
    const evidence = await keepTrials(registry, trialsText(1, given));
    await write({ kind: 'gate_decided', gate: 1, decision: 'accepted', reasons: [], evidence });
    await registry.move({ slot, id: b, gate: 1 });
    const look = async (
      decision: EventOf<'observed'>['decision'],
      blocks: number,
      from: number,
    ): Promise<EventOf<'observed'>> => {
      const text = `${JSON.stringify({ trials: trials([b, a], 2, 1, 1, from) }, null, 0)}\n`;
      // as `observe` keeps them: canonical, so that the members are sorted
      const kept = JSON.parse(text) as { trials: object[] };
      const sorted = kept.trials.map((trial) => Object.fromEntries(Object.entries(trial).sort()));
      const id = await keepTrials(registry, `${JSON.stringify({ trials: sorted })}\n`);
      return {
        kind: 'observed',
        slot,
        alias: 'champion',
        id: b,
        against: a,
        decision,
        blocks,
        evidence: id,
      };
    };
    await write(await look('keep', 2, 10));
    await write(await look('keep', 5, 20));
    await write(await look('rollback', 6, 30));
    const shows = await keepTrials(
      registry,
      `${JSON.stringify({ policy: {}, trials: trials([b, a], 5, 1, 1) })}\n`,
    );
    await write({
      kind: 'moved',
      slot,
      alias: 'champion',
      from: b,
      to: a,
      cause: 'rollback',
      gate: null,
      forced: false,
      evidence: shows,
      reason: '',
      transaction: null,
    });
    const at = (await records()) - 1;
    expect(await defects()).toEqual([
      ['gate', 'gate 1: its trials give needs-more-trials, but the log says accepted', false],
      [
        'evidence',
        `the trials of the rollback in record ${at} (${shows}.json) do not support it`,
        false,
      ],
      [
        'evidence',
        `record ${at - 2}: its trials give keep after 4 problems, but the log says keep after 5`,
        false,
      ],
      [
        'evidence',
        `record ${at - 1}: its trials give keep after 6 problems, but the log says rollback after 6`,
        false,
      ],
    ]);
  });

  test('draws each seed again: another head, another number or another seed is found', async () => {
    const failing = new Registry({
      folder: registry.paths.folder,
      signer: { ...signer, draw: () => Promise.reject(new Error('the power went')) },
    });
    const wrong =
      'its seed is not the one that the witness drew for the first signed head after it was opened';
    const expected: [string, string, boolean][] = [];
    for (const how of ['another seed', 'a later head', 'of another head'] as const) {
      const { gates } = (await registry.read()).state;
      await expect(openGate(failing, { slot, challenger: b })).rejects.toThrow('the power went');
      const gate = gates.length + 1;
      expect(await defects()).toEqual([
        ...expected,
        ['gate', `gate ${gate}: its seed was never drawn`, true],
      ]);
      await write({ kind: 'witnessed' }); // one more head
      await registry.write(async ({ log, reading: { heads, events } }) => {
        const { gseq } = events.find(
          ({ event }) => event.kind === 'gate_opened' && event.gate === gate,
        )!;
        const [first, later] = heads.filter(({ size }) => size > gseq);
        const head = how === 'a later head' ? later! : first!;
        const draw = await log.draw((how === 'of another head' ? later! : head).size);
        const seed =
          how === 'another seed'
            ? 'ab'.repeat(32)
            : drawnSeed(parseCheckpoint(head.text), parseDraw(draw));
        // the ledger of this turn signs it
        log.append([
          {
            stream: 'registry',
            payload: { kind: 'gate_drawn', gate, head: head.text, draw, seed },
          },
        ] as never);
      });
      await write({ kind: 'witnessed' });
      expected.push(['gate', `gate ${gate}: ${wrong}`, false]);
      expect(await defects()).toEqual(expected);
    }
    expect((await validateRegistry(registry)).gates).toBe(3);
  });

  test('what is not signed yet is counted, and repair signs it and nothing else', async () => {
    const cut = new Registry({
      folder: registry.paths.folder,
      signer: { ...signer, signHead: () => Promise.reject(new Error('gone')) },
    });
    const before = await records();
    await expect(
      cut.write(({ write: put }) => put([{ kind: 'witnessed' }, { kind: 'witnessed' }])),
    ).rejects.toThrow('gone');
    expect(await defects()).toEqual([
      ['unsigned', '2 records at the end are not yet signed', true],
    ]);
    expect((await repairRegistry(registry)).map(({ kind }) => kind)).toEqual(['unsigned']);
    expect([await defects(), await records()]).toEqual([[], before + 2]);
    const { aliases, records: said } = JSON.parse(readFileSync(registry.paths.pointer, 'utf8')) as {
      aliases: object;
      records: number;
    };
    expect([aliases, said]).toEqual([{ 'sql@champion': a }, before + 2]);
  });
});

test('a gate that is not there is refused by its number, and a seed that is drawn is told again', async () => {
  const gate = await openGate(registry, { slot, challenger: b });
  expect(gate).toMatchObject({ gate: 1, attempt: 1, incumbent: a, seed: expect.any(String) });
  expect(await openGate(registry, { slot, challenger: c })).toMatchObject({ gate: 2, attempt: 2 });
  const shadow = { scenario: 'other' };
  expect(await openGate(registry, { slot: shadow, challenger: c })).toMatchObject({
    gate: 3,
    attempt: 1,
    incumbent: null,
  });
  const before = await records();
  expect(await drawGate(registry, 1)).toBe(gate.seed);
  for (const none of [0, 4]) {
    const refused = coded('REGISTRY_REFUSED', `there is no gate ${none}`);
    await expect(drawGate(registry, none)).rejects.toThrow(refused);
    await expect(decideGate(registry, none, { seed: '', trials: [] })).rejects.toThrow(refused);
  }
  expect(await records()).toBe(before);
  // of faults without end the first thousand are written down
  const guards = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`g${i}`, []]));
  const { decision, reasons } = await decideGate(registry, 1, {
    seed: gate.seed!,
    trials: [],
    guards,
  });
  expect([decision, reasons.length]).toEqual(['invalid', 1001]);
  const { event } = (await registry.read()).events.at(-1)!;
  expect(event).toMatchObject({ decision: 'invalid', reasons: reasons.slice(0, 1000) });
});

describe('the watch', () => {
  test('a probation ends with the problem that fills it, and not with the one before', async () => {
    await registry.move({ slot, id: b, force: true, probation: { share: 0.5, problems: 6 } });
    const see = (count: number, from: number) =>
      observe(registry, { slot, trials: trials([b, a], count, 1, 1, from) });
    expect(await see(5, 0)).toMatchObject({
      moved: null,
      probation: { share: 0.5, problems: 6, alpha: 0.05, margin: 0 },
    });
    const half = await observe(registry, { slot, trials: trials([b, a], 1).slice(1) });
    expect(half).toMatchObject({
      decision: { decision: 'invalid' },
      moved: null,
      probation: { problems: 6 },
    });
    expect(await see(1, 5)).toMatchObject({ decision: { blocks: 6 }, probation: null });
    const { events } = await registry.read();
    expect(events.slice(-2).map(({ event }) => event)).toMatchObject([
      { kind: 'observed', blocks: 6, decision: 'keep', against: a, id: b },
      { kind: 'probation', terms: null, reason: '6 problems passed', id: b },
    ]);
    expect(await see(1, 6)).toMatchObject({ decision: { blocks: 7 }, probation: null });
    expect((await registry.read()).events.at(-1)!.event.kind).toBe('observed');
    expect(
      await setProbation(registry, { slot, terms: { share: 1, problems: 9 }, reason: 'why' }),
    ).toEqual({ share: 1, problems: 9, alpha: 0.05, margin: 0 });
    expect((await registry.read()).events.at(-1)!.event).toMatchObject({ reason: 'why' });
    const nobody = coded(
      'REGISTRY_REFUSED',
      'sql@shadow names no adapter, so there is nothing to watch',
    );
    await expect(observe(registry, { slot, alias: 'shadow', trials: [] })).rejects.toThrow(nobody);
    await expect(setProbation(registry, { slot, alias: 'shadow', terms: null })).rejects.toThrow(
      nobody,
    );
  });

  test('a version whose bytes are gone is not put back; nothing is written', async () => {
    await registry.move({ slot, id: b, force: true });
    const { adapter } = (await registry.read()).state.entries.get(a)!.record;
    rmSync(registry.paths.adapter(adapter.sha256));
    const before = await records();
    const fallen = trials([b, a], 30, 0, 1);
    for (const back of [observe, rollbackByEvidence])
      await expect(back(registry, { slot, trials: fallen })).rejects.toMatchObject({
        code: 'ADAPTER_CORRUPT',
      });
    expect(await records()).toBe(before);
    const kept = trials([b, a], 30, 1, 0);
    expect(await rollbackByEvidence(registry, { slot, trials: kept })).toMatchObject({
      decision: { decision: 'keep', blocks: 30 },
      moved: null,
    });
    expect(await records()).toBe(before);
  });
});

describe('gc', () => {
  test('counts the bytes of all that it takes away, spares what a living process writes, and names no adapter twice', async () => {
    await life();
    const { adapters, evidence } = registry.paths;
    const put = (place: string, name: string, bytes: number): string => {
      writeFileSync(path.join(place, name), Buffer.alloc(bytes));
      return name;
    };
    const { pid: ended } = spawnSync(process.execPath, ['--version']);
    const living = [
      put(adapters, `x.gguf.${process.pid}.1.partial`, 5),
      put(evidence, `y.json.${process.pid}.2.partial`, 5),
    ];
    const strays = [
      put(adapters, `${'0'.repeat(64)}.gguf`, 7),
      put(adapters, `x.gguf.${ended}.1.partial`, 11),
      put(evidence, `${'0'.repeat(64)}.json`, 13),
      put(evidence, `y.${process.pid}.partial`, 17), // no name of ours
    ];
    const size = 7 + 11 + 13 + 17;
    const kept = [...readdirSync(adapters), ...readdirSync(evidence)].filter(
      (name) => !strays.includes(name),
    );
    expect(kept).toHaveLength(3 + 3 + 2); // adapters; a gate, a look, a rollback; being written
    const before = await records();
    const plan = await collectGarbage(registry, { dryRun: true });
    expect([...plan.files].sort()).toEqual([...strays].sort());
    expect([plan.ids, plan.bytes]).toEqual([[], size]);
    expect(existsSync(path.join(adapters, strays[0]!))).toBe(true);
    expect(await collectGarbage(registry)).toEqual(plan);
    expect([...readdirSync(adapters), ...readdirSync(evidence)].sort()).toEqual([...kept].sort());
    expect(await collectGarbage(registry, { unused: true, dryRun: true })).toMatchObject({
      ids: [b], // taken back; c is the shadow
      files: [],
    });
    expect(await records()).toBe(before);
    const { adapter } = (await registry.read()).state.entries.get(b)!.record;
    const { size: bytes } = statSync(registry.paths.adapter(adapter.sha256));
    expect(await collectGarbage(registry, { unused: true })).toEqual({
      files: [],
      ids: [b],
      bytes,
    });
    expect(await records()).toBe(before + 1);
    expect(await collectGarbage(registry, { unused: true })).toEqual({
      files: [],
      ids: [],
      bytes: 0,
    });
    // the file is back, the adapter is not: nobody knows it any more
    put(adapters, `${adapter.sha256}.gguf`, 19);
    expect(await collectGarbage(registry)).toEqual({
      files: [`${adapter.sha256}.gguf`],
      ids: [],
      bytes: 19,
    });
    expect(living.every((name) => kept.includes(name))).toBe(true);
    expect(await defects()).toEqual([]);
  });
});

test('the clock may lie ten minutes behind the last event and no more; both times are said', async () => {
  const { lastTimeUs } = await registry.read();
  const [last, slack] = [Math.floor(lastTimeUs / 1000), 10 * 60 * 1000];
  const clock = jest.spyOn(Date, 'now');
  try {
    clock.mockReturnValue(last - slack - 1);
    await expect(write({ kind: 'witnessed' })).rejects.toThrow(
      coded(
        'REGISTRY_CLOCK',
        `the clock says ${new Date(last - slack - 1).toISOString()}, and the last event was at ${new Date(last).toISOString()}`,
      ),
    );
    clock.mockReturnValue(Math.ceil(lastTimeUs / 1000) - slack);
    await write({ kind: 'witnessed' });
    clock.mockReturnValue(last - slack - 1);
    await expect(write({ kind: 'witnessed' })).rejects.toThrow('the clock says');
  } finally {
    clock.mockRestore();
  }
  const times = (await registry.read()).events.map(({ timeUs }) => timeUs);
  expect(times).toEqual([...times].sort((one, other) => one - other));
});

describe('a proof of a date', () => {
  const prove = async (at: number): Promise<HistoryProof> =>
    JSON.parse(JSON.stringify(await proveAt(registry, at))) as HistoryProof;

  test('lies between the last head that is not after it and the next one, to the microsecond', async () => {
    const key = await signer.key('');
    await registry.move({ slot, id: b, force: true, reason: 'better' });
    const { heads } = await registry.read();
    const times = heads.map(({ stated }) => stated!.timeUs);
    const last = times.length - 1;
    expect(new Set(times).size).toBe(times.length);
    for (const [at, before] of [
      [times[0]! - 1, -1],
      [times[0]!, 0],
      [times[last]! - 1, last - 1],
      [times[last - 1]!, last - 1],
      [times[last - 1]! - 1, last - 2],
    ] as const) {
      const proof = await prove(at);
      const found = checkHistory(proof, key);
      expect([proof.atUs, found.notBeforeUs, found.notAfterUs]).toEqual([
        at,
        before < 0 ? null : times[before],
        times[before + 1],
      ]);
      const [start, end] = [before < 0 ? 0 : heads[before]!.size, heads[before + 1]!.size];
      expect(proof.records.map(({ record }) => record.gseq)).toEqual(
        Array.from({ length: end - start }, (_, i) => start + i),
      );
      expect(found.aliases).toEqual(before === last - 1 ? [['sql@champion', a]] : []);
      expect(found.moves.map(({ from, to, reason }) => [from, to, reason])).toEqual(
        before === last - 1 ? [[a, b, 'better']] : before === last - 2 ? [[null, a, '']] : [],
      );
    }
    // there is none after the last one yet: one is signed
    const proof = await prove(times[last]!);
    expect((await registry.read()).heads).toHaveLength(times.length + 1);
    expect(checkHistory(proof, key)).toMatchObject({
      notBeforeUs: times[last],
      aliases: [['sql@champion', b]],
      moves: [],
    });
    for (const never of [-1, NaN, Infinity])
      await expect(proveAt(registry, never)).rejects.toThrow(
        coded('INVALID_ARGUMENT', 'the time is in the future, so nothing can be proved about it'),
      );
    expect((await prove(0)).before).toBeNull();
  });

  test('is refused with what does not hold', async () => {
    const key = await signer.key('');
    const { heads } = await registry.read();
    const [first, last] = heads.slice(-2).map(({ stated }) => stated!.timeUs) as [number, number];
    const [proof, beginning] = [await prove(first), await prove(0)];
    expect(checkHistory({ ...proof, atUs: last - 1 }, key).notAfterUs).toBe(last);
    const [record] = proof.records;
    const table: [reason: string, given: object][] = [
      ['the date is not between the two heads', { ...proof, atUs: first - 1 }],
      ['the date is not between the two heads', { ...proof, atUs: last }],
      ['the head before is not signed by this key', { ...proof, runId: 'ab'.repeat(16) }],
      ['the head after is not signed by this key', { ...beginning, runId: 'ab'.repeat(16) }],
      ['the later head does not continue the earlier one', { ...proof, extension: null }],
      ['the later head does not continue the earlier one', { ...proof, extension: ['x'] }],
      [
        'the aliases do not match the earlier head',
        { ...proof, before: { ...proof.before, aliases: [['sql@champion', b]] } },
      ],
      ['1 records are between the heads, but the proof shows 0', { ...proof, records: [] }],
      [
        '1 records are between the heads, but the proof shows 2',
        { ...proof, records: [record, record] },
      ],
      [
        `record ${record!.record.gseq} is not shown`,
        { ...proof, records: [{ ...record, record: { ...record!.record, gseq: 1 } }] },
      ],
      [
        `record ${record!.record.gseq} is not in the log`,
        { ...proof, records: [{ ...record, checkpoint: proof.before!.head }] },
      ],
      [
        `record ${record!.record.gseq} is not in the log`,
        { ...proof, records: [{ ...record, record: { ...record!.record, timeUs: 5 } }] },
      ],
    ];
    for (const [reason, given] of table)
      expect(() => checkHistory(given, key)).toThrow(
        expect.objectContaining({
          code: 'INVALID_ARGUMENT',
          message: `the proof does not hold: ${reason}`,
          remedy: 'Request the proof again from its source.',
        }) as never,
      );
    expect(() => checkHistory(proof, { ...key, signer: 'single-process' } as never)).toThrow(
      'the proof does not hold: a registry without a witness proves nothing to others',
    );
    // a form that is none is told in 300 characters
    const start = 'the proof does not hold: ';
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`member${i}`, 1]));
    const forms: [given: unknown, isCut: boolean][] = [
      [{ ...proof, ...many }, true],
      [{ ...proof, atUs: -1 }, false],
      [{ ...proof, atUs: 0.5 }, false],
      [7, false],
    ];
    for (const [given, isCut] of forms) {
      const said = ((): string => {
        try {
          return JSON.stringify(checkHistory(given, key));
        } catch (error) {
          return (error as Error).message;
        }
      })();
      expect(said.startsWith(`${start}✖ `)).toBe(true);
      expect(said.length - start.length === 300).toBe(isCut);
    }
  });
});
