/** Whole numbers within bounds as alternatives of a GBNF rule. */

/** Digits of a number without a bound on its side. */
const DIGITS = 16;

const digitClass = (from: number, to: number): string =>
  from === to ? `"${from}"` : `[${from}-${to}]`;
const anyDigits = (count: number): string =>
  count === 0 ? '' : count === 1 ? ' [0-9]' : ` [0-9]{${count}}`;

/**
 * Alternatives that together are all numbers of so many digits from `low` to `high`, both written
 * with all of them.
 */
function digitsBetween(low: string, high: string): string[] {
  const [first, last, rest] = [Number(low[0]), Number(high[0]), low.length - 1];
  if (rest === 0) return [digitClass(first, last)];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  const [zeros, nines] = ['0'.repeat(rest), '9'.repeat(rest)];
  const within = (digit: number, from: string, to: string): string[] =>
    from === zeros && to === nines
      ? [`"${digit}"${anyDigits(rest)}`]
      : digitsBetween(from, to).map((each) => `"${digit}" ${each}`);
  if (first === last) return within(first, lowRest, highRest);
  const [begin, end] = [
    lowRest === zeros ? first : first + 1,
    highRest === nines ? last : last - 1,
  ];
  return [
    ...(begin === first ? [] : within(first, lowRest, nines)),
    ...(begin > end ? [] : [`${digitClass(begin, end)}${anyDigits(rest)}`]),
    ...(end === last ? [] : within(last, zeros, highRest)),
  ];
}

/** Whole numbers of at least 1, without a sign. */
function positivesBetween(low: number, high: number): string[] {
  const most = high === Infinity ? '9'.repeat(DIGITS) : String(high);
  const least = String(low);
  const found: string[] = [];
  for (let digits = least.length; digits <= most.length; digits++) {
    const from = digits === least.length ? least : `1${'0'.repeat(digits - 1)}`;
    const to = digits === most.length ? most : '9'.repeat(digits);
    found.push(...digitsBetween(from, to));
  }
  return found;
}

/** Whole numbers from `low` to `high`, which may be infinite. */
export function integersBetween(low: number, high: number): string {
  const negative = low < 0 ? positivesBetween(Math.max(1, -high), -low) : [];
  const positive = high > 0 ? positivesBetween(Math.max(1, low), high) : [];
  return [
    ...negative.map((each) => `"-" ${each}`),
    ...(low <= 0 && high >= 0 ? ['"0"'] : []),
    ...positive,
  ].join(' | ');
}
