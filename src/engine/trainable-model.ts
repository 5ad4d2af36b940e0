/** Models that are to be trained. */
import { modelShape } from './adapter-files.js';
import { loadModel, type LoadModelOptions, type Model } from './model.js';
import { resolveModel } from './model-files.js';

/**
 * Loads a model as `loadModel`; one that cannot be trained is refused before it is loaded.
 * @throws IsoproError as `loadModel`; ARCH_UNSUPPORTED, MODEL_UNSUPPORTED where it only generates
 */
export async function loadTrainable(
  pathOrAlias: string,
  options: LoadModelOptions = {},
): Promise<Model> {
  const { signal, onDownload } = options;
  const { path } = await resolveModel(pathOrAlias, { signal, onProgress: onDownload });
  await modelShape(path);
  return loadModel(pathOrAlias, options);
}
