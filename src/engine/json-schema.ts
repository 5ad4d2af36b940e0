/**
 * JSON Schema (draft 2020-12, and what draft 7 says in other words) as a GBNF grammar of which every text is a document of the schema. What
 * a grammar cannot keep is refused by name, or left out where a caller asks for what can be kept. Some documents of a schema are never
 * written: an object has its declared properties in their order, all of them where `required` is absent, and others only where
 * `additionalProperties` asks for them; an array has all of its `prefixItems`; numbers have at most 16 digits before and after the point.
 */
import type { Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { GrammarRules } from './grammar-rules.js';
import { integersBetween } from './integer-grammar.js';
import { conjunctionOf } from './json-conjunction.js';
import { literal, otherName, sequence, SHARED, times } from './json-gbnf.js';
import { boundsOfFormat, gbnfOfFormat, gbnfOfPattern, isFormatOfIntegers } from './json-formats.js';
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
  withoutAnnotations,
  type Schema,
} from './json-keywords.js';
import { areListed, disjoint, tagOf, typeOf, TYPES, UNKNOWN, withTag, type Shape, type Type } from './json-shape.js';

const KEYWORDS_OF_TYPE: Partial<Record<Type, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties', 'patternProperties', 'propertyNames'],
  array: ['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
  string: ['minLength', 'maxLength', 'format', 'pattern'],
};
/** Kept of what is said to be an integer. */
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
const KEPT = new Set<string>([
  ...COMBINING,
  'const',
  'enum',
  'type',
  'nullable',
  'multipleOf',
  ...Object.values(KEYWORDS_OF_TYPE).flat(),
  ...BOUNDS,
]);
const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'];

const MOST_REPETITIONS = 10_000; // of the GBNF parser
const DEEPEST = 100;
const LONGEST_NAME = 500;
/** Characters of the schemas that are put together from others. */
const MOST_JOINED = 2 ** 22;
/** Alternatives of `oneOf` that are compared each with each. */
const MOST_COMPARED = 256;

/** What a rule may be: a GBNF expression, and for each of its alternatives the rules without which it is not complete. */
interface Form {
  readonly gbnf: string;
  readonly needs: readonly (readonly string[])[];
  /** The rules of other schemas for the same value, not for a part of it. */
  readonly same?: readonly string[];
}
const ANY: Form = { gbnf: 'any', needs: [[]] };
const ANY_OBJECT = '"{" ws (member (comma member)*)? ws "}"';

/** What is asked of a schema's values beside the schema. */
interface Narrowing {
  readonly objects?: boolean;
  /** A property that is always written. */
  readonly tag?: string | undefined;
}

export interface Keeping {
  /** What a grammar cannot keep is left out of it; by default it is refused. */
  readonly partly?: boolean;
  /** Of the values that the schema allows, the objects. */
  readonly objects?: boolean;
}

/** A schema that is refused at a place of its own, for these keywords. */
class Refusal extends IsoproError {
  readonly pointer: string;
  readonly keywords: readonly string[];

  constructor(pointer: string, keywords: readonly string[], what: string) {
    super('GRAMMAR_INVALID', `the JSON Schema at ${pointer}: ${what}`);
    this.pointer = pointer;
    this.keywords = keywords;
  }
}

/** The rules of several schemas, each with its own references. */
export class SchemaGrammar {
  readonly #rules = new GrammarRules();

  /**
   * @returns the name of the rule of a schema's values
   * @throws IsoproError GRAMMAR_INVALID that names the keyword and its place
   */
  add(schema: object | boolean, keeping: Keeping = {}): string {
    let document: Json;
    try {
      document = JSON.parse(JSON.stringify(schema)) as Json;
    } catch (cause) {
      throw new IsoproError('GRAMMAR_INVALID', `the JSON Schema is not JSON: ${(cause as Error).message}`, { cause });
    }
    return new Compiler(withoutAnnotations(document), this.#rules, keeping).compile();
  }

  toString(): string {
    return `${this.#rules}${SHARED}`;
  }
}

/** @throws IsoproError GRAMMAR_INVALID that names the keyword and its place, where some text of a grammar would not follow the schema */
export function grammarOfJsonSchema(schema: object): string {
  const grammar = new SchemaGrammar();
  const root = grammar.add(schema);
  return `root ::= ${root}\n${grammar}`;
}

/** Of an integer, which JavaScript has exactly; beyond it "minimum" and "maximum" are refused. */
const LARGEST_BOUND = 999_999_999_999_999;
const without = (schema: Schema, keywords: readonly string[]): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([keyword]) => !keywords.includes(keyword)));

class Compiler {
  readonly #document: Json;
  readonly #grammar: GrammarRules;
  readonly #keeping: Keeping;
  /** By the place of a schema and what is asked beside it: the rule of its values. */
  readonly #rules = new Map<string, { readonly pointer: string; readonly rule: string; readonly narrowing: Narrowing }>();
  readonly #forms = new Map<string, Form>();
  /** Rules that others refer to, though they are not written yet. */
  readonly #referred = new Set<string>();
  #joinedLength = 0;

  constructor(document: Json, grammar: GrammarRules, keeping: Keeping) {
    this.#document = document;
    this.#grammar = grammar;
    this.#keeping = keeping;
  }

  compile(): string {
    const { objects = false } = this.#keeping;
    const root = this.#rule('#', objects && this.#document === true ? {} : this.#document, 0, objects ? { objects } : {});
    this.#refuseEndless();
    return root;
  }

  /** @param keywords those without which the schema would not be refused here */
  #refuse(pointer: string, keywords: readonly string[], what: string): never {
    throw new Refusal(pointer, keywords, what);
  }

  #fitting(pointer: string, schema: Schema, body: string): string {
    if (!this.#grammar.fits(body)) {
      const counts = COUNTS.filter((keyword) => schema[keyword] !== undefined);
      this.#refuse(
        pointer,
        counts,
        'with this the grammar is too large, its repetitions written out: bound fewer texts and lists, or lower',
      );
    }
    return body;
  }
  #define(pointer: string, schema: Schema, body: string): string {
    return this.#grammar.define(this.#fitting(pointer, schema, body));
  }

  /**
   * The name of the rule of a schema's values.
   * @param place what tells the schema apart from others: its pointer, or for one that was put together what it says
   */
  #rule(pointer: string, schema: Json, depth: number, narrowing: Narrowing = {}, place = pointer): string {
    const { partly = false } = this.#keeping;
    const key = `${JSON.stringify(narrowing)}${place}`;
    const known = this.#rules.get(key);
    if (known !== undefined) {
      if (!this.#forms.has(known.rule)) this.#referred.add(known.rule);
      return known.rule;
    }
    if (schema === true) return 'any';
    const broken =
      depth > DEEPEST
        ? `schemas are nested more than ${DEEPEST} deep`
        : schema === false
          ? 'false allows no value'
          : isSchema(schema)
            ? null
            : 'this is not a schema';
    if (broken !== null && partly && depth > 0) return 'any';
    if (broken !== null || !isSchema(schema)) this.#refuse(pointer, [], broken!);
    const rule = this.#grammar.reserve();
    this.#rules.set(key, { pointer, rule, narrowing });
    const form = this.#kept(pointer, schema, depth + 1, narrowing);
    // One of objects alone stays so, whatever becomes of the other.
    const twin = this.#referred.has(rule) || narrowing.objects === true ? undefined : this.#grammar.twin(form.gbnf);
    if (twin !== undefined) {
      this.#grammar.withdraw(rule);
      this.#rules.set(key, { pointer, rule: twin, narrowing });
      return twin;
    }
    this.#grammar.write(rule, form.gbnf);
    this.#forms.set(rule, form);
    return rule;
  }

  /** What a schema becomes, without the keywords that no grammar keeps where that is asked for. */
  #kept(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): Form {
    for (let said = schema; ; ) {
      try {
        const form = this.#form(pointer, said, depth, narrowing);
        this.#fitting(pointer, said, form.gbnf);
        return form;
      } catch (error) {
        if (this.#keeping.partly !== true || !(error instanceof Refusal) || error.pointer !== pointer) throw error;
        const fewer = without(said, error.keywords);
        if (Object.keys(fewer).length === Object.keys(said).length) throw error;
        said = fewer;
      }
    }
  }

  #form(pointer: string, given: Schema, depth: number, narrowing: Narrowing): Form {
    const schema = assertions(given);
    // a library writes the pattern of a format beside it: what was asked for is the format
    if (schema.pattern !== undefined && typeof schema.format === 'string' && gbnfOfFormat(schema.format) === undefined)
      this.#refuse(pointer, ['format', 'pattern'], `a grammar cannot keep "format" ${JSON.stringify(schema.format)}`);
    for (const keyword of Object.keys(schema))
      if (!KEPT.has(keyword)) this.#refuse(pointer, [keyword], `a grammar cannot keep "${keyword}"`);
    if (given.$id !== undefined && pointer !== '#') this.#refuse(pointer, ['$id'], 'a grammar cannot keep "$id" within a schema');
    if (COMBINING.some((keyword) => schema[keyword] !== undefined)) return this.#combined(pointer, schema, depth, narrowing);
    for (const keyword of ['const', 'enum'] as const) {
      if (schema[keyword] === undefined) continue;
      const beside = Object.keys(schema).find((other) => !['const', 'enum', 'type', 'nullable'].includes(other));
      if (beside !== undefined) this.#refuse(pointer, [beside], `a grammar cannot keep "${beside}" beside "${keyword}"`);
      const values = this.#values(pointer, schema).filter((value) => narrowing.objects !== true || isSchema(value));
      if (values.length === 0) this.#refuse(pointer, [], `no value of "${keyword}" is an object`);
      return { gbnf: values.map((value) => literal(JSON.stringify(value))).join(' | '), needs: [[]] };
    }
    const types = this.#types(pointer, schema);
    const bound = [...BOUNDS, 'multipleOf'].find((keyword) => schema[keyword] !== undefined);
    if (bound !== undefined && (bound === 'multipleOf' || schema.type === undefined || types === null || types.includes('number')))
      this.#refuse(
        pointer,
        [bound],
        `a grammar cannot keep "${bound}"${bound === 'multipleOf' ? '' : ' of a "number", only of an "integer"'}`,
      );
    if (narrowing.objects === true) {
      if (types !== null && !types.includes('object')) this.#refuse(pointer, [], 'it describes no object');
      return this.#object(pointer, schema, depth, narrowing);
    }
    if (types === null) return ANY;
    const forms = types.map((type) => this.#typed(pointer, type, schema, depth, narrowing));
    return { gbnf: forms.map(({ gbnf }) => gbnf).join(' | '), needs: forms.flatMap(({ needs }) => needs) };
  }

  #typed(pointer: string, type: Type, schema: Schema, depth: number, narrowing: Narrowing): Form {
    if (type === 'object') return this.#object(pointer, schema, depth, narrowing);
    if (type === 'array') return this.#array(pointer, schema, depth);
    if (type === 'string') return { gbnf: this.#string(pointer, schema), needs: [[]] };
    if (type === 'integer') return { gbnf: this.#integer(pointer, schema), needs: [[]] };
    return { gbnf: type === 'null' ? '"null"' : type, needs: [[]] };
  }

  /** What `type` names, or the types that the other keywords are about; null: any. */
  #types(pointer: string, schema: Schema): Type[] | null {
    if (schema.type === undefined) {
      const meant = TYPES.filter((type) => KEYWORDS_OF_TYPE[type]?.some((keyword) => schema[keyword] !== undefined));
      return meant.length === 0 ? null : meant;
    }
    const named = isList(schema.type) ? schema.type : [schema.type];
    const unknown = named.find((type) => !TYPES.includes(type as Type));
    if (unknown !== undefined) this.#refuse(pointer, ['type'], `there is no "type" ${JSON.stringify(unknown)}`);
    if (named.length === 0) this.#refuse(pointer, ['type'], '"type" is empty');
    const whole = schema.multipleOf === 1 || isFormatOfIntegers(String(schema.format));
    const types = (named as Type[]).map((type) => (type === 'number' && whole ? 'integer' : type));
    return [...new Set<Type>([...types, ...(schema.nullable === true ? (['null'] as const) : [])])];
  }

  #values(pointer: string, schema: Schema): readonly Json[] {
    const { const: only, enum: given } = schema;
    if (given !== undefined && !isList(given)) this.#refuse(pointer, ['enum'], '"enum" is not a list');
    const constant = only === undefined ? null : identity(only);
    const listed = given === undefined ? [only!] : given.filter((value) => constant === null || identity(value) === constant);
    const types = schema.type === undefined ? null : new Set(this.#types(pointer, schema)!);
    const values =
      types === null ? listed : listed.filter((value) => types.has(typeOf(value)) || (typeof value === 'number' && types.has('number')));
    if (values.length === 0)
      this.#refuse(
        pointer,
        ['enum', 'const'],
        listed.length === 0 ? '"enum" is empty' : `no value of "${only === undefined ? 'enum' : 'const'}" is of the "type"`,
      );
    return values;
  }

  /** The schema that a reference names, and its place. */
  #target(pointer: string, reference: Json | undefined): [string, Json] {
    const refuse = (what: string): never => this.#refuse(pointer, ['$ref'], what);
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference))
      return refuse(`a grammar cannot keep "$ref" ${JSON.stringify(reference)}: it is not a pointer into this schema (#/…)`);
    let at: Json | undefined = this.#document;
    let path = '#';
    for (const part of reference.split('/').slice(1)) {
      const key = keyOf(part);
      if (key === null) return refuse(`"$ref" ${JSON.stringify(reference)} is not well-formed`);
      at = typeof at === 'object' && at !== null && Object.hasOwn(at, key) ? (at as Schema)[key] : undefined;
      if (at === undefined) return refuse(`"$ref" ${JSON.stringify(reference)} points to nothing`);
      if (isSchema(at) && typeof at.$id === 'string') return refuse('a grammar cannot keep "$id" within a schema');
      path = under(path, key);
    }
    return [path, at];
  }

  /** A schema of other schemas for the same value. */
  #combined(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): Form {
    const rules = this.#alone(pointer, schema, depth, narrowing) ?? [this.#joined(pointer, schema, depth, narrowing)];
    return { gbnf: rules.join(' | '), needs: rules.map((rule) => [rule]), same: rules };
  }

  /** Where one keyword says all: the rules of what it refers to. */
  #alone(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): string[] | null {
    const [keyword, ...more] = COMBINING.filter((one) => schema[one] !== undefined);
    const rest = without(schema, COMBINING);
    if (keyword === undefined || more.length > 0) return null;
    const besides = Object.keys(rest).filter((other) => other !== 'type' || !this.#isOfTypes(pointer, schema, keyword));
    if (besides.length > 0) return null;
    if (keyword === '$ref') return [this.#rule(...this.#target(pointer, schema.$ref), depth, narrowing)];
    if (keyword !== 'allOf') return this.#alternatives(pointer, keyword, schema[keyword], depth, narrowing);
    const { allOf } = schema;
    if (!isList(allOf) || allOf.length !== 1) return null;
    return [this.#rule(under(pointer, 'allOf', 0), allOf[0]!, depth, narrowing)];
  }

  /** Whether `type` beside another keyword forbids nothing that this one allows. */
  #isOfTypes(pointer: string, schema: Schema, keyword: string): boolean {
    const types = new Set(this.#types(pointer, schema));
    const shape = this.#shape(pointer, { [keyword]: schema[keyword]! }, []);
    return [...shape.types].every((type) => types.has(type) || (type === 'integer' && types.has('number')));
  }

  /** The rule of all keywords of a schema together. */
  #joined(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): string {
    const joined = this.#conjunction(pointer, schema);
    const said = identity(joined);
    const by = (one: Schema): string => this.#rule(under(pointer, 'allOf'), one, depth, narrowing, `=${said}`);
    const [keyword, ...more] = (['anyOf', 'oneOf'] as const).filter((one) => joined[one] !== undefined);
    const rest = without(joined, keyword === undefined ? [] : [keyword]);
    const alternatives = keyword === undefined ? undefined : joined[keyword];
    if (more.length > 0) this.#refuse(pointer, ['oneOf'], 'a grammar cannot keep "oneOf" beside "anyOf"');
    const copies = isList(alternatives) && Object.keys(rest).length > 0 ? alternatives : [];
    this.#joinedLength += said.length + copies.length * identity(rest).length;
    if (this.#joinedLength > MOST_JOINED)
      this.#refuse(pointer, [...COMBINING], 'with this too much is put together from other schemas: write it out, or refer to it');
    return by(keyword === undefined || copies.length === 0 ? joined : { [keyword]: copies.map((one) => ({ allOf: [rest, one] })) });
  }

  /** One schema without `$ref` and `allOf`. */
  #conjunction(pointer: string, schema: Schema): Schema {
    const joined = conjunctionOf(this.#parts(pointer, schema, []));
    if (typeof joined !== 'string') return joined;
    const keyword = COMBINING.findLast((one) => schema[one] !== undefined)!;
    return this.#refuse(pointer, [keyword], `a grammar cannot keep "${joined}" beside "${keyword}"`);
  }

  /** What all holds for the same value. */
  #parts(pointer: string, given: Schema, trail: readonly string[]): Schema[] {
    const { $ref: reference, allOf, ...rest } = assertions(given);
    const parts: Schema[] = [];
    const add = (place: string, one: Json): void => {
      if (trail.includes(place)) this.#refuse(pointer, ['$ref', 'allOf'], 'the recursion leads back to the same value');
      if (allowsNone(one)) this.#refuse(pointer, ['$ref', 'allOf'], 'false allows no value');
      if (one !== true && !isSchema(one)) this.#refuse(place, [], 'this is not a schema');
      if (isSchema(one)) parts.push(...this.#parts(pointer, one, [...trail, place]));
    };
    if (reference !== undefined) add(...this.#target(pointer, reference));
    if (allOf !== undefined && !(isList(allOf) && allOf.length > 0)) this.#refuse(pointer, ['allOf'], '"allOf" is not a list of schemas');
    for (const [i, one] of (allOf ?? []).entries()) add(`${trail.at(-1) ?? pointer}/allOf/${i}`, one);
    return [...parts, rest];
  }

  #alternatives(pointer: string, keyword: 'anyOf' | 'oneOf', schemas: Json | undefined, depth: number, narrowing: Narrowing): string[] {
    if (!isList(schemas) || schemas.length === 0) return this.#refuse(pointer, [keyword], `"${keyword}" is not a list of schemas`);
    const places = schemas.map((schema, i) => [under(pointer, keyword, i), schema] as const);
    const possible = places.filter(([, schema]) => !allowsNone(schema));
    const shapeOf = ([place, schema]: readonly [string, Json]): Shape => this.#shape(place, schema, []);
    const wanted = (possible.length === 0 ? places : possible).filter(
      (one) => narrowing.objects !== true || shapeOf(one).types.has('object'),
    );
    if (wanted.length === 0) this.#refuse(pointer, [], `"${keyword}" describes no object`);
    const tag = keyword === 'oneOf' ? this.#tag(pointer, wanted.map(shapeOf)) : undefined;
    const asked = tag === undefined ? narrowing : { ...narrowing, tag };
    return [...new Set(wanted.map(([place, schema]) => this.#rule(place, schema, depth, asked)))];
  }

  /** The property that has to be written so that exactly one of the alternatives holds; undefined: it is so in any case. */
  #tag(pointer: string, shapes: readonly Shape[]): string | undefined {
    if (this.#keeping.partly === true || areListed(shapes)) return undefined;
    if (shapes.length > MOST_COMPARED)
      this.#refuse(
        pointer,
        ['oneOf'],
        `a grammar cannot keep "oneOf" of more than ${MOST_COMPARED} alternatives that are not listed values`,
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
    if (tag !== undefined && alike(shapes.map((shape) => withTag(shape, tag))) === undefined) return tag;
    return this.#refuse(
      pointer,
      ['oneOf'],
      `a grammar cannot keep "oneOf": alternatives ${pair[0]} and ${pair[1]} may have a value in common; "anyOf" allows that`,
    );
  }

  #shape(pointer: string, given: Json, trail: readonly string[]): Shape {
    if (!isSchema(given) || trail.includes(pointer)) return UNKNOWN;
    let schema = assertions(given);
    if (COMBINING.filter((keyword) => schema[keyword] !== undefined).length > 0) {
      const { $ref: reference, ...others } = schema;
      if (reference !== undefined && Object.keys(others).length === 0)
        return this.#shape(...this.#target(pointer, reference), [...trail, pointer]);
      try {
        schema = this.#conjunction(pointer, schema);
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
        .map((one, i) => this.#shape(under(pointer, keyword, i), one, [...trail, pointer]));
      const values = shapes.every((shape) => shape.values !== null) ? new Set(shapes.flatMap((shape) => [...shape.values!])) : null;
      return { ...UNKNOWN, types: new Set(shapes.flatMap((shape) => [...shape.types])), values };
    }
    if (schema.const !== undefined || schema.enum !== undefined) {
      const values = this.#values(pointer, schema);
      return { ...UNKNOWN, types: new Set(values.map(typeOf)), values: new Set(values.map(identity)) };
    }
    const types = this.#types(pointer, schema);
    if (types === null) return UNKNOWN;
    const tags = new Map<string, ReadonlySet<string>>();
    const optional = new Map<string, ReadonlySet<string>>();
    const required = isList(schema.required) ? new Set<unknown>(schema.required) : null;
    for (const [name, property] of types.length === 1 && types[0] === 'object' ? entriesOf(schema.properties) : []) {
      const { values } = this.#shape(under(pointer, 'properties', name), property, [...trail, pointer]);
      if (values !== null) (required === null || required.has(name) ? tags : optional).set(name, values);
    }
    // Without `type` the schema allows other types than those that are written.
    return { types: schema.type === undefined ? UNKNOWN.types : new Set(types), values: null, tags, optional };
  }

  /** A count that a keyword gives. */
  #count(pointer: string, schema: Schema, keyword: string, absent: number): number {
    const value = schema[keyword];
    if (value === undefined) return absent;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
      this.#refuse(pointer, [keyword], `"${keyword}" is not a whole number of 0 or more`);
    if (value > MOST_REPETITIONS) this.#refuse(pointer, [keyword], `a grammar cannot keep "${keyword}" above ${MOST_REPETITIONS}`);
    return value;
  }

  #limits(pointer: string, schema: Schema, what: 'Length' | 'Items' | 'Properties'): [least: number, most: number] {
    const least = this.#count(pointer, schema, `min${what}`, 0);
    const most = this.#count(pointer, schema, `max${what}`, Infinity);
    if (most < least) this.#refuse(pointer, [`min${what}`, `max${what}`], `"max${what}" is below "min${what}"`);
    return [least, most];
  }

  #string(pointer: string, schema: Schema): string {
    const [least, most] = this.#limits(pointer, schema, 'Length');
    if (schema.format === undefined && schema.pattern === undefined) {
      const text = times('character', least, most);
      return sequence('"\\""', least > 0 || most < Infinity ? this.#define(pointer, schema, text) : 'character*', '"\\""');
    }
    const format = gbnfOfFormat(String(schema.format));
    if (schema.format !== undefined && format === undefined)
      this.#refuse(pointer, ['format'], `a grammar cannot keep "format" ${JSON.stringify(schema.format)}`);
    const text = schema.pattern === undefined ? format : gbnfOfPattern(schema);
    if (text === undefined) return this.#refuse(pointer, ['pattern'], 'a grammar cannot keep "pattern"');
    if (schema.minLength !== undefined || schema.maxLength !== undefined)
      this.#refuse(pointer, ['minLength', 'maxLength'], 'a grammar cannot keep "minLength" and "maxLength" beside "format"');
    return `"\\"" ${this.#define(pointer, schema, text)} "\\""`;
  }

  /** A bound that a keyword gives, as a whole number: the least, or the largest, that it allows. */
  #bound(pointer: string, schema: Schema, keyword: string, whole: (value: number) => number): number | null {
    const value = schema[keyword];
    if (value === undefined) return null;
    if (typeof value !== 'number') return this.#refuse(pointer, [keyword], `"${keyword}" is not a number`);
    if (Math.abs(value) > LARGEST_BOUND) this.#refuse(pointer, [keyword], `a grammar cannot keep "${keyword}" beyond ${LARGEST_BOUND}`);
    return whole(value);
  }

  #integer(pointer: string, schema: Schema): string {
    const of = (keyword: string, whole: (value: number) => number): number | null => this.#bound(pointer, schema, keyword, whole);
    const [lowest, highest] = boundsOfFormat(schema.format);
    const least = [of('minimum', Math.ceil), of('exclusiveMinimum', (value) => Math.floor(value) + 1), lowest];
    const most = [of('maximum', Math.floor), of('exclusiveMaximum', (value) => Math.ceil(value) - 1), highest];
    const [low, high] = [Math.max(...least.filter((value) => value !== null)), Math.min(...most.filter((value) => value !== null))];
    if (low === -Infinity && high === Infinity) return 'integer';
    if (low > high) this.#refuse(pointer, [...BOUNDS, 'format'], 'no whole number lies between the bounds');
    return integersBetween(low, high);
  }

  #array(pointer: string, schema: Schema, depth: number): Form {
    const [least, limit] = this.#limits(pointer, schema, 'Items');
    if (schema.uniqueItems !== undefined) this.#refuse(pointer, ['uniqueItems'], 'a grammar cannot keep "uniqueItems"');
    // Draft 7 says by a list of items what later drafts say by prefixItems.
    const inDraft7 = isList(schema.items);
    const [listed, further] = inDraft7 ? (['items', 'additionalItems'] as const) : (['prefixItems', 'items'] as const);
    const { [listed]: tuple = [], [further]: items = true } = schema;
    if (!isList(tuple)) return this.#refuse(pointer, ['prefixItems'], '"prefixItems" is not a list of schemas');
    if (inDraft7 && schema.prefixItems !== undefined)
      this.#refuse(pointer, ['prefixItems'], 'a grammar cannot keep "prefixItems" beside a list of "items"');
    const most = allowsNone(items) ? Math.min(limit, tuple.length) : limit;
    if (most < least) this.#refuse(pointer, ['minItems', 'maxItems'], '"minItems" exceeds the items that are allowed');
    const first = tuple.slice(0, most).map((item, i) => this.#rule(under(pointer, listed, i), item, depth));
    const rest = Math.max(0, least - first.length);
    const room = most - first.length;
    const other = room > 0 ? this.#rule(under(pointer, further), items, depth) : '';
    const tail =
      first.length > 0 || room === 0
        ? times(`(comma ${other})`, rest, room)
        : sequence(other, times(`(comma ${other})`, Math.max(0, rest - 1), room - 1));
    const optional = first.length === 0 && room > 0 && rest === 0 ? `(${tail})?` : tail;
    return { gbnf: sequence('"[" ws', first.join(' comma '), optional, 'ws "]"'), needs: [[...first, ...(rest > 0 ? [other] : [])]] };
  }

  /** Names that `propertyNames` lists; null: any. */
  #listedNames(pointer: string, schema: Schema): ReadonlySet<string> | null {
    if (schema.propertyNames === undefined) return null;
    const { values } = this.#shape(under(pointer, 'propertyNames'), schema.propertyNames, []);
    if (values === null) return this.#refuse(pointer, ['propertyNames'], 'a grammar cannot keep "propertyNames"');
    return new Set([...values].map((value) => JSON.parse(value) as Json).filter((name) => typeof name === 'string'));
  }

  /** The schema of properties that are not declared, and its place; undefined: none is written. */
  #furtherProperties(pointer: string, schema: Schema): readonly [place: string, schema: Json] | undefined {
    const { patternProperties, additionalProperties, properties } = schema;
    if (patternProperties !== undefined) {
      const [[pattern, values] = ['', true], ...more] = entriesOf(patternProperties);
      // Of declared names, too, it says something.
      const isPlain = entriesOf(properties).length === 0 || values === true || identity(values) === '{}';
      if (more.length > 0 || !matchesEveryName(pattern) || !isPlain)
        this.#refuse(pointer, ['patternProperties'], 'a grammar cannot keep "patternProperties"');
      return allowsNone(values) ? undefined : [under(pointer, 'patternProperties', pattern), values];
    }
    if (additionalProperties === undefined || allowsNone(additionalProperties)) return undefined;
    return [under(pointer, 'additionalProperties'), additionalProperties];
  }

  #object(pointer: string, schema: Schema, depth: number, { tag }: Narrowing): Form {
    const { properties = {}, required, additionalProperties } = schema;
    if (!isSchema(properties)) return this.#refuse(pointer, ['properties'], '"properties" is not an object of schemas');
    if (required !== undefined && !(isList(required) && required.every((name) => typeof name === 'string')))
      this.#refuse(pointer, ['required'], '"required" is not a list of names');
    const names = required === undefined ? undefined : new Set(required as readonly string[]);
    const [least, most] = this.#limits(pointer, schema, 'Properties');
    const listed = this.#listedNames(pointer, schema);
    const further = this.#furtherProperties(pointer, schema);
    const isForbidden = (name: string): boolean =>
      (listed !== null && !listed.has(name)) ||
      (Object.hasOwn(properties, name)
        ? allowsNone(properties[name])
        : additionalProperties !== undefined && allowsNone(additionalProperties) && further === undefined);
    const forbidden = new Set(Object.keys(properties).filter(isForbidden));
    for (const name of [...(names ?? [])].filter(isForbidden)) {
      if (this.#keeping.partly !== true)
        this.#refuse(pointer, ['required'], `"required" names ${JSON.stringify(name)}, which is not allowed`);
      names!.delete(name);
    }

    const others = further === undefined ? '' : this.#rule(...further, depth);
    const fields = Object.keys(properties)
      .filter((name) => !forbidden.has(name))
      .map((name) => ({
        name,
        rule: this.#rule(under(pointer, 'properties', name), properties[name]!, depth),
        always: names === undefined || names.has(name) || name === tag,
      }));
    for (const name of listed !== null && others !== '' ? listed : [])
      if (!Object.hasOwn(properties, name)) fields.push({ name, rule: others, always: names?.has(name) ?? false });
    for (const name of names ?? [])
      if (!fields.some((field) => field.name === name)) fields.push({ name, rule: others === '' ? 'any' : others, always: true });
    const always = fields.filter((field) => field.always);
    if (least > always.length)
      this.#refuse(
        pointer,
        ['minProperties'],
        'a grammar cannot keep "minProperties" above the number of properties that are always there',
      );
    if (most < fields.length)
      this.#refuse(pointer, ['maxProperties'], 'a grammar cannot keep "maxProperties" below the number of declared properties');

    const isOpen = others !== '' && listed === null;
    const long = isOpen ? fields.find(({ name }) => name.length > LONGEST_NAME) : undefined;
    if (long !== undefined)
      this.#refuse(
        pointer,
        ['additionalProperties', 'patternProperties'],
        `a grammar cannot keep "additionalProperties" beside a name of more than ${LONGEST_NAME} characters`,
      );

    // From the last one to the first: what may follow where nothing has been written yet, and where something has.
    const define = (body: string): string => this.#define(pointer, schema, body);
    const room = most - fields.length;
    const other = !isOpen || room === 0 ? '' : `${otherName(define, [...fields.map(({ name }) => name), ...forbidden])} colon ${others}`;
    let atStart = other === '' ? '' : `(${sequence(other, times(`(comma ${other})`, 0, room - 1))})?`;
    let after = other === '' ? '' : times(`(comma ${other})`, 0, room);
    for (const { name, rule, always: written } of [...fields].reverse()) {
      const pair = `${literal(JSON.stringify(name))} colon ${rule}`;
      const then = define(after);
      atStart = written ? `${pair} ${then}` : `(${pair} ${then} | ${define(atStart)})`;
      after = `${written ? `comma ${pair}` : `(comma ${pair})?`} ${then}`;
    }
    return { gbnf: sequence('"{" ws', atStart, 'ws "}"'), needs: [always.map(({ rule }) => rule)] };
  }

  #refuseEndless(): void {
    this.#refuseRest(({ same = [] }, isDone) => same.every(isDone), 'the recursion leads back to the same value');
    // A schema that needs itself has no finite document.
    this.#refuseRest(
      ({ needs }, isDone) => needs.some((all) => all.every(isDone)),
      'the recursion has no end: no finite value follows the schema (name what must be there by "required", or allow null)',
    );
  }

  /** Refuses the first rule that is never done, where being so depends on other rules that are. */
  #refuseRest(isReady: (form: Form, isDone: (rule: string) => boolean) => boolean, what: string): void {
    const done = new Set<string>();
    /** Rules that are no schema's of this document end by themselves. */
    const isDone = (rule: string): boolean => done.has(rule) || !this.#forms.has(rule);
    for (let before = -1; before < done.size; ) {
      before = done.size;
      for (const [rule, form] of this.#forms) if (isReady(form, isDone)) done.add(rule);
    }
    const endless = [...this.#rules.values()].filter(({ rule }) => !isDone(rule));
    const [first] = endless;
    if (first === undefined) return;
    if (this.#keeping.partly !== true) this.#refuse(first.pointer, [], what);
    const { rule, narrowing } = endless.at(-1)!;
    this.#grammar.write(rule, narrowing.objects === true ? ANY_OBJECT : ANY.gbnf);
    this.#forms.set(rule, ANY);
    this.#refuseRest(isReady, what);
  }
}
