import { harnessAgree, type AgreementResult } from '../../operations/harness-agree.js';
import { percent } from '../../text/figures.js';
import { listTable } from '../../text/terminal.js';
import type { TerminalStyle } from '../../text/terminal-style.js';
import { operationCommand } from '../operation-command.js';

export function agreementText(
  { policy, asked, agrees, interval }: AgreementResult,
  style: TerminalStyle,
): string {
  return [
    listTable(
      ['run', 'iteration', 'rule', 'gold', 'choice'],
      asked.map(({ run, iteration, rule, expected, choice }) => [
        run,
        String(iteration),
        rule,
        expected,
        choice ?? 'none of the menu',
      ]),
      style,
    ),
    '',
    `${policy} agrees in ${agrees} of ${asked.length}, 95 % interval ${percent(interval.low)} to ${percent(interval.high)} per cent`,
    '',
  ].join('\n');
}

export const harnessAgreeCommand = operationCommand(harnessAgree, {
  interrupted: ['the questions', 'Nothing was written. The same command starts again.'],
  text: (result, _, style) => agreementText(result, style),
  examples: [['$0 harness agree runs/table --policy scripted', 'does the script agree with you?']],
});
