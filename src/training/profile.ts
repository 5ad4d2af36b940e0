/**
 * Which profile's defaults a model gets: the embedded one's by its name, any other's by its number
 * of parameters.
 */
import path from 'node:path';
import type { DownloadProgress } from '../engine/download.js';
import { inspectModel } from '../engine/inspect.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { resolveModel } from '../engine/model-files.js';
import { splitParts } from '../engine/model-location.js';
import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import { resolveSettings, type RunSettingsInput } from './settings.js';

/** A downloaded model with fewer parameters is small. */
export const SMALL_BELOW = 500_000_000;

/**
 * The settings with the profile by its name where it is left to the model, which is fetched where
 * it is not there yet.
 * @throws IsoproError as resolveSettings and resolveModel
 */
export async function withProfile(
  given: RunSettingsInput,
  signal?: AbortSignal,
  onProgress?: (progress: DownloadProgress) => void,
): Promise<RunSettingsInput> {
  const { profile, model } = resolveSettings(given);
  if ((given.profile ?? 'auto') !== 'auto' || model.name === EMBEDDED_MODEL)
    return { ...given, profile };
  const file = await resolveModel(model.name, { ...stated({ signal, onProgress }) });
  return { ...given, profile: (await isSmall(file.path)) ? 'small' : 'downloaded' };
}

/**
 * Checks whether a model has few parameters; false for an unreadable file, which fails when it is
 * loaded. A model in several parts counts as large.
 */
async function isSmall(file: string): Promise<boolean> {
  if (splitParts(path.basename(file)).length > 1) return false;
  try {
    return (await inspectModel(file)).parameters < SMALL_BELOW;
  } catch (error) {
    if (error instanceof IsoproError) return false;
    throw error;
  }
}
