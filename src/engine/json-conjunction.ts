/** Schemas that all hold for one value, as one schema. */
import type { Json } from '../canonical-json.js';
import { allowsNone, identity, isList, isSchema, type Schema } from './json-keywords.js';

/** Both hold. */
const both = (a: Json | undefined, b: Json | undefined): Json => {
  if (a === undefined || a === true) return b ?? true;
  if (b === undefined || b === true) return a;
  if (allowsNone(a) || allowsNone(b)) return false;
  return identity(a) === identity(b) ? a : { allOf: [a, b] };
};

const larger = (a: Json, b: Json): Json | undefined =>
  typeof a === 'number' && typeof b === 'number' ? Math.max(a, b) : undefined;
const smaller = (a: Json, b: Json): Json | undefined =>
  typeof a === 'number' && typeof b === 'number' ? Math.min(a, b) : undefined;

function types(a: Json, b: Json): Json | undefined {
  const [one, other] = [[a].flat() as Json[], [b].flat() as Json[]];
  const has = (list: readonly Json[], type: Json): boolean =>
    list.includes(type) || (type === 'integer' && list.includes('number'));
  const shared = [
    ...one.filter((type) => has(other, type)),
    ...other.filter((type) => !one.includes(type) && has(one, type)),
  ];
  return shared.length === 0 ? undefined : shared.length === 1 ? shared[0]! : shared;
}

/** How a keyword that two schemas have is one; undefined: as no schema can say. */
const JOINED: Readonly<Record<string, (a: Json, b: Json) => Json | undefined>> = {
  type: types,
  required: (a, b) => (isList(a) && isList(b) ? [...new Set([...a, ...b])] : undefined),
  enum: (a, b) => {
    if (!isList(a) || !isList(b)) return undefined;
    const values = new Set(b.map(identity));
    return a.filter((value) => values.has(identity(value)));
  },
  items: both,
  additionalItems: both,
  ...Object.fromEntries(
    ['minLength', 'minItems', 'minProperties', 'minimum', 'exclusiveMinimum'].map(
      (keyword) => [keyword, larger] as const,
    ),
  ),
  ...Object.fromEntries(
    ['maxLength', 'maxItems', 'maxProperties', 'maximum', 'exclusiveMaximum'].map(
      (keyword) => [keyword, smaller] as const,
    ),
  ),
};

/** Names that one of two schemas declares are for the other what it says of further ones. */
function propertiesOf(a: Schema, b: Schema): Schema {
  const [one, other] = [a.properties, b.properties].map((properties) =>
    isSchema(properties) ? properties : {},
  ) as [Schema, Schema];
  const of = (declared: Schema, schema: Schema, name: string): Json | undefined =>
    Object.hasOwn(declared, name) ? declared[name]! : schema.additionalProperties;
  return Object.fromEntries(
    [...new Set([...Object.keys(one), ...Object.keys(other)])].map((name) => [
      name,
      both(of(one, a, name), of(other, b, name)),
    ]),
  );
}

const OF_OTHER_NAMES = ['patternProperties', 'propertyNames', 'unevaluatedProperties'];

/** @returns the keyword that stands in the way, where the two cannot be one schema */
function pair(a: Schema, b: Schema): Schema | string {
  if (Object.keys(a).length === 0 || identity(a) === identity(b)) return b;
  for (const [one, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const names = OF_OTHER_NAMES.find((keyword) => one[keyword] !== undefined);
    if (
      names !== undefined &&
      (other.properties ?? other.additionalProperties ?? other[names]) !== undefined
    )
      return names;
  }
  const joined: Record<string, Json> = { ...a };
  for (const [keyword, value] of Object.entries(b)) {
    const before = a[keyword];
    if (before === undefined || identity(before) === identity(value)) {
      joined[keyword] = value;
    } else if (keyword !== 'properties' && keyword !== 'additionalProperties') {
      const one = JOINED[keyword]?.(before, value);
      if (one === undefined) return keyword;
      joined[keyword] = one;
    }
  }
  if ((a.properties ?? b.properties) !== undefined) joined.properties = propertiesOf(a, b);
  if (a.additionalProperties !== undefined && b.additionalProperties !== undefined)
    joined.additionalProperties = both(a.additionalProperties, b.additionalProperties);
  return joined;
}

/** A constant is a list of one. */
const listed = (schema: Schema): Schema => {
  const { const: value, ...others } = schema;
  return value === undefined || others.enum !== undefined ? schema : { ...others, enum: [value] };
};

/** One schema that allows what all of these allow, or the keyword that stands in the way. */
export function conjunctionOf(schemas: readonly Schema[]): Schema | string {
  let joined: Schema | string = {};
  for (const schema of schemas) {
    joined = pair(joined, listed(schema));
    if (typeof joined === 'string') return joined;
  }
  return joined;
}
