import { distill } from '../../operations/run.js';
import { loopCommand } from './run-command.js';

export const distillCommand = loopCommand(distill, [
  [
    '$0 distill --model smollm2-135m --teacher smollm2-360m --task extract',
    'a larger model of the same family',
  ],
  [
    '$0 distill --model smollm2-135m --teacher smollm2-135m --teacher-examples 4 --task extract',
    'the same model with solved examples',
  ],
]);
