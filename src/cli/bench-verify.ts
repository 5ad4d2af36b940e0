import { benchVerify } from '../../bench/verify.js';
import { defineCommand } from './command.js';
import { print, printJson } from './output.js';

export const benchVerifyCommand = defineCommand({
  command: 'verify',
  describe: 'Verdicts and generated problems a second (scheduling T5, one thread)',
  builder: (yargs) => yargs.example('$0 bench verify --json', 'figures for a program'),
  handler: ({ json }) => {
    const result = benchVerify();
    if (json) return printJson(result);
    print(
      `judged     ${result.verdictsPerSecond} replies/s (${result.meanCharacters} characters each)\ngenerated  ` +
        `${result.generatedPerSecond} problems/s, without the solver\n`,
    );
  },
});
