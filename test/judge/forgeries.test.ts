/**
 * A finished run of the embedded model, signed again by its owner with something changed: no lie of
 * these is passed.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { hashFile } from '../../src/engine/adapter.js';
import { weakenAdapter } from '../../src/engine/adapter-files.js';
import { resolveModel } from '../../src/engine/model-files.js';
import { measureProbe } from '../../src/evaluation/probe.js';
import { judgeRun, type JudgeReport } from '../../src/judge/judge.js';
import type { JudgeOptions } from '../../src/judge/options.js';
import { EventLog } from '../../src/log/event-log.js';
import { LogReader } from '../../src/log/read.js';
import { Random } from '../../src/random.js';
import { probeRecord } from '../../src/run-folder/course-records.js';
import {
  readManifest,
  startDigests,
  writeManifest,
  type RunStart,
} from '../../src/run-folder/manifest.js';
import { makeRunFolder, runPaths } from '../../src/run-folder/paths.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';
import { run } from '../../src/training/loop.js';
import { temporaryFolder } from '../models/signed-log.js';
import { localWitness } from '../models/tiny-run.js';

const folder = temporaryFolder();
afterAll(folder.remove);
const base = path.join(folder.path, 'base');
const home = path.join(folder.path, 'home');

type Payload = Record<string, unknown>;
type Records = readonly NewRunRecord[];
interface Forgery {
  readonly start?: (start: RunStart) => RunStart;
  readonly records?: (records: Records) => Records;
  /** Another file in the place of the adapter, of which the probe is honest. */
  readonly adapter?: (file: string) => Promise<string>;
  /** The states in the log stay those of the run; else the file is named in their place too. */
  readonly keepsStates?: boolean;
  readonly end?: object;
}

beforeAll(async () => {
  await run(
    {
      seed: '7',
      iterations: 2,
      model: { threads: 1 },
      sampling: { rollouts: 32, samples: 4 },
      optimiser: { stepsPerIteration: 3 },
      evaluation: { devSize: 2, testSize: 4 },
    },
    { out: base },
  );
  mkdirSync(home, { recursive: true });
}, 300_000);

function recordsOf(at: string): { records: NewRunRecord[]; end: object } {
  const reader = new LogReader(runPaths(at).log, RUN_STREAMS);
  try {
    const all = [...reader.records()];
    const {
      kind: _,
      heads: __,
      ...end
    } = all.find(({ payload }) => payload.kind === 'session_end')!.payload;
    const records = all
      .filter(({ stream, payload }) => stream !== 'control' && payload.kind !== 'probe')
      .map(({ stream, payload }) => ({ stream, payload }) as NewRunRecord);
    return { records, end };
  } finally {
    reader.close();
  }
}

let made = 0;
/** Every hash and head is right: a liar has a witness of his own. */
async function forged({
  start: edit = (start) => start,
  records: change = (all) => all,
  adapter,
  end: said = {},
  keepsStates = false,
}: Forgery): Promise<string> {
  const to = path.join(folder.path, `forged-${made++}`);
  const manifest = readManifest(base);
  const start = edit(structuredClone(manifest.start));
  const { records, end } = recordsOf(base);
  const runId = made.toString(16).padStart(32, '0');
  makeRunFolder(to);
  for (const name of readdirSync(runPaths(base).adapters))
    copyFileSync(path.join(runPaths(base).adapters, name), path.join(runPaths(to).adapters, name));
  const { path: modelPath } = await resolveModel('tiny', {});
  const honest = manifest.result!.adapter!;
  const sha256 =
    adapter === undefined
      ? honest
      : await adapter(runPaths(to).adapter(honest)).then(async (file) => {
          const hash = await hashFile(file);
          copyFileSync(file, runPaths(to).adapter(hash));
          return hash;
        });
  // the liar names his file wherever the honest one was named
  const named = change(records).map((record): NewRunRecord => {
    const isState = record.payload.kind === 'adapter_state' || record.payload.kind === 'gate';
    return keepsStates && isState
      ? record
      : (JSON.parse(JSON.stringify(record).replaceAll(honest, sha256)) as NewRunRecord);
  });
  const signer = localWitness(home);
  const log = await EventLog.create({
    path: runPaths(to).log,
    streams: RUN_STREAMS,
    runId,
    signer,
    runConfig: start as never,
    digests: startDigests(start),
  });
  log.append(named);
  const nonce = await log.reveal();
  log.append([
    probeRecord(
      await measureProbe({
        modelPath,
        adapter: { path: runPaths(to).adapter(sha256), sha256 },
        nonce,
        threads: 1,
      }),
    ),
  ]);
  await writeManifest(to, { ...manifest, runId, start, result: { adapter: sha256 } });
  await log.finish({ ...end, ...said } as never);
  await signer.close();
  return to;
}

const judged = (at: string, options: Partial<JudgeOptions> = {}): Promise<JudgeReport> =>
  judgeRun({ folder: at, home, fresh: 2, ...options });

const on =
  (kind: string, change: (payload: Payload) => Payload | null) =>
  (records: Records): Records =>
    records.flatMap((record) => {
      if (record.payload.kind !== kind) return [record];
      const payload = change(record.payload as Payload);
      return payload === null ? [] : [{ ...record, payload: payload as never }];
    });
const first = (
  kind: string,
  change: (payload: Payload) => Payload | null,
): ((records: Records) => Records) => {
  let done = false;
  return on(kind, (payload) => {
    if (done) return payload;
    done = true;
    return change(payload);
  });
};
/** The claim on the test set, with other verdicts. */
const claim = (when: 'before' | 'after', to: (kind: string, i: number) => string) =>
  on('held_out', (payload) => {
    if (payload.set !== 'test' || payload.when !== when) return payload;
    const {
      examples: _,
      lenient: __,
      why,
      ...rest
    } = payload as { outcomes: [string, string, string][]; why?: string[][] } & Payload;
    const kinds = rest.outcomes.map(([, , kind], i) => to(kind, i));
    return {
      ...rest,
      outcomes: rest.outcomes.map(([id, tier], i) => [id, tier, kinds[i]]),
      formed: kinds.map(() => true),
      why: why?.map((each, i) =>
        kinds[i] === 'pass'
          ? []
          : kinds[i] === 'none'
            ? ['timeout']
            : each.length === 0
              ? ['deadline']
              : each,
      ),
    };
  });
type Settings = Record<string, Record<string, unknown>>;
const settings =
  (change: (settings: Settings) => object) =>
  (start: RunStart): RunStart => ({
    ...start,
    settings: { ...start.settings, ...change(start.settings as unknown as Settings) } as never,
  });
/** On a machine of which ggml computes with what is given. */
const computed =
  (of: { readonly llamaRelease?: string; readonly features?: string[] }) =>
  (start: RunStart): RunStart => ({
    ...start,
    machine: { platform: 'linux', arch: 'x64', llamaRelease: 'b1', features: ['AVX2=1'], ...of },
  });
const machine = (start: RunStart): RunStart => ({
  ...start,
  machine: { platform: 'darwin', arch: 'arm64', llamaRelease: 'b1', features: ['NEON=1'] },
});
const all = (): string => 'pass';

test('the run as it stands passes, and so does it signed again', async () => {
  const report = await judged(await forged({}));
  expect([report.verdict, report.notVerified, report.failure]).toEqual(['pass', [], null]);
  expect(report.fresh!.measured.n).toBeGreaterThan(0);
}, 120_000);

describe('claims', () => {
  test.each<[string, Forgery]>([
    ['all solved on another system', { start: machine, records: claim('after', all) }],
    [
      'all solved with another llama.cpp',
      {
        start: computed({ llamaRelease: 'b99999' }),
        records: claim('after', all),
      },
    ],
    [
      'all solved with a feature more',
      {
        start: computed({ features: ['AVX2=1', 'ZZ=1'] }),
        records: claim('after', all),
      },
    ],
    [
      'all solved with other bits of our own kernels',
      {
        start: (start) => ({
          ...start,
          machine: { arch: process.arch, kernels: 'own', version: 1_000_000 },
        }),
        records: claim('after', all),
      },
    ],
    [
      'every other one solved, by another addon',
      {
        start: (start) => ({ ...start, code: { ...start.code, addon: 'ab'.repeat(32) } }),
        records: claim('after', (kind, i) => (i % 2 === 0 ? 'pass' : kind)),
      },
    ],
    [
      'half of the failures undecided',
      { records: claim('after', (kind, i) => (kind === 'fail' && i % 2 === 0 ? 'none' : kind)) },
    ],
    [
      'failures before undecided, elsewhere',
      {
        start: machine,
        records: claim('before', (kind, i) => (kind === 'fail' && i % 3 === 0 ? 'none' : kind)),
      },
    ],
  ])(
    '%s: hard fail',
    async (_, forgery) => {
      const report = await judged(await forged(forgery));
      expect([report.verdict, report.failure?.name]).toEqual(['hard_fail', 'test_set_evaluation']);
    },
    120_000,
  );

  test('a single verdict that is better than it was is never a pass on a machine of the class', async () => {
    let lied = false;
    const one = claim('after', (kind) => {
      if (kind !== 'fail' || lied) return kind;
      lied = true;
      return 'pass';
    });
    const report = await judged(await forged({ records: one }));
    expect([report.verdict, report.failure]).toEqual(['not_verified', null]);
    expect(report.notVerified.join()).toMatch(/differ here, on a machine of the run's class/);
  }, 120_000);
});

describe('what is not measured is not verified', () => {
  test.each<[string, Forgery, Partial<JudgeOptions>, RegExp]>([
    [
      'a built-in task of a later version',
      { start: (start) => ({ ...start, task: { ...start.task, version: '0' } }) },
      {},
      /the run's task is scheduling 0/,
    ],
    [
      'a built-in task that is a file, it says',
      { start: (start) => ({ ...start, task: { ...start.task, file: 'cd'.repeat(32) } }) },
      {},
      /is a user's file/,
    ],
    [
      'a task that nobody has',
      { start: (start) => ({ ...start, task: { ...start.task, id: 'none-such' } }) },
      {},
      /none-such/,
    ],
    [
      'an honest run without its test problems',
      {},
      { heldOut: 'none' },
      /test problems were not evaluated again/,
    ],
    [
      'an honest run without those before',
      {},
      { heldOut: 'after' },
      /before training was not measured/,
    ],
    ['an honest run without fresh problems', {}, { fresh: 0 }, /no fresh problems/],
  ])(
    '%s',
    async (_, forgery, options, reason) => {
      const report = await judged(await forged(forgery), options);
      expect([report.verdict, report.failure]).toEqual(['not_verified', null]);
      expect(report.notVerified.join('; ')).toMatch(reason);
    },
    120_000,
  );
});

/** Rollouts, steps and states of an iteration. */
const ofIteration =
  (n: number) =>
  (record: NewRunRecord): boolean =>
    record.payload.iteration === n && record.payload.kind !== 'checkpoint';

describe('courses: none without the one that the settings say', () => {
  const reported = (verdict: JudgeReport): [string, string | undefined] => [
    verdict.verdict,
    verdict.failure?.name,
  ];
  test.each<[string, Forgery]>([
    ['the seed of another run', { start: settings(() => ({ seed: '8' })) }],
    ['an iteration more', { start: settings(() => ({ iterations: 3 })) }],
    ['an iteration less', { start: settings(() => ({ iterations: 1 })) }],
    [
      'more rollouts',
      { start: settings(({ sampling }) => ({ sampling: { ...sampling, rollouts: 64 } })) },
    ],
    [
      'more steps',
      {
        start: settings(({ optimiser }) => ({
          optimiser: { ...optimiser, stepsPerIteration: 25 },
        })),
      },
    ],
    [
      'a larger batch',
      { start: settings(({ optimiser }) => ({ optimiser: { ...optimiser, batchSize: 4 } })) },
    ],
    [
      'another rate',
      { start: settings(({ optimiser }) => ({ optimiser: { ...optimiser, learningRate: 2e-3 } })) },
    ],
    [
      'a smaller test set than the settings say',
      { start: settings(({ evaluation }) => ({ evaluation: { ...evaluation, testSize: 100 } })) },
    ],
    [
      'settings that say nothing of the steps',
      {
        start: settings(({ optimiser }) => ({
          optimiser: { learningRate: optimiser!.learningRate },
        })),
      },
    ],
    [
      'an end for want of time, without a limit',
      {
        start: settings(() => ({ iterations: 4 })),
        end: { stopped: 'the 1 minutes of --max-minutes are over', seconds: 1e6 },
      },
    ],
    ['one seed twice', { records: first('rollout', (payload) => ({ ...payload, seed: '1' })) }],
    [
      'a rollout of the trained adapter in the first iteration',
      {
        records: on('rollout', (payload) => ({
          ...payload,
          adapterId: payload.iteration === 1 ? 'ab'.repeat(32) : payload.adapterId,
        })),
      },
    ],
    [
      'steps out of their order',
      { records: on('step', (payload) => ({ ...payload, step: Number(payload.step) + 1 })) },
    ],
    [
      'other tiers than the allocation gives',
      {
        start: settings(({ sampling }) => ({ sampling: { ...sampling, allocation: 'uniform' } })),
        records: (records) =>
          records.filter((record) => !ofIteration(2)(record) || record.stream !== 'rollouts'),
      },
    ],
  ])(
    '%s: hard fail',
    async (_, forgery) => {
      const [verdict, step] = reported(await judged(await forged(forgery), { heldOut: 'none' }));
      expect(verdict).toBe('hard_fail');
      expect([
        'course_verification',
        'figure_recomputation',
        'rule_recomputation',
        'architecture_replay',
        'rollout_verification',
      ]).toContain(step);
    },
    120_000,
  );

  test.each<[string, Forgery]>([
    [
      'no loop at all',
      {
        records: (records) =>
          records.filter(
            ({ payload }) =>
              payload.iteration === undefined ||
              (['held_out', 'layers'].includes(payload.kind) && payload.set !== 'dev'),
          ),
      },
    ],
    [
      'the last iteration left out',
      {
        records: (records) =>
          records.filter(
            (record) =>
              !ofIteration(2)(record) ||
              (record.payload.kind === 'held_out' && record.payload.set === 'test'),
          ),
      },
    ],
    [
      'a dev evaluation left out',
      {
        records: (records) =>
          records.filter(
            ({ payload }) =>
              payload.iteration !== 1 ||
              (payload.kind !== 'dev_reply' &&
                !(payload.kind === 'held_out' && payload.set === 'dev')),
          ),
      },
    ],
    ['no trivial policies', { records: on('policies', () => null) }],
  ])(
    '%s: hard fail',
    async (_, forgery) => {
      expect((await judged(await forged(forgery))).verdict).toBe('hard_fail');
    },
    120_000,
  );

  test('another adapter than the states lead to, weaker or drawn; named in them too, its score is what it reaches', async () => {
    const { path: model } = await resolveModel('tiny', {});
    const weak = async (file: string): Promise<string> => {
      const out = path.join(folder.path, 'weak.gguf');
      await weakenAdapter(file, { model, strength: 3 / 16, out });
      return out;
    };
    const drawn = async (file: string): Promise<string> => {
      const bytes = readFileSync(file);
      const random = new Random(5n);
      for (let i = 0; i < 200; i++)
        bytes.writeFloatLE(
          random.nextDouble() - 0.5,
          bytes.length - 4 * random.nextInteger(1, 2000),
        );
      const out = path.join(folder.path, 'drawn.gguf');
      writeFileSync(out, bytes);
      return out;
    };
    const failing = async (forgery: Forgery): Promise<string | undefined> =>
      (await judged(await forged(forgery))).failure?.name;
    expect(await failing({ adapter: weak, keepsStates: true })).toBe('course_verification');
    expect(await failing({ adapter: drawn, keepsStates: true })).toBe('course_verification');
    // named in the states too, it is as good as its claims are: training is not repeated
    // (docs/trust.md)
    const { failure, scores, fresh } = await judged(await forged({ adapter: weak }));
    expect(scores.accuracy_score).toBeCloseTo(
      failure === null ? fresh!.measured.mean! / 0.92 : 0,
      9,
    );
  }, 120_000);
});

describe('what a folder may ask for', () => {
  test('threads and contexts end at this machine', async () => {
    const more = await judged(
      await forged({
        start: (start) =>
          settings(({ model }) => ({ model: { ...model, threads: 256 } }))({
            ...start,
            evaluation: { ...start.evaluation, threads: 256 },
          }),
      }),
      { heldOut: 'none' },
    );
    expect([more.trust?.sameMachineClass, more.failure]).toEqual([false, null]);
    const memory = await forged({
      start: (start) => ({ ...start, evaluation: { ...start.evaluation, contextTokens: 2 ** 26 } }),
    });
    await expect(judged(memory)).rejects.toThrow(
      expect.objectContaining({ code: 'OUT_OF_MEMORY' }) as never,
    );
  }, 120_000);

  test('iterations without end are refused before anything compares them', async () => {
    const endless = on('iteration_report', (payload) => payload);
    const gates = Array.from(
      { length: 5000 },
      (): NewRunRecord => ({
        stream: 'effects',
        payload: { kind: 'gate', iteration: 1, cause: 'x', restored: 'ab'.repeat(32) },
      }),
    );
    const report = await judged(
      await forged({ records: (records) => [...endless(records), ...gates] }),
    );
    expect(report.failure?.detail).toMatch(/5000 records of kind gate|500\d records of kind gate/);
  }, 60_000);
});
