/**
 * Contract of an algorithm: which rollouts of an iteration it uses and the steps that it takes on
 * them. Each algorithm has one file and an entry in the list of index.ts, from which flags,
 * refusals, manifest and judge read it.
 */
import type { z } from 'zod';
import type { StepStatistics, Trainer, TrainSequence } from '../engine/trainer.js';
import type { RolloutGroup } from '../rollouts/sample.js';
import type { Admission } from '../run-folder/rollout-records.js';
import type { BufferSettings, ReplayBuffer } from './replay-buffer.js';
import type { BoundaryCache, KeyedRollout } from './sequences.js';

/** A rollout, sampled or read from a log. */
export interface Sample {
  readonly tokenIds: ArrayLike<number>;
  readonly finish: string;
  readonly verdict: { readonly kind: string; readonly score?: number | undefined };
}

/** All samples of one problem, in their order. */
export interface Group<S extends Sample> {
  readonly tier: string;
  readonly rollouts: readonly S[];
}

export interface Fate {
  readonly admission: Admission;
  /** Advantage of a contrasted rollout. */
  readonly advantage?: number;
  /** 1 - smoothed solve rate of its problem; what the replay draws by. */
  readonly weight: number;
}

/**
 * Rollouts to train on: `passing` ones that the verifier accepts; the others are controls.
 * `shuffled` and `random` draw other verdicts, `failing` uses refused rollouts, `references` the
 * task's own replies instead of samples.
 */
export const ACCEPTANCES = ['passing', 'shuffled', 'random', 'failing', 'references'] as const;
export type Acceptance = (typeof ACCEPTANCES)[number];

/** Settings that admission reads besides the algorithm's own. */
export interface AdmissionSettings {
  readonly algorithm: { readonly id: string };
  readonly buffer: { readonly kind: BufferSettings['kind']; readonly accept: Acceptance };
}

/** Settings with the algorithm's own members next to its id. */
type WithOwn<Settings, Own> = Settings & { readonly algorithm: Own };

export interface AdmissionContext<S extends Sample, Own> {
  readonly settings: WithOwn<AdmissionSettings, Own>;
  readonly iteration: number;
  readonly runSeed: bigint;
  /** Returns true if the reasoning of a rollout contradicts its problem. */
  readonly contradicts: (rollout: S) => boolean;
}

/** Settings that learning reads. */
export interface LearningSettings extends AdmissionSettings {
  readonly seed: string;
  readonly sampling: { readonly temperature: number; readonly maxTokens: number };
  readonly optimiser: { readonly stepsPerIteration: number };
  readonly buffer: AdmissionSettings['buffer'] & BufferSettings;
}

/** A model that another learns from. */
export interface Teacher {
  /**
   * Returns, for each sample, the log-probability of each sampled token in order, at the
   * temperature.
   */
  logprobs(
    samples: readonly KeyedRollout[],
    options: { readonly temperature: number; readonly signal?: AbortSignal },
  ): Promise<Float32Array[]>;
}

export interface LearningContext<Own = unknown> {
  readonly trainer: Trainer;
  readonly boundaries: BoundaryCache;
  readonly buffer: ReplayBuffer;
  /** Rollouts of this iteration. */
  readonly groups: readonly RolloutGroup[];
  readonly settings: WithOwn<LearningSettings, Own>;
  readonly iteration: number;
  /** Teacher, if the algorithm has one. */
  readonly teacher?: Teacher;
  /** Sequences a step; a remedy may have changed it. */
  readonly batchSize: number;
  readonly signal?: AbortSignal;
  /** Called before each step. */
  readonly onBatch?: (sequences: readonly TrainSequence[]) => void;
  readonly onStep?: (statistics: StepStatistics, step: number, steps: number) => void;
}

/** Settings that an algorithm may contradict. */
export interface SampledSettings extends AdmissionSettings {
  readonly sampling: { readonly samples: number; readonly topP: number };
  readonly layers: { readonly dropout: number };
  readonly monitor: { readonly policy: string };
}

export interface AlgorithmDefinition<Id extends string, Shape extends z.ZodRawShape> {
  readonly id: Id;
  /** Title in the help of --algorithm. */
  readonly title: string;
  /** Settings that only this algorithm reads; each is a flag of `run` with a default. */
  readonly settings: z.ZodObject<Shape>;
  /**
   * Returns defaults that depend on other settings of its own.
   * @param stated settings that the caller states
   */
  defaults?(stated: Readonly<Record<string, unknown>>): Partial<z.output<z.ZodObject<Shape>>>;
  /** Returns what cannot be trained this way; each sentence begins with the setting's path. */
  contradictions(settings: WithOwn<SampledSettings, z.output<z.ZodObject<Shape>>>): string[];
  /**
   * True if its steps draw accepted rollouts from the replay buffer, including earlier iterations.
   * Default false.
   */
  readonly replays?: boolean;
  /**
   * Returns true if an iteration trains the untrained adapter instead of the one that sampled.
   * Default false.
   */
  startsAnew?(settings: WithOwn<AdmissionSettings, z.output<z.ZodObject<Shape>>>): boolean;
  /**
   * Returns true if the reasoning of a rollout must be checked against its problem before training.
   */
  readsReasoning(settings: AdmissionSettings, rollout: Sample): boolean;
  /**
   * Returns the fate of each rollout. It follows from verdicts, finishes and tokens alone, so that
   * run and judge reach the same result.
   * @param groups of one iteration, in the order in which they were sampled
   */
  admit<S extends Sample>(
    groups: readonly Group<S>[],
    context: AdmissionContext<S, z.output<z.ZodObject<Shape>>>,
  ): Map<S, Fate>;
  /** Takes one iteration of steps; none if there is nothing to train on. @throws as Trainer.step */
  learn(context: LearningContext<z.output<z.ZodObject<Shape>>>): Promise<StepStatistics[]>;
}

/** One of several: its own settings are among those of the run, and are read by its schema. */
export interface Algorithm<Id extends string = string, Shape extends z.ZodRawShape = z.ZodRawShape>
  extends Omit<
    AlgorithmDefinition<Id, Shape>,
    'contradictions' | 'startsAnew' | 'admit' | 'learn'
  > {
  contradictions(settings: SampledSettings): string[];
  startsAnew(settings: AdmissionSettings): boolean;
  admit<S extends Sample>(
    groups: readonly Group<S>[],
    context: AdmissionContext<S, object>,
  ): Map<S, Fate>;
  learn(context: LearningContext<object>): Promise<StepStatistics[]>;
}

/**
 * Makes an algorithm of a definition.
 * @throws z.ZodError from its methods if the settings lack those of its schema
 */
export function algorithm<const Id extends string, Shape extends z.ZodRawShape>(
  definition: AlgorithmDefinition<Id, Shape>,
): Algorithm<Id, Shape> {
  const own = <S extends AdmissionSettings>(
    settings: S,
  ): WithOwn<S, z.output<z.ZodObject<Shape>>> => ({
    ...settings,
    algorithm: { ...settings.algorithm, ...definition.settings.parse(settings.algorithm) },
  });
  return {
    ...definition,
    contradictions: (settings) => definition.contradictions(own(settings)),
    startsAnew: (settings) => definition.startsAnew?.(own(settings)) ?? false,
    admit: (groups, context) =>
      definition.admit(groups, { ...context, settings: own(context.settings) }),
    learn: (context) => definition.learn({ ...context, settings: own(context.settings) }),
  };
}
