/**
 * JSON in GBNF: the rules that all schemas share, texts, repetitions, and names that are none of
 * some.
 */

/**
 * Rules that schemas share. A string's characters count as one whatever their spelling, as
 * `maxLength` has it.
 */
export const SHARED = `
ws ::= (" " | "\\n" [ \\t]{0,20})?
comma ::= "," ws
colon ::= ":" " "?
hex ::= [0-9a-fA-F]
plain ::= [^"\\\\\\x00-\\x1F\\x7F]
escape ::= "\\\\" (["\\\\/bfnrt] | "u" (unpaired | pair))
unpaired ::= [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex
pair ::= [dD] [89abAB] hex hex "\\\\u" [dD] [c-fC-F] hex hex
character ::= plain | escape
string ::= "\\"" character* "\\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [+-]? [0-9]{1,2})?
boolean ::= "true" | "false"
member ::= string colon any
any ::= "{" ws (member (comma member)*)? ws "}" | "[" ws (any (comma any)*)? ws "]" | string | number | boolean | "null"
`;

/** A GBNF text of these characters. */
export const literal = (text: string): string =>
  `"${[...text].map((c) => (c === '"' || c === '\\' ? `\\${c}` : c < ' ' || c === '\x7f' ? codePoint(c) : c)).join('')}"`;
const codePoint = (c: string): string => `\\U${c.codePointAt(0)!.toString(16).padStart(8, '0')}`;

/** x, between `least` and `most` times. */
export const times = (x: string, least: number, most: number): string =>
  most === 0 ? '' : most === Infinity ? `${x}{${least},}` : `${x}{${least},${most}}`;
export const sequence = (...parts: string[]): string =>
  parts.filter((part) => part !== '').join(' ');

/**
 * A quoted name that is none of these. It has no escapes, with which a name could be spelt in many
 * ways.
 */
export function otherName(define: (body: string) => string, names: readonly string[]): string {
  /** @param spelt the names that begin in this way, of so many UTF-16 units */
  const beyond = (spelt: readonly string[], length: number): string => {
    const next = new Map<string, string[]>();
    for (const name of spelt) {
      if (name.length === length) continue;
      const c = String.fromCodePoint(name.codePointAt(length)!);
      const same = next.get(c);
      if (same === undefined) next.set(c, [name]);
      else same.push(name);
    }
    const different = `[^"\\\\\\x00-\\x1F\\x7F${[...next.keys()].map(codePoint).join('')}] plain*`;
    const alternatives = [
      ...(spelt.some((name) => name.length === length) ? [] : ['""']),
      different,
      ...[...next].map(([c, same]) => `[${codePoint(c)}] ${beyond(same, length + c.length)}`),
    ];
    return define(alternatives.join(' | '));
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes them, and the grammar has no escapes
  const spelt = names.filter((name) => !/["\\\0-\x1f\x7f\p{Surrogate}]/u.test(name));
  return `"\\"" ${beyond(spelt, 0)} "\\""`;
}
