import type { CommandModule } from 'yargs';
import { runsCompareCommand } from './runs-compare.js';
import { runsListCommand } from './runs-list.js';
import { runsShowCommand } from './runs-show.js';

export const runsCommand: CommandModule = {
  command: 'runs',
  describe: 'List runs, show one, compare two',
  builder: (yargs) =>
    yargs
      .command([runsListCommand, runsShowCommand, runsCompareCommand])
      .demandCommand(1, 'Name an action: list, show or compare.'),
  handler: () => undefined,
};
