/**
 * Tiny training runs under the monitor: the real trainer, rules and remedies, on a task that has
 * something to learn.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createTrainer,
  type LoraSettings,
  type Trainer,
  type TrainSequence,
} from '../engine/trainer.js';
import { isDecider, type Decider } from '../monitor/question.js';
import type { RuleConfig } from '../monitor/rules.js';
import { moduleParameters, TrainerExecutor, trainerSettings } from '../trainees/lora/executor.js';
import { scriptedOption } from '../trainees/lora/scripted.js';
import { LORA, type LoraPolicy, type LoraTypes } from '../trainees/lora/trainee.js';
import {
  type LoraReport as MonitorReport,
  MonitorSession,
  type LoraSession,
} from '../training/monitor-session.js';
import { given } from '../given.js';
import { Random } from '../random.js';
import { pairedChange, type TierVerdicts } from '../statistics/index.js';
import type { NewRunRecord } from '../run-folder/streams.js';
import { SCENARIO_MODEL, writeDeadAdapter, type DeadDirections } from './scenario-model.js';

const FIRST_SYMBOL = 40;
const LENGTH = 13;
const EVALUATED = 64;

export interface MonitoredRunOptions {
  readonly seed: bigint;
  readonly rules: RuleConfig;
  readonly policy: LoraPolicy | Decider<LoraTypes>;
  /** Milliseconds that an answer may take; default: the decider's own, else 60,000. */
  readonly policyTimeout?: number;
  readonly iterations?: number;
  readonly stepsEach?: number;
  readonly learningRate?: number;
  readonly lora?: LoraSettings;
  /** Sequences a step, and how many of them make a micro-batch. */
  readonly batchSize?: number;
  readonly microBatch?: number;
  readonly maxBatchSize?: number;
  /** Symbols of the permutation that is to be learnt: token t + 1 is f(token t). */
  readonly symbols?: number;
  /** Part of the labels that are drawn at random instead. */
  readonly noise?: number;
  /** Steps before the monitored run, at 5e-3: what a pretrained model knows already. Default 32. */
  readonly warmup?: number;
  /** Trains on the same sequences over and over instead of new ones. */
  readonly fixed?: number;
  readonly maxNorm?: number;
  readonly epsilon?: number;
  /** The run ends where its objective has reached this. */
  readonly until?: number;
  /** Measures how far an iteration moves the policy (R1), nats a token. Default false. */
  readonly measuresShift?: boolean;
  /** A loss (default), or the share of problems whose answer is the most probable one. */
  readonly heldOut?: 'loss' | 'passRate';
  readonly log?: { append(records: readonly NewRunRecord[]): unknown };
  /** Begins with an adapter in which these are dead. */
  readonly dead?: DeadDirections;
  readonly signal?: AbortSignal;
  /**
   * Called before each iteration: what makes the run sick. `poison`: rewards of that size instead
   * of likelihood. `spoil`: that part of the labels is drawn at random from now on.
   */
  readonly before?: (
    iteration: number,
    run: {
      readonly trainer: Trainer;
      readonly executor: TrainerExecutor;
      readonly poison: (reward: number | null) => void;
      readonly spoil: (noise: number) => void;
    },
  ) => unknown;
}

export interface MonitoredRun {
  readonly reports: readonly MonitorReport[];
  readonly session: LoraSession;
  readonly batchSizes: readonly number[];
  readonly trainLoss: readonly number[];
  readonly heldOutLoss: readonly number[];
  /** Held-out loss of the state that the run ended with. */
  readonly finalHeldOutLoss: number;
  readonly stopped: boolean;
}

function permutation(random: Random, size: number): number[] {
  const values = Array.from({ length: size }, (_, i) => i);
  for (let i = size - 1; i > 0; i--) {
    const j = random.nextInteger(0, i);
    [values[i], values[j]] = [values[j]!, values[i]!];
  }
  return values;
}

/** Sequences that walk through a permutation; every token but the first is a label. */
function walk(random: Random, f: readonly number[], count: number, noise: number): TrainSequence[] {
  return Array.from({ length: count }, () => {
    const tokenIds = new Int32Array(LENGTH);
    let at = random.nextInteger(0, f.length - 1);
    for (let t = 0; t < LENGTH; t++) {
      tokenIds[t] = FIRST_SYMBOL + at;
      at = random.nextDouble() < noise ? random.nextInteger(0, f.length - 1) : f[at]!;
    }
    return { tokenIds, labelMask: Uint8Array.from(tokenIds, (_, t) => (t > 0 ? 1 : 0)) };
  });
}

/**
 * Loss, the share of answers that sampling would get right, and the verdicts where each answer is
 * sampled once, with the same draw each time.
 */
async function measure(
  trainer: Trainer,
  sequences: readonly TrainSequence[],
): Promise<{ loss: number; rate: number; n: number; verdicts: TierVerdicts[] }> {
  const { loss, sequences: each } = await trainer.evaluate(sequences);
  const hits = each.flatMap(({ logprobs }) => [...logprobs].slice(1)).map(Math.exp);
  const draws = new Random(1n);
  const verdicts = [
    { weight: 1, verdicts: hits.map((hit) => (draws.nextDouble() < hit ? 'p' : 'f')).join('') },
  ];
  return { loss, rate: hits.reduce((a, b) => a + b, 0) / hits.length, n: hits.length, verdicts };
}

/** Log-probability of each symbol behind each symbol, `[symbols][symbols]`. */
async function transitions(trainer: Trainer, symbols: number): Promise<Float64Array[]> {
  const pairs = Array.from(
    { length: symbols * symbols },
    (_, i): TrainSequence => ({
      tokenIds: Int32Array.of(FIRST_SYMBOL + Math.floor(i / symbols), FIRST_SYMBOL + (i % symbols)),
      labelMask: Uint8Array.of(0, 1),
    }),
  );
  const { sequences } = await trainer.evaluate(pairs);
  return Array.from({ length: symbols }, (_, from) =>
    Float64Array.from(
      sequences.slice(from * symbols, (from + 1) * symbols),
      ({ logprobs }) => logprobs[1]!,
    ),
  );
}

/**
 * KL(new‖old) of the next token behind each symbol, mean, nats; tokens that are no symbols count as
 * one.
 */
function shiftOf(before: readonly Float64Array[], after: readonly Float64Array[]): number {
  const withRest = (row: Float64Array): number[] => {
    const rest = 1 - row.reduce((sum, logp) => sum + Math.exp(logp), 0);
    return [...row, Math.log(Math.max(rest, 1e-12))];
  };
  const rows = after.map((row, from) => {
    const old = withRest(before[from]!);
    return withRest(row).reduce((sum, logp, to) => sum + Math.exp(logp) * (logp - old[to]!), 0);
  });
  return rows.reduce((sum, kl) => sum + kl, 0) / rows.length;
}

async function importDead(trainer: Trainer, dead: DeadDirections): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'isopro-scenario-'));
  try {
    const file = join(folder, 'adapter.gguf');
    await writeDeadAdapter(file, dead);
    await trainer.importAdapter(file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const digestOf = async (trainer: Trainer): Promise<string> =>
  createHash('sha256')
    .update(await trainer.snapshot())
    .digest('hex');

/** Runs until the iterations are over or a remedy stops it. */
export async function monitoredRun(options: MonitoredRunOptions): Promise<MonitoredRun> {
  const {
    seed,
    rules,
    policy,
    iterations = 16,
    stepsEach = 8,
    learningRate = 1e-3,
    batchSize = 16,
    microBatch = 4,
    maxBatchSize = 64,
    symbols = 24,
    noise: first = 0.1,
    warmup = 32,
    fixed,
    maxNorm = 1,
    epsilon = 1e-8,
    heldOut = 'loss',
    until = Infinity,
    measuresShift = false,
  } = options;
  const random = new Random(seed);
  const f = permutation(random, symbols);
  let noise = first;
  let reward: number | null = null;
  const draw = (count: number): TrainSequence[] =>
    walk(random, f, count, noise).map((sequence) =>
      reward === null
        ? sequence
        : { ...sequence, advantages: new Float32Array(LENGTH).fill(reward) },
    );
  const own = fixed === undefined ? null : draw(fixed);
  const dev = walk(new Random(seed ^ 0x5eedn), f, EVALUATED, 0);
  await using trainer = await createTrainer(
    { path: SCENARIO_MODEL },
    {
      lora: options.lora ?? { rank: 4 },
      optimiser: { learningRate, maxNorm, epsilon },
      seed,
      threads: 1,
    },
  );
  if (options.dead !== undefined) await importDead(trainer, options.dead);
  await trainer.setOptimiser({ learningRate: 5e-3, maxNorm });
  for (let k = 0; k < warmup; k++) await trainer.step(walk(random, f, 16, noise));
  await trainer.setOptimiser({ learningRate, maxNorm });
  let batch = batchSize;
  let stopped = false;
  let reached = false;
  const kept = new Map<string, Uint8Array>();
  const inForce = { learningRate, maxNorm, epsilon };
  const executor = new TrainerExecutor(trainer, {
    inForce,
    loop: {
      setBatch: (sequences) => (batch = sequences),
      kept: (digest) => kept.get(digest),
      digest: () => digestOf(trainer),
      stop: () => (stopped = true),
    },
  });
  const session = new MonitorSession({
    watched: LORA,
    rules,
    policy,
    ...(isDecider<LoraTypes>(policy) && {
      questions: { fallback: scriptedOption },
      ...given({ policyTimeout: policy.timeout }),
    }),
    ...given({ policyTimeout: options.policyTimeout }),
    log: options.log ?? { append: () => undefined },
  });
  const reports: MonitorReport[] = [];
  const batchSizes: number[] = [];
  const trainLoss: number[] = [];
  const heldOutLoss: number[] = [];
  let best = { loss: Infinity, digest: '' };
  let bestVerdicts = (await measure(trainer, dev)).verdicts;
  let sound = await digestOf(trainer);
  kept.set(sound, await trainer.snapshot());
  for (let n = 0; n < iterations && !stopped && !reached; n++) {
    options.signal?.throwIfAborted();
    await options.before?.(n, {
      trainer,
      executor,
      poison: (x) => (reward = x),
      spoil: (part) => (noise = part),
    });
    const earlier = measuresShift ? await transitions(trainer, symbols) : null;
    const steps = [];
    batchSizes.push(batch);
    for (let k = 0; k < stepsEach; k++) {
      const sequences =
        own === null
          ? draw(batch)
          : Array.from({ length: batch }, (_, i) => own[(k * batch + i) % own.length]!);
      steps.push(
        await trainer.step(sequences, {
          objective:
            reward === null ? { kind: 'likelihood' } : { kind: 'policy', temperature: 0.1 },
          microBatches: Array.from({ length: Math.ceil(batch / microBatch) }, (_, i) =>
            Math.min(microBatch, batch - i * microBatch),
          ),
        }),
      );
    }
    const objective = await measure(trainer, own ?? walk(random, f, EVALUATED, 0));
    const evaluated = await measure(trainer, dev);
    trainLoss.push(objective.loss);
    heldOutLoss.push(evaluated.loss);
    const digest = await digestOf(trainer);
    if (evaluated.loss < best.loss) {
      best = { loss: evaluated.loss, digest };
      kept.set(digest, await trainer.snapshot());
    }
    executor.begin({ probe: dev.slice(0, 4), steps });
    const report = await session.iteration(
      {
        iteration: n,
        steps,
        informativeGroupFraction: 1,
        kl: earlier === null ? null : shiftOf(earlier, await transitions(trainer, symbols)),
        parameters: moduleParameters(trainer),
        objective: {
          value: objective.rate,
          standardError: Math.sqrt((objective.rate * (1 - objective.rate)) / objective.n),
        },
        heldOut:
          heldOut === 'loss'
            ? { loss: evaluated.loss }
            : {
                passRate: evaluated.rate,
                n: evaluated.n,
                verdicts: evaluated.verdicts,
                best: bestVerdicts,
              },
      },
      {
        settings: trainerSettings(trainer, {
          learningRate: inForce.learningRate,
          batchSize: batch,
          maxGradNorm: inForce.maxNorm,
          epsilon: inForce.epsilon,
          bestAdapter: best.digest || sound,
          lastSoundAdapter: sound,
          maxBatchSize,
        }),
        executor,
      },
    );
    reports.push(report);
    if (pairedChange(bestVerdicts, evaluated.verdicts).difference >= 0)
      bestVerdicts = evaluated.verdicts;
    reached = objective.rate >= until;
    if (!report.evaluation.fired.includes('R7')) {
      sound = await digestOf(trainer);
      kept.set(sound, await trainer.snapshot());
    }
  }
  return {
    reports,
    session,
    batchSizes,
    trainLoss,
    heldOutLoss,
    finalHeldOutLoss: (await measure(trainer, dev)).loss,
    stopped,
  };
}
