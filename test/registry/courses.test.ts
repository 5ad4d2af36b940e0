/**
 * How evidence grew, from trials that were kept: against closed forms of the e-process. Functions
 * alone: what a log holds is given.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import { alphaOf, gatePolicy, type GateEvidence } from '../../src/gate/index.js';
import { trialsOf } from '../../src/registry/canary.js';
import { evidenceCourses, type Course } from '../../src/registry/courses.js';
import type { RegistryEvent } from '../../src/registry/events.js';
import { makeRegistryFolder } from '../../src/registry/folder.js';
import { keepTrials, judgeRollback, trialsText } from '../../src/registry/gates.js';
import type { Placed, Reading } from '../../src/registry/ledger.js';
import { earlierLooks, keptLook, Looks, looksAt, requireWhole } from '../../src/registry/looks.js';
import { slot as slotForm } from '../../src/registry/names.js';
import { recordId, type AdapterRecord } from '../../src/registry/record.js';
import { Registry } from '../../src/registry/registry.js';
import { RegistryState } from '../../src/registry/state.js';
import { asJson, canonicalJson } from '../../src/canonical-json.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-courses-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let registry: Registry;
beforeEach(() => {
  registry = new Registry({ folder: mkdtempSync(path.join(folder, 'case-')) });
  makeRegistryFolder(registry.paths);
});

const digest = (n: number): string => n.toString(16).padStart(64, '0');
const record = (n: number): AdapterRecord => ({
  format: 'isopro.adapter.v1',
  adapter: { sha256: digest(n), bytes: 10, rank: 4, targets: [], layers: [] },
  base: { name: 'tiny.gguf', sha256: digest(999), architecture: '' },
  rendererId: null,
  settings: {},
  dataset: null,
  evidence: [],
  lineage: { parent: null, producedBy: [] },
});
const [A, B] = [1, 2].map((n) => recordId(record(n))) as [string, string];
const slot = slotForm.parse({ scenario: 'sql' });
const policy = gatePolicy.parse({ kind: 'e-process' });
const SEED = digest(7);

type Trials = GateEvidence['trials'];
/** The first version wins every problem. */
const wins = (versions: readonly [string, string], count: number, from = 0): Trials =>
  Array.from({ length: count }, (_, i) =>
    versions.map((version, side) => ({
      version,
      task: 'sql',
      epoch: '1',
      verifier: 'v',
      problem: `p${from + i}`,
      score: 1 - side,
    })),
  ).flat();
/**
 * Of n wins in a row, with the uniform mixture over what is bet: the integral of (1 + x)^n from 0
 * to 1.
 */
const logE = (n: number): number => Math.log((2 ** (n + 1) - 1) / (n + 1));

/**
 * A change may come before any problem: before the k-th with the weight 1 / k (k + 1), and the rest
 * of the weight waits.
 */
const logWatch = (n: number): number =>
  Math.log(
    1 / (n + 1) +
      Array.from({ length: n }, (_, i) => Math.exp(logE(n - i)) / ((i + 1) * (i + 2))).reduce(
        (a, b) => a + b,
        0,
      ),
  );

function readingOf(...events: readonly RegistryEvent[]): Reading {
  const state = new RegistryState();
  const placed: Placed[] = events.map((event, gseq) => {
    state.apply(event, gseq);
    return { event, gseq, timeUs: gseq };
  });
  return { runId: '', state, events: placed, heads: [], records: placed.length, lastTimeUs: 0 };
}
const published: RegistryEvent[] = [A, B].map((id, i) => ({
  kind: 'published',
  id,
  record: record(i + 1),
}));
const move = (from: string | null, to: string | null, rollback = false): RegistryEvent => ({
  ...{
    kind: 'moved',
    slot,
    alias: 'champion',
    from,
    to,
    cause: rollback ? 'rollback' : 'promotion',
    gate: null,
    forced: !rollback,
  },
  ...{ evidence: null, reason: '', transaction: null },
});
const gateEvents = (
  decision: 'accepted' | 'needs-more-trials',
  evidence: string,
  more: object = {},
): RegistryEvent[] => [
  ...published,
  move(null, A),
  {
    ...{
      kind: 'gate_opened',
      gate: 1,
      slot,
      alias: 'champion',
      challenger: B,
      incumbent: A,
      policy,
      attempt: 1,
    },
    ...{ alpha: alphaOf(policy, 1), lineage: 'any' },
    ...more,
  } as RegistryEvent,
  { kind: 'gate_drawn', gate: 1, head: '', draw: '', seed: SEED },
  { kind: 'gate_decided', gate: 1, decision, reasons: [], evidence },
];
const rounded = ({ points, logThreshold, ...course }: Course): unknown => ({
  ...course,
  points: points.map(({ problems, logE: of }) => [problems, Number(of.toFixed(9))]),
  logThreshold: Number(logThreshold.toFixed(9)),
});

test.each([
  [8, Array.from({ length: 8 }, (_, i) => i + 1)],
  [60, Array.from({ length: 60 }, (_, i) => i + 1)],
  [61, [...Array.from({ length: 30 }, (_, i) => 2 * (i + 1)), 61]],
  [0, []],
])('the course of a gate of %i problems has a point for each few of them', async (count, at) => {
  const given = { seed: SEED, trials: wins([B, A], count) };
  const evidence = await keepTrials(registry, trialsText(1, given));
  const [course, ...others] = evidenceCourses(
    registry,
    readingOf(...gateEvents('accepted', evidence)),
  );
  expect(others).toEqual([]);
  expect(rounded(course!)).toEqual({
    ...{ kind: 'gate', alias: 'sql@champion', gate: 1, id: B, against: A, decision: 'accepted' },
    points: at.map((problems) => [problems, Number(logE(problems).toFixed(9))]),
    // alpha x 6 / pi^2 is spent by the first attempt
    logThreshold: count === 0 ? 0 : Number(Math.log(Math.PI ** 2 / 6 / 0.05).toFixed(9)),
  });
});

test('what is not kept, not decided or not decided by an e-process has no course', async () => {
  const evidence = await keepTrials(
    registry,
    trialsText(1, { seed: SEED, trials: wins([B, A], 2) }),
  );
  const events = gateEvents('accepted', evidence);
  expect(evidenceCourses(registry, readingOf(...events.slice(0, -1)))).toEqual([]);
  const sign = gatePolicy.parse({ kind: 'sign', margin: 0.1 });
  expect(
    evidenceCourses(
      registry,
      readingOf(...gateEvents('accepted', evidence, { policy: sign, alpha: alphaOf(sign, 1) })),
    ),
  ).toEqual([]);
  rmSync(registry.paths.trials(evidence));
  expect(evidenceCourses(registry, readingOf(...events))).toEqual([]);
});

test('the course of a watch goes on over what was posted, and ends with the move', async () => {
  const post = async (trials: Trials): Promise<string> =>
    keepTrials(registry, `${canonicalJson(asJson({ trials }))}\n`);
  const evidence = [await post(wins([A, B], 3)), await post(wins([A, B], 2, 3))];
  const observed = (at: number, blocks: number): RegistryEvent => ({
    ...{
      kind: 'observed',
      slot,
      alias: 'champion',
      id: B,
      against: A,
      decision: 'keep',
      blocks,
      evidence: evidence[at]!,
    },
  });
  const events = [...published, move(null, A), move(A, B), observed(0, 3), observed(1, 5)];
  const { logThreshold } = judgeRollback(B, A, { trials: wins([A, B], 1) });
  expect(logThreshold).toBeCloseTo(Math.log(20), 12);
  const course = {
    ...{ kind: 'watch', alias: 'sql@champion', gate: null, id: B, against: A, decision: 'keep' },
    points: [1, 2, 3, 4, 5].map((problems) => [problems, Number(logWatch(problems).toFixed(9))]),
    logThreshold: Number(Math.log(20).toFixed(9)),
  };
  expect(evidenceCourses(registry, readingOf(...events)).map(rounded)).toEqual([course]);
  // a move ends it, and what comes then has its own
  expect(evidenceCourses(registry, readingOf(...events, move(B, A, true))).map(rounded)).toEqual([
    course,
  ]);
  // nothing was posted
  expect(evidenceCourses(registry, readingOf(...events.slice(0, 4)))).toEqual([]);
  expect(
    evidenceCourses(registry, readingOf(...published, move(null, A), move(A, null, true))),
  ).toEqual([]);
  expect(trialsOf(registry, evidence)).toEqual(wins([A, B], 5));
  const file = registry.paths.trials(evidence[1]!);
  const changed = {
    code: 'REGISTRY_INVALID',
    message: `the trials ${file} are missing or changed`,
  };
  writeFileSync(file, readFileSync(file, 'utf8').replace('"p3"', '"p9"'));
  expect(() => trialsOf(registry, evidence)).toThrow(expect.objectContaining(changed) as never);
  rmSync(file);
  expect(() => trialsOf(registry, evidence)).toThrow(expect.objectContaining(changed) as never);
  expect(evidenceCourses(registry, readingOf(...events))).toEqual([]);
  expect(existsSync(registry.paths.trials(evidence[0]!))).toBe(true);
});

test('a look holds every trial of those before it: what it leaves out or changes is named, three of them and how many more', () => {
  const looks = new Looks();
  const trials = wins([B, A], 5);
  expect(looks.take({ trials, guards: { length: trials.slice(0, 2) } })).toEqual([]);
  expect(looks.trials(null)).toEqual(trials);
  expect(looks.trials('length')).toEqual(trials.slice(0, 2));
  const name = (problem: number, version: string): string =>
    `problem p${problem}, sample 0, version ${version.slice(0, 12)}`;
  const three = [
    `${name(0, B)} is left out`,
    `${name(0, A)} is left out`,
    `${name(1, B)} is left out`,
  ];
  expect(looks.take({ trials: trials.slice(3), guards: { length: trials.slice(0, 2) } })).toEqual(
    three,
  );
  expect(looks.take({ trials: trials.slice(4), guards: { length: trials.slice(0, 2) } })).toEqual([
    ...three,
    'and 1 more',
  ]);
  expect(
    looks.take({
      trials: trials.map((each) => ({ ...each, score: each === trials[0] ? 0.5 : each.score! })),
    }),
  ).toEqual([
    `${name(0, B)} is changed`,
    `guard length, ${name(0, B)} is left out`,
    `guard length, ${name(0, A)} is left out`,
  ]);
  // what failed may be repeated; what came out may not, and how it is written does not matter
  const other = new Looks();
  const [one, two] = [{ ...trials[0]!, problem: 'x'.repeat(70) }, trials[1]!];
  const { score: _, ...failed } = one;
  expect(other.take({ trials: [{ ...failed, error: 'no answer' }, two] })).toEqual([]);
  expect(
    other.take({ trials: [one, { ...two, sample: 0, lane: 'confirmation' }] as Trials }),
  ).toEqual([]);
  expect(other.take({ trials: [{ ...failed, error: 'no answer' }, two] })).toEqual([
    `problem ${'x'.repeat(60)}, sample 0, version ${B.slice(0, 12)} is changed`,
  ]);
  expect(other.take({ trials: [{ ...failed, error: 'again', epoch: '2' }, two] })).toEqual([
    `problem ${'x'.repeat(60)}, sample 0, version ${B.slice(0, 12)} is changed`,
  ]);
});

test('looks that are kept are read again, and a look that is gone or changed is refused', async () => {
  const trials = wins([B, A], 4);
  const first = await keepTrials(
    registry,
    trialsText(1, { seed: SEED, trials: trials.slice(0, 4) }),
  );
  const { events } = readingOf(...gateEvents('needs-more-trials', first));
  expect([looksAt(1, events), looksAt(2, events)]).toEqual([[first], []]);
  expect(keptLook(registry, first)).toEqual({ gate: 1, seed: SEED, trials: trials.slice(0, 4) });
  expect(earlierLooks(registry, 1, events).trials(null)).toEqual(trials.slice(0, 4));
  requireWhole(registry, 1, events, { trials });
  expect(() => requireWhole(registry, 1, events, { trials: trials.slice(1) })).toThrow(
    expect.objectContaining({
      code: 'GATE_EVIDENCE_INVALID',
      message:
        'gate 1 has earlier looks, and the evidence does not contain all of their trials unchanged: ' +
        `problem p0, sample 0, version ${B.slice(0, 12)} is left out`,
      remedy:
        'Give all trials of this gate together: those of the earlier looks, unchanged, and the new ones.',
    }) as never,
  );
  const file = registry.paths.trials(first);
  writeFileSync(file, `${readFileSync(file, 'utf8')} `);
  const gone = {
    code: 'REGISTRY_INVALID',
    message: `gate 1: the trials ${file} are missing or changed`,
  };
  for (const damage of [() => {}, () => rmSync(file)]) {
    damage();
    expect(keptLook(registry, first)).toBeNull();
    expect(() => earlierLooks(registry, 1, events)).toThrow(expect.objectContaining(gone) as never);
  }
});
