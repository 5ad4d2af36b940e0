import { fileURLToPath } from 'node:url';
import { backendKind } from '../backends/names.js';
import { hashFile } from '../engine/adapter.js';
import { EMBEDDED_MODEL, EMBEDDED_MODEL_FILE } from '../engine/model-aliases.js';
import { modelOfRecord } from '../engine/model-files.js';
import { baseNameOf, namedBaseSha256, type NamedAdapter } from '../lookup/adapter-reference.js';
import { WrongSettings } from './wrong-settings.js';

/** Message of `generate`, `eval` and `chat` if no model can be inferred. */
export const GIVE_A_MODEL = 'Give --model, or a run or a name in the registry as --adapter.';

/** The model of the adapter's run or record, if it is here. @throws IsoproError MODEL_NOT_FOUND */
export async function recordedBase(found: NamedAdapter): Promise<string | undefined> {
  const name = baseNameOf(found);
  return name === undefined ? undefined : modelOfRecord(name);
}

/**
 * The model to load: the one that is named, else what the adapter was trained on, else the one that
 * comes with the project, unless the adapter is a file that does not name that one. @throws
 * WrongSettings; as recordedBase
 */
export async function modelToLoad(
  named: string | undefined,
  found: NamedAdapter | null,
): Promise<string> {
  if (named !== undefined) {
    const kind = backendKind(named);
    if (kind !== null && kind !== 'local')
      throw new WrongSettings(`${named} is a back end: give it with --backend.`);
    return named;
  }
  if (found === null) return EMBEDDED_MODEL;
  const recorded = await recordedBase(found);
  if (recorded !== undefined) return recorded;
  if ((await namedBaseSha256(found)) !== (await hashFile(fileURLToPath(EMBEDDED_MODEL_FILE))))
    throw new WrongSettings(GIVE_A_MODEL);
  return EMBEDDED_MODEL;
}
