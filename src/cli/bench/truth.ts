import { benchTruth } from '../../../bench/truth.js';
import { resolveModel } from '../../engine/model-files.js';
import { interruption, print, printJson, printNote } from '../output.js';
import { matmulOption, number, readCount, readSeed, text, threadsOption } from '../option.js';
import { command } from '../command.js';

export const benchTruthCommand = command({
  command: 'truth',
  describe:
    'Beliefs read from a model along its reasoning: readouts a second, and what they cost beside evaluating the reasoning',
  options: {
    model: text('path of a GGUF file, an alias, or an hf: URI', 'smollm2-135m'),
    problems: number('claims about sums', 200),
    tokens: number('tokens of each reasoning', 128),
    readouts: number('of each reasoning: before its first step, and after each', 6),
    threads: threadsOption,
    matmul: matmulOption,
    seed: text('64-bit seed of problems and sampling', '0'),
  },
  examples: [['$0 bench truth --json', 'figures for a program']],
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
