/** Runs on this machine: their list, and comparisons of two. */
import { existsSync, readdirSync } from 'node:fs';
import { IsoproError } from '../errors.js';
import { isSameTask, startDifferences } from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import {
  compareEvaluations,
  testComparison,
  testFinding,
  type Comparison,
  type Finding,
} from '../run-folder/comparison.js';
import {
  readRun,
  testEvaluation,
  type LoggedEvaluation,
  type RunRecord,
} from '../run-folder/read-run.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { RUNS, runFolders } from './runs.js';

export interface RunSummary {
  readonly folder: string;
  readonly runId: string;
  /**
   * `damaged`: parts of it cannot be read or contradict each other; `unreadable`: it has no
   * manifest of this version.
   */
  readonly state: 'ended' | 'unfinished' | 'damaged' | 'unreadable';
  /** Reason of the states `damaged` and `unreadable`. */
  readonly reason?: string;
  readonly model?: string;
  readonly task?: string;
  readonly seed?: string;
  readonly startedAt?: string | null;
  readonly iterations?: number;
  readonly before?: number | null;
  readonly after?: number | null;
  readonly n?: number;
  readonly pairedP?: number | null;
  /**
   * Finding of the test problems about the mean; null until they were answered before and after.
   */
  readonly finding?: Finding | null;
}

/**
 * Returns true if a run was cut off before its log, while it waited for its witness: it has a
 * manifest and resumes with the same command.
 */
function isNotBegun(folder: string, { manifest }: RunRecord): boolean {
  const { log, checkpoints } = runPaths(folder);
  return (
    manifest.result === null &&
    !existsSync(log) &&
    !(existsSync(checkpoints) && readdirSync(checkpoints).length > 0)
  );
}

export function summariseRun(folder: string): RunSummary {
  let run: RunRecord;
  try {
    run = readRun(folder);
  } catch (error) {
    if (!(error instanceof IsoproError)) throw error;
    return {
      folder,
      runId: '',
      state: 'unreadable',
      reason: error.message.replaceAll(/\s+/g, ' '),
    };
  }
  const {
    runId,
    start: { model, task, settings },
  } = run.manifest;
  const [before, after, comparison] = [
    testEvaluation(run, 'before'),
    testEvaluation(run, 'after'),
    testComparison(run),
  ];
  return {
    folder,
    runId,
    ...(run.defects.length > 0 && !isNotBegun(folder, run)
      ? { state: 'damaged', reason: run.defects.join('; ') }
      : { state: run.end === null ? 'unfinished' : 'ended' }),
    model: model.name,
    task: task.id,
    seed: readWrittenSettings(settings).seed ?? '',
    startedAt: run.time === null ? null : new Date(run.time.first / 1000).toISOString(),
    iterations: run.iterations.length,
    before: before?.mean ?? null,
    after: after?.mean ?? null,
    n: (after ?? before)?.outcomes.filter(([, , kind]) => kind !== 'none').length ?? 0,
    pairedP: comparison?.p ?? null,
    finding: testFinding(run, comparison),
  };
}

/** The runs below a folder, newest first; one that cannot be read is in the list and says so. */
export function listRuns(parent = RUNS, folders = runFolders(parent)): RunSummary[] {
  return folders
    .map(summariseRun)
    .sort(
      (a, b) =>
        (b.startedAt ?? '').localeCompare(a.startedAt ?? '') || (a.folder < b.folder ? -1 : 1),
    );
}

export interface RunComparison {
  readonly a: RunSummary;
  readonly b: RunSummary;
  readonly n: number;
  /** Test accuracy of b after less that of a after. */
  readonly comparison: Comparison;
  /** Members of the manifests' starts in which they differ, such as `settings.seed`. */
  readonly differences: readonly string[];
  readonly evaluations: readonly [LoggedEvaluation, LoggedEvaluation];
}

/**
 * The final test evaluations of two runs, paired by problem.
 * @throws IsoproError RUNS_NOT_COMPARABLE where one has none, or the problems, task or verifier
 *   differ
 */
export function compareRuns(folderA: string, folderB: string): RunComparison {
  const [a, b] = [readRun(folderA), readRun(folderB)];
  const after = ([run, folder]: readonly [RunRecord, string]): LoggedEvaluation => {
    const found = testEvaluation(run, 'after');
    if (found === null)
      throw new IsoproError(
        'RUNS_NOT_COMPARABLE',
        `the run in ${folder} has no test evaluation after training`,
      );
    return found;
  };
  const evaluations = [after([a, folderA]), after([b, folderB])] as const;
  const { task: taskA } = a.manifest.start;
  const { task: taskB } = b.manifest.start;
  if (!isSameTask(taskA, taskB)) {
    throw new IsoproError(
      'RUNS_NOT_COMPARABLE',
      `the runs have different tasks: ${taskA.id} version ${taskA.version} and ${taskB.id} version ${taskB.version}`,
    );
  }
  const comparison = compareEvaluations(...evaluations, a.tiers);
  return {
    a: summariseRun(folderA),
    b: summariseRun(folderB),
    n: comparison.n,
    comparison,
    differences: startDifferences(a.manifest.start, b.manifest.start),
    evaluations,
  };
}
