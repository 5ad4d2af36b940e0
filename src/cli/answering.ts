/** Who answers an evaluation: a model in this process, or a file of replies. */
import type { Matmul } from '../engine/addon.js';
import type { Backend } from '../backends/backend.js';
import { localBackend } from '../backends/local.js';
import { recordedBackend } from '../backends/recorded.js';
import type { Adapter } from '../engine/adapter.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { loadModel, type LoadModelOptions } from '../engine/model.js';
import { nameAdapter, requireServable } from '../report/named-adapter.js';
import { withProfile } from '../training/profile.js';
import { resolveSettings, type RunSettings } from '../training/settings.js';
import { noteOtherBase, noteWarnings } from './adapter-notes.js';
import { UsageError } from './output.js';
import { Progress } from './progress.js';
import { registryOf } from './registry-flags.js';

export interface Answering {
  readonly backend: Backend;
  /** Null: none. */
  readonly adapter: Adapter | null;
  /** Null where none is here. */
  readonly model: { readonly path: string; readonly sha256: string } | null;
}

export interface BackendFlags {
  readonly backend: string;
  readonly model: string | undefined;
  readonly adapter: string | undefined;
  readonly registry?: string | undefined;
  readonly threads: number | undefined;
  readonly matmul?: Matmul | undefined;
  readonly context: number | undefined;
  readonly batch: number | undefined;
}

/**
 * What a `run` of this model has where nobody says otherwise, for an evaluation to measure as it
 * does. The model is fetched where it is not there yet, since its size decides. @throws IsoproError
 * as resolveModel
 */
export async function runDefaults(model: string, signal: AbortSignal): Promise<RunSettings> {
  using download = new Progress({ label: `download ${model}`, unit: 'bytes' });
  return resolveSettings(
    await withProfile({ model: { name: model } }, signal, ({ downloadedBytes, totalBytes }) =>
      download.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes }),
    ),
  );
}

/** How a model is loaded by these settings. */
export const loadingOf = ({
  model: { threads, matmul, contextTokens },
}: Pick<RunSettings, 'model'>): Pick<LoadModelOptions, 'threads' | 'matmul' | 'contextTokens'> => ({
  matmul,
  ...(threads === 0 ? {} : { threads }),
  ...(contextTokens === undefined ? {} : { contextTokens }),
});

/**
 * The file of `--backend recorded:FILE`; null for `local`.
 * @throws UsageError where a flag is the model's, and none answers
 */
export function recordingOf({
  backend,
  model,
  adapter,
  threads,
  matmul,
  context,
  batch,
}: BackendFlags): string | null {
  if (backend === 'local') return null;
  const [, file] = /^recorded:(.+)$/.exec(backend) ?? [];
  if (file === undefined)
    throw new UsageError(`--backend takes local or recorded:FILE, not ${backend}`);
  const given = Object.entries({ model, adapter, threads, matmul, context, batch }).flatMap(
    ([name, value]) => (value === undefined ? [] : [name]),
  );
  if (given.length > 0)
    throw new UsageError(
      `No model answers beside a recording: leave out --${given.join(' and --')}.`,
    );
  return file;
}

export async function answerLocally(
  {
    model: name = EMBEDDED_MODEL,
    adapter: named,
    registry,
    threads,
    matmul,
    context,
  }: BackendFlags,
  defaults: Pick<LoadModelOptions, 'threads' | 'matmul' | 'contextTokens'>,
  signal: AbortSignal,
): Promise<Answering> {
  const found =
    named === undefined ? undefined : await nameAdapter(named, registryOf({ registry }));
  const model = await loadModel(name, {
    ...defaults,
    signal,
    fixedThreads: true,
    ...(threads === undefined ? {} : { threads }),
    ...(matmul === undefined ? {} : { matmul }),
    ...(context === undefined ? {} : { contextTokens: context }),
  });
  try {
    noteWarnings(model);
    if (found !== undefined) await requireServable(found, model);
    const adapter = found === undefined ? null : await model.loadAdapter(found.file);
    if (found !== undefined) await noteOtherBase(found, model);
    return {
      backend: localBackend(model),
      adapter,
      model: { path: name, sha256: await model.hash() },
    };
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

export const answerFrom = async (recording: string): Promise<Answering> => ({
  backend: await recordedBackend(recording),
  adapter: null,
  model: null,
});
