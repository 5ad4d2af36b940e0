/**
 * JSON Schemas as libraries write them: what their grammars allow, by a reader of grammars of the
 * tests' own and by ajv.
 */
import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { grammarOfJsonSchema, SchemaGrammar } from '../../src/engine/json-schema.js';
import { lengthOfRules } from '../../src/engine/json-keywords.js';
import { Random } from '../../src/random.js';
import { allowedBy } from '../models/gbnf.js';

const SCHEMAS = process.env.ISOPRO_FULL === '1' ? 2000 : 250;
const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });

type Value = null | boolean | number | string | Value[] | { [name: string]: Value };
interface Sampled {
  readonly schema: object;
  /** Some of what the schema allows and a grammar writes. */
  readonly sample: () => Value;
}

/** A schema of what libraries write, with what it allows. */
function sampled(random: Random): Sampled {
  const below = (limit: number): number => random.nextInteger(0, limit - 1);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)]!;
  const definitions: Record<string, object> = {};
  const noted = (schema: object): object => ({
    ...schema,
    ...pick<object>([
      {},
      { title: 'T', description: 'what it is' },
      { examples: [1], default: null, deprecated: true, readOnly: false, $comment: 'c' },
      { 'x-order': 3, example: {}, externalDocs: { url: 'u' } },
      { contentMediaType: 'text/plain', enumNames: ['A'], markdownDescription: '*x*' },
    ]),
  });
  const leaf = (): Sampled =>
    pick<() => Sampled>([
      () => ({ schema: { type: 'boolean' }, sample: () => pick([true, false]) }),
      () => ({
        schema: { type: 'integer', multipleOf: pick([1, 0.5]), format: 'int64' },
        sample: () => below(1000) - 500,
      }),
      () => ({ schema: { type: 'integer', format: 'uint8' }, sample: () => pick([0, 7, 255]) }),
      () => ({
        schema: { type: 'number', multipleOf: 1, minimum: -3, maximum: 40 },
        sample: () => below(44) - 3,
      }),
      () => ({
        schema: { type: 'integer', minimum: 2, exclusiveMinimum: false, maximum: 11 },
        sample: () => 2 + below(10),
      }),
      () => ({
        schema: { type: 'number', minimum: -1e300, format: 'double' },
        sample: () => pick([0.25, -3, 1e15]),
      }),
      () => ({
        schema: { type: 'string', minLength: 0, maxLength: 5, format: 'password' },
        sample: () => pick(['', 'ab', 'äöü😀"']),
      }),
      () => ({
        schema: { type: 'string', pattern: '.*', format: 'int64' },
        sample: () => pick(['12', '']),
      }),
      () => ({ schema: { const: 'k', enum: ['k'], type: 'string' }, sample: () => 'k' }),
      () => ({
        schema: { type: ['string', 'null'], maxLength: 3 },
        sample: () => pick([null, 'abc']),
      }),
    ])();
  const combined = (one: Sampled): Sampled => {
    const name = `d ${Object.keys(definitions).length}/~%`;
    const at = `#/$defs/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
    return pick<() => Sampled>([
      () => one,
      () => ({ ...one, schema: { allOf: [one.schema], description: 'x' } }),
      () => ({ ...one, schema: { allOf: [{}, one.schema, { title: 'nothing' }] } }),
      () => {
        definitions[name] = one.schema;
        return { ...one, schema: { $ref: at, default: 1 } };
      },
      () => {
        definitions[name] = one.schema;
        return { ...one, schema: { allOf: [{ $ref: at }, one.schema] } };
      },
      () => ({ ...one, schema: { anyOf: [{ not: {} }, one.schema] } }),
    ])();
  };
  const object = (depth: number): Sampled => {
    const names = ['a', '$ref', 'title', 'minimum', 'é'].filter(() => below(2) === 0);
    const members = names.map((name) => [name, made(depth - 1)] as const);
    const properties = Object.fromEntries(members.map(([name, { schema }]) => [name, schema]));
    const required = names.filter(() => below(2) === 0);
    const sample = (): Value =>
      Object.fromEntries(
        members
          .filter(([name]) => required.includes(name) || below(2) === 0)
          .map(([name, one]) => [name, one.sample()]),
      );
    const [first, ...rest] = names;
    const split: object =
      first === undefined
        ? { type: 'object', required }
        : {
            allOf: [
              {
                type: 'object',
                properties: { [first]: properties[first]! },
                required: required.filter((name) => name === first),
              },
              {
                properties: Object.fromEntries(rest.map((name) => [name, properties[name]!])),
                required: required.filter((name) => name !== first),
              },
            ],
          };
    return pick<Sampled>([
      { schema: { type: 'object', properties, required, unevaluatedProperties: false }, sample },
      {
        schema: {
          type: 'object',
          properties: { ...properties, never: { not: {} } },
          required,
          minProperties: 0,
        },
        sample,
      },
      { schema: split, sample },
    ]);
  };
  const made = (depth: number): Sampled => {
    const one =
      depth === 0 || below(4) === 0 ? leaf() : pick([array, object, record, tagged])(depth);
    const { schema, sample } = combined(one);
    return { schema: noted(schema), sample };
  };
  const array = (depth: number): Sampled => {
    const [first, second] = [made(depth - 1), leaf()];
    return pick<Sampled>([
      {
        schema: {
          type: 'array',
          items: first.schema,
          minItems: 0,
          maxItems: 3,
          uniqueItems: false,
        },
        sample: () => Array.from({ length: below(4) }, () => first.sample()),
      },
      {
        schema: {
          type: 'array',
          prefixItems: [first.schema, second.schema],
          unevaluatedItems: false,
        },
        sample: () => [first.sample(), second.sample()],
      },
      {
        schema: { type: 'array', items: first.schema, uniqueItems: true, maxItems: 1 },
        sample: () => [first.sample()],
      },
    ]);
  };
  const record = (depth: number): Sampled => {
    const one = made(depth - 1);
    const sample = (): Value =>
      Object.fromEntries(
        ['p', 'q'].filter(() => below(2) === 0).map((name) => [name, one.sample()]),
      );
    return pick<Sampled>([
      {
        schema: {
          type: 'object',
          propertyNames: { enum: ['p', 'q'] },
          additionalProperties: one.schema,
        },
        sample,
      },
      {
        schema: {
          type: 'object',
          patternProperties: { '^.*$': one.schema },
          additionalProperties: false,
        },
        sample,
      },
      {
        schema: {
          type: 'object',
          propertyNames: { type: 'string', title: 'n' },
          additionalProperties: one.schema,
        },
        sample,
      },
    ]);
  };
  const tagged = (depth: number): Sampled => {
    const [a, b] = [made(depth - 1), made(depth - 1)];
    const of = (kind: string, { schema }: Sampled): object => ({
      type: 'object',
      properties: { kind: { const: kind, default: kind }, v: schema },
      required: ['v'],
      additionalProperties: false,
    });
    return {
      schema: {
        oneOf: [of('a', a), of('b', b)],
        discriminator: { propertyName: 'kind' },
        type: 'object',
      },
      sample: () =>
        pick([() => ({ kind: 'a', v: a.sample() }), () => ({ kind: 'b', v: b.sample() })])(),
    };
  };
  const { schema, sample } = made(3);
  return { schema: { ...schema, $defs: definitions }, sample };
}

/** The same with one part changed. */
function changed(value: Value, random: Random): Value {
  const below = (limit: number): number => random.nextInteger(0, limit - 1);
  const other = (): Value =>
    [null, true, -1, 256, 0.5, 'x', 'abcdef', [], {}, { kind: 'b' }][below(10)]!;
  if (typeof value !== 'object' || value === null || below(4) === 0) return other();
  if (Array.isArray(value)) {
    if (value.length === 0 || below(3) === 0) return [...value, other()];
    const at = below(value.length);
    return value.map((item, i) => (i === at ? changed(item, random) : item));
  }
  const names = Object.keys(value);
  if (names.length === 0 || below(4) === 0)
    return { ...value, [['a', 'p', 'z', 'kind'][below(4)]!]: other() };
  const name = names[below(names.length)]!;
  const { [name]: one, ...rest } = value;
  return below(3) === 0 ? rest : { ...rest, [name]: changed(one!, random) };
}

test(`${SCHEMAS} schemas of libraries: their samples are allowed, and what is allowed follows them`, () => {
  const random = new Random(35n);
  let [samples, refused] = [0, 0];
  for (let i = 0; i < SCHEMAS; i++) {
    const { schema, sample } = sampled(random);
    const valid = ajv.compile(JSON.parse(JSON.stringify(inDraft2020(schema))) as object);
    const isAllowed = allowedBy(grammarOfJsonSchema(schema));
    for (let n = 0; n < 6; n++) {
      const value = sample();
      const text = JSON.stringify(value);
      expect([text, valid(JSON.parse(text)), JSON.stringify(schema)]).toEqual([
        text,
        true,
        JSON.stringify(schema),
      ]);
      expect([text, isAllowed(text), JSON.stringify(schema)]).toEqual([
        text,
        true,
        JSON.stringify(schema),
      ]);
      samples++;
      const wrong = JSON.stringify(changed(value, random));
      if (valid(JSON.parse(wrong))) continue;
      refused++;
      expect([wrong, isAllowed(wrong), JSON.stringify(schema)]).toEqual([
        wrong,
        false,
        JSON.stringify(schema),
      ]);
    }
  }
  expect([samples, refused > samples / 3]).toEqual([SCHEMAS * 6, true]);
}, 600_000);

/** Draft 4's exclusive bounds, which ajv's draft does not know. */
const inDraft2020 = (schema: unknown): unknown =>
  JSON.parse(
    JSON.stringify(schema, (keyword, value: unknown) =>
      keyword === 'exclusiveMinimum' && typeof value === 'boolean' ? undefined : value,
    ),
  );

describe('as libraries write them', () => {
  const allows = (schema: object): ((value: unknown) => boolean) => {
    const isAllowed = allowedBy(grammarOfJsonSchema(schema));
    return (value) => isAllowed(JSON.stringify(value));
  };

  test('tuples of draft 7', () => {
    const tuple = allows({
      type: 'array',
      items: [{ type: 'boolean' }, { enum: ['a', 'b'] }],
      additionalItems: { type: 'integer' },
      minItems: 2,
    });
    expect([[true, 'a'], [true, 'b', 1, 2], [true], [1, 'a'], [true, 'a', 'x']].map(tuple)).toEqual(
      [true, true, false, false, false],
    );
    expect(allows({ items: [{ const: 1 }], additionalItems: false })([1, 2])).toBe(false);
  });

  test('records of listed names: all where each is required, else some', () => {
    const all = allows({
      type: 'object',
      propertyNames: { type: 'string', enum: ['a', 'b'] },
      additionalProperties: { type: 'null' },
      required: ['a', 'b'],
    });
    expect([{ a: null, b: null }, { a: null }, { a: null, b: null, c: null }].map(all)).toEqual([
      true,
      false,
      false,
    ]);
    const some = allows({
      type: 'object',
      propertyNames: { anyOf: [{ const: 'a' }, { const: 'b' }] },
      additionalProperties: { type: 'null' },
    });
    expect([{}, { b: null }, { c: null }, { a: 1 }].map(some)).toEqual([true, true, false, false]);
  });

  test('tags that may be left out are written, so that one alternative holds', () => {
    const of = (kind: string): object => ({
      type: 'object',
      properties: { kind: { const: kind, default: kind, type: 'string' } },
    });
    const $defs = { A: of('a'), B: { ...of('b'), required: [] }, C: { ...of('c'), required: [] } };
    const one = allows({
      $defs,
      oneOf: Object.keys($defs).map((name) => ({ $ref: `#/$defs/${name}` })),
    });
    expect([{ kind: 'a' }, { kind: 'b' }, { kind: 'c' }, {}].map(one)).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });

  test('what is nullable in OpenAPI 3.0', () => {
    const nullable = allows({ type: 'string', nullable: true, maxLength: 2 });
    expect([null, 'ab', 'abc', 1].map(nullable)).toEqual([true, true, false, false]);
  });

  test('what stands beside alternatives holds for each', () => {
    const either = allows({
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer' } },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    });
    expect([{ a: 1 }, { b: 1 }, { a: 1, b: 2 }, {}, { a: 'x' }].map(either)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    const closed = allows({
      allOf: [
        { type: 'object', properties: { a: true }, additionalProperties: false },
        { properties: { b: true } },
      ],
    });
    expect([{ a: 1 }, { a: 1, b: 1 }].map(closed)).toEqual([true, false]);
  });

  test('recursion through what is put together ends', () => {
    const node = {
      allOf: [{ $ref: '#/$defs/base' }],
      properties: { next: { $ref: '#/$defs/node' } },
    };
    const list = allows({
      $ref: '#/$defs/node',
      $defs: {
        base: { type: 'object', properties: { v: { type: 'integer' } }, required: ['v'] },
        node,
      },
    });
    expect([{ v: 1 }, { v: 1, next: { v: 2 } }, { next: { v: 2 } }].map(list)).toEqual([
      true,
      true,
      false,
    ]);
    const both = {
      $defs: {
        a: { properties: { x: { $ref: '#/$defs/a' } }, required: [] },
        b: { properties: { x: { $ref: '#/$defs/b' } }, required: [] },
      },
      allOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/b' }],
    };
    expect(allows(both)({ x: { x: {} } })).toBe(true);
  });
});

describe('a schema that is kept as far as it can be', () => {
  const rule = (schema: object | boolean, objects = true): ((text: unknown) => boolean) => {
    const grammar = new SchemaGrammar();
    const name = grammar.add(schema, { partly: true, objects });
    const isAllowed = allowedBy(`root ::= ${name}\n${grammar}`);
    return (value) => isAllowed(JSON.stringify(value));
  };
  const O = (properties: object, more: object = {}): object => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    ...more,
  });

  test.each<[string, object, unknown, unknown]>([
    ['a bound of numbers', O({ a: { type: 'number', minimum: 3 } }), { a: 1.5 }, { a: 'x' }],
    [
      'a format, beside a length',
      O({ a: { type: 'string', format: 'hostname', maxLength: 3 } }),
      { a: 'x y' },
      { a: 'abcd' },
    ],
    ['a pattern', O({ a: { enum: ['p', 'q'], pattern: '^p' } }), { a: 'q' }, { a: 'r' }],
    [
      'conditions',
      O(
        { a: { type: 'boolean' } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema, which nobody awaits
        { if: { properties: { a: { const: true } } }, then: { required: ['b'] } },
      ),
      { a: true },
      { a: 1 },
    ],
    [
      'alternatives that overlap',
      O({ a: { oneOf: [{ type: 'integer' }, { type: 'number' }] } }),
      { a: 0.5 },
      { a: null },
    ],
    [
      'a reference elsewhere',
      O({ a: { $ref: 'https://example.org/a.json' }, b: { type: 'null' } }),
      { a: [1], b: null },
      { a: 1, b: 2 },
    ],
    [
      'a type that there is not',
      O({ a: { type: 'any' }, b: { type: 'null' } }),
      { a: 1, b: null },
      { a: 1, b: 1 },
    ],
    [
      'a count too large',
      O({ a: { type: 'array', items: { type: 'integer' }, maxItems: 1_000_000 } }),
      { a: [1] },
      { a: ['x'] },
    ],
    [
      'a name that is required and forbidden',
      O({ a: { type: 'null' } }, { required: ['a', 'b'], additionalProperties: false }),
      { a: null },
      {},
    ],
    ['recursion without end', O({ a: { $ref: '#' } }), { a: { b: 1 } }, {}],
  ])('%s', (_, schema, allowed, forbidden) => {
    expect(() => grammarOfJsonSchema(schema)).toThrow(
      expect.objectContaining({ code: 'GRAMMAR_INVALID' }),
    );
    const isAllowed = rule(schema);
    expect([isAllowed(allowed), isAllowed(forbidden)]).toEqual([true, false]);
  });

  test.each<[string, object | boolean]>([
    ['nothing said', {}],
    ['true', true],
    ['properties without a type', { properties: { a: { type: 'null' } }, required: [] }],
    ['objects or null', { type: ['object', 'null'], properties: {} }],
    ['a reference', { $ref: '#/$defs/p', $defs: { p: { type: ['object', 'string'] } } }],
    [
      'alternatives',
      {
        anyOf: [{ type: 'string' }, { type: 'object' }, { $ref: '#/definitions/n' }],
        definitions: { n: { type: 'null' } },
      },
    ],
    ['all of', { allOf: [{ description: 'x' }, { type: 'object' }] }],
  ])('of %s, the objects', (_, schema) => {
    const isAllowed = rule(schema);
    expect([{}, null, 'x', 1, [], true].map(isAllowed)).toEqual([
      true,
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  test.each([
    false,
    { type: 'string' },
    { enum: [1, 2] },
    { anyOf: [{ type: 'null' }, { type: 'array' }] },
  ])('without an object, refused: %j', (schema) => {
    expect(() => rule(schema)).toThrow(expect.objectContaining({ code: 'GRAMMAR_INVALID' }));
  });
});

describe('size', () => {
  test('bounded texts, lists and equal schemas share their rules', () => {
    const fields = (count: number, field: object): object => ({
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, field])),
    });
    for (const [count, field] of [
      [12, { type: 'string', minLength: 5, maxLength: 10_000 }],
      [30, { type: 'array', items: { type: 'integer' }, maxItems: 9000 }],
      [50, { anyOf: [{ type: 'string', maxLength: 8000 }, { type: 'null' }] }],
    ] as const)
      expect(grammarOfJsonSchema(fields(count, field)).match(/\{\d+,\d{4,}\}/g)).toHaveLength(1);
  });

  test('what is too large is named by its place', () => {
    const list = Array.from({ length: 60 }, (_, i) => ({ type: 'string', maxLength: 9000 + i }));
    expect(() => grammarOfJsonSchema({ type: 'array', prefixItems: list })).toThrow(
      expect.objectContaining({
        code: 'GRAMMAR_INVALID',
        message: expect.stringMatching(/at #\/prefixItems\/5: .*too large/),
      }),
    );
    expect(() =>
      new SchemaGrammar().add({ type: 'array', prefixItems: list }, { partly: true }),
    ).not.toThrow();
  });

  test('of what becomes rules alone, descriptions and unused definitions left out', () => {
    const schema = {
      type: 'object',
      properties: { description: { type: 'null' } },
      required: ['description'],
    };
    const long = 'x'.repeat(100_000);
    const told = {
      ...schema,
      description: long,
      title: long,
      $defs: { a: { enum: [long] } },
      properties: { description: { type: 'null', examples: [long] } },
    };
    expect(lengthOfRules(told)).toBe(lengthOfRules(schema));
    expect(lengthOfRules({ ...told, anyOf: [{ $ref: '#/$defs/a' }] })).toBeGreaterThan(100_000);
  });

  test('schemas that are put together a thousand times end soon', () => {
    const begun = performance.now();
    const wide = {
      type: 'object',
      properties: Object.fromEntries(
        Array.from({ length: 500 }, (_, i) => [`p${i}`, { type: 'integer', description: 'd' }]),
      ),
    };
    expect(() =>
      grammarOfJsonSchema({
        ...wide,
        anyOf: Array.from({ length: 1000 }, (_, i) => ({ required: [`p${i % 500}`] })),
      }),
    ).toThrow(expect.objectContaining({ code: 'GRAMMAR_INVALID' }));
    expect(performance.now() - begun).toBeLessThan(5000);
  });
});
