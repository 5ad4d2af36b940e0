/**
 * The judge on whole runs of a real trainer. Every attack is judged beside the honest run, which
 * has to pass: a judge that refuses everything detects nothing.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { hashFile } from '../../src/engine/adapter.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { evaluationRecord, readHistory } from '../../src/run-folder/monitor-records.js';
import { judgeRun, type JudgeReport } from '../../src/judge/judge.js';
import type { JudgeOptions } from '../../src/judge/options.js';
import {
  OTHER_MACHINE_TOLERANCE,
  SAME_MACHINE_TOLERANCE,
} from '../../src/judge/live-diagnostic.js';
import { loadModel } from '../../src/engine/model.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import type { LogValue } from '../../src/log/payload.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { publicKeyFile } from '../../src/log/witness-key.js';
import type { Json } from '../../src/canonical-json.js';
import {
  readManifest,
  startDigests,
  writeManifest,
  type RunManifest,
  type RunStart,
} from '../../src/run-folder/manifest.js';
import type { AdmissionSettings } from '../../src/algorithms/algorithm.js';
import { RolloutTally } from '../../src/run-folder/derived-figures.js';
import { adapterTargets, gateRecord } from '../../src/run-folder/course-records.js';
import { openTask } from '../../src/tasks/open-task.js';
import { problemId } from '../../src/tasks/problem-id.js';
import type { Problem } from '../../src/tasks/task.js';
import { runCli } from '../cli/run-cli.js';
import { temporaryFolder } from '../models/signed-log.js';
import {
  localWitness,
  signTinyRun,
  TEST,
  trainTinyRun,
  withFates,
  type Cheat,
  type SignedRun,
  type TrainedRun,
} from '../models/tiny-run.js';
import type { NewRunRecord } from '../../src/run-folder/streams.js';

const folder = temporaryFolder();
let trained: TrainedRun;
let honest: SignedRun;
let honestReport: JudgeReport;
type Adapter = NonNullable<Cheat['adapter']>;
/** The submitted adapter with B = 0, and one of another structure that is as good as trained. */
let zero: Adapter;
let smaller: Adapter;

const judged = (
  { folder: run, home }: SignedRun,
  options: Partial<JudgeOptions> = {},
): Promise<JudgeReport> =>
  judgeRun({ folder: run, home, model: trained.model, heldOut: 'none', ...options });
let runs = 0;
const cheating = (cheat: Cheat): Promise<SignedRun> =>
  signTinyRun(trained, join(folder.path, `run-${runs++}`), cheat);

/** A copy of the honest run, for whoever has the folder and not the witness. */
function copied(): SignedRun {
  const at = join(folder.path, `copy-${runs++}`);
  cpSync(honest.folder, join(at, 'run'), { recursive: true });
  return { folder: join(at, 'run'), home: honest.home };
}

async function makeAdapter(
  name: string,
  options: Parameters<typeof createTrainer>[1],
  from?: string,
): Promise<Adapter> {
  const path = join(folder.path, `${name}.gguf`);
  await using trainer = await createTrainer({ path: trained.model }, { threads: 1, ...options });
  if (from !== undefined) await trainer.importAdapter(from);
  return {
    path,
    sha256: await trainer.exportAdapter(path),
    targets: adapterTargets(trainer.info.targets),
  };
}

beforeAll(async () => {
  trained = await trainTinyRun(join(folder.path, 'trained'));
  honest = await signTinyRun(trained, join(folder.path, 'honest'));
  honestReport = await judged(honest, { task: trained.task, heldOut: 'both' });
  const ranks = new Set(Object.values(trained.adapter.targets).map(({ rank }) => rank));
  const scale = Object.values(trained.adapter.targets)[0]!.scale;
  zero = await makeAdapter('zero', {
    lora: { targets: ['q', 'v', 'down'], rank: [...ranks][0]!, alpha: scale * [...ranks][0]! },
  });
  smaller = await makeAdapter('smaller', { lora: { targets: ['q'], rank: 2 } });
}, 300_000);
afterAll(folder.remove);

/** The attack fails at this step, and both scores with it; the honest run does not. */
async function failsAt(
  step: number,
  report: Promise<JudgeReport> | JudgeReport,
  detail?: RegExp,
): Promise<void> {
  const { verdict, failure, scores, steps } = await report;
  expect([verdict, failure?.step]).toEqual(['hard_fail', step]);
  if (detail !== undefined) expect(failure!.detail).toMatch(detail);
  expect(scores).toMatchObject({
    hard_fail: true,
    failed_step: step,
    accuracy_score: 0,
    process_score: 0,
  });
  expect(steps.filter(({ status }) => status === 'hard_fail').map((each) => each.step)).toEqual([
    step,
  ]);
  expect(honestReport.verdict).toBe('pass');
}

type Records = NonNullable<Cheat['records']>;
const onRecord =
  (kind: string, change: (record: NewRunRecord) => NewRunRecord[]): Records =>
  (batch) =>
    batch.flatMap((record) => (record.payload.kind === kind ? change(record) : [record]));
/** Changes the records and has the rules evaluated on what is left, so that step 8 agrees. */
function reevaluated(change: Records): Records {
  const batches = trained.batches.map((batch, i) => change([...batch], i));
  const records = batches.flat().map((record, gseq) => ({ ...record, gseq, sseq: 0, timeUs: 0 }));
  const evaluations = new Map(
    evaluateHistory(readHistory(records, LORA.trainee), trained.start.rules, LORA.ruleSet).map(
      (evaluation) => [evaluation.iteration, evaluation],
    ),
  );
  return (_, i) =>
    batches[i]!.map((record) =>
      record.payload.kind === 'rule_eval'
        ? evaluationRecord(evaluations.get(Number(record.payload.iteration))!)
        : record,
    );
}

/** Changes verdicts, and with them everything that the log derives from verdicts. */
const consistently = (change: Records, rules?: AdmissionSettings): Records => {
  const tally = new RolloutTally();
  return reevaluated((batch, i) => {
    const changed = withFates(i, change([...batch], i), rules);
    for (const { payload } of changed) if (payload.kind === 'rollout') tally.take(payload as never);
    return changed.map((record) =>
      record.payload.kind === 'iteration'
        ? withPayload(record, {
            objective: tally.objective(i),
            informativeGroupFraction: tally.informative(i),
          })
        : record,
    );
  });
};

const withPayload = (record: NewRunRecord, change: object): NewRunRecord => ({
  ...record,
  payload: { ...record.payload, ...change } as never,
});

describe('an honest run', () => {
  test('passes every step, with both scores and its own accuracy', () => {
    expect(trained.accuracy).toEqual({ before: 0, after: 1 });
    expect(honestReport).toMatchObject({ verdict: 'pass', failure: null, violations: [] });
    expect(honestReport.steps.map(({ step, status }) => `${step} ${status}`)).toEqual([
      '5 pass',
      '0 pass',
      '8 findings',
      '12 pass',
      '1 pass',
      '2 pass',
      '3 pass',
      '4 pass',
      '13 pass',
      '6 pass',
      '7 pass',
      '14 pass',
      '15 pass',
      '8 pass',
      '9 pass',
      '10 pass',
      '11 pass',
    ]);
    expect(honestReport.scores).toMatchObject({
      accuracy_score: 1,
      process_score: 1,
      process_axis_exercised: true,
      hard_fail: false,
      failed_step: null,
    });
    expect(honestReport.heldOut).toMatchObject({
      before: { differing: 0, p: 1, measured: { mean: 0, n: 20 } },
      after: { differing: 0, p: 1, measured: { mean: 1, n: 20 } },
      policies: { silent: { mean: 0 } },
    });
    expect(honestReport.trust).toMatchObject({
      signer: 'witness',
      ownedByThisUser: true,
      sameMachineClass: true,
      ticket: { number: 1, unfinishedBefore: 0 },
    });
    // the replay had something to do
    expect(new Set(Object.values(trained.adapter.targets).map(({ rank }) => rank))).not.toEqual(
      new Set([4]),
    );
  });

  test('is judged the same with a key file of another user, who is told so', async () => {
    const key = join(folder.path, 'witness.pub');
    cpSync(publicKeyFile(honest.home), key);
    const report = await judgeRun({
      folder: honest.folder,
      home: join(folder.path, 'elsewhere'),
      model: trained.model,
      keyFile: key,
      heldOut: 'none',
    });
    expect(report).toMatchObject({
      verdict: 'not_verified',
      failure: null,
      trust: { ownedByThisUser: false },
    });
  });

  test('of version 1, whose settings lie side by side, passes every step', async () => {
    const { model, sampling, optimiser, evaluation, algorithm, buffer, ...rest } = trained.start
      .settings as Record<string, Record<string, Json>>;
    const settings = {
      ...rest,
      ...model,
      ...sampling,
      ...optimiser,
      ...evaluation,
      algorithm: algorithm!.id,
      ...buffer,
      buffer: buffer!.kind,
    } as RunStart['settings'];
    const old = await cheating({
      start: (start) => ({ ...start, settings }),
      manifest: (manifest) => ({ ...manifest, format: 'isopro.run.v1' }),
    });
    expect(
      Object.values(readManifest(old.folder).start.settings).filter(
        (value) => typeof value === 'object',
      ),
    ).toEqual([]);
    const report = await judged(old, { task: trained.task, heldOut: 'both' });
    expect(report).toMatchObject({ verdict: 'pass', failure: null });
    expect(report.steps.map(({ step, status }) => [step, status])).toEqual(
      honestReport.steps.map(({ step, status }) => [step, status]),
    );
    // the settings are read: as one of other settings it fails
    await failsAt(
      12,
      judged(
        await cheating({ start: (start) => ({ ...start, settings: { ...settings, samples: 5 } }) }),
      ),
      /has 4 samples/,
    );
    await failsAt(
      12,
      judged(await cheating({ start: (start) => ({ ...start, settings: { seed: '42' } }) })),
      /started with invalid settings/,
    );
  });

  test('has no accuracy where the task is not named again or is another file, and is not verified', async () => {
    const skipped = await judged(honest, { heldOut: 'both' });
    expect(skipped).toMatchObject({
      verdict: 'not_verified',
      heldOut: null,
      scores: { accuracy_score: null, process_score: 1 },
    });
    const other = join(folder.path, 'other.mjs');
    writeFileSync(other, `${readFileSync(trained.task, 'utf8')}// changed\n`);
    const report = await judged(honest, { heldOut: 'both', task: other });
    expect(report.scores.accuracy_score).toBeNull();
    expect(report.steps.find(({ step }) => step === 10)).toMatchObject({
      status: 'skipped',
      detail: expect.stringMatching(/SHA-256/),
    });
  });

  test("of other code than the judge's passes, and the difference is named", async () => {
    const report = await judged(
      await cheating({
        start: (start) => ({ ...start, code: { ...start.code, javascript: 'ab'.repeat(32) } }),
      }),
    );
    expect([report.verdict, report.failure]).toEqual(['not_verified', null]);
    expect(report.steps.find(({ step }) => step === 4)).toMatchObject({
      status: 'findings',
      detail: expect.stringMatching(/differs from this judge's: javascript abababababab/),
    });
    expect(honestReport.steps.find(({ step }) => step === 4)).toMatchObject({ status: 'pass' });
  });

  test('of the bare base: nothing trained, nothing to replay, its own accuracy', async () => {
    const run = await cheating({
      adapter: null,
      records: (batch) =>
        batch.filter(({ payload }) => ['held_out', 'dev_reply'].includes(String(payload.kind))),
      after: (record) =>
        withPayload(record, { outcomes: trained.batches[0]![0]!.payload.outcomes }),
    });
    const report = await judged(run, { heldOut: 'both', task: trained.task });
    expect(report).toMatchObject({
      verdict: 'pass',
      scores: { accuracy_score: 0, process_score: null, process_axis_exercised: false },
    });
  });

  test('without a witness passes and says that nobody kept its heads', async () => {
    const run = await cheating({ signer: (home) => new SingleProcessSigner(home) });
    expect(await judged(run, { task: trained.task, heldOut: 'both' })).toMatchObject({
      verdict: 'pass',
      trust: { signer: 'single-process', ownedByThisUser: true },
    });
  });
});

describe('the check cannot be made (an error, not a verdict)', () => {
  const refused = (code: string): never => expect.objectContaining({ code }) as never;
  test('with another base model', async () => {
    const model = join(folder.path, 'other.gguf');
    const bytes = readFileSync(trained.model);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(model, bytes);
    await expect(judged(honest, { model })).rejects.toThrow(refused('INVALID_ARGUMENT'));
    // where none is named, none is blamed
    const unnamed = await judgeRun({
      folder: honest.folder,
      home: honest.home,
      heldOut: 'none',
    }).catch((error: unknown) => error);
    const { name } = readManifest(honest.folder).start.model;
    expect(unnamed).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: `the run's base model is ${name}, by its manifest, and you did not name a model`,
      remedy: expect.stringContaining('--model'),
    });
  });
  test('with a key that lies in the run folder, a key that is not there, or none at all', async () => {
    const run = copied();
    cpSync(publicKeyFile(honest.home), join(run.folder, 'key.pub'));
    symlinkSync(join(run.folder, 'key.pub'), join(folder.path, 'link.pub'));
    for (const keyFile of [join(run.folder, 'key.pub'), join(folder.path, 'link.pub')])
      await expect(judged(run, { keyFile })).rejects.toThrow(refused('INVALID_ARGUMENT'));
    await expect(judged(run, { keyFile: join(folder.path, 'none.pub') })).rejects.toThrow(
      refused('WITNESS_KEY_MISSING'),
    );
    await expect(judged({ ...run, home: join(folder.path, 'no-home') })).rejects.toThrow(
      refused('WITNESS_KEY_MISSING'),
    );
  });
  test('where there is no log', async () => {
    const run = copied();
    rmSync(join(run.folder, 'log.sqlite'));
    await expect(judged(run)).rejects.toThrow(refused('LOG_NOT_FOUND'));
  });
});

describe('the log (cases 82 to 89, cheat 3, X1, X2, X4, X19)', () => {
  /** Plain SQL with the triggers aside and put back. */
  const edited = (change: (db: Database.Database) => void): SignedRun => {
    const run = copied();
    const db = new Database(join(run.folder, 'log.sqlite'));
    const triggers = db
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
      .all() as { name: string; sql: string }[];
    for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
    change(db);
    for (const { sql } of triggers) db.exec(sql);
    db.close();
    return run;
  };
  const SWAP =
    'UPDATE log SET gseq = -1 WHERE gseq = 20; UPDATE log SET gseq = 20 WHERE gseq = 21; UPDATE log SET gseq = 21 WHERE gseq = -1';
  test.each<[string, string]>([
    ['cheat 3: the hash of a past record', 'UPDATE log SET leaf = zeroblob(32) WHERE gseq = 3'],
    [
      '83: a payload',
      'UPDATE log SET payload = replace(payload, \'"loss":\', \'"l0ss":\') WHERE instr(payload, \'"loss":\') > 0',
    ],
    ['84: a record left out', 'DELETE FROM log WHERE gseq = 5'],
    ['85: a time that goes back', 'UPDATE log SET ts_us = ts_us + 10000000 WHERE gseq = 6'],
    ['87: no session start', 'DELETE FROM log WHERE gseq = 0'],
    ['X19: two records change places', SWAP],
    ['X19: a time alone', 'UPDATE log SET ts_us = ts_us + 1 WHERE gseq = 7'],
    [
      'X2: the last iteration cut off, an end of the session put behind it',
      'DELETE FROM log WHERE gseq BETWEEN (SELECT max(gseq) - 8 FROM log) AND (SELECT max(gseq) - 1 FROM log)',
    ],
  ])('%s: hard fail', async (_, sql) => {
    await failsAt(5, judged(edited((db) => void db.exec(sql))));
  });

  test('X2, 86: cut back to an earlier head with that head left: truncated for whoever asks the witness', async () => {
    const run = edited((db) => {
      const sizes = db
        .prepare('SELECT size FROM checkpoint ORDER BY size')
        .pluck()
        .all() as number[];
      const size = sizes[4]!;
      db.prepare('DELETE FROM log WHERE gseq >= ?').run(size);
      db.prepare('DELETE FROM checkpoint WHERE size > ?').run(size);
    });
    await failsAt(5, judged(run), /truncated/);
    // with the public key alone it looks like a run that has not ended, and is not scored
    const key = join(folder.path, 'alone.pub');
    cpSync(publicKeyFile(honest.home), key);
    const alone = await judgeRun({
      folder: run.folder,
      home: join(folder.path, 'nobody'),
      keyFile: key,
      model: trained.model,
    });
    expect(alone).toMatchObject({
      verdict: 'not_ended',
      scores: { accuracy_score: null, process_score: null, hard_fail: false },
    });
  });

  test("X1: everything written anew, every hash right, under a witness of one's own", async () => {
    const forged = await cheating({ after: (record) => record });
    await failsAt(5, judged({ folder: forged.folder, home: honest.home }));
  });

  test('X4: the log of another run of the same witness', async () => {
    const home = join(folder.path, 'shared-home');
    mkdirSync(home);
    const signer = (): ReturnType<typeof localWitness> => localWitness(home);
    const [a, b] = [
      await cheating({ signer, runId: 'aaaa'.repeat(8) }),
      await cheating({ signer, runId: 'bbbb'.repeat(8) }),
    ];
    expect((await judged({ folder: a.folder, home })).failure).toBeNull();
    cpSync(join(b.folder, 'log.sqlite'), join(a.folder, 'log.sqlite'));
    await failsAt(
      4,
      judged({ folder: a.folder, home }),
      /belongs to run \w+ and the manifest to run/,
    );
    const verify = async (
      target: string,
    ): Promise<{ outcome: string; disagreement: object | null }> =>
      JSON.parse(
        (await runCli(['log', 'verify', target, '--json'], { ISOPRO_HOME: home })).stdout,
      ) as never;
    expect(await verify(a.folder)).toMatchObject({
      outcome: 'tampered',
      disagreement: { table: 'log', at: 0, reason: expect.stringMatching(/another run, bbbb/) },
    });
    expect(await verify(b.folder)).toMatchObject({ outcome: 'ok' });
    // nothing names the run that it has to be of
    expect(await verify(join(a.folder, 'log.sqlite'))).toMatchObject({ outcome: 'ok' });
    // rows of it inside this one
    const run = edited((db) => {
      db.exec(
        `ATTACH '${join(b.folder, 'log.sqlite')}' AS other; DELETE FROM log WHERE gseq = 9; INSERT INTO log SELECT * FROM other.log ` +
          `WHERE gseq = 9`,
      );
    });
    await failsAt(5, judged(run));
  });

  test('X19: a page of the file overwritten, the file cut in the middle', async () => {
    for (const damage of [
      (bytes: Buffer) => bytes.fill(0xff, 4096, 8192),
      (bytes: Buffer) => bytes.subarray(0, bytes.length / 2),
    ]) {
      const run = copied();
      const path = join(run.folder, 'log.sqlite');
      writeFileSync(path, damage(readFileSync(path)));
      await failsAt(5, judged(run));
    }
  });
});

describe('rules (X3, X5 to X8, X14 on a whole run; each in its variants in log-steps.test.ts)', () => {
  test.each<[string, Records]>([
    ['X3: no evaluations', onRecord('rule_eval', () => [])],
    [
      'X6: a decision of another iteration',
      onRecord('decision', (record) => [withPayload(record, { iteration: 1 })]),
    ],
    [
      'X5: a decision without a cite',
      onRecord('decision', (record) => [withPayload(record, { cites: [] })]),
    ],
    [
      'X7: measured values replaced',
      onRecord('step', (record) => [
        withPayload(record, {
          modules: Object.fromEntries(
            Object.entries(record.payload.modules as object).map(([name, each]) => [
              name,
              { ...(each as object), updateRatio: 1e-3 },
            ]),
          ),
        }),
      ]),
    ],
    [
      'X8: nothing fired, it says',
      onRecord('rule_eval', (record) => [withPayload(record, { fired: [] })]),
    ],
    [
      'X14: a value that is not finite, hushed up',
      onRecord('step', (record) => [
        record.payload.step === 9
          ? withPayload(record, { loss: NaN, nonFinite: ['loss'], applied: false })
          : record,
      ]),
    ],
  ])('%s: hard fail', async (_, records) => {
    await failsAt(8, judged(await cheating({ records })));
  });

  test('cheat 5: decisions left out cost the process score and nothing else; cheat 1: files beside the log cost nothing', async () => {
    const run = await cheating({
      records: (batch) => batch.filter(({ stream }) => stream !== 'decisions'),
    });
    const report = await judged(run);
    expect(report).toMatchObject({ failure: null, scores: { process_score: 0, hard_fail: false } });
    expect(report.violations.every(({ kind }) => kind === 'missing')).toBe(true);
    expect(report.steps.find(({ name }) => name === 'rule_coverage_audit')).toMatchObject({
      status: 'findings',
    });
    const shadow = copied();
    for (const name of ['decision_log.jsonl', 'model.py', 'judge_logs.jsonl'])
      writeFileSync(join(shadow.folder, name), 'junk');
    expect(await judged(shadow)).toMatchObject({ failure: null, scores: { process_score: 1 } });
  });

  test('X15: the rate of the step after a remedy is not the one that was claimed', async () => {
    const run = await cheating({
      records: onRecord('effect', (record) => [
        (record.payload.operation as { op: string }).op === 'set_lr'
          ? withPayload(record, { measured: { learningRate: 1e-5, maxNorm: 1 } })
          : record,
      ]),
    });
    const report = await judged(run);
    expect(report.violations.map(({ kind }) => kind)).toContain('not_executed');
    expect(report.scores.process_score).toBeLessThan(1);
    expect(honestReport.scores.process_score).toBe(1);
  });
});

describe('figures: nothing that a run says of itself in sums is believed', () => {
  test("thresholds that are not the profile's are named, and are no failure", () => {
    expect(honestReport.ruleSettings).toContain('r4.window 3 (5)');
    expect(honestReport.steps.find(({ name }) => name === 'rule_recomputation')!.detail).toMatch(
      /differ from the profile: .*r4\.window 3 \(5\)/,
    );
  });

  const REPORT = {
    kind: 'iteration_report',
    iteration: 3,
    data: '',
    adapterId: '',
    samplerGap: null,
    learningRate: 1e-3,
    seconds: { rollouts: 0, training: 0, evaluation: 0 },
    tokens: { sampled: 0, trained: 0 },
  } as const;
  const summary = { mean: 0.97, low: 0.95, high: 0.99, n: 20, none: 0, valid: true, byTier: {} };
  const measuring = (change: object): Records =>
    reevaluated(
      onRecord('iteration', (record) => [
        record.payload.iteration === 6 ? withPayload(record, change) : record,
      ]),
    );
  test.each<[string, () => Cheat]>([
    [
      'a summary beside the verdicts',
      () => ({ after: (record) => withPayload(record, { summary }) }),
    ],
    [
      'a summary of the trivial policies',
      () => ({
        records: onRecord('policies', (record) => [
          withPayload(record, { summaries: { silent: summary } }),
        ]),
      }),
    ],
    [
      'a policy with too few verdicts',
      () => ({
        records: onRecord('policies', (record) => [
          withPayload(record, { outcomes: { silent: ['fail'] } }),
        ]),
      }),
    ],
    [
      "an iteration's figures",
      () => ({
        records: (batch, i) =>
          i === 3
            ? [...batch, { stream: 'evaluations', payload: { ...REPORT, dev: summary as never } }]
            : batch,
      }),
    ],
    [
      'the train objective',
      () => ({ records: measuring({ objective: { value: 0.5, standardError: 0.001 } }) }),
    ],
    [
      'the standard error of it',
      () => ({
        records: onRecord('iteration', (record) => [
          withPayload(record, {
            objective: { ...(record.payload.objective as object), standardError: 0.4 },
          }),
        ]),
      }),
    ],
    [
      'the part of groups that carry a gradient',
      () => ({ records: measuring({ informativeGroupFraction: 0.125 }) }),
    ],
    [
      'an evaluation on dev problems that were never asked',
      () => ({
        records: measuring({
          heldOut: {
            passRate: 0.9,
            n: 8,
            verdicts: [{ weight: 1, verdicts: 'pppppppf' }],
            best: [{ weight: 1, verdicts: 'ffffffff' }],
          },
        }),
      }),
    ],
    [
      'a rollback by the gate that the dev verdicts do not ask for',
      () => ({
        records: onRecord('iteration', (record) => [
          ...(record.payload.iteration === 6
            ? [gateRecord({ iteration: 6, cause: 'dev accuracy fell', restored: 'a'.repeat(64) })]
            : []),
          record,
        ]),
      }),
    ],
    [
      'an evaluation that leaves out a problem',
      () => ({
        after: (record) =>
          withPayload(record, { outcomes: (record.payload.outcomes as LogValue[]).slice(1) }),
      }),
    ],
    [
      '138: an evaluation without outcomes',
      () => ({ after: (record) => withPayload(record, { outcomes: [] }) }),
    ],
    [
      'rollouts left out',
      () => ({
        records: (batch, i) =>
          i === 6
            ? batch.filter(
                ({ payload }) =>
                  payload.kind !== 'rollout' ||
                  (payload.verdict as { kind: string }).kind === 'pass',
              )
            : batch,
      }),
    ],
  ])('made up (%s): hard fail', async (_, cheat) => {
    const { records, ...rest } = cheat();
    // what the rules make of it is recomputed, so that nothing but the measurement itself is false
    await failsAt(
      12,
      judged(
        await cheating({
          ...rest,
          ...(records === undefined ? {} : { records: reevaluated(records) }),
        }),
      ),
    );
  });
});

describe('what training takes: decided again from verdicts, ends and tokens', () => {
  type Payload = NewRunRecord['payload'];
  type Rules = Partial<{
    algorithm: string;
    buffer: AdmissionSettings['buffer']['kind'];
    accept: AdmissionSettings['buffer']['accept'];
  }>;
  /**
   * The honest run under other rules, and with the first rollout changed that is what is looked
   * for.
   */
  const under = (
    rules: Rules,
    which?: (payload: Payload) => boolean,
    change: object = {},
  ): Promise<SignedRun> => {
    const all: AdmissionSettings = {
      algorithm: { id: rules.algorithm ?? 'rft' },
      buffer: { kind: rules.buffer ?? 'classic', accept: rules.accept ?? 'passing' },
    };
    const honestly = consistently((batch) => batch, all);
    let wanted = which;
    return cheating({
      start: (start) => ({
        ...start,
        settings: { ...start.settings, ...all } as unknown as RunStart['settings'],
      }),
      records: (batch, i) =>
        honestly(batch, i).map((record) => {
          if (record.payload.kind !== 'rollout' || wanted?.(record.payload) !== true) return record;
          wanted = undefined;
          return withPayload(record, change);
        }),
    });
  };
  const is =
    (admission: string) =>
    (payload: Payload): boolean =>
      payload.admission === admission;
  const kind = (payload: Payload): string => (payload.verdict as { kind: string }).kind;

  test.each<[string, Rules]>([
    ['grpo', { algorithm: 'grpo' }],
    ['what failed', { accept: 'failing' }],
    ['verdicts that were shuffled', { accept: 'shuffled' }],
    ['verdicts that were drawn', { accept: 'random' }],
    ['no duplicates', { buffer: 'balanced' }],
  ])('an honest run with %s passes', async (_, rules) => {
    // its steps were taken under other rules, which is found two steps on
    const { steps, failure } = await judged(await under(rules));
    expect([steps.find(({ step }) => step === 12)!.status, failure?.step ?? 14]).toEqual([
      'pass',
      14,
    ]);
  });

  test.each<[string, Rules, (payload: Payload) => boolean, object]>([
    [
      'grpo: an advantage that is another',
      { algorithm: 'grpo' },
      is('contrasted'),
      { advantage: 3 },
    ],
    [
      'grpo: the sign of one turned round',
      { algorithm: 'grpo' },
      (payload) => Number(payload.advantage) < 0,
      { advantage: 0.5773495 },
    ],
    [
      'grpo: one that says it was contrasted, and had nothing to be contrasted with',
      { algorithm: 'grpo' },
      is('uninformative'),
      { admission: 'contrasted', advantage: 1 },
    ],
    [
      'grpo: one that says that it was not trained on',
      { algorithm: 'grpo' },
      is('contrasted'),
      { admission: 'uninformative' },
    ],
    ['a failure that is trained on', {}, is('failed'), { admission: 'admitted' }],
    ['a pass that is not', {}, is('admitted'), { admission: 'failed' }],
    [
      'the control of failures, trained on a pass',
      { accept: 'failing' },
      (payload) => kind(payload) === 'pass',
      { admission: 'admitted' },
    ],
    [
      'the shuffled control, one that was not drawn',
      { accept: 'shuffled' },
      (payload) => payload.admission === 'failed' && kind(payload) === 'pass',
      { admission: 'admitted' },
    ],
    [
      'the shuffled control, one that was',
      { accept: 'shuffled' },
      (payload) => payload.admission === 'admitted' && kind(payload) === 'fail',
      { admission: 'failed' },
    ],
    [
      'the random control, one that was not drawn',
      { accept: 'random' },
      (payload) => payload.admission === 'failed' && kind(payload) === 'pass',
      { admission: 'admitted' },
    ],
    [
      'the random control, one that was',
      { accept: 'random' },
      (payload) => payload.admission === 'admitted' && kind(payload) === 'fail',
      { admission: 'failed' },
    ],
    ['the same answer twice', { buffer: 'balanced' }, is('duplicate'), { admission: 'admitted' }],
    ['how often one is drawn', {}, is('admitted'), { weight: 1 }],
    ['one that is counted twice', {}, (payload) => payload.sample === 1, { sample: 0 }],
  ])('said otherwise (%s): hard fail', async (_, rules, which, change) => {
    await failsAt(12, judged(await under(rules, which, change)), /record \d+/);
  });
});

describe('rollouts: every verdict is given again, and no problem of an evaluation set is among them', () => {
  const verified = (run: SignedRun): Promise<JudgeReport> => judged(run, { task: trained.task });
  /** The first problem of iteration 2 and its samples. */
  const firstGroup =
    (change: (record: NewRunRecord) => NewRunRecord): Records =>
    (batch, i) => {
      if (i !== 2) return batch;
      const at = batch.findIndex(({ payload }) => payload.kind === 'problem');
      const end = batch.findIndex(({ payload }, index) => index > at && payload.kind !== 'rollout');
      return batch.map((record, index) => (index >= at && index < end ? change(record) : record));
    };
  /** The same verdicts in another group: no figure changes. */
  const instead = (problem: Problem, promptIds: readonly number[]) =>
    firstGroup((record) =>
      withPayload(record, {
        problemId: problem.id,
        tier: problem.tier,
        ...(record.payload.kind === 'problem' ? { problem, promptIds } : {}),
      }),
    );
  let heldOut: { problem: Problem; promptIds: number[] };
  beforeAll(async () => {
    await using model = await loadModel(trained.model, { threads: 1, contextTokens: 2048 });
    await using task = await openTask(trained.task);
    const { problems } = await evaluationSet(task, 'test', TEST);
    const problem = problems[0]!;
    heldOut = {
      problem,
      promptIds: [...model.renderChat(await task.prompt(problem, 'plain')).tokenIds],
    };
  });

  test('a failure logged as a pass, with every figure that follows from it', async () => {
    const failing = trained.batches[5]!.findIndex(
      ({ payload }) =>
        payload.kind === 'rollout' && (payload.verdict as { kind: string }).kind === 'fail',
    );
    const flipped: Records = (batch, i) =>
      i === 5
        ? batch.map((record, index) =>
            index === failing
              ? withPayload(record, { verdict: { kind: 'pass', violations: [] } })
              : record,
          )
        : batch;
    await failsAt(
      13,
      verified(await cheating({ records: consistently(flipped) })),
      /the run logged pass, but the verifier says fail/,
    );
  });

  test('a score that the verifier does not give, on rollouts, on dev problems and of trivial policies', async () => {
    const rollouts = onRecord('rollout', (record) => [
      withPayload(record, { verdict: { ...(record.payload.verdict as object), score: 0.9 } }),
    ]);
    const silent = (of: readonly unknown[]): object[] =>
      of.map((_, i) => (i === 0 ? { score: 0.9 } : {}));
    const dev = onRecord('held_out', (record) => [
      record.payload.set === 'dev'
        ? withPayload(record, { figures: silent(record.payload.outcomes as []) as never })
        : record,
    ]);
    const policies = onRecord('policies', (record) => [
      withPayload(record, {
        figures: Object.fromEntries(
          Object.entries(record.payload.outcomes as Record<string, []>).map(([policy, of]) => [
            policy,
            silent(of),
          ]),
        ) as never,
      }),
    ]);
    for (const records of [rollouts, dev, policies])
      await failsAt(
        13,
        verified(await cheating({ records })),
        /the run logged the figures \{"score":0\.9\}, but the verifier finds \{\}/,
      );
  });

  test('a dev reply that was read otherwise than the run says', async () => {
    const unread = onRecord('held_out', (record) => {
      const kinds = (record.payload.outcomes as [string, string, string][]).map(
        ([, , kind]) => kind,
      );
      const first = kinds.indexOf('fail');
      return [
        record.payload.set === 'dev'
          ? withPayload(record, { formed: kinds.map((_, i) => i !== first) })
          : record,
      ];
    });
    await failsAt(
      13,
      verified(await cheating({ records: unread })),
      /well-formed, but the task disagrees/,
    );
  });

  test('why a reply to a dev problem fails: as the verifier says it', async () => {
    const other = onRecord('held_out', (record) => {
      const kinds = (record.payload.outcomes as [string, string, string][]).map(
        ([, , kind]) => kind,
      );
      return [
        record.payload.set === 'dev'
          ? withPayload(record, { why: kinds.map((kind) => (kind === 'fail' ? ['another'] : [])) })
          : record,
      ];
    });
    await failsAt(
      13,
      verified(await cheating({ records: other })),
      /its reply breaks another, but the verifier finds/,
    );
  });

  test('readings that are not one to a verdict, and a pass that was not read', async () => {
    const few = onRecord('held_out', (record) => [withPayload(record, { formed: [true] })]);
    const unread = onRecord('held_out', (record) => [
      withPayload(record, {
        lenient: (record.payload.outcomes as []).map(() => 'fail') as never,
        outcomes: (record.payload.outcomes as [string, string, string][]).map(([id, tier]) => [
          id,
          tier,
          'pass',
        ]),
      }),
    ]);
    for (const records of [few, unread])
      await failsAt(12, judged(await cheating({ records })), /as many readings as verdicts/);
  });

  test('figures that are not one to a verdict, and one on a verdict that was not found', async () => {
    const few = onRecord('held_out', (record) => [
      withPayload(record, { figures: [{ score: 1 }] as never }),
    ]);
    const absent = onRecord('policies', (record) => [
      withPayload(record, { figures: {} as never }),
    ]);
    for (const records of [few, absent])
      await failsAt(12, judged(await cheating({ records })), /as many figures as verdicts/);
  });

  test('verdicts that nobody could find, where the verifier can', async () => {
    const none: Records = onRecord('rollout', (record) => [
      (record.payload.verdict as { kind: string }).kind === 'fail'
        ? withPayload(record, {
            verdict: { kind: 'none', violations: [], reason: 'it took longer' },
          })
        : record,
    ]);
    await failsAt(
      13,
      verified(await cheating({ records: consistently(none) })),
      /are missing in the run/,
    );
  });

  test("one verdict that the run's verifier was too slow for is something to read, however few there are", async () => {
    const slow = onRecord('policies', (record) => {
      const [[policy, [, ...others]], ...rest] = Object.entries(
        record.payload.outcomes as Record<string, string[]>,
      ) as [[string, string[]], ...[string, string[]][]];
      return [
        withPayload(record, {
          outcomes: Object.fromEntries([[policy, ['none', ...others]], ...rest]),
        }),
      ];
    });
    const { steps } = await verified(await cheating({ records: slow }));
    expect(steps.find(({ name }) => name === 'rollout_verification')).toMatchObject({
      status: 'findings',
      detail: expect.stringMatching(/; 1 verdict missing in the run$/),
    });
  });

  test('a text that the sampled tokens do not say', async () => {
    await failsAt(
      13,
      verified(
        await cheating({
          records: onRecord('rollout', (record) => [
            (record.payload.verdict as { kind: string }).kind === 'pass'
              ? withPayload(record, {
                  tokenIds: [1, 2, 3, ...(record.payload.tokenIds as number[]).slice(-1)],
                })
              : record,
          ]),
        }),
      ),
      /tokens/,
    );
  });

  const MAX_TOKENS = 6;
  const repeated = (ids: readonly number[], length: number): number[] =>
    Array.from({ length }, (_, i) => ids[i % ids.length]!);
  test.each<[string, (ids: readonly number[]) => { tokenIds: number[]; finish: string }, RegExp]>([
    [
      'stopped, and no token ends it',
      (ids) => ({ tokenIds: [...ids.slice(0, -1), ids[0]!], finish: 'stop' }),
      /no end token/,
    ],
    [
      'stopped twice',
      (ids) => ({ tokenIds: [...ids, ids.at(-1)!], finish: 'stop' }),
      /continues after its end token/,
    ],
    [
      'cut off after it had ended',
      (ids) => ({ tokenIds: [...ids], finish: 'length' }),
      /cut off contains an end token/,
    ],
    [
      'cut off before there was a reason to',
      (ids) => ({ tokenIds: ids.slice(0, -1), finish: 'length' }),
      /not 6/,
    ],
    [
      'longer than any reply',
      (ids) => ({
        tokenIds: [...repeated(ids.slice(0, -1), MAX_TOKENS), ids.at(-1)!],
        finish: 'stop',
      }),
      /7 tokens/,
    ],
    ['aborted', (ids) => ({ tokenIds: ids.slice(0, -1), finish: 'aborted' }), /aborted/],
    [
      'of tokens that the model does not have',
      (ids) => ({ tokenIds: [10_000_000, ids.at(-1)!], finish: 'stop' }),
      /vocabulary/,
    ],
  ])('a reply that is %s: for a judge without the task too', async (_, reply, detail) => {
    // the last failure of an iteration, with the verdict that such a reply would have
    let left = 1;
    const changed: Records = (batch, i) =>
      batch.map((record) => {
        if (
          i !== 4 ||
          record.payload.kind !== 'rollout' ||
          (record.payload.verdict as { kind: string }).kind !== 'fail' ||
          left-- <= 0
        )
          return record;
        const { tokenIds, finish } = reply(record.payload.tokenIds as number[]);
        return withPayload(record, {
          tokenIds,
          finish,
          ...(finish === 'stop'
            ? {}
            : { form: null, verdict: { kind: 'fail', violations: ['truncated'] } }),
        });
      });
    const run = await cheating({ records: consistently(changed) });
    await failsAt(13, judged(run), detail);
    await failsAt(13, verified(run), detail);
  });

  test.each<[string, Records, RegExp]>([
    [
      'a verdict that its reply does not have',
      (batch, at) =>
        onRecord('dev_reply', (record) => [
          record.payload.iteration === 0
            ? withPayload(record, { tokenIds: trained.ok, finish: 'stop' })
            : record,
        ])(batch, at),
      /dev problem 0: the run logged fail, but the verifier says pass/,
    ],
    ['no replies', onRecord('dev_reply', () => []), /one reply to each dev problem/],
    [
      'a reply less',
      (batch) =>
        batch.filter(
          ({ payload }, at) =>
            payload.kind !== 'dev_reply' || batch[at - 1]?.payload.kind === 'dev_reply',
        ),
      /one reply to each dev problem/,
    ],
    [
      'a problem less',
      (batch) =>
        batch.flatMap((record, at) =>
          record.payload.kind === 'held_out' && record.payload.set === 'dev'
            ? [
                withPayload(record, {
                  outcomes: (record.payload.outcomes as string[][]).slice(1) as never,
                }),
              ]
            : record.payload.kind === 'dev_reply' && batch[at - 1]?.payload.kind !== 'dev_reply'
              ? []
              : [record],
        ),
      /the dev accuracy of iteration 1|does not list the dev problems/,
    ],
    [
      'a reply that ended where it did not',
      onRecord('dev_reply', (record) => [withPayload(record, { finish: 'stop' })]),
      /no end token/,
    ],
  ])('an evaluation of the dev problems with %s', async (what, records, detail) => {
    // a problem less changes what the rules read, which is found before
    await failsAt(
      what === 'a problem less' ? 12 : 13,
      verified(await cheating({ records })),
      detail,
    );
  });

  test('on a machine that is too slow for the verifier nobody is a forger, and nobody passes', async () => {
    const slow = async (
      run: SignedRun,
      answer: string,
      ...flags: string[]
    ): Promise<{ code: number | null; report: JudgeReport; said: string }> => {
      const trace = join(folder.path, 'slow.json');
      const { code, stdout } = await runCli(
        [
          'judge',
          run.folder,
          '--model',
          trained.model,
          '--task',
          trained.task,
          '--trace',
          trace,
          ...flags,
        ],
        { ISOPRO_HOME: run.home, NO_COLOR: '1', SAY_OK_SLOW: answer },
      );
      return { code, report: JSON.parse(readFileSync(trace, 'utf8')) as JudgeReport, said: stdout };
    };
    const passes = trained.batches
      .flat()
      .filter(
        ({ payload }) =>
          payload.kind === 'rollout' && (payload.verdict as { kind: string }).kind === 'pass',
      ).length;
    const { code, report, said } = await slow(honest, 'ok');
    const devPasses = trained.batches
      .flat()
      .filter(({ payload }) => payload.kind === 'held_out' && payload.set === 'dev')
      .flatMap(({ payload }) => payload.outcomes as [string, string, string][])
      .filter(([, , kind]) => kind === 'pass').length;
    // with the test problems after
    expect([code, report.verdict, report.failure, report.unverified]).toEqual([
      5,
      'not_verified',
      null,
      passes + devPasses + 20,
    ]);
    expect(report.heldOut).toMatchObject({
      before: { differing: 0, unverified: 0, p: 1 },
      after: { differing: 0, unverified: 20, p: 1, measured: { valid: false } },
    });
    expect(report.scores.accuracy_score).toBeNull();
    expect(said.replace(/\s+/g, ' ')).toMatch(
      new RegExp(`NOT VERIFIED: .*${passes + devPasses} verdicts of rollouts`),
    );
    // what the verifier does find is held against the run all the same
    const forged = await cheating({
      records: consistently(
        onRecord('rollout', (record) => [
          withPayload(record, { verdict: { kind: 'pass', violations: [] } }),
        ]),
      ),
    });
    expect(await slow(forged, 'ok', '--held-out=none')).toMatchObject({
      code: 4,
      report: { failure: { step: 13 } },
    });
    // what the base model said in the first iteration is none of the replies that take long
    expect(await slow(forged, 'no', '--held-out=none')).toMatchObject({
      code: 4,
      report: { failure: { step: 13 } },
    });
  });

  test("a prompt that is not the problem's, a problem that is not its id's", async () => {
    await failsAt(
      13,
      verified(
        await cheating({
          records: firstGroup((record) =>
            record.payload.kind === 'problem'
              ? withPayload(record, { promptIds: [1, 2, 3] })
              : record,
          ),
        }),
      ),
      /prompt/,
    );
    await failsAt(
      13,
      verified(
        await cheating({
          records: firstGroup((record) =>
            record.payload.kind === 'problem'
              ? withPayload(record, { problem: heldOut.problem })
              : record,
          ),
        }),
      ),
      /does not match its id/,
    );
  });

  test('a test problem by its id, for a judge without the task too', async () => {
    const run = await cheating({ records: instead(heldOut.problem, heldOut.promptIds) });
    await failsAt(13, verified(run), /an evaluation problem was sampled for training/);
    await failsAt(13, judged(run), /an evaluation problem was sampled for training/);
  });

  test('a test problem with a salt: another id, the same prompt', async () => {
    const salted = { ...heldOut.problem, salt: 1 };
    const problem = { ...salted, id: problemId(salted) };
    const run = await cheating({ records: instead(problem, heldOut.promptIds) });
    await failsAt(13, verified(run), /its prompt is the same/);
    expect((await judged(run)).steps.find(({ step }) => step === 13)).toMatchObject({
      status: 'skipped',
      detail: expect.stringMatching(/nothing else was checked/),
    });
  });

  test("trivial policies that do worse than they do, tiers in groups of the run's own", async () => {
    const policy = onRecord('policies', (record) => [
      withPayload(record, {
        outcomes: {
          silent: (record.payload.outcomes as { silent: string[] }).silent.map(() => 'pass'),
        },
      }),
    ]);
    await failsAt(13, verified(await cheating({ records: policy })), /silent/);
    const tiers = onRecord('policies', (record) => [
      withPayload(record, {
        tiers: (record.payload.tiers as object[]).map((tier) => ({ ...tier, group: 'all' })),
      }),
    ]);
    await failsAt(13, verified(await cheating({ records: tiers })), /tiers/);
  });
});

describe('deliverables (cases 118 to 129 in their new form, X9)', () => {
  test('1: manifest or adapter missing, a link, not JSON, without a result', async () => {
    const adapterOf = (run: SignedRun): string =>
      join(run.folder, 'adapters', `${trained.adapter.sha256}.gguf`);
    const attempts: ((run: SignedRun) => void)[] = [
      (run) => rmSync(join(run.folder, 'manifest.json')),
      (run) => rmSync(adapterOf(run)),
      (run) => {
        renameSync(adapterOf(run), `${adapterOf(run)}.aside`);
        symlinkSync(`${adapterOf(run)}.aside`, adapterOf(run));
      },
      (run) => writeFileSync(join(run.folder, 'manifest.json'), '{'),
      (run) =>
        writeFileSync(
          join(run.folder, 'manifest.json'),
          JSON.stringify({ ...readManifest(run.folder), result: null }),
        ),
    ];
    for (const attempt of attempts) {
      const run = copied();
      attempt(run);
      await failsAt(1, judged(run));
    }
  });

  test("2, cheat 2: another adapter in the submitted one's place, whatever the manifest says", async () => {
    const overwritten = copied();
    cpSync(smaller.path, join(overwritten.folder, 'adapters', `${trained.adapter.sha256}.gguf`));
    await failsAt(2, judged(overwritten), /SHA-256/);
    const renamed = copied();
    cpSync(smaller.path, join(renamed.folder, 'adapters', `${smaller.sha256}.gguf`));
    await writeManifest(renamed.folder, {
      ...readManifest(renamed.folder),
      result: { adapter: smaller.sha256 },
    });
    await failsAt(2, judged(renamed), /the log submits/);
  });

  test('2: submitted anew once the nonce is known', async () => {
    await failsAt(
      2,
      judged(await cheating({ adapter: zero, afterNonce: true })),
      /after the nonce/,
    );
  });

  test('3: a file that is no adapter, and one with a value that is not finite, submitted by the run itself', async () => {
    const path = join(folder.path, 'broken.gguf');
    const submit = async (bytes: Buffer): Promise<JudgeReport> => {
      writeFileSync(path, bytes);
      const adapter = {
        path: trained.adapter.path,
        sha256: await hashFile(path),
        targets: trained.adapter.targets,
      };
      const run = await cheating({ adapter });
      cpSync(path, join(run.folder, 'adapters', `${adapter.sha256}.gguf`));
      return judged(run);
    };
    await failsAt(3, submit(Buffer.from('#!/bin/sh\n')));
    const bytes = readFileSync(trained.adapter.path);
    bytes.writeFloatLE(NaN, bytes.length - 64);
    await failsAt(3, submit(bytes), /not finite/);
  });

  test.each<[string, (manifest: RunManifest) => RunManifest]>([
    [
      '127, 128: another setting',
      (manifest) => ({
        ...manifest,
        start: { ...manifest.start, settings: { ...manifest.start.settings, seed: '99' } },
      }),
    ],
    ['another run id', (manifest) => ({ ...manifest, runId: '00'.repeat(16) })],
    [
      'an easier test set',
      (manifest) => ({
        ...manifest,
        start: {
          ...manifest.start,
          sets: { ...manifest.start.sets, test: { ...manifest.start.sets.test, perTier: 1 } },
        },
      }),
    ],
    [
      'another machine',
      (manifest) => ({
        ...manifest,
        start: { ...manifest.start, machine: { ...manifest.start.machine, arch: 'pdp11' } },
      }),
    ],
  ])('4: the manifest says otherwise than the log (%s)', async (_, manifest) => {
    await failsAt(4, judged(await cheating({ manifest })));
  });

  test('4: the kernels of a run that sampled with others are named, and it is not called false', async () => {
    const report = await judged(
      await cheating({
        start: (start) => ({
          ...start,
          machine: { arch: process.arch, kernels: 'own', version: 0 },
        }),
      }),
    );
    expect(report).toMatchObject({ failure: null, trust: { sameMachineClass: false } });
    expect(report.steps.find(({ step }) => step === 4)!.detail).toContain(
      `the run sampled with own kernels (bits of version 0) on ${process.arch}, and this judge samples with `,
    );
  });

  test("4: digests of the session start that are not its configuration's", async () => {
    expect(startDigests(trained.start)).not.toEqual(
      startDigests({ ...trained.start, policy: 'observe' }),
    );
    const run = await cheating({
      start: (start) => ({ ...start, policy: 'observe' }),
      manifest: (manifest) => ({ ...manifest, start: trained.start }),
    });
    await failsAt(4, judged(run));
  });

  test('X9: integrity comes first, and nothing that lies in the folder is executed', async () => {
    const marker = join(folder.path, 'executed');
    const run = copied();
    const hostile = `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(marker)}, '1'); export default {};\n`;
    for (const name of ['say-ok.mjs', 'model.mjs', 'index.js'])
      writeFileSync(join(run.folder, name), hostile);
    writeFileSync(
      join(run.folder, 'package.json'),
      JSON.stringify({ type: 'module', main: 'index.js' }),
    );
    expect((await judged(run, { heldOut: 'both' })).failure).toBeNull();
    const forged = copied();
    writeFileSync(join(forged.folder, 'manifest.json'), '{'); // step 1 would fail too
    const db = new Database(join(forged.folder, 'log.sqlite'));
    db.exec('DROP TRIGGER IF EXISTS log_no_update; DROP TABLE checkpoint');
    db.close();
    await failsAt(5, judged(forged));
    expect(existsSync(marker)).toBe(false);
  });
});

describe('architecture (cases 111 to 117 in their new form, cheat 2, X10, X13)', () => {
  test('cheat 2: an adapter of another structure, submitted by the run itself', async () => {
    await failsAt(6, judged(await cheating({ adapter: smaller })));
  });
  test('X10: the run describes its file as what the log leads to; the tensors say otherwise', async () => {
    await failsAt(
      6,
      judged(
        await cheating({
          adapter: smaller,
          submission: (record) => withPayload(record, { targets: trained.adapter.targets }),
        }),
      ),
      /tensors/,
    );
  });
  test.each<[string, Records]>([
    [
      'a change of rank that was never logged',
      onRecord('effect', (record) =>
        (record.payload.operation as { op: string }).op === 'raise_rank' ? [] : [record],
      ),
    ],
    [
      'a first state of another structure',
      (batch, i) =>
        i === 0
          ? batch.map((record) =>
              record.payload.kind === 'adapter_state'
                ? withPayload(record, { targets: smaller.targets })
                : record,
            )
          : batch,
    ],
    ['no state at all', onRecord('adapter_state', () => [])],
    [
      'a later state that the replay does not lead to',
      (batch, i) =>
        i === 3
          ? batch.map((record) =>
              record.payload.kind === 'adapter_state'
                ? withPayload(record, { targets: smaller.targets })
                : record,
            )
          : batch,
    ],
    [
      'back to a state that is in no record',
      (batch, i) =>
        i === 3
          ? [
              ...batch,
              {
                stream: 'effects',
                payload: { kind: 'gate', iteration: 3, cause: 'none', restored: 'ab'.repeat(32) },
              },
            ]
          : batch,
    ],
  ])('%s: hard fail', async (_, records) => {
    await failsAt(6, judged(await cheating({ records: reevaluated(records) })));
  });

  test('X13: a module that is no longer measured does not look cured', async () => {
    const lost = (record: NewRunRecord): NewRunRecord => {
      const { 'blk.0.attn_q': _, ...modules } = record.payload.modules as Record<string, object>;
      return withPayload(record, { modules });
    };
    const run = await cheating({
      records: reevaluated(onRecord('step', (record) => [lost(record)])),
    });
    await failsAt(6, judged(run), /did not measure the adapted modules/);
  });

  test(
    'X13: measuring anew gives the same: after an edit that keeps the function, and in a trainer that starts from the ' +
      'file',
    async () => {
      const data = [
        {
          tokenIds: Int32Array.from({ length: 16 }, (_, i) => 3 * i + 1),
          labelMask: Uint8Array.from({ length: 16 }, (_, i) => (i > 0 ? 1 : 0)),
        },
      ];
      const measure = async (
        trainer: Awaited<ReturnType<typeof createTrainer>>,
      ): Promise<[string, number, number][]> =>
        Object.entries((await trainer.differentiate(data)).modules).map(
          ([name, { pairGradNorm, dormantFraction }]) => [name, pairGradNorm, dormantFraction],
        );
      await using trainer = await createTrainer({ path: trained.model }, { threads: 1 });
      await trainer.importAdapter(trained.adapter.path);
      const first = await measure(trainer);
      await using again = await createTrainer(
        { path: trained.model },
        { threads: 1, lora: { rank: 1 } },
      );
      await again.importAdapter(trained.adapter.path);
      expect(await measure(again)).toEqual(first);
      await trainer.rebalance('blk.0.attn_q', 1); // the swap of a thing for itself
      expect(await measure(trainer)).toEqual(first);
    },
  );
});

describe('the live diagnostic (cases 130 to 136 in their new form, cheat 4, X11)', () => {
  const deviations = (report: JudgeReport): string =>
    report.steps.find(({ step }) => step === 7)!.detail;
  test('cheat 4, X11: weights of zero under the probe of the trained ones, at the tolerance at which the honest run passes', async () => {
    expect(Object.keys(zero.targets)).toEqual(Object.keys(trained.adapter.targets));
    const report = await judged(
      await cheating({
        adapter: zero,
        probeOf: trained.adapter.path,
        submission: (record) => withPayload(record, { targets: trained.adapter.targets }),
      }),
    );
    await failsAt(7, report);
    expect(deviations(honestReport)).toContain(`tolerance ${SAME_MACHINE_TOLERANCE}`);
    // and at the wider one of other machines
    const elsewhere = (start: TrainedRun['start']): TrainedRun['start'] => ({
      ...start,
      machine: { ...start.machine, arch: 'pdp11' },
    });
    const away = await judged(await cheating({ start: elsewhere }));
    expect(away).toMatchObject({ failure: null, trust: { sameMachineClass: false } });
    expect(deviations(away)).toContain(`tolerance ${OTHER_MACHINE_TOLERANCE}`);
    await failsAt(
      7,
      judged(
        await cheating({
          start: elsewhere,
          adapter: zero,
          probeOf: trained.adapter.path,
          submission: (record) => withPayload(record, { targets: trained.adapter.targets }),
        }),
      ),
    );
  });

  const scaled =
    (name: string, factor: number) =>
    (record: NewRunRecord): NewRunRecord => {
      const modules = record.payload.modules as Record<string, number>;
      return withPayload(record, { modules: { ...modules, [name]: modules[name]! * factor } });
    };
  test.each<[string, NonNullable<Cheat['probe']>]>([
    ['134: an empty probe', (record) => withPayload(record, { modules: {} })],
    [
      '133: a module less',
      (record) =>
        withPayload(record, {
          modules: Object.fromEntries(Object.entries(record.payload.modules as object).slice(1)),
        }),
    ],
    [
      '136: values far too small',
      (record) =>
        withPayload(record, {
          modules: Object.fromEntries(
            Object.keys(record.payload.modules as object).map((name) => [name, 1e-6]),
          ),
        }),
    ],
    ['one module, not the largest, half a per cent off', scaled('blk.0.attn_v', 1.005)],
    ['not a number', (record) => withPayload(record, { gradNorm: NaN })],
    ['another batch', (record) => withPayload(record, { batch: 'ab'.repeat(32) })],
    ['another adapter', (record) => withPayload(record, { adapter: 'ab'.repeat(32) })],
    ['no probe', () => ({ stream: 'metrics', payload: { kind: 'note' } })],
  ])('%s: hard fail', async (_, probe) => {
    await failsAt(7, judged(await cheating({ probe })));
  });
  test('131: within the tolerance it passes', async () => {
    expect(
      (await judged(await cheating({ probe: scaled('blk.0.attn_v', 1.0005) }))).failure,
    ).toBeNull();
  });
});

describe('held-out accuracy (cases 137 to 139 in their new form)', () => {
  const claims =
    (kind: 'pass' | 'fail', count = Infinity) =>
    (record: NewRunRecord): NewRunRecord =>
      withPayload(record, {
        outcomes: (record.payload.outcomes as [string, string, string][]).map(
          ([id, tier, was], i) => [id, tier, i < count ? kind : was],
        ),
      });
  const evaluated = (run: SignedRun): Promise<JudgeReport> =>
    judged(run, { heldOut: 'both', task: trained.task });

  test(
    "a claim that the judge's own verdicts refute fails; one that differs by little is reported; scores follow what was " +
      'measured',
    async () => {
      await failsAt(10, evaluated(await cheating({ after: claims('fail') })), /the run claims 0/);
      const some = await evaluated(await cheating({ after: claims('fail', 3) }));
      // on a machine of its class every verdict repeats
      expect(some).toMatchObject({
        verdict: 'not_verified',
        notVerified: [
          expect.stringMatching(/^3 test verdicts or figures of 20 replies after differ here/),
        ],
        heldOut: { after: { differing: 3, claimed: { mean: 0.85 }, measured: { mean: 1 } } },
        scores: { accuracy_score: 1 },
      });
      expect(some.steps.find(({ step }) => step === 10)!.status).toBe('findings');
    },
  );

  test("scores that the judge's own refute fail, with the same verdicts; a few others are reported", async () => {
    const scores = (count: number) => (record: NewRunRecord) =>
      withPayload(record, {
        figures: (record.payload.outcomes as []).map((_, i) =>
          i < count ? { score: 0.1 } : {},
        ) as never,
      });
    await failsAt(
      10,
      evaluated(await cheating({ after: scores(20) })),
      /scores after: 20 of those that the run claims differ/,
    );
    const some = await evaluated(await cheating({ after: scores(3) }));
    expect(some).toMatchObject({
      verdict: 'not_verified',
      heldOut: {
        after: {
          differing: 0,
          figures: [{ figure: 'score', differing: 3, p: expect.closeTo(0.25, 12) }],
          measured: { measures: { score: { mean: 1 } } },
        },
      },
    });
    expect(some.steps.find(({ step }) => step === 10)).toMatchObject({
      status: 'findings',
      detail: expect.stringMatching(
        /^every verdict matches the claim; 3 figures of verdicts differ from the claim; /,
      ),
    });
  });

  test("a further reading that the judge's own refutes fails by itself; one that it finds too is reported", async () => {
    const said = (formed: boolean) =>
      onRecord('held_out', (record) => [
        record.payload.set === 'test'
          ? withPayload(record, { formed: (record.payload.outcomes as []).map(() => formed) })
          : record,
      ]);
    const both = { heldOut: 'both', task: trained.task } as const;
    await failsAt(
      10,
      judged(await cheating({ records: said(true) }), both),
      /the format reading before: 20 replies were read differently/,
    );
    // the untrained model's replies are no letters
    expect(await judged(await cheating({ records: said(false) }), both)).toMatchObject({
      verdict: 'pass',
      heldOut: { before: { readings: [{ reading: 'format', differing: 0, p: 1 }] } },
    });
  });

  test('on what it says is another class of machine a claim is refuted too; what rounding may explain is reported', async () => {
    const elsewhere = (start: TrainedRun['start']): TrainedRun['start'] => ({
      ...start,
      machine: { ...start.machine, arch: 'pdp11' },
    });
    const addon = (start: TrainedRun['start']): TrainedRun['start'] => ({
      ...start,
      code: { ...start.code, addon: '0'.repeat(64) },
    });
    for (const start of [elsewhere, addon])
      await failsAt(
        10,
        evaluated(await cheating({ after: claims('fail'), start })),
        /more than another machine's rounding explains/,
      );
    const report = await evaluated(await cheating({ after: claims('fail', 2), start: elsewhere }));
    expect(report).toMatchObject({
      verdict: 'pass',
      heldOut: { after: { differing: 2 } },
      scores: { accuracy_score: 1 },
    });
  });

  const onTest = (change: (record: NewRunRecord) => NewRunRecord): Records =>
    onRecord('held_out', (record) => [record.payload.set === 'test' ? change(record) : record]);
  const onOthers = (record: NewRunRecord): NewRunRecord =>
    withPayload(record, {
      outcomes: (record.payload.outcomes as [string, string, string][]).map(([, tier, kind]) => [
        'ab'.repeat(32),
        tier,
        kind,
      ]),
    });
  test.each<[string, Cheat]>([
    ['other problems', { records: onTest(onOthers), after: onOthers }],
    [
      'with a different adapter',
      { after: (record) => withPayload(record, { adapter: 'ab'.repeat(32) }) },
    ],
    [
      'none before',
      {
        records: (batch) =>
          batch.filter(
            ({ payload }) =>
              (payload.kind !== 'held_out' || payload.set === 'dev') && payload.kind !== 'policies',
          ),
      },
    ],
    [
      'also evaluated during training',
      {
        records: (batch, i) =>
          i === 2 ? [...batch, withPayload(trained.batches[0]![0]!, { when: 'iteration' })] : batch,
      },
    ],
    [
      "a test set of the run's own",
      {
        start: (start) => ({
          ...start,
          sets: { ...start.sets, test: { ...start.sets.test, sha256: 'ab'.repeat(32) } },
        }),
        records: onRecord('held_out', (record) => [
          withPayload(record, { setSha256: 'ab'.repeat(32) }),
        ]),
        after: (record) => withPayload(record, { setSha256: 'ab'.repeat(32) }),
      },
    ],
  ])('a claim that is none (%s): hard fail', async (_, cheat) => {
    await failsAt(10, evaluated(await cheating(cheat)));
  });
});

describe('isopro-native judge', () => {
  const judge = (run: SignedRun, ...args: string[]): ReturnType<typeof runCli> =>
    runCli(['judge', run.folder, '--model', trained.model, ...args], {
      ISOPRO_HOME: run.home,
      NO_COLOR: '1',
    });
  test("prints the table, keeps the trace, and ends with the verdict's code", async () => {
    const run = copied();
    const { code, stdout } = await judge(run, '--task', trained.task);
    expect(stdout).toMatch(/PASS: the log is intact/);
    expect(stdout).toMatch(/owned by the judging user/);
    expect(code).toBe(0);
    const trace = JSON.parse(
      readFileSync(join(run.folder, 'judge-trace.json'), 'utf8'),
    ) as JudgeReport;
    expect(trace.steps.map(({ name }) => name)).toEqual(honestReport.steps.map(({ name }) => name));
    rmSync(join(run.folder, 'adapters'), { recursive: true });
    const failed = await judge(run, '--json', '--trace', join(folder.path, 'trace.json'));
    expect([failed.code, (JSON.parse(failed.stdout) as JudgeReport).failure?.step]).toEqual([4, 1]);
    expect(existsSync(join(folder.path, 'trace.json'))).toBe(true);
  }, 300_000);
});
