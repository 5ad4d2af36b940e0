/** The kinds of job. */
import { judge } from '../../operations/judge.js';
import { truthAnalyze } from '../../operations/truth/analyze.js';
import { truthRun } from '../../operations/truth/run.js';
import { truthTrain } from '../../operations/truth/train.js';
import { operationKind } from '../operation-kind.js';
import { ablate } from './ablate.js';
import { evaluate } from './eval.js';
import { gate } from './gate.js';
import type { JobKind } from './kind.js';
import { run } from './run.js';
import { train } from './train.js';

export const JOB_KINDS: readonly JobKind[] = [
  run,
  train,
  evaluate,
  operationKind(judge),
  ablate,
  operationKind(truthRun),
  operationKind(truthTrain),
  operationKind(truthAnalyze),
  gate,
];
