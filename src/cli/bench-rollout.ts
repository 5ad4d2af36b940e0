import { benchModel } from '../../bench/models.js';
import { benchRollout } from '../../bench/rollout.js';
import { resolveModel } from '../engine/model-files.js';
import { given } from '../given.js';
import { defineCommand } from './command.js';
import { print, printJson, printNote } from './output.js';

export const benchRolloutCommand = defineCommand({
  command: 'rollout',
  describe: 'Batched sampling: ours, a bare llama_decode loop, node-llama-cpp',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        describe: 'GGUF file, alias or hf: URI; default: the shape of Qwen2.5-0.5B, made on demand',
      })
      .option('prompts', { type: 'number', default: 4, describe: 'prompts' })
      .option('samples', { type: 'number', default: 16, describe: 'answers a prompt' })
      .option('tokens', { type: 'number', default: 64, describe: 'tokens an answer' })
      .option('prompt-tokens', { type: 'number', default: 256, describe: 'tokens a prompt' })
      .option('rounds', {
        type: 'number',
        default: 3,
        describe: 'interleaved rounds; medians are reported',
      })
      .option('threads', { type: 'number', describe: 'default: the physical cores' })
      .option('seed', {
        type: 'string',
        default: '0',
        describe: '64-bit seed of prompts and sampling',
      })
      .example('$0 bench rollout --prompts 4 --samples 16 --tokens 64 --json', ''),
  handler: async (argv) => {
    const result = await benchRollout({
      modelPath:
        argv.model === undefined
          ? benchModel('qwen2.5-0.5b')
          : (await resolveModel(argv.model)).path,
      prompts: argv.prompts,
      samples: argv.samples,
      tokens: argv.tokens,
      promptTokens: argv.promptTokens,
      rounds: argv.rounds,
      seed: BigInt(argv.seed),
      ...given({ threads: argv.threads }),
      onRound: (round, of, rate) =>
        printNote(`round ${round}  ${of.padEnd(12)}  ${rate.toFixed(1)} tokens/s\n`),
    });
    if (argv.json) {
      printJson(result);
      return;
    }
    const { ours, bareLoop, nodeLlamaCpp } = result;
    print(
      `ours            ${ours.toFixed(1)} tokens/s\n` +
        `bare loop       ${bareLoop.toFixed(1)} tokens/s  (ours is ${(ours / bareLoop).toFixed(2)} of it)\n` +
        `node-llama-cpp  ${nodeLlamaCpp.toFixed(1)} tokens/s  (ours is ${(ours / nodeLlamaCpp).toFixed(2)} times it)\n`,
    );
  },
});
