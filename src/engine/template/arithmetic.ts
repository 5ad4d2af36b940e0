/**
 * Operators as Python has them: integers of any size, whose results are bounded; floats; texts and
 * lists.
 */
import type { Budget } from './budget.js';
import { NotCovered, TemplateError, TemplateLimit } from './failures.js';
import { fixed, integerText, repr, str } from './python-text.js';
import type { Operator } from './syntax.js';
import {
  characters,
  integerOf,
  isWide,
  Items,
  iterated,
  numeric,
  tuple,
  typeName,
  Undefined,
  type Numeric,
  type Value,
} from './values.js';

/** Python itself writes no integer of more than 4,300 digits. */
const MOST_BITS = 15_000;
const MOST = 2n ** BigInt(MOST_BITS);

function checkedInteger(value: bigint): bigint {
  if (value > MOST || value < -MOST)
    throw new TemplateLimit('it creates an integer of more than 4,300 digits');
  return value;
}

/** @throws TemplateError */
export function operation(operator: Operator, left: Value, right: Value, budget: Budget): Value {
  const [a, b] = [numeric(left), numeric(right)];
  if (a !== null && b !== null) return ofNumbers(operator, a, b);
  if (operator === '%' && typeof left === 'string') return formatted(left, right, budget);
  if (operator === '+') {
    if (typeof left === 'string' && typeof right === 'string') return budget.joined(left, right);
    if (Array.isArray(left) && Array.isArray(right)) {
      budget.members(left.length + right.length);
      return [...left, ...right];
    }
    if (
      left instanceof Items &&
      right instanceof Items &&
      left.kind === 'tuple' &&
      right.kind === 'tuple'
    ) {
      budget.members(left.members.length + right.members.length);
      return tuple(...left.members, ...right.members);
    }
  }
  if (operator === '*') {
    const repeated = typeof a === 'bigint' ? [right, a] : typeof b === 'bigint' ? [left, b] : null;
    if (repeated !== null) {
      const [what, times] = repeated as [Value, bigint];
      const count = Math.max(0, integerOf(times, 'a number of repetitions'));
      if (typeof what === 'string') {
        budget.text(what.length * count);
        return what.repeat(count);
      }
      if (Array.isArray(what)) {
        budget.members(what.length * count);
        return Array.from({ length: what.length * count }, (_, i) => what[i % what.length]!);
      }
    }
  }
  for (const side of [left, right]) if (side instanceof Undefined) side.fail();
  throw new TemplateError(
    `"${operator}" is not defined for ${typeName(left)} and ${typeName(right)}`,
  );
}

function ofNumbers(operator: Operator, left: Numeric, right: Numeric): Value {
  if (operator === '/') return quotient(left, right);
  if (typeof left === 'bigint' && typeof right === 'bigint')
    return ofIntegers(operator, left, right);
  const [a, b] = [Number(left), Number(right)];
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '**': {
      const power = a ** b;
      if (a === 0 && b < 0) throw new TemplateError('zero cannot be raised to a negative power');
      if (Number.isNaN(power) && !Number.isNaN(a) && !Number.isNaN(b))
        throw new TemplateError('the result of a power is not a real number');
      return power;
    }
    default:
  }
  if (b === 0) throw new TemplateError('division by zero');
  // as CPython's float_divmod: the remainder has the sign of the divisor
  let remainder = a % b;
  if (remainder !== 0 && remainder < 0 !== b < 0) remainder += b;
  else if (remainder === 0) remainder = b < 0 ? -0 : 0;
  if (operator === '%') return remainder;
  const exact = (a - (Number.isFinite(b) ? remainder : a % b)) / b;
  const floor = Math.floor(exact);
  return exact - floor > 0.5 ? floor + 1 : floor;
}

function quotient(left: Numeric, right: Numeric): number {
  if (Number(right) === 0) throw new TemplateError('division by zero');
  return Number(left) / Number(right);
}

function ofIntegers(operator: Operator, left: bigint, right: bigint): Value {
  switch (operator) {
    case '+':
      return checkedInteger(left + right);
    case '-':
      return checkedInteger(left - right);
    case '*':
      return checkedInteger(left * right);
    case '**':
      return power(left, right);
    default:
  }
  if (right === 0n) throw new TemplateError('division by zero');
  const remainder = left % right;
  const isOff = remainder !== 0n && remainder < 0n !== right < 0n;
  if (operator === '%') return isOff ? remainder + right : remainder;
  return isOff ? left / right - 1n : left / right;
}

function power(base: bigint, exponent: bigint): Value {
  if (exponent < 0n) {
    if (base === 0n) throw new TemplateError('zero cannot be raised to a negative power');
    return Number(base) ** Number(exponent);
  }
  const bits = BigInt((base < 0n ? -base : base).toString(2).length);
  if (base !== 0n && base !== 1n && base !== -1n && (bits - 1n) * exponent > BigInt(MOST_BITS))
    checkedInteger(MOST + 1n);
  return checkedInteger(base ** exponent);
}

export function negative(value: Value): Value {
  const number = numeric(value);
  if (number !== null) return -number;
  if (value instanceof Undefined) value.fail();
  throw new TemplateError(`a sign cannot be applied to ${typeName(value)}`);
}

/** `value[at]`; undefined where there is none. */
export function itemOf(members: readonly Value[] | string, at: bigint): Value | undefined {
  const list = typeof members === 'string' && isWide(members) ? characters(members) : members;
  return list[Number(at < 0n ? BigInt(list.length) + at : at)];
}

/** `value[from:to:step]`. @throws TemplateError */
export function slice(
  value: Value,
  [from, to, step]: readonly (Value | null)[],
  budget: Budget,
): Value {
  if (value instanceof Undefined) value.fail();
  const isSequence =
    typeof value === 'string' ||
    Array.isArray(value) ||
    (value instanceof Items && (value.kind === 'tuple' || value.kind === 'range'));
  if (!isSequence) throw new TemplateError(`${typeName(value)} cannot be sliced`);
  if (typeof value === 'string') budget.read(value.length);
  const list =
    typeof value === 'string'
      ? isWide(value)
        ? characters(value)
        : value
      : value instanceof Items
        ? value.members
        : value;
  const by = step == null ? 1 : integerOf(step, 'a step');
  if (by === 0) throw new TemplateError('the step of a slice is 0');
  const { length } = list;
  const bound = (given: Value | null | undefined, fallback: number): number => {
    if (given == null) return fallback;
    const at = integerOf(given, 'a slice bound');
    const [low, high] = by < 0 ? [-1, length - 1] : [0, length];
    return Math.min(high, Math.max(low, at < 0 ? at + length : at));
  };
  const first = bound(from, by < 0 ? length - 1 : 0);
  const end = bound(to, by < 0 ? -1 : length);
  if (typeof list === 'string' && by === 1) {
    budget.text(Math.max(0, end - first));
    return list.slice(first, Math.max(first, end));
  }
  const count = Math.max(0, Math.ceil((end - first) / by));
  budget.members(count);
  const members = Array.from({ length: count }, (_, i) => list[first + i * by]!);
  if (typeof value === 'string') return members.join('');
  return value instanceof Items ? new Items(value.kind, members) : members;
}

const CONVERSION = /%(?:%|([-+ 0#]*)(\d*)(?:\.(\d*))?([a-zA-Z])|[^]?)/g;
const WIDEST = 10_000;
const LARGEST_PRECISION = 100;

/** `text % values`, of conversions without names. @throws TemplateError */
export function formatted(text: string, values: Value, budget: Budget): string {
  budget.read(text.length);
  const given = values instanceof Items && values.kind === 'tuple' ? values.members : [values];
  let next = 0;
  const filled = text.replace(
    CONVERSION,
    (whole, flags?: string, width = '', precision?: string, type?: string) => {
      if (whole === '%%') return '%';
      if (flags === undefined || type === undefined)
        throw new NotCovered(`the format conversion ${JSON.stringify(whole)}`);
      if (next >= given.length)
        throw new TemplateError(`${JSON.stringify(text)} needs more than ${given.length} values`);
      if (Number(width) > WIDEST)
        throw new TemplateLimit(`a format conversion is wider than ${WIDEST} characters`);
      if (Number(precision ?? 0) > LARGEST_PRECISION)
        throw new TemplateLimit(
          `a format conversion has more than ${LARGEST_PRECISION} decimal places`,
        );
      const done = converted(given[next++]!, flags, precision, type, budget);
      const padded = flags.includes('-')
        ? done.padEnd(Number(width))
        : flags.includes('0') && type !== 's' && type !== 'r'
          ? done.replace(
              /^[-+ ]?/,
              (sign) => sign + '0'.repeat(Math.max(0, Number(width) - done.length)),
            )
          : done.padStart(Number(width));
      budget.text(padded.length);
      return padded;
    },
  );
  if (next < given.length)
    throw new TemplateError(`${JSON.stringify(text)} does not use all ${given.length} values`);
  return filled;
}

function converted(
  value: Value,
  flags: string,
  precision: string | undefined,
  type: string,
  budget: Budget,
): string {
  if (type === 's' || type === 'r') {
    const text = type === 's' ? str(value, budget) : repr(value, budget);
    return precision === undefined ? text : characters(text).slice(0, Number(precision)).join('');
  }
  if (!'dif'.includes(type)) throw new NotCovered(`the format conversion "%${type}"`);
  const number = numeric(value);
  if (number === null)
    throw new TemplateError(
      `the format conversion "%${type}" needs a number, not ${typeName(value)}`,
    );
  const text =
    type === 'f'
      ? fixed(Number(number), Number(precision ?? 6))
      : integerText(typeof number === 'bigint' ? number : BigInt(Math.trunc(number)));
  return text.startsWith('-')
    ? text
    : (flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '') + text;
}

/** A sum of what is gone through, as of the filter `sum`. */
export const total = (values: Value, start: Value, budget: Budget): Value =>
  iterated(values, budget).reduce((sum: Value, value) => operation('+', sum, value, budget), start);
