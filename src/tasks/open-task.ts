import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { isFile } from '../files.js';
import { didYouMean } from '../nearest.js';
import { BUILT_IN_IDS, builtInTask, isBuiltIn, type BuiltInId } from './registry.js';
import type { OpenTask, Problem } from './task.js';
import { openedTask, type TaskHost } from './opened-task.js';
import { describeTask } from './task-shape.js';
import { isPythonSpecifier } from './python-module.js';
import { askedOtherwise } from './asking-wrapper.js';
import { askingOf, type AskingOptions } from './asking-options.js';
import { refuseDataOptions } from './data/open-data.js';
import { dataOptionsOf, type DataTaskOptions } from './data/options.js';
import { DATA_ENDINGS, isDataFile } from './data/read-rows.js';
import { openDataTask, openPythonTask, openUserTask, type UserTaskOptions } from './user-task.js';
import { judgeAny, judgeReply, verifyAnswer } from './verdict.js';
import { VerifierThreads } from './verifier-threads.js';

export interface OpenTaskOptions extends DataTaskOptions, AskingOptions, UserTaskOptions {}

const MAX_VERIFIER_THREADS = 64;

/**
 * Opens a built-in task by its id, a user's task by the path of its file, a task in Python as
 * `python:MODULE[:NAME]`, or a data file (`.jsonl`, `.ndjson` or `.csv`, also with gzip) by its
 * path.
 * @throws IsoproError TASK_UNKNOWN, TASK_INVALID, TASK_TIMEOUT, PYTHON_UNAVAILABLE, DATA_INVALID,
 *   FILE_UNREADABLE, INVALID_ARGUMENT
 */
export async function openTask(
  specifier: string,
  options: OpenTaskOptions = {},
): Promise<OpenTask> {
  const task = await openAsItIs(specifier, options);
  try {
    return askedOtherwise(task, askingOf(options));
  } catch (error) {
    await task.dispose();
    throw error;
  }
}

const ENDINGS = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs', ...DATA_ENDINGS];
/** Most files that a remedy names. */
const NAMED_FILES = 6;

/**
 * Refuses a folder or a file name without its ending, and names the files that may be meant.
 * @throws IsoproError TASK_UNKNOWN
 */
function refuseNearFile(specifier: string): void {
  const isTask = (file: string): boolean =>
    [...ENDINGS, '.py'].some((ending) => file.endsWith(ending) && !file.endsWith(`.d${ending}`));
  const asNamed = (file: string): string => (file.endsWith('.py') ? `python:${file}` : file);
  const meant = (files: readonly string[]): { readonly remedy?: string } =>
    files.length === 0
      ? {}
      : { remedy: `Name the file: ${files.slice(0, NAMED_FILES).map(asNamed).join(', ')}.` };
  const found = statSync(specifier, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) {
    const files = readdirSync(specifier).filter(isTask).sort();
    const inside = files.map((file) => path.join(specifier, file));
    throw new IsoproError(
      'TASK_UNKNOWN',
      `${specifier} is a folder; a task is a single file`,
      meant(inside),
    );
  }
  if (found !== undefined) return;
  const near = [...ENDINGS, '.py']
    .map((ending) => `${specifier}${ending}`)
    .filter((file) => existsSync(file));
  if (near.length > 0)
    throw new IsoproError(
      'TASK_UNKNOWN',
      `there is no ${specifier}, but there is ${near.join(', ')}`,
      meant(near),
    );
}

/** @throws IsoproError TASK_UNKNOWN for a file whose type holds no task */
function refuseOtherKind(specifier: string): void {
  if (isDataFile(specifier)) return;
  if (specifier.endsWith('.py'))
    throw new IsoproError(
      'TASK_UNKNOWN',
      `${JSON.stringify(specifier)} is a Python file; use python:${specifier}`,
      {
        remedy: `Name the task python:${specifier}.`,
      },
    );
  const isScript = /\.[cm]?[jt]sx?$/i.test(specifier);
  if (
    /\.(?:xlsx?|ods|tsv|txt|json)(?:\.gz)?$/i.test(specifier) ||
    (path.extname(specifier) !== '' && !isScript && isFile(specifier))
  )
    throw new IsoproError(
      'TASK_UNKNOWN',
      `cannot read rows from ${JSON.stringify(specifier)}: unsupported file type`,
      {
        remedy: 'Save it as CSV (UTF-8) or as JSON Lines, one object per line, and use that file.',
      },
    );
}

async function openAsItIs(specifier: string, options: OpenTaskOptions): Promise<OpenTask> {
  const { verifierThreads } = options;
  const data = dataOptionsOf(options);
  if (
    verifierThreads !== undefined &&
    !(
      Number.isInteger(verifierThreads) &&
      verifierThreads >= 1 &&
      verifierThreads <= MAX_VERIFIER_THREADS
    )
  )
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `a task has 1 to ${MAX_VERIFIER_THREADS} verifier threads, not ${verifierThreads}`,
    );
  if (isBuiltIn(specifier)) {
    refuseDataOptions(specifier, data);
    return openBuiltIn(specifier, options);
  }
  const python = isPythonSpecifier(specifier);
  if (!python) {
    refuseOtherKind(specifier);
    refuseNearFile(specifier);
  }
  const rows = !python && isDataFile(specifier);
  if (python || rows || /[/\\]|\.[cm]?[jt]s$/.test(specifier)) {
    if (!rows) refuseDataOptions(specifier, data);
    const task = await (python
      ? openPythonTask(specifier, options)
      : rows
        ? openDataTask(specifier, options, data)
        : openUserTask(specifier, options));
    if (!isBuiltIn(task.id)) return task;
    await task.dispose();
    throw new IsoproError(
      'TASK_INVALID',
      `${specifier}: member "id" is ${JSON.stringify(task.id)}, the id of a built-in task`,
      {
        ...(rows ? { remedy: 'Rename the file.' } : {}),
      },
    );
  }
  throw new IsoproError(
    'TASK_UNKNOWN',
    `there is no task ${JSON.stringify(specifier)}; the built-in tasks are ` +
      `${BUILT_IN_IDS.join(', ')}${didYouMean(specifier, BUILT_IN_IDS)}`,
  );
}

/**
 * Counts how often each built-in task is open in this thread; closing the last one ends what its
 * verifier has started.
 */
const opened = new Map<string, number>();

async function openBuiltIn(
  id: BuiltInId,
  { verifierThreads, turns }: OpenTaskOptions,
): Promise<OpenTask> {
  const { task, readProblem } = await builtInTask(id);
  const threads =
    verifierThreads === undefined
      ? null
      : new VerifierThreads({ kind: 'built-in', id }, verifierThreads);
  let disposed = false;
  const host: TaskHost = {
    call: async (member, args) => {
      const [problem] = args as [Problem];
      const reference = member === 'grade' ? [(await task.reference?.(problem)) ?? null] : [];
      return Reflect.apply(task[member]!, task, [...args, ...reference]);
    },
    readProblem,
    judge: async (problem, text, finish, options) =>
      threads === null
        ? judgeReply(task, problem, text, finish, options)
        : threads.judge(problem, text, finish, options),
    judgeLeniently: async (problem, text, options) =>
      threads === null
        ? judgeAny(task.readLeniently!(text, problem), (answer) =>
            verifyAnswer(task, problem, answer, options?.signal),
          )
        : threads.judgeLeniently(problem, text, options),
    readAnswer: async (problem, text) => {
      const parsed = task.parse(text, problem);
      return parsed.ok ? canonicalJson(parsed.answer as Json) : null;
    },
    applyPolicy: async (name, problem) => {
      if (!Object.hasOwn(task.trivialPolicies, name))
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `${task.id} has no policy ${JSON.stringify(name)}`,
        );
      return verifyAnswer(task, problem, task.trivialPolicies[name]!(problem));
    },
    dispose: async () => {
      await threads?.dispose();
      if (disposed) return;
      disposed = true;
      const left = opened.get(task.id)! - 1;
      opened.set(task.id, left);
      if (left === 0) await task.dispose?.();
    },
  };
  const description = {
    ...describeTask(task),
    get exploits() {
      return task.exploits;
    },
  };
  const open = openedTask(host, description, { source: { kind: 'built-in' }, turns });
  opened.set(task.id, (opened.get(task.id) ?? 0) + 1);
  return open;
}
