import { evaluate } from '../../operations/evaluate.js';
import { operationCommand } from '../operation-command.js';
import { evaluationText } from './eval-text.js';

export const evalCommand = operationCommand(evaluate, {
  interrupted: [
    'the evaluation',
    'The same command starts over. The file of --out has the replies so far.',
  ],
  text: (evaluation, _, style) => evaluationText(evaluation, style),
  examples: [
    ['$0 eval --model qwen2.5-0.5b --per-tier 25', 'greedy, on a prefix of the frozen test set'],
    [
      '$0 eval --forgetting --model smollm2-135m --adapter adapter.gguf',
      'what the adapter made the model forget',
    ],
    [
      '$0 eval --adapter runs/3f2a/adapters/9c0d.gguf --samples 8 --k 1,8',
      'pass@1 and pass@8 with an adapter',
    ],
  ],
});
