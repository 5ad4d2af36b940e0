/** The kinds of job. */
import { ablate } from '../../operations/ablate.js';
import { judge } from '../../operations/judge.js';
import { run } from '../../operations/run.js';
import { truthAnalyze } from '../../operations/truth/analyze.js';
import { truthRun } from '../../operations/truth/run.js';
import { truthTrain } from '../../operations/truth/train.js';
import { operationKind } from '../operation-kind.js';
import { evaluate } from './eval.js';
import { gate } from './gate.js';
import type { JobKind } from './kind.js';
import { train } from './train.js';

export const JOB_KINDS: readonly JobKind[] = [
  operationKind(run),
  train,
  evaluate,
  operationKind(judge),
  operationKind(ablate),
  operationKind(truthRun),
  operationKind(truthTrain),
  operationKind(truthAnalyze),
  gate,
];
