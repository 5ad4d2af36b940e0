/** The settings of a run as flags: names, types, help and defaults all come from the schema. */
import type { Options } from 'yargs';
import { IsoproError } from '../errors.js';
import { FLAGS, flagName, SETTINGS, valueAt } from '../training/setting-names.js';
import {
  DATA_DEFAULTS,
  PROFILES,
  readSettingsFile,
  resolveSettings,
  type RunSettings,
  type RunSettingsInput,
} from '../training/settings.js';
import { UsageError } from './output.js';

function shown(value: unknown): string {
  return value === undefined ? 'none' : Array.isArray(value) ? value.join(' ') : String(value);
}

/** Headings of `--help` and of the flags in docs/commands/run.md, by the part of the settings. */
const GROUPS: Readonly<Record<string, string>> = {
  model: 'Model:',
  sampling: 'Sampling:',
  buffer: 'Training data:',
  algorithm: 'Algorithm:',
  optimiser: 'Optimiser:',
  layers: 'Adapter and layers:',
  evaluation: 'Evaluation:',
  monitor: 'Monitor:',
};
const WITHOUT_PART = 'Task and run:';

/** Flags by name. Without defaults of yargs' own: which ones hold depends on the profile. */
export function settingFlags(omitted: readonly string[] = []): Record<string, Options> {
  return Object.fromEntries(
    [...SETTINGS]
      .filter(([flag]) => !omitted.includes(flag))
      .map(([flag, setting]): [string, Options] => {
        const { type, enum: choices, items, default: fallback, description } = setting;
        const others = Object.entries({
          embedded: PROFILES.embedded,
          small: PROFILES.small,
          'rows of data': DATA_DEFAULTS,
        }).flatMap(([of, defaults]) => {
          const value = valueAt(defaults, setting);
          return value === undefined ? [] : [`; ${of}: ${shown(value)}`];
        });
        const values = choices ?? items?.enum;
        return [
          flagName(flag),
          {
            type:
              type === 'boolean'
                ? 'boolean'
                : type === 'number' || type === 'integer'
                  ? 'number'
                  : 'string',
            ...(type === 'array' ? { array: true } : { requiresArg: type !== 'boolean' }),
            ...(values === undefined ? {} : { choices: values }),
            describe: description ?? '',
            ...(fallback === undefined
              ? {}
              : { defaultDescription: `${shown(fallback)}${others.join('')}` }),
            group: setting.part === null ? WITHOUT_PART : GROUPS[setting.part]!,
          },
        ];
      }),
  );
}

/** What the flags and the file say, flags first. @throws UsageError naming flags */
export function readSettings(
  argv: Readonly<Record<string, unknown>>,
  config: string | undefined,
): RunSettingsInput {
  const settings: Record<string, unknown> = {
    ...(config === undefined ? {} : readSettingsFile(config)),
  };
  for (const [flag, { part, name, type }] of SETTINGS) {
    const value = argv[flag];
    if (value === undefined) continue;
    if (Array.isArray(value) && type !== 'array')
      throw new UsageError(`--${flagName(flag)} is given more than once`);
    if (part === null) settings[name] = value;
    else {
      const of = settings[part] === undefined ? {} : settings[part];
      // what is no part is the schema's to refuse
      if (typeof of === 'object' && of !== null && !Array.isArray(of))
        settings[part] = { ...of, [name]: value };
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
    const named = (line: string): string =>
      line.replace(/^[\w.]+/, (path) => (FLAGS.has(path) ? `--${FLAGS.get(path)!}` : path));
    throw new UsageError(
      error.message
        .split(/; (?!did you mean)/)
        .map(named)
        .join('\n'),
    );
  }
}
