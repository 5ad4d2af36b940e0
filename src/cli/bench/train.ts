import { benchGroup, benchTrain } from '../../../bench/train.js';
import type { BesideF32 } from '../../../bench/train-row.js';
import { PRECISIONS, type Precision } from '../../engine/training-request.js';
import { given } from '../../given.js';
import { printJson, printNote, UsageError } from '../output.js';
import { formatBytes } from '../quantities.js';
import { command } from '../command.js';
import { number, text } from '../option.js';

export const benchTrainCommand = command({
  command: 'train',
  describe:
    'Measure a LoRA training step on the shapes of Qwen2.5 0.5B and 3B, on all layers and on the top ones with a cached boundary; with ' +
    '--group, on samples of one prompt',
  options: {
    shapes: {
      choices: ['qwen2.5-0.5b', 'qwen2.5-3b'] as const,
      array: true,
      default: ['qwen2.5-0.5b', 'qwen2.5-3b'] as ('qwen2.5-0.5b' | 'qwen2.5-3b')[],
      describe: 'model shapes, built on first use (0.4 and 1.9 GB)',
    },
    top: {
      type: 'number',
      array: true,
      describe: 'top layers to train; 0: all; default: 0 and 8, or 0 with --group',
    },
    threads: number('threads; 0: the physical cores', 0),
    rounds: number('measured steps; medians are reported', 3),
    precision: {
      choices: PRECISIONS,
      default: 'f32' as Precision,
      describe: "precision of the products; with bf16, f32's rate is measured by turns",
    },
    torch: text('Python with PyTorch, to compare a step in f32 (bench/peer; from a clone only)'),
    group: {
      ...number(
        'measure a step on this many replies to one prompt, with and without sharing the prompt',
      ),
      conflicts: 'torch',
    },
    'prompt-tokens': number('with --group: tokens of the prompt', 300),
    'reply-tokens': number('with --group: tokens of a reply', 100),
    'trainer-memory': number(
      'with --group: memory for activations, gradients and moments, in bytes; default: 1.6e9 for 0.5B, 1e9 for 3B',
    ),
  },
  examples: [
    ['$0 bench train --shapes qwen2.5-0.5b --json', ''],
    [
      '$0 bench train --prompt-tokens 300 --reply-tokens 100 --group 8',
      'what sharing a prompt saves',
    ],
  ],
  handler: async ({
    json,
    shapes,
    top,
    threads,
    rounds,
    precision,
    torch,
    group,
    promptTokens,
    replyTokens,
    trainerMemory,
  }) => {
    if (group !== undefined) {
      if ([group, promptTokens, replyTokens].some((count) => !Number.isInteger(count) || count < 1))
        throw new UsageError(
          '--group, --prompt-tokens and --reply-tokens take whole numbers from 1',
        );
      const result = await benchGroup({
        shapes,
        top: top ?? [0],
        threads,
        rounds,
        precision,
        group,
        promptTokens,
        replyTokens,
        ...given({ memoryBytes: trainerMemory }),
        onRow: ({ shape, layers, shared, unshared, beside, peakRssBytes, anonymousBytes }) =>
          printNote(
            `${shape} ${layers} layers: ${shared.toFixed(1)} tokens/s with the prompt shared, ${unshared.toFixed(1)} without, ` +
              `${(shared / unshared).toFixed(2)} times${besideText(beside)}${memoryText(peakRssBytes, anonymousBytes)}\n`,
          ),
      });
      if (json) printJson(result);
      return;
    }
    const result = await benchTrain({
      shapes,
      top: top ?? [0, 8],
      threads,
      rounds,
      precision,
      ...given({ torch }),
      onRow: (row) => {
        const peer =
          row.torch === null
            ? ''
            : `; PyTorch ${row.torch.tokensPerSecond.toFixed(1)} tokens/s, peak ${formatBytes(row.torch.peakRssBytes)}`;
        printNote(
          `${row.shape} ${row.layers} layers${row.boundaryCached ? ', cached boundary' : ''}: ${row.tokensPerSecond.toFixed(1)} ` +
            `tokens/s${besideText(row.beside)}, ` +
            `${row.usefulGflops.toFixed(1)} useful GFLOP/s (${(row.usefulGflops / row.gemmGflops).toFixed(2)} of the product ` +
            `alone)${memoryText(row.peakRssBytes, row.anonymousBytes)}${peer}\n`,
        );
      },
    });
    if (json) printJson(result);
  },
});

const besideText = (beside: BesideF32 | null): string =>
  beside === null
    ? ''
    : ` in bf16, ${beside.tokensPerSecond.toFixed(1)} in f32 (${beside.times.toFixed(2)} times by processor time)`;

const memoryText = (peak: number | null, anonymous: number | null): string =>
  peak === null || anonymous === null
    ? ''
    : `, peak ${formatBytes(peak)}, anonymous ${formatBytes(anonymous)}`;
