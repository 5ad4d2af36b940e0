/**
 * Settings as flags of the command line, and back: names, types, help and defaults come from the
 * schema and its metadata (setting-meta.ts), and nothing is written a second time.
 */
import type { Options, PositionalOptions } from 'yargs';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import type { NameKind } from '../setting-meta.js';

/** JSON Schema of a setting, as far as flags, page and manual read it. */
export interface Field {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object';
  readonly enum?: readonly string[];
  readonly items?: Field;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Field>>;
  readonly required?: readonly string[];
  readonly flag?: string;
  readonly aliases?: readonly string[];
  readonly group?: string;
  readonly defaultText?: string;
  readonly positional?: boolean;
  readonly local?: boolean;
  readonly names?: NameKind;
  readonly admin?: boolean;
}

/** One setting on the command line. */
export interface Flag {
  /** Name on the command line, without dashes: `max-tokens`. */
  readonly name: string;
  /** Path of the setting: `sampling.maxTokens`, or `maxTokens`. */
  readonly path: string;
  /** The part of the settings that it is in; null: none. */
  readonly part: string | null;
  readonly field: Field;
  readonly isRequired: boolean;
}

/** Order of flags in the help, by path or part; a path may have another flag name. */
export type FlagOrder = readonly (string | readonly [path: string, flag: string])[];

export interface FlagOptions {
  /** Order in the help; other flags follow in schema order. */
  readonly order?: FlagOrder;
  /** Headings of the help, by part of the settings; a setting's own `group` comes first. */
  readonly groups?: Readonly<Record<string, string>>;
  readonly groupWithoutPart?: string;
}

export const kebab = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const camel = (name: string): string =>
  name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value as the help and a table show it. */
export const shownValue = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? value.join(' ') : String(value);

/** JSON Schema of settings as a caller writes them, with their metadata. */
export const fieldOf = (schema: z.ZodType): Field =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Field;

export class Flags {
  /** Flags in the order of the help. */
  readonly all: readonly Flag[];
  readonly #groups: Readonly<Record<string, string>>;
  readonly #groupWithoutPart: string | undefined;
  readonly #byPath: ReadonlyMap<string, Flag>;

  constructor(schema: z.ZodType, options: FlagOptions = {}) {
    this.#groups = options.groups ?? {};
    this.#groupWithoutPart = options.groupWithoutPart;
    this.all = ordered(leavesOf(fieldOf(schema)), options.order ?? []);
    this.#byPath = new Map(this.all.map((flag) => [flag.path, flag]));
  }

  /** The flag of a setting. @param path `sampling.temperature` */
  at(path: string): Flag | undefined {
    return this.#byPath.get(path);
  }

  /**
   * Returns options for yargs by name, without defaults, so that stated values can be told from
   * missing ones.
   * @param otherDefaults further text behind a flag's default
   */
  options(
    omitted: readonly string[] = [],
    otherDefaults: (flag: Flag) => string = () => '',
  ): Record<string, Options> {
    return Object.fromEntries(
      this.all
        .filter(({ name, field }) => field.positional !== true && !omitted.includes(name))
        .map((flag) => [flag.name, this.#option(flag, otherDefaults(flag))]),
    );
  }

  /** Arguments without a flag, for yargs, by name. */
  positionals(): Record<string, PositionalOptions> {
    return Object.fromEntries(
      this.all
        .filter(({ field }) => field.positional === true)
        .map(({ name, field, isRequired }) => [
          name,
          {
            ...typeOf(field),
            ...(isRequired && { demandOption: true }),
            describe: field.description ?? '',
          } as PositionalOptions,
        ]),
    );
  }

  #option({ name, part, field, isRequired }: Flag, otherDefaults: string): Options {
    const { default: value, defaultText, group, description = '' } = field;
    const heading = group ?? (part === null ? this.#groupWithoutPart : this.#groups[part]);
    const isOff = field.type === 'boolean' && value === false && otherDefaults === '';
    const text = defaultText ?? (value === undefined || isOff ? undefined : shownValue(value));
    const own = field.flag === undefined ? [] : [kebab(field.flag)];
    const aliases = [...(field.aliases ?? []), ...own].map(kebab).filter((alias) => alias !== name);
    return {
      ...typeOf(field),
      ...(field.type !== 'boolean' && { requiresArg: true }),
      ...(aliases.length > 0 && { alias: aliases }),
      ...(isRequired && { demandOption: true }),
      ...(text !== undefined && { defaultDescription: `${text}${otherDefaults}` }),
      ...stated({ group: heading }),
      describe: description,
    };
  }

  /**
   * Reads the settings that flags and a file state; flags take precedence, and missing ones are
   * absent.
   * @param argv as yargs gives it
   * @throws IsoproError INVALID_ARGUMENT naming the setting
   */
  read(
    argv: Readonly<Record<string, unknown>>,
    file: Readonly<Record<string, unknown>> = {},
  ): Record<string, unknown> {
    const settings: Record<string, unknown> = { ...file };
    for (const { name, path, part, field } of this.all) {
      const value = argv[camel(name)];
      // yargs makes an empty list of arguments that nobody gave
      if (value === undefined || (field.positional === true && String(value) === '')) continue;
      if (Array.isArray(value) && field.type !== 'array')
        throw new IsoproError('INVALID_ARGUMENT', `${path}: it is given more than once`);
      if (part === null) settings[path] = value;
      else {
        const members = settings[part] === undefined ? {} : settings[part];
        // What is not a part stays, for the schema to refuse.
        if (isObject(members))
          settings[part] = { ...members, [path.slice(part.length + 1)]: value };
      }
    }
    return settings;
  }

  /** The value of a flag in settings; undefined where it is not stated. */
  valueOf(settings: object, { path, part }: Flag): unknown {
    const members = settings as Readonly<Record<string, unknown>>;
    if (part === null) return members[path];
    return (members[part] as Readonly<Record<string, unknown>> | undefined)?.[
      path.slice(part.length + 1)
    ];
  }

  /** Flags with their values, in the order of the help; those without one are left out. */
  values(settings: object): [flag: Flag, value: unknown][] {
    return this.all.flatMap((flag): [Flag, unknown][] => {
      const value = this.valueOf(settings, flag);
      return value === undefined ? [] : [[flag, value]];
    });
  }

  /** The words of a command line that states these settings, and nothing else. */
  words(settings: object): string[] {
    const values = this.values(settings);
    const positional = values.filter(([{ field }]) => field.positional === true);
    const flags = values.filter(([{ field }]) => field.positional !== true);
    return [
      ...positional.flatMap(([, value]) => [value].flat().map(String)),
      ...flags.flatMap(([{ name }, value]) =>
        typeof value === 'boolean'
          ? [value ? `--${name}` : `--no-${name}`]
          : [value].flat().map((each) => `--${name}=${String(each)}`),
      ),
    ];
  }

  /** A message about settings, with flags for their paths: `--temperature: expected …`. */
  named(message: string): string {
    return message
      .split(/; (?!did you mean)/)
      .map((line) =>
        line.replace(
          /^(?:settings\.)?([A-Za-z]\w*(?:\.[A-Za-z]\w*)?)((?:\.\d+)?)(?=:)/,
          (all, path) => {
            const flag = this.at(path as string);
            if (flag === undefined) return all.replace(/^settings\./, '');
            return flag.field.positional === true ? flag.name : `--${flag.name}`;
          },
        ),
      )
      .join('\n');
  }
}

function typeOf({
  type,
  enum: own,
  items,
}: Field): Pick<Options, 'type' | 'array' | 'choices' | 'coerce'> {
  const of = type === 'array' ? items?.type : type;
  const choices = own ?? items?.enum;
  return {
    type: of === 'boolean' ? 'boolean' : of === 'number' || of === 'integer' ? 'number' : 'string',
    ...(type === 'array' && { array: true }),
    ...stated({ choices }),
    // A list may be typed with commas: no choice has one.
    ...(choices !== undefined &&
      type === 'array' && {
        coerce: (words: readonly unknown[]) => words.flatMap((word) => String(word).split(',')),
      }),
  };
}

/** Settings outside any part, and those of each part. */
function leavesOf({ properties = {}, required = [] }: Field): Flag[] {
  return Object.entries(properties).flatMap(([name, field]): Flag[] => {
    if (field.properties === undefined)
      return [
        {
          name: kebab(field.flag ?? name),
          path: name,
          part: null,
          field: { ...field, ...(field.flag !== undefined && { flag: name }) },
          isRequired: required.includes(name),
        },
      ];
    return Object.entries(field.properties).map(([member, of]) => ({
      name: kebab(of.flag ?? member),
      path: `${name}.${member}`,
      part: name,
      field: of,
      isRequired: field.required?.includes(member) === true,
    }));
  });
}

function ordered(leaves: readonly Flag[], order: FlagOrder): Flag[] {
  const left = new Map(leaves.map((flag) => [flag.path, flag]));
  const found: Flag[] = [];
  const take = (path: string, name?: string): void => {
    const flag = left.get(path)!;
    left.delete(path);
    found.push(name === undefined ? flag : { ...flag, name });
  };
  for (const entry of order) {
    const [path, name] = typeof entry === 'string' ? [entry] : entry;
    if (left.has(path)) take(path, name);
    else for (const each of [...left.keys()]) if (each.startsWith(`${path}.`)) take(each);
  }
  return [...found, ...left.values()];
}
