/**
 * JSON Schema (draft 2020-12) as a GBNF grammar of which every text is a document of the schema. What a grammar cannot keep
 * is refused by name. Some documents of a schema are never written: an object has its declared properties in their order, all
 * of them where `required` is absent, and others only where `additionalProperties` asks for them; an array has all of its
 * `prefixItems`; numbers have at most 16 digits before and after the point.
 */
import { z } from 'zod';
import type { Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { integersBetween } from './integer-grammar.js';

type Schema = { readonly [keyword: string]: Json };

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
type Type = (typeof TYPES)[number];

const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentEncoding',
  'contentMediaType',
  'contentSchema',
]);
const KEYWORDS_OF_TYPE: Partial<Record<Type, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems'],
  string: ['minLength', 'maxLength', 'format', 'pattern'],
};
/** Kept of what is said to be an integer. */
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
const KEPT = new Set(['$ref', 'anyOf', 'oneOf', 'const', 'enum', 'type', ...Object.values(KEYWORDS_OF_TYPE).flat(), ...BOUNDS]);

const MOST_REPETITIONS = 10_000; // of the GBNF parser
const DEEPEST = 100;
const LONGEST_NAME = 500;
/** Alternatives of `oneOf` that are compared each with each. */
const MOST_COMPARED = 256;

const LEAP = '("0" [48] | [2468] [048] | [13579] [26])';
/** Without a zone. */
const LOCAL = '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})?';
const TIME = `${LOCAL} ("Z" | [+-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])`;
const DATE =
  '([0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | ' +
  '"30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))' +
  ` | ([0-9] [0-9] ${LEAP} | (${LEAP} | "00") "00") "-02-29")`;
const FORMATS = new Map([
  ['date', DATE],
  ['time', TIME],
  ['date-time', `${DATE} "T" ${TIME}`],
  ['uuid', uuid()],
]);
/** What zod writes of its own strings, by `format` and `pattern`: the pattern is the narrower one. */
let ofZod: ReadonlyMap<string, string> | undefined;
const patterns = (): ReadonlyMap<string, string> =>
  (ofZod ??= new Map(
    (
      [
        [z.iso.date(), DATE],
        [z.iso.time(), LOCAL],
        [z.iso.datetime(), `${DATE} "T" ${LOCAL} "Z"`],
        [z.iso.datetime({ offset: true }), `${DATE} "T" ${TIME}`],
        [z.guid(), uuid()],
        [z.uuid(), uuid('[1-8]', '[89abAB]')],
        [z.uuidv4(), uuid('"4"', '[89abAB]')],
        [z.uuidv7(), uuid('"7"', '[89abAB]')],
      ] as const
    ).map(([schema, gbnf]) => [kindOfText(z.toJSONSchema(schema) as Schema), gbnf]),
  ));
function kindOfText({ format = null, pattern = null }: Schema): string {
  return JSON.stringify([format, pattern]);
}
/** @param version the first character of the third group @param variant that of the fourth */
function uuid(version = 'hex', variant = 'hex'): string {
  const of = (count: number): string => `hex{${count}}`;
  return `${of(8)} "-" ${of(4)} "-" ${version} ${of(3)} "-" ${variant} ${of(3)} "-" ${of(12)}`;
}

/** Of names: they are strings. */
const saysNothing = (names: Json): boolean => names === true || ['{}', '{"type":"string"}'].includes(JSON.stringify(names));

/** Rules that schemas share. A string's characters count as one whatever their spelling, as `maxLength` has it. */
const SHARED = `
ws ::= (" " | "\\n" [ \\t]{0,20})?
comma ::= "," ws
colon ::= ":" " "?
hex ::= [0-9a-fA-F]
plain ::= [^"\\\\\\x00-\\x1F\\x7F]
escape ::= "\\\\" (["\\\\/bfnrt] | "u" (unpaired | pair))
unpaired ::= [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex
pair ::= [dD] [89abAB] hex hex "\\\\u" [dD] [c-fC-F] hex hex
character ::= plain | escape
string ::= "\\"" character* "\\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [+-]? [0-9]{1,2})?
boolean ::= "true" | "false"
member ::= string colon any
any ::= "{" ws (member (comma member)*)? ws "}" | "[" ws (any (comma any)*)? ws "]" | string | number | boolean | "null"
`;

/** What a rule may be: a GBNF expression, and for each of its alternatives the rules without which it is not complete. */
interface Form {
  readonly gbnf: string;
  readonly needs: readonly (readonly string[])[];
  /** The rules of other schemas for the same value, not for a part of it. */
  readonly same?: readonly string[];
}

/** What is known of the values that a schema allows, so that alternatives of `oneOf` can be told apart. */
interface Shape {
  readonly types: ReadonlySet<Type>;
  /** As `identity` has them, where they are listed. */
  readonly values: ReadonlySet<string> | null;
  /** Listed values of properties that every object has that is written. */
  readonly tags: ReadonlyMap<string, ReadonlySet<string>>;
}

/** @throws IsoproError GRAMMAR_INVALID that names the keyword and its place, where some text of a grammar would not follow the schema */
export function grammarOfJsonSchema(schema: object): string {
  let document: Json;
  try {
    document = JSON.parse(JSON.stringify(schema)) as Json;
  } catch (cause) {
    throw new IsoproError('GRAMMAR_INVALID', `the JSON Schema is not JSON: ${(cause as Error).message}`, { cause });
  }
  return new Compiler(document).compile();
}

const isSchema = (value: Json | undefined): value is Schema => typeof value === 'object' && value !== null && !Array.isArray(value);
const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);
const entriesOf = (value: Json | undefined): (readonly [string, Json])[] => (isSchema(value) ? Object.entries(value) : []);
const under = (pointer: string, ...keys: (string | number)[]): string =>
  [pointer, ...keys.map((key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');

/** Of an integer, which JavaScript has exactly; beyond it "minimum" and "maximum" are refused. */
const LARGEST_BOUND = 999_999_999_999_999;
/** A GBNF text of these characters. */
const literal = (text: string): string =>
  `"${[...text].map((c) => (c === '"' || c === '\\' ? `\\${c}` : c < ' ' || c === '\x7f' ? codePoint(c) : c)).join('')}"`;
const codePoint = (c: string): string => `\\U${c.codePointAt(0)!.toString(16).padStart(8, '0')}`;

function typeOf(value: Json): Type {
  if (value === null) return 'null';
  if (isList(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value as 'object' | 'string' | 'boolean';
}
/** Equal for values that are equal, whatever the order of their keys. */
const identity = (value: Json): string =>
  JSON.stringify(value, (_, part: Json) =>
    isSchema(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
const overlap = (a: ReadonlySet<Type>, b: ReadonlySet<Type>): boolean =>
  [...a].some((type) => b.has(type) || (type === 'integer' && b.has('number')) || (type === 'number' && b.has('integer')));
const intersect = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => [...a].some((value) => b.has(value));

function disjoint(a: Shape, b: Shape): boolean {
  if (!overlap(a.types, b.types)) return true;
  if (a.values !== null && b.values !== null) return !intersect(a.values, b.values);
  return [...a.tags].some(([name, values]) => b.tags.has(name) && !intersect(values, b.tags.get(name)!));
}

/** Whether all list their values, and no value is listed twice: told in one pass, where there may be thousands. */
function areListed(shapes: readonly Shape[]): boolean {
  const all = new Set<string>();
  let count = 0;
  for (const { values } of shapes) {
    if (values === null) return false;
    count += values.size;
    for (const value of values) all.add(value);
  }
  return all.size === count;
}

/** x, between `least` and `most` times. */
const times = (x: string, least: number, most: number): string =>
  most === 0 ? '' : most === Infinity ? `${x}{${least},}` : `${x}{${least},${most}}`;
const sequence = (...parts: string[]): string => parts.filter((part) => part !== '').join(' ');

class Compiler {
  readonly #document: Json;
  readonly #bodies = new Map<string, string>();
  /** By the pointer of a schema: the rule of its values. */
  readonly #rules = new Map<string, string>();
  readonly #forms = new Map<string, Form>();

  constructor(document: Json) {
    this.#document = document;
  }

  compile(): string {
    const root = this.#rule('#', this.#document, 0);
    this.#refuseEndless();
    return `root ::= ${root}\n${[...this.#bodies].map(([name, body]) => `${name} ::= ${body}\n`).join('')}${SHARED}`;
  }

  #refuse(pointer: string, what: string): never {
    throw new IsoproError('GRAMMAR_INVALID', `the JSON Schema at ${pointer}: ${what}`);
  }

  #define(body: string): string {
    const name = `rule-${this.#bodies.size}`;
    this.#bodies.set(name, body === '' ? '""' : body);
    return name;
  }

  /** The name of the rule of a schema's values. */
  #rule(pointer: string, schema: Json, depth: number): string {
    const known = this.#rules.get(pointer);
    if (known !== undefined) return known;
    if (depth > DEEPEST) this.#refuse(pointer, `schemas are nested more than ${DEEPEST} deep`);
    if (schema === true) return 'any';
    if (!isSchema(schema)) this.#refuse(pointer, schema === false ? 'false allows no value' : 'this is not a schema');
    const name = this.#define('');
    this.#rules.set(pointer, name);
    const form = this.#form(pointer, schema, depth + 1);
    this.#bodies.set(name, form.gbnf);
    this.#forms.set(name, form);
    return name;
  }

  #form(pointer: string, schema: Schema, depth: number): Form {
    const asserted = Object.keys(schema).filter(
      (keyword) =>
        !ANNOTATIONS.has(keyword) && !keyword.startsWith('x-') && !(keyword === 'propertyNames' && saysNothing(schema[keyword]!)),
    );
    // a library writes the pattern of a format beside it: what was asked for is the format
    if (schema.pattern !== undefined && typeof schema.format === 'string' && !FORMATS.has(schema.format))
      this.#refuse(pointer, `a grammar cannot keep "format" ${JSON.stringify(schema.format)}`);
    for (const keyword of asserted) if (!KEPT.has(keyword)) this.#refuse(pointer, `a grammar cannot keep "${keyword}"`);
    if (schema.$id !== undefined && pointer !== '#') this.#refuse(pointer, 'a grammar cannot keep "$id" within a schema');
    const only = (keyword: string, ...others: string[]): void => {
      const beside = asserted.find((other) => other !== keyword && !others.includes(other));
      if (beside !== undefined) this.#refuse(pointer, `a grammar cannot keep "${beside}" beside "${keyword}"`);
    };
    for (const keyword of ['$ref', 'anyOf', 'oneOf'] as const) {
      if (schema[keyword] === undefined) continue;
      only(keyword);
      const rules =
        keyword === '$ref'
          ? [this.#rule(...this.#target(pointer, schema.$ref), depth)]
          : this.#alternatives(pointer, keyword, schema[keyword], depth);
      return { gbnf: rules.join(' | '), needs: rules.map((rule) => [rule]), same: rules };
    }
    for (const keyword of ['const', 'enum'] as const) {
      if (schema[keyword] === undefined) continue;
      only(keyword, 'type');
      return {
        gbnf: this.#values(pointer, schema)
          .map((value) => literal(JSON.stringify(value)))
          .join(' | '),
        needs: [[]],
      };
    }
    const types = this.#types(pointer, schema);
    const bound = BOUNDS.find((keyword) => schema[keyword] !== undefined);
    if (bound !== undefined && (schema.type === undefined || types === null || types.includes('number')))
      this.#refuse(pointer, `a grammar cannot keep "${bound}" of a "number", only of an "integer"`);
    if (types === null) return { gbnf: 'any', needs: [[]] };
    const forms = types.map((type) => this.#typed(pointer, type, schema, depth));
    return { gbnf: forms.map(({ gbnf }) => gbnf).join(' | '), needs: forms.flatMap(({ needs }) => needs) };
  }

  #typed(pointer: string, type: Type, schema: Schema, depth: number): Form {
    if (type === 'object') return this.#object(pointer, schema, depth);
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
    if (unknown !== undefined) this.#refuse(pointer, `there is no "type" ${JSON.stringify(unknown)}`);
    if (named.length === 0) this.#refuse(pointer, '"type" is empty');
    return [...new Set(named as Type[])];
  }

  #values(pointer: string, schema: Schema): readonly Json[] {
    const listed = schema.const === undefined ? schema.enum! : [schema.const];
    if (!isList(listed)) this.#refuse(pointer, '"enum" is not a list');
    const types = schema.type === undefined ? null : new Set(this.#types(pointer, schema)!);
    const values =
      types === null ? listed : listed.filter((value) => types.has(typeOf(value)) || (typeof value === 'number' && types.has('number')));
    if (values.length === 0)
      this.#refuse(
        pointer,
        listed.length === 0 ? '"enum" is empty' : `no value of "${schema.const === undefined ? 'enum' : 'const'}" is of the "type"`,
      );
    return values;
  }

  /** The schema that a reference names, and its place. */
  #target(pointer: string, reference: Json | undefined): [string, Json] {
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference))
      this.#refuse(pointer, `a grammar cannot keep "$ref" ${JSON.stringify(reference)}: it is not a pointer into this schema (#/…)`);
    let at: Json | undefined = this.#document;
    let path = '#';
    for (const part of reference.split('/').slice(1)) {
      let key: string;
      try {
        key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
      } catch {
        this.#refuse(pointer, `"$ref" ${JSON.stringify(reference)} is not well-formed`);
      }
      at = typeof at === 'object' && at !== null && Object.hasOwn(at, key) ? (at as Schema)[key] : undefined;
      if (at === undefined) this.#refuse(pointer, `"$ref" ${JSON.stringify(reference)} points to nothing`);
      if (isSchema(at) && typeof at.$id === 'string') this.#refuse(pointer, 'a grammar cannot keep "$id" within a schema');
      path = under(path, key);
    }
    return [path, at];
  }

  #alternatives(pointer: string, keyword: 'anyOf' | 'oneOf', schemas: Json | undefined, depth: number): string[] {
    if (!isList(schemas) || schemas.length === 0) this.#refuse(pointer, `"${keyword}" is not a list of schemas`);
    const rules = schemas.map((schema, i) => this.#rule(under(pointer, keyword, i), schema, depth));
    if (keyword === 'oneOf') {
      const shapes = schemas.map((schema, i) => this.#shape(under(pointer, keyword, i), schema, []));
      if (areListed(shapes)) return rules;
      if (shapes.length > MOST_COMPARED)
        this.#refuse(pointer, `a grammar cannot keep "oneOf" of more than ${MOST_COMPARED} alternatives that are not listed values`);
      shapes.forEach((shape, i) => {
        const same = shapes.slice(0, i).findIndex((other) => !disjoint(shape, other));
        if (same >= 0)
          this.#refuse(
            pointer,
            `a grammar cannot keep "oneOf": alternatives ${same} and ${i} may have a value in common; "anyOf" allows that`,
          );
      });
    }
    return rules;
  }

  #shape(pointer: string, schema: Json, trail: readonly string[]): Shape {
    const unknown: Shape = { types: new Set(TYPES), values: null, tags: new Map() };
    if (!isSchema(schema) || trail.includes(pointer)) return unknown;
    if (schema.$ref !== undefined) return this.#shape(...this.#target(pointer, schema.$ref), [...trail, pointer]);
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      if (!isList(schema[keyword])) continue;
      const shapes = schema[keyword].map((one, i) => this.#shape(under(pointer, keyword, i), one, [...trail, pointer]));
      const values = shapes.every((shape) => shape.values !== null) ? new Set(shapes.flatMap((shape) => [...shape.values!])) : null;
      return { types: new Set(shapes.flatMap((shape) => [...shape.types])), values, tags: new Map() };
    }
    if (schema.const !== undefined || schema.enum !== undefined) {
      const values = this.#values(pointer, schema);
      return { types: new Set(values.map(typeOf)), values: new Set(values.map(identity)), tags: new Map() };
    }
    const types = this.#types(pointer, schema);
    if (types === null) return unknown;
    // Without `type` the schema allows other types than those that are written.
    const allowed = schema.type === undefined ? unknown.types : new Set(types);
    const tags = new Map<string, ReadonlySet<string>>();
    const required = isList(schema.required) ? new Set<unknown>(schema.required) : null;
    for (const [name, property] of types.length === 1 && types[0] === 'object' ? entriesOf(schema.properties) : []) {
      const { values } = this.#shape(under(pointer, 'properties', name), property, [...trail, pointer]);
      if (values !== null && (required === null || required.has(name))) tags.set(name, values);
    }
    return { types: allowed, values: null, tags };
  }

  /** A count that a keyword gives. */
  #count(pointer: string, schema: Schema, keyword: string, absent: number): number {
    const value = schema[keyword];
    if (value === undefined) return absent;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
      this.#refuse(pointer, `"${keyword}" is not a whole number of 0 or more`);
    if (value > MOST_REPETITIONS) this.#refuse(pointer, `a grammar cannot keep "${keyword}" above ${MOST_REPETITIONS}`);
    return value;
  }

  #limits(pointer: string, schema: Schema, what: 'Length' | 'Items' | 'Properties'): [least: number, most: number] {
    const least = this.#count(pointer, schema, `min${what}`, 0);
    const most = this.#count(pointer, schema, `max${what}`, Infinity);
    if (most < least) this.#refuse(pointer, `"max${what}" is below "min${what}"`);
    return [least, most];
  }

  #string(pointer: string, schema: Schema): string {
    const [least, most] = this.#limits(pointer, schema, 'Length');
    if (schema.format === undefined && schema.pattern === undefined) return sequence('"\\""', times('character', least, most), '"\\""');
    const format = FORMATS.get(String(schema.format));
    if (schema.format !== undefined && format === undefined)
      this.#refuse(pointer, `a grammar cannot keep "format" ${JSON.stringify(schema.format)}`);
    const text = schema.pattern === undefined ? format : patterns().get(kindOfText(schema));
    if (text === undefined) this.#refuse(pointer, 'a grammar cannot keep "pattern"');
    if (schema.minLength !== undefined || schema.maxLength !== undefined)
      this.#refuse(pointer, 'a grammar cannot keep "minLength" and "maxLength" beside "format"');
    return `"\\"" ${text} "\\""`;
  }

  /** A bound that a keyword gives, as a whole number: the least, or the largest, that it allows. */
  #bound(pointer: string, schema: Schema, keyword: string, whole: (value: number) => number): number | null {
    const value = schema[keyword];
    if (value === undefined) return null;
    if (typeof value !== 'number') this.#refuse(pointer, `"${keyword}" is not a number`);
    if (Math.abs(value) > LARGEST_BOUND) this.#refuse(pointer, `a grammar cannot keep "${keyword}" beyond ${LARGEST_BOUND}`);
    return whole(value);
  }

  #integer(pointer: string, schema: Schema): string {
    const of = (keyword: string, whole: (value: number) => number): number | null => this.#bound(pointer, schema, keyword, whole);
    const least = [of('minimum', Math.ceil), of('exclusiveMinimum', (value) => Math.floor(value) + 1)].filter((value) => value !== null);
    const most = [of('maximum', Math.floor), of('exclusiveMaximum', (value) => Math.ceil(value) - 1)].filter((value) => value !== null);
    if (least.length === 0 && most.length === 0) return 'integer';
    const [low, high] = [Math.max(...least), Math.min(...most)];
    if (low > high) this.#refuse(pointer, 'no whole number lies between the bounds');
    return integersBetween(low, high);
  }

  #array(pointer: string, schema: Schema, depth: number): Form {
    const [least, limit] = this.#limits(pointer, schema, 'Items');
    if (schema.uniqueItems !== undefined && schema.uniqueItems !== false) this.#refuse(pointer, 'a grammar cannot keep "uniqueItems"');
    const { prefixItems = [], items = true } = schema;
    if (!isList(prefixItems)) this.#refuse(pointer, '"prefixItems" is not a list of schemas');
    const most = items === false ? Math.min(limit, prefixItems.length) : limit;
    if (most < least) this.#refuse(pointer, '"minItems" exceeds the items that are allowed');
    const first = prefixItems.slice(0, most).map((item, i) => this.#rule(under(pointer, 'prefixItems', i), item, depth));
    const rest = Math.max(0, least - first.length);
    const room = most - first.length;
    const other = room > 0 ? this.#rule(under(pointer, 'items'), items, depth) : '';
    const tail =
      first.length > 0 || room === 0
        ? times(`(comma ${other})`, rest, room)
        : sequence(other, times(`(comma ${other})`, Math.max(0, rest - 1), room - 1));
    const optional = first.length === 0 && room > 0 && rest === 0 ? `(${tail})?` : tail;
    return { gbnf: sequence('"[" ws', first.join(' comma '), optional, 'ws "]"'), needs: [[...first, ...(rest > 0 ? [other] : [])]] };
  }

  #object(pointer: string, schema: Schema, depth: number): Form {
    const { properties = {}, required, additionalProperties } = schema;
    if (!isSchema(properties)) this.#refuse(pointer, '"properties" is not an object of schemas');
    if (required !== undefined && !(isList(required) && required.every((name) => typeof name === 'string')))
      this.#refuse(pointer, '"required" is not a list of names');
    const names = required === undefined ? undefined : new Set(required as readonly string[]);
    const [least, most] = this.#limits(pointer, schema, 'Properties');
    const forbidden = new Set(Object.keys(properties).filter((name) => properties[name] === false));
    const impossible = [...(names ?? [])].find(
      (name) => forbidden.has(name) || (additionalProperties === false && !Object.hasOwn(properties, name)),
    );
    if (impossible !== undefined) this.#refuse(pointer, `"required" names ${JSON.stringify(impossible)}, which is not allowed`);

    const others =
      additionalProperties === undefined || additionalProperties === false
        ? ''
        : this.#rule(under(pointer, 'additionalProperties'), additionalProperties, depth);
    const fields = Object.keys(properties)
      .filter((name) => !forbidden.has(name))
      .map((name) => ({
        name,
        rule: this.#rule(under(pointer, 'properties', name), properties[name]!, depth),
        always: names === undefined || names.has(name),
      }));
    for (const name of names ?? [])
      if (!Object.hasOwn(properties, name)) fields.push({ name, rule: others === '' ? 'any' : others, always: true });
    const always = fields.filter((field) => field.always);
    if (least > always.length)
      this.#refuse(pointer, 'a grammar cannot keep "minProperties" above the number of properties that are always there');
    if (most < fields.length) this.#refuse(pointer, 'a grammar cannot keep "maxProperties" below the number of declared properties');

    const long = others === '' ? undefined : fields.find(({ name }) => name.length > LONGEST_NAME);
    if (long !== undefined)
      this.#refuse(pointer, `a grammar cannot keep "additionalProperties" beside a name of more than ${LONGEST_NAME} characters`);

    // From the last one to the first: what may follow where nothing has been written yet, and where something has.
    const room = most - fields.length;
    const other =
      others === '' || room === 0 ? '' : `${this.#otherName([...fields.map(({ name }) => name), ...forbidden])} colon ${others}`;
    let atStart = other === '' ? '' : `(${sequence(other, times(`(comma ${other})`, 0, room - 1))})?`;
    let after = other === '' ? '' : times(`(comma ${other})`, 0, room);
    for (const { name, rule, always: written } of [...fields].reverse()) {
      const pair = `${literal(JSON.stringify(name))} colon ${rule}`;
      const then = this.#define(after);
      atStart = written ? `${pair} ${then}` : `(${pair} ${then} | ${this.#define(atStart)})`;
      after = `${written ? `comma ${pair}` : `(comma ${pair})?`} ${then}`;
    }
    return { gbnf: sequence('"{" ws', atStart, 'ws "}"'), needs: [always.map(({ rule }) => rule)] };
  }

  /** A quoted name that is none of these. It has no escapes, with which a name could be spelt in many ways. */
  #otherName(names: readonly string[]): string {
    /** @param spelt the names that begin in this way, of so many UTF-16 units */
    const beyond = (spelt: readonly string[], length: number): string => {
      const next = new Map<string, string[]>();
      for (const name of spelt) {
        if (name.length === length) continue;
        const c = String.fromCodePoint(name.codePointAt(length)!);
        const same = next.get(c);
        if (same === undefined) next.set(c, [name]);
        else same.push(name);
      }
      const different = `[^"\\\\\\x00-\\x1F\\x7F${[...next.keys()].map(codePoint).join('')}] plain*`;
      const alternatives = [
        ...(spelt.some((name) => name.length === length) ? [] : ['""']),
        different,
        ...[...next].map(([c, same]) => `[${codePoint(c)}] ${beyond(same, length + c.length)}`),
      ];
      return this.#define(alternatives.join(' | '));
    };
    const spelt = names.filter((name) => !/["\\\0-\x1f\x7f\p{Surrogate}]/u.test(name));
    return `"\\"" ${beyond(spelt, 0)} "\\""`;
  }

  #refuseEndless(): void {
    this.#refuseRest(({ same = [] }, done) => same.every((rule) => done.has(rule)), 'the recursion leads back to the same value');
    // A schema that needs itself has no finite document.
    this.#refuseRest(
      ({ needs }, done) => needs.some((all) => all.every((rule) => done.has(rule))),
      'the recursion has no end: no finite value follows the schema (name what must be there by "required", or allow null)',
    );
  }

  /** Refuses the first rule that is never done, where being so depends on other rules that are. */
  #refuseRest(isDone: (form: Form, done: ReadonlySet<string>) => boolean, what: string): void {
    const done = new Set<string>(['any']);
    for (let before = -1; before < done.size; ) {
      before = done.size;
      for (const [rule, form] of this.#forms) if (isDone(form, done)) done.add(rule);
    }
    for (const [pointer, rule] of this.#rules) if (!done.has(rule)) this.#refuse(pointer, what);
  }
}
