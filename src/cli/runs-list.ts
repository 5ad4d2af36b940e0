import { pValue, percent } from '../report/figures.js';
import { listRuns, RUNS } from '../report/run-list.js';
import { listTable, terminalStyle } from '../report/terminal.js';
import { defineCommand } from './command.js';
import { printJsonLine } from './output.js';

export const runsListCommand = defineCommand({
  command: 'list [folder]',
  describe: 'Runs in a folder, newest first',
  builder: (yargs) => yargs.positional('folder', { type: 'string', default: RUNS, describe: 'folder that holds run folders' }).example('$0 runs list', 'what was run here'),
  handler: ({ folder, json }) => {
    const runs = listRuns(folder);
    if (json) return runs.forEach(printJsonLine);
    if (runs.length === 0) return void process.stdout.write(`No runs in ${folder}. Start one with: npx isopro-native run\n`);
    const rows = runs.map(({ folder: path, runId, state, model, task, seed, iterations, before, after, n, pairedP, reason }) =>
      state === 'unreadable'
        ? ['–', state, '', '', '', '', '', '', '', '', `${path}: ${reason}`]
        : [runId.slice(0, 8), state, `${iterations}`, percent(before), percent(after), `${n}`, pairedP == null ? '–' : pValue(pairedP), `${seed}`, `${model}`, `${task}`, path]);
    process.stdout.write(`${listTable(['run', 'state', 'iter.', 'before', 'after', 'n', 'p', 'seed', 'model', 'task', 'folder'], rows, terminalStyle(process.stdout))}\n`);
  },
});
