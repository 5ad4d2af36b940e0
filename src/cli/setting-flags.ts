/** The settings of a run as flags: names, types, help and defaults all come from the schema. */
import type { Options } from 'yargs';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { PROFILES, readSettingsFile, resolveSettings, runSettings, type RunSettings, type RunSettingsInput } from '../training/settings.js';
import { UsageError } from './output.js';

interface Field {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array';
  readonly enum?: readonly string[];
  readonly items?: { readonly enum?: readonly string[] };
  readonly default?: unknown;
  readonly description?: string;
}

const FIELDS = (z.toJSONSchema(runSettings, { io: 'input' }) as { properties: Record<string, Field> }).properties;

export const flagOf = (field: string): string => field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function shown(value: unknown): string {
  return value === undefined ? 'none' : Array.isArray(value) ? value.join(' ') : String(value);
}

/** Flags by name. Without defaults of yargs' own: which ones hold depends on the profile. */
export function settingFlags(omitted: readonly string[] = []): Record<string, Options> {
  return Object.fromEntries(
    Object.entries(FIELDS)
      .filter(([field]) => !omitted.includes(field))
      .map(([field, { type, enum: choices, items, default: fallback, description }]): [string, Options] => {
        const embedded = (PROFILES.embedded as Record<string, unknown>)[field];
        const values = choices ?? items?.enum;
        return [
          flagOf(field),
          {
            type: type === 'boolean' ? 'boolean' : type === 'number' || type === 'integer' ? 'number' : 'string',
            ...(type === 'array' ? { array: true } : { requiresArg: type !== 'boolean' }),
            ...(values === undefined ? {} : { choices: values }),
            describe: description ?? '',
            ...(fallback === undefined
              ? {}
              : { defaultDescription: `${shown(fallback)}${embedded === undefined ? '' : `; embedded: ${shown(embedded)}`}` }),
            group: 'Settings:',
          },
        ];
      }),
  );
}

/** What the flags and the file say, flags first. @throws UsageError naming flags */
export function readSettings(argv: Readonly<Record<string, unknown>>, config: string | undefined): RunSettingsInput {
  const given = config === undefined ? {} : readSettingsFile(config);
  const flags = Object.fromEntries(Object.keys(FIELDS).flatMap((field) => (argv[field] === undefined ? [] : [[field, argv[field]]])));
  for (const [field, value] of Object.entries(flags)) {
    if (Array.isArray(value) && FIELDS[field]!.type !== 'array') throw new UsageError(`--${flagOf(field)} is given more than once`);
  }
  return { ...given, ...flags } as RunSettingsInput;
}

/** @throws UsageError for wrong or contradictory settings, naming flags */
export function checkSettings(given: RunSettingsInput): RunSettings {
  try {
    return resolveSettings(given);
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
    throw new UsageError(
      error.message
        .split('; ')
        .map((line) => line.replace(/^(\w+)/, (field) => (Object.hasOwn(FIELDS, field) ? `--${flagOf(field)}` : field)))
        .join('\n'),
    );
  }
}
