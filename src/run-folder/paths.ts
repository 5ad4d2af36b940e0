import { join } from 'node:path';
import { durable } from '../durable.js';
import { IsoproError } from '../errors.js';
import { isFile, isFolder, makeFolder } from '../files.js';

/** Paths of the parts of a run in its folder. */
export interface RunPaths {
  readonly folder: string;
  readonly manifest: string;
  readonly log: string;
  /** Lock of the process that runs it. */
  readonly lock: string;
  readonly checkpoints: string;
  /** Finished replies of what is being sampled, by the records of the log before it. */
  keptReplies(after: number): string;
  readonly adapters: string;
  readonly report: string;
  /** Measurements of `run --mode` with other methods, made after the log had ended. */
  readonly comparison: string;
  /** Figures for programs that show them, a folder a tracker. */
  readonly trackers: string;
  /** Findings of the last judge of this folder. */
  readonly judgeTrace: string;
  /** File of an adapter, by its SHA-256 in hexadecimal. */
  adapter(sha256: string): string;
}

/** File names of `keptReplies`. */
export const KEPT_REPLIES = /^replies-\d+\.jsonl$/;

export function runPaths(folder: string): RunPaths {
  const adapters = join(folder, 'adapters');
  return {
    folder,
    manifest: join(folder, 'manifest.json'),
    log: join(folder, 'log.sqlite'),
    lock: join(folder, 'lock.sqlite'),
    checkpoints: join(folder, 'checkpoints'),
    keptReplies: (after) => join(folder, `replies-${after}.jsonl`),
    adapters,
    report: join(folder, 'report.html'),
    comparison: join(folder, 'comparison.json'),
    trackers: join(folder, 'trackers'),
    judgeTrace: join(folder, 'judge-trace.json'),
    adapter: (sha256) => join(adapters, `${sha256}.gguf`),
  };
}

/** Creates the folder and its subfolders; existing ones stay. @throws IsoproError WRITE_FAILED */
export function makeRunFolder(folder: string): RunPaths {
  const paths = runPaths(folder);
  try {
    for (const each of [paths.checkpoints, paths.adapters]) makeFolder(each);
  } catch (cause) {
    throw new IsoproError(
      'WRITE_FAILED',
      `cannot create the run folder ${folder}: ${(cause as Error).message}`,
      { cause },
    );
  }
  durable('run.folder');
  return paths;
}

export const isRunFolder = (folder: string): boolean =>
  isFolder(folder) && isFile(runPaths(folder).manifest);
