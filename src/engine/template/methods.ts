/**
 * Methods of texts, lists and dicts, those of Python that a template may call. What changes its
 * object is refused by jinja2's sandbox too.
 */
import { bound } from './arguments.js';
import type { Budget } from './budget.js';
import { NotCovered, TemplateError, TemplateLimit } from './failures.js';
import {
  capitalized,
  isLower,
  isTitle,
  isUpper,
  lower,
  swapped,
  titled,
  upper,
} from './letters.js';
import { SPACE } from './lexer.js';
import { str } from './python-text.js';
import { slice } from './arithmetic.js';
import {
  characters,
  Dict,
  equal,
  integerOf,
  Items,
  iterated,
  lengthOf,
  textOf,
  truth,
  tuple,
  Undefined,
  type Given,
  type Value,
} from './values.js';

type Method<Of> = (of: Of, given: Given, budget: Budget) => Value;

const BLANK = new RegExp(`^[${SPACE}]$`);
const NOT_BLANK = new RegExp(`[^${SPACE}]+`, 'g');
const ALL_BLANK = new RegExp(`^[${SPACE}]+$`);
// biome-ignore lint/suspicious/noControlCharactersInRegex: where Python ends a line
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;
const WIDEST = 10_000_000;
/** Of Unicode's numeric type Decimal or Digit. */
const DIGITS = new RegExp(
  '^[\\p{Nd}\\u00b2\\u00b3\\u00b9\\u1369-\\u1371\\u19da\\u2070\\u2074-\\u2079\\u2080-\\u2089\\u2460-\\u2468\\u2474-\\u247c\\u2488-\\u2490' +
    '\\u24ea\\u24f5-\\u24fd\\u24ff\\u2776-\\u277e\\u2780-\\u2788\\u278a-\\u2792\\u{10a40}-\\u{10a43}\\u{10e60}-\\u{10e68}' +
    '\\u{11052}-\\u{1105a}\\u{1f100}-\\u{1f10a}]+$',
  'u',
);

/** From either end. @param chars those that go; null: white space */
export function stripped(
  text: string,
  ends: 'both' | 'left' | 'right',
  chars: string | null,
  budget: Budget,
): string {
  budget.text(text.length);
  const set = chars === null ? null : new Set(characters(chars));
  const isGone = (character: string): boolean =>
    set === null ? BLANK.test(character) : set.has(character);
  let from = 0;
  let to = text.length;
  const before = (at: number): string => {
    const low = text.charCodeAt(at - 1);
    return low >= 0xdc00 && low <= 0xdfff && at > 1 && text.codePointAt(at - 2)! > 0xffff
      ? text.slice(at - 2, at)
      : text[at - 1]!;
  };
  if (ends !== 'right')
    while (from < to) {
      const character = String.fromCodePoint(text.codePointAt(from)!);
      if (!isGone(character)) break;
      from += character.length;
    }
  if (ends !== 'left')
    while (to > from) {
      const character = before(to);
      if (!isGone(character)) break;
      to -= character.length;
    }
  return text.slice(from, to);
}

const strip =
  (ends: 'both' | 'left' | 'right'): Method<string> =>
  (text, given, budget) => {
    const [chars] = bound('strip', ['chars'], given);
    return stripped(
      text,
      ends,
      chars == null ? null : textOf(chars, 'the characters to strip'),
      budget,
    );
  };

/** Pieces between white space, and one for the rest. @param most splits; negative: all */
function splitBlanks(text: string, most: number, fromRight: boolean): string[] {
  const words = [...text.matchAll(NOT_BLANK)];
  const pieces = words.map(([word]) => word);
  if (most < 0 || words.length <= most) return pieces;
  if (!fromRight) return [...pieces.slice(0, most), text.slice(words[most]!.index)];
  const at = words.length - most;
  const last = words[at - 1]!;
  return [text.slice(0, last.index + last[0].length), ...pieces.slice(at)];
}

function splitBy(
  text: string,
  separator: string,
  most: number,
  fromRight: boolean,
  budget: Budget,
): string[] {
  if (separator === '') throw new TemplateError('the separator is empty');
  budget.search(text, separator);
  const pieces = text.split(separator);
  if (most < 0 || pieces.length <= most + 1) return pieces;
  return fromRight
    ? [pieces.slice(0, pieces.length - most).join(separator), ...pieces.slice(pieces.length - most)]
    : [...pieces.slice(0, most), pieces.slice(most).join(separator)];
}

const split =
  (fromRight: boolean): Method<string> =>
  (text, given, budget) => {
    const [separator, count] = bound('split', ['sep', 'maxsplit'], given);
    const most = count === undefined ? -1 : integerOf(count, 'maxsplit');
    budget.text(text.length);
    const pieces =
      separator == null
        ? splitBlanks(text, most, fromRight)
        : splitBy(text, textOf(separator, 'a separator'), most, fromRight, budget);
    budget.members(pieces.length);
    return pieces;
  };

const partition =
  (fromRight: boolean): Method<string> =>
  (text, given, budget) => {
    const separator = textOf(bound('partition', ['sep'], given)[0], 'a separator');
    if (separator === '') throw new TemplateError('the separator is empty');
    budget.search(text, separator);
    budget.text(text.length);
    const at = fromRight ? text.lastIndexOf(separator) : text.indexOf(separator);
    if (at < 0) return fromRight ? tuple('', '', text) : tuple(text, '', '');
    return tuple(text.slice(0, at), separator, text.slice(at + separator.length));
  };

/** A part of a text by the bounds that `find` and its kin take, and where it begins. */
function within(
  text: string,
  bounds: readonly (Value | undefined)[],
  budget: Budget,
): { part: string; from: number } {
  const [from, to] = bounds;
  if (from == null && to == null) return { part: text, from: 0 };
  const length = lengthOf(text);
  const begin = from == null ? 0 : integerOf(from, 'a bound');
  return {
    part: slice(text, [from ?? null, to ?? null, null], budget) as string,
    from: begin < 0 ? Math.max(0, begin + length) : begin,
  };
}

const find =
  (fromRight: boolean, required: boolean): Method<string> =>
  (text, given, budget) => {
    const [what, ...bounds] = bound('find', ['sub', 'start', 'end'], given);
    const sought = textOf(what, 'the text to find');
    const { part, from } = within(text, bounds, budget);
    budget.search(part, sought);
    const at =
      from > lengthOf(text) ? -1 : fromRight ? part.lastIndexOf(sought) : part.indexOf(sought);
    if (at < 0 && required) throw new TemplateError('the text to find is not in the string');
    return BigInt(at < 0 ? -1 : from + lengthOf(part.slice(0, at)));
  };

const hasEnd =
  (begins: boolean): Method<string> =>
  (text, given, budget) => {
    const [what, ...bounds] = bound(
      begins ? 'startswith' : 'endswith',
      [begins ? 'prefix' : 'suffix', 'start', 'end'],
      given,
    );
    const { part, from } = within(text, bounds, budget);
    const sought = what instanceof Items && what.kind === 'tuple' ? what.members : [what];
    if (from > lengthOf(text)) return false;
    return sought.some((one) => {
      const end = textOf(one, 'the text to find');
      return begins ? part.startsWith(end) : part.endsWith(end);
    });
  };

/** @param keep whether a line has its end */
export function linesOf(text: string, keep: boolean): string[] {
  const lines: string[] = [];
  let at = 0;
  for (const end of text.matchAll(LINE_END)) {
    lines.push(text.slice(at, end.index + (keep ? end[0].length : 0)));
    at = end.index + end[0].length;
  }
  if (at < text.length) lines.push(text.slice(at));
  return lines;
}

export function replaced(
  text: string,
  from: string,
  to: string,
  most: number,
  budget: Budget,
): string {
  budget.search(text, from);
  const pieces = from === '' ? ['', ...characters(text), ''] : text.split(from);
  budget.members(pieces.length);
  const count = most < 0 ? pieces.length - 1 : Math.min(most, pieces.length - 1);
  budget.text(text.length + count * to.length);
  return (
    pieces.slice(0, count + 1).join(to) +
    (count + 1 < pieces.length ? from : '') +
    pieces.slice(count + 1).join(from)
  );
}

const padded =
  (side: 'left' | 'right' | 'both'): Method<string> =>
  (text, given, budget) => {
    const [width, fill = ' '] = bound('ljust', ['width', 'fillchar'], given);
    const character = textOf(fill, 'the fill character');
    if (lengthOf(character) !== 1)
      throw new TemplateError('the fill character must be a single character');
    return paddedTo(
      text,
      integerOf(width ?? new Undefined('the width is missing'), 'a width'),
      side,
      character,
      budget,
    );
  };

/** @param side of the text */
export function paddedTo(
  text: string,
  width: number,
  side: 'left' | 'right' | 'both',
  fill: string,
  budget: Budget,
): string {
  const missing = Math.max(0, width - lengthOf(text));
  if (missing > WIDEST) throw new TemplateLimit(`it creates a string of ${width} characters`);
  budget.text(text.length + missing);
  // as CPython's `center`
  const before =
    side === 'right'
      ? missing
      : side === 'left'
        ? 0
        : Math.floor(missing / 2) + (missing & width & 1);
  return fill.repeat(before) + text + fill.repeat(missing - before);
}

const is =
  (holds: (text: string) => boolean): Method<string> =>
  (text, given, budget) => {
    bound('a method', [], given);
    budget.read(text.length);
    return holds(text);
  };
const every = (pattern: RegExp): Method<string> => is((text) => pattern.test(text));
const changed =
  (change: (text: string) => string): Method<string> =>
  (text, given, budget) => {
    bound('a method', [], given);
    budget.text(text.length);
    return change(text);
  };

/** `text.format`, of fields without conversion or format. */
const format: Method<string> = (text, { positional, keywords }, budget) => {
  let next = 0;
  let isNumbered = false;
  budget.read(text.length);
  return text.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (whole, field?: string) => {
    if (whole === '{{' || whole === '}}') return whole[0]!;
    if (field === undefined) throw new TemplateError('a format contains a single brace');
    if (!/^\w*$/.test(field)) throw new NotCovered(`the format field {${field}}`);
    isNumbered ||= /^\d/.test(field);
    if (isNumbered && (field === '' || next > 0))
      throw new TemplateError('a format mixes numbered and unnumbered fields');
    const value =
      field === ''
        ? positional[next++]
        : /^\d+$/.test(field)
          ? positional[Number(field)]
          : keywords.get(field);
    if (value === undefined) throw new TemplateError(`a format has no value for {${field}}`);
    const filled = str(value, budget);
    budget.text(filled.length);
    return filled;
  });
};

const TEXT_METHODS: Readonly<Record<string, Method<string>>> = {
  capitalize: changed(capitalized),
  casefold: changed((text) => lower(text).replaceAll('\u00df', 'ss')),
  center: padded('both'),
  count: (text, given, budget) => {
    const [what, ...bounds] = bound('count', ['sub', 'start', 'end'], given);
    const { part } = within(text, bounds, budget);
    budget.text(part.length);
    const sought = textOf(what, 'the text to count');
    budget.search(part, sought);
    return BigInt(sought === '' ? lengthOf(part) + 1 : part.split(sought).length - 1);
  },
  endswith: hasEnd(false),
  find: find(false, false),
  format,
  index: find(false, true),
  isalnum: every(/^[\p{L}\p{Nd}\p{No}\p{Nl}]+$/u),
  isalpha: every(/^\p{L}+$/u),
  isascii: every(/^\p{ASCII}*$/u),
  isdecimal: every(/^\p{Nd}+$/u),
  isdigit: every(DIGITS),
  islower: is(isLower),
  isnumeric: every(/^\p{N}+$/u),
  isspace: every(ALL_BLANK),
  istitle: is(isTitle),
  isupper: is(isUpper),
  join: (text, given, budget) =>
    joined(
      text,
      iterated(
        bound('join', ['iterable'], given)[0] ?? new Undefined('the list is missing'),
        budget,
      ),
      budget,
    ),
  ljust: padded('left'),
  lower: changed(lower),
  lstrip: strip('left'),
  partition: partition(false),
  removeprefix: (text, given, budget) => {
    const prefix = textOf(bound('removeprefix', ['prefix'], given)[0], 'a prefix');
    budget.text(text.length);
    return text.startsWith(prefix) ? text.slice(prefix.length) : text;
  },
  removesuffix: (text, given, budget) => {
    const suffix = textOf(bound('removesuffix', ['suffix'], given)[0], 'a suffix');
    budget.text(text.length);
    return suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
  },
  replace: (text, given, budget) => {
    const [from, to, count] = bound('replace', ['old', 'new', 'count'], given);
    const most = count === undefined ? -1 : integerOf(count, 'a count');
    return replaced(
      text,
      textOf(from, 'the text to replace'),
      textOf(to, 'the replacement'),
      most,
      budget,
    );
  },
  rfind: find(true, false),
  rindex: find(true, true),
  rjust: padded('right'),
  rpartition: partition(true),
  rsplit: split(true),
  rstrip: strip('right'),
  split: split(false),
  splitlines: (text, given, budget) => {
    const [keep = false] = bound('splitlines', ['keepends'], given);
    budget.text(text.length);
    const lines = linesOf(text, truth(keep));
    budget.members(lines.length);
    return lines;
  },
  startswith: hasEnd(true),
  strip: strip('both'),
  swapcase: changed(swapped),
  title: changed(titled),
  upper: changed(upper),
  zfill: (text, given, budget) => {
    const width = integerOf(
      bound('zfill', ['width'], given)[0] ?? new Undefined('the width is missing'),
      'a width',
    );
    const sign = /^[-+]/.test(text) ? text[0]! : '';
    return sign + paddedTo(text.slice(sign.length), width - sign.length, 'right', '0', budget);
  },
};

/** @throws TemplateError where one is no text */
export function joined(separator: string, members: readonly Value[], budget: Budget): string {
  const texts = members.map((member) => textOf(member, 'a joined item'));
  budget.text(texts.reduce((sum, { length }) => sum + length + separator.length, 0));
  return texts.join(separator);
}

const count: Method<readonly Value[]> = (members, given, budget) => {
  const [sought = null] = bound('count', ['value'], given);
  return BigInt(members.filter((member) => equal(member, sought, budget)).length);
};
const index: Method<readonly Value[]> = (members, given, budget) => {
  const [sought = null] = bound('index', ['value'], given);
  const at = members.findIndex((member) => equal(member, sought, budget));
  if (at < 0) throw new TemplateError('the value is not in the list');
  return BigInt(at);
};
const LIST_METHODS: Readonly<Record<string, Method<readonly Value[]>>> = {
  copy: (members, given, budget) => {
    bound('copy', [], given);
    budget.members(members.length);
    return [...members];
  },
  count,
  index,
};
const TUPLE_METHODS: Readonly<Record<string, Method<readonly Value[]>>> = { count, index };

const view =
  (
    kind: 'dict_keys' | 'dict_values' | 'dict_items',
    members: (of: Dict) => readonly Value[],
  ): Method<Dict> =>
  (of, given, budget) => {
    bound(kind, [], given);
    budget.members(of.size);
    return new Items(kind, members(of));
  };
const DICT_METHODS: Readonly<Record<string, Method<Dict>>> = {
  copy: (of, given, budget) => {
    bound('copy', [], given);
    budget.members(of.size);
    return new Dict(of.entries());
  },
  get: (of, given) => {
    const [key = null, fallback = null] = bound('get', ['key', 'default'], given);
    const value = of.get(key);
    return value === undefined ? fallback : value;
  },
  items: view('dict_items', (of) => of.entries().map((entry) => tuple(...entry))),
  keys: view('dict_keys', (of) => of.keys()),
  values: view('dict_values', (of) => of.values()),
};

/** What Python's types have besides. Of dicts such a name is a method before it is a key. */
const REFUSED = {
  text: 'encode expandtabs format_map isidentifier isprintable maketrans translate'.split(' '),
  list: 'append clear extend insert pop remove reverse sort'.split(' '),
  dict: 'clear fromkeys pop popitem setdefault update'.split(' '),
};

/** A method by its name; null: the value has none of this name. @throws NotCovered */
export function methodOf(
  value: Value,
  name: string,
  budget: Budget,
): ((given: Given) => Value) | null {
  const found = <Of>(
    of: Of,
    methods: Readonly<Record<string, Method<Of>>>,
    refused: readonly string[],
  ): ((given: Given) => Value) | null => {
    if (Object.hasOwn(methods, name)) return (given) => methods[name]!(of, given, budget);
    if (refused.includes(name) || name.startsWith('__'))
      throw new NotCovered(`the method "${name}"`);
    return null;
  };
  if (typeof value === 'string') return found(value, TEXT_METHODS, REFUSED.text);
  if (Array.isArray(value)) return found(value, LIST_METHODS, REFUSED.list);
  if (value instanceof Items && value.kind === 'tuple')
    return found(value.members, TUPLE_METHODS, []);
  return value instanceof Dict ? found(value, DICT_METHODS, REFUSED.dict) : null;
}

export const METHODS: ReadonlySet<string> = new Set(
  [TEXT_METHODS, LIST_METHODS, TUPLE_METHODS, DICT_METHODS].flatMap((methods) =>
    Object.keys(methods),
  ),
);
