/** JSON Schemas as grammars: what every answer follows, judged by ajv, and what is refused. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { grammarOfJsonSchema } from '../../src/engine/json-schema.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { Random } from '../../src/random.js';
import { collect, syntheticModel } from './fixtures.js';

const ANSWERS = process.env.ISOPRO_FULL === '1' ? 10_000 : 500;

const ajv = new Ajv2020({ strict: false, allErrors: true });
const isDate = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) &&
  !Number.isNaN(Date.parse(text)) &&
  new Date(text).toISOString().startsWith(text);
const isTime = (text: string): boolean =>
  /^\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text) &&
  !Number.isNaN(Date.parse(`2000-01-01T${text}`));
ajv.addFormat('date', isDate);
ajv.addFormat('time', isTime);
ajv.addFormat('uuid', /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i);
ajv.addFormat(
  'date-time',
  (text: string) => isDate(text.slice(0, 10)) && text[10] === 'T' && isTime(text.slice(11)),
);

let model: Model;
beforeAll(async () => {
  model = await loadModel(syntheticModel({ architecture: 'qwen2', type: 'Q8_0', seed: 3n }), {
    threads: 1,
    fixedThreads: true,
    contextTokens: 40_000,
  });
});
afterAll(() => model.dispose());

interface Written {
  readonly complete: number;
  readonly wrong: readonly string[];
}

async function write(schema: object, samples: number, seed: number): Promise<Written> {
  // Of the answers' realm: ajv's equality compares constructors.
  const valid = ajv.compile(JSON.parse(JSON.stringify(schema)) as object);
  const wrong: string[] = [];
  let complete = 0;
  const request = {
    prompts: [
      {
        tokenIds: model.tokenize('json: '),
        seeds: Array.from({ length: samples }, (_, i) => BigInt(seed * 1000 + i)),
      },
    ],
    maxTokens: 150,
    jsonSchema: schema,
  };
  for (const { text, finish } of await collect(model, {
    ...request,
    sampling: { temperature: 1.2 },
  })) {
    if (finish !== 'stop') continue;
    complete++;
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      wrong.push(`not JSON: ${text} for ${JSON.stringify(schema)}`);
      continue;
    }
    if (!valid(answer))
      wrong.push(`${ajv.errorsText(valid.errors)}: ${text} for ${JSON.stringify(schema)}`);
  }
  return { complete, wrong };
}

const NODE = {
  type: 'object',
  properties: { value: { type: 'integer' }, next: { $ref: '#/$defs/node' } },
  required: ['value'],
  additionalProperties: false,
};
const KEPT: readonly (readonly [string, object])[] = [
  ['types', { type: ['string', 'number', 'integer', 'boolean', 'null'], maxLength: 5 }],
  ['integers', { type: 'array', items: { type: 'integer' }, minItems: 2, maxItems: 6 }],
  [
    'bounds',
    {
      type: 'array',
      items: { type: 'integer', minimum: -12, exclusiveMaximum: 105.5 },
      minItems: 4,
      maxItems: 6,
    },
  ],
  [
    'characters are counted, not escapes',
    {
      type: 'array',
      items: { type: 'string', minLength: 2, maxLength: 3 },
      minItems: 4,
      maxItems: 4,
    },
  ],
  [
    'const and enum',
    {
      type: 'object',
      properties: {
        a: { const: { x: ['"', null] } },
        b: { enum: ['é\n', 1, 2.5, [], '😀'] },
        c: { type: 'string', enum: [1, 'one'] },
      },
    },
  ],
  [
    'dates and times',
    {
      type: 'object',
      properties: {
        day: { type: 'string', format: 'date' },
        at: { type: 'string', format: 'time' },
        both: { type: 'string', format: 'date-time' },
        key: { type: 'string', format: 'uuid' },
        counts: {
          type: 'object',
          propertyNames: { type: 'string' },
          additionalProperties: { type: 'integer' },
          maxProperties: 3,
        },
      },
    },
  ],
  [
    'required and optional',
    {
      type: 'object',
      properties: { a: { type: 'boolean' }, b: { type: 'null' }, c: { type: 'boolean' } },
      required: ['b'],
      maxProperties: 3,
      minProperties: 1,
    },
  ],
  [
    'a required name without a schema',
    {
      type: 'object',
      required: ['a'],
      properties: { b: { const: 1 } },
      additionalProperties: { type: 'integer' },
    },
  ],
  [
    'other names than the declared ones',
    {
      type: 'object',
      properties: { a: { const: 'declared' }, ab: false, b: { const: 'too' } },
      required: [],
      additionalProperties: { type: 'integer' },
      maxProperties: 5,
    },
  ],
  [
    'tuples',
    {
      type: 'array',
      prefixItems: [{ type: 'boolean' }, { type: 'null' }],
      items: { type: 'integer' },
      maxItems: 5,
    },
  ],
  [
    'tuples without more',
    { type: 'array', prefixItems: [{ type: 'boolean' }, { type: 'null' }], items: false },
  ],
  ['a list that ends', { $ref: '#/$defs/node', $defs: { node: NODE } }],
  ['a tree', { anyOf: [{ type: 'null' }, { type: 'array', items: { $ref: '#' }, maxItems: 2 }] }],
  [
    'references by pointer',
    {
      type: 'object',
      properties: {
        'a/b': { type: 'boolean' },
        c: { $ref: '#/properties/a~1b' },
        d: { $ref: '#/properties/a~1b' },
      },
    },
  ],
  [
    'alternatives that a tag tells apart',
    {
      oneOf: [
        {
          type: 'object',
          properties: { kind: { const: 'a' }, n: { type: 'integer' } },
          required: ['kind', 'n'],
        },
        { type: 'object', properties: { kind: { enum: ['b', 'c'] } } },
      ],
    },
  ],
  [
    'alternatives of different types',
    { oneOf: [{ type: 'integer' }, { type: 'boolean' }, { const: 'x' }, { enum: ['y', null] }] },
  ],
  ['what nothing is said about', { title: 'anything', description: 'at all', 'x-note': 1 }],
];

describe('every complete answer follows its schema', () => {
  test.each(KEPT)('%s', async (_name, schema) => {
    const { complete, wrong } = await write(schema, 24, 1);
    expect(wrong).toEqual([]);
    expect(complete).toBeGreaterThan(3);
  });

  test(`schemas made at random, ${ANSWERS} answers`, async () => {
    const random = new Random(11n);
    const wrong: string[] = [];
    let [answers, schemas, seed] = [0, 0, 0];
    while (answers < ANSWERS) {
      const schema = randomSchema(random);
      try {
        grammarOfJsonSchema(schema);
      } catch (error) {
        expect((error as Error).message).toMatch(/refers to itself|is not allowed/);
        continue;
      }
      const written = await write(schema, 16, seed++);
      schemas += written.complete > 0 ? 1 : 0;
      answers += written.complete;
      wrong.push(...written.wrong);
    }
    expect(wrong.slice(0, 5)).toEqual([]);
    expect(schemas).toBeGreaterThan(ANSWERS / 40);
  }, 1_500_000);
});

/** A schema of the kept keywords, with definitions that may refer to each other. */
function randomSchema(random: Random): object {
  const below = (limit: number): number => random.nextInteger(0, limit - 1);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)]!;
  const definitions = ['one', 'two'];
  const bounds = (what: string, most: number): object => {
    const least = below(most);
    return pick([
      {},
      { [`min${what}`]: least },
      { [`min${what}`]: least, [`max${what}`]: least + below(4) },
      { [`max${what}`]: below(6) },
    ]);
  };
  const leaf = (): object =>
    pick([
      () => ({ type: pick(['integer', 'number', 'boolean', 'null']) }),
      () => ({
        type: 'string',
        ...bounds('Length', 4),
        ...(below(3) === 0 ? {} : { maxLength: 8 }),
      }),
      () => ({ type: 'string', format: pick(['date', 'time', 'date-time', 'uuid']) }),
      () => ({
        const: pick<unknown>([null, 0, -1.5, 'a"\\', 'ü', [], {}, [1, { b: 2, a: 1 }], true]),
      }),
      () => ({
        enum: Array.from({ length: 1 + below(4) }, () =>
          pick<unknown>([1, 'x', 'y\u0001', null, false, 3.25, { k: [] }]),
        ),
      }),
      () => ({
        type: [...new Set([pick(['integer', 'boolean']), pick(['null', 'string'])])],
        maxLength: 4,
      }),
    ])();
  const made = (depth: number): object => {
    if (depth === 0 || below(4) === 0) return leaf();
    return pick([
      () => ({ anyOf: Array.from({ length: 1 + below(3) }, () => made(depth - 1)) }),
      () => ({
        oneOf: [
          { type: 'null' },
          { type: 'array', items: made(depth - 1), maxItems: 3 },
          object(depth),
          { type: 'boolean' },
        ],
      }),
      () => ({ anyOf: [{ $ref: `#/$defs/${pick(definitions)}` }, leaf()] }),
      () => ({
        type: 'array',
        items: made(depth - 1),
        ...bounds('Items', 3),
        ...(below(2) === 0 ? {} : { maxItems: 4 }),
      }),
      () => ({
        type: 'array',
        prefixItems: [made(depth - 1), leaf()],
        items: pick<unknown>([false, leaf()]),
        maxItems: 1 + below(4),
      }),
      () => object(depth),
      () => object(depth),
    ])();
  };
  const object = (depth: number): object => {
    const names = ['a', 'ab', 'a b', '"', 'ä', '😀', ''].filter(() => below(3) === 0);
    const properties = Object.fromEntries(
      names.map((name) => [name, below(12) === 0 ? false : made(depth - 1)]),
    );
    const allowed = names.filter((name) => properties[name] !== false);
    const others = pick<object>([
      {},
      { additionalProperties: false },
      { additionalProperties: leaf() },
    ]);
    return {
      type: 'object',
      properties,
      ...others,
      ...pick<object>([{}, { required: allowed.filter(() => below(2) === 0) }]),
      ...(below(3) === 0 ? { maxProperties: allowed.length + below(3) } : {}),
    };
  };
  const limited = (schema: object): object =>
    'maxLength' in schema || 'maxItems' in schema
      ? { ...schema, ...clamped(schema as Record<string, number>) }
      : schema;
  return {
    ...limited(made(3)),
    $defs: Object.fromEntries(definitions.map((name) => [name, limited(made(2))])),
  };
}

/** The largest counts not below the smallest. */
function clamped(schema: Record<string, number>): object {
  const entries = ['Length', 'Items']
    .filter((what) => `max${what}` in schema)
    .map(
      (what) => [`max${what}`, Math.max(schema[`max${what}`]!, schema[`min${what}`] ?? 0)] as const,
    );
  return Object.fromEntries(entries);
}

describe('bounds of integers', () => {
  /**
   * What the start rule allows, which has no other rules, repetitions and quotes as in a regular
   * expression.
   */
  const allowed = (schema: object): RegExp => {
    const rule = /^rule-0 ::= (.*)$/m.exec(grammarOfJsonSchema(schema))![1]!;
    return new RegExp(`^(?:${rule.replaceAll(/["\s]/g, '')})$`);
  };
  const BOUNDS = [
    -1000, -101, -100, -99, -10, -9, -1, 0, 1, 9, 10, 11, 19, 20, 99, 100, 109, 110, 999, 1000,
    1234,
  ];

  test('exactly the whole numbers between them', () => {
    for (const [i, minimum] of BOUNDS.entries()) {
      for (const maximum of BOUNDS.slice(i)) {
        const form = allowed({ type: 'integer', minimum, maximum });
        const wrong = Array.from({ length: 2601 }, (_, n) => n - 1300).filter(
          (n) => form.test(String(n)) !== (n >= minimum && n <= maximum),
        );
        expect([minimum, maximum, wrong]).toEqual([minimum, maximum, []]);
      }
    }
  });

  test('one bound alone, and numbers with leading zeros', () => {
    const [natural, below] = [
      allowed({ type: 'integer', minimum: 0 }),
      allowed({ type: 'integer', exclusiveMaximum: -5 }),
    ];
    for (const text of ['0', '7', '10', '9999999999999999'])
      expect([text, natural.test(text)]).toEqual([text, true]);
    for (const text of ['-1', '00', '01', '-0', ''])
      expect([text, natural.test(text)]).toEqual([text, false]);
    for (const [text, is] of [
      ['-6', true],
      ['-60', true],
      ['-5', false],
      ['-4', false],
      ['0', false],
      ['6', false],
    ] as const)
      expect([text, below.test(text)]).toEqual([text, is]);
    expect(allowed({ type: 'integer', exclusiveMinimum: 2, maximum: 4 }).source).toBe(
      '^(?:[3-4])$',
    );
  });
});

describe('what a grammar cannot enforce is refused by name', () => {
  const within = (property: object): object => ({ type: 'object', properties: { age: property } });
  test.each([
    [
      'minimum',
      within({ type: 'number', minimum: 0 }),
      '#/properties/age: a grammar cannot enforce "minimum" on the type "number"',
    ],
    [
      'maximum',
      within({ type: ['integer', 'number'], maximum: 9 }),
      '#/properties/age: a grammar cannot enforce "maximum" on the type "number"',
    ],
    [
      'exclusiveMinimum',
      { exclusiveMinimum: 0 },
      'a grammar cannot enforce "exclusiveMinimum" on the type "number"',
    ],
    [
      'a bound of 16 digits',
      { type: 'integer', maximum: 1e15 },
      'a grammar cannot enforce "maximum" beyond 999999999999999',
    ],
    ['a bound that is none', { type: 'integer', minimum: '3' }, '"minimum" is not a number'],
    [
      'bounds with nothing between',
      { type: 'integer', exclusiveMinimum: 3, maximum: 3.5 },
      'there is no integer between the bounds',
    ],
    ['multipleOf', { multipleOf: 2 }, 'a grammar cannot enforce "multipleOf"'],
    [
      'pattern',
      within({ type: 'string', pattern: '^a' }),
      '#/properties/age: a grammar cannot enforce "pattern"',
    ],
    [
      'allOf of what cannot hold at once',
      { allOf: [{ type: 'string' }, { type: 'null' }] },
      '#: a grammar cannot enforce "type" together with "allOf"',
    ],
    ['an empty allOf', { allOf: [] }, '#: "allOf" is not a list of schemas'],
    ['not', { not: {} }, 'a grammar cannot enforce "not"'],
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema, which nobody awaits
    ['if', { if: {}, then: {} }, 'a grammar cannot enforce "if"'],
    [
      'patternProperties',
      { type: 'object', patternProperties: { '^a': {} } },
      'a grammar cannot enforce "patternProperties"',
    ],
    [
      'propertyNames',
      { type: 'object', propertyNames: { pattern: 'a' } },
      'a grammar cannot enforce "propertyNames"',
    ],
    [
      'dependentRequired',
      { dependentRequired: { a: ['b'] } },
      'a grammar cannot enforce "dependentRequired"',
    ],
    [
      'unevaluatedProperties',
      { unevaluatedProperties: false },
      'a grammar cannot enforce "unevaluatedProperties"',
    ],
    ['contains', { contains: {} }, 'a grammar cannot enforce "contains"'],
    ['uniqueItems', { type: 'array', uniqueItems: true }, 'a grammar cannot enforce "uniqueItems"'],
    [
      'a misspelt keyword',
      { type: 'string', maxLenght: 3 },
      'a grammar cannot enforce "maxLenght"',
    ],
    ['a format', { type: 'string', format: 'email' }, 'a grammar cannot enforce "format" "email"'],
    [
      'a format and its pattern',
      { type: 'string', format: 'email', pattern: '@' },
      'a grammar cannot enforce "format" "email"',
    ],
    [
      'a format with a length',
      { format: 'date', minLength: 3 },
      '"minLength" and "maxLength" together with "format"',
    ],
    [
      'a remote $ref',
      { $ref: 'https://example.org/schema' },
      'a grammar cannot enforce "$ref" "https://example.org/schema"',
    ],
    ['an anchor', { $ref: '#name' }, 'a grammar cannot enforce "$ref" "#name"'],
    ['$dynamicRef', { $dynamicRef: '#node' }, 'a grammar cannot enforce "$dynamicRef"'],
    [
      'a $ref to nothing',
      within({ $ref: '#/$defs/missing' }),
      '#/properties/age: "$ref" "#/$defs/missing" points to nothing',
    ],
    ['a $ref into a prototype', { $ref: '#/__proto__' }, 'points to nothing'],
    ['a $ref that is no text', { $ref: 1 }, 'a grammar cannot enforce "$ref" 1'],
    ['a $ref with bad escapes', { $ref: '#/%E0%' }, 'is malformed'],
    [
      'what stands beside a $ref',
      { $ref: '#/$defs/a', pattern: 'b', $defs: { a: { type: 'string', pattern: 'a' } } },
      'cannot enforce "pattern" together with "$ref"',
    ],
    [
      'anyOf beside oneOf',
      { anyOf: [{ type: 'string' }], oneOf: [{ type: 'null' }] },
      'cannot enforce "oneOf" together with "anyOf"',
    ],
    [
      'what stands beside enum',
      { enum: ['a'], maxLength: 1 },
      'cannot enforce "maxLength" together with "enum"',
    ],
    ['an inner $id', within({ $id: 'x', type: 'null' }), 'cannot enforce "$id" within a schema'],
    ['an unknown type', within({ type: 'str' }), '#/properties/age: unknown "type" "str"'],
    ['no type', { type: [] }, '"type" is empty'],
    ['an empty enum', { enum: [] }, '"enum" is empty'],
    [
      'an enum of other types',
      { type: 'string', enum: [1] },
      'no value of "enum" has the type that "type" requires',
    ],
    ['an empty anyOf', { anyOf: [] }, '"anyOf" is not a list of schemas'],
    [
      'alternatives in common',
      { oneOf: [{ type: 'number' }, { type: 'integer' }] },
      'one value may match both alternative 0 and alternative 1',
    ],
    [
      'a listed value twice among hundreds',
      { oneOf: [{ const: 7 }, ...Array.from({ length: 200 }, (_, i) => ({ const: i }))] },
      'one value may match both alternative 0 and alternative 8',
    ],
    [
      'alternatives too many to be compared',
      {
        oneOf: Array.from({ length: 257 }, (_, i) => ({
          type: 'object',
          properties: { k: { const: i } },
        })),
      },
      'more than 256 alternatives, unless all of them are "const" or "enum"',
    ],
    [
      'alternatives without a type',
      { oneOf: [{ maxLength: 3 }, { type: 'integer' }] },
      'one value may match both alternative 0 and alternative 1',
    ],
    [
      'false',
      within({ anyOf: [false] }),
      '#/properties/age/anyOf/0: a schema that is false allows no value',
    ],
    ['what is no schema', within(3 as unknown as object), '#/properties/age: not a schema'],
    ['items as a list of no schemas', { type: 'array', items: [3] }, '#/items/0: not a schema'],
    [
      'two lists of items',
      { items: [{}], prefixItems: [{}] },
      'cannot enforce "prefixItems" together with a list of "items"',
    ],
    ['a count below 0', { minItems: -1 }, '"minItems" is not a whole number'],
    ['a count that is no number', { maxLength: '3' }, '"maxLength" is not a whole number'],
    ['a count beyond any use', { maxLength: 1e6 }, 'cannot enforce "maxLength" above 10000'],
    ['counts that cross', { minLength: 3, maxLength: 2 }, '"maxLength" is below "minLength"'],
    [
      'more items than there may be',
      { prefixItems: [{}], items: false, minItems: 2 },
      '"minItems" exceeds the number of items that are allowed',
    ],
    ['minProperties', { type: 'object', minProperties: 1 }, 'cannot enforce "minProperties"'],
    [
      'maxProperties',
      { type: 'object', properties: { a: true, b: true }, maxProperties: 1 },
      'cannot enforce "maxProperties"',
    ],
    [
      'a required name that is not allowed',
      { type: 'object', properties: {}, required: ['a'], additionalProperties: false },
      '"required" names "a"',
    ],
    [
      'required that is no list',
      { type: 'object', required: 'a' },
      '"required" is not a list of names',
    ],
    [
      'a name too long to be kept apart',
      { properties: { ['a'.repeat(600)]: true }, additionalProperties: true },
      'together with a property name of more than 500 characters',
    ],
    [
      'recursion on the spot',
      { $ref: '#' },
      '#: the schema refers to itself with no property or item in between',
    ],
    [
      'recursion on the spot, with another way out',
      { anyOf: [{ type: 'null' }, { $ref: '#' }] },
      '#: the schema refers to itself with no property or item in between',
    ],
    ['recursion in what is required', within({ $ref: '#' }), '#: the recursion never ends'],
    [
      'mutual recursion',
      {
        $ref: '#/$defs/a',
        $defs: {
          a: { type: 'array', items: { $ref: '#/$defs/b' }, minItems: 1 },
          b: { $ref: '#/$defs/a' },
        },
      },
      'the recursion never ends',
    ],
    ['a list', [{}], '#: not a schema'],
  ])('%s', (_name, schema, message) => {
    expect(() => grammarOfJsonSchema(schema)).toThrow(
      expect.objectContaining({
        code: 'GRAMMAR_INVALID',
        message: expect.stringContaining(message),
      }),
    );
  });

  test('a schema that is no JSON, and one nested without end', () => {
    const circle: Record<string, unknown> = {};
    circle.items = circle;
    let deep: object = { type: 'null' };
    for (let i = 0; i < 200; i++) deep = { anyOf: [deep] };
    for (const schema of [circle, { const: 1n }, deep])
      expect(() => grammarOfJsonSchema(schema)).toThrow(
        expect.objectContaining({ code: 'GRAMMAR_INVALID' }),
      );
  });
});

test.each(['allOf', 'anyOf', 'oneOf'])(
  'references that double what they lead to by %s end, in time, with a reason or a grammar',
  (keyword) => {
    const $defs: Record<string, object> = { d40: { type: 'object' } };
    for (let i = 0; i < 40; i++)
      $defs[`d${i}`] = {
        [keyword]: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }],
      };
    const began = performance.now();
    for (const schema of [
      { $defs, $ref: '#/$defs/d0' },
      { $defs, oneOf: [{ $ref: '#/$defs/d0' }, { type: 'string' }] },
      { $defs, allOf: [{ $ref: '#/$defs/d0' }, { required: ['a'] }] },
    ])
      try {
        grammarOfJsonSchema(schema);
      } catch (error) {
        expect(error).toMatchObject({ code: 'GRAMMAR_INVALID' });
      }
    expect(performance.now() - began).toBeLessThan(10_000);
  },
);
