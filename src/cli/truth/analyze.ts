import { truthAnalyze } from '../../operations/truth/analyze.js';
import { analysisFigures, type AnalysisResult } from '../../report/analysis-figures.js';
import { listTable } from '../../text/terminal.js';
import { wrapped, type TerminalStyle } from '../../text/terminal-style.js';
import { operationCommand } from '../operation-command.js';

function analysisText(result: AnalysisResult, style: TerminalStyle): string[] {
  const { tables, notes } = analysisFigures(result);
  return [
    ...tables.flatMap(({ title, heads, rows }) => [
      wrapped(title, style),
      listTable(heads, rows, style),
      '',
    ]),
    ...notes.map((note) => wrapped(note, style)),
  ];
}

export const truthAnalyzeCommand = operationCommand(truthAnalyze, {
  interrupted: ['the analysis', 'Nothing was written. The same command starts again.'],
  text: (results, { page }, style) => {
    const lines = results.flatMap((result) => analysisText(result, style));
    return `${lines.join('\n')}\n${page === undefined ? '' : `page:  ${page}\n`}`;
  },
  examples: [
    [
      '$0 truth analyze causal-attribution runs --strategy accuracy',
      'find what the Brier scores of all runs depend on',
    ],
  ],
});
