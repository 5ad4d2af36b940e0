/** Values as Python writes them: `str`, `repr` and `json.dumps`. */
import type { Budget } from './budget.js';
import { NotCovered, TemplateError } from './failures.js';
import { Callable, Dict, Items, order, typeName, Undefined, type Value } from './values.js';

/** @throws TemplateError */
export function str(value: Value, budget: Budget): string {
  if (typeof value === 'string') return value;
  if (value instanceof Undefined) return '';
  return repr(value, budget);
}

const INTEGER_DIGITS = 4300; // more is refused by Python itself

export function integerText(value: bigint): string {
  const text = value.toString();
  if (text.length > INTEGER_DIGITS)
    throw new TemplateError(`an integer has more than ${INTEGER_DIGITS} digits`);
  return text;
}

/** The shortest digits that give the float again, in Python's form. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0.0';
  const [mantissa = '', exponent = '0'] = value.toExponential().split('e');
  const power = Number(exponent);
  if (value !== 0 && (power < -4 || power >= 16))
    return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
  const digits = mantissa.replace(/[-.]/g, '');
  const sign = value < 0 ? '-' : '';
  if (power < 0) return `${sign}0.${'0'.repeat(-power - 1)}${digits}`;
  const whole = digits.slice(0, power + 1).padEnd(power + 1, '0');
  return `${sign}${whole}.${digits.slice(power + 1) || '0'}`;
}

/** A float with so many places behind the point, rounded by its exact value, ties to even. */
export function fixed(value: number, places: number): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (Math.abs(value) >= 1e21)
    return `${BigInt(value)}${places === 0 ? '' : `.${'0'.repeat(places)}`}`;
  const rounded = `${Object.is(value, -0) ? '-' : ''}${value.toFixed(places)}`;
  // toFixed takes a tie away from zero: an odd last digit of one is 1 less
  const isTie = /^50*$/.test(value.toFixed(100).split('.')[1]!.slice(places));
  const last = Number(rounded.at(-1));
  return isTie && last % 2 === 1 ? `${rounded.slice(0, -1)}${last - 1}` : rounded;
}

/**
 * What Python writes by its number. The noncharacters from U+FDD0 are not among them here: they are
 * the renderer's markers and are taken out of the text.
 */
const UNPRINTABLE = /(?![\ufdd0-\ufdef ])[\p{C}\p{Z}]|[\\'\n\r\t]/gu;

function textRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(UNPRINTABLE, (found) => {
    if (found === "'") return quote === "'" ? "\\'" : found;
    if ('\\\n\r\t'.includes(found)) return JSON.stringify(found).slice(1, -1);
    const code = found.codePointAt(0)!;
    if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`;
    return code <= 0xffff
      ? `\\u${code.toString(16).padStart(4, '0')}`
      : `\\U${code.toString(16).padStart(8, '0')}`;
  });
  return quote + escaped + quote;
}

/** @throws TemplateError */
export function repr(value: Value, budget: Budget): string {
  budget.enter();
  const text = reprOf(value, budget);
  budget.text(text.length);
  budget.leave();
  return text;
}

function reprOf(value: Value, budget: Budget): string {
  if (typeof value === 'string') return textRepr(value);
  if (typeof value === 'bigint') return integerText(value);
  if (typeof value === 'number') return floatText(value);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (value === null) return 'None';
  if (value instanceof Undefined) return 'Undefined';
  const members = (of: readonly Value[]): string =>
    of.map((member) => repr(member, budget)).join(', ');
  if (Array.isArray(value)) return `[${members(value)}]`;
  if (value instanceof Dict)
    return `{${value
      .entries()
      .map(([key, member]) => `${repr(key, budget)}: ${repr(member, budget)}`)
      .join(', ')}}`;
  if (value instanceof Items) return itemsRepr(value, members);
  throw new NotCovered(
    `the text of ${value instanceof Callable ? `the function ${value.name}` : typeName(value)}`,
  );
}

function itemsRepr({ kind, members }: Items, texts: (of: readonly Value[]) => string): string {
  if (kind === 'tuple')
    return members.length === 1 ? `(${texts(members)},)` : `(${texts(members)})`;
  if (kind === 'generator' || kind === 'range') throw new NotCovered(`the text of a ${kind}`);
  return `${kind}([${texts(members)}])`;
}

export interface JsonForm {
  readonly indent: string | null;
  readonly item: string;
  readonly key: string;
  readonly ascii: boolean;
  readonly sorted: boolean;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: what JSON has to escape
const JSON_ESCAPED = /["\\\x00-\x1f]/g;
const NOT_ASCII = /[\x7f-\uffff]/g;
const JSON_SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
};
const unicodeEscape = (found: string): string =>
  `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;

function jsonText(text: string, ascii: boolean): string {
  const escaped = text.replace(JSON_ESCAPED, (found) => JSON_SHORT[found] ?? unicodeEscape(found));
  // a marker of the renderer's stays what it is
  const plain = ascii
    ? escaped.replace(NOT_ASCII, (found) =>
        /[\ufdd0-\ufdef]/.test(found) ? found : unicodeEscape(found),
      )
    : escaped;
  return `"${plain}"`;
}

/** As `json.dumps`. @throws TemplateError */
export function json(value: Value, form: JsonForm, budget: Budget, level = 0): string {
  budget.enter();
  const text = jsonOf(value, form, budget, level);
  budget.text(text.length);
  budget.leave();
  return text;
}

function jsonOf(value: Value, form: JsonForm, budget: Budget, level: number): string {
  if (typeof value === 'string') return jsonText(value, form.ascii);
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'bigint') return integerText(value);
  if (typeof value === 'number')
    return Number.isNaN(value)
      ? 'NaN'
      : Number.isFinite(value)
        ? floatText(value)
        : value > 0
          ? 'Infinity'
          : '-Infinity';
  const wrapped = (open: string, parts: readonly string[], close: string): string => {
    if (parts.length === 0) return open + close;
    if (form.indent === null) return open + parts.join(form.item) + close;
    const line = (depth: number): string => {
      budget.text(depth * form.indent!.length);
      return `\n${form.indent!.repeat(depth)}`;
    };
    return open + line(level + 1) + parts.join(form.item + line(level + 1)) + line(level) + close;
  };
  if (Array.isArray(value) || (value instanceof Items && value.kind === 'tuple')) {
    const members = Array.isArray(value) ? value : value.members;
    return wrapped(
      '[',
      members.map((member) => json(member, form, budget, level + 1)),
      ']',
    );
  }
  if (value instanceof Dict) {
    const entries = value.entries();
    if (form.sorted) entries.sort(([a], [b]) => order(a, b, budget));
    return wrapped(
      '{',
      entries.map(
        ([key, member]) =>
          jsonText(jsonKey(key), form.ascii) + form.key + json(member, form, budget, level + 1),
      ),
      '}',
    );
  }
  throw new TemplateError(`${typeName(value)} cannot be written as JSON`);
}

function jsonKey(key: Value): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'bigint') return integerText(key);
  return typeof key === 'number' ? floatText(key) : String(key as boolean | null);
}
