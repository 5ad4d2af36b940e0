/** The adapter that a user names: by its file or folder, or by the run that made it. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../errors.js';
import { readManifest, type RunManifest } from '../run-folder/manifest.js';
import { isRunFolder, runPaths } from '../run-folder/paths.js';
import { shellWord } from '../shell-word.js';
import { findRun, findRunOrPath, kindOf, RUNS } from './runs.js';

export interface FoundAdapter {
  readonly file: string;
  /** Run that made the adapter; null for a file or a folder. */
  readonly run: { readonly folder: string; readonly manifest: RunManifest } | null;
}

/**
 * A path as it is; of a run folder, its folder of adapters, or the beginning of the id of a run
 * below `runs`, the adapter that it submitted; of any other folder the one adapter in it. A folder
 * in PEFT's format is left as it is.
 * @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID, INVALID_ARGUMENT where the run has none,
 *   or the folder several
 */
export function findAdapter(target: string, parent = RUNS): FoundAdapter {
  const kind = kindOf(target);
  if (kind === 'folder') return isRunFolder(target) ? submittedBy(target) : inFolder(target);
  if (kind === 'other') return { file: target, run: null };
  // A missing path that is not the name of a run is refused when it is opened.
  if (/[./\\]/.test(target)) {
    const found = findRunOrPath(target, parent);
    return found === target ? { file: target, run: null } : submittedBy(found);
  }
  return submittedBy(findRun(target, parent));
}

function inFolder(folder: string): FoundAdapter {
  const whole = path.resolve(folder);
  if (path.basename(whole) === 'adapters' && isRunFolder(path.dirname(whole)))
    return submittedBy(path.dirname(whole));
  const inside = readdirSync(folder);
  const files = inside.includes('adapter_config.json')
    ? []
    : inside.filter((name) => /^[^.].*\.gguf$/.test(name));
  if (files.length > 1)
    throw new IsoproError('INVALID_ARGUMENT', `${folder} contains ${files.length} GGUF files`, {
      remedy: 'Name one of them, or a run folder.',
    });
  return { file: files.length === 1 ? path.join(folder, files[0]!) : folder, run: null };
}

function submittedBy(folder: string): FoundAdapter {
  const manifest = readManifest(folder);
  if (manifest.result === null)
    throw new IsoproError('INVALID_ARGUMENT', `the run in ${folder} has not ended`, {
      remedy:
        `Resume it with \`isopro-native run … --out ${shellWord(folder)}\` and its original settings, ` +
        'or name a file in its adapters folder.',
    });
  if (manifest.result.adapter === null)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the run in ${folder} submitted the bare base model: nothing was trained`,
      { remedy: 'Use the model without an adapter, or a run that trained one.' },
    );
  return { file: runPaths(folder).adapter(manifest.result.adapter), run: { folder, manifest } };
}
