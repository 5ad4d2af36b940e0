/** The settings of a run as flags: names, types, help and defaults all come from the schema. */
import type { Options } from 'yargs';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { PROFILES, readSettingsFile, resolveSettings, runSettings, type RunSettings, type RunSettingsInput } from '../training/settings.js';
import { UsageError } from './output.js';

interface Field {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object';
  readonly enum?: readonly string[];
  readonly items?: { readonly enum?: readonly string[] };
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Field>>;
}

/** In the order of the help; a flag is the last name of its path, or the one beside it. What is not here comes last. */
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

interface Setting extends Field {
  readonly part: string | null;
  readonly name: string;
}

/** By the name of the flag, as yargs gives it. */
const SETTINGS: ReadonlyMap<string, Setting> = (() => {
  const { properties = {} } = z.toJSONSchema(runSettings, { io: 'input' }) as Field;
  const byPath = new Map<string, Setting>();
  for (const [part, field] of Object.entries(properties)) {
    if (field.type !== 'object') byPath.set(part, { ...field, part: null, name: part });
    else for (const [name, member] of Object.entries(field.properties ?? {})) byPath.set(`${part}.${name}`, { ...member, part, name });
  }
  const settings = new Map<string, Setting>();
  const add = (path: string, flag: string): void => {
    settings.set(flag, byPath.get(path)!);
    byPath.delete(path);
  };
  for (const entry of [...ORDER, ...byPath.keys()]) {
    const [path, flag] = typeof entry === 'string' ? [entry, null] : entry;
    const paths = byPath.has(path) ? [path] : flag === null ? [...byPath.keys()].filter((each) => each.startsWith(`${path}.`)) : [];
    for (const each of paths) add(each, flag ?? byPath.get(each)!.name);
  }
  return settings;
})();

const pathOf = ({ part, name }: Setting): string => (part === null ? name : `${part}.${name}`);
const flagName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const FLAGS: ReadonlyMap<string, string> = new Map([...SETTINGS].map(([flag, setting]) => [pathOf(setting), flagName(flag)]));

const valueAt = (settings: object, { part, name }: Pick<Setting, 'part' | 'name'>): unknown => {
  const of = part === null ? settings : (settings as Readonly<Record<string, object | undefined>>)[part];
  return (of as Readonly<Record<string, unknown>> | undefined)?.[name];
};

/** Flags with their values, in the order of the help; those without one left out. */
export const flagValues = (settings: RunSettings): [flag: string, value: unknown][] =>
  [...SETTINGS].flatMap(([flag, setting]): [string, unknown][] => {
    const value = valueAt(settings, setting);
    return value === undefined ? [] : [[flagName(flag), value]];
  });

function shown(value: unknown): string {
  return value === undefined ? 'none' : Array.isArray(value) ? value.join(' ') : String(value);
}

/** Flags by name. Without defaults of yargs' own: which ones hold depends on the profile. */
export function settingFlags(omitted: readonly string[] = []): Record<string, Options> {
  return Object.fromEntries(
    [...SETTINGS]
      .filter(([flag]) => !omitted.includes(flag))
      .map(([flag, setting]): [string, Options] => {
        const { type, enum: choices, items, default: fallback, description } = setting;
        const others = (['embedded', 'small'] as const).flatMap((profile) => {
          const value = valueAt(PROFILES[profile], setting);
          return value === undefined ? [] : [`; ${profile}: ${shown(value)}`];
        });
        const values = choices ?? items?.enum;
        return [
          flagName(flag),
          {
            type: type === 'boolean' ? 'boolean' : type === 'number' || type === 'integer' ? 'number' : 'string',
            ...(type === 'array' ? { array: true } : { requiresArg: type !== 'boolean' }),
            ...(values === undefined ? {} : { choices: values }),
            describe: description ?? '',
            ...(fallback === undefined ? {} : { defaultDescription: `${shown(fallback)}${others.join('')}` }),
            group: 'Settings:',
          },
        ];
      }),
  );
}

/** What the flags and the file say, flags first. @throws UsageError naming flags */
export function readSettings(argv: Readonly<Record<string, unknown>>, config: string | undefined): RunSettingsInput {
  const settings: Record<string, unknown> = { ...(config === undefined ? {} : readSettingsFile(config)) };
  for (const [flag, { part, name, type }] of SETTINGS) {
    const value = argv[flag];
    if (value === undefined) continue;
    if (Array.isArray(value) && type !== 'array') throw new UsageError(`--${flagName(flag)} is given more than once`);
    if (part === null) settings[name] = value;
    else {
      const of = settings[part] === undefined ? {} : settings[part];
      // what is no part is the schema's to refuse
      if (typeof of === 'object' && of !== null && !Array.isArray(of)) settings[part] = { ...of, [name]: value };
    }
  }
  return settings;
}

/** @throws UsageError for wrong or contradictory settings, naming flags */
export function checkSettings(given: RunSettingsInput): RunSettings {
  try {
    return resolveSettings(given);
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
    const named = (line: string): string => line.replace(/^[\w.]+/, (path) => (FLAGS.has(path) ? `--${FLAGS.get(path)!}` : path));
    throw new UsageError(error.message.split('; ').map(named).join('\n'));
  }
}
