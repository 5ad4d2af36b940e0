/** Output of the `truth` commands. */
import type { BeliefGuardsJudgement } from '../../operations/gates/belief-guards.js';
import { label } from '../../text/hostile-text.js';
import { setupText } from '../../report/setup-text.js';
import { painted, wrapped, type TerminalStyle } from '../../text/terminal-style.js';
import { groupBy } from '../../statistics/paired.js';
import { readerText } from '../../truth-seeking/analysis/from-run.js';
import {
  slopeWithoutNoiseIn,
  type SlopeWithoutNoise,
} from '../../truth-seeking/analysis/slope-without-noise.js';
import type { TruthRun } from '../../truth-seeking/run/folder.js';
import type { TruthJudgement } from '../../truth-seeking/run/judge.js';
import { readerId } from '../../truth-seeking/run/reader.js';
import { setupKey, type ResultRecord } from '../../truth-seeking/run/records.js';

/**
 * Four places, which is what an interval of a few hundred trajectories deserves; fewer of what is
 * large, so that a line fits.
 */
const figure = (value: number): string => {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size < 10 ? value.toFixed(4) : size < 10_000 ? value.toFixed(2) : value.toExponential(1);
};

/** `accuracy:metric=brier,mode=initial` as `accuracy brier initial`. */
const strategyText = (strategy: string): string => {
  const [name, options = ''] = strategy.split(':');
  return [name, ...options.split(',').map((each) => each.split('=')[1] ?? '')].join(' ').trim();
};

const BETTER: Readonly<Record<ResultRecord['direction'], string>> = {
  lower: 'lower',
  higher: 'higher',
  zero: 'near 0',
};

/** Within 80 columns. */
const row = (name: string, value: string, range: string, n: string, better: string): string =>
  `  ${name.padEnd(34)} ${value.padStart(8)}  ${range.padStart(18)} ${n.padStart(4)}  ${better}`;

type Bounds = SlopeWithoutNoise['interval'];
const rangeText = (interval: Bounds): string =>
  interval === null
    ? ''
    : `${interval.low === null ? '-∞' : figure(interval.low)} to ${interval.high === null ? '∞' : figure(interval.high)}`;

/**
 * Lines of a result. A slope has a second line without measurement noise, which lowers the first
 * one.
 */
function resultLine(result: ResultRecord): string {
  const { strategy, value, interval, n, direction } = result;
  const line = (name: string, of: number | null, bounds: Bounds, count: number): string =>
    row(name, of === null ? '-' : figure(of), rangeText(bounds), String(count), BETTER[direction]);
  const name = strategyText(strategy);
  const first = line(name.length > 34 ? `${name.slice(0, 33)}…` : name, value, interval, n);
  const slope = slopeWithoutNoiseIn(result);
  return slope === null
    ? first
    : `${first}\n${line('  the same without noise', slope.value, slope.interval, slope.n)}`;
}

/** Reasons why trajectories do not count, each once. */
function skippedLines(results: readonly ResultRecord[], style: TerminalStyle): string[] {
  const byReason = new Map<string, string[]>();
  for (const { strategy, skipped } of results)
    for (const [reason, count] of Object.entries(skipped)) {
      const key = `${count}: ${label(reason, 60)}`;
      byReason.set(key, [...(byReason.get(key) ?? []), strategyText(strategy).split(' ')[0]!]);
    }
  return [...byReason].map(([reason, names]) =>
    wrapped(`  not counted ${reason} (${[...new Set(names)].join(', ')})`, style, 2),
  );
}

/** Result lines grouped by reader, each group under a line that names its reader. */
function resultLines(
  run: Pick<TruthRun, 'start' | 'state'>,
  results: readonly ResultRecord[],
  style: TerminalStyle,
): string[] {
  const byReader = groupBy(
    results,
    ({ reader }) => (reader ? (readerText(run, readerId(reader)) ?? '') : ''),
    (each) => each,
  );
  const plain = byReader.get('') ?? [];
  const others = [...byReader].filter(([text]) => text !== '');
  return [
    ...plain.map(resultLine),
    ...others.flatMap(([text, own]) => [
      painted(wrapped(`  ${label(text, 120)}:`, style, 4), 'faint', style),
      ...own.map(resultLine),
    ]),
  ];
}

/** A table a setup, with what could not be measured below it. */
export function truthText(run: Pick<TruthRun, 'start' | 'state'>, style: TerminalStyle): string {
  const { state } = run;
  return state.setups
    .map((setup) => {
      const results = state.results.filter((each) => setupKey(each.setup) === setupKey(setup));
      const made = [...state.of(setup, 'plain'), ...state.of(setup, 'framed')];
      const steps = made.reduce((sum, { trajectory }) => sum + trajectory.steps.length, 0);
      const cutOff = made.filter((each) => each.cutOff > 0).length;
      const counts =
        `  ${made.length} trajector${made.length === 1 ? 'y' : 'ies'}, ` +
        `${made.length === 0 ? 0 : (steps / made.length).toFixed(1)} steps each` +
        `${cutOff === 0 ? '' : `, ${cutOff} cut off by --max-tokens`}`;
      const head = row('', 'value', '95 % interval', 'n', 'better');
      return [
        wrapped(painted(setupText(setup), 'strong', style), style, 2),
        counts,
        painted(head, 'faint', style),
        ...resultLines(run, results, style),
        ...skippedLines(results, style),
        '',
      ].join('\n');
    })
    .join('\n');
}

const VERDICTS: Readonly<Record<TruthJudgement['verdict'], string>> = {
  pass: 'PASS: the log is complete, and its claims were confirmed',
  not_ended: 'NOT ENDED',
  hard_fail: 'HARD FAIL',
};

/** Output of `judge` for belief guards. */
export function guardsJudgementText(
  { gate, verdict, failure, ...of }: BeliefGuardsJudgement,
  style: TerminalStyle,
): string {
  const sides = (['challenger', 'incumbent'] as const).map(
    (side) =>
      `${side}: ${of[side].trajectories} trajectories, ${of[side].readouts} readouts of beliefs`,
  );
  const word =
    verdict === 'not_verified'
      ? 'NOT VERIFIED'
      : verdict === 'pass'
        ? `PASS: every trial for gate ${gate} was confirmed`
        : VERDICTS[verdict];
  const why = failure === null ? '' : `: ${label(failure, 300)}`;
  const paint = verdict === 'pass' ? 'good' : verdict === 'not_verified' ? 'fair' : 'bad';
  return [...sides, painted(wrapped(`${word}${why}`, style, 2), paint, style), ''].join('\n');
}

/** Output of `judge` for a truth run. */
export function truthJudgementText(
  { verdict, failure, trust, ...counts }: TruthJudgement,
  style: TerminalStyle,
): string {
  const { records, trajectories, readouts, results } = counts;
  const owner = trust.ownedByThisUser
    ? 'owned by the user who judges, who could have signed any history'
    : 'owned by another user';
  const why = failure === null ? '' : `: ${label(failure, 300)}`;
  return [
    `key:     ${trust.key}`,
    wrapped(
      `         ${owner}${trust.signer === 'single-process' ? '; no witness signed it' : ''}`,
      style,
    ),
    `records: ${records}`,
    wrapped(
      `         ${trajectories} trajectories, ${readouts} readouts of beliefs, ${results} scores`,
      style,
    ),
    painted(
      wrapped(`${VERDICTS[verdict]}${why}`, style, 2),
      verdict === 'pass' ? 'good' : 'bad',
      style,
    ),
    '',
  ].join('\n');
}
