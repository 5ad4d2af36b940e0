/**
 * The settings of a run by the names of their flags, in the order of the help. The command line, a
 * job and a page read the same table.
 */
import { z } from 'zod';
import { ALGORITHM_SETTINGS, algorithmOf } from '../algorithms/index.js';
import {
  layersAreNamed,
  runSettings,
  type RunSettings,
  type RunSettingsInput,
} from './settings.js';

interface Field {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object';
  readonly enum?: readonly string[];
  readonly items?: { readonly enum?: readonly string[] };
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Field>>;
}

/**
 * In the order of the help; a flag is the last name of its path, or the one beside it. What is not
 * here comes last.
 */
const ORDER: readonly (string | readonly [path: string, flag: string])[] = [
  ['model.name', 'model'],
  'profile',
  'task',
  'check',
  'seed',
  ['algorithm.id', 'algorithm'],
  'iterations',
  'sampling',
  ['buffer.kind', 'buffer'],
  'buffer',
  'optimiser.stepsPerIteration',
  'optimiser.batchSize',
  'layers.rank',
  'layers.scale',
  'layers.dropout',
  'layers.targets',
  ['layers.choice', 'layers'],
  'layers.topLayers',
  'optimiser',
  'algorithm',
  'evaluation',
  'monitor',
  'maxMinutes',
  'model',
  'layers',
  'signer',
];

export interface Setting extends Field {
  readonly part: string | null;
  readonly name: string;
}

/** By the name of the flag, as yargs gives it. */
export const SETTINGS: ReadonlyMap<string, Setting> = (() => {
  const { properties = {} } = z.toJSONSchema(runSettings, { io: 'input' }) as Field;
  const byPath = new Map<string, Setting>();
  for (const [part, field] of Object.entries(properties)) {
    if (field.type !== 'object') byPath.set(part, { ...field, part: null, name: part });
    else
      for (const [name, member] of Object.entries(field.properties ?? {}))
        byPath.set(`${part}.${name}`, { ...member, part, name });
  }
  const settings = new Map<string, Setting>();
  const add = (path: string, flag: string): void => {
    settings.set(flag, byPath.get(path)!);
    byPath.delete(path);
  };
  for (const entry of [...ORDER, ...byPath.keys()]) {
    const [path, flag] = typeof entry === 'string' ? [entry, null] : entry;
    const paths = byPath.has(path)
      ? [path]
      : flag === null
        ? [...byPath.keys()].filter((each) => each.startsWith(`${path}.`))
        : [];
    for (const each of paths) add(each, flag ?? byPath.get(each)!.name);
  }
  return settings;
})();

const pathOf = ({ part, name }: Setting): string => (part === null ? name : `${part}.${name}`);
export const flagName = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
/** By the setting's path: `sampling.temperature`. */
export const FLAGS: ReadonlyMap<string, string> = new Map(
  [...SETTINGS].map(([flag, setting]) => [pathOf(setting), flagName(flag)]),
);

export const valueAt = (
  settings: object,
  { part, name }: Pick<Setting, 'part' | 'name'>,
): unknown => {
  const of =
    part === null ? settings : (settings as Readonly<Record<string, object | undefined>>)[part];
  return (of as Readonly<Record<string, unknown>> | undefined)?.[name];
};

/** Flags with their values, in the order of the help; those without one left out. */
export const flagValues = (settings: RunSettings): [flag: string, value: unknown][] =>
  [...SETTINGS].flatMap(([flag, setting]): [string, unknown][] => {
    const value = valueAt(settings, setting);
    return value === undefined ? [] : [[flagName(flag), value]];
  });

/** Without what the chosen algorithm and choice of layers do not use. */
export const flagsInUse = (settings: RunSettings): [flag: string, value: unknown][] => {
  const own = new Set(Object.keys(algorithmOf(settings).settings.shape));
  const unused = Object.keys(ALGORITHM_SETTINGS)
    .filter((name) => !own.has(name))
    .map((name) => FLAGS.get(`algorithm.${name}`)!);
  if (layersAreNamed(settings)) unused.push(FLAGS.get('layers.topLayers')!);
  return flagValues(settings).filter(([flag]) => !unused.includes(flag));
};

const wordsOf = (name: string, value: unknown): string[] =>
  typeof value === 'boolean'
    ? [value ? `--${name}` : `--no-${name}`]
    : (Array.isArray(value) ? value : [value]).map((each) => `--${name}=${String(each)}`);

/** The words of a command line that says what was stated, and nothing else. */
export const statedFlags = (given: RunSettingsInput): string[] =>
  [...SETTINGS].flatMap(([flag, setting]) => {
    const value = valueAt(given, setting);
    return value === undefined ? [] : wordsOf(flagName(flag), value);
  });
