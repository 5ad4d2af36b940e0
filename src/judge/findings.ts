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
import type { Scores } from './scores.js';

/** What keeps the verdict from being a pass. */
interface Doubts {
  /** Verdicts of the run that were not found again here. */
  readonly unverified: number;
  /** In words. */
  readonly doubts: readonly string[];
}

export interface JudgedRollouts extends Doubts {
  /** By the judge's own verdicts; null without a task. */
  readonly failures: Failures | null;
}

/** Null is what was not measured. */
export interface JudgedTestSet extends Doubts {
  readonly heldOut: HeldOutResult | null;
  readonly fresh: Fresh | null;
  readonly forgetting: ForgettingComparison | null;
}

export interface Deliverables {
  readonly manifest: RunManifest;
  /** Null where the bare base was submitted. */
  readonly adapter: { readonly path: string; readonly sha256: string } | null;
}

/** All that the steps find, by the names under which later steps need it. */
export interface Findings {
  readonly options: JudgeOptions;
  /** Of what the steps open. */
  readonly closers: Closers;
  readonly verification: RunVerification;
  readonly reader: LogReader;
  /** Live records in order, without rollouts and evaluations. */
  readonly records: readonly LogRecord[];
  readonly ticket: { readonly number: number; readonly unfinishedBefore: number };
  readonly process: ProcessRecord<LoraTypes>;
  /** Who decided on the rules, as the genesis names it. */
  readonly policy: string | null;
  /** Thresholds that are not those of the run's profile. */
  readonly ruleSettings: readonly string[];
  readonly figures: CheckedFigures;
  readonly deliverables: Deliverables;
  readonly submitted: Submission;
  /** Of the final head, 64 hex digits. */
  readonly nonce: string;
  readonly threads: number;
  /** The run's base model. */
  readonly model: Model;
  /** Modules and ranks as the adapter's file has them. */
  readonly targets: AdapterTargets;
  /** The submitted adapter; null where that is the bare base. */
  readonly loaded: Adapter | null;
  readonly start: RunStart;
  /** Whether this machine is of the run's class, with the run's addon. */
  readonly sameMachine: boolean;
  readonly opened: OpenedTask;
  readonly rollouts: JudgedRollouts;
  readonly audit: ProcessAudit;
  readonly testSet: JudgedTestSet;
  readonly scores: Scores;
}
