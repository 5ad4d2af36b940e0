/** Course of a run from settings to result: starts it, resumes it, or reads a finished one. */
import { judgePolicies } from '../evaluation/policies.js';
import { given } from '../given.js';
import { runPaths } from '../run-folder/paths.js';
import { checkpointRecord } from '../run-folder/course-records.js';
import { policiesRecord } from '../run-folder/evaluation-records.js';
import { refuseUnsteadyVerdicts, type JudgedText } from '../tasks/determinism.js';
import type { RunOptions } from './hooks.js';
import { openRun, type OpenRun } from './open-run.js';
import { evaluateSet, evaluateTest } from './evaluations.js';
import { close, submit } from './run-end.js';
import { runIteration } from './iteration.js';
import { sealCheckpoint, writeCheckpoint } from './checkpoints.js';
import { refuseUntrained } from './monitoring.js';
import { withProfile } from './profile.js';
import { readResult, type RunResult } from './result.js';
import {
  peakRssBytes,
  report,
  type Answering,
  type EvaluationSets,
  type Log,
  type Reporting,
  type RunContext,
  type RunState,
  type Sources,
} from './run-state.js';
import { requireMachine, resolveSettings, type RunSettingsInput } from './settings.js';

/**
 * Trains and measures an adapter in a run folder. The same settings on the same folder continue an
 * interrupted run and end with the same adapter; a finished run returns its result again.
 * @throws IsoproError INVALID_ARGUMENT, RUN_DIFFERS, VERIFIER_UNDECIDED, NUMERIC_FAILURE, ABORTED,
 * WRITE_FAILED, LOG_* and what model, task and trainer throw;
 *   after any of them the same call goes on
 */
export async function run(
  input: RunSettingsInput = {},
  options: RunOptions = {},
): Promise<RunResult> {
  requireMachine(resolveSettings(input));
  const opened = await openRun(resolveSettings(await withProfile(input, options.signal)), options);
  if ('result' in opened) return opened.result;
  const { context, state, stage, iteration } = opened;
  try {
    const { folder, runId, settings } = context;
    const resumed =
      stage === 'begun'
        ? { resumedAfter: null, resumedFrom: null }
        : { resumedAfter: iteration, resumedFrom: stage };
    options.onBegin?.({ folder, runId, settings, ...resumed, spentSeconds: state.spent.seconds });
    await complete(opened);
  } catch (error) {
    // what went wrong first is what the caller has to know
    await opened.dispose().catch(() => undefined);
    throw error;
  }
  await opened.dispose();
  return readResult(opened.context.folder);
}

async function complete({
  context,
  state,
  session,
  stage,
  iteration: done,
}: OpenRun): Promise<void> {
  const { settings } = context;
  const clock = stageClock(state);
  let last = done;
  if (stage === 'begun') {
    await prepare(context, state);
    await checkpoint(context, state, 'prepared', 0, clock);
  }
  if (stage !== 'submitted') {
    for (
      let iteration = done + 1;
      iteration <= settings.iterations && state.stop === null;
      iteration++
    ) {
      const { report: finished, failures } = await runIteration(context, state, session, iteration);
      last = iteration;
      clock();
      if (
        state.stop === null &&
        settings.maxMinutes !== undefined &&
        iteration < settings.iterations &&
        state.spent.seconds >= 60 * settings.maxMinutes
      ) {
        state.stop = `the ${settings.maxMinutes} minutes of --max-minutes are over`;
      }
      await checkpoint(context, state, 'iteration', iteration, clock);
      context.hooks.onIteration?.(finished, failures);
    }
    refuseUntrained(session.history);
    await submit(context, state, state.learner!);
    await checkpoint(context, state, 'submitted', last, clock);
  }
  clock();
  await close(context, state);
}

/**
 * Measures the baselines: the base model and the trivial policies. The test set is read here and at
 * the end, and never in between.
 */
async function prepare(
  context: Reporting & Answering & Log & EvaluationSets & Pick<Sources, 'teacher'>,
  state: Pick<RunState, 'best' | 'spent'>,
): Promise<void> {
  report(context, { stage: 'before', total: context.test.problems.length });
  const at = { when: 'before' as const, iteration: 0, adapter: null };
  const test = await evaluateTest(context, at);
  const replies: JudgedText[] = [];
  const dev = await evaluateSet(context, 'dev', at, {
    onReply: ({ problem, rollout: { text, finish }, judgement }) =>
      replies.push({ problem, text, finish, judgement }),
  });
  await refuseUnsteadyVerdicts(context.task, replies, context.signal);
  await context.teacher?.requireHeadroom(context, dev.summary.mean);
  context.log.append([
    policiesRecord({
      tiers: [...context.task.tiers],
      verdicts: await judgePolicies(context.task, context.test.problems, given(context, 'signal')),
    }),
  ]);
  state.best = { adapterId: null, iteration: 0, verdicts: dev.verdicts, snapshot: null };
  state.spent.promptTokens += test.promptTokens + dev.promptTokens;
  state.spent.sampledTokens += test.sampledTokens + dev.sampledTokens;
}

/**
 * Writes a checkpoint. Before that, the log names it and its head is signed, so that it can be
 * verified on resumption.
 */
async function checkpoint(
  { log, folder, model, kept }: Pick<RunContext, 'log' | 'folder' | 'model' | 'kept'>,
  state: RunState,
  stage: 'prepared' | 'iteration' | 'submitted',
  iteration: number,
  clock: () => void,
): Promise<void> {
  clock();
  // 18 MB of keys and values for each running sample of a small model are not held beside the
  // snapshots, which are 59 MB each
  await model.releaseContext();
  const { learner, best, sound, layers, spent } = state;
  const trainer = learner === null ? null : await learner.trainer.snapshot();
  // compared by content: a remedy may change what an adapter's file does not show
  const apart = (snapshot: Uint8Array | null | undefined): Uint8Array | null =>
    snapshot == null || (trainer !== null && Buffer.compare(snapshot, trainer) === 0)
      ? null
      : snapshot;
  const sealed = sealCheckpoint({
    state: {
      version: 2,
      stage,
      iteration,
      logSize: log.size + 1,
      layers: layers && [...layers],
      ...given(state, 'learningRate', 'maxNorm', 'epsilon', 'batchSize'),
      best: given(best, 'adapterId', 'iteration'),
      sound: sound && given(sound, 'adapterId', 'iteration'),
      ...given(state, 'adapterId', 'adapterIteration', 'stop', 'settled'),
      spent: { ...spent },
    },
    trainer,
    best: apart(best.snapshot),
    sound: apart(sound?.snapshot),
  });
  log.append([checkpointRecord({ stage, iteration, digest: sealed.digest })]);
  await log.checkpoint();
  await writeCheckpoint(runPaths(folder).checkpoints, sealed);
  kept.begin(log.size);
}

/** Adds the time since the call before to what the run has cost. */
function stageClock({ spent }: Pick<RunState, 'spent'>): () => void {
  let last = performance.now();
  return () => {
    const now = performance.now();
    spent.seconds += (now - last) / 1000;
    last = now;
    spent.peakRssBytes = Math.max(spent.peakRssBytes, peakRssBytes());
  };
}
