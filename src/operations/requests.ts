/**
 * Settings that a request may state: all but the local ones, with names of the server instead of
 * files, addresses and programs.
 */
import { z } from 'zod';
import type { NameKind } from '../setting-meta.js';
import { DOMAINS } from '../truth-seeking/domains/index.js';
import type { Names } from './names.js';

const LONGEST_NAME = 403;

/** Meanings of names, as shown in the schema. */
const MEANINGS: Readonly<Record<NameKind, string>> = {
  model: 'a model of this server',
  adapter: 'an adapter of this server, or the id of a job that made one',
  task: 'a task of this server, or the id of an uploaded file of rows',
  backend: 'local, or a back end that the operator allows',
  decider: 'a word, or model:NAME with a model of this server',
  check:
    'exact, normalised, number, json, regex, contains, choice, or an upload (json:ID, model:ID)',
  run: 'a run folder of this server: the id of a job, or JOB/NAME of a run in it',
  truthRun: 'a truth run of this server, such as the id of a job',
  file: 'the id of an uploaded file',
  domain: 'one of the built-in domains',
  registry: 'the registry of this server',
};

const metaOf = (schema: z.ZodType): z.GlobalMeta => {
  let found: z.GlobalMeta = {};
  for (let each: z.ZodType | undefined = schema; each !== undefined; each = innerOf(each))
    found = { ...each.meta(), ...found };
  return found;
};
const innerOf = (schema: z.ZodType): z.ZodType | undefined =>
  schema instanceof z.ZodOptional ||
  schema instanceof z.ZodDefault ||
  schema instanceof z.ZodPrefault ||
  schema instanceof z.ZodNullable
    ? (schema.unwrap() as z.ZodType)
    : undefined;
const isArray = (schema: z.ZodType): boolean => {
  let each: z.ZodType | undefined = schema;
  while (each !== undefined && !(each instanceof z.ZodArray)) each = innerOf(each);
  return each !== undefined;
};

/** A member that a request states by name. */
function named(member: string, schema: z.ZodType, meta: z.GlobalMeta, names: NameKind): z.ZodType {
  const name =
    names === 'domain' ? z.enum(DOMAINS.map(({ id }) => id)) : z.string().min(1).max(LONGEST_NAME);
  const value = isArray(schema) ? z.array(name).min(1).max(100) : name;
  const isOptional = names === 'model' || schema.safeParse(undefined).success;
  const { description = '' } = meta;
  const served = member === 'model' ? '; default: the one that it serves' : '';
  const words = `${description.replace(/; default: .*$/, '')}: ${MEANINGS[names]}${served}`;
  return (isOptional ? value.optional() : value).meta({ ...meta, description: words });
}

/**
 * The settings of an operation that a request may state.
 * @param contradictions of what is stated, which are found before any name is looked up
 */
export function requestSettings(
  schema: z.ZodObject,
  contradictions?: (stated: z.input<z.ZodObject>) => readonly string[],
): z.ZodObject {
  const members = Object.entries(schema.shape as Record<string, z.ZodType>).flatMap(
    ([name, member]): [string, z.ZodType][] => {
      const meta = metaOf(member);
      if (meta.local === true) return [];
      return [[name, meta.names === undefined ? member : named(name, member, meta, meta.names)]];
    },
  );
  const requested = z.strictObject(Object.fromEntries(members));
  if (contradictions === undefined) return requested;
  return requested.superRefine((stated, context) => {
    for (const message of contradictions(stated)) context.addIssue({ code: 'custom', message });
  });
}

/**
 * Settings with the things in place of the names of this server; the served model where none is
 * named.
 * @throws NotAllowed
 */
export function resolvedNames(
  schema: z.ZodObject,
  stated: Readonly<Record<string, unknown>>,
  names: Names,
): Record<string, unknown> {
  const things: Record<string, unknown> = { ...stated };
  for (const [name, member] of Object.entries(schema.shape as Record<string, z.ZodType>)) {
    const { names: kind, local } = metaOf(member);
    if (kind === undefined || kind === 'domain' || local === true) continue;
    const value =
      stated[name] ?? (kind === 'model' && name === 'model' ? names.allowed.model : undefined);
    if (value === undefined) continue;
    const thing = (each: unknown, param: string): string =>
      kind === 'registry' ? names.registry(param) : names[kind](String(each), param);
    things[name] = Array.isArray(value)
      ? value.map((each, i) => thing(each, `settings.${name}.${i}`))
      : thing(value, `settings.${name}`);
  }
  return things;
}
