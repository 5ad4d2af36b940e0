import type { CommandModule, Options } from 'yargs';
import { planRun, type RunPlan } from '../training/dry-run.js';
import { compareModes } from '../operations/compare-modes.js';
import { MODES, type Mode } from '../training/modes/mode.js';
import { publishRun } from '../operations/publish.js';
import { run } from '../operations/tracked-run.js';
import { withProfile } from '../training/profile.js';
import { mergeSettings, type RunSettingsInput } from '../training/settings.js';
import { defineCommand } from './command.js';
import { interrupted, interruption, print, printJson, UsageError } from './output.js';
import { pageBeside } from './page-beside.js';
import { Progress } from './progress.js';
import { terminalStyle } from '../report/terminal-style.js';
import { dryRunText } from './run-plan.js';
import { RunScreen } from './run-screen.js';
import { plannedWork } from './time-left.js';
import { cannotRead, note } from './adapter-notes.js';
import { runDefaults } from './answering.js';
import { comparisonText, endedAlready, resultText } from './run-table.js';
import { checkSettings, readSettings, settingFlags } from './setting-flags.js';
import { registryOf, registryOption } from './registry-flags.js';
import { verifierThreadsOption } from './tasks-generate.js';
import { logToOption, trackersOf } from './log-to.js';

/** No rollout passed in any iteration. */
const NOTHING_ACCEPTED = 3;

/** A way of running the loop: what is settled by its name. */
interface LoopCommand {
  readonly command: string;
  readonly describe: string;
  /** Settings that are no flags of it. */
  readonly preset?: RunSettingsInput;
  readonly omitted?: readonly string[];
  /** A setting that has to be given, by its flag. */
  readonly demanded?: string;
  readonly examples: readonly (readonly [command: string, what: string])[];
}

const demanding = (
  flags: Record<string, Options>,
  flag: string | undefined,
): Record<string, Options> =>
  flag === undefined ? flags : { [flag]: { ...flags[flag], demandOption: true }, ...flags };

export const loopCommand = ({
  command,
  describe,
  preset = {},
  omitted = [],
  demanded,
  examples,
}: LoopCommand): CommandModule =>
  defineCommand({
    command,
    describe,
    builder: (yargs) =>
      examples.reduce(
        (described, [line, what]) => described.example(line, what),
        yargs
          .option('out', {
            type: 'string',
            requiresArg: true,
            describe:
              'run folder; default: runs/<run id>, or an unfinished run of the same settings there',
          })
          .option('config', {
            type: 'string',
            requiresArg: true,
            describe: 'JSON file of settings; flags come first',
          })
          .option('mode', {
            choices: MODES,
            array: true,
            default: ['isopro'] as Mode[],
            describe:
              'isopro: the loop; the others answer the test problems without training; several or all: one table',
          })
          .option('dry-run', {
            type: 'boolean',
            default: false,
            describe: 'print the resolved settings and what they would cost, train nothing',
          })
          .option('publish', {
            type: 'boolean',
            default: false,
            describe: 'put the adapter into the registry when the run has ended',
          })
          .option('registry', {
            ...registryOption,
            describe: 'folder of the registry of --publish',
          })
          .option('ui', {
            type: 'boolean',
            default: false,
            describe: 'show the run in a browser while it goes on (`isopro-native ui`)',
          })
          .option('verifier-threads', verifierThreadsOption)
          .option('log-to', logToOption)
          // read through the schema, not through yargs' types
          .options(demanding(settingFlags(omitted), demanded) as Record<never, never>)
          .epilogue(
            'The same command on the same folder goes on after an interruption. Exit code 3: the run ended, and no iteration had a ' +
              'rollout to train on.',
          ),
      ),
    handler: async (argv) => {
      if (argv.publish && argv.mode.join() !== 'isopro')
        throw new UsageError('--publish goes with the loop alone: leave out --mode.');
      const logTo = trackersOf(argv.logTo);
      const flags = mergeSettings(readSettings(argv, argv.config), preset);
      checkSettings(flags); // before a model is fetched to see how large it is
      const signal = interruption();
      if (argv.dryRun) {
        const plan = await dryRun(flags, signal, argv.verifierThreads);
        if (argv.json) printJson(plan);
        else print(dryRunText(plan, terminalStyle(process.stdout)));
        return;
      }
      const options = {
        signal,
        ...(argv.out === undefined ? {} : { out: argv.out }),
        logTo,
        ...(argv.verifierThreads === undefined ? {} : { verifierThreads: argv.verifierThreads }),
      };
      if (argv.mode.some((mode) => mode !== 'isopro')) {
        const comparison = await withScreen(
          flags,
          signal,
          (given, { onMethod, onDownload: _, ...hooks }) =>
            compareModes(argv.mode, given, { ...options, onMethod, ...hooks }),
        );
        if (argv.json) printJson(comparison);
        else print(comparisonText(comparison));
        return;
      }
      await using _page = argv.ui
        ? await pageBeside(checkSettings(flags).model.name, argv.out)
        : null;
      const { result, settings, resumedAfter, hasBegun } = await withScreen(
        flags,
        signal,
        async (given, hooks) => {
          const { onMethod: _, onDownload: __, ...others } = hooks;
          const result = await run(given, { ...options, ...others });
          return {
            settings: checkSettings(given),
            result,
            resumedAfter: hooks.resumedAfter,
            hasBegun: hooks.hasBegun,
          };
        },
      );
      const published =
        argv.publish && result.accepted > 0
          ? await publishRun(registryOf(argv), result.folder)
          : null;
      if (argv.json) {
        const { runId, folder, test, trivialPolicies, forgetting, seconds, peakRssBytes, ...rest } =
          result;
        printJson({
          runId,
          folder,
          resumedAfter,
          nothingRun: !hasBegun,
          test,
          trivialPolicies,
          forgetting,
          seconds,
          peakRssBytes,
          ...rest,
          ...(published === null ? {} : { published: published.id }),
        });
      } else {
        if (!hasBegun) print(endedAlready(result.folder));
        print(resultText(result, settings, await runDefaults(settings.model.name, signal)));
        if (published !== null) print(`\npublished as ${published.name}\n`);
      }
      if (result.accepted === 0) process.exitCode = NOTHING_ACCEPTED;
    },
  });

export const runCommand = loopCommand({
  command: 'run',
  describe: 'Make a model better at a task by its own verified answers, and prove it',
  examples: [
    ['$0 run', 'the embedded model on scheduling, a few minutes'],
    ['$0 run --model qwen2.5-3b --seed 123 --out runs/qwen', 'a downloaded model'],
    [
      '$0 run --mode all',
      'the loop beside zero-shot, few-shot, multi-turn, chained calls, best-of-k, majority and pass@k',
    ],
    ['$0 run --mode isopro zero-shot best-of-k', 'the loop beside two of them'],
    ['$0 run --task ./my-task.ts --iterations 3 --dry-run', 'what an own task would cost'],
  ],
});

/** Measured for some seconds, with a line meanwhile. */
async function dryRun(
  flags: RunSettingsInput,
  signal: AbortSignal,
  verifierThreads: number | undefined,
): Promise<RunPlan> {
  using progress = new Progress({ label: 'measuring', unit: 'seconds' });
  const { model, task } = checkSettings(flags);
  note(cannotRead(model.name, task));
  progress.begin('the model loads, samples and trains for some seconds');
  return planRun(checkSettings(await withProfile(flags, signal)), signal, verifierThreads);
}

/** Runs with a screen, from before the model is there, and words an interruption as what it is. */
async function withScreen<T>(
  flags: RunSettingsInput,
  signal: AbortSignal,
  work: (given: RunSettingsInput, hooks: RunScreen) => Promise<T>,
): Promise<T> {
  const settings = checkSettings(flags);
  const { model, task } = settings;
  using screen = new RunScreen({
    title: `${model.name} on ${task}`,
    planned: plannedWork(settings),
  });
  const unable = cannotRead(model.name, task);
  if (unable !== null) screen.onNotice(unable);
  try {
    return await work(await withProfile(flags, signal, screen.onDownload), screen);
  } catch (error) {
    throw interrupted(
      error,
      'the run',
      'Nothing complete was lost: the same command goes on from the last checkpoint.',
    );
  }
}
