import { selfImprove } from '../../operations/run.js';
import { loopCommand } from './run-command.js';

export const selfImproveCommand = loopCommand(selfImprove, [
  ['$0 self-improve --iterations 3', 'three rounds on the embedded model'],
  [
    '$0 self-improve --model smollm2-135m --task extract --no-accumulate',
    'each round on what it sampled itself, as the paper has it',
  ],
]);
