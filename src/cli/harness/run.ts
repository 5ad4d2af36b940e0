import { harnessRun, type AttemptsResult } from '../../operations/harness-run.js';
import { percent } from '../../text/figures.js';
import { listTable } from '../../text/terminal.js';
import type { TerminalStyle } from '../../text/terminal-style.js';
import { readSettingsFile } from '../../training/settings.js';
import { operationCommand } from '../operation-command.js';
import { otherDefaults } from '../run/run-command.js';
import { RunScreen } from '../run/run-screen.js';

const NO_WINNER = 6;

export function attemptsText(
  { attempts, reasons, best }: AttemptsResult,
  out: string,
  style: TerminalStyle,
): string {
  const rows = attempts.map((each) => [
    String(each.index),
    each.verdict,
    each.processScore === null ? 'not scored' : each.processScore.toFixed(2),
    String(each.obligations),
    String(each.violations.length),
    each.accuracy === null ? '–' : percent(each.accuracy),
  ]);
  return [
    listTable(
      ['attempt', 'verdict', 'process', 'obligations', 'violations', 'solved, %'],
      rows,
      style,
    ),
    '',
    ...reasons,
    best === null ? 'no attempt can win' : `best: attempt ${best}, ${out}`,
    '',
  ].join('\n');
}

export const harnessRunCommand = operationCommand(harnessRun, {
  otherDefaults,
  readFile: readSettingsFile,
  screen: () => new RunScreen({ title: 'attempts' }),
  interrupted: ['the attempts', 'Attempts that were judged are kept: the same command continues.'],
  text: (result, { out }, style) => attemptsText(result, out, style),
  exitCode: ({ best }) => (best === null ? NO_WINNER : 0),
  epilogue: `Exit codes: 0 an attempt won, ${NO_WINNER} no attempt can win.`,
  examples: [['$0 harness run --policy table --attempts 2', 'two attempts on the embedded model']],
});
