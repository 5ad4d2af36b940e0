/** Tables for a terminal: plain text that fits its width. */
import type { Submission } from '../run-folder/course-records.js';
import { ownValue } from '../dictionary.js';
import { MEASURE_NAMES, type Forgetting, type Summary } from '../statistics/index.js';
import type { Comparison, TestRate } from '../run-folder/comparison.js';
import type { RunRecord } from '../run-folder/read-run.js';
import { conclusion, toneOfConclusion } from './conclusion.js';
import {
  bounds,
  decimal,
  decimalBounds,
  decimalChange,
  forgettingNotes,
  forgettingSentences,
  restraintSentences,
  MEASURE_NOTES,
  MEASURE_TITLES,
  percent,
  points,
  pValue,
  RATE_NOTES,
  RATE_TITLES,
  severalOf,
} from './figures.js';
import { label } from './hostile-text.js';
import { length, painted, wrapped, type TerminalStyle } from './terminal-style.js';

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
      .map((column, i) =>
        i === 0
          ? `${row[i] ?? ''}${' '.repeat(column - length(row[i] ?? ''))}`
          : ' '.repeat(GUTTER + column - length(row[i] ?? '')) + (row[i] ?? ''),
      )
      .join('')
      .trimEnd(),
  );
}

const meanOf = (keys: readonly string[]): string =>
  keys.length === 1 ? label(keys[0]!, NAME) : 'mean';

const NAME = 24;
const POLICY = 32;

/**
 * Two evaluations by tier: n, per cent solved with the 95 % interval, change, problems gained and
 * lost, p.
 * @param names heads of the two
 */
export function comparisonTable(
  before: Summary,
  after: Summary,
  comparison: Comparison,
  names: readonly [string, string],
  style: TerminalStyle,
): string {
  const narrow = style.width < 84;
  const cells = (was: Summary['byTier'][string] | Summary | undefined, is: typeof was): string[] =>
    [was, is]
      .flatMap((summary) =>
        summary === undefined ? ['–', ''] : [percent(summary.mean), bounds(summary)],
      )
      .filter((_, i) => !narrow || i % 2 === 0);
  const change = (
    was: { mean: number | null } | undefined,
    is: { mean: number | null } | undefined,
  ): string => points(was?.mean == null || is?.mean == null ? null : is.mean - was.mean);
  // in the task's order
  const keys = Object.keys(comparison.byTier).filter((key) => Object.hasOwn(before.byTier, key));
  const [left, right] = names.map((name) => label(name, 14)) as [string, string];
  const lines = table(
    [
      [
        'tier',
        'n',
        ...(narrow ? [left, right] : [left, '95 %', right, '95 %']),
        'change',
        'p',
        'gained',
        'lost',
      ],
      ...severalOf(keys).map((key) => {
        const [was, is, pair] = [
          ownValue(before.byTier, key),
          ownValue(after.byTier, key),
          ownValue(comparison.byTier, key),
        ];
        return [
          label(key, NAME),
          String(pair?.n ?? was!.n),
          ...cells(was, is),
          change(was, is),
          pair === undefined ? '–' : pValue(pair.p),
          String(pair?.gained ?? '–'),
          String(pair?.lost ?? '–'),
        ];
      }),
      [
        meanOf(keys),
        String(comparison.n),
        ...cells(before, after),
        change(before, after),
        pValue(comparison.p),
        String(comparison.gained),
        String(comparison.lost),
      ],
    ],
    style.width,
  );
  return emphasised(lines, style).join('\n');
}

/** Rates beside accuracy, one a line, with the paired test; empty where there are none. */
export function rateTable(rates: readonly TestRate[], style: TerminalStyle): string {
  const narrow = style.width < 84;
  const rows = rates.map(({ name, before, after, change }) => [
    RATE_TITLES[name],
    ...[before, after].flatMap((of) =>
      (of === null ? ['–', ''] : [percent(of.mean), bounds(of)]).slice(0, narrow ? 1 : 2),
    ),
    points(before?.mean == null || after?.mean == null ? null : after.mean - before.mean),
    ...(change === null
      ? ['–', '–', '–']
      : [pValue(change.p), String(change.gained), String(change.lost)]),
  ]);
  if (rows.length === 0) return '';
  const heads = [
    '',
    ...(narrow ? ['before', 'after'] : ['before', '95 %', 'after', '95 %']),
    'change',
    'p',
    'gained',
    'lost',
  ];
  return [
    ...table([heads, ...rows], style.width),
    ...rates.map(({ name }) => wrapped(RATE_NOTES[name], style, 2)),
  ].join('\n');
}

/**
 * Mean score and proper scores of two evaluations, one a line; empty where their verdicts have no
 * figures.
 */
export function measureTable(before: Summary, after: Summary, style: TerminalStyle): string {
  const narrow = style.width < 84;
  const rows = MEASURE_NAMES.flatMap((name) => {
    const [was, is] = [before.measures?.[name], after.measures?.[name]];
    if (was === undefined && is === undefined) return [];
    const cells = [was, is]
      .flatMap((of) => [decimal(of?.mean), of?.mean == null ? '' : decimalBounds(of)])
      .filter((_, i) => !narrow || i % 2 === 0);
    const change = was?.mean == null || is?.mean == null ? null : is.mean - was.mean;
    return [
      {
        name,
        row: [
          MEASURE_TITLES[name],
          ...cells,
          decimalChange(change),
          percent(was?.valid),
          percent(is?.valid),
        ],
      },
    ];
  });
  if (rows.length === 0) return '';
  const heads = [
    '',
    ...(narrow ? ['before', 'after'] : ['before', '95 %', 'after', '95 %']),
    'change',
    'valid %',
    'after',
  ];
  return [
    ...table([heads, ...rows.map(({ row }) => row)], style.width),
    ...rows.map(({ name }) => wrapped(MEASURE_NOTES[name], style, 2)),
    wrapped(
      'valid: replies that had the figure, or passed; means over tiers, bootstrap intervals over problems',
      style,
      2,
    ),
  ].join('\n');
}

/** Per cent solved by each policy, by tier; tiers that do not fit beside each other come below. */
export function policyTable(
  policies: Readonly<Record<string, Summary>>,
  tiers: readonly string[],
  style: TerminalStyle,
): string {
  const names = Object.keys(policies);
  if (names.length === 0) return '';
  const heads = names.map((name) => label(name, POLICY));
  const first = Math.max(...heads.map(length));
  const cells = [
    [meanOf(tiers), ...names.map((name) => percent(policies[name]!.mean))],
    ...severalOf(tiers).map((tier) => [
      label(tier, 12),
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
 * What the columns of a comparison are. Means weigh tiers alike; the test is over single problems.
 */
export const FIGURES_NOTE =
  '95 % intervals; p: exact paired tests, of a tier McNemar (not adjusted)';

/** What stands at the end of a run: before and after, then the trivial policies. */
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
  const measureLines = measureTable(before, after, style);
  const rateLines = rateTable(rates, style);
  const forgot =
    forgetting === null
      ? []
      : [
          ...forgettingSentences(forgetting),
          ...restraintSentences(restraint),
          ...forgettingNotes(forgetting),
        ];
  return [
    wrapped(`per cent of test problems solved, ${FIGURES_NOTE}`, style),
    '',
    comparisonTable(before, after, comparison, ['before', 'after'], style),
    ...(rateLines === '' ? [] : ['', rateLines]),
    ...(measureLines === '' ? [] : ['', measureLines]),
    ...(forgot.length === 0
      ? []
      : ['', 'forgetting', ...forgot.map((each) => wrapped(each, style, 2))]),
    ...(policyLines === '' ? [] : ['', 'trivial policies, which use no model', policyLines]),
  ].join('\n');
}

/** A list with heads; `rows` are texts of anybody's. */
export const listTable = (
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  style: TerminalStyle,
): string =>
  table([heads, ...rows.map((row) => row.map((cell) => label(cell, 60)))], style.width).join('\n');
