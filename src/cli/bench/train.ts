import { benchGroup, benchPrompts, benchTrain } from '../../../bench/train.js';
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
    '--group, on samples of one prompt; with --adapter-from reply, on prompts of their own',
  options: {
    shapes: {
      choices: ['smollm2-135m', 'qwen2.5-0.5b', 'qwen2.5-3b'] as const,
      array: true,
      default: ['qwen2.5-0.5b', 'qwen2.5-3b'] as ('smollm2-135m' | 'qwen2.5-0.5b' | 'qwen2.5-3b')[],
      describe: 'model shapes, built on first use (0.1, 0.4 and 1.9 GB)',
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
    'adapter-from': {
      choices: ['reply'] as const,
      describe:
        'measure a step of an adapter that acts from the reply on, with new prompts and with kept ones, next to an ordinary one',
      conflicts: ['torch', 'group', 'top'],
    },
    sequences: number('with --adapter-from: sequences of a step', 8),
    'prompt-tokens': {
      ...number('with --group or --adapter-from: tokens of a prompt'),
      defaultDescription: '300, with --adapter-from 350',
    },
    'reply-tokens': {
      ...number('with --group or --adapter-from: tokens of a reply'),
      defaultDescription: '100, with --adapter-from 30',
    },
    'trainer-memory': number(
      'with --group or --adapter-from: memory for activations, gradients and moments, in bytes; default: 1.6e9 for 0.5B, 1e9 for ' +
        '3B, with --adapter-from 6e8',
    ),
  },
  examples: [
    ['$0 bench train --shapes qwen2.5-0.5b --json', ''],
    [
      '$0 bench train --prompt-tokens 300 --reply-tokens 100 --group 8',
      'what sharing a prompt saves',
    ],
    ['$0 bench train --adapter-from reply --shapes smollm2-135m', 'what leaving prompts out saves'],
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
    adapterFrom,
    sequences,
    promptTokens: prompt,
    replyTokens: answer,
    trainerMemory,
  }) => {
    const [promptTokens, replyTokens] = [
      prompt ?? (adapterFrom === undefined ? 300 : 350),
      answer ?? (adapterFrom === undefined ? 100 : 30),
    ];
    if (adapterFrom !== undefined) {
      if (![sequences, replyTokens, promptTokens - 3].every((n) => Number.isInteger(n) && n >= 1))
        throw new UsageError(
          '--sequences and --reply-tokens take whole numbers from 1, --prompt-tokens from 4',
        );
      const result = await benchPrompts({
        ...{ shapes, threads, rounds, sequences, promptTokens, replyTokens },
        ...given({ memoryBytes: trainerMemory }),
        onRow: ({ shape, ordinary, evaluated, kept, peakRssBytes, anonymousBytes }) =>
          printNote(
            `${shape}: ${ordinary.toFixed(2)} processor seconds for an ordinary step, ${evaluated.toFixed(2)} from the reply on ` +
              `(${(ordinary / evaluated).toFixed(2)} times), ${kept.toFixed(2)} with kept prompts ` +
              `(${(ordinary / kept).toFixed(2)} times)${memoryText(peakRssBytes, anonymousBytes)}\n`,
          ),
      });
      if (json) printJson(result);
      return;
    }
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
