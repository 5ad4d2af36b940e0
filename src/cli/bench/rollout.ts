import { benchModel } from '../../../bench/models.js';
import { benchRollout } from '../../../bench/rollout.js';
import { resolveModel } from '../../engine/model-files.js';
import { given } from '../../given.js';
import { print, printJson, printNote } from '../output.js';
import { command } from '../command.js';
import { matmulOption, number, text, threadsOption } from '../option.js';

export const benchRolloutCommand = command({
  command: 'rollout',
  describe: 'Compare batched sampling: isopro-native, a bare llama_decode loop, node-llama-cpp',
  options: {
    model: text(
      'GGUF file, alias or hf: URI; default: random weights in the shape of Qwen2.5-0.5B',
    ),
    prompts: number('prompts', 4),
    samples: number('answers per prompt', 16),
    tokens: number('tokens per answer', 64),
    'prompt-tokens': number('tokens per prompt', 256),
    rounds: number('interleaved rounds; medians are reported', 3),
    threads: threadsOption,
    matmul: matmulOption,
    seed: text('64-bit seed of prompts and sampling', '0'),
  },
  examples: [['$0 bench rollout --prompts 4 --samples 16 --tokens 64 --json', '']],
  handler: async (argv) => {
    const result = await benchRollout({
      modelPath:
        argv.model === undefined
          ? benchModel('qwen2.5-0.5b')
          : (await resolveModel(argv.model)).path,
      ...given(argv, 'prompts', 'samples', 'tokens', 'promptTokens', 'rounds', 'threads', 'matmul'),
      seed: BigInt(argv.seed),
      onRound: (round, of, rate) =>
        printNote(`round ${round}  ${of.padEnd(12)}  ${rate.toFixed(1)} tokens/s\n`),
    });
    if (argv.json) return printJson(result);
    const { ours, bareLoop, nodeLlamaCpp } = result;
    print(
      `ours            ${ours.toFixed(1)} tokens/s\n` +
        `bare loop       ${bareLoop.toFixed(1)} tokens/s  (isopro-native: ${(ours / bareLoop).toFixed(2)} of that)\n` +
        `node-llama-cpp  ${nodeLlamaCpp.toFixed(1)} tokens/s  (isopro-native: ${(ours / nodeLlamaCpp).toFixed(2)} times as fast)\n`,
    );
  },
});
