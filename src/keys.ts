/**
 * Keys: what a key is, who reads one, and the environment of everything that is started here.
 *
 * A key is the value of a variable that pays for something or opens something: the default
 * variables of hosted models, the variable that `--key-env` names, and the two keys of the server.
 * Keys come from the environment alone. Programs of others (tasks, verifiers, Python, the program
 * of a back end) and processes of our own that need none get an environment without them;
 * `--pass-env NAME` hands a variable on, by its name.
 *
 * This guards against carelessness, not against an attack: a program of the same user can read the
 * memory of this one.
 */
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { IsoproError } from './errors.js';

/** The variable of each kind of back end that has a usual one. */
export const DEFAULT_KEY_NAMES = {
  openai: 'OPENAI_API_KEY',
  anthropic: 'ANTHROPIC_API_KEY',
  huggingface: 'HF_TOKEN',
} as const;

const SERVER_KEY_NAMES = ['ISOPRO_API_KEY', 'ISOPRO_ADMIN_KEY'] as const;

/**
 * Characters from which a value counts as a key wherever it stands. A shorter one (`none`, as local
 * servers take) is a key only under its own name: else each variable with such a word would go.
 */
const LEAST_CHARACTERS = 8;

/** Names that were stated here, also for threads, which inherit them. */
const STATED = 'isopro-native: names of keys';
interface StatedNames {
  /** By `--key-env`. */
  readonly keys: readonly string[];
  /** By `--pass-env`. */
  readonly passed: readonly string[];
}

/** Keys that came over a channel instead of the environment, by name. */
const received = new Map<string, string>();

const stated = (): StatedNames =>
  (getEnvironmentData(STATED) as StatedNames | undefined) ?? { keys: [], passed: [] };

// Windows does not tell the case of names apart
const same = (name: string): string => (process.platform === 'win32' ? name.toUpperCase() : name);
const includes = (names: readonly string[], name: string): boolean =>
  names.some((each) => same(each) === same(name));

/** @throws IsoproError INVALID_ARGUMENT */
export function requireVariableName(name: string, from: string): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,199}$/.test(name))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      // it may be the key itself, typed in the wrong place
      `${from}: expected the name of an environment variable, such as OPENAI_API_KEY, not its value`,
    );
}

/**
 * States that a variable holds a key, from now on and in threads that start from now on.
 * @param from what named it, for the message
 * @throws IsoproError INVALID_ARGUMENT
 */
export function declareKey(name: string, from = '--key-env'): void {
  requireVariableName(name, from);
  const { keys, passed } = stated();
  if (!includes(keys, name)) setEnvironmentData(STATED, { keys: [...keys, name], passed });
}

/**
 * Hands variables to programs that are started from now on, by name, also where they hold keys.
 * @throws IsoproError INVALID_ARGUMENT for what is no name, and for a variable that is not set
 */
export function passEnvironment(...names: readonly string[]): void {
  for (const name of names) {
    requireVariableName(name, '--pass-env');
    if (process.env[name] === undefined)
      throw new IsoproError('INVALID_ARGUMENT', `--pass-env: the variable ${name} is not set`);
  }
  const { keys, passed } = stated();
  setEnvironmentData(STATED, { keys, passed: [...new Set([...passed, ...names])] });
}

/** Names that `passEnvironment` was given. */
export const passedNames = (): readonly string[] => stated().passed;

/** Names of all variables that hold keys here, whether or not they are set. */
export const keyNames = (): readonly string[] => [
  ...Object.values(DEFAULT_KEY_NAMES),
  ...SERVER_KEY_NAMES,
  ...stated().keys,
];

/**
 * The key of a name: what came over the channel of a job, else the variable of the environment.
 * Whoever sends a key takes it from here, at the moment of sending, and keeps no copy.
 * @returns undefined where it is not set, or empty
 */
export const keyFor = (name: string): string | undefined =>
  received.get(name) ?? (process.env[name] || undefined);

/** Takes keys that came over a channel. */
export function receiveKeys(keys: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(keys)) {
    declareKey(name);
    received.set(name, value);
  }
}

/**
 * The variable that holds the key of a back end, by the word before the colon; undefined for one
 * that has no usual variable.
 * @param backend `openai:MODEL`
 */
export function defaultKeyName(backend: string): string | undefined {
  const kind = /^([a-z]+):/.exec(backend)?.[1];
  return kind !== undefined && Object.hasOwn(DEFAULT_KEY_NAMES, kind)
    ? DEFAULT_KEY_NAMES[kind as keyof typeof DEFAULT_KEY_NAMES]
    : undefined;
}

/** Each key that is set, long enough to be told from a word; the longest first. */
const keysHere = (): (readonly [name: string, value: string])[] =>
  keyNames()
    .map((name) => [name, keyFor(name) ?? ''] as const)
    .filter(([, value]) => value.length >= LEAST_CHARACTERS)
    .sort(([, a], [, b]) => b.length - a.length);

/**
 * The environment of a thread or process: that of this one without keys, and without other
 * variables in which a key stands. Variables that were passed by name stay.
 * @param more variables of the caller
 */
export function childEnvironment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const names = keyNames();
  const passed = passedNames();
  const keys = keysHere();
  const stays = ([name, value = '']: readonly [string, string | undefined]): boolean =>
    includes(passed, name) ||
    (!includes(names, name) && !keys.some(([, key]) => value.includes(key)));
  return { ...Object.fromEntries(Object.entries(process.env).filter(stays)), ...more };
}

/** A text of others, such as an error of a server, with the name of each key in its place. */
export const withoutKeys = (text: string): string =>
  keysHere().reduce((rest, [name, value]) => rest.replaceAll(value, `[${name}]`), text);
