/**
 * One number as people and models write it: sign (what stands between two numbers is none), thousands in groups of three, decimals,
 * exponent. Matched in linear time.
 */
const NUMBER = /(?:(?<![\p{L}\p{N}])[-\u2212+])?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|\.\d+)/gu;

/** Digits that are read; what is longer is no number that anybody meant, and would cost time. */
const MOST_CHARACTERS = 100_000;

const valueOf = (text: string): number | null => {
  const value = Number(text.replaceAll(',', '').replace('\u2212', '-'));
  return Number.isFinite(value) ? value : null;
};

/** The number that a text is, signs of currency and per cent aside; null where it is none, or more than one. */
export function readNumber(text: string): number | null {
  const found = text.slice(0, MOST_CHARACTERS).match(NUMBER) ?? [];
  const rest = text.replace(found[0] ?? '', '').trim();
  return found.length === 1 && /^[\p{Sc}%.\s]*$/u.test(rest) ? valueOf(found[0]!) : null;
}

/** The last number in a text; null where there is none. */
export function lastNumber(text: string): number | null {
  const found = text.slice(-MOST_CHARACTERS).match(NUMBER)?.at(-1);
  return found === undefined ? null : valueOf(found);
}
