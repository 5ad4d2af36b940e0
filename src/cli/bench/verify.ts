import { benchVerify } from '../../../bench/verify.js';
import { print, printJson } from '../output.js';
import { command } from '../command.js';

export const benchVerifyCommand = command({
  command: 'verify',
  describe: 'Measure verdicts and generated problems per second (scheduling T5, one thread)',
  examples: [['$0 bench verify --json', 'figures as JSON']],
  handler: ({ json }) => {
    const result = benchVerify();
    if (json) return printJson(result);
    print(
      `judged     ${result.verdictsPerSecond} replies/s (${result.meanCharacters} characters each)\ngenerated  ` +
        `${result.generatedPerSecond} problems/s, without the solver\n`,
    );
  },
});
