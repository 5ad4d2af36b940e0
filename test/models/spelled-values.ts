/**
 * Reads values out of a message in words, knowing how people write them and nothing of the
 * generator: every day, time, amount and number that the text mentions, with the words that mention
 * it.
 */
export interface Mention {
  readonly kind: 'date' | 'time' | 'amount' | 'integer';
  readonly words: string;
  readonly value: string | number;
  /** Of an amount. */
  readonly currency?: string;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const MONTH =
  '(January|February|March|April|May|June|July|August|September|October|November|December)';
const UNITS =
  'zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen';
const TENS = 'twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety';
const WORD = `((?:${TENS})(?:-(?:${UNITS}))?|(?:${UNITS}))`;
const FIGURE = '(\\d(?:[\\d.,]*\\d)?)';

function ofWord(word: string): number {
  const [first, second] = word.toLowerCase().split('-');
  const unit = UNITS.split('|').indexOf(first!);
  if (unit >= 0) return unit;
  return (
    10 * (TENS.split('|').indexOf(first!) + 2) +
    (second === undefined ? 0 : UNITS.split('|').indexOf(second))
  );
}

/** The last separator with two digits behind it is the decimal one. */
function ofFigure(figure: string): number {
  const [, whole, cents] = /^(.*?)(?:[.,](\d\d))?$/.exec(figure)!;
  return Number(`${whole!.replace(/[.,]/g, '')}.${cents ?? '00'}`);
}

const CODES: Readonly<Record<string, string>> = {
  '€': 'EUR',
  $: 'USD',
  '£': 'GBP',
  euros: 'EUR',
  dollars: 'USD',
  pounds: 'GBP',
  EUR: 'EUR',
  USD: 'USD',
  GBP: 'GBP',
};
const day = (year: string | number, month: number, date: string | number): string =>
  `${year}-${String(month).padStart(2, '0')}-${String(date).padStart(2, '0')}`;
const month = (name: string): number => MONTHS.indexOf(name.slice(0, 3)) + 1;
const clock = (hour: number, minute: string, afternoon: boolean): string =>
  `${String((hour % 12) + (afternoon ? 12 : 0)).padStart(2, '0')}:${minute}`;

export function spelledValues(
  message: string,
  today: string | null,
  dayFirst: boolean | null,
): Mention[] {
  const away = (days: number): string => {
    if (today === null) throw new Error(`"${message}" is relative to a day that nobody states`);
    const [year, monthNumber, date] = today.split('-').map(Number) as [number, number, number];
    return new Date(Date.UTC(year, monthNumber - 1, date + days)).toISOString().slice(0, 10);
  };
  const rules: [
    Mention['kind'],
    string,
    (groups: string[]) => string | number | null,
    ((groups: string[]) => string)?,
  ][] = [
    ['date', `(\\d{4})-(\\d\\d)-(\\d\\d)`, ([y, m, d]) => day(y!, Number(m), d!)],
    [
      'date',
      `the (\\d{1,2})(?:st|nd|rd|th) of ${MONTH} (\\d{4})`,
      ([d, m, y]) => day(y!, month(m!), d!),
    ],
    ['date', `(\\d{1,2}) ${MONTH} (\\d{4})`, ([d, m, y]) => day(y!, month(m!), d!)],
    ['date', `${MONTH} (\\d{1,2}), (\\d{4})`, ([m, d, y]) => day(y!, month(m!), d!)],
    [
      'date',
      `(\\d\\d)/(\\d\\d)/(\\d{4})`,
      ([a, b, y]) => {
        if (dayFirst === null)
          throw new Error(`nobody states how to read the slashes of "${message}"`);
        return dayFirst ? day(y!, Number(b), a!) : day(y!, Number(a), b!);
      },
    ],
    ['date', `${WORD} days ago`, ([n]) => away(-ofWord(n!))],
    ['date', `${WORD} days from today`, ([n]) => away(ofWord(n!))],
    [
      'date',
      `(today|tomorrow|yesterday)`,
      ([w]) =>
        away(
          ({ today: 0, tomorrow: 1, yesterday: -1 } as Record<string, number>)[w!.toLowerCase()]!,
        ),
    ],
    [
      'time',
      `(\\d{1,2})[.:](\\d\\d) (am|pm)`,
      ([h, m, half]) => clock(Number(h), m!, half === 'pm'),
    ],
    ['time', `(\\d{1,2}) (am|pm)`, ([h, half]) => clock(Number(h), '00', half === 'pm')],
    [
      'time',
      `half past ${WORD} in the (morning|afternoon|evening)`,
      ([h, part]) => clock(ofWord(h!), '30', part !== 'morning'),
    ],
    [
      'time',
      `${WORD} o'clock in the (morning|afternoon|evening)`,
      ([h, part]) => clock(ofWord(h!), '00', part !== 'morning'),
    ],
    ['time', `(\\d\\d):(\\d\\d)`, ([h, m]) => `${h}:${m}`],
    ['amount', `([€$£])${FIGURE}`, ([, n]) => ofFigure(n!), ([sign]) => sign!],
    ['amount', `(EUR|USD|GBP) ${FIGURE}`, ([, n]) => ofFigure(n!), ([code]) => code!],
    [
      'amount',
      `${FIGURE} (€|\\$|£|EUR|USD|GBP|euros|dollars|pounds)`,
      ([n]) => ofFigure(n!),
      ([, name]) => name!,
    ],
    ['amount', `${WORD} (euros|dollars|pounds)`, ([n]) => ofWord(n!), ([, name]) => name!],
    ['integer', `${FIGURE}`, ([n]) => (/^\d+$/.test(n!) ? Number(n) : null)],
    ['integer', `${WORD}`, ([n]) => ofWord(n!)],
  ];
  const found: Mention[] = [];
  let rest = message;
  for (const [kind, pattern, read, name] of rules) {
    rest = rest.replace(
      new RegExp(`(?<![\\w€$£])(?:${pattern})(?!\\w)`, 'gi'),
      (words: string, ...others: unknown[]) => {
        const groups = others
          .filter((group): group is string => typeof group === 'string')
          .slice(0, -1);
        const value = read(groups);
        if (value === null)
          throw new Error(`"${words}" in "${message}" is no number that one can read`);
        found.push({
          kind,
          words,
          value,
          ...(name === undefined ? {} : { currency: CODES[name(groups)]! }),
        });
        return '#';
      },
    );
  }
  return found;
}
