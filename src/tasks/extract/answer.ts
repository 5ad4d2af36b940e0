import { trimBlanks } from '../blanks.js';
import { fenced } from '../fence.js';
import { membersOf, parseFlatObject, refused } from '../flat-object.js';
import type { Parsed } from '../task.js';
import { MAX_READINGS } from '../verdict.js';
import type { Extraction, ExtractProblem, Value } from './problem.js';

/** A hundred times what the longest right reply of a frozen set has. */
export const MAX_REPLY_CHARACTERS = 20_000;

/**
 * Reads a reply that is one JSON object and nothing else, perhaps in a code fence. Each value is a
 * text, a number, true, false or null; no key stands twice, so that every reader of JSON reads the
 * same.
 */
export function parseAnswer(text: string): Parsed<Extraction> {
  if (text.length > MAX_REPLY_CHARACTERS)
    return refused(`The reply has more than ${MAX_REPLY_CHARACTERS} characters.`);
  const whole = trimBlanks(text);
  const block = fenced(whole, ['', 'json']);
  const parsed = parseFlatObject(block ?? whole, 'all');
  return parsed.ok && block !== null ? { ...parsed, form: 'fenced' } : parsed;
}

/** Runs of text between braces that are looked at, and the longest of them. */
const MOST_OBJECTS = 32;
const LONGEST_OBJECT = 8_000;

/** A number or a truth value that stands in quotes. */
function unquoted(value: Value, kind: ExtractProblem['schema'][number]['kind']): Value {
  if (typeof value !== 'string') return value;
  const text = value.trim();
  if ((kind === 'integer' || kind === 'amount') && /^-?\d{1,15}(\.\d{1,15})?$/.test(text))
    return Number(text);
  if (kind === 'boolean' && /^(true|false)$/i.test(text)) return text.toLowerCase() === 'true';
  return /^null$/i.test(text) ? null : text;
}

/**
 * Every flat JSON object anywhere in a reply, as leniently as one may read it: keys that nobody
 * asked for are left out, of two of one name the last counts, numbers may stand in quotes and texts
 * among blanks.
 */
export function readLeniently(text: string, { schema }: ExtractProblem): Extraction[] {
  const kinds = new Map(schema.map(({ key, kind }) => [key, kind]));
  const found: Extraction[] = [];
  let tried = 0;
  for (const [candidate] of text.matchAll(/\{[^{}]*\}/g)) {
    if (++tried > MOST_OBJECTS || found.length === MAX_READINGS) break;
    if (candidate.length > LONGEST_OBJECT) continue;
    const members = membersOf(candidate, [...kinds.keys()]);
    if (members !== null)
      found.push(
        Object.fromEntries(members.map(([key, value]) => [key, unquoted(value, kinds.get(key)!)])),
      );
  }
  return found;
}

/**
 * GBNF of any flat JSON object of at most 12 members. Texts are not counted: each count is a place
 * of the grammar to look up anew.
 */
export const ANSWER_GRAMMAR = String.raw`root ::= "{" space (member ("," space member){0,11})? "}"
member ::= text ":" space value
value ::= (text | number | "true" | "false" | "null") space
text ::= "\"" character* "\"" space
character ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= "-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})?
space ::= [ \n]{0,4}
`;
