/** Decimal numbers with all their digits, however many: digits 10^exponent. */
export interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}

/**
 * More digits, or a larger exponent, than any number that somebody means; arithmetic on them would
 * cost time.
 */
const MOST_DIGITS = 1000;
const LARGEST_EXPONENT = 9999;

const DECIMAL = /^([-+]?)(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d{1,6}))?$/;

/**
 * Parses a number in ASCII with a decimal point; null if it is not one, or too large. The last
 * digit is not 0.
 */
export function decimalOf(text: string): Decimal | null {
  const [, sign, whole = '', part = '', power = '0'] = DECIMAL.exec(text) ?? [];
  if (sign === undefined || whole + part === '') return null;
  const all = `${whole}${part}`.replace(/^0+/, '');
  const kept = all.replace(/0+$/, '');
  if (kept === '') return { digits: 0n, exponent: 0 };
  const exponent = Number(power) - part.length + all.length - kept.length;
  if (kept.length > MOST_DIGITS || Math.abs(exponent) > LARGEST_EXPONENT) return null;
  return { digits: BigInt(`${sign === '-' ? '-' : ''}${kept}`), exponent };
}

/** Returns the same text for equal numbers, however they were written. */
export const decimalText = ({ digits, exponent }: Decimal): string =>
  exponent === 0 ? String(digits) : `${digits}e${exponent}`;

const absolute = (digits: bigint): bigint => (digits < 0n ? -digits : digits);

/** Digits of both in the unit of the smaller exponent. */
function aligned(a: Decimal, b: Decimal): [bigint, bigint] {
  const least = Math.min(a.exponent, b.exponent);
  return [
    a.digits * 10n ** BigInt(a.exponent - least),
    b.digits * 10n ** BigInt(b.exponent - least),
  ];
}

/** |a - b| <= tolerance, exactly. */
export function isNear(a: Decimal, b: Decimal, tolerance: Decimal): boolean {
  const [x, y] = aligned(a, b);
  const [difference, allowed] = aligned(
    { digits: absolute(x - y), exponent: Math.min(a.exponent, b.exponent) },
    tolerance,
  );
  return difference <= allowed;
}

export const times = (a: Decimal, b: Decimal): Decimal => ({
  digits: a.digits * b.digits,
  exponent: a.exponent + b.exponent,
});

export const magnitude = ({ digits, exponent }: Decimal): Decimal => ({
  digits: absolute(digits),
  exponent,
});

const EXACT_INTEGERS = 2 ** 53;
/** As many tell one double from every other. */
const DOUBLE_DIGITS = 17;

/**
 * Tests whether a double holds a number's text exactly; false for an integer beyond 2^53 that it
 * rounds, for more than 17 digits, for 1e400.
 */
export function isHeld(text: string): boolean {
  const value = Number(text);
  const written = decimalOf(text);
  if (written === null || !Number.isFinite(value) || (value === 0 && written.digits !== 0n))
    return false;
  const count = String(absolute(written.digits)).length;
  if (count <= DOUBLE_DIGITS && Math.abs(value) < EXACT_INTEGERS) return true;
  const kept = decimalOf(String(value))!;
  return kept.digits === written.digits && kept.exponent === written.exponent;
}
