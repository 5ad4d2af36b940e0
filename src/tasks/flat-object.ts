/** Answers that are one flat JSON object, in which every reader of JSON reads the same. */
import { readJsonText, type JsonText } from '../json-text.js';
import type { Parsed } from './task.js';

export type FlatValue = string | number | boolean | null;
/** Any string may be a key. */
export type FlatObject = Readonly<Record<string, FlatValue>>;

export const refused = (detail: string): { ok: false; category: string; detail: string } => ({
  ok: false,
  category: 'format',
  detail,
});

const isFlat = (value: unknown): value is Record<string, FlatValue> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.values(value).every((member) => typeof member !== 'object' || member === null);

/**
 * What cannot be written as JSON again, and so is no answer: numbers too large for one, halves of
 * characters.
 */
const isSound = (value: FlatValue): boolean =>
  typeof value === 'number'
    ? Number.isFinite(value)
    : typeof value !== 'string' || value.isWellFormed();

/**
 * Reads a text that is one flat JSON object and nothing else; no key stands twice.
 * @param digits `all`: a number that a double does not hold is refused; `rounded`: it is the
 *   nearest double, for values on a scale
 */
export function parseFlatObject(json: string, digits: 'all' | 'rounded'): Parsed<FlatObject> {
  let read: JsonText;
  try {
    read = readJsonText(json);
  } catch {
    return refused('The reply is not one JSON object and nothing else.');
  }
  const { value, numbers, twice } = read;
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refused('The reply is JSON, but not an object.');
  if (!isFlat(value)) return refused('A value of the object is a list or an object itself.');
  if (twice !== null)
    return refused(`The key ${JSON.stringify(twice.slice(0, 40))} stands there twice.`);
  if (digits === 'all' && numbers.some(({ held }) => !held))
    return refused('A number has more digits than can be read.');
  if (!Object.entries(value).every(([key, member]) => isSound(key) && isSound(member)))
    return refused('A number is too large, or a text holds half a character.');
  return { ok: true, answer: value, form: 'json' };
}

/**
 * The members of a text that is a flat JSON object, of these keys alone; of two of one name the
 * last. Null where it is none.
 */
export function membersOf(
  json: string,
  keys: readonly string[],
): (readonly [key: string, value: FlatValue])[] | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  if (!isFlat(value)) return null;
  const members = value;
  return keys.flatMap((key) => {
    const member = Object.hasOwn(members, key) ? members[key]! : undefined;
    return member === undefined || !isSound(member) ? [] : [[key, member] as const];
  });
}
