import { harnessScenarios, type ScenariosResult } from '../../operations/harness-scenarios.js';
import { listTable } from '../../text/terminal.js';
import type { TerminalStyle } from '../../text/terminal-style.js';
import { operationCommand } from '../operation-command.js';

export function scenariosText(
  { scenarios, measured, table }: ScenariosResult,
  style: TerminalStyle,
): string {
  if (measured === null)
    return `${listTable(
      ['scenario', 'rule', 'what is wrong'],
      scenarios.map(({ id, rule, side, name }) => [id, `${rule} ${side}`, name]),
      style,
    )}\n`;
  const { draws, silent, alike, regret } = measured;
  const parts = Object.entries(regret).flatMap(([purpose, rows]) => [
    `${purpose} draws: mean regret, 0 for the best answer of a draw and 1 for the worst`,
    listTable(
      ['rule', 'answer', 'regret', 'draws'],
      Object.entries(rows).flatMap(([row, options]) =>
        options.map(({ option, regret: mean, draws: n }, i) => [
          i === 0 ? row : '',
          option,
          mean.toFixed(2),
          String(n),
        ]),
      ),
      style,
    ),
    '',
  ]);
  return [
    ...parts,
    `draws: ${draws}; without a firing of the rule: ${silent}; with equal answers only: ${alike}`,
    ...(table === null ? [] : [`table:  ${table}`]),
    '',
  ].join('\n');
}

export const harnessScenariosCommand = operationCommand(harnessScenarios, {
  interrupted: ['the measurement', 'What was measured is kept: the same command continues.'],
  text: (result, _, style) => scenariosText(result, style),
  examples: [
    ['$0 harness scenarios', 'what can go wrong, one line for each case'],
    ['$0 harness scenarios --measure --only rate-tiny', 'what each answer to one case leads to'],
  ],
});
