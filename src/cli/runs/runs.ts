import { runsCompareCommand } from './compare.js';
import { runsListCommand } from './list.js';
import { runsShowCommand } from './show.js';
import { commandGroup } from '../command.js';

export const runsCommand = commandGroup({
  command: 'runs',
  describe: 'List runs, show one, compare two',
  commands: [runsListCommand, runsShowCommand, runsCompareCommand],
});
