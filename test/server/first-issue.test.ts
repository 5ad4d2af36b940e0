/**
 * What callers send is read to its first fault, and no list or record of it is looked into before
 * its size is known to be bearable.
 */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { Random } from '../../src/random.js';
import { mostMembers, readerOf } from '../../src/server/first-issue.js';
import * as requests from '../../src/server/openai/requests.js';
import { newFineTuning } from '../../src/server/fine-tuning/requests.js';
import { plainWords } from '../../src/wrong-input.js';

describe('a schema is refused where a list or a record of it has no bound', () => {
  const record = z.record(z.string(), z.number());
  test.each<[string, z.ZodType, RegExp]>([
    ['a list', z.object({ a: z.array(z.string()) }), /\.a is a list without a bound/],
    ['a list with a least size alone', z.array(z.string()).min(1), /is a list/],
    [
      'a list whose size is looked at behind something else',
      z
        .array(z.string())
        .refine(() => true)
        .max(3),
      /is a list/,
    ],
    ['a list in a list', z.array(z.array(z.string())).max(3), /\[\] is a list/],
    [
      'a list in a form among others',
      z.union([z.string(), z.object({ b: z.array(z.string()).nullish() })]),
      /\.b is a list/,
    ],
    [
      'a list behind a transform',
      z.object({
        a: z
          .array(z.string())
          .transform((of) => of.length)
          .optional(),
      }),
      /\.a is a list/,
    ],
    ['a record', z.object({ a: record }), /\.a is a record/],
    [
      'a record in a record',
      z.record(z.string(), record).check(mostMembers(3)),
      /\{\} is a record/,
    ],
    ['what any other member is', z.object({}).catchall(z.array(z.string())), /\.\* is a list/],
    ['a tuple with a rest', z.tuple([z.string()], z.string()), /a tuple with a rest/],
    ['any JSON', z.object({ a: z.json() }), /is a (list|record)/],
    [
      'a list that is named later',
      z.object({ a: z.lazy(() => z.array(z.number())) }),
      /\.a is a list/,
    ],
    ['a map', z.object({ a: z.map(z.string(), z.string()) }), /a map/],
  ])('%s', (_, schema, words) => {
    expect(() => readerOf(schema)).toThrow(words);
    expect(() => readerOf(schema)).toThrow(words); // the second time, too
  });

  test('none of a server is: each path is read so when it is added, and these are the bodies', () => {
    const bodies = Object.entries({ ...requests, newFineTuning }).filter(([name]) =>
      /Body$|^newFineTuning$/.test(name),
    );
    expect(bodies.length).toBeGreaterThan(8);
    for (const [name, schema] of bodies)
      expect(() => readerOf(schema as z.ZodType, name)).not.toThrow();
  });
});

/** How often a member was looked at. */
function counted<Schema extends z.ZodType>(
  schema: Schema,
): { readonly schema: z.ZodType; readonly looks: () => number } {
  let looks = 0;
  return {
    schema: z
      .unknown()
      .transform((value) => {
        looks++;
        return value;
      })
      .pipe(schema as never),
    looks: () => looks,
  };
}

test('the size comes before the members, and the first bad one ends it', () => {
  const number = counted(z.number().min(0));
  const lists = readerOf(z.array(number.schema).max(1000));
  expect(lists(Array(1001).fill('x')).error?.issues).toMatchObject([{ code: 'too_big' }]);
  expect(number.looks()).toBe(0);
  expect(lists([1, 2, -1, ...Array(900).fill('x')]).error?.issues).toMatchObject([
    { path: [2], code: 'too_small' },
  ]);
  expect(number.looks()).toBe(3);
  const value = counted(z.number());
  const records = readerOf(
    z.record(z.string().regex(/^[a-z]/), value.schema).check(mostMembers(300)),
  );
  expect(
    records(Object.fromEntries(Array.from({ length: 301 }, (_, i) => [`a${i}`, i]))).error
      ?.issues[0]?.message,
  ).toBe('takes at most 300 members');
  expect(value.looks()).toBe(0);
  const bad = Object.fromEntries([
    ['a', 1],
    ['A', 2],
    ...Array.from({ length: 250 }, (_, i) => [`b${i}`, 'x']),
  ]);
  expect(records(bad).error?.issues).toMatchObject([{ path: ['A'], code: 'invalid_key' }]);
  expect(value.looks()).toBe(1);
});

test('elsewhere the same schema says all that is wrong', () => {
  const schema = z.array(z.number()).max(9);
  readerOf(schema);
  expect(schema.safeParse(['a', 'b', 1, 'c']).error?.issues).toHaveLength(3);
});

test('values are read, and refused at the same place in the same words, as zod alone has it', () => {
  const id = z.int().min(0).max(9);
  const make = () =>
    z.strictObject({
      a: z.array(id).min(1).max(4).optional(),
      b: z
        .record(z.string().regex(/^[a-c]$/), z.union([id, z.array(z.string()).max(2)]))
        .check(mostMembers(9))
        .nullish(),
      c: z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('x'), of: z.array(z.array(id).max(3)).max(3) }),
        z.strictObject({
          kind: z.literal('y'),
          of: z.record(z.string(), z.boolean()).check(mostMembers(9)).default({}),
        }),
      ]),
      d: z
        .array(z.string().transform((text) => text.length))
        .max(3)
        .prefault([]),
    });
  const [plain, read] = [make(), readerOf(make())];
  const random = new Random(2026n);
  const one = <T>(of: readonly T[]): T => of[random.nextInteger(0, of.length - 1)]!;
  const some = (depth: number): unknown => {
    const count = random.nextInteger(0, 4);
    const kind = random.nextInteger(0, depth > 3 ? 4 : 7);
    if (kind <= 1) return random.nextInteger(-2, 11);
    if (kind === 2) return one(['x', 'y', '', 'abc']);
    if (kind === 3) return one([null, true, 0.5, -0]);
    if (kind === 4) return undefined;
    if (kind === 5) return Array.from({ length: count }, () => some(depth + 1));
    const names = kind === 6 ? ['a', 'b', 'c', 'd', 'e'] : ['kind', 'of', 'more'];
    return Object.fromEntries(Array.from({ length: count }, () => [one(names), some(depth + 1)]));
  };
  const ids = (most: number): unknown =>
    Array.from({ length: random.nextInteger(0, most) }, () => random.nextInteger(0, 9));
  let right = 0;
  for (let i = 0; i < 4000; i++) {
    const value = {
      ...(random.nextInteger(0, 1) === 1 && { a: one([ids(4), some(1)]) }),
      ...(random.nextInteger(0, 1) === 1 && { b: one([some(1), { a: 1, b: ['x'] }, null]) }),
      c: one([
        { kind: 'x', of: [ids(3), ids(3)] },
        { kind: 'y' },
        { kind: 'y', of: some(2) },
        some(1),
      ]),
      ...(random.nextInteger(0, 3) === 0 && { d: one([some(1), ['ab', 'c']]) }),
      ...(random.nextInteger(0, 9) === 0 && { strange: 1 }),
    };
    const [expected, found] = [plain.safeParse(value, { error: plainWords }), read(value)];
    expect(found.success).toBe(expected.success);
    if (expected.success) right++;
    if (expected.success) expect(found.data).toEqual(expected.data);
    else
      expect([found.error!.issues[0]!.path, found.error!.issues[0]!.message]).toEqual([
        expected.error.issues[0]!.path,
        expected.error.issues[0]!.message,
      ]);
  }
  expect(right).toBeGreaterThan(400);
});
