import path from 'node:path';
import { pValue, percent } from '../../text/figures.js';
import { label } from '../../text/hostile-text.js';
import { listRuns } from '../../lookup/run-list.js';
import { RUNS, runFoldersHere, runName } from '../../lookup/runs.js';
import { listTable } from '../../text/terminal.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { print, printJsonLine } from '../output.js';
import { command } from '../command.js';

export const runsListCommand = command({
  command: 'list [folder]',
  describe: 'List the runs in a folder, newest first; p: exact paired test, before against after',
  positionals: {
    folder: {
      type: 'string',
      describe: `folder of run folders; default: ${RUNS} and the current folder`,
    },
  },
  examples: [['$0 runs list', 'runs in this folder']],
  handler: ({ folder: given, json }) => {
    const folder = given ?? RUNS;
    const runs = listRuns(folder, given === undefined ? runFoldersHere() : undefined);
    if (json) return runs.forEach(printJsonLine);
    if (runs.length === 0)
      return print(
        `No runs in ${folder}${given === undefined ? ' or in a subfolder of this one' : ''}. Runs with another --out ` +
          `are listed by \`runs list FOLDER\`. ` +
          'Start a run with: npx isopro-native run\n',
      );
    const named = (at: string): string => {
      const name = at.startsWith(path.join(folder, path.sep)) ? runName(at, folder) : at;
      return label(name, name.includes('/') ? 40 : 18);
    };
    const rows = runs.map(
      ({ folder: at, runId, state, model, task, seed, iterations, before, after, n, pairedP }) => {
        const own = [runId.slice(0, 8) || '–', named(at), state];
        return state === 'unreadable'
          ? own
          : [
              ...own,
              `${iterations}`,
              percent(before),
              percent(after),
              `${n}`,
              pairedP == null ? '–' : pValue(pairedP),
              `${seed}`,
              `${model}`,
              `${task}`,
            ];
      },
    );
    const reasons = runs.flatMap(({ folder: at, reason }) =>
      reason === undefined ? [] : [`${label(at, 80)}: ${label(reason, 300)}`],
    );
    const columns = [
      'run',
      'folder',
      'state',
      'iter.',
      'before',
      'after',
      'n',
      'p',
      'seed',
      'model',
      'task',
    ];
    print(`${listTable(columns, rows, terminalStyle(process.stdout))}\n`);
    if (reasons.length > 0) print(`\n${reasons.join('\n')}\n`);
  },
});
