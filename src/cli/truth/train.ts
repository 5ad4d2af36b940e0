import { truthTrain } from '../../operations/truth/train.js';
import { listTable } from '../../text/terminal.js';
import type { TerminalStyle } from '../../text/terminal-style.js';
import type { FigureChange } from '../../truth-seeking/training/before-after.js';
import { operationCommand } from '../operation-command.js';

function changesTable(changes: readonly FigureChange[], style: TerminalStyle): string {
  const number = (value: number | null): string => (value === null ? '-' : value.toFixed(4));
  const rows = changes.map(({ domain, figure, n, before, after, difference, interval, p }) => [
    ...[domain, figure, String(n), number(before), number(after), number(difference)],
    interval === null ? '-' : `${number(interval.low)} to ${number(interval.high)}`,
    p === null ? '-' : p.toPrecision(2),
  ]);
  const heads = ['domain', 'figure', 'n', 'before', 'after', 'change', '95 % interval', 'p'];
  return listTable(heads, rows, style);
}

export const truthTrainCommand = operationCommand(truthTrain, {
  interrupted: ['the training', 'Nothing was lost: the same command continues where it was.'],
  text: (done, _, style) => {
    const lines = Object.entries(done)
      .filter(([, value]) => typeof value !== 'object')
      .map(([key, value]) => `${key}: ${String(value)}`);
    const table = done.changes === undefined ? '' : `\n${changesTable(done.changes, style)}\n`;
    return `${lines.join('\n')}\n${table}`;
  },
  epilogue: 'The same command continues after an interruption.',
  examples: [
    [
      '$0 truth train runs/urns --by accuracy:mode=eventual --validation gt',
      'train on the tenth with the lowest loss',
    ],
    [
      '$0 truth train --domain urns --steps 20 --measure 40',
      'use 1 minus the Brier score of the beliefs as the reward, and measure on held-out questions before and after',
    ],
  ],
});
