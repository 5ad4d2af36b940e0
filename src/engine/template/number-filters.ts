/** Filters that make numbers, or round them. */
import { bound } from './arguments.js';
import type { Budget } from './budget.js';
import { NotCovered, TemplateError } from './failures.js';
import type { Filter } from './filter.js';
import { stripped } from './methods.js';
import { fixed } from './python-text.js';
import { integerOf, numeric, typeName, Undefined } from './values.js';

/** Python reads no longer one. */
const LONGEST_INTEGER = 4300;
const INTEGER = /^[+-]?\d+(?:_\d+)*$/;
const FLOAT = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?$/i;
const WORD = /^([+-]?)(inf(?:inity)?|nan)$/i;
/** Around a number. Of `str.isspace`, Python's numbers do not take U+001C to U+001F. */
const BLANKS =
  '\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
const LARGEST_PRECISION = 40;

/**
 * The text of a number without the white space around it.
 * @throws NotCovered where its digits are of another script
 */
function bareOf(text: string, name: string, budget: Budget): string {
  const bare = stripped(text, 'both', BLANKS, budget);
  if (/(?![0-9])\p{Nd}/u.test(bare))
    throw new NotCovered(`the filter "${name}" with digits other than 0 to 9`);
  return bare;
}

function floatOf(bare: string): number | null {
  if (FLOAT.test(bare)) return Number(bare.replaceAll('_', ''));
  const [, sign, word] = WORD.exec(bare) ?? [];
  if (word === undefined) return null;
  return /^n/i.test(word) ? NaN : sign === '-' ? -Infinity : Infinity;
}

const toFloat: Filter = (of, given, { budget }) => {
  const [otherwise = 0] = bound('float', ['default'], given);
  if (of instanceof Undefined) of.fail();
  if (typeof of === 'string') return floatOf(bareOf(of, 'float', budget)) ?? otherwise;
  const number = numeric(of);
  return number === null ? otherwise : Number(number);
};

const toInteger: Filter = (of, given, { budget }) => {
  const [otherwise = 0n, base = 10n] = bound('int', ['default', 'base'], given);
  if (of instanceof Undefined) of.fail();
  if (typeof of === 'string' && base !== 10n) throw new NotCovered('the filter "int" with a base');
  const bare = typeof of === 'string' ? bareOf(of, 'int', budget) : null;
  if (bare !== null && INTEGER.test(bare) && bare.length < LONGEST_INTEGER)
    return BigInt(bare.replaceAll('_', ''));
  const number = bare === null ? numeric(of) : floatOf(bare);
  if (typeof number === 'bigint') return number;
  return number === null || !Number.isFinite(number) ? otherwise : BigInt(Math.trunc(number));
};

/** To tens, hundreds and so on; ties to even. */
function roundedTo(value: number, unit: number): number {
  const units = value / unit;
  const nearest = Math.round(units);
  return (Math.abs(units % 1) === 0.5 && nearest % 2 !== 0 ? nearest - 1 : nearest) * unit;
}

const toRound: Filter = (of, given) => {
  const [precision = 0n, method = 'common'] = bound('round', ['precision', 'method'], given);
  const number = numeric(of);
  if (number === null) {
    if (of instanceof Undefined) of.fail();
    throw new TemplateError(`${typeName(of)} cannot be rounded`);
  }
  const places = integerOf(precision, 'a precision');
  if (Math.abs(places) > LARGEST_PRECISION)
    throw new TemplateError(`the precision exceeds ${LARGEST_PRECISION}`);
  if (method === 'common') {
    if (typeof number === 'number')
      return places < 0 ? roundedTo(number, 10 ** -places) : Number(fixed(number, places));
    if (places < 0)
      throw new NotCovered('the filter "round" with a negative precision of an integer');
    return number;
  }
  if (method !== 'ceil' && method !== 'floor')
    throw new TemplateError('the method of round must be common, ceil or floor');
  const scaled = Number(number) * 10 ** places;
  return (method === 'ceil' ? Math.ceil(scaled) : Math.floor(scaled)) / 10 ** places;
};

const absolute: Filter = (of, given) => {
  bound('abs', [], given);
  const number = numeric(of);
  if (number === null) throw new TemplateError(`${typeName(of)} has no absolute value`);
  return typeof number === 'number' ? Math.abs(number) : number < 0n ? -number : number;
};

export const NUMBER_FILTERS = { abs: absolute, float: toFloat, int: toInteger, round: toRound };
