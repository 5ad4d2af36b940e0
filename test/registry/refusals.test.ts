/**
 * What the registry's one state machine refuses, by its message, and what each event changes; the
 * form of every event, which old logs have to keep to (events.txt); what its files and its names
 * are. Functions alone, no log.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { alphaOf, gatePolicy, type GatePolicyInput } from '../../src/gate/index.js';
import { armOf } from '../../src/registry/canary.js';
import {
  registryEvent,
  readEvent,
  type EventOf,
  type RegistryEvent,
} from '../../src/registry/events.js';
import {
  defaultRegistry,
  keepBytes,
  makeRegistryFolder,
  pointerAgrees,
  registryPaths,
  tracesOf,
  withLock,
  writePointer,
} from '../../src/registry/folder.js';
import { judgeGate } from '../../src/registry/gates.js';
import { aliasesAt, movesOf } from '../../src/registry/history.js';
import { earlierLooks, keptLook, Looks, looksAt } from '../../src/registry/looks.js';
import {
  aliasText,
  baseSlug,
  parseReference,
  requireAlias,
  slot as slotForm,
} from '../../src/registry/names.js';
import { nameOf, recordId, type AdapterRecord } from '../../src/registry/record.js';
import { describeBytes, Registry } from '../../src/registry/registry.js';
import {
  lookUp,
  misfit,
  requireFit,
  resolveEntry,
  unresolvedError,
} from '../../src/registry/resolve.js';
import {
  policyOf,
  RegistryState,
  rootOfAliases,
  type GateState,
} from '../../src/registry/state.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-refusals-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const digest = (n: number): string => n.toString(16).padStart(64, '0');
const record = (n: number, more: Partial<AdapterRecord> = {}): AdapterRecord => ({
  format: 'isopro.adapter.v1',
  adapter: { sha256: digest(n), bytes: 10, rank: 4, targets: ['attn_q'], layers: [1] },
  base: { name: 'tiny.gguf', sha256: digest(999), architecture: 'llama' },
  rendererId: null,
  settings: { seed: '1' },
  dataset: null,
  evidence: [],
  lineage: { parent: null, producedBy: [] },
  ...more,
});
const [A, B, C, NONE] = [1, 2, 3, 4].map((n) => recordId(record(n))) as [
  string,
  string,
  string,
  string,
];
const sql = slotForm.parse({ scenario: 'sql' });
const policy = gatePolicy.parse({ kind: 'e-process' });

const move = (more: Partial<EventOf<'moved'>> = {}): EventOf<'moved'> => ({
  kind: 'moved',
  slot: sql,
  alias: 'champion',
  from: null,
  to: A,
  cause: 'promotion',
  gate: null,
  forced: true,
  evidence: null,
  reason: '',
  transaction: null,
  ...more,
});
const back = (more: Partial<EventOf<'moved'>>): EventOf<'moved'> =>
  move({ cause: 'rollback', forced: false, ...more });
const opening = (more: Partial<EventOf<'gate_opened'>> = {}): EventOf<'gate_opened'> => ({
  kind: 'gate_opened',
  gate: 1,
  slot: sql,
  alias: 'champion',
  challenger: B,
  incumbent: A,
  policy,
  attempt: 1,
  alpha: alphaOf(policy, 1),
  lineage: 'any',
  ...more,
});
const drawing = (gate = 1): RegistryEvent => ({
  kind: 'gate_drawn',
  gate,
  head: '',
  draw: '',
  seed: digest(70 + gate),
});
const deciding = (decision: EventOf<'gate_decided'>['decision'], gate = 1): RegistryEvent => ({
  kind: 'gate_decided',
  gate,
  decision,
  reasons: [],
  evidence: digest(80),
});
const terms = { share: 0.5, problems: 10, alpha: 0.05, margin: 0 };
const probation = (more: Partial<EventOf<'probation'>> = {}): RegistryEvent => ({
  kind: 'probation',
  slot: sql,
  alias: 'champion',
  id: B,
  terms,
  reason: '',
  ...more,
});
const seeing = (more: Partial<EventOf<'observed'>> = {}): RegistryEvent => ({
  kind: 'observed',
  slot: sql,
  alias: 'champion',
  id: B,
  against: A,
  decision: 'keep',
  blocks: 5,
  evidence: digest(90),
  ...more,
});

/** Three published adapters, A in use, and what is given. */
function stateAfter(...events: readonly RegistryEvent[]): RegistryState {
  const state = new RegistryState();
  [A, B, C].forEach((id, i) => {
    state.apply({ kind: 'published', id, record: record(i + 1) }, 100 + i);
  });
  state.apply(move(), 200);
  events.forEach((event, i) => {
    state.apply(event, 300 + i);
  });
  return state;
}
const promoted = [move({ from: A, to: B })];

describe('what is refused says why, and counts as no event', () => {
  const opened = [opening(), drawing()];
  const accepted = [...opened, deciding('accepted')];
  const other = gatePolicy.parse({ kind: 'e-process', alpha: 0.01 });
  const spending = '{"alpha":0.05,"kind":"e-process","spending":';
  test.each<
    [message: string, before: readonly RegistryEvent[], event: RegistryEvent, code?: string]
  >([
    [`the record does not match the id ${A}`, [], { kind: 'published', id: A, record: record(2) }],
    [`${A} is already published`, [], { kind: 'published', id: A, record: record(1) }],
    [
      `its parent ${NONE} is not published`,
      [],
      {
        kind: 'published',
        id: NONE,
        record: record(4, { lineage: { parent: NONE, producedBy: [] } }),
      },
    ],
    [`sql@champion names ${A} now, not nothing`, [], move({ to: B }), 'CONFLICT'],
    [
      `sql@shadow names nothing now, not ${A}`,
      [],
      move({ alias: 'shadow', from: A, cause: 'assignment', forced: false }),
      'CONFLICT',
    ],
    [
      'a promotion cannot name trials: they belong to its gate',
      [],
      move({ from: A, to: B, evidence: digest(9) }),
    ],
    [
      'a rollback of sql@champion must restore its previous version',
      promoted,
      back({ from: B, to: null }),
    ],
    [
      'sql@champion has no earlier version to restore',
      [back({ from: A, to: null })],
      back({ to: null }),
    ],
    ['sql@champion can only be moved to a published adapter', [], move({ from: A, to: null })],
    [`${NONE} is not published`, [], move({ from: A, to: NONE })],
    [
      `${B} was withdrawn: it leaks`,
      [{ kind: 'withdrawn', id: B, reason: 'it leaks' }],
      move({ from: A, to: B }),
    ],
    [
      `the bytes of ${B} were deleted; publish it again`,
      [{ kind: 'collected', ids: [B] }],
      move({ from: A, to: B }),
    ],
    [`sql@champion already names ${A}`, [], move({ from: A })],
    [
      'sql@champion must be moved by a promotion',
      [],
      move({ from: A, to: B, cause: 'assignment' }),
    ],
    ['sql@shadow must be moved by an assignment', [], move({ alias: 'shadow', to: B })],
    [
      'sql@champion needs a gate that accepted, or force',
      [],
      move({ from: A, to: B, forced: false }),
    ],
    [
      'sql@champion needs a gate that accepted, or force',
      accepted,
      move({ from: A, to: B, gate: 1 }),
    ],
    ['there is no gate 2', accepted, move({ from: A, to: B, gate: 2, forced: false })],
    [
      'gate 1 is about a different move',
      accepted,
      move({ from: A, to: C, gate: 1, forced: false }),
    ],
    [
      'gate 1 is about a different move',
      accepted,
      move({ slot: { ...sql, role: 'x' }, to: B, gate: 1, forced: false }),
    ],
    [
      'gate 1 is about a different move',
      [...accepted, ...promoted],
      back({ from: B, to: A, gate: 1 }),
    ],
    [
      'gate 1 was already used to move sql@champion',
      [...accepted, move({ from: A, to: B, gate: 1, forced: false }), back({ from: B, to: A })],
      move({ from: A, to: B, gate: 1, forced: false }),
    ],
    [
      `gate 1 has not accepted ${B}: undecided`,
      opened,
      move({ from: A, to: B, gate: 1, forced: false }),
    ],
    [
      `gate 1 has not accepted ${B}: rejected`,
      [...opened, deciding('rejected')],
      move({ from: A, to: B, gate: 1, forced: false }),
    ],
    [
      `gate 1 compared ${B} with ${A}, but sql@champion has moved since`,
      [...accepted, move({ from: A, to: C })],
      move({ from: C, to: B, gate: 1, forced: false }),
      'CONFLICT',
    ],
    [
      'the transaction t was already completed',
      [move({ from: A, to: B, transaction: 't' })],
      move({ from: B, to: C, transaction: 't' }),
    ],
    [
      'sql@shadow cannot have a gate: only champion is moved by a gate',
      [],
      opening({ alias: 'shadow', incumbent: null }),
    ],
    ['this is gate 2, but the next gate is 1', [], opening({ gate: 2 })],
    [
      'this is gate 1, but the next gate is 2',
      opened,
      opening({ attempt: 2, alpha: alphaOf(policy, 2) }),
    ],
    [`${NONE} is not published`, [], opening({ challenger: NONE })],
    [`sql@champion names ${A} now`, [], opening({ incumbent: null }), 'CONFLICT'],
    ['sql@champion names nothing now', [back({ from: A, to: null })], opening(), 'CONFLICT'],
    [`sql@champion already names ${A}`, [], opening({ challenger: A })],
    [
      'this is attempt 2, but the next attempt on sql@champion is 1',
      [],
      opening({ attempt: 2, alpha: alphaOf(policy, 2) }),
    ],
    ['this is attempt 1, but the next attempt on sql@champion is 2', opened, opening({ gate: 2 })],
    [
      `attempt 1 on sql@champion must spend an alpha of ${alphaOf(policy, 1)}, not 0.5`,
      [],
      opening({ alpha: 0.5 }),
    ],
    [
      `the first gate on sql@champion fixed how its alpha is spent: ${spending}`,
      opened,
      opening({ gate: 2, attempt: 2, policy: other, alpha: alphaOf(other, 2) }),
    ],
    ['there is no gate 1', [], drawing()],
    ['there is no gate 2', opened, drawing(2)],
    ['the seed of gate 1 was already drawn', opened, drawing()],
    [
      'gate 1 has no seed yet, so nothing can have been measured for it',
      [opening()],
      deciding('accepted'),
    ],
    ['gate 1 was decided: accepted', accepted, deciding('rejected')],
    [
      'gate 1 was decided: inconclusive',
      [...opened, deciding('inconclusive')],
      deciding('accepted'),
    ],
    [`sql@champion names ${A} now, not ${B}`, [], probation(), 'CONFLICT'],
    [`sql@shadow names nothing now, not ${B}`, [], probation({ alias: 'shadow' }), 'CONFLICT'],
    ['sql@champion is not on probation', promoted, probation({ terms: null })],
    [
      'trials were already compared under alpha 0.05, margin 0, which cannot change',
      [...promoted, probation(), seeing()],
      probation({ terms: { ...terms, alpha: 0.01 } }),
    ],
    [
      'trials were already compared under alpha 0.05, margin 0, which cannot change',
      [...promoted, seeing()],
      probation({ terms: { ...terms, margin: 0.1 } }),
    ],
    [
      'sql@champion has no earlier version to restore',
      [back({ from: A, to: null })],
      seeing({ id: null as never, against: null }),
    ],
    [
      'the trials compare with a version that a rollback would not restore',
      promoted,
      seeing({ against: null }),
    ],
    [
      'the trials compare with a version that a rollback would not restore',
      promoted,
      seeing({ against: C }),
    ],
    [
      '5 problems were already observed, more than 4',
      [...promoted, seeing()],
      seeing({ blocks: 4 }),
    ],
    [`${A} is in use as sql@champion`, [], { kind: 'withdrawn', id: A, reason: '' }],
    [
      `${A} is in use as sql@champion, sql/x@shadow`,
      [move({ slot: { ...sql, role: 'x' }, alias: 'shadow', cause: 'assignment', forced: false })],
      { kind: 'withdrawn', id: A, reason: '' },
    ],
    [
      `${B} was withdrawn: it leaks`,
      [{ kind: 'withdrawn', id: B, reason: 'it leaks' }],
      { kind: 'withdrawn', id: B, reason: '' },
    ],
    [`${A} is in use`, [], { kind: 'collected', ids: [B, A] }],
    [`${A} is in use`, promoted, { kind: 'collected', ids: [A] }],
    [`${NONE} is not published`, [], { kind: 'collected', ids: [B, NONE] }],
  ])('%s', (message, before, event, code = 'REGISTRY_REFUSED') => {
    const state = stateAfter(...before);
    const snapshot = (): string =>
      JSON.stringify([[...state.entries], state.aliases, state.gates, state.events]);
    const seen = snapshot();
    expect(state.events).toBe(4 + before.length);
    expect(() => state.apply(event, 999)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }) as never,
    );
    expect(snapshot()).toBe(seen);
  });
});

describe('what each event changes', () => {
  test('publishing, withdrawing, deleting bytes, and publishing again', () => {
    const state = stateAfter();
    expect(state.entries.get(A)).toEqual({
      id: A,
      record: record(1),
      publishedUs: 100,
      withdrawn: null,
      collected: false,
    });
    state.apply({ kind: 'collected', ids: [B, C] }, 1);
    expect([A, B, C].map((id) => state.entries.get(id)!.collected)).toEqual([false, true, true]);
    state.apply({ kind: 'published', id: B, record: record(2) }, 999);
    expect(state.entries.get(B)).toEqual({
      id: B,
      record: record(2),
      publishedUs: 101,
      withdrawn: null,
      collected: false,
    });
    state.apply({ kind: 'withdrawn', id: B, reason: 'why' }, 1);
    expect(state.entries.get(B)).toMatchObject({ withdrawn: 'why', collected: false });
    state.apply(
      {
        kind: 'published',
        id: NONE,
        record: record(4, { lineage: { parent: A, producedBy: [] } }),
      },
      1,
    );
    const { events } = state;
    state.apply({ kind: 'witnessed' }, 1);
    state.apply({ kind: 'fell_back', slot: sql, alias: 'champion', reason: '', to: null }, 1);
    expect(state.events).toBe(events + 2);
  });

  test('a move and its rollback: what is before it, how often it was moved and when', () => {
    const state = stateAfter(
      move({ from: A, to: B, transaction: 't' }),
      move({ from: B, to: C }),
      probation({ id: C }),
    );
    expect(state.alias(sql, 'champion')).toEqual({
      slot: sql,
      alias: 'champion',
      current: C,
      previous: [null, A, B],
      moves: 3,
      movedUs: 301,
      probation: terms,
      observed: null,
    });
    expect(state.transaction('t')).toMatchObject({ from: A, to: B });
    expect(state.transaction('u')).toBeNull();
    expect([...state.inUse()].sort()).toEqual([A, B, C].sort());
    expect([state.before(sql, 'champion'), state.before(sql, 'shadow')]).toEqual([B, undefined]);
    // what was withdrawn is passed over, and the probation ends with the move
    state.apply({ kind: 'withdrawn', id: B, reason: '' }, 1);
    expect(state.rollbackTarget(sql, 'champion')).toBe(A);
    state.apply(back({ from: C, to: A, evidence: digest(5) }), 400);
    expect(state.alias(sql, 'champion')).toMatchObject({
      current: A,
      previous: [null],
      moves: 4,
      movedUs: 400,
      probation: null,
    });
    state.apply(back({ from: A, to: null }), 401);
    expect(state.alias(sql, 'champion')).toMatchObject({ current: null, previous: [], moves: 5 });
    expect([...state.inUse()]).toEqual([]);
    expect(state.before(sql, 'champion')).toBeUndefined();
  });

  test('what was seen adds up while it is against the same version, on the terms of the first look', () => {
    const state = stateAfter(
      ...promoted,
      probation({ terms: { ...terms, alpha: 0.01 } }),
      seeing(),
    );
    const observed = (): unknown => state.alias(sql, 'champion')!.observed;
    const first = {
      policy: { alpha: 0.01, margin: 0 },
      against: A,
      blocks: 5,
      evidence: [digest(90)],
    };
    expect(observed()).toEqual(first);
    state.apply(seeing({ blocks: 5, evidence: digest(91) }), 1);
    expect(observed()).toEqual({ ...first, evidence: [digest(90), digest(91)] });
    state.apply(probation({ terms: { ...terms, alpha: 0.01, share: 1 } }), 1);
    state.apply(probation({ terms: null }), 1);
    expect(policyOf(state.alias(sql, 'champion')!)).toEqual({ alpha: 0.01, margin: 0 });
    // the version before was withdrawn: what is before it now is another one
    state.apply({ kind: 'withdrawn', id: A, reason: '' }, 1);
    state.apply(seeing({ against: null, blocks: 1, evidence: digest(92) }), 1);
    expect(observed()).toEqual({ ...first, against: null, blocks: 1, evidence: [digest(92)] });
    expect(policyOf({ probation: null, observed: null })).toEqual({ alpha: 0.05, margin: 0 });
    expect(policyOf({ probation: { ...terms, margin: 0.2 }, observed: null })).toEqual({
      alpha: 0.05,
      margin: 0.2,
    });
  });

  test('a gate: opened, drawn, looked at, decided, used; attempts are counted by name', () => {
    const state = stateAfter(opening());
    const slot = { ...sql, environment: 'staging' };
    expect(state.gates).toEqual([
      {
        ...{
          gate: 1,
          slot: sql,
          alias: 'champion',
          challenger: B,
          incumbent: A,
          policy,
          attempt: 1,
          alpha: alphaOf(policy, 1),
        },
        ...{ lineage: 'any', seed: null, decision: null, evidence: null, used: false },
      },
    ]);
    expect(state.pendingGate(sql, 'champion', B)).toBeNull(); // no seed yet
    state.apply(drawing(), 1);
    const pending = (): unknown => state.pendingGate(sql, 'champion', B)?.decision;
    expect([state.gates[0]!.seed, pending()]).toEqual([digest(71), null]);
    for (const decision of ['needs-more-trials', 'infrastructure-error', 'accepted'] as const) {
      state.apply(deciding(decision), 1);
      expect([state.gates[0], pending()]).toMatchObject([
        { decision, evidence: digest(80) },
        decision,
      ]);
    }
    expect([state.pendingGate(sql, 'champion', A), state.pendingGate(slot, 'champion', B)]).toEqual(
      [null, null],
    );
    state.apply(opening({ gate: 2, slot, incumbent: null }), 1);
    state.apply(opening({ gate: 3, attempt: 2, alpha: alphaOf(policy, 2), challenger: C }), 1);
    expect([
      state.attempts(sql, 'champion'),
      state.attempts(slot, 'champion'),
      state.attempts(sql, 'shadow'),
    ]).toEqual([2, 1, 0]);
    state.apply(drawing(3), 1);
    expect(state.gates.map(({ seed }) => seed)).toEqual([digest(71), null, digest(73)]);
    state.apply(move({ from: A, to: B, gate: 1, forced: false }), 1);
    expect(state.gates.map(({ used }) => used)).toEqual([true, false, false]);
    // used; against another incumbent
    expect([pending(), state.pendingGate(sql, 'champion', C)]).toEqual([undefined, null]);
  });

  test('a policy is compared by what of it spends alpha', () => {
    const sign = { kind: 'sign', proposals: 2, margin: 0.1 } as const;
    const kinds: [GatePolicyInput, GatePolicyInput, boolean][] = [
      [sign, { ...sign, proposals: 3 }, false],
      [sign, { ...sign, margin: 0.2 }, true],
      [{ kind: 'paired-t', ratio: 0.5 }, { kind: 'paired-t', ratio: 0.6 }, false],
      [
        { kind: 'paired-t', ratio: 0.5 },
        { kind: 'paired-t', ratio: 0.5, minimumEffect: 0.2 },
        true,
      ],
      [{ kind: 'e-process' }, { kind: 'e-process', most: 500 }, true],
      [{ kind: 'e-process' }, { kind: 'e-process', spending: 'once' }, false],
      [{ kind: 'e-process' }, sign, false],
    ];
    for (const [first, second, fits] of kinds) {
      const [one, two] = [gatePolicy.parse(first), gatePolicy.parse(second)];
      const state = stateAfter(opening({ policy: one, alpha: alphaOf(one, 1) }));
      const again = (): void =>
        state.apply(opening({ gate: 2, attempt: 2, policy: two, alpha: alphaOf(two, 2) }), 1);
      if (fits) expect(again).not.toThrow();
      else expect(again).toThrow('fixed how its alpha is spent');
    }
  });

  test('the lineage guard looks at the whole line of both', () => {
    const of = (n: number, parent: string | null, answersOf: string[]): AdapterRecord =>
      record(n, {
        dataset: { description: 'd', sha256: null, rows: 1, answersOf },
        lineage: { parent, producedBy: [`run:${n}`] },
      });
    const first = of(11, null, []);
    const second = of(12, recordId(first), []);
    const third = of(13, recordId(second), ['run:11', 'run:99']);
    const stranger = of(14, null, [`adapter:${A}`]);
    const state = stateAfter();
    for (const each of [first, second, third, stranger])
      state.apply({ kind: 'published', id: recordId(each), record: each }, 1);
    const open = (each: AdapterRecord, lineage: 'any' | 'foreign'): void =>
      state.apply(
        opening({
          challenger: recordId(each),
          lineage,
          gate: state.gates.length + 1,
          attempt: state.gates.length + 1,
          alpha: alphaOf(policy, state.gates.length + 1),
        }),
        1,
      );
    expect(() => open(third, 'foreign')).toThrow(
      `${recordId(third)} was trained on answers of its own line (run:11), which this gate does not accept`,
    );
    expect(() => open(stranger, 'foreign')).toThrow(`(adapter:${A})`); // of the incumbent
    open(second, 'foreign');
    open(third, 'any');
  });

  test('the map is sorted by name, and its root is a Merkle tree of its entries', () => {
    const hash = (...parts: (string | Buffer)[]): Buffer =>
      parts.reduce((of, part) => of.update(part), createHash('sha256')).digest();
    const state = stateAfter(move({ slot: { ...sql, scenario: 'extract' }, to: C }));
    expect(state.map()).toEqual([
      ['extract@champion', C],
      ['sql@champion', A],
    ]);
    const leaves = state.map().map((entry) => hash(Buffer.of(0), JSON.stringify(entry)));
    expect(state.root()).toBe(hash(Buffer.of(1), leaves[0]!, leaves[1]!).toString('hex'));
    expect(rootOfAliases(state.map())).toBe(state.root());
  });
});

describe('who gets what', () => {
  test('without a key, without probation or with nothing before it: what the name stands for', () => {
    const state = stateAfter(...promoted);
    const arm = (key?: string): unknown => armOf(state, state.alias(sql, 'champion')!, key);
    expect([arm(), arm('k')]).toEqual([
      { id: B, arm: 'current', other: A },
      { id: B, arm: 'current', other: A },
    ]);
    state.apply(probation({ terms: { ...terms, share: 0.5 } }), 1);
    /** By the definition: the first 52 bits of the digest, as a share of all. */
    const place = (key: string): number =>
      Number(
        BigInt(
          `0x${createHash('sha256')
            .update(JSON.stringify(['sql@champion', B, key]))
            .digest('hex')
            .slice(0, 13)}`,
        ),
      ) /
      2 ** 52;
    for (let i = 0; i < 40; i++) {
      const key = `k${i}`;
      expect(arm(key)).toEqual(
        place(key) < 0.5
          ? { id: B, arm: 'current', other: A }
          : { id: A, arm: 'previous', other: B },
      );
    }
    expect(arm()).toMatchObject({ id: B });
  });
});

test('each event has the form that events.txt says, and what is none is refused with the record', () => {
  const schema = z.toJSONSchema(registryEvent, {
    io: 'input',
    unrepresentable: 'any',
  }) as unknown as {
    oneOf: { properties: object; required: string[] }[];
  };
  const lines = schema.oneOf.flatMap(({ properties, required }) => {
    const { kind, ...members } = properties as { kind: { const: string } } & Record<
      string,
      unknown
    >;
    return [
      `${kind.const} requires ${required.join(' ')}`,
      ...Object.entries(members).map(
        ([name, member]) => `${kind.const} ${name} ${JSON.stringify(member)}`,
      ),
    ];
  });
  expect([...lines, '']).toEqual(readFileSync('test/registry/events.txt', 'utf8').split('\n'));
  expect(readEvent({ kind: 'witnessed' }, 3)).toEqual({ kind: 'witnessed' });
  const refused = (work: () => unknown): string => {
    try {
      return `taken ${String(work())}`;
    } catch (error) {
      expect(error).toMatchObject({ code: 'REGISTRY_INVALID' });
      return (error as Error).message;
    }
  };
  const start = 'record 3 is not a registry event: ';
  expect(refused(() => readEvent({ kind: 'other' }, 3))).toMatch(start);
  const long = refused(() => readEvent({ kind: 'witnessed', ['x'.repeat(5000)]: 1 }, 3));
  expect(long).toHaveLength(start.length + 300);
  expect(long).toMatch(/is not a registry event: ✖ Unrecognized key: "xxx/);
});

describe('names', () => {
  test('an alias leaves out parts that are the default, from the end', () => {
    const text = (scenario: string, role = 'default', environment = 'default'): string =>
      aliasText({ scenario, role, environment }, 'a');
    expect([
      text('sql'),
      text('default'),
      text('sql', 'x'),
      text('sql', 'default', 'y'),
      text('sql', 'x', 'y'),
    ]).toEqual(['sql@a', 'default@a', 'sql/x@a', 'sql/default/y@a', 'sql/x/y@a']);
    expect(baseSlug('/models/a.b/Tiny.GGUF')).toBe('Tiny');
    expect(baseSlug('C:\\models\\tiny.gguf')).toBe('tiny');
    expect(nameOf(record(1))).toBe(`tiny#${A.slice(0, 12)}`);
    expect(nameOf(record(1), 'f'.repeat(64))).toBe(`tiny#${'f'.repeat(12)}`);
  });

  test.each<[text: string, kind: string | null]>([
    [`${'a'.repeat(100)}@b`, 'alias'],
    [`${'a'.repeat(101)}@b`, null],
    ['a@b', 'alias'],
    ['a-@b', null],
    [`a@${'b'.repeat(50)}`, 'alias'],
    [`a@${'b'.repeat(51)}`, null],
    ['a/b/c@d', 'alias'],
    ['a/b/c/d@e', null],
    ['a@b@c', null],
    ['abcdef', 'id'],
    ['abcde', null],
    ['a'.repeat(64), 'id'],
    ['a'.repeat(65), null],
    ['tiny#abcdef', 'id'],
    ['a/b#abcdef', null],
    ['a\\b#abcdef', null],
  ])('%s is %s', (text, kind) => expect(parseReference(text)?.kind ?? null).toBe(kind));

  test('who has to give an alias may give the scenario alone', () => {
    expect(requireAlias('sql/x')).toEqual({
      kind: 'alias',
      slot: { ...sql, role: 'x' },
      alias: 'champion',
    });
    for (const [text, shown] of [
      ['a b', '"a b"'],
      ['sql@', '"sql@"'],
      ['!'.repeat(101), JSON.stringify('!'.repeat(100))],
    ] as const)
      expect(() => requireAlias(text)).toThrow(
        expect.objectContaining({
          code: 'INVALID_ARGUMENT',
          message: `${shown} is not an alias`,
          remedy:
            'Give SCENARIO, SCENARIO@ALIAS, SCENARIO/ROLE@ALIAS or SCENARIO/ROLE/ENVIRONMENT@ALIAS.',
        }) as never,
      );
  });

  test('what a name stands for, or why it stands for nothing', () => {
    const state = stateAfter();
    const found = (text: string): unknown => {
      const entry = lookUp(state, text);
      return 'ok' in entry ? [entry.reason, entry.message] : entry.id;
    };
    expect([
      found('sql@champion'),
      found(A),
      found(A.slice(0, 8)),
      found(`tiny#${A.slice(0, 12)}`),
    ]).toEqual([A, A, A, A]);
    expect(found(`other#${A.slice(0, 12)}`)).toEqual([
      'unknown-id',
      `nothing is published as other#${A.slice(0, 12)}`,
    ]);
    expect(found('!'.repeat(101))).toEqual([
      'not-a-name',
      `${JSON.stringify('!'.repeat(100))} is not the name of an adapter`,
    ]);
    expect(found('sql@shadow')).toEqual([
      'unknown-alias',
      'nothing was ever promoted to sql@shadow',
    ]);
    state.apply(back({ from: A, to: null }), 1);
    expect(found('sql@champion')).toEqual([
      'base-model',
      'sql@champion was rolled back to the base without an adapter',
    ]);
    // many until two begin alike
    const many = new RegistryState();
    const ids: string[] = [];
    for (let n = 1; n <= 6000; n++) {
      const id = recordId(record(n));
      ids.push(id);
      many.apply({ kind: 'published', id, record: record(n) }, n);
    }
    const twin = ids.find(
      (id, i) => ids.findIndex((each) => each.startsWith(id.slice(0, 6))) !== i,
    )!;
    const alike = ids.filter((id) => id.startsWith(twin.slice(0, 6)));
    const entry = lookUp(many, twin.slice(0, 6));
    expect(entry).toMatchObject({
      reason: 'ambiguous-id',
      message: `${twin.slice(0, 6)} matches ${alike.length} ids: ${alike.join(', ')}`,
    });
  });

  test('which error a reason is', () => {
    const code = (reason: string): string =>
      unresolvedError({ ok: false, reason: reason as never, message: 'm' }).code;
    expect(
      [
        'bytes-missing',
        'bytes-changed',
        'foreign-base',
        'renderer-mismatch',
        'unknown-id',
        'withdrawn',
      ].map(code),
    ).toEqual([
      ...[
        'ADAPTER_CORRUPT',
        'ADAPTER_CORRUPT',
        'ADAPTER_MISMATCH',
        'ADAPTER_MISMATCH',
        'REGISTRY_UNRESOLVED',
        'REGISTRY_UNRESOLVED',
      ],
    ]);
    expect(
      unresolvedError({ ok: false, reason: 'unknown-id', message: 'm', remedy: 'r' }),
    ).toMatchObject({ message: 'm', remedy: 'r' });
    expect(misfit(record(1), { baseSha256: digest(5) })).toEqual({
      ok: false,
      reason: 'foreign-base',
      message: `the adapter was trained on tiny.gguf (${digest(999)}), but the model is ${digest(5)}`,
    });
    expect(() => requireFit(record(1), { baseSha256: digest(5) })).toThrow(
      expect.objectContaining({ code: 'ADAPTER_MISMATCH' }) as never,
    );
    for (const serving of [{}, { baseSha256: digest(999) }, { rendererId: digest(1) }])
      expect(misfit(record(1), serving)).toBeNull();
  });

  test('an adapter that was withdrawn or deleted is not looked for', async () => {
    const registry = new Registry({ folder: path.join(folder, 'none') });
    const entry = { id: A, record: record(1), publishedUs: 1, withdrawn: null, collected: false };
    const found = async (more: object): Promise<unknown> =>
      resolveEntry(registry, { ...entry, ...more }, { baseSha256: digest(999) });
    const name = `tiny#${A.slice(0, 12)}`;
    expect(await found({ withdrawn: 'why' })).toMatchObject({
      reason: 'withdrawn',
      message: `${name} was withdrawn: why`,
    });
    expect(await found({ collected: true })).toMatchObject({
      reason: 'bytes-missing',
      message: `the bytes of ${name} were deleted by gc`,
    });
    const file = registry.paths.adapter(digest(1));
    expect(await found({})).toMatchObject({
      reason: 'bytes-missing',
      message: `${file} is missing`,
    });
    mkdirSync(file, { recursive: true });
    expect(await found({})).toMatchObject({ reason: 'bytes-missing' }); // no file
    expect(describeBytes('f', 'changed')).toBe('f does not have the published bytes');
    rmSync(file, { recursive: true });
    writeFileSync(file, 'other');
    await expect(registry.requireBytes(record(1))).rejects.toMatchObject({
      code: 'ADAPTER_CORRUPT',
      message: `${file} does not have the published bytes`,
      remedy: 'Publish the same adapter again to restore its bytes.',
    });
  });
});

test('a request is checked before anything is read: each bound, on both sides', async () => {
  const registry = new Registry({ folder: path.join(folder, 'not-there') });
  const taken = async (work: () => Promise<unknown>): Promise<boolean> => {
    const { code } = (await work().then(
      () => ({ code: 'done' }),
      (error: unknown) => error,
    )) as { code: string };
    expect(['INVALID_ARGUMENT', 'REGISTRY_NOT_FOUND', 'MODEL_NOT_FOUND']).toContain(code);
    return code !== 'INVALID_ARGUMENT';
  };
  const moves: [object, boolean][] = [
    [{}, true],
    [{ id: 'ab' }, false],
    [{ gate: 1 }, true],
    [{ gate: 0 }, false],
    [{ gate: 1.5 }, false],
    [{ reason: 'x'.repeat(2000) }, true],
    [{ reason: 'x'.repeat(2001) }, false],
    [{ expected: null }, true],
    [{ expected: 'x' }, false],
    [{ transaction: '' }, false],
    [{ transaction: 'x' }, true],
    [{ transaction: 'x'.repeat(200) }, true],
    [{ transaction: 'x'.repeat(201) }, false],
    [{ patienceMs: 0 }, true],
    [{ patienceMs: -1 }, false],
    [{ patienceMs: 86_400_000 }, true],
    [{ patienceMs: 86_400_001 }, false],
    [{ probation: { share: 0.1, problems: 1 } }, true],
    [{ probation: { share: 0, problems: 1 } }, false],
    [{ probation: { share: 1, problems: 1_000_000 } }, true],
    [{ probation: { share: 1.01, problems: 1 } }, false],
    [{ probation: { share: 1, problems: 0 } }, false],
    [{ probation: { share: 1, problems: 1_000_001 } }, false],
  ];
  for (const [more, isTaken] of moves)
    expect([
      more,
      await taken(() => registry.move({ slot: { scenario: 'sql' }, id: A, ...more })),
    ]).toEqual([more, isTaken]);
  const file = path.join(folder, 'none.gguf');
  const base = { name: 'b', sha256: digest(1) };
  const publications: [object, boolean][] = [
    [{}, true],
    [{ file: '' }, false],
    [{ base: { ...base, name: '' } }, false],
    [{ rendererId: 'x' }, false],
    [{ lineage: { parent: 'x', producedBy: [] } }, false],
  ];
  for (const [more, isTaken] of publications)
    expect([more, await taken(() => registry.publish({ file, base, ...more }))]).toEqual([
      more,
      isTaken,
    ]);
  expect(existsSync(registry.paths.folder)).toBe(false);
});

describe('files of a registry', () => {
  const paths = registryPaths(path.join(folder, 'files'));

  test('where they lie', () => {
    const at = (file: string): string => path.relative(paths.folder, file);
    expect(
      [paths.log, paths.lock, paths.adapters, paths.evidence, paths.servers, paths.pointer].map(at),
    ).toEqual([
      ...['log.sqlite', 'lock.sqlite', 'adapters', 'evidence', 'servers', 'aliases.json'],
    ]);
    expect([at(paths.adapter('a')), at(paths.trials('b'))]).toEqual([
      path.join('adapters', 'a.gguf'),
      path.join('evidence', 'b.json'),
    ]);
    expect(defaultRegistry('/home')).toBe(path.join('/home', 'registry'));
    expect(new Registry({ home: '/home' }).paths.folder).toBe(path.join('/home', 'registry'));
    expect(new Registry().paths.folder).toBe(
      path.join(process.env.ISOPRO_HOME ?? path.join(homedir(), '.isopro'), 'registry'),
    );
  });

  test('traces of a log: an adapter, evidence, the pointer', () => {
    expect(tracesOf(paths)).toBeNull();
    makeRegistryFolder(paths);
    expect([existsSync(paths.adapters), existsSync(paths.evidence), tracesOf(paths)]).toEqual([
      true,
      true,
      null,
    ]);
    writeFileSync(paths.pointer, '');
    expect(tracesOf(paths)).toBe('aliases.json');
    writeFileSync(paths.trials('b'), '');
    expect(tracesOf(paths)).toBe(path.join('evidence', 'b.json'));
    writeFileSync(paths.adapter('a'), '');
    expect(tracesOf(paths)).toBe(path.join('adapters', 'a.gguf'));
    writeFileSync(path.join(folder, 'blocked'), '');
    expect(() => makeRegistryFolder(registryPaths(path.join(folder, 'blocked')))).toThrow(
      expect.objectContaining({
        code: 'WRITE_FAILED',
        message: expect.stringContaining(path.join(folder, 'blocked')),
      }) as never,
    );
  });

  test('the pointer says what the log says, or it does not', async () => {
    const map = [
      ['a@champion', digest(1)],
      ['b@champion', null],
    ] as const;
    const file = path.join(folder, 'aliases.json');
    expect(pointerAgrees(file, map)).toBe(false);
    await writePointer(file, 3, map);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      format: 'isopro.aliases.v1',
      records: 3,
      aliases: { 'a@champion': digest(1), 'b@champion': null },
    });
    expect(readFileSync(file, 'utf8')).toMatch(/^\{\n {2}"format"/); // for people to read, too
    expect(pointerAgrees(file, map)).toBe(true);
    expect(pointerAgrees(file, map.slice(1))).toBe(false);
    expect(pointerAgrees(file, [map[0], ['b@champion', digest(2)]])).toBe(false);
    writeFileSync(file, readFileSync(file, 'utf8').replace('aliases.v1', 'aliases.v2'));
    expect(pointerAgrees(file, map)).toBe(false);
  });

  test('bytes are kept under their digest; what changed meanwhile is not', async () => {
    const [source, target] = [path.join(folder, 'source'), path.join(folder, 'kept')];
    writeFileSync(source, 'bytes');
    const of = (text: string): string => createHash('sha256').update(text).digest('hex');
    await expect(keepBytes(source, of('others'), target)).rejects.toMatchObject({
      code: 'ADAPTER_CORRUPT',
      message: `${source} changed while it was copied`,
    });
    expect(existsSync(target)).toBe(false);
    await keepBytes(source, of('bytes'), target);
    expect(readFileSync(target, 'utf8')).toBe('bytes');
    rmSync(source);
    await keepBytes(source, of('bytes'), target); // they are there
    writeFileSync(target, 'damaged');
    await expect(keepBytes(source, of('bytes'), target)).rejects.toThrow(source);
    writeFileSync(source, 'bytes');
    await keepBytes(source, of('bytes'), target);
    expect(readFileSync(target, 'utf8')).toBe('bytes');
  });

  test('writers take turns, and one that fails lets the next one in', async () => {
    const lock = path.join(folder, 'lock.sqlite');
    const order: string[] = [];
    let leave = (): void => {};
    const first = withLock(lock, async () => {
      await new Promise<void>((resolve) => (leave = resolve));
      order.push('first');
      throw new Error('failed');
    });
    const second = withLock(lock, async () => void order.push('second'));
    leave();
    await expect(first).rejects.toThrow('failed');
    await second;
    expect(order).toEqual(['first', 'second']);
  });
});

test('trials of another seed are refused with both seeds', () => {
  const gate = { ...stateAfter(opening()).gates[0]! } satisfies GateState;
  const judge = (seed: string | null, of: string): unknown =>
    judgeGate({ ...gate, seed }, { seed: of, trials: [] });
  const long = 'z'.repeat(65);
  for (const [seed, of, message] of [
    [digest(1), long, `the trials use the seed ${'z'.repeat(64)}, but gate 1 drew ${digest(1)}`],
    [null, 'x', 'the trials use the seed x, but gate 1 drew none yet'],
  ] as const)
    expect(() => judge(seed, of)).toThrow(
      expect.objectContaining({ code: 'REGISTRY_REFUSED', message }) as never,
    );
  expect(judge('x', 'x')).toMatchObject({ attempt: 1 });
});

test('moves and what names meant at a moment, by the times of the log', () => {
  const events = [
    { event: { kind: 'published', id: A, record: record(1) } as RegistryEvent, timeUs: 10 },
    { event: move({ reason: 'r' }) as RegistryEvent, timeUs: 20 },
    { event: back({ from: A, to: null }) as RegistryEvent, timeUs: 30 },
  ].map((each, gseq) => ({ ...each, gseq }));
  expect(movesOf({ events })).toEqual([
    {
      alias: 'sql@champion',
      from: null,
      to: A,
      cause: 'promotion',
      gate: null,
      forced: true,
      reason: 'r',
      timeUs: 20,
    },
    {
      alias: 'sql@champion',
      from: A,
      to: null,
      cause: 'rollback',
      gate: null,
      forced: false,
      reason: '',
      timeUs: 30,
    },
  ]);
  expect([19, 20, 29, 30].map((at) => aliasesAt({ events }, at))).toEqual([
    [],
    [['sql@champion', A]],
    [['sql@champion', A]],
    [['sql@champion', null]],
  ]);
});

test('a look says what it leaves out or changes, three places by name and how many more', () => {
  const trial = (problem: string, more: object = {}) => ({
    ...{ task: 't', epoch: 'e', verifier: 'v', problem, version: 'w'.repeat(20), score: 1 },
    ...more,
  });
  const looks = new Looks();
  const long = 'p'.repeat(70);
  const first = [trial(long), trial('b', { sample: 2 }), trial('c'), trial('d'), trial('e')];
  const guards = { length: [trial('b', { score: 9 })] };
  expect(looks.take({ trials: first, guards })).toEqual([]);
  expect([looks.trials(null), looks.trials('length'), looks.trials('other')]).toEqual([
    first,
    guards.length,
    [],
  ]);
  const place = (problem: string, sample: number): string =>
    `problem ${problem}, sample ${sample}, version ${'w'.repeat(12)}`;
  const [, ...others] = first;
  const less = looks.take({ trials: [trial('new'), ...others.toReversed()], guards });
  expect(less).toEqual([`${place('p'.repeat(60), 0)} is left out`]);
  // what was left out is still part of it, and what is new comes after it
  expect(looks.trials(null)).toEqual([...first, trial('new')]);
  const changed = first.map((each) => ({ ...each, score: 0 }));
  expect(looks.take({ trials: [...changed.slice(0, 3), ...first.slice(3)] })).toEqual([
    `${place('p'.repeat(60), 0)} is changed`,
    `${place('b', 2)} is changed`,
    `${place('c', 0)} is changed`,
    'and 2 more', // the guard, and the new one
  ]);
  expect(looks.take({ trials: [...changed.slice(0, 3), ...first.slice(3), trial('new')] })).toEqual(
    [`guard length, ${place('b', 0)} is left out`],
  );
  // of one that failed whatever came out; the members that have a default are the same without
  const failed = new Looks();
  const { score: _, ...without } = trial('a', { error: 'crashed' });
  failed.take({ trials: [without] });
  expect(failed.take({ trials: [trial('a', { lane: 'confirmation', sample: 0 })] })).toEqual([]);
  expect(failed.take({ trials: [trial('a')] })).toEqual([]);
  expect(failed.take({ trials: [trial('a', { lane: 'screen' })] })).toHaveLength(1);
  const other = new Looks();
  other.take({ trials: [without] });
  expect(other.take({ trials: [trial('a', { verifier: 'x' })] })).toHaveLength(1);
});

test('the looks at a gate are those of its decisions, in their order, as they were kept', () => {
  const events = [1, 2, 1].map((gate, i) => ({
    event: { ...deciding('needs-more-trials', gate), evidence: digest(i) } as RegistryEvent,
    gseq: i,
    timeUs: 0,
  }));
  expect([looksAt(1, events), looksAt(2, events), looksAt(3, events)]).toEqual([
    [digest(0), digest(2)],
    [digest(1)],
    [],
  ]);
  const paths = registryPaths(path.join(folder, 'looks'));
  makeRegistryFolder(paths);
  const text = '{"trials":[]}';
  const sha256 = createHash('sha256').update(text).digest('hex');
  expect(keptLook({ paths }, sha256)).toBeNull();
  writeFileSync(paths.trials(sha256), text);
  expect(keptLook({ paths }, sha256)).toEqual({ trials: [] });
  writeFileSync(paths.trials(sha256), `${text}\n`);
  expect(keptLook({ paths }, sha256)).toBeNull();
  expect(() => earlierLooks({ paths }, 2, events)).toThrow(
    expect.objectContaining({
      code: 'REGISTRY_INVALID',
      message: `gate 2: the trials ${paths.trials(digest(1))} are missing or changed`,
    }) as never,
  );
  expect(earlierLooks({ paths }, 3, events).trials(null)).toEqual([]);
});
