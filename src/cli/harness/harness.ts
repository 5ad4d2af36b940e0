import { commandGroup } from '../command.js';
import { harnessAgreeCommand } from './agree.js';
import { harnessReviewCommand } from './review.js';
import { harnessRunCommand } from './run.js';
import { harnessScenariosCommand } from './scenarios.js';

export const harnessCommand = commandGroup({
  command: 'harness',
  describe: 'Measure deciders by what comes of their answers',
  commands: [harnessScenariosCommand, harnessRunCommand, harnessReviewCommand, harnessAgreeCommand],
  examples: [['$0 harness scenarios', 'what can go wrong in a run, one line for each case']],
});
