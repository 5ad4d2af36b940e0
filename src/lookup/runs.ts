/** The run that a user names: by its folder or the beginning of its id. */
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../errors.js';
import { readManifest } from '../run-folder/manifest.js';
import { isRunFolder } from '../run-folder/paths.js';

export const RUNS = 'runs';

/**
 * Kind of a path. A path that may not be read counts as `other`, so that its reader reports the
 * error.
 */
export function kindOf(place: string): 'none' | 'folder' | 'other' {
  try {
    const found = statSync(place, { throwIfNoEntry: false });
    return found === undefined ? 'none' : found.isDirectory() ? 'folder' : 'other';
  } catch {
    return 'other';
  }
}

/** Folders in a folder, without symbolic links. */
const foldersIn = (parent: string): string[] => {
  try {
    return readdirSync(parent, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => path.join(parent, name));
  } catch {
    return []; // no run was made here yet
  }
};

/**
 * Run folders below a folder, by name: those in it, and those in a folder of it that is no run, as
 * an ablation has them.
 */
export const runFolders = (parent: string): string[] =>
  foldersIn(parent)
    .flatMap((folder) => (isRunFolder(folder) ? [folder] : foldersIn(folder).filter(isRunFolder)))
    .sort();

/** Run folders of `RUNS` and of the current folder, where `run --out` puts them. */
export const runFoldersHere = (): string[] => [
  ...new Set([...runFolders(RUNS), ...runFolders('.')]),
];

/** Name of a folder of `runFolders` in a list: its own name, or `JOB/NAME`. */
export const runName = (folder: string, parent: string): string =>
  path.relative(parent, folder).split(path.sep).join('/');

function runIdOf(folder: string): string {
  try {
    return readManifest(folder).runId;
  } catch {
    return '\u0000'; // not found by its id
  }
}

/**
 * Runs whose id or folder is called so, else those whose id or folder begins so; of a path, in the
 * folder that it names.
 */
function named(target: string, parent: string): string[] {
  if (target === '') return [];
  const found = beginning(target, runFolders(parent), parent);
  if (found.length > 0 || !isPath(target) || kindOf(target) !== 'none') return found;
  const place = path.dirname(target);
  return beginning(path.basename(target), foldersIn(place).filter(isRunFolder), place);
}

/** Returns true for a name with a folder before it: `runs/3f2a` is searched for there. */
const isPath = (target: string): boolean => path.dirname(target) !== '.' || /^\.[/\\]/.test(target);

function beginning(target: string, folders: readonly string[], parent: string): string[] {
  const all = folders.map((folder) => ({
    folder,
    names: [runName(folder, parent), runIdOf(folder)],
  }));
  const exact = all.filter(({ names }) => names.includes(target));
  const found =
    exact.length > 0
      ? exact
      : all.filter(({ names }) => names.some((name) => name.startsWith(target)));
  return found.map(({ folder }) => folder);
}

function ambiguous(target: string, parent: string, found: readonly string[]): IsoproError {
  const place = isPath(target) ? path.dirname(target) : parent;
  return new IsoproError(
    'RUN_NOT_FOUND',
    `${target} matches ${found.length} runs in ${place}: ${found.slice(0, 8).join(', ')}`,
    { remedy: 'Give more of the id, or the folder; `isopro-native runs list` shows both.' },
  );
}

/**
 * The folder that a user names by its path, or by the beginning of a run id or folder name below
 * `runs`.
 * @throws IsoproError RUN_NOT_FOUND
 */
export function findRun(target: string, parent = RUNS): string {
  if (isRunFolder(target)) return target;
  const found = named(target, parent);
  if (found.length === 1) return found[0]!;
  if (found.length > 1) throw ambiguous(target, parent, found);
  throw new IsoproError(
    'RUN_NOT_FOUND',
    `${target} is neither a run folder nor the beginning of a run id in ${parent}`,
    {
      remedy:
        `Give the run folder. An id is looked up in ${parent} only; \`isopro-native runs list FOLDER\` lists ` +
        `the runs in another folder.`,
    },
  );
}

/**
 * Finds a run as findRun does, for readers of a folder without a manifest or of a file: an existing
 * path is returned as it is, and so is a target that is not found.
 * @throws IsoproError RUN_NOT_FOUND where several runs begin so
 */
export function findRunOrPath(target: string, parent = RUNS): string {
  if (kindOf(target) !== 'none') return target;
  const found = named(target, parent);
  if (found.length > 1) throw ambiguous(target, parent, found);
  return found[0] ?? target;
}
