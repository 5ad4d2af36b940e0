import type { Random } from '../../random.js';

/** A day as YYYY-MM-DD. */
export type Day = string;

const MILLISECONDS = 86_400_000;
export const addDays = (day: Day, days: number): Day =>
  new Date(Date.parse(day) + days * MILLISECONDS).toISOString().slice(0, 10);
const daysBetween = (from: Day, to: Day): number =>
  (Date.parse(to) - Date.parse(from)) / MILLISECONDS;

export type Currency = 'EUR' | 'USD' | 'GBP';
export const CURRENCIES: readonly Currency[] = ['EUR', 'USD', 'GBP'];
const SYMBOLS: Readonly<Record<Currency, string>> = { EUR: '€', USD: '$', GBP: '£' };
const NAMES: Readonly<Record<Currency, string>> = { EUR: 'euros', USD: 'dollars', GBP: 'pounds' };

const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );
const SMALL = (
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen ' +
  'nineteen'
).split(' ');
const TENS = 'zero ten twenty thirty forty fifty sixty seventy eighty ninety'.split(' ');

/** @param value 0 to 99 */
export function numberWord(value: number): string {
  if (value < 20) return SMALL[value]!;
  return value % 10 === 0
    ? TENS[value / 10]!
    : `${TENS[Math.floor(value / 10)]}-${SMALL[value % 10]}`;
}

/**
 * How freely values are spelled: as the answer wants them; by name and with signs; in every way
 * that has one reading.
 */
export type Spelling = 'plain' | 'named' | 'free';

const pick = <T>(random: Random, items: readonly T[]): T =>
  items[random.nextInteger(0, items.length - 1)]!;
const two = (value: number): string => String(value).padStart(2, '0');

export function spellInteger(random: Random, spelling: Spelling, value: number): string {
  return spelling !== 'plain' && value < 100 && random.nextInteger(0, 2) > 0
    ? numberWord(value)
    : String(value);
}

function ordinal(value: number): string {
  const last = value % 10;
  if (Math.floor(value / 10) === 1 || last === 0 || last > 3) return `${value}th`;
  return `${value}${['st', 'nd', 'rd'][last - 1]}`;
}

/** What the prompt says about the dates of a message, so that each has one reading. */
export interface DateContext {
  /** Stated in the prompt, or null; only then a date may be relative. */
  readonly today: Day | null;
  /**
   * Of dates with slashes: whether the day comes first; stated in the prompt, or null, and then
   * there are none.
   */
  readonly dayFirst: boolean | null;
}

export function spellDate(
  random: Random,
  spelling: Spelling,
  day: Day,
  { today, dayFirst }: DateContext,
): string {
  const [year, month, date] = day.split('-').map(Number) as [number, number, number];
  const name = MONTHS[month - 1]!;
  if (spelling === 'plain') return random.nextInteger(0, 1) === 0 ? day : `${date} ${name} ${year}`;
  const ways = [
    `${date} ${name} ${year}`,
    `${name} ${date}, ${year}`,
    `the ${ordinal(date)} of ${name} ${year}`,
  ];
  if (spelling === 'free' && dayFirst !== null) {
    const slashed = dayFirst
      ? `${two(date)}/${two(month)}/${year}`
      : `${two(month)}/${two(date)}/${year}`;
    ways.push(slashed, slashed);
  }
  const distance = today === null ? null : daysBetween(today, day);
  if (spelling === 'free' && distance !== null && Math.abs(distance) <= 9) {
    const near: Record<number, string> = { 0: 'today', 1: 'tomorrow', [-1]: 'yesterday' };
    const relative =
      near[distance] ??
      (distance > 0
        ? `${numberWord(distance)} days from today`
        : `${numberWord(-distance)} days ago`);
    ways.push(relative, relative, relative);
  }
  return pick(random, ways);
}

/** @param time HH:MM, from 08:00 to 21:59 */
export function spellTime(random: Random, spelling: Spelling, time: string): string {
  if (spelling === 'plain') return time;
  const [hour, minute] = time.split(':').map(Number) as [number, number];
  const half = hour < 12 ? 'am' : 'pm';
  const twelve = hour > 12 ? hour - 12 : hour;
  const ways = [`${twelve}:${two(minute)} ${half}`];
  if (minute === 0) ways.push(`${twelve} ${half}`);
  if (spelling === 'free') {
    ways.push(`${twelve}.${two(minute)} ${half}`);
    const part = hour < 12 ? 'in the morning' : hour < 18 ? 'in the afternoon' : 'in the evening';
    if (minute === 30) ways.push(`half past ${numberWord(twelve)} ${part}`);
    if (minute === 0) ways.push(`${numberWord(twelve)} o'clock ${part}`);
  }
  return pick(random, ways);
}

/** @param cents of the amount, 100 to 999,999 */
export function spellAmount(
  random: Random,
  spelling: Spelling,
  cents: number,
  currency: Currency,
): string {
  const [whole, rest] = [String(Math.floor(cents / 100)), two(cents % 100)];
  if (spelling === 'plain') return `${whole}.${rest} ${currency}`;
  const group = (separator: string): string => whole.replace(/\B(?=(\d{3})+$)/g, separator);
  const ways = [
    `${SYMBOLS[currency]}${group(',')}.${rest}`,
    `${group(',')}.${rest} ${NAMES[currency]}`,
  ];
  if (rest === '00') ways.push(`${SYMBOLS[currency]}${whole}`, `${whole} ${NAMES[currency]}`);
  if (spelling === 'free') {
    ways.push(`${group('.')},${rest} ${SYMBOLS[currency]}`, `${currency} ${group('.')},${rest}`);
    if (rest === '00' && cents < 10_000) ways.push(`${numberWord(cents / 100)} ${NAMES[currency]}`);
  }
  return pick(random, ways);
}
