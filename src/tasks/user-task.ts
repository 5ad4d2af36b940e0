import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';
import { given } from '../given.js';
import { memberNamed, openedTask, type TaskHost } from './opened-task.js';
import type { OpenTask, Problem, TaskRows } from './task.js';
import { BundleError, bundleTask, type TaskBundle } from './task-bundle.js';
import type { TaskDescription } from './task-shape.js';
import { CallTimeout, invalidMember, ThreadLost } from './task-thread.js';
import { isPythonSpecifier, readPythonSpecifier } from './python-module.js';
import type { PythonDescription } from './python-results.js';
import { readData } from './data/open-data.js';
import type { DataTaskOptions } from './data/options.js';
import type { GraderModel } from './data/grader-models.js';
import type { ThreadTask } from './thread-messages.js';
import { VerifierThreads } from './verifier-threads.js';

export interface UserTaskOptions {
  /**
   * Threads that judge at once, 1 to 64; verdicts and their order do not depend on the number.
   * Default: one for a user's task; none for a built-in task, which judges in the calling thread.
   */
  readonly verifierThreads?: number | undefined;
  /** Most replies of an episode; default: as many as the task declares. */
  readonly turns?: number | undefined;
  /** Hide what a task in Python prints, tracebacks included; the caller reports errors. */
  readonly silent?: boolean | undefined;
  /**
   * Seconds by which the clock of a user's task is ahead; a task that reads no clock is not
   * affected.
   */
  readonly clockAhead?: number | undefined;
}

const LOADS_TOO_LONG =
  'Make the task read and compute less while it loads, for example by doing that work in the first call. If other programs keep the ' +
  'machine busy, try again.';

/** Turns timeouts and crashes of a member into errors of the task. */
function asError(path: string, called: string, error: unknown): unknown {
  const member = memberNamed(path, called);
  if (error instanceof CallTimeout && error.loading)
    return new IsoproError('TASK_TIMEOUT', `${path} did not load: ${error.message}`, {
      remedy: LOADS_TOO_LONG,
    });
  if (error instanceof CallTimeout)
    return new IsoproError('TASK_TIMEOUT', `${path}: member "${member}": ${error.message}`);
  if (error instanceof ThreadLost)
    return invalidMember(
      path,
      member,
      `ended its ${isPythonSpecifier(path) ? 'process' : 'thread'}: ${error.message}`,
    );
  return error;
}

function readProblem(id: string, value: unknown): Problem {
  if (
    typeof value !== 'object' ||
    value === null ||
    typeof (value as Problem).id !== 'string' ||
    typeof (value as Problem).tier !== 'string'
  )
    throw new IsoproError(
      'PROBLEM_INVALID',
      `not a problem of ${id}: it needs the members id and tier`,
    );
  return value as Problem;
}

/**
 * Loads a task from a .js or .ts file, with everything that it imports, into threads of its own.
 * @throws IsoproError TASK_UNKNOWN if there is no such file, TASK_INVALID naming the member that is
 *   missing or wrong, TASK_TIMEOUT
 */
export async function openUserTask(file: string, options: UserTaskOptions): Promise<OpenTask> {
  const path = resolve(file);
  requireFile(path, 'TASK_UNKNOWN');
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new IsoproError('TASK_UNKNOWN', `${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  let bundle: TaskBundle;
  try {
    bundle = await bundleTask(path);
  } catch (error) {
    if (error instanceof BundleError)
      throw invalidMember(path, 'module', `cannot be bundled: ${error.message}`);
    throw error;
  }
  const { code, sourceMap, sha256 } = bundle;
  const held = { kind: 'bundle', path, code, sourceMap, silent: options.silent === true } as const;
  return openInThreads({ path, options: {} }, held, () => sha256, options);
}

/**
 * Loads a task in Python, `python:MODULE[:NAME]`, into processes of its own.
 * @throws IsoproError TASK_UNKNOWN, TASK_INVALID naming the function that is missing or wrong,
 *   TASK_TIMEOUT, PYTHON_UNAVAILABLE if the interpreter or the module is missing
 */
export async function openPythonTask(
  specifier: string,
  options: UserTaskOptions,
): Promise<OpenTask> {
  const program = { ...readPythonSpecifier(specifier), silent: options.silent === true };
  const sha256Of = (description: TaskDescription): string =>
    (description as PythonDescription).sha256;
  return openInThreads(
    { path: program.specifier, options: {} },
    { kind: 'python', program },
    sha256Of,
    options,
  );
}

/**
 * Opens the rows of a data file, `.jsonl` or `.csv`, as a task whose check runs in threads.
 * @throws IsoproError FILE_UNREADABLE, DATA_INVALID naming the row, INVALID_ARGUMENT for an unknown
 *   check
 */
export async function openDataTask(
  file: string,
  options: UserTaskOptions,
  asked: DataTaskOptions,
): Promise<OpenTask> {
  const path = resolve(file);
  const { program, sha256, rows } = await readData(path, asked);
  const open = (more: UserTaskOptions, grader?: GraderModel): Promise<OpenTask> =>
    openInThreads(
      { path, options: { ...asked, check: rows.check.specifier } },
      { kind: 'data', program },
      () => sha256,
      { ...options, ...more },
      rows,
      grader,
    );
  const { check } = program;
  if (check.kind !== 'model') return open({});
  // the engine is for this check alone
  const { GraderModel } = await import('./data/grader-models.js');
  // which answers one reply at a time: further threads would wait in their own time
  return open({ verifierThreads: 1 }, new GraderModel(check));
}

async function openInThreads(
  { path, options: again }: { readonly path: string; readonly options: DataTaskOptions },
  task: ThreadTask,
  sha256Of: (description: TaskDescription) => string,
  { verifierThreads = 1, turns, clockAhead }: UserTaskOptions,
  rows?: TaskRows,
  grader?: GraderModel,
): Promise<OpenTask> {
  const threads = new VerifierThreads(
    { ...task, ...given({ clockAhead }) },
    verifierThreads,
    grader && ((messages) => grader.grade(messages)),
  );
  const dispose = async (): Promise<void> => {
    await threads.dispose();
    await grader?.dispose();
  };
  try {
    const description = await threads.first.describe();
    const host: TaskHost = {
      call: async (member, args) => {
        try {
          return await threads.first.call(member, args);
        } catch (error) {
          throw asError(path, member, error);
        }
      },
      readProblem: (value) => readProblem(description.id, value),
      judge: (...args) => threads.judge(...args),
      judgeLeniently: (...args) => threads.judgeLeniently(...args),
      readAnswer: async (problem, text) => {
        try {
          return (await threads.first.call('answer', [problem, text])) as string | null;
        } catch (error) {
          if (error instanceof CallTimeout || error instanceof ThreadLost) return null;
          throw error;
        }
      },
      applyPolicy: (...args) => threads.applyPolicy(...args),
      dispose,
    };
    const source = { kind: 'file', path, sha256: sha256Of(description), options: again } as const;
    return openedTask(host, description, { source, turns, ...given({ rows }) });
  } catch (error) {
    await dispose();
    throw asError(path, 'module', error);
  }
}
