/**
 * How a task in Python is named: `python:MODULE[:NAME]`, a module that can be imported or the path
 * of a .py file.
 */
import { resolve } from 'node:path';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';

const PREFIX = 'python:';

/** The command or path of the Python that a user names, or of the system's. */
export const pythonCommand = (): string =>
  process.env.ISOPRO_PYTHON || (process.platform === 'win32' ? 'python' : 'python3');

export interface PythonModule {
  /** What it prints is not shown. */
  readonly silent?: boolean;
  /** What opens it again, wherever this process then is. */
  readonly specifier: string;
  readonly module: string | null;
  /** Absolute. */
  readonly file: string | null;
  /**
   * What holds the functions of the task, or what an adapter is asked for; empty: the module
   * itself.
   */
  readonly name: string;
  /** It only judges: what it is asked about are rows of data. */
  readonly check: boolean;
  /** Command or path. */
  readonly interpreter: string;
  /** SHA-256 of the code that was loaded first; every process that follows has to load the same. */
  readonly loaded: { sha256?: string };
}

export const isPythonSpecifier = (specifier: string): boolean => specifier.startsWith(PREFIX);

/** @throws IsoproError TASK_UNKNOWN where it names neither a module nor a file that can be read */
export function readPythonSpecifier(specifier: string, check = false): PythonModule {
  const named = specifier.slice(PREFIX.length);
  const interpreter = pythonCommand();
  const loaded = {};
  const file = /^(.+?\.py)(?::(.+))?$/s.exec(named);
  if (file !== null) {
    const path = resolve(file[1]!);
    requireFile(path, 'TASK_UNKNOWN');
    const name = file[2] ?? '';
    return {
      specifier: `${PREFIX}${path}${name === '' ? '' : `:${name}`}`,
      module: null,
      file: path,
      name,
      check,
      interpreter,
      loaded,
    };
  }
  const module = /^([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::(.+))?$/su.exec(named);
  if (module === null)
    throw new IsoproError(
      'TASK_UNKNOWN',
      `${JSON.stringify(specifier)} names neither a Python module nor a .py file`,
      {
        remedy:
          'Write python:MODULE or python:FILE.py, followed by :NAME if the task is an object in it.',
      },
    );
  return {
    specifier,
    module: module[1]!,
    file: null,
    name: module[2] ?? '',
    check,
    interpreter,
    loaded,
  };
}
