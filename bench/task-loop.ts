/**
 * Where the time of a run goes: iterations of a real model on a task by stage, in seconds of the
 * clock and of the processor. Each stage is done by itself, after the one before, so that what it
 * costs is its own: replies are judged once all have been sampled. Without a log, a gate and a
 * monitor. Where no reply passes, all of them are trained on, which costs what accepted ones cost.
 */
import type { KERNELS, OperationTime, StageTime } from '../src/engine/addon.js';
import type { Rollout } from '../src/engine/generation.js';
import { loadModel, type Model } from '../src/engine/model.js';
import { chunks } from '../src/algorithms/steps.js';
import { keyedRollouts } from '../src/algorithms/sequences.js';
import { localBackend } from '../src/backends/local.js';
import { allocate } from '../src/rollouts/allocation.js';
import { planRollouts, type PlannedProblem } from '../src/rollouts/plan.js';
import { sampleRollouts, type SampledGroups } from '../src/rollouts/sample.js';
import { openTask } from '../src/tasks/open-task.js';
import type { OpenTask } from '../src/tasks/task.js';
import { chooseLayers } from '../src/training/layers.js';
import { Learner } from '../src/training/learner.js';
import type { RunSettings } from '../src/training/settings.js';
import { resident, type Resident } from './loop.js';

export interface TaskLoopOptions {
  readonly modelPath: string;
  readonly task: string;
  readonly settings: RunSettings;
  /** Measure each operation of llama.cpp's graphs too, which makes sampling slower. */
  readonly profile: boolean;
}

/**
 * In the order in which they come. `evaluation` is a greedy reply to each of as many problems as a
 * dev set has.
 */
export const STAGES = [
  'load',
  'prompts',
  'prefill',
  'decode',
  'draw',
  'verdicts',
  'boundaries',
  'forward',
  'head',
  'backward',
  'optimiser',
  'step: rest',
  'adapter',
  'evaluation: prefill',
  'evaluation: decode',
  'evaluation: rest',
] as const;
export type Stage = (typeof STAGES)[number];

export interface StageShare extends StageTime {
  readonly stage: Stage;
  /** Of the processor time of all stages but `load`. */
  readonly share: number;
}

export interface TaskLoopResult {
  readonly stages: readonly StageShare[];
  readonly replies: number;
  readonly passed: number;
  readonly tokens: { readonly prompts: number; readonly sampled: number; readonly trained: number };
  /** After each part of the last iteration; null where the system does not say. */
  readonly memory: Readonly<
    Record<'loaded' | 'sampled' | 'trained' | 'evaluated', Resident | null>
  >;
  /** Whose kernels multiplied with the weights. */
  readonly matmul: (typeof KERNELS)[number];
  /** The dearest first; empty without `profile`. */
  readonly operations: readonly OperationTime[];
  readonly peakRssBytes: number;
}

class Costs {
  readonly #times = new Map<Stage, StageTime>();

  add(stage: Stage, { seconds, processorSeconds }: StageTime): void {
    const before = this.#times.get(stage) ?? { seconds: 0, processorSeconds: 0 };
    this.#times.set(stage, {
      seconds: before.seconds + seconds,
      processorSeconds: before.processorSeconds + Math.max(0, processorSeconds),
    });
  }

  /** Adds what `work` costs, less what it says is another stage's. */
  async of<T>(
    stage: Stage,
    work: (others: (stage: Stage, time: StageTime) => void) => Promise<T>,
  ): Promise<T> {
    const [began, processor] = [performance.now(), process.cpuUsage()];
    let [seconds, processorSeconds] = [0, 0];
    const result = await work((other, time) => {
      this.add(other, time);
      seconds += time.seconds;
      processorSeconds += time.processorSeconds;
    });
    const { user, system } = process.cpuUsage(processor);
    this.add(stage, {
      seconds: (performance.now() - began) / 1000 - seconds,
      processorSeconds: (user + system) / 1e6 - processorSeconds,
    });
    return result;
  }

  shares(): StageShare[] {
    const times = STAGES.map((stage) => ({
      stage,
      ...(this.#times.get(stage) ?? { seconds: 0, processorSeconds: 0 }),
    }));
    const total = times.reduce(
      (sum, { stage, processorSeconds }) => sum + (stage === 'load' ? 0 : processorSeconds),
      0,
    );
    return times.map((time) => ({
      ...time,
      share: time.stage === 'load' || total === 0 ? 0 : time.processorSeconds / total,
    }));
  }
}

const difference = (after: StageTime, before: StageTime): StageTime => ({
  seconds: after.seconds - before.seconds,
  processorSeconds: after.processorSeconds - before.processorSeconds,
});

/** Samples a whole plan, then judges it. */
async function answered(
  {
    model,
    task,
    settings,
    costs,
  }: { model: Model; task: OpenTask; settings: RunSettings; costs: Costs },
  plan: readonly PlannedProblem[],
  at: {
    readonly temperature: number;
    readonly stages: Readonly<
      Record<'prompts' | 'prefill' | 'decode' | 'draw' | 'verdicts', Stage>
    >;
  },
): Promise<SampledGroups> {
  const { style, topP, maxTokens } = settings.sampling;
  const { maxSequences } = settings.model;
  const prompts = await costs.of(at.stages.prompts, () =>
    Promise.all(
      plan.map(async ({ problem, seeds }) => ({
        tokenIds: model.renderChat(await task.prompt(problem, style)).tokenIds,
        seeds,
      })),
    ),
  );
  const replies: Rollout[] = [];
  await costs.of(at.stages.decode, async (others) => {
    const running = model.generate({
      prompts,
      sampling: { temperature: at.temperature, topP },
      maxTokens,
      maxSequences,
    });
    let next = await running.next();
    for (; next.done !== true; next = await running.next()) replies.push(next.value);
    others(at.stages.prefill, next.value.prefill);
    others(at.stages.draw, next.value.draw);
  });
  const replayed = {
    ...localBackend(model),
    async *sample() {
      for (const reply of replies) yield { ...reply, seed: BigInt(reply.seed) };
    },
  };
  return costs.of(at.stages.verdicts, () =>
    sampleRollouts({
      backend: replayed,
      task,
      plan,
      prompt: (problem) => task.prompt(problem, style),
      temperature: at.temperature,
      topP,
      maxTokens,
      maxSequences,
    }),
  );
}

/** @throws as loadModel, openTask, Model.generate and Trainer.step */
export async function benchTaskLoop({
  modelPath,
  task: specifier,
  settings: asked,
  profile,
}: TaskLoopOptions): Promise<TaskLoopResult> {
  const costs = new Costs();
  await using model = await costs.of('load', () =>
    loadModel(modelPath, {
      fixedThreads: true,
      matmul: asked.model.matmul,
      ...(asked.model.threads === 0 ? {} : { threads: asked.model.threads }),
      ...(asked.model.contextTokens === undefined
        ? {}
        : { contextTokens: asked.model.contextTokens }),
    }),
  );
  const settings: RunSettings = {
    ...asked,
    model: { ...asked.model, threads: model.info.threads },
  };
  if (profile) await model.measureOperations();
  const task = await openTask(specifier);
  const memory = {
    loaded: resident(),
    sampled: null as Resident | null,
    trained: null as Resident | null,
    evaluated: null as Resident | null,
  };
  const tokens = { prompts: 0, sampled: 0, trained: 0 };
  let [replies, passed] = [0, 0];
  let operations: readonly OperationTime[] = [];
  let learner: Learner | null = null;
  const setting = { model, task, settings, costs };
  const { seed, iterations } = settings;
  try {
    const trained = task.tiers.filter(({ trains }) => trains).map(({ id }) => id);
    for (let iteration = 1; iteration <= iterations; iteration++) {
      const { rollouts, samples } = settings.sampling;
      const counts = allocate({
        tiers: trained,
        problems: Math.max(1, Math.round(rollouts / samples)),
        records: new Map(),
        floor: 1,
      });
      const plan = await costs.of('prompts', () =>
        planRollouts({ task, runSeed: BigInt(seed), iteration, counts, samples }),
      );
      const { groups, promptTokens, sampledTokens } = await answered(setting, plan, {
        temperature: settings.sampling.temperature,
        stages: {
          prompts: 'prompts',
          prefill: 'prefill',
          decode: 'decode',
          draw: 'draw',
          verdicts: 'verdicts',
        },
      });
      memory.sampled = resident();
      tokens.prompts += promptTokens;
      tokens.sampled += sampledTokens;
      await model.releaseContext();

      const all = keyedRollouts(groups, iteration);
      const right = all.filter(({ rollout }) => rollout.verdict.kind === 'pass');
      replies += all.length;
      passed += right.length;
      const source = right.length > 0 ? right : all;
      const { stepsPerIteration, batchSize } = settings.optimiser;
      const drawn = Array.from(
        { length: stepsPerIteration * batchSize },
        (_, i) => source[i % source.length]!,
      );
      const made = (learner ??= await costs.of('adapter', async () =>
        Learner.create({
          model,
          settings,
          layers: (await chooseLayers({ model, settings, probes: [] })).layers,
        }),
      ));
      for (const batch of chunks(drawn, batchSize)) {
        const sequences = await costs.of('boundaries', () => made.boundaries.sequences(batch));
        await costs.of('step: rest', async (others) => {
          const before = await made.trainer.times();
          tokens.trained += (await made.trainer.step(sequences, { leastMicroBatches: 2 })).tokens;
          const after = await made.trainer.times();
          for (const stage of ['forward', 'head', 'backward', 'optimiser'] as const)
            others(stage, difference(after[stage], before[stage]));
        });
      }
      await costs.of('adapter', () => made.apply());
      memory.trained = resident();

      const evaluated = new Map(
        task.tiers.map(({ id }) => [id, settings.evaluation.devSize] as const),
      );
      const rest = 'evaluation: rest';
      const questions = await costs.of(rest, () =>
        planRollouts({
          task,
          runSeed: BigInt(seed),
          iteration: iterations + iteration,
          counts: evaluated,
          samples: 1,
        }),
      );
      await answered(setting, questions, {
        temperature: 0,
        stages: {
          prompts: rest,
          prefill: 'evaluation: prefill',
          decode: 'evaluation: decode',
          draw: rest,
          verdicts: rest,
        },
      });
      memory.evaluated = resident();
    }
    operations = await model.operationTimes();
  } finally {
    await learner?.dispose();
    await task.dispose();
  }
  return {
    stages: costs.shares(),
    replies,
    passed,
    tokens,
    memory,
    matmul: model.info.matmul,
    operations,
    peakRssBytes: process.resourceUsage().maxRSS * 1024,
  };
}
