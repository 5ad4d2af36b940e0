/**
 * Opening of a run folder with everything that the loop needs: started new, or restored from its
 * newest checkpoint.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { algorithmOf } from '../algorithms/index.js';
import { localBackend } from '../backends/local.js';
import { Closers } from '../closers.js';
import { loadModel, type LoadModelOptions, type Model } from '../engine/model.js';
import { loadTrainable } from '../engine/trainable-model.js';
import { rendererChange, type RendererIds } from '../engine/renderer-change.js';
import { IsoproError } from '../errors.js';
import { evaluationSet, wholeSets } from '../evaluation/evaluation-set.js';
import { Undrawn } from '../evaluation/exclusions.js';
import { taskWarnings } from '../evaluation/task-warnings.js';
import { given } from '../given.js';
import { parseCheckpoint } from '../log/checkpoint.js';
import { EventLog } from '../log/event-log.js';
import { isoproHome } from '../log/home.js';
import { OwnerLock } from '../log/owner-lock.js';
import { isUnbegun, LogReader } from '../log/read.js';
import { settleLogFile } from '../log/schema.js';
import { SingleProcessSigner, type LogSigner } from '../log/signer.js';
import { WitnessClient } from '../log/witness-client.js';
import { isRunFolder, makeRunFolder, runPaths } from '../run-folder/paths.js';
import {
  CONTINUE_ELSEWHERE,
  MANIFEST_FORMAT,
  readManifest,
  changesText,
  runDiffers,
  startChanges,
  startDigests,
  writeManifest,
  type RunManifest,
  type RunStart,
} from '../run-folder/manifest.js';
import {
  checkpoint as checkpointNamed,
  refusedCheckpointRecord,
} from '../run-folder/course-records.js';
import { readEvaluations } from '../run-folder/read-evaluations.js';
import { readRolloutsRecord } from '../run-folder/rollout-records.js';
import { verdictsByTier } from '../statistics/index.js';
import { refuseNondeterminism } from '../tasks/determinism.js';
import { isDecider, type RecordedAnswer } from '../monitor/question.js';
import { isQuestion, readQuestion } from '../run-folder/monitor-records.js';
import { scriptedOption } from '../trainees/lora/scripted.js';
import { openTask } from '../tasks/open-task.js';
import type { OpenTask } from '../tasks/task.js';
import { LORA, type LoraTypes } from '../trainees/lora/trainee.js';
import {
  cleanCheckpoints,
  hasCheckpoints,
  readCheckpoint,
  type Checkpoint,
} from './checkpoints.js';
import { keepSplit } from './split-file.js';
import { KeptReplies } from './reply-cache.js';
import { invocationTokensOf, Learner } from './learner.js';
import { refuseTurns, refuseWithoutGrammar } from './evaluations.js';
import { MonitorSession, type LoraSession, type MonitorSessionOptions } from './monitor-session.js';
import { openDecider } from './deciders.js';
import { createExecutor, policyOf, ruleConfigOf } from './monitoring.js';
import { ReplayBuffer } from '../algorithms/replay-buffer.js';
import { readResult, type RunResult } from './result.js';
import { report, type Recording, type RunContext, type RunState } from './run-state.js';
import type { RunOptions } from './hooks.js';
import { runStart } from './run-start.js';
import { RUN_STREAMS, type RunLog } from '../run-folder/streams.js';
import { inUse, PROFILES, taskOptions, type RunSettings } from './settings.js';
import { TeacherModel } from './teacher.js';

export interface OpenRun {
  readonly context: RunContext;
  readonly state: RunState;
  readonly session: LoraSession;
  /** `begun`: nothing is complete yet. */
  readonly stage: 'begun' | 'prepared' | 'iteration' | 'submitted';
  /** The last complete iteration. */
  readonly iteration: number;
  /** Closes everything, whatever fails in it. @throws the first failure */
  dispose(): Promise<void>;
}

const RUNS = 'runs';
/** The trainer's own. */
const DEFAULT_EPSILON = 1e-8;
const logFile = (folder: string): string => runPaths(folder).log;

/** A limit that is not the profile's own, where nothing is measured that it could be held to. */
const setsLimitInVain = ({
  profile,
  evaluation: { forgetting, maxForgetting },
}: RunSettings): boolean =>
  forgetting === 0 &&
  profile !== 'auto' &&
  maxForgetting !== PROFILES[profile].evaluation?.maxForgetting;

/** @throws as `run` */
export async function openRun(
  settings: RunSettings,
  options: RunOptions,
): Promise<OpenRun | { readonly result: RunResult }> {
  const {
    out,
    signal,
    policy: own,
    policyTimeout,
    rules: ownRules,
    feedback,
    table,
    ask,
    decider,
    verifierThreads = 1,
    keepSeconds,
    ...hooks
  } = options;
  const { policy: ready, timeout } = policyOf(settings, own, policyTimeout);
  if ((own !== undefined || ready === null) && algorithmOf(settings).startsAnew(settings))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'policy: it cannot be combined with algorithm.fromBase, which discards what a remedy changes',
    );
  if (decider !== undefined && ready !== null)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'decider: it has an effect only with the setting monitor.policy model:NAME, by which the run names it',
    );
  const rules = ruleConfigOf(settings, ownRules);
  const closers = new Closers();
  try {
    report({ settings, hooks }, { stage: 'load' });
    const parts = await openParts(settings, verifierThreads, signal, closers);
    const { task, model, settings: resolved } = parts;
    // what it is opened for it asks only while the run is open
    let state: RunState | null = null;
    const policy =
      ready ??
      (await openDecider(resolved, {
        model: parts.model,
        adapter: () => state?.learner?.adapter ?? null,
        closers,
        ...{ signal, feedback, table, ask, decider },
      }));
    const start = await runStart({ ...parts, rules, policy });
    const folder = await folderOf(start, out);
    const ended = async (): Promise<{ readonly result: RunResult }> => {
      await closers.close();
      return { result: readResult(folder) };
    };
    // a run that has ended is only read: its folder may be one that cannot be written, and then
    // there is no lock
    const begun = begunAs(start, folder, model) !== null;
    if (begun && isSettled(folder)) return await ended();
    const notice = (text: string): void => hooks.onNotice?.(text);
    refuseWithoutReferences(settings, task);
    if (setsLimitInVain(resolved))
      notice(
        'evaluation.maxForgetting has no effect: forgetting is not measured for a model that knows no language',
      );
    if (!begun) {
      const { style } = settings.sampling;
      await refuseNondeterminism(task, style, signal); // before there is a folder
      const sets = [parts.dev, parts.test];
      for (const warning of await taskWarnings(task, { style, sets, signal })) notice(warning);
    }
    const { lock: lockFile } = makeRunFolder(folder);
    const lock = OwnerLock.take(lockFile);
    if (lock === null)
      throw new IsoproError('LOG_BUSY', `another process is using the run in ${folder}`);
    closers.add(() => lock.release());
    // again: what another process wrote until it let go of the lock
    const manifest = begunAs(start, folder, model);
    if (manifest !== null && isFinished(folder)) {
      settleLogFile(logFile(folder));
      return await ended();
    }
    const runId = manifest?.runId ?? (out === undefined ? path.basename(folder) : newRunId());
    if (manifest === null)
      await writeManifest(folder, { format: MANIFEST_FORMAT, runId, start, result: null });
    if (manifest === null) await keepSplit(task, notice);
    const waiting = { onNotice: notice, ...given(options, 'signal') };
    const signer: LogSigner =
      resolved.signer === 'witness'
        ? await WitnessClient.open(isoproHome(), waiting)
        : new SingleProcessSigner();
    closers.add(() => signer.close());
    const opened = await openLog(folder, runId, signer, start, notice);
    if (opened === null) return await ended();
    const { log, heads, checkpoint } = opened;
    closers.add(() => log.close());
    const kept = new KeptReplies({
      folder,
      log,
      heads,
      after: logSizeOf(checkpoint),
      ...given({ seconds: keepSeconds }),
      onNotice: notice,
    });
    closers.add(() => kept.keep());
    const { style, maxTokens } = resolved.sampling;
    const context: RunContext = {
      ...parts,
      ...{ folder, runId, start, log, kept, hooks },
      backend: model.info.batchInvariant
        ? kept.keeping(localBackend(model), () => model.adapterId)
        : localBackend(model),
      undrawn: new Undrawn(await wholeSets(task), {
        model,
        task,
        style,
        maxTokens,
        onTooLong: notice,
      }),
      ...given(options, 'signal'),
    };
    const fresh = freshState(resolved);
    state = fresh;
    closers.add(() => fresh.learner?.dispose());
    const deciding = {
      policy,
      ...given({ policyTimeout: timeout ?? (isDecider(policy) ? policy.timeout : undefined) }),
      ...(isDecider(policy) && {
        questions: {
          fallback: scriptedOption,
          recorded: signedAnswers(logFile(folder), heads),
          sign: () => log.checkpoint(),
        },
      }),
    };
    const session = await restore(context, fresh, deciding, checkpoint);
    return {
      context,
      state: fresh,
      session,
      stage: checkpoint?.state.stage ?? 'begun',
      iteration: checkpoint?.state.iteration ?? 0,
      dispose: () => closers.close(),
    };
  } catch (error) {
    // what went wrong first is what the caller has to know
    await closers.close().catch(() => undefined);
    throw error;
  }
}

type Parts = Pick<RunContext, 'settings' | 'task' | 'model' | 'teacher' | 'dev' | 'test'>;

/** Opens task, model, teacher and evaluation sets of a run. @throws as `run` */
async function openParts(
  settings: RunSettings,
  verifierThreads: number,
  signal: AbortSignal | undefined,
  closers: Closers,
): Promise<Parts> {
  const task = await openTask(settings.task, { verifierThreads, ...taskOptions(settings) });
  closers.add(() => task.dispose());
  refuseWithoutGrammar(settings, task);
  refuseTurns(settings, task);
  const model = await openTrainee(settings, signal);
  closers.add(() => model.dispose());
  const resolved = inUse(settings, { model, task });
  const teacher = await TeacherModel.open(resolved, model, task, signal);
  closers.add(() => teacher?.dispose());
  const { devSize, testSize } = settings.evaluation;
  const dev = await evaluationSet(task, 'dev', devSize);
  const test = await evaluationSet(task, 'test', testSize);
  return { settings: resolved, task, model, teacher, dev, test };
}

/** @throws IsoproError INVALID_ARGUMENT */
function refuseWithoutReferences({ buffer }: RunSettings, { id, hasReferences }: OpenTask): void {
  if (buffer.accept === 'references' && !hasReferences)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `buffer.accept: ${id} has no referenceReply, or has episodes of several turns, so there is nothing to train on`,
    );
}

/** The results of a run are those of one thread count. */
const loadingOf = (
  { model: { threads, matmul, contextTokens }, layers }: RunSettings,
  signal: AbortSignal | undefined,
): LoadModelOptions => ({
  fixedThreads: true,
  matmul,
  ...(threads === 0 ? {} : { threads }),
  // where rows can have adapters of their own
  ...(layers.adapterFrom === 'reply' && { gpuLayers: 0 }),
  ...given({ contextTokens, signal }),
});

export const openModel = (settings: RunSettings, signal: AbortSignal | undefined): Promise<Model> =>
  loadModel(settings.model.name, loadingOf(settings, signal));

/**
 * Opens the model as `openModel`, and rejects one that cannot be trained before it is loaded, and
 * one whose template writes nothing where the adapter is to begin.
 */
export async function openTrainee(
  settings: RunSettings,
  signal: AbortSignal | undefined,
): Promise<Model> {
  const model = await loadTrainable(settings.model.name, loadingOf(settings, signal));
  try {
    invocationTokensOf(settings, model);
    return model;
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

const newRunId = (): string => randomBytes(16).toString('hex');

/**
 * Run folder: `out`, or the newest unfinished run of this configuration, so that the same command
 * resumes it.
 */
async function folderOf(start: RunStart, out: string | undefined): Promise<string> {
  if (out !== undefined) return path.resolve(out);
  const runs = path.resolve(RUNS);
  const folders = (await readdir(runs).catch(() => []))
    .map((name) => path.join(runs, name))
    .filter(isRunFolder);
  const begun = new Map(
    folders.map((folder) => [folder, statSync(runPaths(folder).manifest).mtimeMs]),
  );
  for (const folder of folders.sort((a, b) => begun.get(b)! - begun.get(a)!))
    if (sameStart(folder, start) && !isFinished(folder)) return folder;
  return path.join(runs, newRunId());
}

/** Compares a run's start; false for an unreadable manifest, e.g. of another version. */
function sameStart(folder: string, start: RunStart): boolean {
  try {
    return startChanges(readManifest(folder).start, start).length === 0;
  } catch {
    return false;
  }
}

/**
 * The manifest of the run that began here with the same values; null where none did.
 * @throws RUN_DIFFERS, RUN_MANIFEST_INVALID
 */
function begunAs(start: RunStart, folder: string, model: RendererIds): RunManifest | null {
  if (!isRunFolder(folder)) return null;
  const manifest = readManifest(folder);
  const before = manifest.start.evaluation.rendererId;
  const rerendered =
    manifest.start.model.sha256 === start.model.sha256 ? rendererChange(before, model) : null;
  if (rerendered !== null)
    throw new IsoproError('RUN_DIFFERS', `the run in ${folder} cannot continue: ${rerendered}`, {
      remedy: CONTINUE_ELSEWHERE,
    });
  const changes = startChanges(manifest.start, start);
  if (changes.length > 0)
    throw runDiffers(
      `the run in ${folder} began with other values: ${changesText(changes)}`,
      changes.map(({ path }) => path),
    );
  return manifest;
}

/** Finished, and nothing of the end left to do. */
const isSettled = (folder: string): boolean =>
  isFinished(folder) && !existsSync(`${logFile(folder)}-wal`);

function isFinished(folder: string): boolean {
  if (!existsSync(logFile(folder)) || isUnbegun(logFile(folder), RUN_STREAMS)) return false;
  const reader = new LogReader(logFile(folder), RUN_STREAMS);
  try {
    return reader.checkpoints().some(({ final }) => final);
  } finally {
    reader.close();
  }
}

/**
 * Opens or creates the log. A log without a first record is recreated if nothing depends on it; an
 * unreadable log is never touched. Returns null if the run had ended, after completing a signed end
 * that a crash interrupted.
 */
async function openLog(
  folder: string,
  runId: string,
  signer: LogSigner,
  start: RunStart,
  notice: (text: string) => void,
): Promise<{ log: RunLog; heads: readonly string[]; checkpoint: Checkpoint | null } | null> {
  const paths = runPaths(folder);
  await cleanCheckpoints(paths.checkpoints);
  if (existsSync(paths.log) && !isUnbegun(paths.log, RUN_STREAMS)) {
    const heads = await signer.heads(runId);
    const { checkpoint, refused } = await readCheckpoint(paths, namedCheckpoints(paths.log, heads));
    const log = await EventLog.resume({
      streams: RUN_STREAMS,
      path: paths.log,
      runId,
      signer,
      fromIteration: (checkpoint?.state.iteration ?? 0) + 1,
      abandonedFrom: logSizeOf(checkpoint),
    });
    if (log.ended) {
      await log.finish();
      return null;
    }
    if (refused.length > 0) log.append(refused.map(refusedCheckpointRecord));
    for (const { name, reason } of refused) notice(`checkpoint ${name} was rejected: ${reason}`);
    return { log, heads, checkpoint };
  }
  if (await hasCheckpoints(paths.checkpoints))
    throw new IsoproError(
      'LOG_UNREADABLE',
      `${folder} has checkpoints of a run, but no log with its records`,
    );
  for (const suffix of ['', '-wal', '-shm', '-journal'])
    await rm(paths.log + suffix, { force: true });
  return {
    log: await EventLog.create({
      streams: RUN_STREAMS,
      path: paths.log,
      runId,
      signer,
      runConfig: start as never,
      digests: startDigests(start),
    }),
    heads: [],
    checkpoint: null,
  };
}

/** Records of the log that belong to what is gone on with. */
const logSizeOf = (checkpoint: Checkpoint | null): number => checkpoint?.state.logSize ?? 1;

/**
 * Digests of checkpoints by the number of records up to the one that names them. Only records under
 * a signed head count, since anyone who can write the file could append others; resuming checks
 * that the log is the signed one.
 */
function namedCheckpoints(file: string, heads: readonly string[]): Map<number, string> {
  const signed = Math.max(0, ...heads.map((head) => parseCheckpoint(head).size));
  const reader = new LogReader(file, RUN_STREAMS);
  try {
    const named = [...reader.records({ stream: 'metrics' })].flatMap(
      ({ gseq, payload }): [number, string][] => {
        const parsed = checkpointNamed.safeParse(payload);
        return parsed.success && gseq < signed ? [[gseq + 1, parsed.data.digest]] : [];
      },
    );
    return new Map(named);
  } finally {
    reader.close();
  }
}

/**
 * Answers to questions that a signed head covers, abandoned ones too, by their keys. Others anyone
 * who can write the file could have appended.
 */
function signedAnswers(file: string, heads: readonly string[]): Map<string, RecordedAnswer> {
  const signed = Math.max(0, ...heads.map((head) => parseCheckpoint(head).size));
  const reader = new LogReader(file, RUN_STREAMS);
  try {
    const answers = new Map<string, RecordedAnswer>();
    for (const record of reader.records({ stream: 'decisions', abandoned: true })) {
      if (!isQuestion(record) || record.gseq >= signed) continue;
      const { key, reply, choice, source, failure } = readQuestion(record);
      // the first answer stands: a later record of the same key has repeated it
      if (!answers.has(key)) answers.set(key, { reply, choice, source, failure });
    }
    return answers;
  } finally {
    reader.close();
  }
}

const freshState = ({ buffer, optimiser }: RunSettings): RunState => ({
  buffer: new ReplayBuffer(buffer.kind === 'classic' ? Infinity : buffer.tierCap),
  learner: null,
  layers: null,
  adapterId: null,
  adapterIteration: 0,
  best: { adapterId: null, iteration: 0, verdicts: [], snapshot: null },
  batchSize: optimiser.batchSize,
  learningRate: optimiser.learningRate,
  maxNorm: optimiser.maxNorm,
  epsilon: DEFAULT_EPSILON,
  sound: null,
  executor: null,
  stop: null,
  settled: false,
  spent: { seconds: 0, peakRssBytes: 0, promptTokens: 0, sampledTokens: 0, trainedTokens: 0 },
});

/**
 * Takes the state of a checkpoint and of the log below it. @param state what is opened for it is
 * its own at once, also where this fails later
 */
async function restore(
  context: Recording & Pick<RunContext, 'settings' | 'model' | 'task'>,
  state: RunState,
  deciding: Pick<MonitorSessionOptions<LoraTypes>, 'policy' | 'policyTimeout' | 'questions'>,
  checkpoint: Checkpoint | null,
): Promise<LoraSession> {
  const { settings, model, folder } = context;
  const monitor = { watched: LORA, rules: context.start.rules, ...deciding, log: context.log };
  if (checkpoint === null) return new MonitorSession(monitor);

  const { state: saved, trainer, best, sound } = checkpoint;
  const reader = new LogReader(logFile(folder), RUN_STREAMS);
  let session: LoraSession;
  try {
    for (const record of reader.records({ stream: 'rollouts' }))
      state.buffer.take(readRolloutsRecord(record));
    // rollouts are the bulk of a log, and no rule reads them
    session = new MonitorSession({
      ...monitor,
      records: (['metrics', 'decisions', 'effects'] as const)
        .flatMap((stream) => [...reader.records({ stream })])
        .sort((a, b) => a.gseq - b.gseq),
    });
  } finally {
    reader.close();
  }
  const { layers, spent } = saved;
  Object.assign(state, {
    ...given(saved, 'learningRate', 'maxNorm', 'epsilon', 'batchSize'),
    ...given(saved, 'adapterId', 'adapterIteration', 'stop', 'settled'),
    ...{ layers, spent: { ...spent } },
  });
  const dev = readEvaluations(folder).evaluations.find(
    ({ set, iteration }) => set === 'dev' && iteration === saved.best.iteration,
  );
  if (dev === undefined)
    throw new IsoproError(
      'LOG_UNREADABLE',
      `the log in ${folder} lacks the dev evaluation of iteration ${saved.best.iteration}`,
    );
  state.best = {
    ...saved.best,
    verdicts: verdictsByTier(
      dev.outcomes.map(([, tier, kind]) => ({ tier, kind })),
      context.task.tiers,
    ),
    snapshot: best ?? trainer,
  };
  if (trainer !== null && layers !== null) {
    state.learner = await Learner.create({ model, settings, layers });
    await state.learner.restore(trainer, state);
    await state.learner.apply();
    state.sound = saved.sound === null ? null : { ...saved.sound, snapshot: sound ?? trainer };
    state.executor = createExecutor(state.learner, state);
  }
  return session;
}
