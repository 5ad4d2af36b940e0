/** A command of an operation: its flags, its screen, its result. */
import type { CommandModule, Options } from 'yargs';
import type { z } from 'zod';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { WrongSetting, type Context, type Operation, type Told } from '../operations/operation.js';
import { terminalStyle, type TerminalStyle } from '../report/terminal-style.js';
import { defineCommand } from './command.js';
import { interrupted, interruption, print, printJson, UsageError } from './output.js';
import { Progress } from './progress.js';

/** What a person sees while an operation works. */
export interface Screen extends Disposable {
  readonly tell: (told: Told) => void;
  readonly ask?: Context['ask'];
}

/** A line of progress for each stage, on stderr. */
export function progressScreen(): Screen {
  let [stage, line]: [string, Progress | null] = ['', null];
  return {
    tell: ({ type, data }) => {
      if (type !== 'progress') return;
      const told = data as {
        stage: string;
        done: number;
        total: number;
        unit: string;
        note?: string;
      };
      if (told.stage !== stage || line === null) {
        line?.[Symbol.dispose]();
        line = new Progress({ label: told.stage, unit: told.unit });
        stage = told.stage;
      }
      line.update(told.done, {
        ...(told.total > 0 && { total: told.total }),
        ...given(told, 'note'),
      });
    },
    [Symbol.dispose]: () => line?.[Symbol.dispose](),
  };
}

export interface OperationCommand<Schema extends z.ZodObject, Result> {
  readonly examples: readonly (readonly [command: string, what: string])[];
  readonly epilogue?: string;
  /** Settings that are not flags of this command. */
  readonly omitted?: readonly string[];
  /** Reads the settings in a file, for `--config`; absent: there is no such flag. */
  readonly readFile?: (file: string) => object;
  /** Default: a line for each stage. */
  readonly screen?: (settings: z.output<Schema>) => Screen;
  /** What an interruption ends, and how to continue. */
  readonly interrupted: readonly [
    what: string,
    remedy: string | ((settings: z.output<Schema>) => string),
  ];
  readonly text: (result: Result, settings: z.output<Schema>, style: TerminalStyle) => string;
  /** Default 0. */
  readonly exitCode?: (result: Result) => number;
}

/** `judge <run>`, of the last word of an operation's id and its arguments. */
const commandOf = ({ id, flags }: Pick<Operation, 'id' | 'flags'>): string =>
  [
    id.split(' ').at(-1),
    ...flags.all
      .filter(({ field }) => field.positional === true)
      .map(({ name, field, isRequired }) => {
        const word = field.type === 'array' ? `${name}..` : name;
        return isRequired ? `<${word}>` : `[${word}]`;
      }),
  ].join(' ');

/** @throws UsageError naming flags, where settings are wrong */
export function settingsOf<Schema extends z.ZodObject>(
  { flags, read }: Pick<Operation<Schema>, 'flags' | 'read'>,
  argv: Readonly<Record<string, unknown>>,
  file: object = {},
): { readonly given: z.input<Schema>; readonly settings: z.output<Schema> } {
  try {
    const given = flags.read(argv, file as Record<string, unknown>) as z.input<Schema>;
    return { given, settings: read(given) };
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
    throw new UsageError(flags.named(error.message));
  }
}

const CONFIG = {
  type: 'string',
  requiresArg: true,
  describe: 'JSON file of settings; flags come first',
} as const;

export const operationCommand = <Schema extends z.ZodObject, Result>(
  operation: Operation<Schema, Result>,
  {
    examples,
    epilogue,
    omitted = [],
    readFile,
    screen: screenOf = progressScreen,
    interrupted: [what, remedy],
    text,
    exitCode = () => 0,
  }: OperationCommand<Schema, Result>,
): CommandModule =>
  defineCommand({
    command: commandOf(operation),
    describe: operation.title,
    builder: (yargs) => {
      let described = yargs;
      for (const [name, positional] of Object.entries(operation.flags.positionals()))
        described = described.positional(name, positional) as typeof described;
      // read through the schema, not through yargs' types
      described = described.options({
        ...(readFile === undefined ? {} : { config: CONFIG }),
        ...operation.flags.options(omitted),
      } as Record<never, Options>);
      for (const [line, does] of examples) described = described.example(line, does);
      return epilogue === undefined ? described : described.epilogue(epilogue);
    },
    handler: async (argv) => {
      const { config } = argv as { readonly config?: string };
      const file = config === undefined ? {} : readFile!(config);
      const { given: stated, settings } = settingsOf(operation, argv, file);
      const signal = interruption();
      let result: Result;
      {
        using screen = screenOf(settings);
        const context = { signal, ...given(screen, 'tell', 'ask') };
        result = await operation.run(stated, context).catch((error: unknown) => {
          const how = typeof remedy === 'string' ? remedy : remedy(settings);
          if (error instanceof WrongSetting)
            throw new UsageError(operation.flags.named(error.message));
          throw interrupted(error, what, how);
        });
      }
      if (argv.json) printJson(result);
      else print(text(result, settings, terminalStyle(process.stdout)));
      process.exitCode = exitCode(result);
    },
  });
