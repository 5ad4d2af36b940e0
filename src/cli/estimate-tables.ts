/** Means with their intervals as tables of the terminal. */
import { MEASURE_NOTES } from '../text/figures.js';
import type { TerminalStyle } from '../text/terminal-style.js';
import { MEASURE_NAMES, type Measures } from '../statistics/index.js';

type Prose = Pick<TerminalStyle, 'prose'>;

interface Estimate {
  readonly mean: number | null;
  readonly low: number;
  readonly high: number;
  readonly n: number;
}
export type Row = Estimate & { readonly byTier: Readonly<Record<string, Estimate>> };

const percent = ({ mean }: Estimate): string => (mean === null ? '-' : (100 * mean).toFixed(1));
const bounds = ({ low, high, mean }: Estimate): string =>
  mean === null ? '-' : `${(100 * low).toFixed(0)}-${(100 * high).toFixed(0)}`;

const PERCENT = { width: 8, show: percent, bounds };

/**
 * Table with two lines per row: the mean, and the 95 % interval below it. Tiers that do not fit
 * side by side continue below.
 */
export function table(
  rows: readonly (readonly [string, Row])[],
  { prose: width = Infinity }: Prose,
  format = PERCENT,
): string {
  type Column = readonly [head: string, of: (row: Row) => Estimate | undefined];
  const tiers = Object.keys(rows[0]![1].byTier);
  const columns: readonly Column[] =
    tiers.length === 1
      ? [[tiers[0]!, (row) => row]] // it is the mean
      : [
          ...tiers.map((tier): Column => [tier, ({ byTier }) => byTier[tier]]),
          ['mean', (row) => row],
        ];
  const names = Math.max(...rows.map(([name]) => name.length)) + 2;
  const cell = Math.max(format.width, ...columns.map(([head]) => head.length + 2));
  const line = (head: string, cells: readonly string[]): string =>
    `${head.padEnd(names)}${cells.map((shown) => shown.padStart(cell)).join('')}`.trimEnd();
  const cells = (
    show: (estimate: Estimate) => string,
    row: Row,
    shown: readonly Column[],
  ): string[] =>
    shown.map(([, of]) => {
      const estimate = of(row);
      return estimate === undefined ? '-' : show(estimate);
    });
  const room = Math.max(1, Math.min(columns.length, Math.floor((width - names) / cell)));
  const blocks = Array.from({ length: Math.ceil(columns.length / room) }, (_, i) =>
    columns.slice(i * room, (i + 1) * room),
  );
  return blocks
    .map((shown) =>
      [
        line(
          '',
          shown.map(([head]) => head),
        ),
        line(
          'n',
          cells(({ n }) => String(n), rows[0]![1], shown),
        ),
        ...rows.flatMap(([name, row]) => [
          line(name, cells(format.show, row, shown)),
          line('', cells(format.bounds, row, shown)),
        ]),
      ].join('\n'),
    )
    .join('\n\n');
}

/** Tables of measures: for each measure a note, and two lines per row that has it. */
export function measureTables(
  rows: readonly (readonly [string, Measures | undefined])[],
  style: Prose,
): string {
  return MEASURE_NAMES.map((measure) => {
    const having = rows.flatMap(([name, measures]) =>
      measures?.[measure] === undefined ? [] : [[name, measures[measure]] as const],
    );
    if (having.length === 0) return '';
    const valid = having.map(([name, { valid: part, validInterval }]) =>
      part === null
        ? `${name} -`
        : `${name} ${(100 * part).toFixed(1)} % (${bounds({ ...validInterval, mean: part, n: 1 })})`,
    );
    const format = {
      width: 12,
      show: ({ mean }: Estimate) => (mean === null ? '-' : mean.toFixed(3)),
      bounds: decimalBounds,
    };
    return `${MEASURE_NOTES[measure]}; 95 % interval below\n\n${table(having, style, format)}\n\nvalid: ${valid.join(', ')}\n\n`;
  }).join('');
}

const decimalBounds = ({ low, high, mean }: Estimate): string =>
  mean === null ? '-' : `${low.toFixed(2)}-${high.toFixed(2)}`;
