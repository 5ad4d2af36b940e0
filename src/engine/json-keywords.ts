/**
 * The keywords of JSON Schema: which of them say something of a value, and which are annotations.
 * Libraries write many that forbid nothing (pydantic, zod, OpenAPI, editors of forms).
 */
import type { Json } from '../canonical-json.js';
import { isFormatOfIntegers, isFormatOfTexts } from './json-formats.js';

export type Schema = { readonly [keyword: string]: Json };

export const isSchema = (value: Json | undefined): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);
export const entriesOf = (value: Json | undefined): (readonly [string, Json])[] =>
  isSchema(value) ? Object.entries(value) : [];
/** A pointer further into a document. */
export const under = (pointer: string, ...keys: (string | number)[]): string =>
  [pointer, ...keys.map((key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1'))].join(
    '/',
  );

/** Equal for values that are equal, whatever the order of their keys. */
export const identity = (value: Json): string =>
  JSON.stringify(value, (_, part: Json) =>
    isSchema(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );

const ANNOTATIONS = new Set(
  // of JSON Schema
  (
    '$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment $defs definitions title description default examples ' +
    'deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema ' +
    // of OpenAPI
    'example xml externalDocs discriminator ' +
    // of editors, forms and generators of code
    'enumNames enumDescriptions enumTitles markdownDescription markdownEnumDescriptions deprecationMessage errorMessage doNotSuggest ' +
    'defaultSnippets suggestSortText propertyOrder propertyOrdering order label placeholder tsType tsEnumNames javaType faker'
  ).split(' '),
);
const isAnnotation = (keyword: string): boolean =>
  ANNOTATIONS.has(keyword) || /^(?:x-|ui:|meta:)/i.test(keyword);

/** Those that are about other places of the same value. */
export const COMBINING = ['$ref', 'allOf', 'anyOf', 'oneOf'] as const;
/** Of integers, and with more digits than they have; of numbers, beyond their exponent. */
const BEYOND_INTEGERS = 1e16;
const BEYOND_NUMBERS = 1e115;

/** That match every text. */
const MATCHES_ALL = new Set([
  '',
  '^',
  '$',
  '.*',
  '^.*',
  '.*$',
  '[\\s\\S]*',
  '^[\\s\\S]*$',
  '^[\\s\\S]*',
  '(?:)',
  '(.*)',
]);
/** Of names, none of which is written with a line break. */
export const matchesEveryName = (pattern: string): boolean =>
  MATCHES_ALL.has(pattern) || ['^.*$', '^(.*)$', '^.*?$'].includes(pattern);

const typesOf = ({ type }: Schema): readonly Json[] =>
  type === undefined ? [] : isList(type) ? type : [type];
export const isOfIntegers = (schema: Schema): boolean => {
  const types = typesOf(schema);
  return types.includes('integer') && !types.includes('number');
};

/** Whether a schema allows every value. */
const allowsAll = (schema: Json): boolean =>
  schema === true || (isSchema(schema) && Object.keys(assertions(schema)).length === 0);
const isEmpty = (value: Json): boolean => isSchema(value) && Object.keys(value).length === 0;

function allowsAllNames(names: Json): boolean {
  if (allowsAll(names)) return true;
  if (!isSchema(names)) return false;
  const { type, ...others } = assertions(names);
  return type === 'string' && Object.keys(others).length === 0;
}

/** Of values of other types a format says nothing. */
const saysSomething = (format: string, types: readonly Json[]): boolean =>
  (isFormatOfTexts(format) && (types.length === 0 || types.includes('string'))) ||
  (isFormatOfIntegers(format) &&
    (types.length === 0 || types.includes('integer') || types.includes('number')));

/** Whether a keyword forbids nothing where it stands. */
function saysNothing(keyword: string, value: Json, schema: Schema): boolean {
  switch (keyword) {
    case 'nullable':
      return value !== true || schema.type === undefined;
    case 'format':
      return typeof value === 'string' && !saysSomething(value, typesOf(schema));
    case 'pattern':
      return typeof value === 'string' && MATCHES_ALL.has(value);
    case 'multipleOf':
      return (
        isOfIntegers(schema) && typeof value === 'number' && [1, 0.5, 0.25, 0.125].includes(value)
      );
    case 'minimum':
    case 'exclusiveMinimum':
      return (
        typeof value === 'number' &&
        value <= -(isOfIntegers(schema) ? BEYOND_INTEGERS : BEYOND_NUMBERS)
      );
    case 'maximum':
    case 'exclusiveMaximum':
      return (
        typeof value === 'number' &&
        value >= (isOfIntegers(schema) ? BEYOND_INTEGERS : BEYOND_NUMBERS)
      );
    case 'minLength':
    case 'minItems':
    case 'minProperties':
      return value === 0;
    case 'uniqueItems':
      return value === false || (typeof schema.maxItems === 'number' && schema.maxItems <= 1);
    case 'additionalItems':
      return !isList(schema.items);
    case 'minContains':
    case 'maxContains':
      return schema.contains === undefined;
    case 'contains':
      return schema.minContains === 0 && schema.maxContains === undefined;
    case 'if':
      return schema.then === undefined && schema.else === undefined;
    case 'then':
    case 'else':
      return schema.if === undefined;
    case 'dependentRequired':
    case 'dependentSchemas':
    case 'dependencies':
    case 'patternProperties':
      return isEmpty(value);
    case 'propertyNames':
      return allowsAllNames(value);
    case 'unevaluatedProperties':
      return allowsAll(value) || schema.additionalProperties !== undefined;
    case 'unevaluatedItems':
      return allowsAll(value);
    case 'not':
      return value === false;
    case 'allOf':
      return isList(value) && value.length > 0 && value.every(allowsAll);
    default:
      return false;
  }
}

/** Draft 4 and OpenAPI 3.0 say by true that a bound is not one of the values. */
function withBounds(schema: Schema): Schema {
  const bounds: Record<string, Json> = { ...schema };
  for (const [exclusive, inclusive] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof schema[exclusive] !== 'boolean') continue;
    delete bounds[exclusive];
    if (schema[exclusive] !== true || schema[inclusive] === undefined) continue;
    bounds[exclusive] = schema[inclusive];
    delete bounds[inclusive];
  }
  return bounds;
}

/** The keywords of a schema that say something, in the words of draft 2020-12. */
export function assertions(given: Schema): Schema {
  const schema = withBounds(given);
  const said = Object.entries(schema).filter(
    ([keyword, value]) => !isAnnotation(keyword) && !saysNothing(keyword, value, schema),
  );
  return withoutUnevaluated(Object.fromEntries(said));
}

/**
 * Where no other place of the schema is about the same value, what is not evaluated is what is not
 * declared.
 */
function withoutUnevaluated(schema: Schema): Schema {
  const { unevaluatedProperties, unevaluatedItems, ...others } = schema;
  if (
    COMBINING.some((keyword) => others[keyword] !== undefined) ||
    (unevaluatedProperties ?? unevaluatedItems) === undefined
  )
    return schema;
  return {
    ...others,
    ...(unevaluatedProperties !== undefined &&
      (others.type === 'object' || others.properties !== undefined
        ? { additionalProperties: unevaluatedProperties }
        : { unevaluatedProperties })),
    ...(unevaluatedItems !== undefined &&
      (others.prefixItems !== undefined && others.items === undefined
        ? { items: unevaluatedItems }
        : { unevaluatedItems })),
  };
}

/** Whether no value at all is allowed, as zod writes what never is there. */
export const allowsNone = (schema: Json | undefined): boolean =>
  schema === false || (isSchema(schema) && schema.not !== undefined && allowsAll(schema.not));

const MAPS = new Set(['properties', 'patternProperties', 'dependentSchemas']);
const SCHEMAS = new Set(
  (
    'items additionalProperties additionalItems propertyNames not if then else contains unevaluatedItems unevaluatedProperties ' +
    'prefixItems allOf anyOf oneOf'
  ).split(' '),
);
/** Annotations to which, or by which, a reference may point. */
const REFERRED = new Set(['$defs', 'definitions', '$id', 'id']);
const DEEPEST = 200;

/**
 * A schema without its annotations, however long they are; references go on pointing to what they
 * did.
 */
export function withoutAnnotations(schema: Json, depth = 0): Json {
  if (depth > DEEPEST) return schema;
  if (isList(schema)) return schema.map((one) => withoutAnnotations(one, depth + 1));
  if (!isSchema(schema)) return schema;
  const kept = Object.entries(schema).filter(
    ([keyword]) => !isAnnotation(keyword) || REFERRED.has(keyword),
  );
  const of = ([keyword, value]: [string, Json]): Json =>
    (MAPS.has(keyword) || REFERRED.has(keyword)) && isSchema(value)
      ? Object.fromEntries(
          Object.entries(value).map(([name, member]) => [
            name,
            withoutAnnotations(member, depth + 1),
          ]),
        )
      : SCHEMAS.has(keyword)
        ? withoutAnnotations(value, depth + 1)
        : value;
  return Object.fromEntries(kept.map((entry) => [entry[0], of(entry)]));
}

/** What a local reference points to; undefined: nothing. */
export function pointedTo(document: Json, reference: string): Json | undefined {
  let at: Json | undefined = document;
  for (const part of reference.split('/').slice(1)) {
    const key = keyOf(part);
    at =
      key !== null && typeof at === 'object' && at !== null && Object.hasOwn(at, key)
        ? (at as Schema)[key]
        : undefined;
  }
  return at;
}

/** A part of a pointer within an address, unescaped; null: it is not well-formed. */
export function keyOf(part: string): string | null {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return null;
  }
}

/**
 * Characters of what a schema says of its values: without annotations, and of its definitions those
 * that it refers to. Infinity where it is nested too deep to tell.
 */
export function lengthOfRules(document: unknown): number {
  const referred = new Set<string>();
  const ofSchema = (schema: Json, depth: number): number => {
    if (depth > DEEPEST) return Infinity;
    if (isList(schema))
      return schema.reduce<number>((sum, item) => sum + 1 + ofSchema(item, depth + 1), 2);
    if (!isSchema(schema)) return ofValue(schema, depth);
    let length = 2;
    for (const [keyword, value] of Object.entries(schema)) {
      if (isAnnotation(keyword)) continue;
      length += keyword.length + 4;
      if (MAPS.has(keyword) && isSchema(value))
        for (const [name, member] of Object.entries(value))
          length += name.length + 4 + ofSchema(member, depth + 1);
      else length += SCHEMAS.has(keyword) ? ofSchema(value, depth + 1) : ofValue(value, depth + 1);
      if (keyword !== '$ref' || typeof value !== 'string' || referred.has(value)) continue;
      referred.add(value);
      length += ofSchema(pointedTo(document as Json, value) ?? true, depth + 1);
    }
    return length;
  };
  const ofValue = (value: Json, depth: number): number => {
    if (depth > DEEPEST) return Infinity;
    if (typeof value === 'string') return value.length + 2;
    if (typeof value !== 'object' || value === null) return String(value).length;
    return Object.entries(value).reduce(
      (sum, [name, member]) => sum + name.length + 4 + ofValue(member, depth + 1),
      2,
    );
  };
  return ofSchema(document as Json, 0);
}

export const without = (schema: Schema, keywords: readonly string[]): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([keyword]) => !keywords.includes(keyword)));
