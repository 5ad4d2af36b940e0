import type { SHIPPED } from './games/shipped.js';
import type { Problem, Task } from './task.js';

/** A task that ships with the package; its answers and references are its own business. */
export interface BuiltInTask<P extends Problem = Problem, A = unknown, R = unknown> {
  readonly task: Task<P, A, R>;
  /** Checks a problem that came from outside. @throws IsoproError PROBLEM_INVALID */
  readonly readProblem: (value: unknown) => P;
}

/** @param read checks a problem of the task with this id */
const builtIn = <P extends Problem, A, R>(
  task: Task<P, A, R>,
  read: (id: string, value: unknown) => P,
): BuiltInTask =>
  ({ task, readProblem: (value: unknown) => read(task.id, value) }) as unknown as BuiltInTask;

const scenario = (name: (typeof SHIPPED)[number]) => async (): Promise<BuiltInTask> => {
  const { shippedTask } = await import('./games/shipped.js');
  const { task, readProblem } = shippedTask(name);
  return builtIn(task, (_, value) => readProblem(value));
};

/**
 * Every task that ships, by its id, in the order of `tasks list`. Its modules are imported when it
 * is opened: those of all of them are a fifth of what a command takes to start.
 */
const LOAD = {
  scheduling: async () => {
    const { scheduling } = await import('./scheduling/scheduling.js');
    const { readSchedulingProblem } = await import('./scheduling/problem.js');
    return builtIn(scheduling, readSchedulingProblem);
  },
  'scheduling-classic': async () => {
    const { schedulingClassic } = await import('./scheduling-classic/scheduling-classic.js');
    const { readSchedulingProblem } = await import('./scheduling/problem.js');
    return builtIn(schedulingClassic, readSchedulingProblem);
  },
  extract: async () => {
    const { extract } = await import('./extract/extract.js');
    const { readExtractProblem } = await import('./extract/problem.js');
    return builtIn(extract, readExtractProblem);
  },
  ladder: async () => {
    const { ladder } = await import('./ladder/ladder.js');
    const { readLadderProblem } = await import('./ladder/problem.js');
    return builtIn(ladder, readLadderProblem);
  },
  sql: async () => {
    const { sql } = await import('./sql/sql.js');
    const { readSqlProblem } = await import('./sql/problem.js');
    return builtIn(sql, readSqlProblem);
  },
  grid_ctf: scenario('grid_ctf'),
  othello: scenario('othello'),
  irrigation: scenario('irrigation'),
  convoy: scenario('convoy'),
  resource_trader: async () => {
    const { readTraderProblem, trader } = await import('./games/trader.js');
    return builtIn(trader, (_, value) => readTraderProblem(value));
  },
  'othello-board': async () => {
    const { othelloBoard, readOthelloProblem } = await import('./games/othello-board.js');
    return builtIn(othelloBoard, (_, value) => readOthelloProblem(value));
  },
} as const satisfies Readonly<Record<string, () => Promise<BuiltInTask>>>;

export type BuiltInId = keyof typeof LOAD;

export const BUILT_IN_IDS = Object.keys(LOAD) as readonly BuiltInId[];

export const isBuiltIn = (id: string): id is BuiltInId => Object.hasOwn(LOAD, id);

const loaded = new Map<BuiltInId, Promise<BuiltInTask>>();

/** The same each time. */
export function builtInTask(id: BuiltInId): Promise<BuiltInTask> {
  const task = loaded.get(id) ?? LOAD[id]();
  loaded.set(id, task);
  return task;
}

export async function builtInTasks(): Promise<BuiltInTask[]> {
  const tasks: BuiltInTask[] = [];
  for (const id of BUILT_IN_IDS) tasks.push(await builtInTask(id));
  return tasks;
}
