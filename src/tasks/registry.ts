import { extract } from './extract/extract.js';
import { readExtractProblem } from './extract/problem.js';
import { othelloBoard, readOthelloProblem } from './games/othello-board.js';
import { SCENARIO_TASKS } from './games/shipped.js';
import { readTraderProblem, trader } from './games/trader.js';
import { ladder } from './ladder/ladder.js';
import { readLadderProblem } from './ladder/problem.js';
import { readSchedulingProblem } from './scheduling/problem.js';
import { scheduling } from './scheduling/scheduling.js';
import { schedulingClassic } from './scheduling-classic/scheduling-classic.js';
import { readSqlProblem } from './sql/problem.js';
import { sql } from './sql/sql.js';
import type { Problem, Task } from './task.js';

/** A task that ships with the package; its answers and references are its own business. */
export interface BuiltInTask<P extends Problem = Problem, A = unknown, R = unknown> {
  readonly task: Task<P, A, R>;
  /** Checks a problem that came from outside. @throws IsoproError PROBLEM_INVALID */
  readonly readProblem: (value: unknown) => P;
}

/** Every task that ships, in the order of `tasks list`. */
export const BUILT_IN_TASKS: readonly BuiltInTask[] = [
  { task: scheduling, readProblem: (value: unknown) => readSchedulingProblem(scheduling.id, value) },
  { task: schedulingClassic, readProblem: (value: unknown) => readSchedulingProblem(schedulingClassic.id, value) },
  { task: extract, readProblem: (value: unknown) => readExtractProblem(extract.id, value) },
  { task: ladder, readProblem: (value: unknown) => readLadderProblem(ladder.id, value) },
  { task: sql, readProblem: (value: unknown) => readSqlProblem(sql.id, value) },
  ...SCENARIO_TASKS,
  { task: trader, readProblem: readTraderProblem },
  { task: othelloBoard, readProblem: readOthelloProblem },
] as unknown as readonly BuiltInTask[];
