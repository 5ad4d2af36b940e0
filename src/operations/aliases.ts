/** Earlier names of settings, which every surface still reads. */
import { IsoproError } from '../errors.js';
import type { Flags } from './flags.js';

/** Earlier names become those of today. @throws IsoproError INVALID_ARGUMENT */
export function withoutAliases({ all }: Flags, given: unknown): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given;
  const settings: Record<string, unknown> = { ...given };
  for (const { path, part, field } of all) {
    if (part !== null) continue;
    for (const alias of field.aliases ?? []) {
      if (!Object.hasOwn(settings, alias)) continue;
      if (settings[path] !== undefined && settings[alias] !== undefined)
        throw new IsoproError('INVALID_ARGUMENT', `${path}: it is also given as ${alias}`);
      settings[path] ??= settings[alias];
      delete settings[alias];
    }
  }
  return settings;
}
