/** Sources of replies for an evaluation: a model in this process, or another back end. */
import type { Backend } from '../backends/backend.js';
import { localBackend } from '../backends/local.js';
import type { Adapter } from '../engine/adapter.js';
import { loadModel, type LoadModelOptions, type Model } from '../engine/model.js';
import { given } from '../given.js';
import { Registry } from '../registry/registry.js';
import { nameAdapter, requireServable, type NamedAdapter } from '../lookup/adapter-reference.js';
import { withProfile } from '../training/profile.js';
import { resolveSettings, type RunSettings } from '../training/settings.js';
import { noticeTo, otherBase, warningsOf } from './notes.js';
import type { OpenedBackend } from './backend-settings.js';
import { modelToLoad } from './model-to-load.js';
import type { Context } from './operation.js';

/** A model by its name, and what is to be loaded on it; null: nothing. */
export interface NamedModel {
  readonly name: string;
  readonly adapter: NamedAdapter | null;
}

type Loading = Pick<LoadModelOptions, 'threads' | 'matmul' | 'contextTokens'>;

/**
 * The model that is named, or that the adapter was trained on.
 * @throws as nameAdapter and modelToLoad
 */
export async function findModel({
  model,
  adapter,
  registry: folder,
}: {
  readonly model?: string | undefined;
  readonly adapter?: string | undefined;
  readonly registry?: string | undefined;
}): Promise<NamedModel> {
  const found =
    adapter === undefined ? null : await nameAdapter(adapter, new Registry(given({ folder })));
  return { name: await modelToLoad(model, found), adapter: found };
}

/**
 * Default settings of a `run` of this model, so that an evaluation measures as a run does. The
 * model is downloaded if necessary, since its size decides.
 * @throws IsoproError as resolveModel
 */
export async function runDefaults(
  model: string,
  { signal, tell }: Partial<Context> = {},
): Promise<RunSettings> {
  const stage = `download ${model}`;
  return resolveSettings(
    await withProfile({ model: { name: model } }, signal, ({ downloadedBytes, totalBytes }) =>
      tell?.({
        type: 'progress',
        data: { stage, done: downloadedBytes, total: totalBytes ?? 0, unit: 'bytes' },
      }),
    ),
  );
}

/** Load options of a model: the stated ones, otherwise those of a run; 0 threads: the default. */
export function loadingOf(
  { model }: Pick<RunSettings, 'model'>,
  stated: { readonly [name in keyof Loading]?: Loading[name] | undefined },
): Loading {
  const { threads, matmul, contextTokens } = {
    ...model,
    ...given(stated, 'threads', 'matmul', 'contextTokens'),
  };
  return given({ threads: threads === 0 ? undefined : threads, matmul, contextTokens });
}

/** @throws IsoproError as loadModel and loadAdapter; ADAPTER_MISMATCH */
export async function loadNamed(
  { name, adapter: found }: NamedModel,
  loading: Loading,
  { signal, tell }: Context,
): Promise<{ readonly model: Model; readonly adapter: Adapter | null }> {
  const note = noticeTo(tell);
  const model = await loadModel(name, { ...loading, signal, fixedThreads: true });
  try {
    warningsOf(model).forEach(note);
    if (found === null) return { model, adapter: null };
    await requireServable(found, model);
    const adapter = await model.loadAdapter(found.file);
    note(await otherBase(found, model));
    return { model, adapter };
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

export interface Answering extends AsyncDisposable {
  readonly backend: Backend;
  /** Null: none. */
  readonly adapter: Adapter | null;
  /** Null where no model of this process answers. */
  readonly model: { readonly path: string; readonly sha256: string } | null;
  /** File that replies of a service are added to; null: none. */
  readonly record: string | null;
}

/** @throws as loadNamed */
export async function answerLocally(
  named: NamedModel,
  loading: Loading,
  context: Context,
): Promise<Answering> {
  const { model, adapter } = await loadNamed(named, loading, context);
  const backend = localBackend(model);
  return {
    backend,
    adapter,
    model: { path: named.name, sha256: await model.hash() },
    record: null,
    [Symbol.asyncDispose]: async () => {
      adapter?.dispose();
      await backend.dispose();
    },
  };
}

/** @throws as openAsked */
export async function answerFrom({ backend, record }: OpenedBackend): Promise<Answering> {
  const end = async (): Promise<void> => backend.dispose();
  return { backend, adapter: null, model: null, record, [Symbol.asyncDispose]: end };
}
