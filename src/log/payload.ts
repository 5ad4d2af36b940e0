import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';

/** Value in a record: JSON, non-finite numbers and integers above 2^53. */
export type LogValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly LogValue[]
  | { readonly [key: string]: LogValue };

/** A record's content: an object whose `kind` says what it is. */
export interface LogPayload {
  readonly kind: string;
  readonly [key: string]: LogValue;
}

/** Largest payload in bytes of UTF-8. A rollout of 100,000 tokens needs about 2 MiB. */
export const MAX_PAYLOAD_BYTES = 16 * 1024 * 1024;
const MAX_DEPTH = 64;

const isPayload = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as { kind?: unknown }).kind === 'string';

/**
 * `#` marks what JSON has no form for: `#NaN`, `#Infinity`, `#-Infinity`, and `#<decimal>` for a
 * bigint. A string that itself begins with `#` gets one more, so that the mark is never ambiguous.
 */
function tag(value: LogValue, depth: number): Json {
  if (depth > MAX_DEPTH)
    throw new IsoproError('INVALID_ARGUMENT', `a log payload may nest at most ${MAX_DEPTH} levels`);
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? value : `#${value}`;
    case 'bigint':
      return `#${value}`;
    case 'string':
      return value.startsWith('#') ? `#${value}` : value;
    case 'boolean':
      return value;
    case 'object': {
      if (value === null) return null;
      if (Array.isArray(value))
        return Array.from(value as readonly LogValue[], (item) => tag(item, depth + 1));
      const prototype = Object.getPrototypeOf(value) as object | null;
      // a class instance; plain objects of other realms pass
      if (prototype !== null && Object.getPrototypeOf(prototype) !== null) break;
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, tag(item as LogValue, depth + 1)]),
      );
    }
  }
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `a log payload cannot hold a value of type ${value === undefined ? 'undefined' : Object.prototype.toString.call(value)}`,
  );
}

function untag(value: Json, depth = 0): LogValue {
  if (depth > MAX_DEPTH)
    throw new IsoproError('LOG_UNREADABLE', `a record nests more than ${MAX_DEPTH} levels`);
  if (typeof value === 'string') {
    if (!value.startsWith('#')) return value;
    const rest = value.slice(1);
    if (rest.startsWith('#')) return rest;
    if (rest === 'NaN') return NaN;
    if (rest === 'Infinity') return Infinity;
    if (rest === '-Infinity') return -Infinity;
    if (/^(0|-?[1-9][0-9]*)$/.test(rest)) return BigInt(rest);
    throw new IsoproError(
      'LOG_UNREADABLE',
      `the string ${JSON.stringify(value.slice(0, 40))} has an unknown form after its #`,
    );
  }
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return (value as readonly Json[]).map((item) => untag(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, untag(item, depth + 1)]),
  );
}

/**
 * The stored text of a payload: RFC 8785 canonical JSON with tagged non-finite numbers and bigints.
 * @throws IsoproError INVALID_ARGUMENT for anything that has no such text, or one above
 *   MAX_PAYLOAD_BYTES
 */
export function encodePayload(payload: LogPayload): string {
  const refuse = (problem: string, cause?: unknown): never => {
    throw new IsoproError('INVALID_ARGUMENT', problem, { cause });
  };
  if (!isPayload(payload)) refuse('a log payload must be an object with a string member `kind`');
  let text: string;
  try {
    text = canonicalJson(tag(payload, 0));
  } catch (error) {
    if (error instanceof IsoproError) throw error;
    return refuse(
      `the log payload of kind ${JSON.stringify(payload.kind)} has no canonical form: ${(error as Error).message}`,
      error,
    );
  }
  if (text.length * 3 > MAX_PAYLOAD_BYTES && Buffer.byteLength(text) > MAX_PAYLOAD_BYTES)
    refuse(`a log payload may have at most ${MAX_PAYLOAD_BYTES} bytes`);
  return text;
}

/** Decodes a stored text. @throws IsoproError LOG_UNREADABLE if it is not a payload */
export function decodePayload(text: string): LogPayload {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new IsoproError('LOG_UNREADABLE', 'a record is not JSON', { cause: error });
  }
  if (!isPayload(parsed))
    throw new IsoproError(
      'LOG_UNREADABLE',
      'a record is not an object with a string member `kind`',
    );
  return untag(parsed as Json) as LogPayload;
}

/**
 * Returns true if the keys of every object ascend in UTF-16 code units. Integer-like keys are left
 * to the slow path.
 */
function keysAscend(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object' && !keysAscend(item)) return false;
    return true;
  }
  let previous: string | undefined;
  for (const key in value) {
    if (previous !== undefined && !(previous < key)) return false;
    previous = key;
    const item = (value as Record<string, unknown>)[key];
    if (typeof item === 'object' && !keysAscend(item)) return false;
  }
  return true;
}

/** Returns true if `text` is the RFC 8785 form of the object that it parses to. */
export function isCanonicalPayload(text: string): boolean {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
    if (!isPayload(parsed)) return false;
    // JSON.stringify already prints numbers and strings as RFC 8785 asks; only the order of keys,
    // and lone surrogates (which it escapes, so that their text holds \ud), are left to check.
    if (JSON.stringify(parsed) === text && keysAscend(parsed) && !text.includes('\\ud'))
      return true;
    return canonicalJson(parsed as Json) === text;
  } catch {
    return false;
  }
}
