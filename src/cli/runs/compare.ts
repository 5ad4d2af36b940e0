import { points, pValue } from '../../text/figures.js';
import { label } from '../../text/hostile-text.js';
import { compareRuns } from '../../lookup/run-list.js';
import { findRun } from '../../lookup/runs.js';
import { comparisonTable, FIGURES_NOTE } from '../../text/terminal.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { print, printJson } from '../output.js';
import { command } from '../command.js';
import { required, runArgument } from '../option.js';

export const runsCompareCommand = command({
  command: 'compare <a> <b>',
  describe: 'Compare two runs on the same test problems: exact paired test and confidence interval',
  positionals: {
    a: runArgument,
    b: required('run to compare it with'),
  },
  epilogue:
    'Both runs must have ended and been measured on the same problems; otherwise the exit code is 1.',
  examples: [['$0 runs compare runs/rft runs/grpo', 'is the second better than the first?']],
  handler: ({ a: first, b: second, json }) => {
    const {
      evaluations: [before, after],
      comparison,
      ...rest
    } = compareRuns(findRun(first), findRun(second));
    if (json)
      return printJson({
        ...rest,
        comparison,
        setSha256: before.setSha256,
        test: { a: before.summary, b: after.summary },
      });
    const { difference, gained, lost, n, p } = comparison;
    const change =
      difference === null
        ? '–'
        : `${points(difference.mean)} points, 95 % interval ${points(difference.low)} to ${points(difference.high)}`;
    print(
      [
        `a  ${label(rest.a.folder, 80)}: ${label(String(rest.a.model))}, seed ${label(String(rest.a.seed), 20)}`,
        `b  ${label(rest.b.folder, 80)}: ${label(String(rest.b.model))}, seed ${label(String(rest.b.seed), 20)}`,
        `they differ in: ${rest.differences.length === 0 ? 'nothing' : label(rest.differences.join(', '), 400)}`,
        '',
        `per cent of test problems solved after training, ${FIGURES_NOTE}`,
        '',
        comparisonTable(
          before.summary,
          after.summary,
          comparison,
          ['a', 'b'],
          terminalStyle(process.stdout),
        ),
        '',
        `b - a: ${change}; b solves ${gained} that a does not, a ${lost} that b does not, of ${n}; p = ${pValue(p)}`,
        '',
      ].join('\n'),
    );
  },
});
