/** State of a run between iterations, and context shared by the parts of an iteration. */
import type { Backend, TokenReply } from '../backends/backend.js';
import { dictionary } from '../dictionary.js';
import type { Model } from '../engine/model.js';
import type { EvaluationSet } from '../evaluation/evaluation-set.js';
import type { Undrawn } from '../evaluation/exclusions.js';
import type { RunStart } from '../run-folder/manifest.js';
import type { RunLog } from '../run-folder/streams.js';
import type { TierVerdicts } from '../statistics/index.js';
import type { OpenTask, VerdictKind } from '../tasks/task.js';
import type { OptimiserInForce, TrainerExecutor } from '../trainees/lora/executor.js';
import type { RunHooks, RunProgress } from './hooks.js';
import type { KeptReplies } from './reply-cache.js';
import type { Learner } from './learner.js';
import type { ReplayBuffer } from '../algorithms/replay-buffer.js';
import type { RunSettings } from './settings.js';
import type { TeacherModel } from './teacher.js';

/** Settings, progress hooks and cancellation. */
export interface Reporting {
  /** `model.threads` is the number in use. */
  readonly settings: RunSettings;
  readonly hooks: RunHooks;
  readonly signal?: AbortSignal;
}

/** Model that answers problems, and task that judges the answers. */
export interface Answering {
  readonly model: Model;
  /** The model as what samples. */
  readonly backend: Backend<TokenReply>;
  readonly task: OpenTask;
}

/** Folder and log of the run. */
export interface Recording {
  readonly folder: string;
  readonly runId: string;
  readonly start: RunStart;
  readonly log: RunLog;
}

export type Log = Pick<Recording, 'log'>;

export interface EvaluationSets {
  readonly dev: EvaluationSet;
  readonly test: EvaluationSet;
}

/** Sources of problems and of a teacher's log-probabilities. */
export interface Sources {
  readonly undrawn: Undrawn;
  /** Teacher of a distillation. */
  readonly teacher: TeacherModel | null;
}

/** Open for the whole run; a part of it takes what it needs. */
export interface RunContext extends Reporting, Answering, Recording, EvaluationSets, Sources {
  /** Saved replies, for resumption. */
  readonly kept: KeptReplies;
}

/** A state of the trainer that the run may go back to. */
export interface KeptState {
  /** SHA-256 of the adapter file that it exports. */
  readonly adapterId: string;
  /** Iteration that trained it; 0 is the untrained adapter. */
  readonly iteration: number;
  readonly snapshot: Uint8Array;
}

/** The adapter with the highest dev accuracy so far. */
export interface Best {
  /**
   * SHA-256 of the adapter; null before a trainer exists. Afterwards the untrained adapter
   * represents the base model.
   */
  readonly adapterId: string | null;
  readonly iteration: number;
  /** Verdicts on the dev problems. */
  readonly verdicts: readonly TierVerdicts[];
  /** Snapshot; null before a trainer exists. */
  readonly snapshot: Uint8Array | null;
}

export interface Spent {
  seconds: number;
  peakRssBytes: number;
  promptTokens: number;
  sampledTokens: number;
  trainedTokens: number;
}

/** Optimiser values that remedies change, with the sequences per step. */
export interface InForce extends OptimiserInForce {
  batchSize: number;
}

/** The adapter that samples. */
export interface Present {
  adapterId: string | null;
  /** The iteration that it is of. */
  adapterIteration: number;
}

/** Trainer; null before there is anything to train on. */
export interface Training {
  learner: Learner | null;
  layers: readonly number[] | null;
  /** Carries remedies out. */
  executor: TrainerExecutor | null;
}

/** States that the run may go back to. */
export interface GoingBack {
  best: Best;
  /**
   * Final state of the last iteration in which all steps were applied, including remedies. Null
   * before a trainer exists.
   */
  sound: KeptState | null;
}

export interface Ending {
  /** Why no further iteration begins. */
  stop: string | null;
  /** A remedy has put the final adapter in place. */
  settled: boolean;
}

/** State passed from one iteration to the next; a checkpoint stores it. */
export interface RunState extends InForce, Present, Training, GoingBack, Ending {
  readonly buffer: ReplayBuffer;
  readonly spent: Spent;
}

/** Largest resident size of this process so far. */
export const peakRssBytes = (): number => process.resourceUsage().maxRSS * 1024;

/** Reports progress with the fields that a stage does not have left at their neutral values. */
export function report(
  context: Pick<Reporting, 'hooks' | 'settings'>,
  progress: Pick<RunProgress, 'stage'> & Partial<RunProgress>,
): void {
  context.hooks.onProgress?.({
    iteration: 0,
    iterations: context.settings.iterations,
    done: 0,
    total: 0,
    tokens: 0,
    hits: {},
    loss: null,
    ...progress,
  });
}

type Hits = Map<string, { passed: number; decided: number }>;

/** Counts a verdict for `RunProgress.hits`. */
export function countVerdict(hits: Hits, tier: string, kind: VerdictKind): void {
  const of = hits.get(tier) ?? { passed: 0, decided: 0 };
  hits.set(tier, of);
  if (kind !== 'none') of.decided++;
  if (kind === 'pass') of.passed++;
}

export const shownHits = (hits: Hits): RunProgress['hits'] =>
  dictionary([...hits].map(([tier, of]) => [tier, { ...of }]));
