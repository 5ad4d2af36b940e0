/**
 * Reads what `--check` names: the check for threads, its identity for hashes, its name for a
 * manifest.
 */
import { hash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { asJson, type Json } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { readJson, readWrittenJson, requireFile } from '../../files.js';
import { given as stated } from '../../given.js';
import { placeOf } from '../../json-text.js';
import { readPythonSpecifier } from '../python-module.js';
import { BundleError, bundleTask } from '../task-bundle.js';
import { didYouMean } from '../../nearest.js';
import { firstComplaint } from '../task-shape.js';
import { CHECK_NAMES, CHECKS, compileSchema, type Check } from './check.js';
import { PythonCheck } from './python-check.js';
import { gradingOf, scoreModel, type ScoreModel } from './score-model.js';

export interface NamedCheck {
  readonly check: Check;
  /** Everything that decides, for hashing: contents of files without their paths. */
  readonly identity: Json;
  /** Name in a manifest, without folders. */
  readonly name: string;
  /** Opens the check again from any working directory. */
  readonly specifier: string;
  /** For a model that scores: name of its file without folders, and SHA-256 of the file. */
  readonly grader?: { readonly model: string; readonly sha256: string };
  /** Time limit that the check itself declares. */
  readonly verifySeconds?: number;
}

function refuse(specifier: string, what: string, cause?: unknown): never {
  throw new IsoproError('INVALID_ARGUMENT', `check: ${JSON.stringify(specifier)} ${what}`, {
    cause,
  });
}

/**
 * @throws IsoproError INVALID_ARGUMENT, FILE_UNREADABLE, TASK_UNKNOWN, TASK_INVALID,
 *   PYTHON_UNAVAILABLE, SYSTEM_LIMIT
 */
export async function readCheck(specifier: string): Promise<NamedCheck> {
  const isCommand = specifier.startsWith('command:'); // which may name a script, too
  if (!isCommand && /\.[cm]?[jt]s$/.test(specifier)) return readScript(specifier);
  const [, kind, given] = /^([a-z]+)(?::(.+))?$/s.exec(specifier) ?? [];
  const inProcess = (check: Check): NamedCheck => ({
    check,
    identity: asJson(check),
    name: specifier,
    specifier,
  });
  switch (kind) {
    case 'exact':
    case 'normalised':
    case 'contains':
    case 'regex':
    case 'choice':
      return given === undefined
        ? inProcess({ kind })
        : refuse(specifier, `has a value, but ${kind} takes none`);
    case 'number': {
      const [, amount, percent] =
        /^(\d+(?:\.\d+)?(?:e-?\d+)?)(%?)$/.exec(given ?? '0') ??
        refuse(specifier, 'needs a tolerance like 0.01 or 1%');
      const relative = percent === '%';
      return inProcess({ kind, tolerance: Number(amount) / (relative ? 100 : 1), relative });
    }
    case 'json':
      return given === undefined ? inProcess({ kind, schema: null }) : readSchema(specifier, given);
    case 'command':
      return given === undefined || given.trim() === ''
        ? refuse(specifier, 'names no command')
        : readCommand(given);
    case 'python':
      return given === undefined ? refuse(specifier, 'names no file') : readPython(specifier);
    case 'model':
      return given === undefined ? refuse(specifier, 'names no file') : readModelCheck(given);
    default:
      if (specifier.endsWith('.py'))
        return refuse(specifier, `is a Python file; use python:${specifier}`);
      return refuse(
        specifier,
        `is not one of ${CHECKS}${didYouMean(specifier.replace(/:.*$/s, ''), CHECK_NAMES)}`,
      );
  }
}

function readSchema(specifier: string, given: string): NamedCheck {
  const file = path.resolve(given);
  const { value: schema, numbers } = readWrittenJson(file);
  const lost = numbers.find(({ held }) => !held);
  if (lost !== undefined)
    refuse(
      specifier,
      `has ${lost.text.slice(0, 60)} at ${placeOf(lost.path)}, more digits than a number can hold`,
    );
  try {
    compileSchema(schema);
  } catch (cause) {
    refuse(specifier, `is not a JSON Schema (2020-12): ${(cause as Error).message}`, cause);
  }
  const check = { kind: 'json', schema } as const;
  return {
    check,
    identity: asJson(check),
    name: `json:${path.basename(file)}`,
    specifier: `json:${file}`,
  };
}

/**
 * Hashes the files that a command names, without their paths. What these read or import is not
 * known.
 */
function readCommand(command: string): NamedCheck {
  const words = command.trim().split(/\s+/);
  const identity = words.map((word): Json => {
    const file = word.replace(/^(["'])(.*)\1$/, '$2');
    return statSync(file, { throwIfNoEntry: false })?.isFile() === true
      ? { sha256: hash('sha256', readFileSync(file)) }
      : word;
  });
  return {
    check: { kind: 'command', command, folder: process.cwd() },
    identity: { kind: 'command', words: identity },
    name: `command:${words.map((word) => word.replace(/^.*[/\\]/, '')).join(' ')}`,
    specifier: `command:${command}`,
  };
}

async function readPython(specifier: string): Promise<NamedCheck> {
  const program = readPythonSpecifier(specifier, true);
  await using checker = new PythonCheck(program);
  const { sha256, limits } = await checker.describe();
  return {
    check: { kind: 'python', program }, // which knows now what it has to load
    identity: { kind: 'python', sha256 },
    name: specifier.replace(/^python:.*[/\\]/s, 'python:'),
    specifier: program.specifier,
    ...limits,
  };
}

async function readScript(specifier: string): Promise<NamedCheck> {
  const file = path.resolve(specifier);
  requireFile(file);
  try {
    const { code, sha256 } = await bundleTask(file);
    const name = path.basename(file);
    return {
      check: { kind: 'script', path: file, code },
      identity: { kind: 'script', sha256 },
      name,
      specifier: file,
    };
  } catch (cause) {
    if (cause instanceof BundleError)
      refuse(specifier, `cannot be bundled: ${cause.message}`, cause);
    throw cause;
  }
}

/** Long enough for a prompt on one thread of a busy machine. */
const GRADER_SECONDS = 120;

/**
 * Reads what follows `model:`: a grader file in the form of OpenAI and, after an @, a model that
 * replaces the one that the file names.
 */
export function readGrader(given: string): { readonly file: string; readonly grader: ScoreModel } {
  const [, file = given, model] = /^(.+\.json)@(.+)$/s.exec(given) ?? [];
  if (!file.endsWith('.json')) refuse(`model:${given}`, 'names no .json file');
  const form = scoreModel.safeParse(readJson(file));
  if (!form.success)
    refuse(
      `model:${given}`,
      `is not a grader: ${firstComplaint(form.error, 'grader')}`,
      form.error,
    );
  return {
    file: path.resolve(file),
    grader: { ...form.data, ...stated({ model }) },
  };
}

async function readModelCheck(given: string): Promise<NamedCheck> {
  const { file, grader } = readGrader(given);
  const grading = gradingOf(grader);
  // the engine is for this check alone
  const { graderFile, GRADER_CONTEXT, GRADER_THREADS } = await import('./grader-models.js');
  const model = await graderFile(grader.model);
  const decides = {
    grading,
    model: model.sha256,
    threads: GRADER_THREADS,
    contextTokens: GRADER_CONTEXT,
  };
  return {
    check: { kind: 'model', grading, model },
    identity: asJson({ kind: 'model', ...decides }),
    name: `model:${path.basename(file)}`,
    specifier: `model:${file}@${model.path}`,
    grader: { model: path.basename(model.path), sha256: model.sha256 },
    verifySeconds: GRADER_SECONDS,
  };
}
