import type { Closers } from '../closers.js';
import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import type { RunVerification } from '../log/local-trust.js';
import type { LogReader, LogRecord } from '../log/read.js';
import type { AdapterTargets, Submission } from '../run-folder/course-records.js';
import type { Failures } from '../run-folder/derived-figures.js';
import type { RunManifest, RunStart } from '../run-folder/manifest.js';
import type { LoraTypes } from '../trainees/lora/trainee.js';
import type { CheckedFigures } from './figures.js';
import type { ForgettingComparison } from './forgetting.js';
import type { Fresh } from './fresh-problems.js';
import type { HeldOutResult, OpenedTask } from './held-out.js';
import type { ProcessAudit, ProcessRecord } from './obligations.js';
import type { JudgeOptions } from './options.js';
import type { CheckedQuestions, JudgedDeciders } from './questions.js';
import type { Scores } from './scores.js';

/** Reasons why the verdict is not a pass. */
interface Doubts {
  /** Verdicts of the run that were not found again here. */
  readonly unverified: number;
  /** Reasons, one sentence each. */
  readonly doubts: readonly string[];
}

export interface JudgedRollouts extends Doubts {
  /** Failures by the judge's own verdicts; null without a task. */
  readonly failures: Failures | null;
}

/** Results on the test set; null for what was not measured. */
export interface JudgedTestSet extends Doubts {
  readonly heldOut: HeldOutResult | null;
  readonly fresh: Fresh | null;
  readonly forgetting: ForgettingComparison | null;
}

export interface Deliverables {
  readonly manifest: RunManifest;
  /** Submitted file; null if the base model was submitted without an adapter. */
  readonly adapter: { readonly path: string; readonly sha256: string } | null;
}

/** Results of all steps, by the names that later steps use. */
export interface Findings {
  readonly options: JudgeOptions;
  /** Closes what the steps open. */
  readonly closers: Closers;
  readonly verification: RunVerification;
  readonly reader: LogReader;
  /** Live records in order, without rollouts and evaluations. */
  readonly records: readonly LogRecord[];
  readonly ticket: { readonly number: number; readonly unfinishedBefore: number };
  readonly process: ProcessRecord<LoraTypes>;
  /** Decision maker of the rules, as the genesis names it. */
  readonly policy: string | null;
  /** Thresholds that are not those of the run's profile. */
  readonly ruleSettings: readonly string[];
  /** Questions to the run's decider; null if its policy chooses from no menu. */
  readonly questions: CheckedQuestions | null;
  readonly deciders: JudgedDeciders | null;
  readonly figures: CheckedFigures;
  readonly deliverables: Deliverables;
  readonly submitted: Submission;
  /** Nonce of the final head, 64 hex digits. */
  readonly nonce: string;
  readonly threads: number;
  /** The run's base model. */
  readonly model: Model;
  /** Modules and ranks as the adapter's file has them. */
  readonly targets: AdapterTargets;
  /** Submitted adapter; null if it is the base model alone. */
  readonly loaded: Adapter | null;
  readonly start: RunStart;
  /** True if this machine is of the run's class; where ggml computes, with the run's addon. */
  readonly sameMachine: boolean;
  readonly opened: OpenedTask;
  readonly rollouts: JudgedRollouts;
  readonly audit: ProcessAudit;
  readonly testSet: JudgedTestSet;
  readonly scores: Scores;
}
