/**
 * Looks at a gate and at a version in use: what was seen stays part of the evidence, and the level
 * that it is held against stays too.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import type { GatePolicyInput, TrialInput } from '../../src/gate/index.js';
import { keepTrials, trialsText, type GateTrials } from '../../src/registry/gates.js';
import {
  decideGate,
  observe,
  openGate,
  Registry,
  resolveAdapter,
  rollbackByEvidence,
  setProbation,
  validateRegistry,
  type GateState,
  type ProbationInput,
} from '../../src/registry/index.js';
import { Random } from '../../src/random.js';
import { writeThreeAdapters } from '../models/adapter.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-looks-'));
const slot = { scenario: 'sql' };
const coded = (code: string, message = ''): never =>
  expect.objectContaining({
    name: 'IsoproError',
    code,
    message: expect.stringContaining(message),
  }) as never;
const guarded: GatePolicyInput = {
  kind: 'e-process',
  measure: 'score',
  guards: [{ kind: 'non-inferiority', name: 'length', margin: 10, ceiling: 100 }],
};

let registry: Registry;
let [a, b, c] = ['', '', ''];
beforeAll(() => writeThreeAdapters(folder));
beforeEach(async () => {
  const place = mkdtempSync(path.join(folder, 'case-'));
  registry = new Registry({
    folder: path.join(place, 'registry'),
    signer: witnessInProcess(place),
  });
  const base = { name: 'tiny.gguf', sha256: 'ba'.repeat(32) };
  const publish = async (n: number): Promise<string> =>
    (await registry.publish({ file: path.join(folder, `${n}.gguf`), base })).id;
  [a, b, c] = [await publish(1), await publish(2), await publish(3)];
  await registry.move({ slot, id: a, force: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Scores = readonly (readonly [now: number, before: number])[];
/** Of two versions, a problem after the other. */
const pairs = (
  versions: readonly [string, string],
  scores: Scores,
  from = 0,
  more: Partial<TrialInput> = {},
): TrialInput[] =>
  scores.flatMap((pair, i) =>
    versions.map((version, side) => ({
      version,
      task: 'sql',
      epoch: '1',
      verifier: 'v',
      problem: `p${from + i}`,
      score: pair[side]!,
      ...more,
    })),
  );
const repeated = (count: number, now: number, before: number): Scores =>
  Array.from({ length: count }, () => [now, before] as const);
const records = async (): Promise<number> => (await registry.read()).records;

describe('a look at a gate', () => {
  let gate: GateState;
  const given = (
    trials: readonly TrialInput[],
    lengths: readonly TrialInput[] = [],
  ): GateTrials => ({
    seed: gate.seed!,
    trials,
    ...(lengths.length === 0 ? {} : { guards: { length: lengths } }),
  });
  const look = (trials: readonly TrialInput[], lengths?: readonly TrialInput[]) =>
    decideGate(registry, gate.gate, given(trials, lengths));
  let first: TrialInput[];
  let lengths: TrialInput[];
  const further = (count: number): TrialInput[] => pairs([b, a], repeated(count, 1, 0), 100);
  beforeEach(async () => {
    gate = await openGate(registry, { slot, challenger: b, policy: guarded });
    first = [...pairs([b, a], repeated(5, 0, 1)), ...pairs([b, a], repeated(5, 0.75, 0.5), 5)];
    lengths = pairs([b, a], repeated(4, 50, 50));
    expect((await look(first, lengths)).decision).toBe('needs-more-trials');
  });

  test('holds every trial of the looks before it, in whatever order', async () => {
    expect((await look([...further(2), ...first].reverse(), [...lengths].reverse())).decision).toBe(
      'needs-more-trials',
    );
    // the same once more
    expect((await look([...first, ...further(2)], lengths)).decision).toBe('needs-more-trials');
    const spelt = first.map((trial) => ({ lane: 'confirmation' as const, sample: 0, ...trial }));
    expect((await look([...spelt, ...further(30)], lengths)).blocks).toBe(40);
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });

  const changed = (of: TrialInput[], at: number, member: Partial<TrialInput>): TrialInput[] =>
    of.map((trial, i) => (i === at ? { ...trial, ...member } : trial));
  test.each<readonly [string, () => readonly [TrialInput[], TrialInput[]]]>([
    ['none of them', () => [further(30), lengths]],
    ['one problem less', () => [[...first.slice(2), ...further(30)], lengths]],
    ['the lost ones less', () => [[...first.slice(10), ...further(30)], lengths]],
    [
      'a score that became better',
      () => [[...changed(first, 0, { score: 1 }), ...further(30)], lengths],
    ],
    [
      'a score of the incumbent that became worse',
      () => [[...changed(first, 19, { score: 0.25 }), ...further(30)], lengths],
    ],
    [
      'a score that became an error',
      () => [
        [...changed(first, 0, { score: undefined, error: 'crashed' }), ...further(30)],
        lengths,
      ],
    ],
    [
      'another name of the problems',
      () => [
        [...first.map((each) => ({ ...each, problem: `${each.problem}x` })), ...further(30)],
        lengths,
      ],
    ],
    [
      'another verifier',
      () => [[...first, ...further(30)].map((each) => ({ ...each, verifier: 'w' })), lengths],
    ],
    [
      'another sample',
      () => [[...first, ...further(30)].map((each) => ({ ...each, sample: 1 })), lengths],
    ],
    ['a guard without its trials', () => [[...first, ...further(30)], []]],
    [
      'a cost that became less',
      () => [[...first, ...further(30)], changed(lengths, 0, { score: 1 })],
    ],
  ])('is refused where it has %s, and the gate goes on', async (_, of) => {
    const before = await records();
    await expect(look(...of())).rejects.toThrow(
      coded('GATE_EVIDENCE_INVALID', 'gate 1 has earlier looks'),
    );
    expect(await records()).toBe(before);
    expect(
      (
        await look(
          [...first, ...further(40)],
          [...lengths, ...pairs([b, a], repeated(60, 20, 50), 50)],
        )
      ).decision,
    ).toBe('accepted');
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });

  test('holds those of all looks before it, not of the last alone', async () => {
    await look([...first, ...further(1)], lengths);
    await expect(
      look([...first, ...pairs([b, a], repeated(30, 1, 0), 101)], lengths),
    ).rejects.toThrow(coded('GATE_EVIDENCE_INVALID', 'p100'));
  });

  test('may repeat a trial that failed, and no other', async () => {
    const failed = changed([...first, ...further(2)], 20, {
      score: undefined,
      error: 'the machine went down',
    });
    expect((await look(failed, lengths)).decision).toBe('infrastructure-error');
    await expect(
      look([...first, ...pairs([b, a], repeated(30, 1, 0), 101)], lengths),
    ).rejects.toThrow(coded('GATE_EVIDENCE_INVALID'));
    await expect(
      look(
        [...changed(failed, 21, { score: 0.5 }), ...pairs([b, a], repeated(30, 1, 0), 102)],
        lengths,
      ),
    ).rejects.toThrow(coded('GATE_EVIDENCE_INVALID'));
    expect((await look([...first, ...further(2)], lengths)).decision).toBe('needs-more-trials');
  });

  test('is refused where the trials of an earlier one are gone', async () => {
    for (const name of readdirSync(registry.paths.evidence))
      rmSync(path.join(registry.paths.evidence, name));
    await expect(look([...first, ...further(30)], lengths)).rejects.toThrow(
      coded('REGISTRY_INVALID', 'missing or changed'),
    );
  });

  test('that broke this before it was asked for is named by validate; the registry is read, moved and served as before', async () => {
    const written = async (
      trials: TrialInput[],
      decision: 'needs-more-trials' | 'accepted',
    ): Promise<void> => {
      const evidence = await keepTrials(
        registry,
        trialsText(
          gate.gate,
          given(trials, [...lengths, ...pairs([b, a], repeated(60, 20, 50), 50)]),
        ),
      );
      await registry.write(({ write }) =>
        write([{ kind: 'gate_decided', gate: gate.gate, decision, reasons: [], evidence }]),
      );
    };
    await written(changed([...first, ...further(1)], 1, { score: 0 }), 'needs-more-trials');
    await written(further(9), 'accepted');
    expect((await validateRegistry(registry)).defects).toEqual([
      {
        kind: 'gate',
        repairable: false,
        message: expect.stringMatching(
          /^gate 1: the look in record \d+ .*problem p0, .* is changed$/,
        ),
      },
      {
        kind: 'gate',
        repairable: false,
        message: expect.stringMatching(
          /^gate 1: the look in record \d+ .*left out.*; and \d+ more$/,
        ),
      },
    ]);
    await registry.move({ slot, id: b, gate: gate.gate });
    expect(await resolveAdapter(registry, 'sql@champion')).toMatchObject({ ok: true, id: b });
    expect(
      (
        await registry.publish({
          file: path.join(folder, '1.gguf'),
          base: { name: 'tiny.gguf', sha256: 'ba'.repeat(32) },
        })
      ).id,
    ).toBe(a);
  });
});

describe('the rollback test of a version in use', () => {
  /** Whose level of 0.01 is another one than that without a probation. */
  const terms = (more: Partial<ProbationInput> = {}): ProbationInput => ({
    share: 0.5,
    problems: 40,
    alpha: 0.01,
    margin: 0.1,
    ...more,
  });
  const seen = (scores: Scores, from = 0) =>
    observe(registry, { slot, trials: pairs([b, a], scores, from) });
  const threshold = -Math.log(0.01);

  test.each<readonly [string, () => Promise<unknown>]>([
    ['its probation has passed', () => seen(repeated(40, 0.5, 0.5), 10)],
    ['its probation is ended', () => setProbation(registry, { slot, terms: null })],
    [
      'its probation is ended and begun again',
      async () => {
        await setProbation(registry, { slot, terms: null });
        await setProbation(registry, { slot, terms: terms({ share: 0.1, problems: 500 }) });
      },
    ],
  ])('keeps alpha and margin of its first look when %s', async (_, happens) => {
    await registry.move({ slot, id: b, force: true, probation: terms() });
    await seen(repeated(10, 0.5, 0.5));
    await happens();
    for (const other of [{ alpha: 0.05 }, { margin: 0 }, { alpha: 0.001, margin: 0.2 }])
      await expect(setProbation(registry, { slot, terms: terms(other) })).rejects.toThrow(
        coded('REGISTRY_REFUSED', 'alpha 0.01, margin 0.1'),
      );
    const { decision } = await seen(repeated(60, 0.5, 0.55), 100); // worse by less than the margin
    expect(decision).toMatchObject({ decision: 'keep', logThreshold: threshold });
    const fallen = await seen(repeated(60, 0, 1), 200);
    expect(fallen.decision).toMatchObject({ decision: 'rollback', logThreshold: threshold });
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });

  test('keeps what it began with where it was on no probation, and another version has a test of its own', async () => {
    await registry.move({ slot, id: b, force: true });
    await seen(repeated(5, 0.5, 0.5));
    await expect(setProbation(registry, { slot, terms: terms() })).rejects.toThrow(
      coded('REGISTRY_REFUSED', 'alpha 0.05, margin 0'),
    );
    await setProbation(registry, { slot, terms: { share: 0.5, problems: 40 } });
    await registry.move({ slot, id: c, force: true, probation: terms() });
    const { decision } = await observe(registry, {
      slot,
      trials: pairs([c, b], repeated(5, 0.5, 0.5)),
    });
    expect(decision.logThreshold).toBe(threshold);
  });

  test('keeps its level where it is held against another version, and where somebody brings the evidence', async () => {
    await registry.move({ slot, id: b, force: true });
    await registry.move({ slot, id: c, force: true, probation: terms() });
    await observe(registry, { slot, trials: pairs([c, b], repeated(5, 0.5, 0.5)) });
    await registry.withdraw(b, 'leaks');
    await setProbation(registry, { slot, terms: null });
    const against = await observe(registry, { slot, trials: pairs([c, a], repeated(5, 0.5, 0.5)) });
    expect(against.decision).toMatchObject({ blocks: 5, logThreshold: threshold });
    const trials = pairs([c, a], repeated(12, 0, 1), 50);
    const policy = { alpha: 0.2 };
    await expect(rollbackByEvidence(registry, { slot, trials, policy })).rejects.toThrow(
      coded('REGISTRY_REFUSED', 'alpha 0.01'),
    );
    const by = await rollbackByEvidence(registry, { slot, trials });
    expect(by).toMatchObject({ decision: { logThreshold: threshold }, moved: { from: c, to: a } });
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });

  test('drawn terms and looks in any order: one level, that of the first look', async () => {
    const random = new Random(35n);
    for (let draw = 0; draw < 6; draw++) {
      await registry.move({ slot, id: draw % 2 === 0 ? b : c, force: true });
      const versions = draw % 2 === 0 ? ([b, draw === 0 ? a : c] as const) : ([c, b] as const);
      let level: number | null = null;
      for (let step = 0; step < 8; step++) {
        const alpha = [0.01, 0.02, 0.05][random.nextInteger(0, 2)]!;
        const named = (await registry.read()).state.aliases[0]!;
        const what = random.nextInteger(0, 2);
        if (what === 0)
          await setProbation(registry, { slot, terms: { share: 0.5, problems: 6, alpha } }).catch(
            () => undefined,
          );
        else if (what === 1)
          await setProbation(registry, { slot, terms: null }).catch(() => undefined);
        else {
          const { decision } = await observe(registry, {
            slot,
            trials: pairs(versions, repeated(2, 1, 1), 2 * step),
          });
          level ??= named.probation?.alpha ?? 0.05;
          expect(decision.logThreshold).toBeCloseTo(-Math.log(level), 12);
        }
      }
    }
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });

  test('of an older log, whose terms were changed on the way, is read, and goes on with the level of its first look', async () => {
    await registry.move({ slot, id: b, force: true, probation: terms() });
    await seen(repeated(5, 0.5, 0.5));
    const named = (await registry.read()).state.aliases[0]!;
    const of = { slot: named.slot, alias: named.alias, id: b, reason: '' };
    const usual = { share: 0.5, problems: 40, alpha: 0.05, margin: 0 };
    await registry.write(({ write }) => write([{ kind: 'probation', ...of, terms: null }]));
    await registry.write(({ write }) => write([{ kind: 'probation', ...of, terms: usual }]));
    expect((await registry.read()).state.aliases[0]).toMatchObject({
      probation: usual,
      observed: { policy: { alpha: 0.01, margin: 0.1 } },
    });
    expect((await seen(repeated(5, 0.5, 0.5), 5)).decision.logThreshold).toBe(threshold);
    expect(await resolveAdapter(registry, 'sql@champion')).toMatchObject({ ok: true, id: b });
    expect((await validateRegistry(registry)).defects).toEqual([]);
  });
});
