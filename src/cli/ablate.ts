import { writeFileAtomically } from '../engine/atomic-file.js';
import path from 'node:path';
import { ablate, ABLATION_SEEDS, CONDITION_NAMES } from '../operations/ablation.js';
import { ablateEmbedded } from '../embedded/ablation.js';
import { ablationText } from './ablate-table.js';
import { defineCommand } from './command.js';
import { tell } from './job-channel.js';
import { interrupted, interruption, print, printJson } from './output.js';
import { RunScreen } from './run-screen.js';
import { checkSettings, readSettings, settingFlags } from './setting-flags.js';

export const ablateCommand = defineCommand({
  command: 'ablate',
  describe: 'The loop against itself with one thing changed, over several seeds',
  builder: (yargs) =>
    yargs
      .option('out', {
        type: 'string',
        requiresArg: true,
        default: 'ablation',
        describe: 'folder of the runs and of ablation.json',
      })
      .option('config', {
        type: 'string',
        requiresArg: true,
        describe: 'JSON file of settings; flags come first',
      })
      .option('conditions', {
        choices: CONDITION_NAMES,
        array: true,
        default: CONDITION_NAMES,
        describe: 'what to compare with the full loop',
      })
      .option('seeds', {
        type: 'string',
        array: true,
        default: [...ABLATION_SEEDS],
        describe: 'one run of each condition for each',
      })
      .options(settingFlags(['seed']) as Record<never, never>)
      .epilogue('Goes on where it was interrupted: runs that have ended are not repeated.')
      .example(
        '$0 ablate --out results/ablation',
        'every condition on the embedded model, three seeds',
      )
      .example(
        '$0 ablate --conditions random-layers shuffled-verdicts --seeds 42',
        'two controls, one seed',
      ),
  handler: async (argv) => {
    const given = readSettings(argv, argv.config);
    checkSettings(given);
    const signal = interruption();
    using screen = new RunScreen({ title: 'ablation' });
    const left = (error: unknown): never => {
      throw interrupted(
        error,
        'the ablation',
        'Runs that have ended are kept: the same command goes on.',
      );
    };
    const runs = await ablate(given, {
      out: argv.out,
      conditions: argv.conditions,
      seeds: argv.seeds,
      signal,
      onProgress: screen.onProgress,
      onIteration: screen.onIteration,
      onRule: screen.onRule,
      onRun: (condition, seed, done, total) => {
        const text = `run ${done + 1} of ${total}: ${condition}, seed ${seed}`;
        tell('notice', { text });
        screen.say(text);
      },
    }).catch(left);
    const embedded = await ablateEmbedded(given, argv.out, runs, signal).catch(left);
    screen[Symbol.dispose]();
    const result = { ...runs, embedded };
    await writeFileAtomically(path.join(argv.out, 'ablation.json'), [
      Buffer.from(`${JSON.stringify(result, null, 2)}\n`),
    ]);
    if (argv.json) printJson(result);
    else print(ablationText(runs, embedded));
  },
});
