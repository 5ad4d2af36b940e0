/** JSON objects in what a model writes. */
import { trimBlanks } from '../blanks.js';
import {
  membersOf,
  parseFlatObject,
  refused,
  type FlatObject,
  type FlatValue,
} from '../flat-object.js';
import type { Parsed } from '../task.js';
import { MAX_READINGS } from '../verdict.js';

/**
 * Longest reply that is read, longest object in it, and pairs of braces that are tried from the
 * end, so that no reply is slow.
 */
const LONGEST_REPLY = 20_000;
const LONGEST_OBJECT = 2_000;
const MOST_SPANS = 32;

interface Span {
  readonly start: number;
  /** Behind the closing brace. */
  readonly end: number;
}

/**
 * From a brace to its partner, by their ends. Braces in quotes do not count; a quotation ends with
 * its line.
 */
function balancedSpans(text: string): Span[] {
  const open: number[] = [];
  const spans: Span[] = [];
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quoted) {
      if (character === '\\') at++;
      else if (character === '"' || character === '\n') quoted = false;
    } else if (character === '"') quoted = open.length > 0;
    else if (character === '{') open.push(at);
    else if (character === '}' && open.length > 0) spans.push({ start: open.pop()!, end: at + 1 });
  }
  return spans;
}

/**
 * Texts of a reply that are JSON objects, none of them a part of another, the last one first. Prose
 * may have braces of its own.
 */
function* lastObjects(text: string): Generator<string> {
  let covered = Infinity;
  for (const { start, end } of balancedSpans(text).slice(-MOST_SPANS).reverse()) {
    if (start >= covered) continue;
    const json = text.slice(start, end);
    try {
      JSON.parse(json);
    } catch {
      continue;
    }
    covered = start;
    yield json;
  }
}

/**
 * The last object of a reply that is flat, has no key twice and that `refuse` has nothing against;
 * prose, fences and other objects may stand around it. Where there is none, the reason is that of
 * the last object.
 * @param refuse what is wrong with an object; null where nothing is
 */
export function parseLastObject(
  text: string,
  refuse: (value: FlatObject) => string | null,
): Parsed<FlatObject> {
  if (text.length > LONGEST_REPLY)
    return refused(`The reply has more than ${LONGEST_REPLY} characters.`);
  let first: Parsed<FlatObject> | undefined;
  for (const json of lastObjects(text)) {
    const parsed: Parsed<FlatObject> =
      json.length > LONGEST_OBJECT
        ? refused('The object is too long.')
        : parseFlatObject(json, 'rounded');
    const wrong = parsed.ok ? refuse(parsed.answer) : parsed.detail;
    if (parsed.ok && wrong === null)
      return { ...parsed, form: json === trimBlanks(text) ? 'json' : 'embedded' };
    first ??= refused(wrong!);
  }
  return first ?? refused('There is no JSON object in the reply.');
}

const unquoted = (value: FlatValue): FlatValue =>
  typeof value === 'string' && /^ *-?\d{1,9}(\.\d{1,9})? *$/.test(value) ? Number(value) : value;

/**
 * Every flat object anywhere in a reply, without the keys that nobody asked for; numbers may stand
 * in quotes.
 */
export function readObjectsLeniently(text: string, keys: readonly string[]): FlatObject[] {
  const found: FlatObject[] = [];
  for (const [candidate] of [...text.slice(-LONGEST_REPLY).matchAll(/\{[^{}]*\}/g)]
    .slice(-MOST_SPANS)
    .reverse()) {
    if (candidate.length > LONGEST_OBJECT) continue;
    const members = membersOf(candidate, keys);
    if (members !== null)
      found.push(Object.fromEntries(members.map(([key, value]) => [key, unquoted(value)])));
    if (found.length === MAX_READINGS) break;
  }
  return found;
}
