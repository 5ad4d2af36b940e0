/**
 * Estimate of the cost of a run from a few seconds of its real work. The clock decides how much is
 * tried; nothing here enters a run.
 */
import { localBackend } from '../backends/local.js';
import { commonBeginning } from '../engine/common-beginning.js';
import { contextOf, withContextRemedy } from '../engine/context-overflow.js';
import type { StageTime } from '../engine/addon.js';
import type { Model } from '../engine/model.js';
import { MICRO_BATCH_TOKENS } from '../engine/training-request.js';
import { IsoproError } from '../errors.js';
import {
  calibrateTier,
  calibrationSample,
  recommend,
  type Calibrated,
  type CalibrationSample,
  type Recommendation,
  type TierCalibration,
} from '../evaluation/calibration.js';
import { evaluationSet, wholeSets } from '../evaluation/evaluation-set.js';
import { forgettingTokens } from '../evaluation/forgetting.js';
import { longestReference } from '../evaluation/longest-reference.js';
import { tooLong, Undrawn } from '../evaluation/exclusions.js';
import { taskWarnings } from '../evaluation/task-warnings.js';
import { given } from '../given.js';
import { liveness, type Liveness } from '../monitor/liveness.js';
import { answer, samplingOf } from '../rollouts/answer.js';
import { exchange, type Episode } from '../rollouts/episode.js';
import { leftOut, planRollouts, type PlannedProblem } from '../rollouts/plan.js';
import { judgedRollout } from '../rollouts/sample.js';
import { refuseNondeterminism } from '../tasks/determinism.js';
import { openTask } from '../tasks/open-task.js';
import type { OpenTask } from '../tasks/task.js';
import { refuseEmptyPlan } from './empty-plan.js';
import { Learner } from './learner.js';
import { LORA } from '../trainees/lora/trainee.js';
import { ruleConfigOf } from './monitoring.js';
import { refuseTurns } from './evaluations.js';
import { openTrainee } from './open-run.js';
import { peakRssBytes } from './run-state.js';
import { MAX_USES } from '../algorithms/replay-buffer.js';
import { trainSequence } from '../algorithms/sequences.js';
import { chooseLayers } from './layers.js';
import { withProfile } from './profile.js';
import {
  inUse,
  isResolved,
  replaysRollouts,
  requireMachine,
  resolveSettings,
  taskOptions,
  type RunSettings,
  type RunSettingsInput,
} from './settings.js';
import { unshownExamples } from './example-hint.js';
import { SHIFT_PROBES } from './policy-shift.js';
import { PROBES } from './probe-sequences.js';

export interface RunPlan {
  /** All settings; `model.threads` is the actual number. */
  readonly settings: RunSettings;
  /**
   * Warnings about the task, as a run gives them: a verifier that passes everything, a tier with
   * few problems.
   */
  readonly warnings: readonly string[];
  /** Problems of the evaluation sets, ids and order determined by the settings. */
  readonly evaluations: { readonly dev: number; readonly test: number };
  readonly layers: readonly number[];
  readonly trainableParameters: number;
  /** First iteration in which each criterion of the rules can fire. */
  readonly rules: readonly Liveness[];
  /**
   * Calibration on few problems in limited time; null for the embedded model, whose rates are
   * known. `tasks calibrate` measures more.
   */
  readonly calibration: {
    /** Planned of each tier; a tier has as many as came to an end. */
    readonly problems: number;
    readonly samples: number;
    /** Time limit. */
    readonly seconds: number;
    readonly tiers: readonly TierCalibration[];
    readonly recommended: Recommendation;
  } | null;
  readonly predicted: {
    readonly minutes: number;
    /** Of all processors, without the witness and a task's own processes. */
    readonly processorSeconds: number;
    readonly sampledTokens: number;
    readonly trainedTokens: number;
    /** Resident, at most. */
    readonly memoryBytes: number;
    readonly diskBytes: number;
  };
  readonly measured: {
    readonly seconds: number;
    readonly tokensPerReply: number;
    readonly sampledTokensPerSecond: number;
    readonly trainedTokensPerSecond: number;
  };
}

const SAMPLING_MS = 5_000;
const SAMPLED_PROBLEMS = 2;
/** Time for calibrating a downloaded model. */
const CALIBRATING_MS = 30_000;
const CALIBRATED_PROBLEMS = 8;
const TRAINING_MS = 4_000;
/** Time for evaluating prompts, and most prompts that are evaluated. */
const PROMPTS_MS = 4_000;
const TRIED_PROMPTS = 16;
/** Of the processor time of a step, what its forward pass takes (dev/log.md). */
const FORWARD_SHARE = 0.38;
/** Bytes of an adapter and of the log per trainable parameter or sampled token. */
const ADAPTER_BYTES = 4;
const LOG_BYTES_PER_TOKEN = 12;

/**
 * Measures for some seconds what a run would take.
 * @throws IsoproError as resolveSettings, openTask and loadModel
 */
export async function planRun(
  input: RunSettingsInput,
  signal?: AbortSignal,
  verifierThreads = 1,
): Promise<RunPlan> {
  requireMachine(isResolved(input) ? input : resolveSettings(input));
  const settings = isResolved(input) ? input : resolveSettings(await withProfile(input, signal));
  const sinceStart = stopwatch();
  await using task = await openTask(settings.task, { verifierThreads, ...taskOptions(settings) });
  refuseTurns(settings, task);
  const { style, maxTokens, samples, rollouts } = settings.sampling;
  await refuseNondeterminism(task, style, signal);
  await using model = await openTrainee(settings, signal);
  const resolved = inUse(settings, { model, task });
  const [dev, test] = [
    await evaluationSet(task, 'dev', settings.evaluation.devSize),
    await evaluationSet(task, 'test', settings.evaluation.testSize),
  ];
  for (const problem of [...dev.problems, ...test.problems]) {
    const sentence = await tooLong(problem, { model, task, style, maxTokens });
    if (sentence !== null)
      throw withContextRemedy(new IsoproError('CONTEXT_OVERFLOW', sentence), model.limits);
  }
  const warnings = await taskWarnings(task, { style, sets: [dev, test], signal });
  const runSeed = BigInt(settings.seed);
  const tiers = task.tiers.filter(({ trains }) => trains).map(({ id }) => id);
  const calibrates = resolved.profile !== 'embedded';
  const problems = calibrates ? CALIBRATED_PROBLEMS : SAMPLED_PROBLEMS;
  const counts = new Map(tiers.map((tier) => [tier, problems]));
  const held = calibrates ? await wholeSets(task) : [];
  const undrawn = new Undrawn(held, {
    model,
    task,
    style,
    maxTokens,
    onTooLong: (sentence) => warnings.push(sentence),
  });
  const plan = inTurn(
    await planRollouts({ task, runSeed, iteration: 0, counts, samples, excluded: undrawn }),
  );
  refuseEmptyPlan(plan, { task, model, undrawn });

  const opening = sinceStart().processorSeconds;
  const prompts = await Promise.all(
    plan.map(async ({ problem }) => model.renderChat(await task.prompt(problem, style)).tokenIds),
  );
  const promptLength = prompts.reduce((sum, { length }) => sum + length, 0) / prompts.length;
  // a request evaluates it once
  const shared = prompts.length < 2 ? 0 : commonBeginning(prompts);
  const promptToken = await promptTokenCostOf(model, prompts, signal);
  const promptTokenCost = promptToken.processorSeconds;
  const milliseconds = calibrates ? CALIBRATING_MS : SAMPLING_MS;
  const sampled = await sampleFor(milliseconds, plan, { task, model, settings }, signal);
  const { judged, lengths, episodes } = sampled;
  const samplingRate = sampled.tokens / sampled.cost.seconds;
  const tokenCost =
    Math.max(0, sampled.cost.processorSeconds - sampled.promptTokens * promptTokenCost) /
    sampled.tokens;
  // replies that the limit cut off may be as long as allowed
  const finished = lengths.length;
  const tokensPerReply =
    finished === 0 ? maxTokens : lengths.reduce((sum, length) => sum + length, 0) / finished;
  if (episodes.length === 0)
    episodes.push(exchange(prompts[0]!, new Int32Array(Math.round(tokensPerReply))));

  const asked = plan.map(({ problem }) => problem);
  const references = calibrates
    ? await longestReference(model, task, [...asked, ...held], style, signal)
    : { tokens: null, unread: 0 };
  let mostTokens = contextOf(model.limits);
  for (const problem of asked) mostTokens = Math.min(mostTokens, await undrawn.roomFor(problem));

  await model.releaseContext();
  const probes = episodes.slice(0, PROBES).map(trainSequence);
  const { layers } = await chooseLayers({ model, settings: resolved, probes });
  const learner = await Learner.create({ model, settings: resolved, layers });
  try {
    // a run keeps the states of the trainer before and after its steps
    const kept = [await learner.save()];
    const training = await trainingCostOf(learner, episodes, settings.optimiser.batchSize, signal);
    kept.push(await learner.save());
    const memoryBytes = peakRssBytes();
    const stateBytes = Math.max(...kept.map(({ snapshot }) => snapshot.length));
    const trainingRate = training.tokens / training.cost.seconds;
    const { parameters } = learner.trainer.info;
    const drawn =
      settings.iterations * Math.min(rollouts, samples * (task.rows?.counts.train ?? Infinity));
    const evaluated = (settings.iterations + 1) * dev.problems.length + 2 * test.problems.length;
    const sampledTokens = Math.round((drawn + evaluated) * tokensPerReply);
    const forgetting =
      (resolved.evaluation.forgetting ?? 0) > 0
        ? forgettingTokens(model, resolved.evaluation.forgetting!)
        : { evaluated: 0, sampled: 0 };
    const sequences = trainedSequences(settings, drawn / settings.iterations, judged);
    const trainedTokens = Math.round(sequences * tokensPerReply);
    const shiftTokens = 2 * settings.iterations * SHIFT_PROBES * tokensPerReply;
    const tokensOfPasses = trainedTokens + FORWARD_SHARE * shiftTokens;
    return {
      settings: resolved,
      warnings: [...warnings, ...leftOut(counts, plan, undrawn.tooLong)],
      evaluations: { dev: dev.problems.length, test: test.problems.length },
      layers,
      trainableParameters: parameters,
      rules: liveness(ruleConfigOf(settings), LORA.ruleSet, settings.optimiser.stepsPerIteration),
      calibration: calibrates
        ? calibrationOf(task, plan, judged, resolved, { references, mostTokens })
        : null,
      predicted: {
        minutes:
          ((sampledTokens + forgetting.sampled) / samplingRate +
            forgetting.evaluated * promptToken.seconds +
            tokensOfPasses / trainingRate) /
          60,
        processorSeconds:
          opening +
          (drawn / samples + evaluated) * (promptLength - shared) * promptTokenCost +
          forgetting.evaluated * promptTokenCost +
          (sampledTokens + forgetting.sampled) * tokenCost +
          (tokensOfPasses * training.cost.processorSeconds) / training.tokens,
        sampledTokens,
        trainedTokens,
        memoryBytes:
          memoryBytes +
          Math.min(
            settings.layers.boundaryMemory,
            layers[0]! > 0
              ? ((trainedTokens * (promptLength + tokensPerReply)) / tokensPerReply) *
                  model.info.embeddingSize *
                  2
              : 0,
          ),
        diskBytes:
          4 * stateBytes + 2 * ADAPTER_BYTES * parameters + LOG_BYTES_PER_TOKEN * sampledTokens,
      },
      measured: {
        seconds: sinceStart().seconds,
        tokensPerReply,
        sampledTokensPerSecond: samplingRate,
        trainedTokensPerSecond: trainingRate,
      },
    };
  } finally {
    await learner.dispose();
  }
}

interface Sampled {
  /** Samples by problem of the plan. */
  readonly judged: readonly (readonly CalibrationSample[])[];
  /** Tokens of the replies that came to an end. */
  readonly lengths: readonly number[];
  readonly episodes: Episode[];
  readonly tokens: number;
  readonly promptTokens: number;
  readonly cost: StageTime;
}

/** Starts to measure; the result says what was used since then. */
function stopwatch(): () => StageTime {
  const [clock, processor] = [performance.now(), process.cpuUsage()];
  return () => {
    const { user, system } = process.cpuUsage(processor);
    return {
      seconds: (performance.now() - clock) / 1000,
      processorSeconds: (user + system) / 1e6,
    };
  };
}

/** What a token of a prompt takes, measured on some of them. */
async function promptTokenCostOf(
  model: Model,
  prompts: readonly Int32Array[],
  signal: AbortSignal | undefined,
): Promise<StageTime> {
  const since = stopwatch();
  let evaluated = 0;
  for (const ids of prompts.slice(0, TRIED_PROMPTS)) {
    await model.embed([ids], given({ signal }));
    evaluated += ids.length;
    if (1000 * since().seconds > PROMPTS_MS) break;
  }
  const { seconds, processorSeconds } = since();
  return { seconds: seconds / evaluated, processorSeconds: processorSeconds / evaluated };
}

/** Replies to the plan's problems, as many as come to an end in so much time. */
async function sampleFor(
  milliseconds: number,
  plan: readonly PlannedProblem[],
  {
    task,
    model,
    settings,
  }: { readonly task: OpenTask; readonly model: Model; readonly settings: RunSettings },
  signal: AbortSignal | undefined,
): Promise<Sampled> {
  const backend = localBackend(model);
  const limit = AbortSignal.timeout(milliseconds);
  const judged: CalibrationSample[][] = plan.map(() => []);
  const lengths: number[] = [];
  const episodes: Episode[] = [];
  let [tokens, promptTokens] = [0, 0];
  const since = stopwatch();
  await answer(
    {
      backend,
      plan,
      ...samplingOf(task, settings.sampling, settings.model.maxSequences),
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
      onProgress: (progress) => ({ sampledTokens: tokens, promptTokens } = progress),
    },
    (reply) => {
      const { tokenIds, episode } = judgedRollout(backend, reply);
      lengths.push(tokenIds.length);
      judged[reply.rollout.promptIndex]!.push(calibrationSample(reply));
      episodes.push(episode);
    },
  ).catch((error: unknown) => {
    if (!(error instanceof IsoproError) || error.code !== 'ABORTED' || signal?.aborted === true)
      throw error;
  });
  return {
    judged,
    lengths,
    episodes,
    tokens: Math.max(1, tokens),
    promptTokens,
    cost: since(),
  };
}

/**
 * Sequences of the run's steps if the model passes as often as it did in the samples: an iteration
 * has no more than its buffer gives, each trace as often as it may be used.
 * @param rollouts of an iteration
 */
function trainedSequences(
  settings: RunSettings,
  rollouts: number,
  judged: readonly (readonly CalibrationSample[])[],
): number {
  const { iterations, optimiser, buffer } = settings;
  const wanted = optimiser.stepsPerIteration * optimiser.batchSize;
  if (!replaysRollouts(settings) || buffer.kind === 'classic' || buffer.accept !== 'passing')
    return iterations * wanted;
  const decided = judged.flat().filter(({ kind }) => kind !== 'none');
  const passed = decided.filter(({ kind }) => kind === 'pass').length;
  const expected = (rollouts * (passed + 1)) / (decided.length + 2); // few say little
  let [traces, sequences] = [0, 0];
  for (let iteration = 0; iteration < iterations; iteration++) {
    traces = (buffer.accumulate ? traces : 0) + expected;
    sequences += Math.min(wanted, MAX_USES * traces);
  }
  return sequences;
}

/**
 * Cost of the tokens of some seconds of steps, as many at a time as fill a micro-batch or a step.
 */
async function trainingCostOf(
  learner: Learner,
  episodes: readonly Episode[],
  batchSize: number,
  signal: AbortSignal | undefined,
): Promise<{ readonly tokens: number; readonly cost: StageTime }> {
  const since = stopwatch();
  const all = episodes.reduce((sum, episode) => sum + trainSequence(episode).tokenIds.length, 0);
  const together = Math.ceil((MICRO_BATCH_TOKENS * episodes.length) / all);
  const count = Math.min(batchSize, episodes.length, Math.max(2, together));
  let tokens = 0;
  for (let at = 0; tokens === 0 || 1000 * since().seconds < TRAINING_MS; at++) {
    const group = Array.from({ length: count }, (_, i) => {
      const n = (count * at + i) % episodes.length;
      return { episode: episodes[n]!, key: `${n}` };
    });
    const batch = await learner.boundaries.sequences(group, signal);
    // a run has more prompts than are kept
    if (learner.trainer.invocationTokens.length > 0) await learner.trainer.releaseBuffers();
    tokens += (await learner.trainer.step(batch, given({ signal }))).tokens;
  }
  return { tokens, cost: since() };
}

/**
 * Orders problems so that tiers take turns: a time limit then leaves about the same number for
 * each.
 */
function inTurn(plan: readonly PlannedProblem[]): PlannedProblem[] {
  const nth = new Map<string, number>();
  const turn = (tier: string): number => nth.set(tier, (nth.get(tier) ?? -1) + 1).get(tier)!;
  return plan
    .map((planned) => ({ planned, turn: turn(planned.problem.tier) }))
    .sort((a, b) => a.turn - b.turn)
    .map(({ planned }) => planned);
}

function calibrationOf(
  task: OpenTask,
  plan: readonly PlannedProblem[],
  judged: readonly (readonly CalibrationSample[])[],
  settings: RunSettings,
  known: Pick<Calibrated, 'references' | 'mostTokens'>,
): RunPlan['calibration'] {
  const { samples, maxTokens } = settings.sampling;
  const groups = plan.map(({ problem: { tier } }, i) => ({ tier, samples: judged[i]! }));
  const tiers = task.tiers
    .filter(({ trains }) => trains)
    .map((tier) => calibrateTier(tier, groups, samples, null));
  const recommended = recommend(tiers, groups, {
    samples,
    maxTokens,
    ...known,
    unshown: unshownExamples(settings),
  });
  return {
    problems: CALIBRATED_PROBLEMS,
    samples,
    seconds: CALIBRATING_MS / 1000,
    tiers,
    recommended,
  };
}
