/** A run's adapter, or a file, as the registry takes it. */
import path from 'node:path';
import { hashFile } from '../engine/adapter.js';
import { resolveModel } from '../engine/model-files.js';
import { IsoproError } from '../errors.js';
import { LogReader } from '../log/read.js';
import type { AdapterRecord } from '../registry/record.js';
import type { Published, Registry } from '../registry/registry.js';
import { percent } from '../text/figures.js';
import { readManifest } from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import { RUN_STREAMS } from '../run-folder/streams.js';
import { readResult } from '../training/result.js';

export interface PublishOptions {
  /** Id of the adapter that training went on from. */
  readonly parent?: string | null;
}

/** Root of the run's last signed head: the whole of what it wrote down. */
function logRoot(folder: string): string {
  const reader = new LogReader(runPaths(folder).log, RUN_STREAMS);
  try {
    const head = reader.checkpoints().at(-1);
    if (head === undefined)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `the log of the run in ${folder} has no signed head`,
      );
    return head.root;
  } finally {
    reader.close();
  }
}

/**
 * Publishes what a run submitted, with its settings, its base, how it was asked, and its log as
 * data and evidence.
 * @throws IsoproError INVALID_ARGUMENT where the run has not ended or trained nothing; as
 *   Registry.publish
 */
export async function publishRun(
  registry: Registry,
  folder: string,
  { parent = null }: PublishOptions = {},
): Promise<Published> {
  const { runId, start, result } = readManifest(folder);
  if (result?.adapter == null)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the run in ${folder} ${result === null ? 'has not ended' : 'trained nothing'}`,
      { remedy: 'Publish a run that ended with an adapter.' },
    );
  const { model, evaluation, settings, task } = start;
  const root = logRoot(folder);
  const { test, accepted } = readResult(folder);
  const [before, after] = [test.before, test.after].map(({ mean }) => `${percent(mean)} %`);
  return registry.publish({
    file: runPaths(folder).adapter(result.adapter),
    base: { name: model.name, sha256: model.sha256, architecture: model.architecture },
    rendererId: evaluation.rendererId,
    settings,
    dataset: {
      description: `rollouts of run ${runId} on ${task.id} ${task.version}`,
      sha256: root,
      rows: accepted,
      answersOf: [`run:${runId}`],
    },
    evidence: [
      {
        description: `log of run ${runId}: ${before} before, ${after} after, on its ${test.after.n} test problems`,
        sha256: root,
      },
    ],
    lineage: { parent, producedBy: [`run:${runId}`] },
  });
}

export interface FileOptions extends PublishOptions {
  /** Path, alias or URI of the base. */
  readonly model: string;
  readonly settings?: AdapterRecord['settings'];
}

/**
 * Publishes a GGUF that no run of this program made. How it was asked is not known, so that is not
 * compared when it is used.
 */
export async function publishFile(
  registry: Registry,
  file: string,
  { model, settings = {}, parent = null }: FileOptions,
): Promise<Published> {
  const { path: base } = await resolveModel(model, { download: false });
  const name = path.basename(model); // no folder of this machine
  return registry.publish({
    file,
    base: { name, sha256: await hashFile(base) },
    settings,
    lineage: { parent, producedBy: [] },
  });
}
