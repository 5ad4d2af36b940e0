/**
 * A template's text in pieces, as jinja2 cuts it with `trim_blocks` and `lstrip_blocks`:
 * `jinja2/lexer.py` of release 3.1 says what is white space where.
 */
import { TemplateError } from './failures.js';

export type TokenKind =
  | `${'block' | 'variable'}_${'begin' | 'end'}`
  | (typeof PIECES)[number][0]
  | 'data'
  | 'operator'
  | 'end';
export interface Token {
  readonly kind: TokenKind;
  /** Of strings their value; of other pieces what stands there. */
  readonly text: string;
  readonly line: number;
}

/** Longer templates than any that is known, the longest of which has some 20,000 characters. */
const MOST_CHARACTERS = 1_000_000;

/** White space as Python knows it: `str.isspace`. */
export const SPACE =
  '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const IS_SPACE = new RegExp(`^[${SPACE}]$`);

const BEGIN = /\{[{%#]/g;
const RAW_BEGIN = new RegExp(`\\{%[-+]?[${SPACE}]*raw[${SPACE}]*(?:-%\\}[${SPACE}]*|%\\})`, 'y');
const RAW_END = new RegExp(
  `\\{%([-+]?)[${SPACE}]*endraw[${SPACE}]*(?:\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?)`,
  'g',
);
const COMMENT_END = new RegExp(`\\+#\\}|-#\\}[${SPACE}]*|#\\}\\n?`, 'g');
const BLOCK_END = new RegExp(`\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?`, 'y');
const VARIABLE_END = new RegExp(`-\\}\\}[${SPACE}]*|\\}\\}`, 'y');
const BLANK = new RegExp(`[${SPACE}]+`, 'y');
const FLOAT = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/y;
const INTEGER =
  /0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*/y;
const NAME = /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}]*/uy;
const STRING = /'([^'\\]*(?:\\[^][^'\\]*)*)'|"([^"\\]*(?:\\[^][^"\\]*)*)"/y;
/** What an expression is made of beside operators, in the order in which it is looked for. */
const PIECES = [
  ['float', FLOAT],
  ['integer', INTEGER],
  ['name', NAME],
  ['string', STRING],
] as const;
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}=<>.:|,;]/y;
const CLOSED_BY: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** @throws TemplateError */
export function tokensOf(template: string): Token[] {
  if (template.length > MOST_CHARACTERS)
    throw new TemplateError(
      `it has ${template.length} characters, more than the limit of ${MOST_CHARACTERS}`,
    );
  return new Lexer(template.replace(/\r\n?/g, '\n').replace(/\n$/, '')).tokens();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  /** Whether the piece before ended a line. */
  #lineBegins = true;
  #line = 1;
  #counted = 0;

  constructor(source: string) {
    this.#source = source;
  }

  tokens(): Token[] {
    while (this.#at < this.#source.length) this.#data();
    this.#add('end', '');
    return this.#tokens;
  }

  #add(kind: TokenKind, text: string): void {
    for (; this.#counted < this.#at; this.#counted++)
      if (this.#source.charCodeAt(this.#counted) === 10) this.#line++;
    this.#tokens.push({ kind, text, line: this.#line });
  }

  #fail(what: string): never {
    this.#add('end', '');
    throw new TemplateError(`line ${this.#line}: ${what}`);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source);
    if (match !== null) {
      this.#at = pattern.lastIndex;
      this.#lineBegins = match[0].endsWith('\n');
    }
    return match;
  }

  /** Text up to what begins next. */
  #data(): void {
    BEGIN.lastIndex = this.#at;
    const begin = BEGIN.exec(this.#source);
    const end = begin?.index ?? this.#source.length;
    const sign = begin === null ? '' : (this.#source[end + 2] ?? '');
    const isStatement = begin !== null && begin[0] !== '{{';
    const text = this.#source.slice(this.#at, end);
    const kept = begin === null ? text : this.#stripped(text, sign, isStatement);
    if (kept !== '') this.#add('data', kept);
    this.#at = end;
    if (begin === null) return;
    if (begin[0] === '{%' && this.#match(RAW_BEGIN) !== null) this.#raw();
    else {
      this.#at = end + (sign === '-' || sign === '+' ? 3 : 2);
      this.#lineBegins = false;
      if (begin[0] === '{%') this.#expression('block', BLOCK_END);
      else if (begin[0] === '{{') this.#expression('variable', VARIABLE_END);
      else if (this.#match(COMMENT_END) === null) this.#fail('a comment has no end');
    }
  }

  #stripped(text: string, sign: string, isStatement: boolean): string {
    if (sign === '-') {
      let end = text.length;
      while (end > 0 && IS_SPACE.test(text[end - 1]!)) end--;
      return text.slice(0, end);
    }
    if (sign === '+' || !isStatement) return text;
    const lineAt = text.lastIndexOf('\n') + 1;
    return (lineAt > 0 || this.#lineBegins) && /^[ \t]*$/.test(text.slice(lineAt))
      ? text.slice(0, lineAt)
      : text;
  }

  #raw(): void {
    RAW_END.lastIndex = this.#at;
    const end = RAW_END.exec(this.#source);
    if (end === null) this.#fail('a raw block has no end');
    const kept = this.#stripped(this.#source.slice(this.#at, end.index), end[1]!, true);
    if (kept !== '') this.#add('data', kept);
    this.#at = RAW_END.lastIndex;
    this.#lineBegins = end[0].endsWith('\n');
  }

  #expression(kind: 'block' | 'variable', ending: RegExp): void {
    this.#add(`${kind}_begin`, '');
    const open: string[] = [];
    for (;;) {
      this.#match(BLANK);
      if (this.#at >= this.#source.length) this.#fail('a statement or an expression has no end');
      if (open.length === 0 && this.#match(ending) !== null) break;
      this.#piece(open);
    }
    this.#add(`${kind}_end`, '');
  }

  #piece(open: string[]): void {
    for (const [kind, pattern] of PIECES) {
      const piece = this.#match(pattern);
      if (piece === null) continue;
      this.#add(kind, kind === 'string' ? unescaped(piece[1] ?? piece[2]!) : piece[0]);
      return;
    }
    const operator = this.#match(OPERATOR)?.[0];
    if (operator === undefined)
      this.#fail(
        `unexpected ${JSON.stringify(String.fromCodePoint(this.#source.codePointAt(this.#at)!))}`,
      );
    if (operator in CLOSED_BY) open.push(CLOSED_BY[operator]!);
    else if (Object.values(CLOSED_BY).includes(operator) && open.pop() !== operator)
      this.#fail(`unexpected "${operator}"`);
    this.#add('operator', operator);
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  a: '\x07',
  b: '\b',
  f: '\f',
  v: '\v',
  '\n': '',
};
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([^]))/gu;

/** As Python's `unicode-escape`: an escape that it does not know stays as it is. */
function unescaped(text: string): string {
  return text.replace(
    ESCAPE,
    (whole, x?: string, u?: string, long?: string, octal?: string, other?: string) => {
      const hex = x ?? u ?? long;
      if (hex !== undefined) {
        const code = parseInt(hex, 16);
        if (code > 0x10ffff) throw new TemplateError(`${whole} is not a valid character`);
        return String.fromCodePoint(code);
      }
      if (octal !== undefined) return String.fromCodePoint(parseInt(octal, 8));
      if (other === 'x' || other === 'u' || other === 'U' || other === 'N')
        throw new TemplateError(`a string contains the escape ${whole} without a character number`);
      return ESCAPES[other!] ?? (/["'\\]/.test(other!) ? other! : whole);
    },
  );
}
