/** Output of `ablate`. */
import { failureTable, SHOWN_OF_EACH } from '../../text/failures.js';
import { bounds, percent, points } from '../../text/figures.js';
import { table } from '../../text/terminal.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { pooledFailures } from '../../tasks/failures.js';
import type { Ablation } from '../../operations/ablation.js';
import type { EmbeddedAblation } from '../../operations/embedded-ablation.js';

export function ablationText(
  { task, model, seeds, conditions }: Ablation,
  embedded: EmbeddedAblation | null,
): string {
  return [
    '',
    `${model} on ${task}: per cent of test problems solved after the run`,
    '',
    ...grid([
      ['', 'before', ...seeds.map((seed) => `seed ${seed}`), 'mean', 'to full', '95 %'],
      ...conditions.map(({ condition, runs, mean, toFull }) => [
        condition,
        percent(runs[0]!.before.mean),
        ...runs.map(({ after }) => percent(after.mean)),
        percent(mean),
        ...(toFull === null
          ? []
          : [points(toFull.difference), `${points(toFull.low)} to ${points(toFull.high)}`]),
      ]),
    ]),
    ...conditions.flatMap(({ condition, runs }) => {
      const pooled = pooledFailures(runs.flatMap(({ failures }) => failures ?? []));
      return pooled.rows.length === 0
        ? []
        : [
            '',
            failureTable(
              pooled,
              `test replies after the run (${condition})`,
              terminalStyle(process.stdout),
              SHOWN_OF_EACH,
            ),
          ];
    }),
    ...(embedded === null ? [] : embeddedLines(embedded)),
    '',
  ].join('\n');
}

function embeddedLines({ forcedPrefix, before, after }: EmbeddedAblation): string[] {
  const names = Object.keys(before.shares).filter((name) =>
    [before, ...after].some(({ shares }) => shares[name]! > 0),
  );
  return [
    '',
    `base model with "${forcedPrefix.heuristic}" forced on every problem (the best one on dev): ${percent(forcedPrefix.test.mean)} % ` +
      `(${bounds(forcedPrefix.test)})`,
    '',
    'heuristic named by the greedy test replies, per cent',
    ...grid([
      ['', 'before', ...after.map(({ seed }) => `seed ${seed}`)],
      ...names.map((name) => [
        name,
        ...[before, ...after].map(({ shares }) => percent(shares[name]!)),
      ]),
    ]),
  ];
}

/** Whole, however narrow the terminal: an ablation has as many columns as seeds. */
const grid = (rows: readonly (readonly string[])[]): string[] => table(rows, Infinity);
