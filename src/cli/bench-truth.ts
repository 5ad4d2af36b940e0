import { benchTruth } from '../../bench/truth.js';
import { MATMUL_HELP, MATMULS } from '../engine/addon.js';
import { resolveModel } from '../engine/model-files.js';
import { defineCommand } from './command.js';
import { interruption, print, printJson, printNote } from './output.js';
import { readCount, readSeed } from './tasks-generate.js';

export const benchTruthCommand = defineCommand({
  command: 'truth',
  describe:
    'Beliefs read from a model along its reasoning: readouts a second, and what they cost beside evaluating the reasoning',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        requiresArg: true,
        default: 'smollm2-135m',
        describe: 'path of a GGUF file, an alias, or an hf: URI',
      })
      .option('problems', { type: 'number', default: 200, describe: 'claims about sums' })
      .option('tokens', { type: 'number', default: 128, describe: 'tokens of each reasoning' })
      .option('readouts', {
        type: 'number',
        default: 6,
        describe: 'of each reasoning: before its first step, and after each',
      })
      .option('threads', {
        type: 'number',
        requiresArg: true,
        describe: 'default: the physical cores',
      })
      .option('matmul', {
        choices: MATMULS,
        default: 'auto' as const,
        describe: MATMUL_HELP,
      })
      .option('seed', {
        type: 'string',
        default: '0',
        describe: '64-bit seed of problems and sampling',
      })
      .example('$0 bench truth --json', 'figures for a program'),
  handler: async ({ model, problems, tokens, readouts, threads, matmul, seed, json }) => {
    const count = readCount('problems', problems, 1);
    const result = await benchTruth({
      modelPath: (await resolveModel(model)).path,
      problems: count,
      tokens: readCount('tokens', tokens, 1),
      readouts: readCount('readouts', readouts, 2),
      seed: readSeed(seed),
      matmul,
      signal: interruption(),
      onProgress: (what, done) => {
        if (done % 20 === 0 || done === count) printNote(`${what} ${done} of ${count}\n`);
      },
      ...(threads === undefined ? {} : { threads: readCount('threads', threads, 1) }),
    });
    if (json) return printJson(result);
    print(
      `reasoned  ${result.samplingSeconds.toFixed(1)} s\n` +
        `kernels   ${result.matmul}\n` +
        `read      ${result.readoutSeconds.toFixed(1)} s, ${result.readoutsPerSecond.toFixed(1)} readouts/s\n` +
        `cost      ${result.costOfReadouts.toFixed(2)} times evaluating the reasoning, without the probes' own tokens\n`,
    );
  },
});
