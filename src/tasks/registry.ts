import type { SHIPPED } from './games/shipped.js';
import type { Problem, Task } from './task.js';

/** A task that ships with the package; its answers and references are its own business. */
export interface BuiltInTask<P extends Problem = Problem, A = unknown, R = unknown> {
  readonly task: Task<P, A, R>;
  /** Checks a problem that came from outside. @throws IsoproError PROBLEM_INVALID */
  readonly readProblem: (value: unknown) => P;
}

const builtIn = <P extends Problem, A, R>(
  task: Task<P, A, R>,
  readProblem: (value: unknown) => P,
): BuiltInTask => ({ task, readProblem }) as unknown as BuiltInTask;

const scenario = (name: (typeof SHIPPED)[number]) => async (): Promise<BuiltInTask> => {
  const { shippedTask } = await import('./games/shipped.js');
  const { task, readProblem } = shippedTask(name);
  return builtIn(task, readProblem);
};

/**
 * Every task that ships, by its id, in the order of `tasks list`. Its modules are imported when it
 * is opened: those of all of them are a fifth of what a command takes to start.
 */
const LOAD = {
  scheduling: async () => {
    const [{ scheduling }, { readSchedulingProblem }] = [
      await import('./scheduling/scheduling.js'),
      await import('./scheduling/problem.js'),
    ];
    return builtIn(scheduling, (value) => readSchedulingProblem(scheduling.id, value));
  },
  'scheduling-classic': async () => {
    const { schedulingClassic } = await import('./scheduling-classic/scheduling-classic.js');
    const { readSchedulingProblem } = await import('./scheduling/problem.js');
    return builtIn(schedulingClassic, (value) =>
      readSchedulingProblem(schedulingClassic.id, value),
    );
  },
  extract: async () => {
    const [{ extract }, { readExtractProblem }] = [
      await import('./extract/extract.js'),
      await import('./extract/problem.js'),
    ];
    return builtIn(extract, (value) => readExtractProblem(extract.id, value));
  },
  ladder: async () => {
    const [{ ladder }, { readLadderProblem }] = [
      await import('./ladder/ladder.js'),
      await import('./ladder/problem.js'),
    ];
    return builtIn(ladder, (value) => readLadderProblem(ladder.id, value));
  },
  sql: async () => {
    const [{ sql }, { readSqlProblem }] = [
      await import('./sql/sql.js'),
      await import('./sql/problem.js'),
    ];
    return builtIn(sql, (value) => readSqlProblem(sql.id, value));
  },
  grid_ctf: scenario('grid_ctf'),
  othello: scenario('othello'),
  irrigation: scenario('irrigation'),
  convoy: scenario('convoy'),
  resource_trader: async () => {
    const { readTraderProblem, trader } = await import('./games/trader.js');
    return builtIn(trader, readTraderProblem);
  },
  'othello-board': async () => {
    const { othelloBoard, readOthelloProblem } = await import('./games/othello-board.js');
    return builtIn(othelloBoard, readOthelloProblem);
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
