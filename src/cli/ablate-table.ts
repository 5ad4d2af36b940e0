/** What `ablate` prints. */
import { failureTable, SHOWN_OF_EACH } from '../report/failures.js';
import { bounds, percent, points } from '../report/figures.js';
import { terminalStyle } from '../report/terminal-style.js';
import { pooledFailures } from '../tasks/failures.js';
import type { Ablation } from '../jobs/ablation.js';
import type { EmbeddedAblation } from '../embedded/ablation.js';

export function ablationText({ task, model, seeds, conditions }: Ablation, embedded: EmbeddedAblation | null): string {
  const width = Math.max(...conditions.map(({ condition }) => condition.length)) + 2;
  const line = (head: string, cells: readonly string[]): string =>
    `${head.padEnd(width)}${cells.map((cell) => cell.padStart(14)).join('')}`.trimEnd();
  return [
    '',
    `${model} on ${task}: per cent of test problems solved after the run`,
    '',
    line('', ['before', ...seeds.map((seed) => `seed ${seed}`), 'mean', 'to full', '95 %']),
    ...conditions.map(({ condition, runs, mean, toFull }) =>
      line(condition, [
        percent(runs[0]!.before.mean),
        ...runs.map(({ after }) => percent(after.mean)),
        percent(mean),
        ...(toFull === null ? [] : [points(toFull.difference), `${points(toFull.low)} to ${points(toFull.high)}`]),
      ]),
    ),
    ...conditions.flatMap(({ condition, runs }) => {
      const pooled = pooledFailures(runs.flatMap(({ failures }) => failures ?? []));
      return pooled.rows.length === 0
        ? []
        : ['', failureTable(pooled, `test replies after the run (${condition})`, terminalStyle(process.stdout), SHOWN_OF_EACH)];
    }),
    ...(embedded === null ? [] : embeddedLines(embedded)),
    '',
  ].join('\n');
}

function embeddedLines({ forcedPrefix, before, after }: EmbeddedAblation): string[] {
  const names = Object.keys(before.shares).filter((name) => [before, ...after].some(({ shares }) => shares[name]! > 0));
  const width = Math.max(...names.map((name) => name.length), 10) + 2;
  const line = (head: string, cells: readonly string[]): string =>
    `${head.padEnd(width)}${cells.map((cell) => cell.padStart(12)).join('')}`;
  return [
    '',
    `base model with "${forcedPrefix.heuristic}" forced on every problem (the best one on dev): ${percent(forcedPrefix.test.mean)} % ` +
      `(${bounds(forcedPrefix.test)})`,
    '',
    'heuristic named by the greedy test replies, per cent',
    line('', ['before', ...after.map(({ seed }) => `seed ${seed}`)]),
    ...names.map((name) =>
      line(
        name,
        [before, ...after].map(({ shares }) => percent(shares[name]!)),
      ),
    ),
  ];
}
