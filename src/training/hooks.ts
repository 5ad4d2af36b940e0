/**
 * Hooks that let an embedding program watch a run. Hooks only read: they cannot change the run,
 * but an exception in one ends it.
 */
import type { Dictionary } from '../dictionary.js';
import type { TableChoices } from '../monitor/policies/table.js';
import type { RuleConfigInput } from '../monitor/rules.js';
import type { TierCounts } from '../run-folder/derived-figures.js';
import type { Failures } from '../tasks/failures.js';
import type { PairedChange, Summary } from '../statistics/index.js';
import type { LoraPolicy } from '../trainees/lora/trainee.js';
import type { LoraReport } from './monitor-session.js';
import type { RunSettings } from './settings.js';
import type { DecidingBackend } from './votes-decider.js';

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
  /** 0 before the first iteration. */
  readonly iteration: number;
  readonly iterations: number;
  /** Units of this stage that are done: problems, samples or steps. */
  readonly done: number;
  readonly total: number;
  /** Tokens sampled or trained in this stage. */
  readonly tokens: number;
  /** Verdicts of this stage so far, by tier: of an evaluation, or of an iteration's rollouts. */
  readonly hits: Dictionary<{ readonly passed: number; readonly decided: number }>;
  /** Loss of the last step. */
  readonly loss: number | null;
}

export interface IterationReport {
  readonly iteration: number;
  /** Passed rollouts divided by decided ones. */
  readonly hitRate: number | null;
  readonly rollouts: Dictionary<Readonly<TierCounts>>;
  /** Rollouts that passed but are not trained on, by the reason, such as `duplicate`. */
  readonly refused: Dictionary<number>;
  /** Accepted rollouts in the buffer, by tier. */
  readonly buffer: Dictionary<number>;
  readonly steps: number;
  /** SHA-256 of the token ids and labels of all training sequences, in order. */
  readonly data: string;
  /** Loss per labelled token, averaged over the steps. */
  readonly loss: number | null;
  /**
   * Mean difference between the trainer's and the sampler's log-probabilities of sampled tokens, in
   * nats, before the first step and at the rollouts' temperature. Null if top-p truncated the
   * distribution.
   */
  readonly samplerGap: number | null;
  readonly dev: Summary;
  /** SHA-256 of the adapter that the iteration ended with. */
  readonly adapterId: string;
  /** Comparison with the best adapter so far, and whether it was restored; null without a gate. */
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
  /** Settings in use, including those that depend on the model and the task. */
  readonly settings: RunSettings;
  /** Iterations that earlier processes completed; null for a new run. */
  readonly resumedAfter: number | null;
  /**
   * Stage of the newest checkpoint: after the first evaluations, after an iteration, or after the
   * last test; null for a new run.
   */
  readonly resumedFrom: 'prepared' | 'iteration' | 'submitted' | null;
  /** Seconds that earlier processes spent up to that checkpoint. */
  readonly spentSeconds: number;
}

export interface RunHooks {
  /** Called before the first stage of the run, unless the run has already ended. */
  readonly onBegin?: (run: BegunRun) => void;
  readonly onProgress?: (progress: RunProgress) => void;
  /** Called after an iteration, with the reasons for failing rollouts. */
  readonly onIteration?: (report: IterationReport, failures: Failures) => void;
  /** Called with a warning for the user, such as a rejected checkpoint or a silent witness. */
  readonly onNotice?: (text: string) => void;
  /** Called after an iteration in which a rule fired. */
  readonly onRule?: (report: LoraReport) => void;
}

export interface RunOptions extends RunHooks {
  /**
   * Run folder. Default: an unfinished run with the same settings in ./runs, otherwise a new folder
   * there.
   */
  readonly out?: string;
  readonly signal?: AbortSignal;
  /**
   * Policy that answers the rules instead of the one in the settings. Its name is part of the
   * manifest, so another policy is another run. If it throws, is late or gives an invalid answer,
   * the rule gets no answer, which is logged, and the run continues. An interrupted iteration is
   * repeated and the policy is asked again: a resumed run ends with the same adapter only if the
   * policy decides the same on the same measurements.
   */
  readonly policy?: LoraPolicy;
  /**
   * Time limit of a decision in milliseconds. Default 60,000; 600,000 for a person and for a model
   * that decides.
   */
  readonly policyTimeout?: number;
  /** Feedback on earlier attempts, which a policy `model:` or `human` is shown. Part of the run. */
  readonly feedback?: string;
  /** The options by rule and side that the policy `table` takes in place of the shipped ones. */
  readonly table?: TableChoices;
  /**
   * Back end that decides in place of a model in this process. The policy of the settings is then
   * `model:NAME`, and NAME is what the run calls it.
   */
  readonly decider?: DecidingBackend;
  /** Shows a text to a person and waits for words: for the policy `human`. */
  readonly ask?: (text: string, signal: AbortSignal) => Promise<string>;
  /** Thresholds that replace those of the profile. */
  readonly rules?: RuleConfigInput;
  /**
   * Threads that judge replies in parallel; default 1. The log and the adapter do not depend on it.
   */
  readonly verifierThreads?: number;
  /**
   * Seconds of sampling that an interruption may cost: the interval of saving replies. Default 10.
   */
  readonly keepSeconds?: number;
}
