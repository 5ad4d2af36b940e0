/** The kinds of job. */
import { ablate } from '../../operations/ablate.js';
import { evaluate } from '../../operations/evaluate.js';
import { promote } from '../../operations/gates/promote.js';
import { judge } from '../../operations/judge.js';
import { run } from '../../operations/run.js';
import { train } from '../../operations/train/train.js';
import { truthAnalyze } from '../../operations/truth/analyze.js';
import { truthRun } from '../../operations/truth/run.js';
import { truthTrain } from '../../operations/truth/train.js';
import { operationKind } from '../operation-kind.js';
import type { JobKind } from './kind.js';

export const JOB_KINDS: readonly JobKind[] = [
  operationKind(run),
  operationKind(train),
  operationKind(evaluate),
  operationKind(judge),
  operationKind(ablate),
  operationKind(truthRun),
  operationKind(truthTrain),
  operationKind(truthAnalyze),
  operationKind(promote),
];
