/**
 * Tokens of SQL as SQLite reads them (https://sqlite.org/lang_keywords.html, tokenize.c), without
 * what stands between them.
 */
export interface Token {
  readonly kind: 'word' | 'quoted' | 'text' | 'number' | 'blob' | 'operator';
  /** Of a quoted name or a text what stands in the quotes, else as written. */
  readonly value: string;
}

/** What is no token; the message says which character, or what does not end. */
export class LexError extends Error {}

/**
 * White space is what SQLite takes for it, a byte order mark before a token too; every character
 * from U+0080 may stand in a name.
 */
const PIECES: readonly (readonly [Token['kind'] | 'space', RegExp])[] = [
  ['space', /(?:[ \t\n\f\r\ufeff]+|--[^\n]*|\/\*[^]*?\*\/)+/y],
  ['blob', /[xX]'(?:[0-9a-fA-F]{2})*'/y],
  ['text', /'((?:[^']|'')*)'/y],
  ['quoted', /"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|\[([^\]]*)\]/y],
  [
    'number',
    /(?:0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_$\u0080-\uffff])/y,
  ],
  ['word', /[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/y],
  ['operator', /\|\||<=|>=|<>|!=|==|<<|>>|->>|->|[-+*/%&|~<>=(),.;]/y],
];

const unquoted = ([all, ...inner]: RegExpExecArray): string => {
  const quote = all[0]!;
  const content = inner.find((group) => group !== undefined) ?? '';
  return quote === '[' ? content : content.replaceAll(quote + quote, quote);
};

/** @throws LexError */
export function lex(sql: string): Token[] {
  if (sql.includes('\0')) throw new LexError('it holds a null character');
  const tokens: Token[] = [];
  let at = 0;
  while (at < sql.length) {
    const found = PIECES.map(([kind, pattern]) => {
      pattern.lastIndex = at;
      return [kind, pattern.exec(sql)] as const;
    }).find(([, match]) => match !== null);
    if (found === undefined || (found[0] === 'operator' && sql.startsWith('/*', at)))
      throw new LexError(complaint(sql, at));
    const [kind, match] = found;
    if (kind !== 'space')
      tokens.push({
        kind,
        value: kind === 'text' || kind === 'quoted' ? unquoted(match!) : match![0],
      });
    at += match![0].length;
  }
  return tokens;
}

function complaint(sql: string, at: number): string {
  const character = String.fromCodePoint(sql.codePointAt(at)!);
  if (`'"\`[`.includes(character)) return `the quote ${character} is never closed`;
  if (sql.startsWith('/*', at)) return 'a comment is never closed';
  const code = `U+${sql.codePointAt(at)!.toString(16).toUpperCase().padStart(4, '0')}`;
  return `${/[\x21-\x7e]/.test(character) ? character : code} cannot stand there`;
}
