/**
 * Reading what a caller has sent by its schema, whatever it holds: the size of a list or a record
 * is looked at before its members, and reading ends at the first member that is wrong. zod alone
 * reads all of them and keeps an issue for each, which takes a minute and gigabytes for one body of
 * some megabytes.
 */
import { z } from 'zod';
import { plainWords } from '../wrong-input.js';

type Schema = z.core.$ZodType;
type Parse = Schema['_zod']['parse'];

/**
 * Context of a reading, by which schemas know to stop at the first issue; otherwise they report all
 * issues.
 */
interface Reading extends z.core.ParseContext<z.core.$ZodIssue> {
  readonly endsAtFirst: true;
}
const READING: Reading = { error: plainWords, endsAtFirst: true };
const isReading = (context: object): boolean => (context as Partial<Reading>).endsAtFirst === true;

const mosts = new WeakMap<z.core.$ZodCheck<object>, number>();

/** Bounds a record as `max` bounds a list: `z.record(…).check(mostMembers(16))`. */
export function mostMembers(most: number): z.core.$ZodCheck<object> {
  const check = z.check<object>(({ value, issues }) => {
    if (Object.keys(value).length > most)
      issues.push({ code: 'custom', message: `takes at most ${most} members`, input: value });
  });
  mosts.set(check, most);
  return check;
}

interface Bound {
  readonly check: string;
  readonly value?: number;
  readonly inclusive?: boolean;
}

/** A list of whole numbers within bounds is read by a loop: token ids come by the million. */
function plainNumber(schema: Schema): (value: unknown) => boolean {
  const { def } = (schema as z.core.$ZodNumberFormat)._zod;
  const bounds = (def.checks ?? []).map((check) => check._zod.def as Bound);
  const limits = (check: string): number[] =>
    bounds.flatMap((bound) =>
      bound.check === check && bound.inclusive === true ? [bound.value!] : [],
    );
  const [leasts, mosts] = [limits('greater_than'), limits('less_than')];
  if (
    def.type !== 'number' ||
    def.format !== 'safeint' ||
    leasts.length + mosts.length < bounds.length
  )
    return () => false;
  const [least, most] = [Math.max(...leasts), Math.min(...mosts)];
  return (value) =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

/** Members that a list may have; infinite where it does not say. */
const mostOf = ({ _zod: { def } }: z.core.$ZodArray): number =>
  Math.min(...z.core.util.sizeCaps(def.checks).map(([most]) => most));

/** Ends a payload at its first wrong member. */
function ended(
  payload: z.core.ParsePayload,
  issues: readonly z.core.$ZodRawIssue[],
): z.core.ParsePayload {
  payload.issues.push(...issues);
  payload.aborted = true;
  return payload;
}

function listParse(schema: z.core.$ZodArray): Parse {
  const { parse, def } = schema._zod;
  const { element } = def;
  const isFine = plainNumber(element);
  const most = mostOf(schema);
  return (payload, context) => {
    const list = payload.value;
    // zod's own begins with the size
    if (!isReading(context) || !Array.isArray(list) || list.length > most)
      return parse(payload, context);
    const read: unknown[] = new Array(list.length);
    payload.value = read;
    for (let i = 0; i < list.length; i++) {
      const value: unknown = list[i];
      if (isFine(value)) {
        read[i] = value;
        continue;
      }
      const member = element._zod.run({ value, issues: [] }, context) as z.core.ParsePayload;
      read[i] = member.value;
      if (member.issues.length > 0)
        return ended(payload, z.core.util.prefixIssues(i, member.issues));
    }
    return payload;
  };
}

function recordParse(schema: z.core.$ZodRecord): Parse {
  const { parse } = schema._zod;
  const bound = boundOf(schema);
  return (payload, context) => {
    const record = payload.value;
    if (
      !isReading(context) ||
      typeof record !== 'object' ||
      record === null ||
      Array.isArray(record) ||
      bound === undefined
    )
      return parse(payload, context);
    void bound._zod.check(payload as z.core.ParsePayload<object>);
    if (payload.issues.length > 0) return ended(payload, []);
    const read: Record<string, unknown> = {};
    payload.value = read;
    for (const [key, value] of Object.entries(record)) {
      const member = parse({ value: { [key]: value }, issues: [] }, context) as z.core.ParsePayload;
      if (member.issues.length > 0) return ended(payload, member.issues);
      Object.assign(read, member.value);
    }
    return payload;
  };
}

const prepared = new WeakSet<Schema>();

function put(schema: Schema, parse: Parse): void {
  const { _zod: of } = schema;
  if (of.run === of.parse) of.run = parse;
  of.parse = parse;
}

/** Prepares a schema and every schema below it. @throws Error */
function prepare(schema: Schema, place: string): void {
  if (prepared.has(schema)) return;
  prepared.add(schema);
  try {
    prepareMembers(schema, place);
  } catch (error) {
    prepared.delete(schema);
    throw error;
  }
  const { type } = schema._zod.def;
  // at its first parse a container of zod's puts back what it was before it looked for cycles
  if (type === 'array' || type === 'record')
    void schema._zod.run({ value: undefined, issues: [] }, { async: false });
  if (type === 'array') put(schema, listParse(schema as z.core.$ZodArray));
  if (type === 'record') put(schema, recordParse(schema as z.core.$ZodRecord));
}

const boundOf = ({ _zod: { def } }: z.core.$ZodRecord): z.core.$ZodCheck<object> | undefined =>
  (def.checks as readonly z.core.$ZodCheck<object>[] | undefined)?.find((check) =>
    mosts.has(check),
  );

function prepareMembers(schema: Schema, place: string): void {
  const below = (inner: Schema, name = ''): void => prepare(inner, place + name);
  function unbounded(what: string): never {
    throw new Error(`${place} is ${what} without a bound`);
  }
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'array':
      if (mostOf(schema as z.core.$ZodArray) === Infinity) unbounded('a list');
      below(def.element, '[]');
      break;
    case 'record': {
      const isListed = def.keyType._zod.values !== undefined;
      if (!isListed && boundOf(schema as z.core.$ZodRecord) === undefined) unbounded('a record');
      below(def.valueType, '{}');
      break;
    }
    case 'object':
      for (const [name, member] of Object.entries(def.shape)) below(member, `.${name}`);
      if (def.catchall !== undefined) below(def.catchall, '.*');
      break;
    case 'tuple':
      for (const item of def.items) below(item, '[]');
      if (def.rest !== null) unbounded('a tuple with a rest');
      break;
    case 'union':
      for (const option of def.options) below(option);
      break;
    case 'intersection':
      below(def.left);
      below(def.right);
      break;
    case 'pipe':
      below(def.in);
      below(def.out);
      break;
    case 'lazy':
      below(def.getter());
      break;
    case 'map':
    case 'set':
      unbounded(`a ${def.type}`);
      break;
    default:
      if ('innerType' in def) below(def.innerType);
  }
}

/**
 * Returns a reader that parses values and reports the first issue that zod would find.
 * @param place of the schema, for the error about a missing bound
 * @throws Error where a list or a record of it has no bound, or one whose members would be read
 *   before it
 */
export function readerOf<Value extends z.ZodType>(
  schema: Value,
  place = 'the schema',
): (value: unknown) => z.ZodSafeParseResult<z.output<Value>> {
  prepare(schema, place);
  return (value) => schema.safeParse(value, READING);
}
