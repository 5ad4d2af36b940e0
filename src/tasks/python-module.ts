/**
 * Names of tasks in Python: `python:MODULE[:NAME]`, with an importable module or the path of a .py
 * file.
 */
import { resolve } from 'node:path';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';

const PREFIX = 'python:';

/** Returns the Python interpreter that the user names, or that of the system. */
export const pythonCommand = (): string =>
  process.env.ISOPRO_PYTHON || (process.platform === 'win32' ? 'python' : 'python3');

export interface PythonModule {
  /** Hide its output. */
  readonly silent?: boolean;
  /** Opens the module again from any working directory. */
  readonly specifier: string;
  readonly module: string | null;
  /** Absolute. */
  readonly file: string | null;
  /**
   * Object that holds the functions of the task, or the argument of an adapter; empty: the module
   * itself.
   */
  readonly name: string;
  /** True if the module is a check of data rows, which only judges. */
  readonly check: boolean;
  /** Command or path. */
  readonly interpreter: string;
  /** SHA-256 of the code that was loaded first; later processes must load the same. */
  readonly loaded: { sha256?: string };
}

export const isPythonSpecifier = (specifier: string): boolean => specifier.startsWith(PREFIX);

/** @throws IsoproError TASK_UNKNOWN if it names neither a module nor a readable file */
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
