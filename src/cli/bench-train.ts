import { benchTrain } from '../../bench/train.js';
import { defineCommand } from './command.js';
import { printJson } from './output.js';
import { formatBytes } from './quantities.js';

export const benchTrainCommand = defineCommand({
  command: 'train',
  describe: 'A LoRA step on the shapes of Qwen2.5 0.5B and 3B, all layers and the top ones with a cached boundary',
  builder: (yargs) =>
    yargs
      .option('shapes', {
        choices: ['qwen2.5-0.5b', 'qwen2.5-3b'] as const,
        array: true,
        default: ['qwen2.5-0.5b', 'qwen2.5-3b'] as ('qwen2.5-0.5b' | 'qwen2.5-3b')[],
        describe: 'made on first use: 0.4 and 1.9 GB',
      })
      .option('top', { type: 'number', array: true, default: [0, 8], describe: 'trained layers from the top; 0: all' })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .option('rounds', { type: 'number', default: 3, describe: 'measured steps; medians are reported' })
      .option('torch', {
        type: 'string',
        describe: 'a Python with PyTorch, whose step in f32 is measured beside (bench/peer; from the repository only)',
      })
      .example('$0 bench train --shapes qwen2.5-0.5b --json', ''),
  handler: async ({ json, shapes, top, threads, rounds, torch }) => {
    const result = await benchTrain({
      shapes,
      top,
      threads,
      rounds,
      ...(torch === undefined ? {} : { torch }),
      onRow: (row) => {
        const peer =
          row.torch === null
            ? ''
            : `; PyTorch ${row.torch.tokensPerSecond.toFixed(1)} tokens/s, peak ${formatBytes(row.torch.peakRssBytes)}`;
        const memory =
          row.peakRssBytes === null ? '' : `, peak ${formatBytes(row.peakRssBytes)}, anonymous ${formatBytes(row.anonymousBytes ?? 0)}`;
        process.stderr.write(
          `${row.shape} ${row.layers} layers${row.boundaryCached ? ', cached boundary' : ''}: ${row.tokensPerSecond.toFixed(1)} ` +
            `tokens/s, ` +
            `${row.usefulGflops.toFixed(1)} useful GFLOP/s (${(row.usefulGflops / row.gemmGflops).toFixed(2)} of the product ` +
            `alone)${memory}${peer}\n`,
        );
      },
    });
    if (json) printJson(result);
  },
});
