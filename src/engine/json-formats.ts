/** Formats of JSON Schema as GBNF, and which of them say something of a value. */
import { z } from 'zod';
import type { Json } from '../canonical-json.js';

const LEAP = '("0" [48] | [2468] [048] | [13579] [26])';
/** Without a zone. */
const LOCAL = '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})?';
const TIME = `${LOCAL} ("Z" | [+-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])`;
const DATE =
  '([0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | ' +
  '"30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))' +
  ` | ([0-9] [0-9] ${LEAP} | (${LEAP} | "00") "00") "-02-29")`;

/** @param version the first character of the third group @param variant that of the fourth */
function uuid(version = 'hex', variant = 'hex'): string {
  const of = (count: number): string => `hex{${count}}`;
  return `${of(8)} "-" ${of(4)} "-" ${version} ${of(3)} "-" ${variant} ${of(3)} "-" ${of(12)}`;
}

const KEPT = new Map([
  ['date', DATE],
  ['time', TIME],
  ['date-time', `${DATE} "T" ${TIME}`],
  ['uuid', uuid()],
]);
/**
 * Those of JSON Schema, and those that zod writes of its own texts; other names are an annotation.
 */
const NOT_KEPT = new Set(
  (
    'duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri iri-reference uri-template json-pointer ' +
    'relative-json-pointer regex ' +
    'url guid cuid cuid2 ulid xid ksuid nanoid emoji cidrv4 cidrv6 mac base64 base64url jwt e164 json-string hex lowercase uppercase'
  ).split(' '),
);
export const isFormatOfTexts = (format: string): boolean =>
  KEPT.has(format) || NOT_KEPT.has(format);
export const isFormatOfIntegers = (format: string): boolean => INTEGERS.has(format);

/**
 * Bounds of integers that OpenAPI and others name by a format; those of 64 bits allow all digits
 * that are written.
 */
const INTEGERS: ReadonlyMap<string, readonly [number, number]> = new Map<
  string,
  readonly [number, number]
>([
  ...[8, 16, 32].flatMap((bits) => [
    [`int${bits}`, [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]] as const,
    [`uint${bits}`, [0, 2 ** bits - 1]] as const,
  ]),
  ['int64', [-Infinity, Infinity]],
  ['uint64', [0, Infinity]],
  ['uint', [0, Infinity]],
]);
export const boundsOfFormat = (format: Json | undefined): readonly [number, number] =>
  INTEGERS.get(String(format)) ?? [-Infinity, Infinity];

/** GBNF of the text between the quotation marks; undefined: a grammar cannot keep it. */
export const gbnfOfFormat = (format: string): string | undefined => KEPT.get(format);

/** What zod writes of its own texts, by `format` and `pattern`: the pattern is the narrower one. */
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
    ).map(([schema, gbnf]) => [kindOfText(z.toJSONSchema(schema) as Text), gbnf]),
  ));

interface Text {
  readonly format?: Json;
  readonly pattern?: Json;
}
function kindOfText({ format = null, pattern = null }: Text): string {
  return JSON.stringify([format, pattern]);
}

/** As `gbnfOfFormat`, of a text with a pattern. */
export const gbnfOfPattern = (text: Text): string | undefined => patterns().get(kindOfText(text));
