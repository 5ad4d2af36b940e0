/**
 * The configuration of truth-seeking as flags: names, types, help and defaults all come from the
 * schema.
 */
import type { Options } from 'yargs';
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { shellWord } from '../../shell-word.js';
import { flagName } from '../../training/setting-names.js';
import {
  readTruthConfig,
  readTruthConfigFile,
  truthConfig,
  type TruthConfig,
  type TruthConfigInput,
} from '../../truth-seeking/run/config.js';
import { UsageError } from '../output.js';

interface Field {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly items?: { readonly enum?: readonly string[] };
  readonly description?: string;
}

const FIELDS = Object.entries(
  (z.toJSONSchema(truthConfig, { io: 'input' }) as { properties: Record<string, Field> })
    .properties,
);

const DEFAULTS = truthConfig.parse({}) as Readonly<Record<string, unknown>>;

const shown = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? value.join(' ') : String(value);

export const truthFlags = (): Record<string, Options> =>
  Object.fromEntries(
    FIELDS.map(([name, { type, enum: choices, items, description = '' }]): [string, Options] => {
      const fallback = DEFAULTS[name];
      const values = choices ?? items?.enum;
      return [
        flagName(name),
        {
          type: type === 'integer' || type === 'number' ? 'number' : 'string',
          requiresArg: true,
          ...(type === 'array' ? { array: true } : {}),
          ...(values === undefined ? {} : { choices: values }),
          describe: description,
          ...(fallback === undefined ? {} : { defaultDescription: shown(fallback) }),
        },
      ];
    }),
  );

/** What flags and file say, flags first. @throws UsageError naming flags */
export function truthConfigOf(
  argv: Readonly<Record<string, unknown>>,
  file: string | undefined,
): TruthConfig {
  const given: Record<string, unknown> = {
    ...(file === undefined ? {} : readTruthConfigFile(file)),
  };
  for (const [name, { type }] of FIELDS) {
    const value = argv[name];
    if (value === undefined) continue;
    if (Array.isArray(value) && type !== 'array')
      throw new UsageError(`--${flagName(name)} is given more than once`);
    given[name] = value;
  }
  try {
    return readTruthConfig(given as TruthConfigInput);
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
    const named = (line: string): string =>
      line.replace(/^(\w+)(\.\d+)?(?=:)/, (path, name: string) =>
        FIELDS.some(([each]) => each === name) ? `--${flagName(name)}` : path,
      );
    throw new UsageError(error.message.split('; ').map(named).join('\n'));
  }
}

/**
 * Of an adapter a run's folder has the name alone, not where it lies.
 * @throws UsageError where neither it nor another model is given
 */
export function requireAdapter(
  { adapter }: Pick<TruthConfig, 'adapter'>,
  given: { readonly model: string | undefined; readonly adapter: string | undefined },
): void {
  if (adapter !== undefined && given.model === undefined && given.adapter === undefined)
    throw new UsageError(
      '--adapter: the run was made with one; say where it is, or with --model who measures',
    );
}

/** The command line that does the same: what differs from the defaults, and nothing else. */
export function truthCommandLine(config: TruthConfig, out: string): string {
  const flags = FIELDS.flatMap(([name]) => {
    const value = (config as Readonly<Record<string, unknown>>)[name];
    if (value === undefined || JSON.stringify(value) === JSON.stringify(DEFAULTS[name])) return [];
    return [`--${flagName(name)}`, ...[value].flat().map((each) => shellWord(String(each)))];
  });
  return ['npx isopro-native truth run', ...flags, '--out', shellWord(out)].join(' ');
}
