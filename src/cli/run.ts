import { IsoproError } from '../errors.js';
import { planRun } from '../training/dry-run.js';
import { run } from '../training/run.js';
import { defineCommand } from './command.js';
import { interruption, printJson } from './output.js';
import { dryRunText } from './run-plan.js';
import { RunScreen } from './run-screen.js';
import { resultText } from './run-table.js';
import { checkSettings, readSettings, settingFlags } from './setting-flags.js';

/** No rollout passed in any iteration. */
const NOTHING_ACCEPTED = 3;

export const runCommand = defineCommand({
  command: 'run',
  describe: 'Make a model better at a task by its own verified answers, and prove it',
  builder: (yargs) =>
    yargs
      .option('out', { type: 'string', requiresArg: true, describe: 'run folder; default: runs/<run id>, or an unfinished run of the same settings there' })
      .option('config', { type: 'string', requiresArg: true, describe: 'JSON file of settings; flags come first' })
      .option('dry-run', { type: 'boolean', default: false, describe: 'print the resolved settings and what they would cost, train nothing' })
      .options(settingFlags() as Record<never, never>) // read through the schema, not through yargs' types
      .epilogue('The same command on the same folder goes on after an interruption. Exit code 3: the run ended, and no rollout was accepted in any iteration.')
      .example('$0 run', 'the embedded model on scheduling, a few minutes')
      .example('$0 run --model qwen2.5-3b --seed 123 --out runs/qwen', 'a downloaded model')
      .example('$0 run --task ./my-task.ts --iterations 3 --dry-run', 'what an own task would cost'),
  handler: async (argv) => {
    const given = readSettings(argv, argv.config);
    const settings = checkSettings(given);
    const signal = interruption();
    if (argv.dryRun) {
      const plan = await planRun(settings, signal);
      if (argv.json) printJson(plan);
      else process.stdout.write(dryRunText(plan));
      return;
    }
    let result;
    {
      using screen = new RunScreen({ title: `${settings.model} on ${settings.task}` });
      try {
        result = await run(given, { ...(argv.out === undefined ? {} : { out: argv.out }), signal, onProgress: screen.onProgress, onIteration: screen.onIteration, onRule: screen.onRule });
      } catch (error) {
        if (error instanceof IsoproError && error.code === 'ABORTED') throw new IsoproError('ABORTED', 'the run was interrupted', { cause: error, remedy: 'Nothing complete was lost: the same command goes on from the last checkpoint.' });
        throw error;
      }
    }
    if (argv.json) {
      const { runId, folder, test, trivialPolicies, seconds, peakRssBytes, ...rest } = result;
      printJson({ runId, folder, test, trivialPolicies, seconds, peakRssBytes, ...rest });
    } else process.stdout.write(resultText(result, settings.model));
    if (result.accepted === 0) process.exitCode = NOTHING_ACCEPTED;
  },
});
