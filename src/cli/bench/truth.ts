import { benchTruth } from '../../../bench/truth.js';
import { resolveModel } from '../../engine/model-files.js';
import { interruption, print, printJson, printNote } from '../output.js';
import { matmulOption, number, readCount, readSeed, text, threadsOption } from '../option.js';
import { command } from '../command.js';

export const benchTruthCommand = command({
  command: 'truth',
  describe:
    "Measure reading beliefs along a model's reasoning: readouts per second, and their cost relative to the reasoning",
  options: {
    model: text('path of a GGUF file, an alias, or an hf: URI', 'smollm2-135m'),
    problems: number('problems, claims about sums', 200),
    tokens: number('tokens per reasoning', 128),
    readouts: number('readouts per reasoning: before its first step and after each step', 6),
    threads: threadsOption,
    matmul: matmulOption,
    seed: text('64-bit seed of problems and sampling', '0'),
  },
  examples: [['$0 bench truth --json', 'figures as JSON']],
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
        `cost      ${result.costOfReadouts.toFixed(2)} times the cost of evaluating the reasoning, excluding the probes' own tokens\n`,
    );
  },
});
