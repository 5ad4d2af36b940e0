/** List of all operations. */
import { ablate } from './ablate.js';
import { evaluate } from './evaluate.js';
import { promote } from './gates/promote.js';
import { harnessAgree } from './harness-agree.js';
import { harnessReview } from './harness-review.js';
import { harnessRun } from './harness-run.js';
import { harnessScenarios } from './harness-scenarios.js';
import { judge } from './judge.js';
import type { Operation } from './operation.js';
import { distill, run, selfImprove } from './run.js';
import { train } from './train/train.js';
import { truthAnalyze } from './truth/analyze.js';
import { truthRun } from './truth/truth-run.js';
import { truthTrain } from './truth/train.js';

// biome-ignore lint/suspicious/noExplicitAny: each has settings and a result of its own
export const OPERATIONS: readonly Operation<any, unknown, any, any>[] = [
  run,
  selfImprove,
  distill,
  train,
  evaluate,
  judge,
  ablate,
  truthRun,
  truthTrain,
  truthAnalyze,
  promote,
  harnessScenarios,
  harnessRun,
  harnessReview,
  harnessAgree,
];
