/** Filters as jinja2 3.1 has them, and `tojson` as transformers has it. */
import { bound } from './arguments.js';
import { formatted, total } from './arithmetic.js';
import type { Budget } from './budget.js';
import { NotCovered, TemplateError, TemplateLimit } from './failures.js';
import type { Filter, Runner } from './filter.js';
import { capitalized, lower, upper } from './letters.js';
import { linesOf, paddedTo, replaced, stripped } from './methods.js';
import { NUMBER_FILTERS } from './number-filters.js';
import { json, str } from './python-text.js';
import {
  characters,
  Dict,
  equal,
  integerOf,
  Items,
  iterated,
  lengthOf,
  order,
  textOf,
  truth,
  tuple,
  typeName,
  Undefined,
  type Given,
  type Value,
} from './values.js';

/** Of `\w+`, whose marks Python leaves out. */
const WORD = /[\p{L}\p{N}_]+/gu;

const plain =
  (change: (text: string) => string): Filter =>
  (of, given, { budget }) => {
    bound('the filter', [], given);
    const text = str(of, budget);
    budget.text(text.length);
    return change(text);
  };

/** Texts compare without regard to case unless asked for. */
const folded = (value: Value, caseSensitive: boolean): Value =>
  typeof value === 'string' && !caseSensitive ? lower(value) : value;

function sorted(
  members: readonly Value[],
  keyOf: (value: Value) => Value,
  { reverse, caseSensitive, budget }: { reverse: boolean; caseSensitive: boolean; budget: Budget },
): Value[] {
  budget.members(2 * members.length);
  const keyed = members.map((value) => ({ value, key: folded(keyOf(value), caseSensitive) }));
  // Python keeps the order of what is equal in either direction
  keyed.sort((a, b) => (reverse ? order(b.key, a.key, budget) : order(a.key, b.key, budget)));
  return keyed.map(({ value }) => value);
}

/** The paths of attributes that a filter sorts by: several with commas between them. */
const keyBy =
  (attribute: Value | undefined, runner: Runner, caseSensitive: boolean) =>
  (value: Value): Value => {
    if (attribute == null) return value;
    const paths = typeof attribute === 'string' ? attribute.split(',') : [attribute];
    const keys = paths.map((path) => folded(runner.attribute(value, path), caseSensitive));
    return keys.length === 1 ? keys[0]! : [...keys];
  };

const BY_ATTRIBUTE = ['case_sensitive', 'attribute'];

/** A member, or what an attribute of it names. */
const attributeOf =
  (attribute: Value | undefined, runner: Runner) =>
  (member: Value): Value =>
    attribute == null ? member : runner.attribute(member, attribute);

const extreme =
  (sign: 1 | -1): Filter =>
  (of, given, runner) => {
    const name = sign < 0 ? 'min' : 'max';
    const [caseSensitive = false, attribute] = bound(name, BY_ATTRIBUTE, given);
    const members = iterated(of, runner.budget);
    if (members.length === 0) return new Undefined('an empty list has no minimum or maximum');
    const named = attributeOf(attribute, runner);
    const keyOf = (value: Value): Value => folded(named(value), truth(caseSensitive));
    return members.reduce((best, value) =>
      sign * order(keyOf(value), keyOf(best), runner.budget) > 0 ? value : best,
    );
  };

/** `map` and the kin of `select`: a test of members, or of an attribute of theirs. */
const selecting =
  (keeps: boolean, byAttribute: boolean): Filter =>
  (of, { positional, keywords }, runner) => {
    const [path, ...rest] = byAttribute ? positional : [null, ...positional];
    if (path === undefined) throw new TemplateError('the name of an attribute is missing');
    const [name, ...args] = rest;
    const members = iterated(of, runner.budget).filter((member) => {
      const value = path === null ? member : runner.attribute(member, path);
      const holds =
        name === undefined
          ? truth(value)
          : runner.test(textOf(name, 'the name of a test'), value, { positional: args, keywords });
      return holds === keeps;
    });
    runner.budget.members(members.length);
    return new Items('generator', members);
  };

const map: Filter = (of, { positional, keywords }, runner) => {
  const members = iterated(of, runner.budget);
  runner.budget.members(members.length);
  const attribute = keywords.get('attribute');
  if (positional.length === 0 && attribute !== undefined) {
    for (const name of keywords.keys())
      if (name !== 'attribute' && name !== 'default')
        throw new TemplateError(`map has no parameter "${name}"`);
    const fallback = keywords.get('default');
    return new Items(
      'generator',
      members.map((member) => {
        const value = runner.attribute(member, attribute);
        return value instanceof Undefined && fallback !== undefined ? fallback : value;
      }),
    );
  }
  const [name, ...args] = positional;
  const filter = textOf(name ?? new Undefined('map needs a filter'), 'the name of a filter');
  return new Items(
    'generator',
    members.map((member) => runner.filter(filter, member, { positional: args, keywords })),
  );
};

const fallback: Filter = (of, given) => {
  const [value = '', boolean = false] = bound('default', ['default_value', 'boolean'], given);
  return of instanceof Undefined || (truth(boolean) && !truth(of)) ? value : of;
};

const length: Filter = (of, given, { budget }) => {
  bound('length', [], given);
  if (typeof of === 'string') {
    budget.read(of.length);
    return BigInt(lengthOf(of));
  }
  if (of instanceof Dict) return BigInt(of.size);
  if (of instanceof Undefined) return 0n;
  const members = Array.isArray(of)
    ? of
    : of instanceof Items && of.kind !== 'generator'
      ? of.members
      : null;
  if (members === null) throw new TemplateError(`${typeName(of)} has no length`);
  return BigInt(members.length);
};

const batch: Filter = (of, given, { budget }) => {
  const [count, fill] = bound('batch', ['linecount', 'fill_with'], given);
  const size = integerOf(count ?? new Undefined('the length is missing'), 'the length');
  if (size < 1) throw new TemplateError('a batch needs at least one member');
  const members = iterated(of, budget);
  budget.members(members.length);
  const batches: Value[][] = [];
  for (let at = 0; at < members.length; at += size) batches.push(members.slice(at, at + size));
  const last = batches.at(-1);
  if (last !== undefined && fill != null) {
    budget.members(size - last.length);
    while (last.length < size) last.push(fill);
  }
  return new Items('generator', batches);
};

const slices: Filter = (of, given, { budget }) => {
  const [count, fill] = bound('slice', ['slices', 'fill_with'], given);
  const columns = integerOf(
    count ?? new Undefined('the number of slices is missing'),
    'the number of slices',
  );
  if (columns < 1) throw new TemplateError('slice needs at least one slice');
  const members = iterated(of, budget);
  budget.members(members.length + columns);
  const size = Math.floor(members.length / columns);
  const longer = members.length % columns;
  const found = Array.from({ length: columns }, (_, i) => {
    const begin = i * size + Math.min(i, longer);
    const part = members.slice(begin, begin + size + (i < longer ? 1 : 0));
    return fill != null && i >= longer ? [...part, fill] : part;
  });
  return new Items('generator', found);
};

const indent: Filter = (of, given, { budget }) => {
  const [width = 4n, first = false, blank = false] = bound(
    'indent',
    ['width', 'first', 'blank'],
    given,
  );
  const text = `${str(of, budget)}\n`;
  const size = typeof width === 'string' ? 0 : Math.max(0, integerOf(width, 'a width'));
  if (size > 10_000) throw new TemplateLimit('an indent is wider than 10,000 characters');
  const spaces = typeof width === 'string' ? width : ' '.repeat(size);
  const lines = linesOf(text, false);
  budget.text(text.length + lines.length * spaces.length);
  const indented = lines
    .map((line, i) => (i === 0 ? line : line !== '' || truth(blank) ? spaces + line : line))
    .join('\n');
  return (truth(first) ? spaces : '') + indented;
};

const tojson: Filter = (of, given, { budget }) => {
  const [ascii = false, indent = null, separators = null, sort = false] = bound(
    'tojson',
    ['ensure_ascii', 'indent', 'separators', 'sort_keys'],
    given,
  );
  const pair =
    separators === null
      ? null
      : iterated(separators, budget).map((text) => textOf(text, 'a separator'));
  if (pair !== null && pair.length !== 2)
    throw new TemplateError('tojson needs exactly two separators');
  if (typeof indent !== 'string' && indent !== null && integerOf(indent, 'an indent') > 1000)
    throw new TemplateLimit('an indent is wider than 1,000 characters');
  const spaces =
    typeof indent === 'string' || indent === null
      ? indent
      : ' '.repeat(Math.max(0, integerOf(indent, 'an indent')));
  const [item, key] = pair ?? [spaces === null ? ', ' : ',', ': '];
  return json(
    of,
    { indent: spaces, item: item!, key: key!, ascii: truth(ascii), sorted: truth(sort) },
    budget,
  );
};

const dictsort: Filter = (of, given, runner) => {
  const [caseSensitive = false, by = 'key', reverse = false] = bound(
    'dictsort',
    ['case_sensitive', 'by', 'reverse'],
    given,
  );
  if (!(of instanceof Dict)) throw new TemplateError(`dictsort needs a dict, not ${typeName(of)}`);
  if (by !== 'key' && by !== 'value') throw new TemplateError('dictsort sorts by key or by value');
  const entries = of.entries().map((entry) => tuple(...entry));
  const at = by === 'key' ? 0 : 1;
  return sorted(entries, (entry) => (entry as Items).members[at]!, {
    reverse: truth(reverse),
    caseSensitive: truth(caseSensitive),
    budget: runner.budget,
  });
};

const join: Filter = (of, given, runner) => {
  const [separator = '', attribute] = bound('join', ['d', 'attribute'], given);
  const { budget } = runner;
  const between = str(separator, budget);
  const named = attributeOf(attribute, runner);
  const texts = iterated(of, budget).map((member) => {
    const text = str(named(member), budget);
    budget.text(text.length + between.length);
    return text;
  });
  return texts.join(between);
};

const unique: Filter = (of, given, runner) => {
  const [caseSensitive = false, attribute] = bound('unique', BY_ATTRIBUTE, given);
  const named = attributeOf(attribute, runner);
  const seen = new Dict();
  const members = iterated(of, runner.budget).filter((member) => {
    const key = folded(named(member), truth(caseSensitive));
    const isNew = seen.get(key) === undefined;
    if (isNew) seen.set(key, true);
    return isNew;
  });
  runner.budget.members(members.length);
  return new Items('generator', members);
};

const reverse: Filter = (of, given, { budget }) => {
  bound('reverse', [], given);
  if (typeof of === 'string') {
    budget.members(of.length);
    return [...characters(of)].reverse().join('');
  }
  const members = iterated(of, budget);
  budget.members(members.length);
  return new Items('generator', [...members].reverse());
};

const FILTERS: Readonly<Record<string, Filter>> = {
  ...NUMBER_FILTERS,
  batch,
  capitalize: plain(capitalized),
  center: (of, given, { budget }) => {
    const [width = 80n] = bound('center', ['width'], given);
    return paddedTo(str(of, budget), integerOf(width, 'a width'), 'both', ' ', budget);
  },
  count: length,
  d: fallback,
  default: fallback,
  dictsort,
  first: (of, given, { budget }) => {
    bound('first', [], given);
    const members = iterated(of, budget);
    return members.length === 0 ? new Undefined('an empty list has no first member') : members[0]!;
  },
  format: (of, { positional, keywords }, { budget }) => {
    if (keywords.size > 0) throw new NotCovered('the filter "format" with names');
    return formatted(str(of, budget), tuple(...positional), budget);
  },
  indent,
  items: (of, given, { budget }) => {
    bound('items', [], given);
    if (of instanceof Undefined) return new Items('generator', []);
    if (!(of instanceof Dict)) throw new TemplateError(`items needs a dict, not ${typeName(of)}`);
    budget.members(of.size);
    return new Items(
      'generator',
      of.entries().map((entry) => tuple(...entry)),
    );
  },
  join,
  last: (of, given, { budget }) => {
    bound('last', [], given);
    if (of instanceof Items && of.kind === 'generator')
      throw new TemplateError('a generator has no last member');
    const members = iterated(of, budget);
    return members.length === 0
      ? new Undefined('an empty list has no last member')
      : members.at(-1)!;
  },
  length,
  list: (of, given, { budget }) => {
    bound('list', [], given);
    const members = iterated(of, budget);
    budget.members(members.length);
    return [...members];
  },
  lower: plain(lower),
  map,
  max: extreme(1),
  min: extreme(-1),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  replace: (of, given, { budget }) => {
    const [from, to, count] = bound('replace', ['old', 'new', 'count'], given);
    if (from === undefined || to === undefined)
      throw new TemplateError('replace needs the text to replace and its replacement');
    const most = count == null ? -1 : integerOf(count, 'a count');
    return replaced(str(of, budget), str(from, budget), str(to, budget), most, budget);
  },
  reverse,
  select: selecting(true, false),
  selectattr: selecting(true, true),
  slice: slices,
  sort: (of, given, runner) => {
    const [reversed = false, caseSensitive = false, attribute] = bound(
      'sort',
      ['reverse', 'case_sensitive', 'attribute'],
      given,
    );
    const sensitive = truth(caseSensitive);
    return sorted(iterated(of, runner.budget), keyBy(attribute, runner, sensitive), {
      reverse: truth(reversed),
      caseSensitive: sensitive,
      budget: runner.budget,
    });
  },
  string: (of, given, { budget }) => {
    bound('string', [], given);
    return str(of, budget);
  },
  sum: (of, given, runner) => {
    const [attribute, start = 0n] = bound('sum', ['attribute', 'start'], given);
    if (typeof start === 'string') throw new TemplateError('strings cannot be summed');
    const members = iterated(of, runner.budget).map(attributeOf(attribute, runner));
    return total(members, start, runner.budget);
  },
  title: plain((text) =>
    text
      .split(/([-\s({[<]+)/)
      .filter((part) => part !== '')
      .map((part) => upper(characters(part)[0]!) + lower(part.slice(characters(part)[0]!.length)))
      .join(''),
  ),
  tojson,
  trim: (of, given, { budget }) => {
    const [chars] = bound('trim', ['chars'], given);
    return stripped(
      str(of, budget),
      'both',
      chars == null ? null : textOf(chars, 'the characters to trim'),
      budget,
    );
  },
  unique,
  upper: plain(upper),
  wordcount: (of, given, { budget }) => {
    bound('wordcount', [], given);
    const text = str(of, budget);
    budget.read(text.length);
    return BigInt([...text.matchAll(WORD)].length);
  },
};

/**
 * `safe` is none where it ends an output, and is refused elsewhere: what is safe escapes what it is
 * joined with.
 */
export const FILTER_NAMES: ReadonlySet<string> = new Set([...Object.keys(FILTERS), 'safe']);

/** What a filter that is not covered is called; null: it is. */
export function uncoveredFilter(name: string): string | null {
  if (name === 'safe') return 'the filter "safe" within an expression';
  return Object.hasOwn(FILTERS, name) ? null : `the filter "${name}"`;
}

/** @throws NotCovered, TemplateError */
export function filtered(name: string, of: Value, given: Given, runner: Runner): Value {
  const uncovered = uncoveredFilter(name);
  if (uncovered !== null) throw new NotCovered(uncovered);
  return FILTERS[name]!(of, given, runner);
}

/** Whether two are the same to `sameas`: one value, not one of the same worth. */
export const isSame = (left: Value, right: Value, budget: Budget): boolean =>
  typeof left === 'object' && left !== null
    ? left === right
    : typeName(left) === typeName(right) && equal(left, right, budget);
