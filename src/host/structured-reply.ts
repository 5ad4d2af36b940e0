/**
 * Replies that are values of a zod schema: the schema as a grammar before, its own check behind.
 */
import { z } from 'zod';
import { grammarOfJsonSchema } from '../engine/json-schema.js';
import { IsoproError } from '../errors.js';
import type { HostReply, HostRequest } from './host-request.js';

/** One prompt whose reply is a value of `schema`. */
export interface ObjectRequest<Schema extends z.ZodType>
  extends Omit<HostRequest, 'grammar' | 'jsonSchema'> {
  readonly schema: Schema;
}

export interface ObjectReply<Schema extends z.ZodType> {
  /** Value that the schema returns, after its defaults, transforms and refinements. */
  readonly object: z.output<Schema>;
  readonly reply: HostReply;
}

/** z.int() has them; a reply with more digits is the schema's to refuse. */
const SAFE: Readonly<Record<string, number>> = {
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
};
const VALUES: readonly string[] = ['const', 'default', 'enum', 'examples'];
/** Of schemas by names, which may be those of keywords. */
const BY_NAME: readonly string[] = ['properties', 'patternProperties', '$defs', 'definitions'];

/** A JSON Schema without what zod writes beside what is meant: the bounds of z.int(). */
export function asMeant<Value>(schema: Value): Value {
  if (Array.isArray(schema)) return schema.map(asMeant) as Value;
  if (typeof schema !== 'object' || schema === null) return schema;
  const of = (keyword: string, value: unknown): unknown => {
    if (VALUES.includes(keyword)) return value;
    if (!BY_NAME.includes(keyword) || typeof value !== 'object' || value === null)
      return asMeant(value);
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, asMeant(member as unknown)]),
    );
  };
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([keyword, value]) => typeof value !== 'number' || SAFE[keyword] !== value)
      .map(([keyword, value]) => [keyword, of(keyword, value as unknown)]),
  ) as Value;
}

const REMEDY =
  'Remove the part named above from the schema, and check it afterwards in `.refine()`.';

/**
 * Where zod stopped, as a pointer; empty where it is the whole, or where zod cannot go through the
 * schema at all.
 */
function placeOf(schema: z.ZodType, stopped: string): string {
  const places: string[] = [];
  const override = ({
    zodSchema,
    path,
  }: {
    zodSchema: z.core.$ZodTypes;
    path: readonly (string | number)[];
  }): void => {
    if (stopped.toLowerCase().startsWith(zodSchema._zod.def.type))
      places.push(path.map((key) => `/${key}`).join(''));
  };
  try {
    z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override });
  } catch {
    return ''; // what stopped it first is what the caller hears of
  }
  const [place = ''] = places;
  return place === '' ? '' : ` at #${place}`;
}

/**
 * The grammar of what the schema reads.
 * @throws IsoproError INVALID_ARGUMENT, GRAMMAR_INVALID for what no grammar keeps
 */
export function grammarOf(schema: z.ZodType): string {
  if (typeof (schema as z.ZodType | undefined)?._zod !== 'object')
    throw new IsoproError('INVALID_ARGUMENT', 'request.schema: expected a zod 4 schema');
  let json: object;
  try {
    json = z.toJSONSchema(schema, { io: 'input' });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new IsoproError(
      'GRAMMAR_INVALID',
      `the schema cannot be converted to JSON Schema${placeOf(schema, message)}: ${message}`,
      {
        cause,
        remedy: REMEDY,
      },
    );
  }
  try {
    return grammarOfJsonSchema(asMeant(json));
  } catch (cause) {
    throw new IsoproError('GRAMMAR_INVALID', (cause as Error).message, { cause, remedy: REMEDY });
  }
}

/** At most 200 characters of a reply, quoted; of a longer one its end, where it was cut off. */
const shown = (text: string): string =>
  JSON.stringify(text.length <= 200 ? text : `…${text.slice(-200)}`);

/**
 * @throws IsoproError REPLY_INVALID where the reply was cut off, or breaks a rule that no grammar
 *   keeps
 */
export async function objectOf<Schema extends z.ZodType>(
  schema: Schema,
  reply: HostReply,
): Promise<z.output<Schema>> {
  let value: unknown;
  try {
    value = JSON.parse(reply.text);
  } catch (cause) {
    const what = `the reply ended after ${reply.tokenIds.length} tokens and is not complete JSON`;
    throw new IsoproError('REPLY_INVALID', `${what}: ${shown(reply.text)}`, { cause });
  }
  const result = await schema.safeParseAsync(value);
  if (result.success) return result.data;
  const problems = result.error.issues
    .map((issue) => [...issue.path, issue.message].join(': '))
    .join('; ');
  const what = `the reply violates the schema: ${problems}; the reply was ${shown(reply.text)}`;
  throw new IsoproError('REPLY_INVALID', what, { cause: result.error });
}
