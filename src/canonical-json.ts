import canonicalize from 'canonicalize';
import { IsoproError } from './errors.js';

/** A value that RFC 8785 can represent. Integers above 2^53 travel as decimal strings. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/**
 * RFC 8785 canonical JSON: the one text of a value, so that its hash identifies it.
 * @throws TypeError for numbers that are not finite and for anything that is not JSON; IsoproError
 * INVALID_ARGUMENT for a text with half a character
 */
export function canonicalJson(value: Json): string {
  let text: string | undefined;
  try {
    text = canonicalize(value);
  } catch (cause) {
    if (!(cause instanceof Error) || !/lone surrogate/i.test(cause.message)) throw cause;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'a string contains a lone surrogate, which JSON cannot represent',
      { cause },
    );
  }
  if (text === undefined) throw new TypeError('the value cannot be written as JSON');
  return text;
}

/**
 * What JSON keeps of a value, typed as that: an interface has no index signature, and members that
 * are undefined go away.
 */
export function asJson(value: readonly unknown[]): readonly Json[];
export function asJson(value: object): { readonly [key: string]: Json };
export function asJson(value: object): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}
