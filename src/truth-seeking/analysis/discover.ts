/** Runs by the folders that a user names. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../../errors.js';
import { isTruthRun } from '../run/folder.js';

/**
 * Finds run folders: each argument is a run or a folder of runs, in which other folders are
 * skipped. Every run appears once, in the given order, those of a folder by name.
 * @throws IsoproError RUN_NOT_FOUND where one is neither
 */
export function truthRunFolders(named: readonly string[]): string[] {
  const found = named.flatMap((folder) => {
    if (isTruthRun(folder)) return [path.resolve(folder)];
    const within = foldersIn(folder)
      .map((entry) => path.resolve(folder, entry))
      .filter(isTruthRun);
    if (within.length > 0) return within;
    throw new IsoproError(
      'RUN_NOT_FOUND',
      `neither ${folder} nor a folder in it has a truth.json`,
      {
        remedy: 'Give folders of `truth run`, or folders that contain them.',
      },
    );
  });
  return [...new Set(found)];
}

/** Names of the subfolders, sorted; empty if it is not a folder. */
function foldersIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
      .sort();
  } catch {
    return [];
  }
}
