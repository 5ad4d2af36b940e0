/** The adapter that a user names: by its file or PEFT folder, or by the run that made it. */
import { existsSync } from 'node:fs';
import { IsoproError } from '../errors.js';
import { readManifest, type RunManifest } from '../run-folder/manifest.js';
import { isRunFolder, runPaths } from '../run-folder/paths.js';
import { findRun, RUNS } from './run-list.js';

export interface FoundAdapter {
  readonly file: string;
  /** Of the run that made it; null for a file or a folder. */
  readonly run: { readonly folder: string; readonly manifest: RunManifest } | null;
}

/**
 * A path as it is; of a run folder, or the beginning of the id of one below `runs`, the adapter that it submitted.
 * @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID, INVALID_ARGUMENT where the run has none
 */
export function findAdapter(target: string, parent = RUNS): FoundAdapter {
  // What looks like a path and is not there is refused by whoever opens it.
  if (!isRunFolder(target) && (existsSync(target) || /[./\\]/.test(target))) return { file: target, run: null };
  const folder = findRun(target, parent);
  const manifest = readManifest(folder);
  if (manifest.result === null)
    throw new IsoproError('INVALID_ARGUMENT', `the run in ${folder} has not ended`, {
      remedy: 'Run the same command again: it goes on to its end. Or name a file of its adapters folder.',
    });
  if (manifest.result.adapter === null)
    throw new IsoproError('INVALID_ARGUMENT', `the run in ${folder} submitted the bare base model: nothing was trained`, {
      remedy: 'Use the model without an adapter, or a run that trained one.',
    });
  return { file: runPaths(folder).adapter(manifest.result.adapter), run: { folder, manifest } };
}
