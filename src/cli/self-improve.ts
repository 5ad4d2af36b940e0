import { loopCommand } from './run.js';

/** ReST-EM: the loop of `run`, in which every round trains from the base model. */
export const selfImproveCommand = loopCommand({
  command: 'self-improve',
  describe:
    'Rounds of sampling, keeping what passes and training anew from the base model; the best round is what is left',
  preset: {
    algorithm: { fromBase: true },
    monitor: { policy: 'observe' },
    evaluation: { gate: true },
  },
  omitted: ['algorithm', 'fromBase', 'policy', 'gate'],
  examples: [
    ['$0 self-improve --iterations 3', 'three rounds on the embedded model'],
    [
      '$0 self-improve --model smollm2-135m --task extract --no-accumulate',
      'each round on what it sampled itself, as the paper has it',
    ],
  ],
});
