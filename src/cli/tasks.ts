import { defineCommand } from './command.js';
import { tasksBaselinesCommand } from './tasks-baselines.js';
import { tasksCalibrateCommand } from './tasks-calibrate.js';
import { tasksCheckCommand } from './tasks-check.js';
import { tasksGenerateCommand } from './tasks-generate.js';
import { tasksListCommand } from './tasks-list.js';
import { tasksNewCommand } from './tasks-new.js';
import { tasksVerifyCommand } from './tasks-verify.js';

export const tasksCommand = defineCommand({
  command: 'tasks',
  describe:
    'List, write and check tasks, print problems, judge replies, measure trivial policies and what a model makes of a task',
  builder: (yargs) =>
    yargs
      .command([
        tasksListCommand,
        tasksNewCommand,
        tasksCheckCommand,
        tasksGenerateCommand,
        tasksVerifyCommand,
        tasksBaselinesCommand,
        tasksCalibrateCommand,
      ])
      .demandCommand(1, 'Name an action; `isopro-native tasks --help` lists them.')
      .example('$0 tasks generate --tier T1', 'one problem as a model sees it'),
  handler: () => {},
});
