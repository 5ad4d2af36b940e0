/** Means with their intervals as tables of the terminal. */
import { MEASURE_NOTES } from '../report/figures.js';
import { MEASURE_NAMES, type Measures } from '../statistics/index.js';

interface Estimate {
  readonly mean: number | null;
  readonly low: number;
  readonly high: number;
  readonly n: number;
}
export type Row = Estimate & { readonly byTier: Readonly<Record<string, Estimate>> };

const percent = ({ mean }: Estimate): string => (mean === null ? '-' : (100 * mean).toFixed(1));
const bounds = ({ low, high, mean }: Estimate): string => (mean === null ? '-' : `${(100 * low).toFixed(0)}-${(100 * high).toFixed(0)}`);

const PERCENT = { width: 8, show: percent, bounds };

/** Two lines a row: the mean, and the 95 % interval below it. */
export function table(rows: readonly (readonly [string, Row])[], format = PERCENT): string {
  const columns = Object.keys(rows[0]![1].byTier);
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  const line = (head: string, cells: readonly string[]): string =>
    `${head.padEnd(width)}${cells.map((cell) => cell.padStart(format.width)).join('')}`.trimEnd();
  const cells = (show: (estimate: Estimate) => string, row: Row): string[] => [
    ...columns.map((tier) => (row.byTier[tier] === undefined ? '-' : show(row.byTier[tier]))),
    show(row),
  ];
  return [
    line('', [...columns, 'mean']),
    line(
      'n',
      cells(({ n }) => String(n), rows[0]![1]),
    ),
    ...rows.flatMap(([name, row]) => [line(name, cells(format.show, row)), line('', cells(format.bounds, row))]),
  ].join('\n');
}

/** For each measure that any row has: its note, and two lines a row that has it. */
export function measureTables(rows: readonly (readonly [string, Measures | undefined])[]): string {
  return MEASURE_NAMES.map((measure) => {
    const having = rows.flatMap(([name, measures]) => (measures?.[measure] === undefined ? [] : [[name, measures[measure]] as const]));
    if (having.length === 0) return '';
    const valid = having.map(([name, { valid: part, validInterval }]) =>
      part === null ? `${name} -` : `${name} ${(100 * part).toFixed(1)} % (${bounds({ ...validInterval, mean: part, n: 1 })})`,
    );
    const format = { width: 12, show: ({ mean }: Estimate) => (mean === null ? '-' : mean.toFixed(3)), bounds: decimalBounds };
    return `${MEASURE_NOTES[measure]}; 95 % interval below\n\n${table(having, format)}\n\nvalid: ${valid.join(', ')}\n\n`;
  }).join('');
}

const decimalBounds = ({ low, high, mean }: Estimate): string => (mean === null ? '-' : `${low.toFixed(2)}-${high.toFixed(2)}`);
