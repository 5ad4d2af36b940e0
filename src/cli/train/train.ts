import { existsSync } from 'node:fs';
import { TrainFiles } from '../../operations/train/files.js';
import { train } from '../../operations/train/train.js';
import { operationCommand } from '../operation-command.js';
import { trainScreen, trainText } from './train-screen.js';

export const trainCommand = operationCommand(train, {
  screen: trainScreen,
  text: trainText,
  lines: 'step',
  interrupted: [
    'the training',
    ({ out }) => {
      const { state } = new TrainFiles(out);
      return existsSync(state)
        ? `Run the same command with --resume to continue from ${state}.`
        : 'Nothing had been saved yet: start again.';
    },
  ],
  examples: [
    ['$0 train --model qwen2.5-0.5b --data train.jsonl --out mine.gguf', 'one epoch over a file'],
    [
      '$0 train --model qwen2.5-0.5b --data train.jsonl --out mine.gguf --resume',
      'continue after an interruption',
    ],
  ],
});
