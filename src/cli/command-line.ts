import { readFileSync } from 'node:fs';
import yargs from 'yargs';
import { IsoproError } from '../errors.js';
import { passEnvironment } from '../keys.js';
import { misuseText, wrongNumber } from './misuse.js';
import { COMMAND_NAMES, commandsFor } from './commands.js';
import { reportFailure, UsageError } from './output.js';

/** Ours: yargs would take that of the program around it. */
const VERSION = (
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  }
).version;
// `| head` has read enough: that ends the program and is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.exit(
    reportFailure(
      new IsoproError('WRITE_FAILED', `standard output could not be written: ${error.message}`, {
        cause: error,
      }),
      process.argv.includes('--json'),
    ),
  );
});
// nobody reads what is said beside the output: that is no failure of what is done
process.stderr.on('error', () => undefined);

/** @throws UsageError */
function pass(names: readonly string[] = []): void {
  try {
    passEnvironment(...names);
  } catch (error) {
    throw new UsageError((error as IsoproError).message);
  }
}

/**
 * The command line. Exit codes: 0 done, 1 the operation failed (an IsoproError, printed with its
 * remedy), 2 wrong usage, 130 cancelled with Ctrl-C; a command that documents others says so in its
 * --help.
 * @param args what follows the program's name
 */
export async function commandLine(args: readonly string[]): Promise<void> {
  const json = args.includes('--json');
  const [given] = args;
  // not within the try below: main.ts knows why a file of the program's own could not be imported
  const commands = await commandsFor(args);
  try {
    const parser = yargs([...args]);
    await parser
      .scriptName('isopro-native')
      .usage(
        '$0 <command>\n\nMakes a local language model better at a task that a program can check, and proves it.',
      )
      .command(commands)
      .demandCommand(1, 'Name a command; `isopro-native --help` lists them.')
      .option('json', {
        type: 'boolean',
        default: false,
        global: true,
        describe: 'machine-readable output on stdout, progress on stderr',
      })
      .option('pass-env', {
        type: 'string',
        array: true,
        nargs: 1,
        global: true,
        describe:
          'NAME: hand this environment variable to tasks, verifiers and other programs, although it may hold a key; repeatable',
      })
      .strict()
      .middleware((argv) => {
        const wrong = wrongNumber(argv, args);
        if (wrong !== null) throw new UsageError(wrong);
        pass(argv.passEnv as readonly string[] | undefined);
      })
      // yargs lays its help out for each command that it runs, which takes longer than to start
      .wrap(args.includes('--help') ? Math.min(110, process.stdout.columns ?? 110) : null)
      .fail((message, error) => {
        // yargs reports some misuse, a flag without its value for instance, as an error of its own.
        throw error === undefined || error === null || error.name === 'YError'
          ? new UsageError(misuseText(message ?? error?.message, parser, args))
          : error;
      })
      .help()
      .version(VERSION)
      .parseAsync();
  } catch (error) {
    process.exitCode = reportFailure(
      error,
      json,
      COMMAND_NAMES.find((name) => name === given),
    );
  }
}
