/**
 * The one state machine, against a model of a dozen lines, over random sequences of events, most of
 * them refused.
 */
import { describe, expect, test } from '@jest/globals';
import { IsoproError } from '../../src/errors.js';
import { alphaOf, gatePolicy } from '../../src/gate/index.js';
import { Random } from '../../src/random.js';
import type { RegistryEvent } from '../../src/registry/events.js';
import { parseReference, requireAlias } from '../../src/registry/names.js';
import { nameOf, recordId, type AdapterRecord } from '../../src/registry/record.js';
import { RegistryState } from '../../src/registry/state.js';

const digest = (n: number): string => n.toString(16).padStart(64, '0');
const record = (n: number): AdapterRecord => ({
  format: 'isopro.adapter.v1',
  adapter: { sha256: digest(n), bytes: 10, rank: 4, targets: ['attn_q'], layers: [1] },
  base: { name: 'tiny.gguf', sha256: digest(999), architecture: 'llama' },
  rendererId: null,
  settings: { seed: '1' },
  dataset: null,
  evidence: [],
  lineage: { parent: null, producedBy: [] },
});
const IDS = [1, 2, 3, 4].map((n) => recordId(record(n)));
const SLOTS = ['sql', 'ladder'].map((scenario) => ({
  scenario,
  role: 'default',
  environment: 'default',
}));
const policy = gatePolicy.parse({ kind: 'e-process' });

function randomEvent(random: Random, state: RegistryState): RegistryEvent {
  const pick = <T>(values: readonly T[]): T => values[random.nextInteger(0, values.length - 1)]!;
  /** Mostly of a gate that is there, and then with what fits it. */
  const gated = pick([null, ...state.gates]);
  const slot = gated?.slot ?? pick(SLOTS);
  const alias = gated?.alias ?? pick(['champion', 'champion', 'shadow']);
  const current = state.alias(slot, alias)?.current ?? null;
  const n = random.nextInteger(1, 4);
  switch (
    pick([
      'published',
      'moved',
      'moved',
      'rollback',
      'rollback',
      'gate_opened',
      'gate_drawn',
      'gate_decided',
      'gate_drawn',
      'gate_decided',
      'withdrawn',
      'collected',
      'probation',
      'observed',
      'observed',
    ])
  ) {
    case 'published':
      return { kind: 'published', id: IDS[n - 1]!, record: record(n) };
    case 'moved': {
      const gate = gated?.gate ?? null;
      return {
        kind: 'moved',
        slot,
        alias,
        from: pick([current, current, current, IDS[0]!]),
        to: gate === null ? pick(IDS) : state.gates[gate - 1]!.challenger,
        cause: pick([
          alias === 'champion' ? ('promotion' as const) : ('assignment' as const),
          'promotion',
          'assignment',
        ]),
        gate,
        forced: gate === null ? pick([true, true, false]) : false,
        evidence: null,
        reason: '',
        transaction: null,
      };
    }
    case 'rollback':
      return {
        kind: 'moved',
        slot,
        alias,
        from: current,
        to: pick([...(state.alias(slot, alias)?.previous ?? []), null]),
        cause: 'rollback',
        gate: null,
        forced: false,
        evidence: pick([null, digest(9)]),
        reason: '',
        transaction: null,
      };
    case 'gate_opened': {
      const attempt = pick([state.attempts(slot, alias) + 1, state.attempts(slot, alias) + 1, 1]);
      const alpha = alphaOf(policy, attempt);
      const gate = pick([state.gates.length + 1, state.gates.length + 1, 1]);
      return {
        kind: 'gate_opened',
        gate,
        slot,
        alias,
        challenger: pick(IDS),
        incumbent: current,
        policy,
        attempt,
        alpha,
        lineage: 'any',
      };
    }
    case 'gate_drawn':
      return {
        kind: 'gate_drawn',
        gate: gated?.gate ?? random.nextInteger(1, 9),
        head: '',
        draw: '',
        seed: digest(7),
      };
    case 'gate_decided': {
      const decision = pick([
        'accepted',
        'rejected',
        'needs-more-trials',
        'infrastructure-error',
      ] as const);
      return {
        kind: 'gate_decided',
        gate: gated?.gate ?? random.nextInteger(1, 9),
        decision,
        reasons: [],
        evidence: digest(8),
      };
    }
    case 'probation': {
      const terms = pick([
        null,
        { share: 0.1, problems: 3, alpha: 0.05, margin: 0 },
        { share: 1, problems: 9, alpha: 0.01, margin: 0 },
      ]);
      return {
        kind: 'probation',
        slot,
        alias,
        id: pick([current ?? IDS[0]!, current ?? IDS[0]!, IDS[1]!]),
        terms,
        reason: '',
      };
    }
    case 'observed': {
      const id = pick([current ?? IDS[0]!, current ?? IDS[0]!, IDS[1]!]);
      const against = pick([
        state.before(slot, alias) ?? null,
        state.before(slot, alias) ?? null,
        IDS[2]!,
      ]);
      const blocks = pick([0, 1, 5, 9]);
      return {
        kind: 'observed',
        slot,
        alias,
        id,
        against,
        decision: 'keep',
        blocks,
        evidence: digest(6),
      };
    }
    case 'withdrawn':
      return { kind: 'withdrawn', id: pick(IDS), reason: 'bad' };
    default:
      return { kind: 'collected', ids: [pick(IDS)] };
  }
}

/** Text, because comparing it is a hundred times cheaper than comparing objects. */
const snapshot = ({ entries, aliases, gates, events }: RegistryState): string =>
  JSON.stringify([[...entries.values()], aliases, gates, events]);

describe('the state machine (A7: activate B demotes A)', () => {
  test('random sequences: one adapter a name, what is refused changes nothing, a replay comes to the same', () => {
    const tally = {
      taken: 0,
      refused: 0,
      rollbacks: 0,
      gated: 0,
      onProbation: 0,
      observed: 0,
      pending: 0,
    };
    for (let seed = 0; seed < 250; seed++) {
      const random = new Random(BigInt(seed));
      const state = new RegistryState();
      const taken: RegistryEvent[] = [];
      /** What each alias named, in order, with what was rolled back taken out: the oracle. */
      const stacks = new Map<string, (string | null)[]>();
      for (let i = 0; i < 110; i++) {
        const event = randomEvent(random, state);
        const before = snapshot(state);
        try {
          state.apply(event, i);
        } catch (error) {
          if (
            !(error instanceof IsoproError) ||
            !['REGISTRY_REFUSED', 'CONFLICT'].includes(error.code)
          )
            throw error;
          if (snapshot(state) !== before)
            throw new Error(`${JSON.stringify(event)} was refused and changed ${before}`);
          tally.refused++;
          continue;
        }
        tally.taken++;
        taken.push(event);
        if (event.kind === 'probation' || event.kind === 'observed') {
          const named = state.alias(event.slot, event.alias)!;
          expect(named.current).toBe(event.id);
          if (event.kind === 'observed') {
            tally.observed++;
            expect(event.against).toBe(state.before(event.slot, event.alias));
            expect(named.observed).toMatchObject({ against: event.against, blocks: event.blocks });
          } else {
            tally.onProbation++;
            expect(named.probation).toEqual(event.terms);
          }
        }
        if (event.kind !== 'moved') continue;
        expect(state.alias(event.slot, event.alias)).toMatchObject({
          probation: null,
          observed: null,
        });
        const key = `${event.slot.scenario}@${event.alias}`;
        const stack = stacks.get(key) ?? [null];
        stacks.set(key, stack);
        expect(event.from).toBe(stack.at(-1));
        if (event.cause === 'rollback') {
          tally.rollbacks++;
          stack.pop();
          // versions that may no longer be used are passed over
          while (stack.at(-1) !== event.to) {
            const entry = state.entries.get(stack.pop()!)!;
            expect(entry.withdrawn !== null || entry.collected).toBe(true);
          }
        } else stack.push(event.to);
        if (event.alias === 'champion' && event.cause !== 'rollback') {
          expect(event.forced).toBe(event.gate === null);
          if (event.gate !== null) {
            expect(state.gates[event.gate - 1]).toMatchObject({
              decision: 'accepted',
              challenger: event.to,
              incumbent: event.from,
            });
            tally.gated++;
          }
        }
      }
      for (const { slot, alias, current } of state.aliases) {
        expect(current).toBe(stacks.get(`${slot.scenario}@${alias}`)!.at(-1));
        if (current !== null)
          expect(state.entries.get(current)).toMatchObject({ withdrawn: null, collected: false });
      }
      expect(state.gates.map(({ gate }) => gate)).toEqual(state.gates.map((_, i) => i + 1));
      const spent = new Set(
        taken.flatMap((event) =>
          event.kind === 'moved' && event.gate !== null ? [event.gate] : [],
        ),
      );
      for (const slot of SLOTS)
        for (const id of IDS) {
          const last = state.gates.findLast(
            ({ challenger, slot: of }) => challenger === id && of.scenario === slot.scenario,
          );
          const [pending, now] = [
            state.pendingGate(slot, 'champion', id),
            state.alias(slot, 'champion')?.current ?? null,
          ];
          const ended = last?.decision === 'rejected';
          const goesOn =
            last !== undefined &&
            last.seed !== null &&
            !ended &&
            !spent.has(last.gate) &&
            last.incumbent === now;
          expect(pending).toBe(goesOn ? last : null);
          if (pending !== null) tally.pending++;
        }
      const again = new RegistryState();
      taken.forEach((event, i) => {
        again.apply(event, i);
      });
      expect(again.root()).toBe(state.root());
      expect(again.map()).toEqual(state.map());
    }
    // the sequences have to get somewhere, or nothing was tested
    expect(tally.taken).toBeGreaterThan(3000);
    expect(tally.refused).toBeGreaterThan(2000);
    expect(tally.rollbacks).toBeGreaterThan(100);
    expect(tally.gated).toBeGreaterThan(10);
    expect(tally.onProbation).toBeGreaterThan(30);
    expect(tally.observed).toBeGreaterThan(100);
    expect(tally.pending).toBeGreaterThan(50);
  });

  test('alpha of a name is spent by every gate that was opened, and how it is spent stays', () => {
    const state = new RegistryState();
    state.apply({ kind: 'published', id: IDS[0]!, record: record(1) }, 0);
    const open = (attempt: number, other: object = {}): RegistryEvent => {
      const given = gatePolicy.parse({ kind: 'e-process', ...other });
      const alpha = alphaOf(given, attempt);
      return {
        kind: 'gate_opened',
        gate: attempt,
        slot: SLOTS[0]!,
        alias: 'champion',
        challenger: IDS[0]!,
        incumbent: null,
        policy: given,
        attempt,
        alpha,
        lineage: 'any',
      };
    };
    state.apply(open(1), 1);
    expect(() => state.apply(open(1), 2)).toThrow('the next gate is 2');
    expect(() => state.apply(open(2, { alpha: 0.2 }), 2)).toThrow('fixed how its alpha is spent');
    expect(() => state.apply({ ...open(2), alpha: 0.05 } as RegistryEvent, 2)).toThrow(
      'must spend an alpha of',
    );
    state.apply(open(2), 2);
    expect(state.attempts(SLOTS[0]!, 'champion')).toBe(2);
    expect(state.gates[1]!.alpha).toBeCloseTo((0.05 * 6) / (Math.PI * 2) ** 2, 12);
  });
});

describe('the lineage guard', () => {
  test('foreign: what was trained on answers of its own line begins no gate; any: it does', () => {
    const state = new RegistryState();
    const [a, b, c] = [1, 2, 3].map((n): AdapterRecord => {
      const from = ['run:x', `adapter:${recordId(record(1))}`, 'model:teacher'][n - 1]!;
      const producedBy = n === 1 ? ['run:x'] : [];
      const parent = n === 2 ? recordId(record(1)) : null;
      return {
        ...record(n),
        dataset: { description: 'd', sha256: null, rows: 3, answersOf: [from] },
        lineage: { parent, producedBy },
      };
    }) as [AdapterRecord, AdapterRecord, AdapterRecord];
    for (const each of [a, b, c])
      state.apply({ kind: 'published', id: recordId(each), record: each }, 0);
    const open = (of: AdapterRecord, lineage: 'any' | 'foreign'): RegistryEvent => {
      const attempt = state.gates.length + 1;
      const [challenger, alpha] = [recordId(of), alphaOf(policy, attempt)];
      return {
        kind: 'gate_opened',
        gate: attempt,
        slot: SLOTS[0]!,
        alias: 'champion',
        challenger,
        incumbent: null,
        policy,
        attempt,
        alpha,
        lineage,
      };
    };
    // of the run that made it
    expect(() => state.apply(open(a, 'foreign'), 1)).toThrow('its own line (run:x)');
    // of what it was trained on from
    expect(() => state.apply(open(b, 'foreign'), 1)).toThrow('its own line');
    state.apply(open(c, 'foreign'), 1);
    state.apply(open(a, 'any'), 2);
    expect(state.gates.map(({ lineage }) => lineage)).toEqual(['foreign', 'any']);
  });
});

describe('names', () => {
  test('aliases, immutable names, ids', () => {
    expect(parseReference('sql@champion')).toEqual({
      kind: 'alias',
      slot: SLOTS[0],
      alias: 'champion',
    });
    expect(parseReference('sql/solver/staging@shadow')).toMatchObject({
      slot: { role: 'solver', environment: 'staging' },
      alias: 'shadow',
    });
    expect(requireAlias('sql')).toMatchObject({ alias: 'champion' });
    expect(nameOf(record(1))).toBe(`tiny#${IDS[0]!.slice(0, 12)}`);
    expect(parseReference(nameOf(record(1)))).toEqual({
      kind: 'id',
      base: 'tiny',
      prefix: IDS[0]!.slice(0, 12),
    });
    for (const text of [
      '',
      '@',
      'sql@',
      '@champion',
      'a@b@c',
      'sql@Champion',
      '../x@champion',
      'a/b/c/d@x',
      'abc',
      'x#12',
      'sql @champion',
    ])
      expect([text, parseReference(text)]).toEqual([text, null]);
    expect(() => requireAlias('no/such/thing/here')).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
  });

  test('an id is of bytes, base, renderer and settings, and of nothing else', () => {
    const one = record(1);
    const same = {
      ...one,
      dataset: { description: 'd', sha256: null, rows: 3, answersOf: [] },
      lineage: { parent: null, producedBy: ['run:x'] },
    };
    expect(recordId(same)).toBe(recordId(one));
    const others: AdapterRecord[] = [
      { ...one, adapter: { ...one.adapter, sha256: digest(2) } },
      { ...one, base: { ...one.base, sha256: digest(2) } },
      { ...one, rendererId: digest(2) },
      { ...one, settings: { seed: '2' } },
    ];
    expect(new Set([one, ...others].map(recordId)).size).toBe(5);
  });
});
