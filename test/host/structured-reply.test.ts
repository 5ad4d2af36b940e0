/**
 * Replies as values of a schema: what is meant by one, and what is said of a reply that is none.
 */
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { asMeant, grammarOf, objectOf } from '../../src/host/structured-reply.js';
import type { HostReply } from '../../src/index.js';

const [LEAST, MOST] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
const replyOf = (text: string, tokens: number): HostReply =>
  ({ text, tokenIds: new Int32Array(tokens) }) as unknown as HostReply;
const refused = (schema: z.ZodType, text: string): Promise<string> =>
  objectOf(schema, replyOf(text, 7)).then(
    () => 'taken',
    ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
  );

test('the bounds that zod gives to any whole number go, wherever a schema stands', () => {
  const whole = { type: 'integer', minimum: LEAST, maximum: MOST };
  const plain = { type: 'integer' };
  for (const wrap of [
    (inner: object) => inner,
    (inner: object) => ({ type: 'array', items: inner, prefixItems: [inner, inner] }),
    (inner: object) => ({ properties: { a: inner, maximum: inner }, required: ['a'] }),
    (inner: object) => ({ $defs: { minimum: inner }, definitions: { b: { not: inner } } }),
    (inner: object) => ({ patternProperties: { '^x': inner }, additionalProperties: inner }),
  ])
    expect(asMeant(wrap(whole))).toEqual(wrap(plain));
});

test('other bounds, and those in values and names, stay', () => {
  for (const schema of [
    { type: 'integer', minimum: LEAST + 1, maximum: MOST - 1 },
    { type: 'integer', minimum: MOST, maximum: LEAST },
    { const: { maximum: MOST }, enum: [{ minimum: LEAST }], examples: [{ maximum: MOST }] },
    { default: { minimum: LEAST }, properties: { maximum: true, minimum: { type: 'string' } } },
    { properties: null, $defs: 'x', maxLength: MOST, additionalProperties: false },
  ])
    expect(asMeant(schema)).toEqual(schema);
});

test('what no grammar keeps is told with its place and what to do', () => {
  const wrong = (schema: z.ZodType): { message: string; remedy: string } => {
    try {
      grammarOf(schema);
    } catch (error) {
      return error as { message: string; remedy: string };
    }
    return { message: 'taken', remedy: '' };
  };
  const place = z.object({ a: z.tuple([z.string(), z.bigint()]) });
  const ofPlace = wrong(place);
  expect(ofPlace.message).toContain('at #/properties/a/prefixItems/1: BigInt cannot');
  expect(ofPlace.remedy).toContain('.refine()');
  expect(wrong(z.bigint()).message).toMatch(/cannot be converted to JSON Schema: BigInt cannot/);
  expect(wrong(z.string().regex(/^a+$/)).remedy).toContain('.refine()');
  expect(wrong(z.object({ a: z.int(), b: z.boolean() })).message).toBe('taken');
});

test('a reply that is cut off is shown, of more than 200 characters its end', async () => {
  const cut = 'the reply ended after 7 tokens and is not complete JSON: ';
  const [short, long] = [`"${'a'.repeat(199)}`, `"b${'a'.repeat(199)}`];
  expect(await refused(z.string(), short)).toBe(`REPLY_INVALID ${cut}${JSON.stringify(short)}`);
  const end = JSON.stringify(`…${long.slice(1)}`);
  expect(await refused(z.string(), long)).toBe(`REPLY_INVALID ${cut}${end}`);
});

test('each rule that a reply breaks is told with its place', async () => {
  const schema = z.object({ a: z.number().refine((a) => a > 3, 'too small'), b: z.array(z.int()) });
  expect(await refused(schema, '{"a":1,"b":[1,1.5]}')).toMatch(
    /^REPLY_INVALID the reply violates the schema: a: too small; b: 1: .*int.*; the reply was "\{/,
  );
  const later = z.string().refine(async (text) => text === 'yes', 'not yes');
  expect(await refused(later, '"no"')).toContain('not yes; the reply was');
  expect(
    await objectOf(
      later.transform((text) => text.length),
      replyOf('"yes"', 1),
    ),
  ).toBe(3);
});
