/** Versions on probation: who gets them, what is posted of them, and how they are taken back. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import type { GateEvidence } from '../../src/gate/index.js';
import {
  armOf,
  collectGarbage,
  observe,
  Registry,
  setProbation,
  validateRegistry,
  type Reading,
} from '../../src/registry/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-canary-'));
const slot = { scenario: 'sql' };
const coded = (code: string): never =>
  expect.objectContaining({ name: 'IsoproError', code }) as never;
let registry: Registry;
let [a, b] = ['', ''];
beforeAll(() => {
  const shape = writeSyntheticModel(path.join(folder, 'model.gguf'), { architecture: 'llama' });
  for (const n of [1, 2])
    writeSyntheticAdapter(path.join(folder, `${n}.gguf`), shape, {
      seed: BigInt(n),
      rank: 2,
      targets: ['attn_q'],
    });
});
beforeEach(async () => {
  const place = mkdtempSync(path.join(folder, 'case-'));
  registry = new Registry({
    folder: path.join(place, 'registry'),
    signer: witnessInProcess(place),
  });
  const base = { name: 'tiny.gguf', sha256: 'ba'.repeat(32) };
  [a, b] = [
    (await registry.publish({ file: path.join(folder, '1.gguf'), base })).id,
    (await registry.publish({ file: path.join(folder, '2.gguf'), base })).id,
  ];
  await registry.move({ slot, id: a, force: true });
  await registry.move({ slot, id: b, force: true, probation: { share: 0.25, problems: 30 } });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const champion = ({ state }: Reading): NonNullable<ReturnType<typeof state.alias>> =>
  state.alias({ scenario: 'sql', role: 'default', environment: 'default' }, 'champion')!;
/** Scores of the version in use and of the one before, a problem after the other. */
const trials = (scores: readonly (readonly [number, number])[], from = 0): GateEvidence['trials'] =>
  scores.flatMap((pair, i) =>
    [b, a].map((version, side) => ({
      version,
      task: 'sql',
      epoch: '1',
      verifier: 'v',
      problem: `c${from + i}`,
      score: pair[side]!,
    })),
  );
const alike = (count: number, from = 0): GateEvidence['trials'] =>
  trials(
    Array.from({ length: count }, (_, i) => [i % 2, i % 2] as const),
    from,
  );

test('a share of the keys gets what is new, the same ones each time; a larger share takes nobody out', async () => {
  const keys = Array.from({ length: 4000 }, (_, i) => `user-${i}`);
  const share = async (): Promise<Set<string>> => {
    const reading = await registry.read();
    return new Set(
      keys.filter((key) => armOf(reading.state, champion(reading), key).arm === 'current'),
    );
  };
  const quarter = await share();
  // of fixed keys under a fixed id: the same in every run
  expect(Math.abs(quarter.size / 4000 - 0.25)).toBeLessThan(0.03);
  expect(await share()).toEqual(quarter);
  const reading = await registry.read();
  const [inside, outside] = [[...quarter][0]!, keys.find((key) => !quarter.has(key))!];
  expect(armOf(reading.state, champion(reading), inside)).toEqual({
    id: b,
    arm: 'current',
    other: a,
  });
  expect(armOf(reading.state, champion(reading), outside)).toEqual({
    id: a,
    arm: 'previous',
    other: b,
  });
  // nobody to be kept to anything
  expect(armOf(reading.state, champion(reading))).toMatchObject({ id: b, arm: 'current' });

  await setProbation(registry, { slot, terms: { share: 0.5, problems: 30 } });
  const half = await share();
  expect([...quarter].filter((key) => !half.has(key))).toEqual([]);
  expect(half.size).toBeGreaterThan(quarter.size);
  await setProbation(registry, { slot, terms: null, reason: 'looks well' });
  expect((await share()).size).toBe(4000);
  await expect(setProbation(registry, { slot, terms: null })).rejects.toThrow(
    coded('REGISTRY_REFUSED'),
  );
});

test('A12: on probation, scores of 0 put the version before back within one cycle; what showed it is kept and checked again', async () => {
  const well = await observe(registry, { slot, trials: alike(8) });
  expect(well).toMatchObject({
    decision: { decision: 'keep', blocks: 8 },
    moved: null,
    probation: { share: 0.25 },
  });
  const fallen = Array.from({ length: 12 }, () => [0, 1] as const);
  const { decision, moved, probation } = await observe(registry, {
    slot,
    trials: trials(fallen, 8),
  });
  expect([decision.decision, moved, probation]).toEqual([
    'rollback',
    { alias: 'sql@champion', from: b, to: a },
    null,
  ]);
  const reading = await registry.read();
  expect(champion(reading)).toMatchObject({ current: a, probation: null, observed: null });
  expect(reading.events.slice(-2).map(({ event }) => event)).toMatchObject([
    { kind: 'observed', decision: 'rollback', blocks: 20 },
    { kind: 'moved', cause: 'rollback', reason: expect.stringContaining('E reached') },
  ]);
  expect((await validateRegistry(registry)).defects).toEqual([]);
  expect(await collectGarbage(registry)).toMatchObject({ files: [] });
  for (const name of readdirSync(registry.paths.evidence))
    rmSync(path.join(registry.paths.evidence, name));
  // two batches and what the rollback was decided by
  expect((await validateRegistry(registry)).defects.map(({ kind }) => kind)).toEqual([
    'evidence',
    'evidence',
    'evidence',
  ]);
});

test('enough problems without an alarm end the probation; the watch goes on after it', async () => {
  expect((await observe(registry, { slot, trials: alike(20) })).probation).not.toBeNull();
  expect((await observe(registry, { slot, trials: alike(10, 20) })).probation).toBeNull();
  let reading = await registry.read();
  expect(champion(reading)).toMatchObject({
    current: b,
    probation: null,
    observed: { blocks: 30, against: a },
  });
  expect(armOf(reading.state, champion(reading), 'anybody')).toMatchObject({
    id: b,
    arm: 'current',
  });
  const fallen = Array.from({ length: 25 }, () => [0, 1] as const);
  expect((await observe(registry, { slot, trials: trials(fallen, 30) })).moved).toMatchObject({
    from: b,
    to: a,
  });
  reading = await registry.read();
  expect(champion(reading).current).toBe(a);
  // further back lies the base without an adapter, which takes trials of its own
  const against = alike(1).map((trial) => ({
    ...trial,
    version: trial.version === b ? a : 'base',
  }));
  expect((await observe(registry, { slot, trials: against })).decision).toMatchObject({
    decision: 'keep',
    blocks: 1,
  });
});

test('trials that contradict themselves are not taken in; the level of a test is not chosen after a look', async () => {
  await observe(registry, { slot, trials: alike(5) });
  const { records } = await registry.read();
  // a problem again, half a pair, a score of 2
  const refused = [alike(1), trials([[1, 0]], 5).slice(0, 1), trials([[1, 2]], 5)];
  for (const each of refused)
    expect(await observe(registry, { slot, trials: each })).toMatchObject({
      decision: { decision: 'invalid' },
    });
  await expect(observe(registry, { slot, trials: [{}] as never })).rejects.toThrow(
    coded('GATE_EVIDENCE_INVALID'),
  );
  await expect(observe(registry, { slot, alias: 'shadow', trials: [] })).rejects.toThrow(
    coded('REGISTRY_REFUSED'),
  );
  await expect(
    setProbation(registry, { slot, terms: { share: 0.5, problems: 30, alpha: 0.5 } }),
  ).rejects.toThrow(coded('REGISTRY_REFUSED'));
  await expect(setProbation(registry, { slot, terms: { share: 0, problems: 30 } })).rejects.toThrow(
    coded('INVALID_ARGUMENT'),
  );
  expect((await registry.read()).records).toBe(records);
  // by hand, in one call, whatever is under way
  expect(await registry.rollback({ slot })).toMatchObject({ from: b, to: a });
});
