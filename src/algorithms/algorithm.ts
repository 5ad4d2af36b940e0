/**
 * What an algorithm is: which rollouts of an iteration it takes, and the steps that it makes of
 * them. One file an algorithm, and its place in the list of index.ts; flags, refusals, manifest and
 * judge take it from there.
 */
import type { z } from 'zod';
import type { StepStatistics, Trainer, TrainSequence } from '../engine/trainer.js';
import type { RolloutGroup } from '../rollouts/sample.js';
import type { Admission } from '../run-folder/rollout-records.js';
import type { ReplayBuffer } from './replay-buffer.js';
import type { BoundaryCache, KeyedRollout } from './sequences.js';

/** A rollout as it was sampled, and as it stands in a log. */
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
  /** Of a contrasted one. */
  readonly advantage?: number;
  /** 1 - smoothed solve rate of its problem; what the replay draws by. */
  readonly weight: number;
}

/**
 * What is trained on: `passing` what the verifier accepts; the others are controls. `shuffled` and
 * `random` draw other verdicts, `failing` takes what was refused, `references` the task's own
 * replies in place of what was sampled.
 */
export const ACCEPTANCES = ['passing', 'shuffled', 'random', 'failing', 'references'] as const;
export type Acceptance = (typeof ACCEPTANCES)[number];

/** What admission reads of a run's settings beside the algorithm's own. */
export interface AdmissionSettings {
  readonly algorithm: { readonly id: string };
  readonly buffer: { readonly kind: 'balanced' | 'classic'; readonly accept: Acceptance };
}

/** With the algorithm's own beside its id. */
type WithOwn<Settings, Own> = Settings & { readonly algorithm: Own };

export interface AdmissionContext<S extends Sample, Own> {
  readonly settings: WithOwn<AdmissionSettings, Own>;
  readonly iteration: number;
  readonly runSeed: bigint;
  /** Of those whose reasoning is read. */
  readonly contradicts: (rollout: S) => boolean;
}

/** What learning reads of them. */
export interface LearningSettings extends AdmissionSettings {
  readonly seed: string;
  readonly sampling: { readonly temperature: number; readonly maxTokens: number };
  readonly optimiser: { readonly stepsPerIteration: number };
  readonly buffer: AdmissionSettings['buffer'] & {
    readonly newShare: number;
    readonly accumulate: boolean;
  };
}

/** A model that another learns from. */
export interface Teacher {
  /**
   * What it makes of what was sampled: for each sample the log-probability of each sampled token,
   * in order, at the temperature.
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
  /** Of this iteration. */
  readonly groups: readonly RolloutGroup[];
  readonly settings: WithOwn<LearningSettings, Own>;
  readonly iteration: number;
  /** Where the algorithm has one. */
  readonly teacher?: Teacher;
  /** Sequences a step; a remedy may have changed it. */
  readonly batchSize: number;
  readonly signal?: AbortSignal;
  /** Before each step. */
  readonly onBatch?: (sequences: readonly TrainSequence[]) => void;
  readonly onStep?: (statistics: StepStatistics, step: number, steps: number) => void;
}

/** What a choice of settings may contradict. */
export interface SampledSettings extends AdmissionSettings {
  readonly sampling: { readonly samples: number; readonly topP: number };
  readonly layers: { readonly dropout: number };
  readonly monitor: { readonly policy: string };
}

export interface AlgorithmDefinition<Id extends string, Shape extends z.ZodRawShape> {
  readonly id: Id;
  /** In the help of --algorithm. */
  readonly title: string;
  /** Those that no other algorithm reads; each a flag of `run` with a default. */
  readonly settings: z.ZodObject<Shape>;
  /** Defaults that other settings of its own change. @param stated what the caller says of them */
  defaults?(stated: Readonly<Record<string, unknown>>): Partial<z.output<z.ZodObject<Shape>>>;
  /** What cannot be trained this way, each sentence beginning with the setting's path. */
  contradictions(settings: WithOwn<SampledSettings, z.output<z.ZodObject<Shape>>>): string[];
  /**
   * Whether its steps draw accepted rollouts from the replay buffer, those of earlier iterations
   * too. Default: they do not.
   */
  readonly replays?: boolean;
  /**
   * Whether an iteration trains from the untrained adapter, and not from the one that sampled.
   * Default: it does not.
   */
  startsAnew?(settings: WithOwn<AdmissionSettings, z.output<z.ZodObject<Shape>>>): boolean;
  /** Whether the reasoning of a rollout is held against its problem before it is trained on. */
  readsReasoning(settings: AdmissionSettings, rollout: Sample): boolean;
  /**
   * What becomes of each rollout. It follows from verdicts, ends and tokens alone, so that a run
   * decides by it and its judge decides again.
   * @param groups of one iteration, in the order in which they were sampled
   */
  admit<S extends Sample>(
    groups: readonly Group<S>[],
    context: AdmissionContext<S, z.output<z.ZodObject<Shape>>>,
  ): Map<S, Fate>;
  /** One iteration of steps; none where there is nothing to train on. @throws as Trainer.step */
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

/** @throws z.ZodError from its methods where the settings lack those of its schema */
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
