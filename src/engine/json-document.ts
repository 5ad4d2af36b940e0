/**
 * What the schemas of one document say: types, values, counts, what references lead to and what
 * holds for the same value together. What no grammar keeps is refused by name (`json-schema.ts`).
 */
import type { Json } from '../canonical-json.js';
import { conjunctionOf } from './json-conjunction.js';
import { isFormatOfIntegers } from './json-formats.js';
import {
  allowsNone,
  assertions,
  COMBINING,
  entriesOf,
  identity,
  isList,
  isSchema,
  keyOf,
  matchesEveryName,
  under,
  without,
  type Schema,
} from './json-keywords.js';
import { cannotKeep, refuse, Refusal } from './json-refusal.js';
import {
  areListed,
  disjoint,
  tagOf,
  typeOf,
  TYPES,
  UNKNOWN,
  withTag,
  type Shape,
  type Type,
} from './json-shape.js';

export const KEYWORDS_OF_TYPE: Partial<Record<Type, readonly string[]>> = {
  object: [
    'properties',
    'required',
    'additionalProperties',
    'minProperties',
    'maxProperties',
    'patternProperties',
    'propertyNames',
  ],
  array: ['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
  string: ['minLength', 'maxLength', 'format', 'pattern'],
};

const MOST_REPETITIONS = 10_000; // of the GBNF parser
/** Alternatives of `oneOf` that are compared each with each. */
const MOST_COMPARED = 256;

/**
 * Schemas that are read for others, each time: references may double what they lead to with every
 * step.
 */
const MOST_READ = 30_000;

/** Of an integer, which JavaScript has exactly; beyond it "minimum" and "maximum" are refused. */
const LARGEST_BOUND = 999_999_999_999_999;

/** A document of schemas, read without its grammar. */
export class SchemaDocument {
  readonly #document: Json;
  readonly #partly: boolean;
  #read = 0;

  /** @param partly what no grammar keeps is left out and not refused */
  constructor(document: Json, partly: boolean) {
    this.#document = document;
    this.#partly = partly;
  }

  /** What `type` names, or the types that the other keywords are about; null: any. */
  types(pointer: string, schema: Schema): Type[] | null {
    if (schema.type === undefined) {
      const meant = TYPES.filter((type) =>
        KEYWORDS_OF_TYPE[type]?.some((keyword) => schema[keyword] !== undefined),
      );
      return meant.length === 0 ? null : meant;
    }
    const named = isList(schema.type) ? schema.type : [schema.type];
    const unknown = named.find((type) => !TYPES.includes(type as Type));
    if (unknown !== undefined)
      refuse(pointer, ['type'], `unknown "type" ${JSON.stringify(unknown)}`);
    if (named.length === 0) refuse(pointer, ['type'], '"type" is empty');
    const whole = schema.multipleOf === 1 || isFormatOfIntegers(String(schema.format));
    const types = (named as Type[]).map((type) => (type === 'number' && whole ? 'integer' : type));
    return [...new Set<Type>([...types, ...(schema.nullable === true ? (['null'] as const) : [])])];
  }

  values(pointer: string, schema: Schema): readonly Json[] {
    const { const: only, enum: given } = schema;
    if (given !== undefined && !isList(given)) refuse(pointer, ['enum'], '"enum" is not a list');
    const constant = only === undefined ? null : identity(only);
    const listed =
      given === undefined
        ? [only!]
        : given.filter((value) => constant === null || identity(value) === constant);
    const types = schema.type === undefined ? null : new Set(this.types(pointer, schema)!);
    const values =
      types === null
        ? listed
        : listed.filter(
            (value) =>
              types.has(typeOf(value)) || (typeof value === 'number' && types.has('number')),
          );
    if (values.length === 0)
      refuse(
        pointer,
        ['enum', 'const'],
        listed.length === 0
          ? '"enum" is empty'
          : `no value of "${only === undefined ? 'enum' : 'const'}" has the type that "type" requires`,
      );
    return values;
  }

  /** The schema that a reference names, and its place. */
  target(pointer: string, reference: Json | undefined): [string, Json] {
    const refused = (what: string): never => refuse(pointer, ['$ref'], what);
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference))
      return refused(
        `a grammar cannot enforce "$ref" ${JSON.stringify(reference)}: it is not a pointer into this schema (#/…)`,
      );
    let at: Json | undefined = this.#document;
    let path = '#';
    for (const part of reference.split('/').slice(1)) {
      const key = keyOf(part);
      if (key === null) return refused(`"$ref" ${JSON.stringify(reference)} is malformed`);
      at =
        typeof at === 'object' && at !== null && Object.hasOwn(at, key)
          ? (at as Schema)[key]
          : undefined;
      if (at === undefined) return refused(`"$ref" ${JSON.stringify(reference)} points to nothing`);
      if (isSchema(at) && typeof at.$id === 'string')
        return refused('a grammar cannot enforce "$id" within a schema');
      path = under(path, key);
    }
    return [path, at];
  }

  /** Whether `type` beside another keyword forbids nothing that this one allows. */
  isOfTypes(pointer: string, schema: Schema, keyword: string): boolean {
    const types = new Set(this.types(pointer, schema));
    const shape = this.shape(pointer, { [keyword]: schema[keyword]! }, []);
    return [...shape.types].every(
      (type) => types.has(type) || (type === 'integer' && types.has('number')),
    );
  }

  /** One schema without `$ref` and `allOf`. */
  conjunction(pointer: string, schema: Schema): Schema {
    const joined = conjunctionOf(this.#parts(pointer, schema, []));
    if (typeof joined !== 'string') return joined;
    const keyword = COMBINING.findLast((one) => schema[one] !== undefined)!;
    return cannotKeep(pointer, keyword, `"${joined}" together with "${keyword}"`);
  }

  /** @throws IsoproError GRAMMAR_INVALID once too much was read */
  #countRead(pointer: string): void {
    if (++this.#read > MOST_READ)
      refuse(
        pointer,
        [...COMBINING],
        'too many schemas are combined here; write out the combined schema instead',
      );
  }

  /** What all holds for the same value. */
  #parts(pointer: string, given: Schema, trail: readonly string[]): Schema[] {
    this.#countRead(pointer);
    const { $ref: reference, allOf, ...rest } = assertions(given);
    const parts: Schema[] = [];
    const add = (place: string, one: Json): void => {
      if (trail.includes(place))
        refuse(
          pointer,
          ['$ref', 'allOf'],
          'the schema refers to itself with no property or item in between',
        );
      if (allowsNone(one))
        refuse(pointer, ['$ref', 'allOf'], 'a schema that is false allows no value');
      if (one !== true && !isSchema(one)) refuse(place, [], 'not a schema');
      if (isSchema(one)) parts.push(...this.#parts(pointer, one, [...trail, place]));
    };
    if (reference !== undefined) add(...this.target(pointer, reference));
    if (allOf !== undefined && !(isList(allOf) && allOf.length > 0))
      refuse(pointer, ['allOf'], '"allOf" is not a list of schemas');
    for (const [i, one] of (allOf ?? []).entries())
      add(`${trail.at(-1) ?? pointer}/allOf/${i}`, one);
    return [...parts, rest];
  }

  /**
   * The property that has to be written so that exactly one of the alternatives holds; undefined:
   * it is so in any case.
   */
  tag(pointer: string, shapes: readonly Shape[]): string | undefined {
    if (this.#partly || areListed(shapes)) return undefined;
    if (shapes.length > MOST_COMPARED)
      cannotKeep(
        pointer,
        'oneOf',
        `"oneOf" with more than ${MOST_COMPARED} alternatives, unless all of them are "const" or "enum"`,
      );
    const alike = (of: readonly Shape[]): readonly [number, number] | undefined => {
      for (const [i, shape] of of.entries()) {
        const same = of.slice(0, i).findIndex((other) => !disjoint(shape, other));
        if (same >= 0) return [same, i];
      }
      return undefined;
    };
    const pair = alike(shapes);
    if (pair === undefined) return undefined;
    const tag = tagOf(shapes);
    if (tag !== undefined && alike(shapes.map((shape) => withTag(shape, tag))) === undefined)
      return tag;
    return cannotKeep(
      pointer,
      'oneOf',
      `"oneOf": one value may match both alternative ${pair[0]} and alternative ${pair[1]}; "anyOf" allows that`,
    );
  }

  shape(pointer: string, given: Json, trail: readonly string[]): Shape {
    this.#countRead(pointer);
    if (!isSchema(given) || trail.includes(pointer)) return UNKNOWN;
    let schema = assertions(given);
    if (COMBINING.filter((keyword) => schema[keyword] !== undefined).length > 0) {
      const { $ref: reference, ...others } = schema;
      if (reference !== undefined && Object.keys(others).length === 0)
        return this.shape(...this.target(pointer, reference), [...trail, pointer]);
      try {
        schema = this.conjunction(pointer, schema);
      } catch (error) {
        if (error instanceof Refusal) return UNKNOWN; // which is said where it is compiled
        throw error;
      }
    }
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      if (!isList(schema[keyword])) continue;
      const rest = without(schema, [keyword]);
      const shapes = schema[keyword]
        .map((one) => (Object.keys(rest).length === 0 ? one : { allOf: [rest, one] }))
        .filter((one) => !allowsNone(one))
        .map((one, i) => this.shape(under(pointer, keyword, i), one, [...trail, pointer]));
      const values = shapes.every((shape) => shape.values !== null)
        ? new Set(shapes.flatMap((shape) => [...shape.values!]))
        : null;
      return { ...UNKNOWN, types: new Set(shapes.flatMap((shape) => [...shape.types])), values };
    }
    if (schema.const !== undefined || schema.enum !== undefined) {
      const values = this.values(pointer, schema);
      return {
        ...UNKNOWN,
        types: new Set(values.map(typeOf)),
        values: new Set(values.map(identity)),
      };
    }
    const types = this.types(pointer, schema);
    if (types === null) return UNKNOWN;
    const tags = new Map<string, ReadonlySet<string>>();
    const optional = new Map<string, ReadonlySet<string>>();
    const required = isList(schema.required) ? new Set<unknown>(schema.required) : null;
    for (const [name, property] of types.length === 1 && types[0] === 'object'
      ? entriesOf(schema.properties)
      : []) {
      const { values } = this.shape(under(pointer, 'properties', name), property, [
        ...trail,
        pointer,
      ]);
      if (values !== null)
        (required === null || required.has(name) ? tags : optional).set(name, values);
    }
    // Without `type` the schema allows other types than those that are written.
    return {
      types: schema.type === undefined ? UNKNOWN.types : new Set(types),
      values: null,
      tags,
      optional,
    };
  }

  /** A count that a keyword gives. */
  #count(pointer: string, schema: Schema, keyword: string, absent: number): number {
    const value = schema[keyword];
    if (value === undefined) return absent;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
      refuse(pointer, [keyword], `"${keyword}" is not a whole number of 0 or more`);
    if (value > MOST_REPETITIONS)
      cannotKeep(pointer, keyword, `"${keyword}" above ${MOST_REPETITIONS}`);
    return value;
  }

  limits(
    pointer: string,
    schema: Schema,
    what: 'Length' | 'Items' | 'Properties',
  ): [least: number, most: number] {
    const least = this.#count(pointer, schema, `min${what}`, 0);
    const most = this.#count(pointer, schema, `max${what}`, Infinity);
    if (most < least)
      refuse(pointer, [`min${what}`, `max${what}`], `"max${what}" is below "min${what}"`);
    return [least, most];
  }

  /** A bound that a keyword gives, as a whole number: the least, or the largest, that it allows. */
  bound(
    pointer: string,
    schema: Schema,
    keyword: string,
    whole: (value: number) => number,
  ): number | null {
    const value = schema[keyword];
    if (value === undefined) return null;
    if (typeof value !== 'number')
      return refuse(pointer, [keyword], `"${keyword}" is not a number`);
    if (Math.abs(value) > LARGEST_BOUND)
      cannotKeep(pointer, keyword, `"${keyword}" beyond ${LARGEST_BOUND}`);
    return whole(value);
  }

  /** Names that `propertyNames` lists; null: any. */
  listedNames(pointer: string, schema: Schema): ReadonlySet<string> | null {
    if (schema.propertyNames === undefined) return null;
    const { values } = this.shape(under(pointer, 'propertyNames'), schema.propertyNames, []);
    if (values === null) return cannotKeep(pointer, 'propertyNames');
    return new Set(
      [...values]
        .map((value) => JSON.parse(value) as Json)
        .filter((name) => typeof name === 'string'),
    );
  }

  /** The schema of properties that are not declared, and its place; undefined: none is written. */
  furtherProperties(
    pointer: string,
    schema: Schema,
  ): readonly [place: string, schema: Json] | undefined {
    const { patternProperties, additionalProperties, properties } = schema;
    if (patternProperties !== undefined) {
      const [[pattern, values] = ['', true], ...more] = entriesOf(patternProperties);
      // Of declared names, too, it says something.
      const isPlain =
        entriesOf(properties).length === 0 || values === true || identity(values) === '{}';
      if (more.length > 0 || !matchesEveryName(pattern) || !isPlain)
        cannotKeep(pointer, 'patternProperties');
      return allowsNone(values)
        ? undefined
        : [under(pointer, 'patternProperties', pattern), values];
    }
    if (additionalProperties === undefined || allowsNone(additionalProperties)) return undefined;
    return [under(pointer, 'additionalProperties'), additionalProperties];
  }
}
