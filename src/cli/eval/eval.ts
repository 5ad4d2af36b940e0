import { evaluate } from '../../operations/evaluate.js';
import { operationCommand } from '../operation-command.js';
import { screenOf } from '../person.js';
import { evaluationText } from './eval-text.js';

export const evalCommand = operationCommand(evaluate, {
  interrupted: [
    'the evaluation',
    ({ record, backend }) =>
      record !== undefined || !/^(local|recorded|command|human)/.test(backend)
        ? 'The same command continues: replies that were recorded are not asked for again.'
        : 'The same command starts over. The file of --out has the replies so far.',
  ],
  screen: ({ backend }) => screenOf(backend),
  text: (evaluation, _, style) => evaluationText(evaluation, style),
  examples: [
    ['$0 eval --model qwen2.5-0.5b --per-tier 25', 'greedy, on a prefix of the frozen test set'],
    [
      '$0 eval --task extract --backend openai:gpt-5-mini --max-cost 1 --price 0.25/2',
      'a hosted model, for at most 1 in the currency of the price',
    ],
    ['$0 eval --backend http://127.0.0.1:8080/v1#my-model', 'a server on this machine'],
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
