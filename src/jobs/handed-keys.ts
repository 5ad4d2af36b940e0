/** What the process of a job is handed over its channel because its settings name who needs it. */
import { defaultKeyName, DEFAULT_KEY_NAMES, keyFor, passedNames } from '../keys.js';
import type { Work } from './worker.js';

const stringsIn = (value: unknown): string[] =>
  typeof value === 'string'
    ? [value]
    : typeof value === 'object' && value !== null
      ? Object.values(value).flatMap(stringsIn)
      : [];

/**
 * The variables whose keys settings need: that of the one back end that answers, and that of the
 * hub where a model may have to be downloaded from there.
 */
function neededBy(settings: unknown): string[] {
  const { backend = '', keyEnv = defaultKeyName(backend) } = (settings ?? {}) as {
    readonly backend?: string;
    readonly keyEnv?: string;
  };
  const isOfHub = stringsIn(settings).some((text) => text.startsWith('hf:'));
  return [
    ...(keyEnv === undefined ? [] : [keyEnv]),
    ...(isOfHub ? [DEFAULT_KEY_NAMES.huggingface] : []),
  ];
}

/** @param settings of the operation, with the things in place of names */
export function handedTo(settings: unknown): Pick<Work, 'keys' | 'passed'> {
  const keys = neededBy(settings).flatMap((name) => {
    const key = keyFor(name);
    return key === undefined ? [] : [[name, key] as const];
  });
  const passed = passedNames();
  return {
    ...(keys.length > 0 && { keys: Object.fromEntries(keys) }),
    ...(passed.length > 0 && { passed }),
  };
}
