import { defineCommand } from './command.js';
import { tasksBaselinesCommand } from './tasks-baselines.js';
import { tasksCalibrateCommand } from './tasks-calibrate.js';
import { tasksGenerateCommand } from './tasks-generate.js';
import { tasksListCommand } from './tasks-list.js';
import { tasksVerifyCommand } from './tasks-verify.js';

export const tasksCommand = defineCommand({
  command: 'tasks',
  describe: 'List tasks, print problems, judge replies, measure trivial policies and what a model makes of a task',
  builder: (yargs) =>
    yargs
      .command([tasksListCommand, tasksGenerateCommand, tasksVerifyCommand, tasksBaselinesCommand, tasksCalibrateCommand])
      .demandCommand(1, 'Name an action; `isopro-native tasks --help` lists them.')
      .example('$0 tasks generate --tier T1', 'one problem as a model sees it'),
  handler: () => {},
});
