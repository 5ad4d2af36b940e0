/**
 * One iteration: rollouts, verdicts, admission, steps, dev evaluation, gate, rules and remedies,
 * all of it logged.
 */
import { createHash } from 'node:crypto';
import { algorithmOf } from '../algorithms/index.js';
import { temperedLogprobs } from '../algorithms/steps.js';
import { dictionary } from '../dictionary.js';
import type { StepStatistics, TrainSequence } from '../engine/trainer.js';
import { withQuestions } from '../evaluation/failure-examples.js';
import { given } from '../given.js';
import { samplingOf } from '../rollouts/answer.js';
import { allocate } from '../rollouts/allocation.js';
import { leftOut, planRollouts } from '../rollouts/plan.js';
import { meanLoss, pooledHitRate } from '../run-folder/derived-figures.js';
import {
  adapterStateRecord,
  adapterTargets,
  gateRecord,
  layersRecord,
} from '../run-folder/course-records.js';
import { iterationReportRecord } from '../run-folder/evaluation-records.js';
import { rolloutReason } from '../run-folder/logged-records.js';
import { rolloutsRecord, type RolloutsRecord } from '../run-folder/rollout-records.js';
import type { NewRunRecord } from '../run-folder/streams.js';
import { isSignificantDrop, pairedChange } from '../statistics/index.js';
import { sampleRollouts, type RolloutGroup } from '../rollouts/sample.js';
import { FailureTally, type Failures } from '../tasks/failures.js';
import { refuseEmptyPlan } from './empty-plan.js';
import { evaluateSet, type SetEvaluation } from './evaluations.js';
import type { IterationReport } from './hooks.js';
import { chooseLayers } from './layers.js';
import { Learner } from './learner.js';
import type { LoraSession } from './monitor-session.js';
import { createExecutor, monitorIteration, refuseUnapplied } from './monitoring.js';
import { policyShift, samplerGap, shiftProbes } from './policy-shift.js';
import { rolloutRecords } from './rollout-records.js';
import {
  countVerdict,
  peakRssBytes,
  report,
  shownHits,
  type Answering,
  type InForce,
  type Log,
  type Present,
  type Reporting,
  type RunContext,
  type RunState,
  type Sources,
} from './run-state.js';
import { probeSequences } from './probe-sequences.js';
import { refuseUndecided } from './verifier-check.js';

/** Records of one append: rollouts are large. */
const APPEND = 256;

/** @throws IsoproError, with the run's folder ready to be resumed from the iteration before */
export async function runIteration(
  context: RunContext,
  state: RunState,
  session: LoraSession,
  iteration: number,
): Promise<{ readonly report: IterationReport; readonly failures: Failures }> {
  const { settings, log } = context;
  const clock = stopwatch();
  const { groups, promptTokens, sampledTokens } = await sample(context, state, iteration);
  const failures = await logRollouts(context, state, groups, iteration);
  const rolloutSeconds = clock();

  await context.model.releaseContext();
  const learner = (state.learner ??= await createLearner(context, state, groups, iteration));
  const { steps, shift, gap, tokens, data } = await learn(
    context,
    state,
    learner,
    groups,
    iteration,
  );
  const saved = await learner.save();
  // evaluation and rollouts come next, with a context of their own
  await learner.trainer.releaseBuffers();
  state.adapterId = saved.adapterId;
  state.adapterIteration = iteration;
  log.append([stateRecord(iteration, saved.adapterId, learner)]);
  const trainingSeconds = clock();

  const dev = await evaluateSet(context, 'dev', {
    when: 'iteration',
    iteration,
    adapter: state.adapterId,
  });
  const { verdicts: before } = state.best;
  const passed = await passGate(context, state, learner, saved, { dev, iteration });
  let present = passed.snapshot;

  const { tally } = state.buffer;
  const counts = tally.of(iteration);
  const probe = probeSequences(state.buffer, groups, iteration, settings.layers.adapterFrom);
  const informative = tally.informative(iteration)!;
  const monitored = await monitorIteration(context, state, session, {
    iteration,
    steps,
    shift,
    objective: tally.objective(iteration),
    dev,
    before,
    informative,
    learner,
    probe,
  });
  refuseUnapplied({ iteration, steps }, monitored);
  if (monitored.effects.some(({ executed }) => executed)) {
    // what remedies made of it is a state of its own, even where the adapter's file stays the same
    const remedied = await learner.save();
    state.adapterId = remedied.adapterId;
    log.append([stateRecord(iteration, remedied.adapterId, learner)]);
    present = remedied.snapshot;
  }
  if (steps.every(({ applied }) => applied))
    state.sound = {
      adapterId: state.adapterId,
      iteration: state.adapterIteration,
      snapshot: present,
    };
  const evaluationSeconds = clock();
  const { spent } = state;
  spent.promptTokens += promptTokens + dev.promptTokens;
  spent.sampledTokens += sampledTokens + dev.sampledTokens;
  spent.trainedTokens += tokens;
  spent.peakRssBytes = Math.max(spent.peakRssBytes, peakRssBytes());
  const result: IterationReport = {
    iteration,
    hitRate: pooledHitRate(counts),
    rollouts: dictionary([...counts].map(([tier, of]) => [tier, { ...of }])),
    refused: tally.refusedIn(iteration),
    buffer: state.buffer.composition(),
    steps: steps.length,
    data,
    loss: meanLoss(steps),
    samplerGap: gap,
    dev: dev.summary,
    adapterId: state.adapterId,
    gate: settings.evaluation.gate ? passed.gate : null,
    rulesFired: [...monitored.evaluation.fired],
    learningRate: state.learningRate,
    seconds: { rollouts: rolloutSeconds, training: trainingSeconds, evaluation: evaluationSeconds },
    tokens: { sampled: sampledTokens, trained: tokens },
  };
  log.append([iterationReportRecord(result)]);
  return { report: result, failures };
}

/** The state of the trainer's adapter. */
const stateRecord = (iteration: number, digest: string, learner: Learner): NewRunRecord =>
  adapterStateRecord({ iteration, digest, targets: adapterTargets(learner.trainer.info.targets) });

/**
 * Logs the rollouts with what training takes of them.
 * @returns why rollouts do not pass
 * @throws IsoproError where the verifier found too few verdicts
 */
async function logRollouts(
  { settings, task, model, log }: Reporting & Answering & Log,
  { buffer }: Pick<RunState, 'buffer'>,
  groups: readonly RolloutGroup[],
  iteration: number,
): Promise<Failures> {
  const records = await rolloutRecords(groups, {
    task,
    model,
    iteration,
    runSeed: BigInt(settings.seed),
    settings,
  });
  const reasons = records.flatMap((record) =>
    record.kind === 'rollout' ? [rolloutReason(record)] : [],
  );
  const failing = new FailureTally();
  for (const reason of reasons) failing.take(reason);
  const asked = groups.map(({ problem }) => problem);
  const failures = await withQuestions(failing.failures, task, asked, settings.sampling.style);
  const told = withRight(records, failures);
  for (let at = 0; at < told.length; at += APPEND)
    log.append(told.slice(at, at + APPEND).map(rolloutsRecord));
  for (const record of records) buffer.take(record);
  refuseUndecided(task, reasons);
  return failures;
}

/**
 * Goes back to the best adapter where dev accuracy fell significantly; one that is not worse
 * becomes the best.
 * @returns what is in force then
 */
async function passGate(
  { settings, log }: Reporting & Log,
  state: InForce & Present & Pick<RunState, 'best'>,
  learner: Learner,
  saved: Awaited<ReturnType<Learner['save']>>,
  { dev, iteration }: { readonly dev: SetEvaluation; readonly iteration: number },
): Promise<{ readonly snapshot: Uint8Array; readonly gate: NonNullable<IterationReport['gate']> }> {
  const { best } = state;
  const change = pairedChange(best.verdicts, dev.verdicts);
  const { gained, lost, difference, p } = change;
  const rolledBack =
    settings.evaluation.gate && isSignificantDrop(change, settings.evaluation.gateLevel);
  if (rolledBack) {
    await learner.restore(best.snapshot!, state);
    state.adapterId = await learner.apply();
    state.adapterIteration = best.iteration;
    const cause =
      `dev accuracy fell from ${percent(change.before)} to ${percent(change.after)}: ${lost} problems lost, ${gained} ` +
      `gained, p = ${p.toPrecision(2)}`;
    log.append([gateRecord({ iteration, cause, restored: best.adapterId! })]);
  } else if (difference >= 0) {
    state.best = {
      adapterId: saved.adapterId,
      iteration,
      verdicts: dev.verdicts,
      snapshot: saved.snapshot,
    };
  }
  return {
    snapshot: rolledBack ? best.snapshot! : saved.snapshot,
    gate: { gained, lost, difference, p, rolledBack },
  };
}

/** Adds a passing reply to each problem that the table of failures shows. */
function withRight(records: readonly RolloutsRecord[], { rows }: Failures): RolloutsRecord[] {
  const rights = new Map(
    rows.flatMap(({ example }) =>
      example?.right === undefined ? [] : [[example.problemId, example.right]],
    ),
  );
  return records.map((record) => {
    const right = record.kind === 'problem' ? rights.get(record.problemId) : undefined;
    return record.kind !== 'problem' || right === undefined ? record : { ...record, right };
  });
}

async function sample(
  context: Reporting & Answering & Pick<Sources, 'undrawn'>,
  { buffer }: Pick<RunState, 'buffer'>,
  iteration: number,
): ReturnType<typeof sampleRollouts> {
  const { settings, task, backend, undrawn } = context;
  const { rollouts, samples, allocation, allocationFloor } = settings.sampling;
  const tiers = task.tiers.filter(({ trains }) => trains).map(({ id }) => id);
  const wanted = Math.max(1, Math.round(rollouts / samples));
  const counts = allocate({
    tiers,
    problems: wanted,
    records: buffer.records(iteration),
    floor: allocation === 'uniform' ? 1 : allocationFloor,
  });
  const plan = await planRollouts({
    task,
    runSeed: BigInt(settings.seed),
    iteration,
    counts,
    samples,
    excluded: undrawn,
  });
  refuseEmptyPlan(plan, context);
  const more =
    undrawn.tooLong.size > 0 ? 'few others fit into the context' : 'the task has few others';
  if (iteration === 1 && plan.length < wanted)
    context.hooks.onNotice?.(
      `only ${plan.length} of ${wanted} different problems could be drawn for an iteration; ${more}. With ${samples} ` +
        `samples each, it has ${plan.length * samples} rollouts instead of ${rollouts}`,
    );
  if (iteration === 1)
    for (const left of leftOut(counts, plan, undrawn.tooLong)) context.hooks.onNotice?.(left);
  const hits = new Map<string, { passed: number; decided: number }>();
  const progress = { stage: 'rollouts' as const, iteration, total: plan.length * samples };
  report(context, { ...progress, hits: shownHits(hits) });
  return sampleRollouts({
    backend,
    plan,
    ...samplingOf(task, settings.sampling, settings.model.maxSequences),
    ...given(context, 'signal'),
    onVerdict: ({ tier }, { kind }) => countVerdict(hits, tier, kind),
    onProgress: ({ finished, sampledTokens }) =>
      report(context, {
        ...progress,
        done: finished,
        tokens: sampledTokens,
        hits: shownHits(hits),
      }),
  });
}

/**
 * The layers are chosen on what the base model got right, or on its prompts where that is nothing.
 */
async function createLearner(
  context: Reporting & Log & Pick<Answering, 'model'>,
  state: RunState,
  groups: readonly RolloutGroup[],
  iteration: number,
): Promise<Learner> {
  const { model, settings, log } = context;
  report(context, { stage: 'layers', iteration });
  const { method, layers, scores } = await chooseLayers({
    model,
    settings,
    probes: probeSequences(state.buffer, groups, iteration, settings.layers.adapterFrom),
    ...given(context, 'signal'),
  });
  log.append([
    layersRecord({
      iteration,
      method,
      layers: [...layers],
      scores: scores === null ? null : [...scores],
    }),
  ]);
  state.layers = layers;
  const learner = await Learner.create({ model, settings, layers });
  // without an update the adapter is the base model; this is what a gate in the first iteration
  // goes back to
  const untrained = await learner.save();
  log.append([stateRecord(iteration, untrained.adapterId, learner)]);
  state.best = { ...state.best, ...untrained };
  state.sound = { ...untrained, iteration: 0 };
  state.executor = createExecutor(learner, state);
  return learner;
}

interface Learned {
  readonly steps: readonly StepStatistics[];
  /** Mean KL(new‖old) per token. */
  readonly shift: number | null;
  /** Sampler to trainer, before the steps. */
  readonly gap: number | null;
  readonly tokens: number;
  readonly data: string;
}

async function learn(
  context: Reporting & Pick<Sources, 'teacher'>,
  state: InForce & Pick<RunState, 'buffer'>,
  learner: Learner,
  groups: readonly RolloutGroup[],
  iteration: number,
): Promise<Learned> {
  const { settings, signal } = context;
  let tokens = 0;
  const data = createHash('sha256');
  const learning = {
    trainer: learner.trainer,
    boundaries: learner.boundaries,
    buffer: state.buffer,
    groups,
    settings,
    iteration,
    batchSize: state.batchSize,
    ...(context.teacher === null ? {} : { teacher: context.teacher }),
    ...given(context, 'signal'),
    onBatch: (sequences: readonly TrainSequence[]): void => {
      for (const { tokenIds, labelMask } of sequences) data.update(tokenIds).update(labelMask);
      data.update('step');
    },
    onStep: (stats: StepStatistics, done: number, total: number): void => {
      tokens += stats.tokens;
      report(context, { stage: 'training', iteration, done, total, tokens, loss: stats.loss });
    },
  };
  const probed = shiftProbes(groups, BigInt(settings.seed), iteration);
  const probes = await learner.boundaries.sequences(probed, signal);
  const { temperature, topP } = settings.sampling;
  const measured = { temperature, ...given(context, 'signal') };
  const before = await temperedLogprobs(learner.trainer, probes, measured);
  await learner.beginIteration(state);
  const steps = await algorithmOf(settings).learn(learning);
  const after =
    steps.length === 0 ? before : await temperedLogprobs(learner.trainer, probes, measured);
  const gap = topP < 1 ? null : samplerGap(before, probed);
  return {
    steps,
    shift: policyShift(before, after, probes),
    gap,
    tokens,
    data: data.digest('hex'),
  };
}

const percent = (mean: number): string => `${(100 * mean).toFixed(1)} %`;

/** Seconds since the call before. */
function stopwatch(): () => number {
  let last = performance.now();
  return () => {
    const now = performance.now();
    const seconds = (now - last) / 1000;
    last = now;
    return seconds;
  };
}
