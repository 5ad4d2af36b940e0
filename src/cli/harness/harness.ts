import { commandGroup } from '../command.js';
import { harnessRunCommand } from './run.js';
import { harnessScenariosCommand } from './scenarios.js';

export const harnessCommand = commandGroup({
  command: 'harness',
  describe: 'Measure deciders by what comes of their answers',
  commands: [harnessScenariosCommand, harnessRunCommand],
  examples: [['$0 harness scenarios', 'what can go wrong in a run, one line for each case']],
});
