/** The kinds of job. */
import { promote } from '../../operations/gates/promote.js';
import { judge } from '../../operations/judge.js';
import { operationKind } from '../operation-kind.js';
import { ablate } from './ablate.js';
import { evaluate } from './eval.js';
import type { JobKind } from './kind.js';
import { run } from './run.js';
import { train } from './train.js';
import { truth } from './truth.js';
import { truthAnalyze } from './truth-analyze.js';
import { truthTrain } from './truth-train.js';

export const JOB_KINDS: readonly JobKind[] = [
  run,
  train,
  evaluate,
  operationKind(judge),
  ablate,
  truth,
  truthTrain,
  truthAnalyze,
  operationKind(promote),
];
