import { tasksBaselinesCommand } from './baselines.js';
import { tasksCalibrateCommand } from './calibrate.js';
import { tasksCheckCommand } from './check.js';
import { tasksGenerateCommand } from './generate.js';
import { tasksListCommand } from './list.js';
import { tasksNewCommand } from './new.js';
import { tasksVerifyCommand } from './verify.js';
import { commandGroup } from '../command.js';

export const tasksCommand = commandGroup({
  command: 'tasks',
  describe:
    'List, write and check tasks; print problems; judge replies; measure models and trivial policies',
  commands: [
    tasksListCommand,
    tasksNewCommand,
    tasksCheckCommand,
    tasksGenerateCommand,
    tasksVerifyCommand,
    tasksBaselinesCommand,
    tasksCalibrateCommand,
  ],
  examples: [['$0 tasks generate --tier T1', 'one problem as a model sees it']],
});
