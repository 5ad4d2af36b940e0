/** Tables for a terminal: plain text that fits its width. */
import type { Submission } from '../run-folder/course-records.js';
import { ownValue } from '../dictionary.js';
import {
  MEASURE_NAMES,
  type Forgetting,
  type Interval,
  type Summary,
} from '../statistics/index.js';
import type { Comparison, PairedCounts, TestRate } from '../run-folder/comparison.js';
import type { RunRecord } from '../run-folder/read-run.js';
import { conclusion, toneOfConclusion } from './conclusion.js';
import {
  bounds,
  decimal,
  decimalBounds,
  decimalChange,
  forgettingText,
  MEASURE_NOTES,
  MEASURE_TITLES,
  percent,
  points,
  pValue,
  RATE_NOTES,
  RATE_TITLES,
  severalOf,
} from './figures.js';
import {
  filled,
  labelWithin,
  length,
  painted,
  wrapped,
  type TerminalStyle,
} from './terminal-style.js';

const GUTTER = 2;

/** A run's conclusion. Green is for what was judged: a gain is only strong. */
export function conclusionLines(run: RunRecord, style: TerminalStyle): string {
  const tone = toneOfConclusion(run);
  return painted(wrapped(conclusion(run), style), tone === 'good' ? 'strong' : tone, style);
}

/**
 * Columns under their heads, the first to the left, the others to the right; columns from the end
 * are left out where they do not fit.
 */
export function table(rows: readonly (readonly string[])[], width: number): string[] {
  const columns = rows[0]!.map((_, i) => Math.max(...rows.map((row) => length(row[i] ?? ''))));
  let used = 0;
  const fitting = columns.findIndex(
    (column, i) => (used += column + (i === 0 ? 0 : GUTTER)) > width,
  );
  const shown = fitting <= 0 ? columns : columns.slice(0, fitting);
  return rows.map((row) =>
    shown
      .map((column, i) => {
        const cell = row[i] ?? '';
        return i === 0 ? filled(cell, column) : ' '.repeat(GUTTER + column - length(cell)) + cell;
      })
      .join('')
      .trimEnd(),
  );
}

const meanOf = (keys: readonly string[]): string =>
  keys.length === 1 ? labelWithin(keys[0]!, NAME) : 'mean';

const NAME = 24;
const POLICY = 32;

type Mean = { readonly mean: number | null } | null | undefined;
const changeOf = (was: Mean, is: Mean): number | null =>
  was?.mean == null || is?.mean == null ? null : is.mean - was.mean;

type Tested = Interval & { readonly mean: number | null; readonly n: number };

/** Two figures, each with its interval if the terminal has room for it. */
type FigureCells = readonly [figure: string, interval: string];
const pairCells = (pair: readonly FigureCells[], { width }: TerminalStyle): string[] =>
  pair.flatMap((cells) => cells.slice(0, width < 84 ? 1 : 2));
const pairHeads = (names: readonly string[], style: TerminalStyle): string[] =>
  pairCells(
    names.map((name) => [name, '95 %']),
    style,
  );
const rateCells = (
  of: (Interval & { readonly mean: number | null }) | null | undefined,
): FigureCells => (of == null ? ['–', ''] : [percent(of.mean), bounds(of)]);
const testCells = (of: PairedCounts | null | undefined): string[] =>
  of == null ? ['–', '–', '–'] : [pValue(of.p), String(of.gained), String(of.lost)];

/**
 * Compares two evaluations by tier: n, per cent solved with the 95 % interval, change, p, problems
 * gained and lost.
 * @param names heads of the two
 */
export function comparisonTable(
  before: Summary,
  after: Summary,
  comparison: Comparison,
  names: readonly [string, string],
  style: TerminalStyle,
): string {
  const row = (
    name: string,
    was: Tested | undefined,
    is: Tested | undefined,
    pair: PairedCounts | undefined,
  ): string[] => [
    name,
    String(pair?.n ?? was!.n),
    ...pairCells([rateCells(was), rateCells(is)], style),
    points(changeOf(was, is)),
    ...testCells(pair),
  ];
  // in the task's order
  const keys = Object.keys(comparison.byTier).filter((key) => Object.hasOwn(before.byTier, key));
  const heads = pairHeads(
    names.map((name) => labelWithin(name, 14)),
    style,
  );
  const lines = table(
    [
      ['tier', 'n', ...heads, 'change', 'p', 'gained', 'lost'],
      ...severalOf(keys).map((key) =>
        row(
          labelWithin(key, NAME),
          ownValue(before.byTier, key),
          ownValue(after.byTier, key),
          ownValue(comparison.byTier, key),
        ),
      ),
      row(meanOf(keys), before, after, comparison),
    ],
    style.width,
  );
  return emphasised(lines, style).join('\n');
}

const noted = (
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  notes: readonly string[],
  style: TerminalStyle,
): string =>
  rows.length === 0
    ? ''
    : [
        ...table([heads, ...rows], style.width),
        ...notes.map((note) => wrapped(note, style, 2)),
      ].join('\n');

/** Rates next to the accuracy, one a line, with the paired test; empty if there are none. */
export const rateTable = (rates: readonly TestRate[], style: TerminalStyle): string =>
  noted(
    ['', ...pairHeads(['before', 'after'], style), 'change', 'p', 'gained', 'lost'],
    rates.map(({ name, before, after, change }) => [
      RATE_TITLES[name],
      ...pairCells([rateCells(before), rateCells(after)], style),
      points(changeOf(before, after)),
      ...testCells(change),
    ]),
    rates.map(({ name }) => RATE_NOTES[name]),
    style,
  );

/**
 * Mean score and proper scores of two evaluations, one a line; empty if their verdicts have no
 * figures.
 */
export function measureTable(before: Summary, after: Summary, style: TerminalStyle): string {
  const names = MEASURE_NAMES.filter((name) =>
    [before, after].some(({ measures }) => measures?.[name] !== undefined),
  );
  return noted(
    ['', ...pairHeads(['before', 'after'], style), 'change', 'valid %', 'after'],
    names.map((name) => {
      const [was, is] = [before.measures?.[name], after.measures?.[name]];
      const cells = [was, is].map(
        (of) => [decimal(of?.mean), of?.mean == null ? '' : decimalBounds(of)] as const,
      );
      return [
        MEASURE_TITLES[name],
        ...pairCells(cells, style),
        decimalChange(changeOf(was, is)),
        percent(was?.valid),
        percent(is?.valid),
      ];
    }),
    [
      ...names.map((name) => MEASURE_NOTES[name]),
      'valid: replies that had the figure, or passed; means over tiers, bootstrap intervals over problems',
    ],
    style,
  );
}

/** Table of the per cent solved by each policy, by tier; tiers that do not fit are placed below. */
export function policyTable(
  policies: Readonly<Record<string, Summary>>,
  tiers: readonly string[],
  style: TerminalStyle,
): string {
  const names = Object.keys(policies);
  if (names.length === 0) return '';
  const heads = names.map((name) => labelWithin(name, POLICY));
  const first = Math.max(...heads.map(length));
  const cells = [
    [meanOf(tiers), ...names.map((name) => percent(policies[name]!.mean))],
    ...severalOf(tiers).map((tier) => [
      labelWithin(tier, 12),
      ...names.map((name) => percent(ownValue(policies[name]!.byTier, tier)?.mean)),
    ]),
  ];
  const lines: string[] = [];
  for (let from = 0; from < cells.length; ) {
    let until = from;
    for (let used = first; until < cells.length; until++) {
      used += GUTTER + Math.max(...cells[until]!.map(length));
      if (used > style.width && until > from) break;
    }
    const block = cells.slice(from, until);
    if (lines.length > 0) lines.push('');
    lines.push(
      ...table(
        [
          ['', ...block.map((column) => column[0]!)],
          ...heads.map((head, i) => [head, ...block.map((column) => column[i + 1]!)]),
        ],
        style.width,
      ),
    );
    from = until;
  }
  return lines.join('\n');
}

/** Head and last line in bold. */
function emphasised(lines: readonly string[], { color }: TerminalStyle): string[] {
  return lines.map((line, i) =>
    color && (i === 0 || i === lines.length - 1) ? `\u001b[1m${line}\u001b[22m` : line,
  );
}

/**
 * Explains the columns of a comparison. Means weigh tiers equally; the test is over single
 * problems.
 */
export const FIGURES_NOTE =
  '95 % intervals; p: exact paired tests, McNemar for a tier (not adjusted)';

/** Table at the end of a run: before and after, then the trivial policies. */
export function resultTable(
  result: {
    readonly before: Summary;
    readonly after: Summary;
    readonly comparison: Comparison;
    readonly rates: readonly TestRate[];
    readonly policies: Readonly<Record<string, Summary>>;
    readonly forgetting: Forgetting | null;
    readonly restraint?: Submission['restraint'] | null;
  },
  style: TerminalStyle,
): string {
  const { before, after, comparison, rates, policies, forgetting, restraint } = result;
  const policyLines = policyTable(policies, Object.keys(comparison.byTier), style);
  const forgot = forgetting === null ? [] : forgettingText(forgetting, restraint);
  return [
    wrapped(`per cent of test problems solved, ${FIGURES_NOTE}`, style),
    comparisonTable(before, after, comparison, ['before', 'after'], style),
    rateTable(rates, style),
    measureTable(before, after, style),
    ...(forgot.length === 0
      ? []
      : [['forgetting', ...forgot.map((each) => wrapped(each, style, 2))].join('\n')]),
    policyLines === '' ? '' : `trivial policies, which use no model\n${policyLines}`,
  ]
    .filter((block) => block !== '')
    .join('\n\n');
}

/** A list with heads; `rows` are texts of anybody's. */
export const listTable = (
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  style: TerminalStyle,
): string =>
  table([heads, ...rows.map((row) => row.map((cell) => labelWithin(cell, 60)))], style.width).join(
    '\n',
  );
