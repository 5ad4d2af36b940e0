import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { IsoproError } from '../errors.js';
import { problemId } from './problem-id.js';
import type { Problem } from './task.js';

export type SetName = 'test' | 'dev';
export const SET_NAMES: readonly SetName[] = ['test', 'dev'];
export const SET_SIZE: Readonly<Record<SetName, number>> = { test: 100, dev: 20 };

const FOLDER = new URL('../../../assets/evaluation/', import.meta.url);

/** Problem of a frozen set, with what was proven about it when the set was made. */
export interface FrozenProblem<P extends Problem, R> {
  readonly problem: P;
  readonly reference: R;
}

export interface FrozenSet<P extends Problem, R> {
  readonly task: string;
  readonly name: SetName;
  /** SHA-256 of the file. */
  readonly sha256: string;
  readonly problems: readonly FrozenProblem<P, R>[];
}

const loaded = new Map<string, FrozenSet<Problem, unknown>>();

/**
 * Reads a committed evaluation set: 100 (test) or 20 (dev) problems of each tier, in file order. A
 * fixed prefix of each tier is a smaller set of the same kind.
 * @throws IsoproError INVALID_ARGUMENT if the task has no frozen sets, EVALUATION_SET_CORRUPT if
 *   the file differs from its checksum or a problem from its id
 */
export function frozenSet<P extends Problem, R>(task: string, name: SetName): FrozenSet<P, R> {
  const key = `${task}/${name}.json`;
  const known = loaded.get(key) ?? readFrozenSet(FOLDER, task, name);
  loaded.set(key, known);
  return known as FrozenSet<P, R>;
}

/** As `frozenSet`, from a folder that holds SHA256SUMS and `<task>/<name>.json`. */
export function readFrozenSet(
  folder: URL,
  task: string,
  name: SetName,
): FrozenSet<Problem, unknown> {
  const key = `${task}/${name}.json`;
  const corrupt = (what: string, cause?: unknown): never => {
    throw new IsoproError('EVALUATION_SET_CORRUPT', `evaluation set ${key}: ${what}`, { cause });
  };
  let bytes: Buffer;
  let sums: string;
  try {
    sums = readFileSync(new URL('SHA256SUMS', folder), 'utf8');
    if (!sums.includes(`  ${key}\n`))
      throw new IsoproError('INVALID_ARGUMENT', `the task ${task} has no frozen sets`);
    bytes = readFileSync(new URL(key, folder));
  } catch (error) {
    if (error instanceof IsoproError) throw error;
    return corrupt('cannot be read', error);
  }
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  if (!sums.split('\n').includes(`${sha256}  ${key}`))
    corrupt(`has SHA-256 ${sha256}, which is not the committed one`);
  const problems = JSON.parse(bytes.toString('utf8')) as FrozenProblem<Problem, unknown>[];
  for (const { problem } of problems)
    if (problemId(problem) !== problem.id) corrupt(`problem ${problem.id} does not match its id`);
  return { task, name, sha256, problems };
}

const indices = new Map<string, ReadonlyMap<string, FrozenProblem<Problem, unknown>>>();

/** Returns all problems of the task's frozen sets by id; `generate` never returns one of them. */
export function frozenIndex<P extends Problem, R>(
  task: string,
): ReadonlyMap<string, FrozenProblem<P, R>> {
  let index = indices.get(task);
  if (index === undefined) {
    index = new Map(
      SET_NAMES.flatMap((name) =>
        frozenSet(task, name).problems.map((row) => [row.problem.id, row] as const),
      ),
    );
    indices.set(task, index);
  }
  return index as ReadonlyMap<string, FrozenProblem<P, R>>;
}
