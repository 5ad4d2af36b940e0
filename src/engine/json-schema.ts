/**
 * JSON Schema (draft 2020-12, and what draft 7 says in other words) as a GBNF grammar of which
 * every text is a document of the schema. What a grammar cannot keep is refused by name, or left
 * out where a caller asks for what can be kept. Some documents of a schema are never written: an
 * object has its declared properties in their order, all of them where `required` is absent, and
 * others only where `additionalProperties` asks for them; an array has all of its `prefixItems`;
 * numbers have at most 16 digits before and after the point.
 */
import type { Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { GrammarRules } from './grammar-rules.js';
import { integersBetween } from './integer-grammar.js';
import { literal, otherName, sequence, SHARED, times } from './json-gbnf.js';
import { boundsOfFormat, gbnfOfFormat, gbnfOfPattern } from './json-formats.js';
import { KEYWORDS_OF_TYPE, SchemaDocument } from './json-document.js';
import {
  allowsNone,
  assertions,
  COMBINING,
  identity,
  isList,
  isSchema,
  under,
  withoutAnnotations,
  without,
  type Schema,
} from './json-keywords.js';
import { cannotKeep, refuse, Refusal } from './json-refusal.js';
import type { Shape, Type } from './json-shape.js';

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

const DEEPEST = 100;
const LONGEST_NAME = 500;
/** Characters of the schemas that are put together from others. */
const MOST_JOINED = 2 ** 22;
/**
 * What a rule may be: a GBNF expression, and for each of its alternatives the rules without which
 * it is not complete.
 */
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
      throw new IsoproError(
        'GRAMMAR_INVALID',
        `the JSON Schema is not JSON: ${(cause as Error).message}`,
        { cause },
      );
    }
    return new Compiler(withoutAnnotations(document), this.#rules, keeping).compile();
  }

  toString(): string {
    return `${this.#rules}${SHARED}`;
  }
}

/**
 * @throws IsoproError GRAMMAR_INVALID that names the keyword and its place, where some text of a
 *   grammar would not follow the schema
 */
export function grammarOfJsonSchema(schema: object): string {
  const grammar = new SchemaGrammar();
  const root = grammar.add(schema);
  return `root ::= ${root}\n${grammar}`;
}

class Compiler {
  readonly #document: Json;
  readonly #said: SchemaDocument;
  readonly #grammar: GrammarRules;
  readonly #keeping: Keeping;
  /** By the place of a schema and what is asked beside it: the rule of its values. */
  readonly #rules = new Map<
    string,
    { readonly pointer: string; readonly rule: string; readonly narrowing: Narrowing }
  >();
  readonly #forms = new Map<string, Form>();
  /** Rules that others refer to, though they are not written yet. */
  readonly #referred = new Set<string>();
  #joinedLength = 0;

  constructor(document: Json, grammar: GrammarRules, keeping: Keeping) {
    this.#document = document;
    this.#said = new SchemaDocument(document, keeping.partly === true);
    this.#grammar = grammar;
    this.#keeping = keeping;
  }

  compile(): string {
    const { objects = false } = this.#keeping;
    const root = this.#rule(
      '#',
      objects && this.#document === true ? {} : this.#document,
      0,
      objects ? { objects } : {},
    );
    this.#refuseEndless();
    return root;
  }

  #fitting(pointer: string, schema: Schema, body: string): string {
    if (!this.#grammar.fits(body)) {
      const counts = COUNTS.filter((keyword) => schema[keyword] !== undefined);
      refuse(
        pointer,
        counts,
        'the grammar becomes too large, because repetitions are written out; limit the length of fewer strings and ' +
          'lists, or use smaller limits',
      );
    }
    return body;
  }
  #define(pointer: string, schema: Schema, body: string): string {
    return this.#grammar.define(this.#fitting(pointer, schema, body));
  }

  /**
   * The name of the rule of a schema's values.
   * @param place what tells the schema apart from others: its pointer, or for one that was put
   *   together what it says
   */
  #rule(
    pointer: string,
    schema: Json,
    depth: number,
    narrowing: Narrowing = {},
    place = pointer,
  ): string {
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
        ? `schemas are nested more than ${DEEPEST} levels deep`
        : schema === false
          ? 'a schema that is false allows no value'
          : isSchema(schema)
            ? null
            : 'not a schema';
    if (broken !== null && partly && depth > 0) return 'any';
    if (broken !== null || !isSchema(schema)) refuse(pointer, [], broken!);
    const rule = this.#grammar.reserve();
    this.#rules.set(key, { pointer, rule, narrowing });
    const form = this.#kept(pointer, schema, depth + 1, narrowing);
    // One of objects alone stays so, whatever becomes of the other.
    const twin =
      this.#referred.has(rule) || narrowing.objects === true
        ? undefined
        : this.#grammar.twin(form.gbnf);
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
        if (
          this.#keeping.partly !== true ||
          !(error instanceof Refusal) ||
          error.pointer !== pointer
        )
          throw error;
        const fewer = without(said, error.keywords);
        if (Object.keys(fewer).length === Object.keys(said).length) throw error;
        said = fewer;
      }
    }
  }

  #form(pointer: string, given: Schema, depth: number, narrowing: Narrowing): Form {
    const schema = assertions(given);
    // a library writes the pattern of a format beside it: what was asked for is the format
    if (
      schema.pattern !== undefined &&
      typeof schema.format === 'string' &&
      gbnfOfFormat(schema.format) === undefined
    )
      cannotKeep(pointer, ['format', 'pattern'], `"format" ${JSON.stringify(schema.format)}`);
    for (const keyword of Object.keys(schema)) if (!KEPT.has(keyword)) cannotKeep(pointer, keyword);
    if (given.$id !== undefined && pointer !== '#')
      cannotKeep(pointer, '$id', '"$id" within a schema');
    if (COMBINING.some((keyword) => schema[keyword] !== undefined))
      return this.#combined(pointer, schema, depth, narrowing);
    for (const keyword of ['const', 'enum'] as const) {
      if (schema[keyword] === undefined) continue;
      const beside = Object.keys(schema).find(
        (other) => !['const', 'enum', 'type', 'nullable'].includes(other),
      );
      if (beside !== undefined)
        cannotKeep(pointer, beside, `"${beside}" together with "${keyword}"`);
      const values = this.#said
        .values(pointer, schema)
        .filter((value) => narrowing.objects !== true || isSchema(value));
      if (values.length === 0) refuse(pointer, [], `no value of "${keyword}" is an object`);
      return {
        gbnf: values.map((value) => literal(JSON.stringify(value))).join(' | '),
        needs: [[]],
      };
    }
    const types = this.#said.types(pointer, schema);
    const bound = [...BOUNDS, 'multipleOf'].find((keyword) => schema[keyword] !== undefined);
    if (
      bound !== undefined &&
      (bound === 'multipleOf' ||
        schema.type === undefined ||
        types === null ||
        types.includes('number'))
    )
      cannotKeep(
        pointer,
        bound,
        `"${bound}"${bound === 'multipleOf' ? '' : ' on the type "number", only on "integer"'}`,
      );
    if (narrowing.objects === true) {
      if (types !== null && !types.includes('object'))
        refuse(pointer, [], 'it does not describe an object');
      return this.#object(pointer, schema, depth, narrowing);
    }
    if (types === null) return ANY;
    const forms = types.map((type) => this.#typed(pointer, type, schema, depth, narrowing));
    return {
      gbnf: forms.map(({ gbnf }) => gbnf).join(' | '),
      needs: forms.flatMap(({ needs }) => needs),
    };
  }

  #typed(pointer: string, type: Type, schema: Schema, depth: number, narrowing: Narrowing): Form {
    if (type === 'object') return this.#object(pointer, schema, depth, narrowing);
    if (type === 'array') return this.#array(pointer, schema, depth);
    if (type === 'string') return { gbnf: this.#string(pointer, schema), needs: [[]] };
    if (type === 'integer') return { gbnf: this.#integer(pointer, schema), needs: [[]] };
    return { gbnf: type === 'null' ? '"null"' : type, needs: [[]] };
  }

  /** A schema of other schemas for the same value. */
  #combined(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): Form {
    const rules = this.#alone(pointer, schema, depth, narrowing) ?? [
      this.#joined(pointer, schema, depth, narrowing),
    ];
    return { gbnf: rules.join(' | '), needs: rules.map((rule) => [rule]), same: rules };
  }

  /** Where one keyword says all: the rules of what it refers to. */
  #alone(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): string[] | null {
    const [keyword, ...more] = COMBINING.filter((one) => schema[one] !== undefined);
    const rest = without(schema, COMBINING);
    if (keyword === undefined || more.length > 0) return null;
    const besides = Object.keys(rest).filter(
      (other) => other !== 'type' || !this.#said.isOfTypes(pointer, schema, keyword),
    );
    if (besides.length > 0) return null;
    if (keyword === '$ref')
      return [this.#rule(...this.#said.target(pointer, schema.$ref), depth, narrowing)];
    if (keyword !== 'allOf')
      return this.#alternatives(pointer, keyword, schema[keyword], depth, narrowing);
    const { allOf } = schema;
    if (!isList(allOf) || allOf.length !== 1) return null;
    return [this.#rule(under(pointer, 'allOf', 0), allOf[0]!, depth, narrowing)];
  }

  /** The rule of all keywords of a schema together. */
  #joined(pointer: string, schema: Schema, depth: number, narrowing: Narrowing): string {
    const joined = this.#said.conjunction(pointer, schema);
    const said = identity(joined);
    const by = (one: Schema): string =>
      this.#rule(under(pointer, 'allOf'), one, depth, narrowing, `=${said}`);
    const [keyword, ...more] = (['anyOf', 'oneOf'] as const).filter(
      (one) => joined[one] !== undefined,
    );
    const rest = without(joined, keyword === undefined ? [] : [keyword]);
    const alternatives = keyword === undefined ? undefined : joined[keyword];
    if (more.length > 0) cannotKeep(pointer, 'oneOf', '"oneOf" together with "anyOf"');
    const copies = isList(alternatives) && Object.keys(rest).length > 0 ? alternatives : [];
    this.#joinedLength += said.length + copies.length * identity(rest).length;
    if (this.#joinedLength > MOST_JOINED)
      refuse(
        pointer,
        [...COMBINING],
        'too many schemas are combined here; write out the combined schema, or refer to it with "$ref"',
      );
    return by(
      keyword === undefined || copies.length === 0
        ? joined
        : { [keyword]: copies.map((one) => ({ allOf: [rest, one] })) },
    );
  }

  #alternatives(
    pointer: string,
    keyword: 'anyOf' | 'oneOf',
    schemas: Json | undefined,
    depth: number,
    narrowing: Narrowing,
  ): string[] {
    if (!isList(schemas) || schemas.length === 0)
      return refuse(pointer, [keyword], `"${keyword}" is not a list of schemas`);
    const places = schemas.map((schema, i) => [under(pointer, keyword, i), schema] as const);
    const possible = places.filter(([, schema]) => !allowsNone(schema));
    const shapeOf = ([place, schema]: readonly [string, Json]): Shape =>
      this.#said.shape(place, schema, []);
    const wanted = (possible.length === 0 ? places : possible).filter(
      (one) => narrowing.objects !== true || shapeOf(one).types.has('object'),
    );
    if (wanted.length === 0) refuse(pointer, [], `"${keyword}" does not describe an object`);
    const tag = keyword === 'oneOf' ? this.#said.tag(pointer, wanted.map(shapeOf)) : undefined;
    const asked = tag === undefined ? narrowing : { ...narrowing, tag };
    return [...new Set(wanted.map(([place, schema]) => this.#rule(place, schema, depth, asked)))];
  }

  #string(pointer: string, schema: Schema): string {
    const [least, most] = this.#said.limits(pointer, schema, 'Length');
    if (schema.format === undefined && schema.pattern === undefined) {
      const text = times('character', least, most);
      return sequence(
        '"\\""',
        least > 0 || most < Infinity ? this.#define(pointer, schema, text) : 'character*',
        '"\\""',
      );
    }
    const format = gbnfOfFormat(String(schema.format));
    if (schema.format !== undefined && format === undefined)
      cannotKeep(pointer, 'format', `"format" ${JSON.stringify(schema.format)}`);
    const text = schema.pattern === undefined ? format : gbnfOfPattern(schema);
    if (text === undefined) return cannotKeep(pointer, 'pattern');
    if (schema.minLength !== undefined || schema.maxLength !== undefined)
      cannotKeep(
        pointer,
        ['minLength', 'maxLength'],
        '"minLength" and "maxLength" together with "format"',
      );
    return `"\\"" ${this.#define(pointer, schema, text)} "\\""`;
  }

  #integer(pointer: string, schema: Schema): string {
    const of = (keyword: string, whole: (value: number) => number): number | null =>
      this.#said.bound(pointer, schema, keyword, whole);
    const [lowest, highest] = boundsOfFormat(schema.format);
    const least = [
      of('minimum', Math.ceil),
      of('exclusiveMinimum', (value) => Math.floor(value) + 1),
      lowest,
    ];
    const most = [
      of('maximum', Math.floor),
      of('exclusiveMaximum', (value) => Math.ceil(value) - 1),
      highest,
    ];
    const [low, high] = [
      Math.max(...least.filter((value) => value !== null)),
      Math.min(...most.filter((value) => value !== null)),
    ];
    if (low === -Infinity && high === Infinity) return 'integer';
    if (low > high)
      refuse(pointer, [...BOUNDS, 'format'], 'there is no integer between the bounds');
    return integersBetween(low, high);
  }

  #array(pointer: string, schema: Schema, depth: number): Form {
    const [least, limit] = this.#said.limits(pointer, schema, 'Items');
    if (schema.uniqueItems !== undefined) cannotKeep(pointer, 'uniqueItems');
    // Draft 7 says by a list of items what later drafts say by prefixItems.
    const inDraft7 = isList(schema.items);
    const [listed, further] = inDraft7
      ? (['items', 'additionalItems'] as const)
      : (['prefixItems', 'items'] as const);
    const { [listed]: tuple = [], [further]: items = true } = schema;
    if (!isList(tuple))
      return refuse(pointer, ['prefixItems'], '"prefixItems" is not a list of schemas');
    if (inDraft7 && schema.prefixItems !== undefined)
      cannotKeep(pointer, 'prefixItems', '"prefixItems" together with a list of "items"');
    const most = allowsNone(items) ? Math.min(limit, tuple.length) : limit;
    if (most < least)
      refuse(
        pointer,
        ['minItems', 'maxItems'],
        '"minItems" exceeds the number of items that are allowed',
      );
    const first = tuple
      .slice(0, most)
      .map((item, i) => this.#rule(under(pointer, listed, i), item, depth));
    const rest = Math.max(0, least - first.length);
    const room = most - first.length;
    const other = room > 0 ? this.#rule(under(pointer, further), items, depth) : '';
    const tail =
      first.length > 0 || room === 0
        ? times(`(comma ${other})`, rest, room)
        : sequence(other, times(`(comma ${other})`, Math.max(0, rest - 1), room - 1));
    const optional = first.length === 0 && room > 0 && rest === 0 ? `(${tail})?` : tail;
    return {
      gbnf: sequence('"[" ws', first.join(' comma '), optional, 'ws "]"'),
      needs: [[...first, ...(rest > 0 ? [other] : [])]],
    };
  }

  #object(pointer: string, schema: Schema, depth: number, { tag }: Narrowing): Form {
    const { properties = {}, required, additionalProperties } = schema;
    if (!isSchema(properties))
      return refuse(pointer, ['properties'], '"properties" is not an object of schemas');
    if (
      required !== undefined &&
      !(isList(required) && required.every((name) => typeof name === 'string'))
    )
      refuse(pointer, ['required'], '"required" is not a list of names');
    const names = required === undefined ? undefined : new Set(required as readonly string[]);
    const [least, most] = this.#said.limits(pointer, schema, 'Properties');
    const listed = this.#said.listedNames(pointer, schema);
    const further = this.#said.furtherProperties(pointer, schema);
    const isForbidden = (name: string): boolean =>
      (listed !== null && !listed.has(name)) ||
      (Object.hasOwn(properties, name)
        ? allowsNone(properties[name])
        : additionalProperties !== undefined &&
          allowsNone(additionalProperties) &&
          further === undefined);
    const forbidden = new Set(Object.keys(properties).filter(isForbidden));
    for (const name of [...(names ?? [])].filter(isForbidden)) {
      if (this.#keeping.partly !== true)
        refuse(
          pointer,
          ['required'],
          `"required" names ${JSON.stringify(name)}, which is not allowed`,
        );
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
      if (!Object.hasOwn(properties, name))
        fields.push({ name, rule: others, always: names?.has(name) ?? false });
    for (const name of names ?? [])
      if (!fields.some((field) => field.name === name))
        fields.push({ name, rule: others === '' ? 'any' : others, always: true });
    const always = fields.filter((field) => field.always);
    if (least > always.length)
      cannotKeep(
        pointer,
        'minProperties',
        '"minProperties" above the number of properties that are always present',
      );
    if (most < fields.length)
      cannotKeep(
        pointer,
        'maxProperties',
        '"maxProperties" below the number of declared properties',
      );

    const isOpen = others !== '' && listed === null;
    const long = isOpen ? fields.find(({ name }) => name.length > LONGEST_NAME) : undefined;
    if (long !== undefined)
      cannotKeep(
        pointer,
        ['additionalProperties', 'patternProperties'],
        `"additionalProperties" together with a property name of more than ${LONGEST_NAME} characters`,
      );

    // From the last one to the first: what may follow where nothing has been written yet, and where
    // something has.
    const define = (body: string): string => this.#define(pointer, schema, body);
    const room = most - fields.length;
    const other =
      !isOpen || room === 0
        ? ''
        : `${otherName(define, [...fields.map(({ name }) => name), ...forbidden])} colon ${others}`;
    let atStart =
      other === '' ? '' : `(${sequence(other, times(`(comma ${other})`, 0, room - 1))})?`;
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
    this.#refuseRest(
      ({ same = [] }, isDone) => same.every(isDone),
      'the schema refers to itself with no property or item in between',
    );
    // A schema that needs itself has no finite document.
    this.#refuseRest(
      ({ needs }, isDone) => needs.some((all) => all.every(isDone)),
      'the recursion never ends: no finite value matches the schema (list the required properties in "required", or allow null)',
    );
  }

  /** Refuses the first rule that is never done, where being so depends on other rules that are. */
  #refuseRest(
    isReady: (form: Form, isDone: (rule: string) => boolean) => boolean,
    what: string,
  ): void {
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
    if (this.#keeping.partly !== true) refuse(first.pointer, [], what);
    const { rule, narrowing } = endless.at(-1)!;
    this.#grammar.write(rule, narrowing.objects === true ? ANY_OBJECT : ANY.gbnf);
    this.#forms.set(rule, ANY);
    this.#refuseRest(isReady, what);
  }
}
