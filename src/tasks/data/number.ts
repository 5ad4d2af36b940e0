/**
 * Reads one number as people and models write it, entirely or not at all; docs/own-data.md has the
 * grammar. Matching takes linear time.
 */
import { decimalOf, decimalText } from '../../decimal.js';

const SIGN = '[-+\u2010-\u2013\u2212\ufe63\uff0b\uff0d]';
/**
 * Letters of scripts with capitals: next to digits they are of a word, as in H2O, or a unit, as in
 * 5kg. Others stand next to numbers.
 */
const CASED = '[\\p{Lu}\\p{Ll}\\p{Lt}]';
/** Blanks that do not break a line, and their forms in LaTeX. */
const NARROW = '[\u00a0\u2007\u2009\u202f]|\\\\,|\\{\\\\,\\}|,\\\\!|\\{\\\\!\\}';
/** What may stand between two digits of one number, or of what is no number, such as 12:30. */
const BETWEEN = [
  `\\{,\\}|\\{\\.\\}|${NARROW}|['\u2019\u066c]|[.,\u066b\uff0c\uff0e]+`,
  '[-\u2010-\u2014\u2212\ufe63\uff0d+/:^_*\u00d7\u00b7\u22c5\u00f7\u2044\u2215\u2236]+',
].join('|');
const EXPONENT = `[eE]${SIGN}?\\p{Nd}+`;
/** One to three digits, and groups of three behind blanks. */
const SPACED = '(?<![\\p{Nd}.,])\\p{Nd}{1,3}(?: \\p{Nd}{3}(?!\\p{Nd}))+(?:[.,]\\p{Nd}+)?';
const BODY = `(?:${SPACED}|\\.?\\p{Nd}+(?:(?:${BETWEEN})\\p{Nd}+)*)(?:${EXPONENT})?`;
const CURRENCY = '\\\\?\\p{Sc}';

/**
 * With what stands directly around it. Runs of what is bounded are bounded, so that each character
 * is looked at a few times.
 */
const CANDIDATE = new RegExp(
  `(?<open>\\()?(?<sign>${SIGN}{1,3})?` +
    `(?<currency>(?:(?<!${CASED})[A-Z]{1,3})?(?:${CURRENCY}){1,2}[ \u00a0\u202f]?)?(?<within>\\()?(?<inner>${SIGN}{1,3})?` +
    `(?<body>${BODY})(?<behind>[ \u00a0\u202f]?(?:${CURRENCY}){1,2}(?!\\.?\\p{Nd}))?(?<close>\\))?`,
  'gu',
);

/** Digits of any script, as ASCII has them. A block of digits begins with its 0. */
function asciiDigit(digit: string): string {
  if (digit >= '0' && digit <= '9') return digit;
  const plain = digit.normalize('NFKC');
  if (plain >= '0' && plain <= '9') return plain;
  let value = 0;
  while (/\p{Nd}/u.test(String.fromCodePoint(digit.codePointAt(0)! - value - 1))) value++;
  return String(value % 10);
}

/** Marks between groups as `'`, points and commas in ASCII. */
const plainBody = (body: string): string =>
  body
    .replace(/\p{Nd}/gu, asciiDigit)
    .replace(/\{([.,])\}/g, '$1')
    .replace(/,\\!|\{?\\[,!]\}?|[\u00a0\u2007\u2009\u202f\u2019\u066c ]/g, "'")
    .replaceAll('\uff0c', ',')
    .replace(/[\u066b\uff0e]/g, '.')
    .replace(/[\u2010-\u2013\u2212\ufe63\uff0d]/g, '-')
    .replaceAll('\uff0b', '+');

/**
 * Ways to write a number, each with the mark of its groups and the mark of its decimals. A decimal
 * comma is one that no group explains.
 */
const FORMS: readonly (readonly [form: RegExp, group: string, decimal: string])[] = [
  [/^(?:\d+(?:\.\d+)?|\.\d+)$/, '', '.'],
  [/^[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?$/, ',', '.'],
  [/^[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?$/, ',', '.'], // India: 1,00,000
  [/^[1-9]\d{0,2}(?:'\d{3})+(?:\.\d+)?$/, "'", '.'],
  [/^[1-9]\d{0,2}(?:'\d{3})+,\d+$/, "'", ','],
  [/^[1-9]\d{0,2}(?:\.\d{3})+,\d+$/, '.', ','],
  [/^[1-9]\d{0,2}(?:\.\d{3}){2,}$/, '.', ','],
  [/^\d+,\d+$/, '', ','],
];

/** Returns the number that a body is, in ASCII; null if it is not one. */
function numberOf(body: string): string | null {
  const [, digits = '', exponent = ''] = /^(.*?)(e[-+]?\d+)?$/i.exec(plainBody(body)) ?? [];
  const found = FORMS.find(([form]) => form.test(digits));
  if (found === undefined) return null;
  const [, group, decimal] = found;
  return `${(group === '' ? digits : digits.replaceAll(group, '')).replace(decimal, '.')}${exponent}`;
}

/** Commands of LaTeX whose argument is what is said, and no power, root or part of a fraction. */
const SAYING =
  /\\(?:boxed|fbox|framebox|text|textbf|textit|mathbf|mathrm|mathit|bm|bf|mbox|emph|underline|left|bigl?|Bigl?) ?$/;
const LONGEST_COMMAND = 16;

/**
 * Tells whether the brace at this place opens the value itself, unlike `^{`, `_{`, `\frac{` or the
 * second of two groups.
 */
function opensSaid(text: string, brace: number): boolean {
  const before = text.slice(Math.max(0, brace - LONGEST_COMMAND), brace).replace(/\{+$/, '');
  return (
    SAYING.test(before) || !/(?:[-+\u2010-\u2015\u2212.,^_}\]\p{Nd}]|\\[A-Za-z]+ ?)$/u.test(before)
  );
}

const at = (pattern: string): RegExp => new RegExp(pattern, 'yu');
const CASED_AT = at(CASED);
const found = (pattern: RegExp, text: string, place: number): boolean => {
  pattern.lastIndex = place;
  return pattern.test(text);
};

/**
 * Of a word: letters with a digit behind them, as in 0x1F and 5x-3, or a hyphen with letters, as in
 * 5-year.
 */
const WORD_BEHIND = at(`${CASED}+${SIGN}?\\p{Nd}|${SIGN}${CASED}`);
const WORD_BEFORE = new RegExp(`${CASED}\\p{M}*$`, 'u');
/**
 * Directly before a number: a sign, a mark of a number, a power, a part, a fraction. None of the
 * forms explains it.
 */
const UNREAD_BEFORE =
  /(?:[-+\u00b1\u2010-\u2015\u2212\ufe63\uff0b\uff0d.,\u066b\u066c\uff0c\uff0e\u2026^\p{Nd}\p{No}\p{Sc}}]|[\p{L}\p{N})}\].][_/])$/u;
/**
 * Directly behind it: more digits, a sign, a mark of currency, a power, a part, a group, points, a
 * factor, a comma within a list.
 */
const UNREAD_BEHIND = at(
  [
    `${SIGN}|[\\p{Nd}\\p{No}\\p{Sc}{\u5341\u767e\u5343\u842c\u4e07\u5104\u4ebf\u5146]`,
    '\\}?\\s?\\^(?!\\{?\\\\circ)|\\}\\s?[{_\\p{Nd}]|_[{\\p{L}\\p{Nd}]',
    '\\.\\.|\u2026|\\\\(?:[dt]?frac|sqrt|pi|times|cdot|div|pm)',
    `[,\uff0c](?:${SIGN}|${CASED}|[\\p{Nd}\\p{Sc}{.,])`,
  ].join('|'),
);

/**
 * Returns a number as decimalText writes it; null for text that looks like a number but is not
 * read; undefined for a part of a word.
 */
function readCandidate(text: string, match: RegExpExecArray): string | null | undefined {
  const {
    open,
    sign = '',
    currency,
    within,
    inner = '',
    body,
    behind,
    close,
  } = match.groups as Record<string, string | undefined>;
  const signs = sign + inner;
  const start = match.index + (open === undefined ? 0 : 1);
  const end = match.index + match[0].length - (close === undefined ? 0 : 1);
  const before = text.slice(Math.max(0, start - 4), start);
  if (WORD_BEFORE.test(before) && currency === undefined) return undefined;
  if (found(WORD_BEHIND, text, end)) return undefined;
  if (signs.length > 1 || UNREAD_BEFORE.test(before) || found(UNREAD_BEHIND, text, end))
    return null;
  if (sign !== '' && WORD_BEFORE.test(before)) return null;
  if (before.endsWith('{') && !opensSaid(text, start - 1)) return null;
  if (/[eE]/.test(body!) && found(CASED_AT, text, end)) return null;
  const value = numberOf(body!);
  const decimal = value === null ? null : decimalOf(value);
  if (decimal === null) return null;
  // accountants write a debt in parentheses; dollars on both sides are LaTeX's
  const inDebt =
    close !== undefined &&
    (open !== undefined || within !== undefined) &&
    (currency === undefined) !== (behind === undefined) &&
    !/^\p{Sc}/u.test(text.slice(end + 1, end + 2));
  const negative = signs === '' ? inDebt : !/[+\uff0b]/.test(signs);
  return decimalText({ ...decimal, digits: negative ? -decimal.digits : decimal.digits });
}

/** Most characters that are read, to bound the time. */
const MOST_CHARACTERS = 100_000;

/**
 * Reads a text that is one number, apart from currency and per cent signs, as decimalText writes
 * it; null if it is not a number, or more than one.
 */
export function readNumber(text: string): string | null {
  const matches = [...text.slice(0, MOST_CHARACTERS).matchAll(CANDIDATE)];
  const [match] = matches;
  if (match === undefined || matches.length > 1) return null;
  const rest = `${text.slice(0, match.index)}${text.slice(match.index + match[0].length)}`;
  return /^[\p{Sc}%.\s]*$/u.test(rest) ? (readCandidate(text, match) ?? null) : null;
}

/** Last number of a reply, or text that looks like a number but is not read. */
export type Said = { readonly number: string } | { readonly unread: string } | null;

/**
 * Finds the last number of a reply; null if there is none. Text that looks like a number but is not
 * read, such as 12:30, is not skipped.
 */
export function lastNumber(whole: string): Said {
  const text = whole.slice(-MOST_CHARACTERS);
  let said: Said = null;
  for (const match of text.matchAll(CANDIDATE)) {
    const number = readCandidate(text, match);
    if (number !== undefined) said = number === null ? { unread: match[0] } : { number };
  }
  return said;
}
