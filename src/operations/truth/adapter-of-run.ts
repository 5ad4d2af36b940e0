import type { TruthConfig } from '../../truth-seeking/run/config.js';
import { WrongSetting } from '../operation.js';

/**
 * Requires an adapter or another model for a run with an adapter: the run folder has only the
 * adapter's name.
 * @throws IsoproError INVALID_ARGUMENT where neither it nor another model is given
 */
export function requireAdapter(
  { adapter }: Pick<TruthConfig, 'adapter'>,
  given: { readonly model?: string | undefined; readonly adapter?: string | undefined },
): void {
  if (adapter !== undefined && given.model === undefined && given.adapter === undefined)
    throw new WrongSetting(
      'adapter: the run used an adapter. Give its file, or name the model to measure with',
    );
}
