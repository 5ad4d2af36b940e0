import { benchLoop, type Resident } from '../../bench/loop.js';
import { benchModel } from '../../bench/models.js';
import { resolveModel } from '../engine/model-files.js';
import { defineCommand } from './command.js';
import { printJson, UsageError } from './output.js';
import { formatBytes } from './quantities.js';

const shown = (resident: Resident | null): string =>
  resident === null
    ? 'memory unknown'
    : `${formatBytes(resident.total)} resident: ${formatBytes(resident.anonymous)} anonymous, ${formatBytes(resident.mapped)} mapped; ` +
      `proportional set ${formatBytes(resident.proportional)}`;

export const benchLoopCommand = defineCommand({
  command: 'loop',
  describe: 'Rollouts and steps in turns: time and memory of two iterations in the shape of Qwen2.5-3B',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        describe: 'GGUF file, alias or hf: URI; default: the shape of Qwen2.5-3B, made on demand (1.9 GB)',
      })
      .option('iterations', { type: 'number', default: 2, describe: 'rounds' })
      .option('rollouts', { type: 'number', default: 16, describe: 'samples an iteration' })
      .option('samples', { type: 'number', default: 4, describe: 'samples a prompt' })
      .option('tokens', { type: 'number', default: 64, describe: 'tokens a sample' })
      .option('prompt-tokens', { type: 'number', default: 256, describe: 'tokens a prompt' })
      .option('top-layers', { type: 'number', default: 8, describe: 'trained layers' })
      .option('batch-size', { type: 'number', default: 8, describe: 'sequences a step' })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .example('$0 bench loop --json', ''),
  handler: async (argv) => {
    if (argv.rollouts % argv.samples !== 0) throw new UsageError('--rollouts must be a multiple of --samples');
    const result = await benchLoop({
      modelPath: argv.model === undefined ? benchModel('qwen2.5-3b') : (await resolveModel(argv.model)).path,
      iterations: argv.iterations,
      rollouts: argv.rollouts,
      samples: argv.samples,
      tokens: argv.tokens,
      promptTokens: argv.promptTokens,
      topLayers: argv.topLayers,
      batchSize: argv.batchSize,
      seed: 0n,
      threads: argv.threads,
      onStage: ({ iteration, stage, seconds, resident }) =>
        process.stderr.write(`  ${iteration} ${stage.padEnd(15)} ${seconds.toFixed(1).padStart(6)} s  ${shown(resident)}\n`),
      onIteration: ({ iteration, samplingSeconds, trainingSeconds, sampledTokensPerSecond, trainedTokensPerSecond, boundaryBytes }) =>
        process.stderr.write(
          `iteration ${iteration}  sampling ${samplingSeconds.toFixed(1)} s (${sampledTokensPerSecond.toFixed(1)} tokens/s)  training ` +
            `${trainingSeconds.toFixed(1)} s (${trainedTokensPerSecond.toFixed(1)} tokens/s)  ${formatBytes(boundaryBytes)} of kept ` +
            `boundaries\n`,
        ),
    });
    if (argv.json) return printJson(result);
    process.stdout.write(
      `at most ${formatBytes(result.peakRssBytes)} resident, loading included; afterwards ${shown(result.peak)}\nanonymous memory ` +
        `without kept boundaries grew by ${result.growth === null ? 'an unknown amount' : formatBytes(Math.max(0, result.growth))} from ` +
        `first to last iteration\n`,
    );
  },
});
