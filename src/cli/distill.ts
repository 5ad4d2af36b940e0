import { distill } from '../algorithms/distill.js';
import { loopCommand } from './run.js';

/** The loop of `run`, with a teacher. */
export const distillCommand = loopCommand({
  command: distill.id,
  describe: 'Teach a model what a better one makes of its own replies, token by token',
  preset: { algorithm: { id: distill.id } },
  omitted: ['algorithm'],
  demanded: 'teacher',
  examples: [
    [
      '$0 distill --model smollm2-135m --teacher smollm2-360m --task extract',
      'a larger model of the same family',
    ],
    [
      '$0 distill --model smollm2-135m --teacher smollm2-135m --teacher-examples 4 --task extract',
      'the same model with solved examples',
    ],
  ],
});
