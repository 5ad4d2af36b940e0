/**
 * What an embedding program may watch while a run goes on. Hooks read; nothing that they do reaches
 * the run, unless one throws, which ends it.
 */
import type { Dictionary } from '../dictionary.js';
import type { RuleConfigInput } from '../monitor/rules.js';
import type { TierCounts } from '../run-folder/derived-figures.js';
import type { Failures } from '../tasks/failures.js';
import type { PairedChange, Summary } from '../statistics/index.js';
import type { LoraPolicy } from '../trainees/lora/trainee.js';
import type { LoraReport } from './monitor-session.js';
import type { RunSettings } from './settings.js';

export const STAGES = [
  'load',
  'before',
  'rollouts',
  'layers',
  'training',
  'dev',
  'restraint',
  'after',
  'forgetting',
  'close',
] as const;
export type Stage = (typeof STAGES)[number];

export interface RunProgress {
  readonly stage: Stage;
  /** 0 before the first. */
  readonly iteration: number;
  readonly iterations: number;
  /** Of this stage's units: problems, samples or steps. */
  readonly done: number;
  readonly total: number;
  /** Sampled or trained in this stage. */
  readonly tokens: number;
  /**
   * By tier, of the verdicts of this stage so far: of an evaluation, or of the rollouts of an
   * iteration.
   */
  readonly hits: Dictionary<{ readonly passed: number; readonly decided: number }>;
  /** Of the last step. */
  readonly loss: number | null;
}

export interface IterationReport {
  readonly iteration: number;
  /** Passed over decided rollouts. */
  readonly hitRate: number | null;
  readonly rollouts: Dictionary<Readonly<TierCounts>>;
  /** Rollouts that passed and are not trained on, by what became of them, such as `duplicate`. */
  readonly refused: Dictionary<number>;
  /** Accepted rollouts that are kept, by tier. */
  readonly buffer: Dictionary<number>;
  readonly steps: number;
  /** SHA-256 of the token ids and labels of every step's sequences, in order. */
  readonly data: string;
  /** Per labelled token, mean over the steps. */
  readonly loss: number | null;
  /**
   * Mean difference between the trainer's and the sampler's log-probabilities of sampled tokens,
   * nats, before the first step and at the rollouts' temperature. Null where top-p left part of the
   * distribution out.
   */
  readonly samplerGap: number | null;
  readonly dev: Summary;
  /** Of the adapter that the iteration ended with. */
  readonly adapterId: string;
  /** The comparison with the best adapter so far, and what followed. */
  readonly gate:
    | (Pick<PairedChange, 'gained' | 'lost' | 'difference' | 'p'> & {
        readonly rolledBack: boolean;
      })
    | null;
  readonly rulesFired: readonly string[];
  readonly learningRate: number;
  readonly seconds: {
    readonly rollouts: number;
    readonly training: number;
    readonly evaluation: number;
  };
  readonly tokens: { readonly sampled: number; readonly trained: number };
}

export interface BegunRun {
  readonly folder: string;
  readonly runId: string;
  /** In use: with what follows from model and task. */
  readonly settings: RunSettings;
  /** Iterations that were done before; null: the run begins. */
  readonly resumedAfter: number | null;
  /**
   * The stage whose end is the newest checkpoint: the first evaluations, an iteration, or the last
   * test; null: the run begins.
   */
  readonly resumedFrom: 'prepared' | 'iteration' | 'submitted' | null;
  /** Of earlier processes, up to that checkpoint. */
  readonly spentSeconds: number;
}

export interface RunHooks {
  /** Before the first of the run's own stages, unless it has ended already. */
  readonly onBegin?: (run: BegunRun) => void;
  readonly onProgress?: (progress: RunProgress) => void;
  /** With why rollouts of this iteration did not pass. */
  readonly onIteration?: (report: IterationReport, failures: Failures) => void;
  /**
   * What a person should know of and the run goes on with: a checkpoint that was refused, a witness
   * that does not answer.
   */
  readonly onNotice?: (text: string) => void;
  /** After an iteration in which a rule fired. */
  readonly onRule?: (report: LoraReport) => void;
}

export interface RunOptions extends RunHooks {
  /**
   * The run folder. Absent: an unfinished run of the same configuration in ./runs, else a new
   * folder there.
   */
  readonly out?: string;
  readonly signal?: AbortSignal;
  /**
   * Decides in place of the setting's policy; its name stands in the manifest, and another one is
   * another run. One that throws, is late or answers what does not hold leaves its rule without an
   * answer, which is logged, and the run goes on. An iteration that is interrupted is done again,
   * and the policy asked anew: only one that decides the same on the same measurements makes a
   * resumed run end with the same adapter.
   */
  readonly policy?: LoraPolicy;
  /** Milliseconds that it may take for a decision. Default 60,000. */
  readonly policyTimeout?: number;
  /** Thresholds other than the profile's. */
  readonly rules?: RuleConfigInput;
  /**
   * Threads that judge replies at once; default 1. The log and the adapter are the same with any
   * number, so that it is no setting.
   */
  readonly verifierThreads?: number;
  /**
   * Seconds of sampling that an interruption may cost: finished replies are kept at least so often.
   * Default 10.
   */
  readonly keepSeconds?: number;
}
